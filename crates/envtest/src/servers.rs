//! A few API servers that tests take turns with: starting one costs seconds, wiping it milliseconds.
//!
//! A server belongs to one test at a time: pools and nodes are cluster-wide, and two operators on one server are two
//! leaders at each other's objects. What a test leaves is wiped before the next; a test that changes what a wipe
//! does not restore (definitions, roles, policies) says so, and its server is thrown away.

use crate::Outcome;
use crate::apiserver::ApiServer;
use crate::assets::Assets;
use crate::cluster::Cluster;
use std::sync::{Mutex, PoisonError};

/// What is installed on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// Nothing.
    Nothing,
    /// The manifests of k8s/, in the namespace `flipop` that enforces `restricted`.
    Manifests,
}

/// Servers that no test holds.
#[derive(Debug)]
pub struct Servers {
    manifests: String,
    idle: Mutex<Vec<ApiServer>>,
}

impl Servers {
    /// `manifests` is the folder that [`Installed::Manifests`] applies. At most as many servers run as tests do.
    #[must_use]
    pub fn new(manifests: &str) -> Self {
        Self { manifests: manifests.to_owned(), idle: Mutex::new(Vec::new()) }
    }

    /// A server with this installed and no objects in it.
    ///
    /// # Errors
    /// When it does not start or refuses the manifests.
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

    /// Takes back a server that has [`Installed::Manifests`] and nothing changed in it that a wipe does not restore.
    pub fn give_back(&self, server: ApiServer) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(server);
    }

    /// Ends all servers that no test holds.
    pub fn end(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
