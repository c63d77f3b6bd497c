//! The zones of the DNS figures, and the operator's calls there.

use crate::world::{OPERATOR, SOON, World};
use flipop_cloud::{Call, Provider};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::collections::BTreeSet;

/// How long a provider takes for each answer, in milliseconds.
pub(crate) const LATENCY_MS: u64 = 50;

/// How many records in a zone are not the operator's.
pub(crate) const OTHERS: u16 = 400;

/// The zone, at either provider.
pub(crate) const ZONE: &str = "example.com";

/// The operator's DNS calls at a provider, from number `since` on. All of its calls to Cloudflare are.
pub(crate) fn calls(world: &World, provider: Provider, since: u64) -> Vec<Call> {
    let dns = |call: &Call| provider == Provider::Cloudflare || call.path.starts_with("/v2/domains");
    let calls = world.cloud().calls(since).into_iter();
    calls.filter(|call| call.provider == provider && call.token == OPERATOR && dns(call)).collect()
}

/// Waits until a name has exactly these addresses, each once.
pub(crate) async fn holds(
    world: &World,
    provider: Provider,
    fqdn: &str,
    wanted: &BTreeSet<String>,
) -> Outcome {
    eventually(&format!("{fqdn} holds {} addresses", wanted.len()), SOON, || async move {
        let records = world.cloud().a_records(provider, ZONE, fqdn);
        if records.len() == wanted.len() && records.iter().all(|record| wanted.contains(record)) {
            Ok(())
        } else {
            Err(Failure::new(format!("{records:?}")))
        }
    })
    .await
}
