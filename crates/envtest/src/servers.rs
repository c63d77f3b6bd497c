//! A few API servers shared by tests: starting one takes seconds, wiping it milliseconds.
//!
//! A server belongs to one test at a time. Pools and nodes are cluster-wide, so two operators on one server would both
//! lead over the same objects. A server is wiped before the next test. A test may change things that a wipe does not
//! restore (definitions, roles, policies). It says so, and its server is discarded.

use crate::Outcome;
use crate::apiserver::ApiServer;
use crate::assets::Assets;
use crate::cluster::Cluster;
use std::sync::{Mutex, PoisonError};

/// The manifests that are installed on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// Nothing.
    Nothing,
    /// The manifests of k8s/, in the namespace `flipop`, which enforces `restricted`.
    Manifests,
}

/// Servers that no test is using.
#[derive(Debug)]
pub struct Servers {
    manifests: String,
    idle: Mutex<Vec<ApiServer>>,
}

impl Servers {
    /// `manifests` is the folder that [`Installed::Manifests`] applies. At most as many servers run as tests.
    pub fn new(manifests: &str) -> Self {
        Self { manifests: manifests.to_owned(), idle: Mutex::new(Vec::new()) }
    }

    /// A server with this installation and without objects.
    ///
    /// # Errors
    /// If it does not start or refuses the manifests.
    pub async fn take(&self, assets: &Assets, installed: Installed) -> Outcome<ApiServer> {
        match installed {
            // Only installed servers are kept.
            Installed::Nothing => ApiServer::start(assets).await,
            Installed::Manifests => {
                let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                match idle {
                    Some(server) => {
                        Cluster::new(server.client().await?).wipe().await?;
                        Ok(server)
                    }
                    None => self.start(assets).await,
                }
            }
        }
    }

    async fn start(&self, assets: &Assets) -> Outcome<ApiServer> {
        let server = ApiServer::start(assets).await?;
        let cluster = Cluster::new(server.client().await?);
        cluster.install(&server.kubectl()?, &self.manifests).await?;
        Ok(server)
    }

    /// Takes back a server with [`Installed::Manifests`] whose changes a wipe can restore.
    pub fn give_back(&self, server: ApiServer) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(server);
    }

    /// Ends all servers that no test is using.
    pub fn end(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
