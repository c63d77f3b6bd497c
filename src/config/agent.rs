//! The flags of `flipop agent`.

use super::cli_args::{as_in_go, path};
use super::{BindAddress, ConfigError};
use crate::kube::kubeconfig::ClusterSettings;
use crate::network::{Network, PUBLIC6};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Bits to which the CNI plugin portmap and kube-proxy give meanings of their own: what carries the first two leaves
/// with the node's address (portmap, `--iptables-masquerade-bit`), and what carries the third is dropped.
const TAKEN_MARKS: [u32; 3] = [0x2000, 0x4000, 0x8000];

/// The most networks that a flag names. Each is a route or a rule of the kernel, which the agent compares each time it
/// runs.
const MAX_NETWORKS: usize = 200;

/// Which traffic leaves through the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Egress {
    /// Traffic of the node's pods
    Pods,
    /// No traffic: the agent removes what it has set, and is ready then
    None,
}

/// The treatment of pods' traffic while the node has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum WhenAbsent {
    /// It leaves with the node's own address, and IPv6 always does
    Node,
    /// It does not leave, and public IPv6 never does
    Block,
}

/// All settings of the agent, once `complete` has checked them.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_args(as_in_go))]
pub struct AgentConfig {
    /// Name of the node on which the agent runs
    #[arg(long, value_name = "NAME")]
    pub node_name: String,

    /// Which traffic leaves through the node's reserved IP
    #[arg(long, value_name = "TRAFFIC", value_enum, default_value = "Pods")]
    pub egress: Egress,

    /// How pods' traffic leaves while the node has no reserved IP
    ///
    /// With Block, pods reach only private, shared and link-local networks and those of --except and --except6.
    #[arg(long, value_name = "WAY", value_enum, default_value = "Node")]
    pub when_absent: WhenAbsent,

    /// Network of the node's pods [default: spec.podCIDRs of the node]
    ///
    /// Repeat the flag for several networks. The flag takes precedence over the node's networks: Calico and Cilium may
    /// use others.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_parser = network)]
    pub pods: Vec<Network>,

    /// Network that pods reach without the reserved IP
    ///
    /// Repeat the flag for several networks. Pods reach private, shared and link-local networks without it in any case.
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub except: Vec<Network>,

    /// Public IPv6 network that pods reach although --when-absent=Block is set
    ///
    /// Repeat the flag for several networks. Pods reach the IPv6 networks in spec.podCIDRs of the node in any case.
    #[arg(long, value_name = "CIDR", value_parser = network6)]
    pub except6: Vec<Network>,

    /// The bit that marks packets and connections
    ///
    /// No other software of the node may use it. Write one bit, decimal or as 0x1000.
    #[arg(long, value_name = "BIT", default_value = "0x1000", value_parser = mark)]
    pub mark: u32,

    /// Continue although there is a device of Cilium, or of Calico with eBPF
    ///
    /// Set it if that datapath leaves forwarding and NAT to netfilter. BOOL is as for --debug.
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub cni_uses_netfilter: bool,

    /// Log what would be set and removed, and change nothing
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub dry_run: bool,

    /// Address of metrics and health endpoints, as IP:PORT; empty turns them off
    ///
    /// The address has to be private: the agent refuses a public one and one that means all addresses.
    #[arg(long = "metrics-bind-addr", value_name = "ADDR", default_value = "127.0.0.1:8141", value_parser = bind)]
    pub metrics: MaybeBind,

    /// Path of a kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", value_parser = path)]
    kubeconfig: Option<PathBuf>,

    /// Log at debug level
    #[arg(long, value_name = "BOOL", default_value = "false")]
    pub debug: bool,

    /// How to reach the API server.
    #[arg(skip)]
    pub cluster: ClusterSettings,
}

/// Where to listen. `None` means nowhere. A name of its own, because clap takes an `Option` for an optional flag.
type MaybeBind = Option<BindAddress>;

impl AgentConfig {
    /// Checks the flags, and takes over the settings that no flag has.
    pub(super) fn complete(&mut self, cluster: ClusterSettings) -> Result<(), ConfigError> {
        if self.node_name.is_empty() {
            return Err(ConfigError::invalid("--node-name", "it is empty"));
        }
        if !self.except6.is_empty() && self.when_absent != WhenAbsent::Block {
            return Err(ConfigError::invalid("--except6", "it has no effect without --when-absent=Block"));
        }
        for (name, networks) in
            [("--pod-cidr", &self.pods), ("--except", &self.except), ("--except6", &self.except6)]
        {
            if networks.len() > MAX_NETWORKS {
                let problem = format!("it is there {} times; at most {MAX_NETWORKS}", networks.len());
                return Err(ConfigError::invalid(name, problem));
            }
        }
        self.cluster = cluster;
        self.cluster.kubeconfig = self.kubeconfig.take().filter(|path| !path.as_os_str().is_empty());
        Ok(())
    }
}

fn network(text: &str) -> Result<Network, String> {
    let network = Network::parse(text).filter(|network| !network.is_ipv6() && network.length() > 0);
    network.ok_or_else(|| {
        "write an IPv4 network such as 10.244.1.0/24, without bits beyond its length".to_owned()
    })
}

fn network6(text: &str) -> Result<Network, String> {
    let network = Network::parse(text).filter(|network| PUBLIC6.covers(*network) && *network != PUBLIC6);
    network.ok_or_else(|| {
        format!(
            "write an IPv6 network within {PUBLIC6} such as 2001:db8::/32, without bits beyond its length"
        )
    })
}

fn mark(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if TAKEN_MARKS.contains(&number) => Err("portmap or kube-proxy uses this bit".to_owned()),
        Ok(number) if number.is_power_of_two() => Ok(number),
        Ok(_) | Err(_) => Err("write a number with one bit set, such as 0x1000".to_owned()),
    }
}

fn bind(text: &str) -> Result<MaybeBind, String> {
    if text.is_empty() {
        return Ok(None);
    }
    // The manifests write $(HOST_IP):8141, so an IPv6 address may be without brackets.
    let address = text.rsplit_once(':').and_then(|(ip, port)| {
        let bare = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        Some(SocketAddr::new(bare.parse().ok()?, port.parse().ok()?))
    });
    let address =
        address.ok_or_else(|| "write IP:PORT, such as 10.0.0.5:8141 or [fd00::5]:8141".to_owned())?;
    if is_private(address.ip()) {
        Ok(Some(BindAddress { host: address.ip().to_string(), port: address.port() }))
    } else {
        Err("the address is public or means all addresses; use a private one of the node".to_owned())
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let shared = ip.octets().first() == Some(&100) && ip.to_bits() & 0x00c0_0000 == 0x0040_0000;
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::agent::{Egress, MAX_NETWORKS, WhenAbsent};
    use crate::config::{AgentConfig, ConfigError, Invocation};
    use crate::network::Network;

    fn agent(arguments: &[&str]) -> Result<AgentConfig, ConfigError> {
        let words = ["flipop", "agent", "--node-name=n"].into_iter().chain(arguments.iter().copied());
        match Invocation::from_parts(words, &|_| None)? {
            Invocation::Agent(config) => Ok(*config),
            Invocation::Run(_) | Invocation::Command(_) => panic!("not the agent"),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_manifest() {
        let config = agent(&[]).unwrap();
        assert_eq!((config.node_name.as_str(), config.egress, config.mark), ("n", Egress::Pods, 0x1000));
        assert!(config.pods.is_empty() && config.except.is_empty() && !config.dry_run && !config.debug);
        assert!(config.when_absent == WhenAbsent::Node && config.except6.is_empty());
        assert!(!config.cni_uses_netfilter);
        assert_eq!(config.metrics.unwrap().host, "127.0.0.1");
    }

    #[test]
    fn flags_may_be_repeated_and_are_read() {
        let config =
            agent(&["--pod-cidr=10.244.1.0/24", "--pod-cidr", "10.245.0.0/16", "--egress=None", "--mark=64"]);
        let config = config.unwrap();
        let networks = ["10.244.1.0/24", "10.245.0.0/16"].map(|text| Network::parse(text).unwrap());
        assert_eq!(
            (config.pods.as_slice(), config.egress, config.mark),
            (networks.as_slice(), Egress::None, 64)
        );
    }

    #[test]
    fn a_bad_flag_ends_with_2_and_is_named() {
        for (flag, bad) in [
            ("--egress", &["Node", "pods", "Off", ""][..]),
            ("--when-absent", &["block", "None", ""]),
            ("--pod-cidr", &["10.244.1.1/24", "10.0.0.0/33", "fd00::/64", "x", "0.0.0.0/0"]),
            ("--except", &["1.2.3.4/8", "", "-1"]),
            ("--except6", &["2000::/3", "fd00::/8", "::/0", "10.0.0.0/8", "2001:db8::1/32", "x"]),
            ("--mark", &["0", "3", "0x2000", "0x4000", "0x8000", "x", "0x100000000"]),
            (
                "--metrics-bind-addr",
                &["0.0.0.0:8141", "[::]:1", "203.0.113.1:8141", ":8141", "10.0.0.1", "n:1"],
            ),
            ("--cni-uses-netfilter", &["yes"]),
            ("--dry-run", &["2"]),
        ] {
            for value in bad {
                let error = agent(&[&format!("{flag}={value}")]).expect_err(value);
                let ConfigError::Usage(usage) = error else { panic!("{flag}={value}: {error}") };
                assert_eq!(usage.exit_code(), 2);
                assert!(usage.to_string().contains(flag), "{usage}");
            }
        }
        for good in
            ["10.0.0.5:1", "100.64.0.1:1", "192.168.1.1:9", "127.0.0.1:0", "[fd00::1]:1", "fd00::1:8141"]
        {
            assert!(agent(&[&format!("--metrics-bind-addr={good}")]).unwrap().metrics.is_some(), "{good}");
        }
        let host = agent(&["--metrics-bind-addr=fd00::1:8141"]).unwrap().metrics.unwrap();
        assert_eq!((host.host.as_str(), host.port), ("fd00::1", 8141));
        assert_eq!(agent(&["--metrics-bind-addr="]).unwrap().metrics, None);
        let missing = Invocation::from_parts(["flipop", "agent"], &|_| None).unwrap_err();
        assert!(missing.to_string().contains("--node-name"), "{missing}");
    }

    #[test]
    fn a_flag_that_cannot_work_is_named() {
        let blocks = agent(&["--when-absent=Block", "--except6=2001:db8::/32", "--egress=None"]).unwrap();
        assert_eq!((blocks.when_absent, blocks.except6.len()), (WhenAbsent::Block, 1));
        let named = |arguments: &[&str], flag: &str| {
            let error = agent(arguments).unwrap_err();
            assert!(matches!(error, ConfigError::Invalid { name, .. } if name == flag), "{error}");
        };
        named(&["--except6=2001:db8::/32"], "--except6");
        let many: Vec<String> = (0..=MAX_NETWORKS).map(|n| format!("--except=198.51.100.{n}/32")).collect();
        named(&many.iter().map(String::as_str).collect::<Vec<_>>(), "--except");
        assert_eq!(
            agent(&many.iter().skip(1).map(String::as_str).collect::<Vec<_>>()).unwrap().except.len(),
            MAX_NETWORKS
        );
    }
}
