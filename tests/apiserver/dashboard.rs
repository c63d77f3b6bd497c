//! The dashboard, with the series of a real operator in a real Prometheus.

use crate::dns::{Name, externals, set_spec};
use crate::prometheus::Prometheus;
use crate::suite::{Case, cases};
use crate::world::{World, met};
use flipop_cloud::Provider;
use flipop_envtest::Outcome;
use flipop_envtest::api_proxy::{Answer, Meet, Rule};

/// The reason shown if they are missing.
pub(crate) const NEEDS: &str = "needs prometheus and promtool";

pub(crate) fn cases() -> Vec<Case> {
    cases![InstalledWithPrometheus: every_query_of_the_dashboard_has_an_answer_after_a_failover]
}

/// Whether Prometheus can be run.
pub(crate) fn prometheus_is_installed() -> bool {
    ["prometheus", "promtool"]
        .iter()
        .all(|program| std::process::Command::new(program).arg("--version").output().is_ok())
}

async fn every_query_of_the_dashboard_has_an_answer_after_a_failover(world: &mut World) -> Outcome {
    let _zone = world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let (proxy, operator) = world.dns_operator_behind().await?;
    world.plain_pool("p", &[10]).await?;
    world.record_set("nodes", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let name = Name::new(Provider::DigitalOcean, "nodes");
    world.set_settles("nodes", &name, &externals(&[1, 2])).await?;
    let prometheus = Prometheus::start(operator.metrics_address()?)?;
    prometheus.scrapes().await?;
    // Every watch breaks, the server has forgotten the position of one of them, and a node fails.
    let gone = Meet::Instead(Answer::failure(410));
    let gone = proxy.meet(Rule::new("watch", "labelSelector=pool%3Dwork", gone).times(1));
    proxy.cut();
    met(&proxy, gone, 1).await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    world.set_settles("nodes", &name, &externals(&[2])).await?;
    // There is only one replica, and no machine died.
    prometheus.answers_the_dashboard("FlipopNoStandby", &["flipop_detection_seconds"]).await
}
