//! The simulated cluster for as long as the user likes: what happens is told, what is done is up to kubectl.

use super::DemoError;
use super::cast::{self, Cast};
use super::manifest;
use super::script;
use super::stage::Stage;
use super::story::Story;
use super::teller::Teller;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long one stretch of the endless story is; it goes on until the caller stops listening.
const STRETCH: Duration = Duration::from_hours(1);

/// What to serve.
#[derive(Debug)]
pub(crate) struct Serving {
    /// YAML to apply first; none: the repository's examples.
    pub(crate) files: Vec<PathBuf>,
    /// Port of the API server; 0 for any.
    pub(crate) port: u16,
}

/// Serves until `stop` is ready.
///
/// # Errors
/// When the YAML is refused, a port is taken, or the operator ends.
pub(crate) async fn serve(
    serving: Serving,
    out: Box<dyn Write + Send>,
    stop: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    let documents = manifest::load(&serving.files)?;
    let cast = cast::cast(&documents);
    let mut stage = Stage::open(serving.port).await?;
    stage.populate(&cast, &documents)?;
    let mut story = Story::new(stage, Teller::new(out));
    let told = tokio::select! {
        told = tell(&mut story, &documents, &cast) => told,
        () = stop => Ok(()),
    };
    story.tell("sandbox", "stopping");
    let closed = story.stage.close().await;
    told.and(closed)
}

async fn tell(story: &mut Story, documents: &[manifest::Document], cast: &Cast) -> Result<(), DemoError> {
    script::introduce(story, cast, &[]);
    let metrics = story.stage.start_operator().await?;
    script::apply(story, documents)?;
    explain(story, cast, metrics);
    loop {
        story.follow(STRETCH, |_| false).await?;
    }
}

/// Where everything is, and commands to try.
fn explain(story: &mut Story, cast: &Cast, metrics: Option<SocketAddr>) {
    let kubeconfig = story.stage.kubeconfig.display().to_string();
    let metrics = metrics.map(|address| format!("http://{address}/metrics")).unwrap_or_default();
    let node = cast.nodes.first().map_or("NODE", |node| node.name.as_str());
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    let lines = [
        String::new(),
        format!("kubeconfig: {kubeconfig}"),
        format!("metrics: {metrics}"),
        "try, in another terminal:".to_owned(),
        format!("  {kubectl} get fipool -A -w"),
        format!("  {kubectl} get nodedns -A -o wide"),
        format!("  {kubectl} taint node {node} maintenance=true:NoExecute"),
        format!("  curl -s {metrics}"),
        "Ctrl-C ends it".to_owned(),
        String::new(),
    ];
    for line in &lines {
        story.plain(line);
    }
}
