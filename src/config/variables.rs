//! The complete list of the environment variables that affect the process.
//!
//! All code in this crate reads a [`Variable`], never a name. The list also has the variables that libraries read.

use crate::provider::{cloudflare, digitalocean};

flipop_core::described! {
    /// An environment variable.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Variable {
        /// DigitalOcean API token. It is read when the process starts.
        DigitaloceanAccessToken = "DIGITALOCEAN_ACCESS_TOKEN",
        /// Path of a file that holds the DigitalOcean API token. The file is read again every 2 s, so a new token needs
        /// no restart. It must exist when the process starts. Setting `DIGITALOCEAN_ACCESS_TOKEN` as well is an error.
        DigitaloceanAccessTokenFile = "DIGITALOCEAN_ACCESS_TOKEN_FILE",
        /// Base URL of the DigitalOcean API, to which `/v2/…` is appended. It must be an `https` URL; `http` is
        /// accepted for loopback addresses only. It may hold no credentials, query or fragment.
        DigitaloceanApiUrl = "DIGITALOCEAN_API_URL",
        /// Value of the `User-Agent` header in requests to DigitalOcean.
        DigitaloceanUserAgent = "DIGITALOCEAN_USER_AGENT",
        /// Cloudflare API token. It is read when the process starts.
        CloudflareToken = "CLOUDFLARE_TOKEN",
        /// Path of a file that holds the Cloudflare API token. The file is read again every 2 s, so a new token needs
        /// no restart. It must exist when the process starts. Setting `CLOUDFLARE_TOKEN` as well is an error.
        CloudflareTokenFile = "CLOUDFLARE_TOKEN_FILE",
        /// Base URL of the Cloudflare API, to which `/zones/…` is appended. The rules are those of
        /// `DIGITALOCEAN_API_URL`.
        CloudflareApiUrl = "CLOUDFLARE_API_URL",
        /// Value of the `User-Agent` header in requests to Cloudflare.
        CloudflareUserAgent = "CLOUDFLARE_USER_AGENT",
        /// Kubeconfig files, separated by `:`, that are merged as by `kubectl`. Files that do not exist are skipped.
        /// `--kubeconfig` takes precedence.
        Kubeconfig = "KUBECONFIG",
        /// Home directory. Its file `.kube/config` is used where neither `--kubeconfig` nor `KUBECONFIG` is set.
        Home = "HOME",
        /// Namespace of the operator, in which its Lease is. A namespace in the context of the kubeconfig takes
        /// precedence.
        PodNamespace = "POD_NAMESPACE",
        /// Name of the node that the process runs on. Without it `nodeCheck` has no effect, since FLIPOP never checks
        /// its own node.
        NodeName = "NODE_NAME",
        /// Host of the API server. Kubernetes sets it in every pod. It is used with the pod's service account where no
        /// kubeconfig is found.
        KubernetesServiceHost = "KUBERNETES_SERVICE_HOST",
        /// Port of the API server. Kubernetes sets it in every pod.
        KubernetesServicePort = "KUBERNETES_SERVICE_PORT",
        /// Proxy for `https` URLs: those of the providers and that of the API server. The addresses in `NO_PROXY` and
        /// loopback addresses are reached directly.
        HttpsProxy = "HTTPS_PROXY",
        /// Proxy for an API server with an `http` URL.
        HttpProxy = "HTTP_PROXY",
        /// Hosts, IP addresses and ranges such as `10.0.0.0/8`, separated by commas, that are reached without a proxy.
        NoProxy = "NO_PROXY",
        /// Proxy for the providers where `HTTPS_PROXY` is not set. It does not apply to the API server.
        AllProxy = "ALL_PROXY",
        /// File with the certificate authorities that are trusted for the providers.
        SslCertFile = "SSL_CERT_FILE",
        /// Folder with the certificate authorities that are trusted for the providers.
        SslCertDir = "SSL_CERT_DIR",
        /// If it is set, commands print without colours and symbols, as with `--no-color`.
        NoColor = "NO_COLOR",
    }
    /// Its name.
    fn name -> &'static str;
}

impl Variable {
    /// Another spelling. It counts if the name is not set.
    #[must_use]
    pub fn alias(self) -> Option<String> {
        let has_one = matches!(self, Self::HttpsProxy | Self::HttpProxy | Self::NoProxy | Self::AllProxy);
        has_one.then(|| self.name().to_ascii_lowercase())
    }

    /// The value that counts if the variable is unset or empty.
    #[must_use]
    pub fn default_value(self) -> Option<&'static str> {
        match self {
            Self::DigitaloceanApiUrl => Some(digitalocean::DEFAULT_URL),
            Self::CloudflareApiUrl => Some(cloudflare::DEFAULT_URL),
            Self::DigitaloceanUserAgent | Self::CloudflareUserAgent => Some("flipop/<version>"),
            Self::SslCertFile | Self::SslCertDir => Some("the CA bundle of the system"),
            Self::DigitaloceanAccessToken
            | Self::DigitaloceanAccessTokenFile
            | Self::CloudflareToken
            | Self::CloudflareTokenFile
            | Self::Kubeconfig
            | Self::Home
            | Self::PodNamespace
            | Self::NodeName
            | Self::KubernetesServiceHost
            | Self::KubernetesServicePort
            | Self::HttpsProxy
            | Self::HttpProxy
            | Self::NoProxy
            | Self::AllProxy
            | Self::NoColor => None,
        }
    }

    /// It says how to use a provider.
    pub(super) fn is_of_provider(self) -> bool {
        self.name().starts_with("DIGITALOCEAN_") || self.name().starts_with("CLOUDFLARE_")
    }

    /// Reads the variable. An empty one counts as unset.
    pub(super) fn read(self, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let spellings = std::iter::once(self.name().to_owned()).chain(self.alias());
        spellings.filter_map(|name| env(&name)).find(|value| !value.is_empty())
    }
}
