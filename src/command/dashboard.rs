//! `flipop dashboard`: a local port that leads to the leader's web page.
//!
//! Invariant: the port is open on loopback only, since it shows everything that the leader knows.

use super::output::{self, Output};
use super::session::Session;
use super::{CommandError, leader};
use crate::config::cli_args::DashboardArgs;
use crate::exit::Exit;
use crate::kube::trouble::Trouble;
use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use std::net::Ipv4Addr;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// The most connections at a time. A browser opens six.
const MAX_CONNECTIONS: usize = 32;

/// The leader's pod and the port of its endpoints.
struct Place {
    pod: String,
    port: u16,
}

/// Runs the command until it is interrupted.
pub(super) async fn run(
    session: &Session,
    arguments: &DashboardArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    let mut place = find(session).await.map_err(|trouble| CommandError::read("the leader's pod", trouble))?;
    // Shows at once whether the right to do this is there.
    drop(open(session, &place).await?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    output.show(&json!({ "url": url, "leader": place.pod }), || {
        format!("{url}\nForwarding to leader {}. Press Ctrl-C to stop.\n", output::shown(&place.pod))
    })?;
    let mut connections = FuturesUnordered::new();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            ended = &mut interrupted => {
                ended?;
                return Ok(Exit::Success);
            }
            Some(lost) = connections.next() => {
                // Another replica may lead by now.
                if lost && let Ok(found) = find(session).await {
                    place = found;
                }
            }
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                let (stream, _) = accepted?;
                connections.push(carry(session, (place.pod.clone(), place.port), stream));
            }
        }
    }
}

async fn find(session: &Session) -> Result<Place, Trouble> {
    let leader = leader::find(session).await?;
    let pods: Api<Pod> = Api::namespaced(session.client.clone(), &session.operator);
    let pod = pods.get(&leader.pod).await.map_err(Trouble::from)?;
    Ok(Place { port: leader::port(&pod), pod: leader.pod })
}

async fn open(session: &Session, place: &Place) -> Result<kube::api::Portforwarder, CommandError> {
    leader::open(session, &place.pod, place.port).await.map_err(|trouble| {
        CommandError::Missing(format!(
            "failed to forward a port: {}",
            leader::missing_right(&trouble, "create pods/portforward", Some(&session.operator))
        ))
    })
}

/// Carries one connection. Returns whether the leader could not be reached or the connection broke.
async fn carry(session: &Session, (pod, port): (String, u16), mut local: TcpStream) -> bool {
    let Ok(mut forwarder) = leader::open(session, &pod, port).await else { return true };
    let Some(mut remote) = forwarder.take_stream(port) else { return true };
    copy_bidirectional(&mut local, &mut remote).await.is_err()
}
