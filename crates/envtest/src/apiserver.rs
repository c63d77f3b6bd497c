//! One kube-apiserver with its etcd.
//!
//! RBAC, Pod Security and admission policies are on. No controller manager, scheduler or kubelet runs, so tests write
//! nodes, pods and their status themselves, and a deleted namespace stays `Terminating`.

use crate::assets::Assets;
use crate::audit::Audit;
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::{Failure, Outcome, ports, tls, wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Authenticates the tests as `system:masters`. It is no secret: the server listens on loopback and ends with the test.
const ADMIN_TOKEN: &str = "envtest-admin";

/// A start takes about 3 s on an idle machine with 2 cores. Several servers may start at once while a compiler runs.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// How often to check whether it is ready.
const START_POLL: Duration = Duration::from_millis(100);

/// Attempts to start, in case another process takes one of the ports.
const START_ATTEMPTS: u32 = 3;

/// The lifetime of the operator's token in seconds, longer than any test.
const TOKEN_SECONDS: i64 = 6 * 3_600;

/// A running API server and its store. Dropping it ends both and removes all their files.
#[derive(Debug)]
pub struct ApiServer {
    // Declared before the folder: fields are dropped in order, and the processes write into the folder.
    apiserver: Process,
    etcd: Process,
    assets: Assets,
    ports: Ports,
    folder: TempDir,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    secure: u16,
    etcd: u16,
    peer: u16,
}

impl ApiServer {
    /// Starts both and waits until the API server is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn start(assets: &Assets) -> Outcome<Self> {
        tls::install_provider();
        let mut failures = Vec::new();
        for _ in 0..START_ATTEMPTS {
            let mut server = Self::spawn(assets)?;
            match server.ready().await {
                Ok(()) => return Ok(server),
                Err(failure) => failures.push(format!("{failure}\n{}", server.log_tail())),
            }
        }
        Err(Failure::new(failures.join("\n")))
    }

    fn spawn(assets: &Assets) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("flipop-envtest-").tempdir()?;
        let ports =
            Ports { secure: ports::free_port()?, etcd: ports::free_port()?, peer: ports::free_port()? };
        let at = |name: &str| folder.path().join(name);
        let (private_key, public_key) = tls::signing_keys_pem()?;
        fs::write(at("signing.key"), private_key)?;
        fs::write(at("signing.pub"), public_key)?;
        fs::write(at("tokens.csv"), format!("{ADMIN_TOKEN},admin,admin,system:masters\n"))?;
        fs::write(at("audit-policy.yaml"), Audit::POLICY)?;
        let etcd = start_etcd(assets, folder.path(), ports)?;
        let apiserver = start_apiserver(assets, folder.path(), ports)?;
        let server = Self { apiserver, etcd, assets: assets.clone(), ports, folder };
        Ok(server)
    }

    async fn ready(&mut self) -> Outcome {
        let end = wait::deadline(START_TIMEOUT);
        loop {
            let failure = match self.probe().await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            for (name, process) in [("kube-apiserver", &mut self.apiserver), ("etcd", &mut self.etcd)] {
                if let Some(status) = process.ended()? {
                    return Err(Failure::new(format!("{name} ended: {status}")));
                }
            }
            if wait::passed(end) {
                return Err(failure);
            }
            tokio::time::sleep(START_POLL).await;
        }
    }

    async fn probe(&self) -> Outcome {
        if !self.certificate().is_file() {
            return Err(Failure::new("the API server has made no certificate"));
        }
        let client = self.client().await?;
        Ok(client.request_text(http::Request::get("/readyz").body(Vec::new())?).await.map(drop)?)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.secure)
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.secure).into()
    }

    /// The URL of its store, for writing thousands of objects at once. etcd's gateway takes JSON over HTTP.
    pub fn store_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// A folder that lives as long as the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// If the kubeconfig cannot be written.
    pub async fn client(&self) -> Outcome<Client> {
        connect(&self.kubeconfig("admin", ADMIN_TOKEN, "default")?).await
    }

    /// `kubectl` with the administrator's identity.
    ///
    /// # Errors
    /// If the kubeconfig cannot be written.
    pub fn kubectl(&self) -> Outcome<Kubectl> {
        let kubeconfig = self.kubeconfig("admin", ADMIN_TOKEN, "default")?;
        Ok(Kubectl::new(self.assets.kubectl.clone(), kubeconfig, self.folder.path().join("kubectl-cache")))
    }

    /// Writes a kubeconfig file with a bearer token.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn kubeconfig(&self, name: &str, token: &str, namespace: &str) -> Outcome<PathBuf> {
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        // JSON is YAML.
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "envtest", "cluster": {
                "server": self.url(), "certificate-authority-data": ByteString(fs::read(self.certificate())?),
            } }],
            "users": [{ "name": name, "user": { "token": token } }],
            "contexts": [{ "name": name, "context": { "cluster": "envtest", "user": name, "namespace": namespace } }],
            "current-context": name,
        });
        fs::write(&path, content.to_string())?;
        Ok(path)
    }

    /// Writes a kubeconfig file for a service account, with its own token.
    ///
    /// # Errors
    /// If the service account does not exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Outcome<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let wanted = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &wanted).await?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        self.kubeconfig(&format!("{namespace}-{name}"), &token, namespace)
    }

    /// The log of writes and their users.
    pub fn audit(&self) -> Audit {
        Audit::new(self.folder.path().join("audit.log"))
    }

    /// Starts `kube-controller-manager` with only these controllers, if the program exists (see [`Assets`]).
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn controllers(&self, names: &[&str]) -> Outcome<Option<Process>> {
        let Some(program) = &self.assets.kube_controller_manager else { return Ok(None) };
        let kubeconfig = self.kubeconfig("admin", ADMIN_TOKEN, "default")?;
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--controllers", &names.join(",")])
            .args(["--leader-elect=false", "--secure-port=0"]);
        let log = self.folder.path().join("kube-controller-manager.log");
        Process::start("kube-controller-manager", &mut command, &log).map(Some)
    }

    /// Kills the API server. Its store keeps running.
    pub fn stop(&mut self) {
        self.apiserver.kill();
    }

    /// Starts the API server again at the same address with the same store.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn start_again(&mut self) -> Outcome {
        self.apiserver = start_apiserver(&self.assets, self.folder.path(), self.ports)?;
        self.ready().await
    }

    /// Compacts the store's history. An older watch can then be resumed only from the API server's own memory, which is
    /// empty after [`ApiServer::start_again`].
    ///
    /// # Errors
    /// If the store refuses.
    pub async fn compact(&self) -> Outcome {
        let http = reqwest::Client::builder().no_proxy().build()?;
        let post = async |path: &str, body: Value| -> Outcome<Value> {
            let answer = http.post(format!("{}{path}", self.store_url())).json(&body).send().await?;
            Ok(answer.error_for_status()?.json().await?)
        };
        let any = post("/v3/kv/range", json!({ "key": ByteString(vec![0]), "limit": 1 })).await?;
        let revision = any.pointer("/header/revision").cloned();
        let revision = revision.ok_or_else(|| Failure::new(format!("no revision in {any}")))?;
        post("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await.map(drop)
    }

    /// The last lines of output from API server and store.
    pub fn log_tail(&self) -> String {
        format!("kube-apiserver:\n{}\netcd:\n{}", self.apiserver.log_tail(), self.etcd.log_tail())
    }
}

/// Writes a copy of a kubeconfig file beside it that goes through a proxy. The server's certificate is for the host, so
/// any port will do.
///
/// # Errors
/// If the file is invalid, or the copy cannot be written.
pub fn kubeconfig_through(kubeconfig: &Path, proxy: SocketAddr) -> Outcome<PathBuf> {
    kubeconfig_with(kubeconfig, proxy, "/clusters/0/cluster/server", json!(format!("https://{proxy}")))
}

/// Writes a copy of a kubeconfig file beside it, named after a proxy, with another value at this JSON pointer.
pub(crate) fn kubeconfig_with(
    original: &Path,
    proxy: SocketAddr,
    pointer: &str,
    value: Value,
) -> Outcome<PathBuf> {
    let mut content: Value = serde_json::from_slice(&fs::read(original)?)?;
    let place = content.pointer_mut(pointer);
    *place.ok_or_else(|| Failure::new(format!("a kubeconfig without {pointer}")))? = value;
    let path = original.with_extension(format!("through-{}", proxy.port()));
    fs::write(&path, content.to_string())?;
    Ok(path)
}

/// A client with the identity of a kubeconfig file.
///
/// # Errors
/// If the file is invalid.
pub async fn connect(kubeconfig: &Path) -> Outcome<Client> {
    let content = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(content, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn start_etcd(assets: &Assets, folder: &Path, ports: Ports) -> Outcome<Process> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    let mut command = Command::new(&assets.etcd);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--unsafe-no-fsync", "--log-level", "warn", "--name", "envtest"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("envtest={peer}")]);
    Process::start("etcd", &mut command, &folder.join("etcd.log"))
}

fn start_apiserver(assets: &Assets, folder: &Path, ports: Ports) -> Outcome<Process> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(&assets.kube_apiserver);
    command
        .args(["--etcd-servers", &format!("http://127.0.0.1:{}", ports.etcd)])
        .args(["--bind-address", "127.0.0.1", "--secure-port", &ports.secure.to_string()])
        .args(["--cert-dir", &file("certificates"), "--token-auth-file", &file("tokens.csv")])
        .args(["--service-account-key-file", &file("signing.pub")])
        .args(["--service-account-signing-key-file", &file("signing.key")])
        .args(["--service-account-issuer", "https://kubernetes.default.svc"])
        .args(["--service-cluster-ip-range", "10.0.0.0/24", "--authorization-mode", "RBAC"])
        // Without a controller manager nothing creates the objects that these wait for.
        .args(["--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition"])
        // Nothing reads the endpoints of the service `kubernetes`, and they may not contain loopback.
        .args(["--endpoint-reconciler-type", "none"])
        .args(["--audit-policy-file", &file("audit-policy.yaml"), "--audit-log-path", &file("audit.log")]);
    Process::start("kube-apiserver", &mut command, &folder.join("kube-apiserver.log"))
}
