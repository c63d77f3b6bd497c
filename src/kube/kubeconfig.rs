//! Finds the API server and our namespace, as client-go does.
//!
//! Order for the server: `--kubeconfig`, else the files of `KUBECONFIG`, else `~/.kube/config`, else the service
//! account of the pod. Order for the namespace: the context's, `POD_NAMESPACE`, the service account's, `default`. With
//! another order FLIPOP might use another namespace than the operator that it replaces, and so a second Lease.

use super::empty_fields;
use crate::clock::Clock;
use crate::proxy::{Proxy, ProxySettings};
use crate::token::{Token, TokenSource};
use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Context, ExecAuthCluster, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder where the kubelet mounts the credentials of a pod's service account.
pub const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The settings from the flags, the environment and the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`. `None` means the kubeconfig's current context.
    pub context: Option<String>,
    /// The files of `KUBECONFIG`.
    pub kubeconfig_list: Vec<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `POD_NAMESPACE`.
    pub pod_namespace: Option<String>,
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
    pub service: Option<(String, String)>,
    /// The folder with the service account's files.
    pub service_account_dir: PathBuf,
    /// The proxy variables.
    pub proxy: ProxySettings,
}

impl ClusterSettings {
    fn service_account_token(&self) -> PathBuf {
        self.service_account_dir.join("token")
    }

    /// Whether this is a pod with a service account.
    pub fn has_service_account(&self) -> bool {
        self.service.is_some() && self.service_account_token().is_file()
    }
}

/// The API server, the credentials for it, and our namespace.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The client's configuration without deadlines: [`super::client`] sets these.
    pub config: Config,
    /// The token of the pod's service account, or of a kubeconfig's `tokenFile`. `None` if `config` holds the
    /// credentials.
    pub token: Option<Arc<Token>>,
    /// The operator's own namespace.
    pub namespace: String,
    /// Where this was found, for logs.
    pub origin: String,
}

impl Cluster {
    /// The API server's URL, which holds no credentials.
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string().trim_end_matches('/').to_owned()
    }
}

/// Why the API server was not found.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The file cannot be read.
    #[error("failed to read kubeconfig {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a kubeconfig. The error says where in the file the problem is. It never quotes the file, which
    /// holds credentials.
    #[error("failed to parse kubeconfig {}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake.
        problem: String,
    },
    /// The files do not say how to reach a cluster.
    #[error("failed to use kubeconfig {files}: {problem}")]
    Unusable {
        /// The files.
        files: String,
        /// The mistake.
        problem: String,
    },
    /// Nothing was configured, and this is not a pod with a service account.
    #[error(
        "failed to find a Kubernetes API server: pass --kubeconfig, set KUBECONFIG, create ~/.kube/config, or run in \
         a pod that has a service account"
    )]
    Nothing,
    /// The pod's service account is incomplete.
    #[error("failed to use the pod's service account: {0}")]
    ServiceAccount(String),
}

/// Finds the API server.
///
/// # Errors
/// A [`ClusterError`] that names the file or variable to correct.
pub fn resolve(settings: &ClusterSettings, clock: &Clock) -> Result<Cluster, ClusterError> {
    let (kubeconfig, files) = load(settings)?;
    if kubeconfig.clusters.is_empty() && kubeconfig.contexts.is_empty() {
        return match &settings.kubeconfig {
            Some(path) => {
                Err(ClusterError::Malformed { path: path.clone(), problem: "it names no cluster".to_owned() })
            }
            None => in_cluster(settings, clock),
        };
    }
    from_kubeconfig(settings, &kubeconfig, &files, clock)
}

/// Reads and merges the files that apply, and names those that exist.
fn load(settings: &ClusterSettings) -> Result<(Kubeconfig, String), ClusterError> {
    if let Some(path) = &settings.kubeconfig {
        return Ok((read(path)?, path.display().to_string()));
    }
    let paths = if settings.kubeconfig_list.is_empty() {
        settings.home.iter().map(|home| home.join(".kube/config")).collect()
    } else {
        settings.kubeconfig_list.clone()
    };
    let mut merged = Kubeconfig::default();
    let mut present = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(next) => {
                merged = merged.merge(next).map_err(|error| malformed(&path, &error))?;
                present.push(path.display().to_string());
            }
            // As in client-go, a list may name files that do not exist.
            Err(ClusterError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((merged, present.join(", ")))
}

fn read(path: &Path) -> Result<Kubeconfig, ClusterError> {
    let mut file = Kubeconfig::read_from(path).map_err(|error| malformed(path, &error))?;
    empty_fields::take_out(&mut file, path.parent().unwrap_or(Path::new("")));
    Ok(file)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "another crate's errors, told apart only as far as we say more"
)]
fn malformed(path: &Path, error: &KubeconfigError) -> ClusterError {
    let path = path.to_owned();
    match error {
        KubeconfigError::ReadConfig(source, _) => {
            ClusterError::Unreadable { path, source: std::io::Error::new(source.kind(), source.to_string()) }
        }
        KubeconfigError::Parse(error) => {
            let place = error.location();
            let problem = place.map_or_else(
                || "it is not valid".to_owned(),
                |place| format!("it is not valid at line {}, column {}", place.line(), place.column()),
            );
            ClusterError::Malformed { path, problem }
        }
        other => ClusterError::Malformed { path, problem: other.to_string() },
    }
}

fn from_kubeconfig(
    settings: &ClusterSettings,
    kubeconfig: &Kubeconfig,
    files: &str,
    clock: &Clock,
) -> Result<Cluster, ClusterError> {
    let unusable = |problem: String| ClusterError::Unusable { files: files.to_owned(), problem };
    let context = context_of(kubeconfig, settings.context.as_deref()).map_err(unusable)?;
    let (mut config, own_proxy) = config_of(kubeconfig, context).map_err(unusable)?;
    config.proxy_url = proxy(settings, own_proxy.as_deref(), &config.cluster_url).map_err(unusable)?;
    let token = token_of_file(&mut config.auth_info, clock).map_err(unusable)?;
    let namespace = context.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| namespace_of_pod(settings));
    config.default_namespace.clone_from(&namespace);
    Ok(Cluster { config, token, namespace, origin: format!("kubeconfig {files}") })
}

/// kube's configuration for a context, without deadlines, and the proxy of the cluster's entry, which takes precedence
/// over the environment. `Config::from_custom_kubeconfig` is not used: if a proxy is set, it reads `NO_PROXY` itself,
/// for the wrong host, and fails on an empty or unknown entry.
fn config_of(kubeconfig: &Kubeconfig, context: &Context) -> Result<(Config, Option<String>), String> {
    let name = &context.cluster;
    if name.is_empty() {
        return Err("its current context names no cluster".to_owned());
    }
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name);
    let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| format!("its cluster {name} is not among its clusters"))?;
    // As in client-go, a missing user means no credentials.
    let user = kubeconfig.auth_infos.iter().find(|user| context.user.as_ref() == Some(&user.name));
    let mut user = user.and_then(|user| user.auth_info.clone()).unwrap_or_default();
    if user.impersonate.is_none() && (user.impersonate_uid.is_some() || user.impersonate_groups.is_some()) {
        return Err("its user has as-uid or as-groups without as: set as, or remove them".to_owned());
    }
    // This form, made for plugins, has the certificates already read from the authority's file.
    let exec_cluster = ExecAuthCluster::try_from(cluster).map_err(|error| error.to_string())?;
    let server = exec_cluster.server.as_deref().ok_or_else(|| format!("its cluster {name} has no server"))?;
    let url =
        without_user(server).parse().map_err(|_| format!("the server of its cluster {name} is not a URL"))?;
    let mut config = Config::new(url);
    if let Some(pem) = exec_cluster.certificate_authority_data.as_ref().filter(|pem| !pem.is_empty()) {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = certificates
            .map_err(|error| format!("the certificate authority of its cluster {name}: {error}"))?;
        if certificates.is_empty() {
            return Err(format!("the certificate authority of its cluster {name} holds no certificate"));
        }
        config.root_cert = Some(certificates.iter().map(|certificate| certificate.to_vec()).collect());
    }
    config.accept_invalid_certs = exec_cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name.clone_from(&exec_cluster.tls_server_name);
    let proxy = exec_cluster.proxy_url.clone();
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(exec_cluster);
    }
    config.auth_info = user;
    Ok((config, proxy))
}

/// A URL without user name and password. Nobody sends these, and a debug log would show them.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// The token of the user's `tokenFile`, which takes precedence over `token`, as in client-go.
fn token_of_file(user: &mut AuthInfo, clock: &Clock) -> Result<Option<Arc<Token>>, String> {
    let other = user.auth_provider.is_some() || user.username.is_some();
    let Some(path) = user.token_file.take_if(|_| !other) else { return Ok(None) };
    (user.token, user.exec) = (None, None);
    let token =
        Token::new(TokenSource::File(path.into()), clock.clone()).map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(token)))
}

fn context_of<'a>(kubeconfig: &'a Kubeconfig, asked: Option<&str>) -> Result<&'a Context, String> {
    let name = asked.or(kubeconfig.current_context.as_deref());
    let name = name.ok_or("it has no current-context")?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    context.and_then(|context| context.context.as_ref()).ok_or_else(|| match asked {
        Some(_) => format!("the context {name} of --context is not among its contexts"),
        None => format!("its current-context {name} is not among its contexts"),
    })
}

fn proxy(settings: &ClusterSettings, own: Option<&str>, target: &Uri) -> Result<Option<Uri>, String> {
    let own = own.map(|url| Proxy::parse("proxy-url", url)).transpose();
    let own = own.map_err(|problem| format!("the proxy-url of its cluster: {problem}"))?;
    own.as_ref().or_else(|| settings.proxy.for_api_server(target)).map(Proxy::for_kube).transpose()
}

fn namespace_of_pod(settings: &ClusterSettings) -> String {
    let file = || std::fs::read_to_string(settings.service_account_dir.join("namespace")).ok();
    settings
        .pod_namespace
        .clone()
        .or_else(|| file().map(|text| text.trim().to_owned()).filter(|name| !name.is_empty()))
        .unwrap_or_else(|| "default".to_owned())
}

fn in_cluster(settings: &ClusterSettings, clock: &Clock) -> Result<Cluster, ClusterError> {
    let failed = |problem: String| ClusterError::ServiceAccount(problem);
    let token = settings.service_account_token();
    let Some((host, port)) = settings.service.as_ref().filter(|_| token.is_file()) else {
        return Err(ClusterError::Nothing);
    };
    let host = match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        Ok(IpAddr::V4(_)) | Err(_) => host.clone(),
    };
    let url: Uri = format!("https://{host}:{port}")
        .parse()
        .map_err(|_| failed("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT form no URL".to_owned()))?;
    let authority = settings.service_account_dir.join("ca.crt");
    let pem =
        std::fs::read(&authority).map_err(|error| failed(format!("{}: {error}", authority.display())))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates
        .map_err(|error| failed(format!("{} holds no certificates: {error}", authority.display())))?;
    let mut config = Config::new(url);
    config.root_cert = Some(certificates.iter().map(|certificate| certificate.to_vec()).collect());
    // Also by its path, so that a rotated authority is noticed.
    config.root_cert_file = Some(authority);
    let token =
        Token::new(TokenSource::File(token), clock.clone()).map_err(|error| failed(error.to_string()))?;
    config.proxy_url = proxy(settings, None, &config.cluster_url).map_err(failed)?;
    let namespace = namespace_of_pod(settings);
    config.default_namespace.clone_from(&namespace);
    Ok(Cluster {
        config,
        token: Some(Arc::new(token)),
        namespace,
        origin: "the pod's service account".to_owned(),
    })
}

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
mod tests;
