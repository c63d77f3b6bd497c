//! A small internet in network namespaces: nodes, each with a pod behind a veth; a router that rewrites anchor and
//! reserved addresses as DigitalOcean does, and counts packets with a wrong source; and a host outside.

use flipop_envtest::process::Process;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The address at which the host outside listens.
pub(crate) const OUTSIDE: &str = "198.51.100.9:8000";

/// Numbers the labs of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The namespaces of one test. Dropping it removes them.
pub(crate) struct Lab {
    pub(crate) number: u32,
    pub(crate) folder: TempDir,
    nodes: u32,
    /// Dropping the lab ends them before it removes the namespaces.
    processes: Vec<Process>,
    /// Which node has which reserved address, according to the router.
    mapped: Vec<(String, u32)>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.processes.clear();
        for name in self.namespaces() {
            let _gone = Command::new("ip").args(["netns", "del", &name]).stderr(Stdio::null()).status();
        }
    }
}

/// Runs a command. An error names the command.
pub(crate) fn sh(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::new(format!("{program} {}: {said}", arguments.join(" "))))
}

impl Lab {
    /// Names of the namespaces.
    fn namespaces(&self) -> Vec<String> {
        let nodes = (1..=self.nodes).flat_map(|n| [self.node(n), self.pod(n)]);
        nodes.chain([self.router(), self.outside()]).collect()
    }

    /// A node's namespace.
    pub(crate) fn node(&self, n: u32) -> String {
        format!("fl{}-{}n{n}", std::process::id(), self.number)
    }

    /// The namespace of a node's pod.
    pub(crate) fn pod(&self, n: u32) -> String {
        format!("fl{}-{}p{n}", std::process::id(), self.number)
    }

    pub(crate) fn router(&self) -> String {
        format!("fl{}-{}rt", std::process::id(), self.number)
    }

    pub(crate) fn outside(&self) -> String {
        format!("fl{}-{}out", std::process::id(), self.number)
    }

    /// The name of the node's object.
    pub(crate) fn node_name(&self, n: u32) -> String {
        format!("node-{}-{n}", self.number)
    }

    /// The address by which the node reaches the test itself.
    pub(crate) fn management(&self, n: u32) -> String {
        format!("10.99.{}.{}", self.number, 4 * n + 1)
    }

    pub(crate) fn new(nodes: u32) -> Outcome<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("flipop-egress-").tempdir()?;
        let mut lab = Self { number, folder, nodes, processes: Vec::new(), mapped: Vec::new() };
        for name in lab.namespaces() {
            sh("ip", &["netns", "add", &name])?;
            lab.inside(&name, "ip", &["link", "set", "lo", "up"])?;
        }
        lab.build_router()?;
        for n in 1..=nodes {
            lab.build_node(n)?;
        }
        for n in 1..=nodes {
            for m in (1..=nodes).filter(|m| *m != n) {
                let (to, via) = (format!("10.244.{m}.0/24"), format!("10.20.0.{m}"));
                lab.inside(&lab.node(n), "ip", &["route", "add", &to, "via", &via])?;
            }
            let reserved = lab.metadata_file(n);
            lab.metadata(n, None)?;
            lab.helper(&lab.node(n), &["metadata", &reserved.display().to_string()])?;
            lab.helper(&lab.pod(n), &["record", "0.0.0.0:8080"])?;
            lab.helper(&lab.node(n), &["record", &format!("10.20.0.{n}:9000")])?;
        }
        lab.helper(&lab.outside(), &["record", "0.0.0.0:8000"])?;
        Ok(lab)
    }

    fn build_router(&self) -> Outcome {
        let (router, outside) = (self.router(), self.outside());
        let veth = [
            "link", "add", "ro", "netns", &router, "type", "veth", "peer", "name", "eth0", "netns", &outside,
        ];
        sh("ip", &veth)?;
        sh("ip", &["-n", &router, "link", "add", "br0", "type", "bridge"])?;
        sh("ip", &["-n", &router, "link", "add", "br1", "type", "bridge"])?;
        for (name, link, address) in [
            (&router, "ro", "198.51.100.1/24"),
            (&router, "br0", "192.0.2.1/24"),
            (&router, "br0", "10.10.0.1/16"),
            (&router, "br0", "10.10.0.2/16"),
            (&outside, "eth0", "198.51.100.9/24"),
        ] {
            sh("ip", &["-n", name, "addr", "add", address, "dev", link])?;
            sh("ip", &["-n", name, "link", "set", link, "up"])?;
        }
        sh("ip", &["-n", &router, "link", "set", "br1", "up"])?;
        sh("ip", &["-n", &outside, "route", "add", "default", "via", "198.51.100.1"])?;
        self.inside(&router, "sysctl", &["-qw", "net.ipv4.ip_forward=1"])?;
        self.rewrite()
    }

    fn build_node(&self, n: u32) -> Outcome {
        let (router, node, pod) = (self.router(), self.node(n), self.pod(n));
        let (r0, r1, m) = (format!("r0n{n}"), format!("r1n{n}"), format!("m{}n{n}", self.number));
        for (one, here, other, there) in [
            ("eth0", &node, r0.as_str(), &router),
            ("eth1", &node, &r1, &router),
            ("veth0", &node, "eth0", &pod),
        ] {
            sh(
                "ip",
                &["link", "add", one, "netns", here, "type", "veth", "peer", "name", other, "netns", there],
            )?;
        }
        sh("ip", &["link", "add", &m, "type", "veth", "peer", "name", "eth9", "netns", &node])?;
        for (link, bridge) in [(&r0, "br0"), (&r1, "br1")] {
            sh("ip", &["-n", &router, "link", "set", link, "master", bridge, "up"])?;
        }
        let mgmt = format!("10.99.{}.{}/30", self.number, 4 * n + 2);
        sh("ip", &["addr", "add", &format!("{}/30", self.management(n)), "dev", &m])?;
        sh("ip", &["link", "set", &m, "up"])?;
        for (link, address) in [
            ("lo", "169.254.169.254/32".to_owned()),
            ("eth0", format!("192.0.2.{}/24", 10 + n)),
            ("eth0", format!("10.10.0.{}/16", 10 + n)),
            ("eth1", format!("10.20.0.{n}/24")),
            ("eth9", mgmt),
            ("veth0", format!("10.244.{n}.1/24")),
        ] {
            sh("ip", &["-n", &node, "addr", "add", &address, "dev", link])?;
            sh("ip", &["-n", &node, "link", "set", link, "up"])?;
        }
        sh("ip", &["-n", &node, "route", "add", "default", "via", "192.0.2.1"])?;
        sh("ip", &["-n", &pod, "addr", "add", &format!("10.244.{n}.2/24"), "dev", "eth0"])?;
        sh("ip", &["-n", &pod, "link", "set", "eth0", "up"])?;
        sh("ip", &["-n", &pod, "route", "add", "default", "via", &format!("10.244.{n}.1")])?;
        for setting in
            ["ip_forward=1", "conf.all.rp_filter=1", "conf.eth0.rp_filter=1", "conf.veth0.rp_filter=1"]
        {
            self.inside(&node, "sysctl", &["-qw", &format!("net.ipv4.{setting}")])?;
        }
        // The CNI masquerades what leaves the cluster; kube-proxy sends a NodePort and a ClusterIP to the pod, and
        // drops what belongs to no connection, which nothing would translate.
        let rules = format!(
            "table ip cni {{\n chain post {{\n type nat hook postrouting priority 100\n \
             ip saddr 10.244.0.0/16 ip daddr != {{ 10.0.0.0/8 }} counter masquerade\n }}\n}}\n\
             table ip proxy {{\n chain pre {{\n type nat hook prerouting priority -100\n \
             tcp dport 30080 dnat to 10.244.{n}.2:8080\n ip daddr 10.96.0.10 tcp dport 80 dnat to 10.244.2.2:8080\n \
             ip daddr 10.96.0.11 tcp dport 80 dnat to 10.20.0.{n}:9000\n }}\n\
             chain forward {{\n type filter hook forward priority 0\n ct state invalid drop\n }}\n}}\n"
        );
        self.nft(&node, &rules)
    }

    /// Runs a command in a namespace.
    #[expect(clippy::unused_self, reason = "only a lab has namespaces")]
    pub(crate) fn inside(&self, name: &str, program: &str, arguments: &[&str]) -> Outcome<String> {
        sh("ip", &[&["netns", "exec", name, program], arguments].concat())
    }

    #[expect(clippy::unused_self, reason = "only a lab has namespaces")]
    pub(crate) fn nft(&self, name: &str, rules: &str) -> Outcome {
        let mut nft = Command::new("ip")
            .args(["netns", "exec", name, "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        nft.stdin.take().unwrap().write_all(rules.as_bytes())?;
        let output = nft.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(|| Failure::new(format!("nft: {said}\n{rules}")))
    }

    /// Runs a helper in a namespace. Returns its output.
    pub(crate) fn once(&self, name: &str, arguments: &[&str]) -> Outcome<String> {
        let this = std::env::current_exe()?.display().to_string();
        Ok(self.inside(name, &this, &[&["helper"], arguments].concat())?.trim_end().to_owned())
    }

    /// Starts a helper in a namespace. Returns the file that it prints to.
    pub(crate) fn helper(&mut self, name: &str, arguments: &[&str]) -> Outcome<PathBuf> {
        let log = self.folder.path().join(format!("{}-{name}.log", self.processes.len()));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(std::env::current_exe()?).arg("helper").args(arguments);
        self.processes.push(Process::start("helper", &mut command, &log)?);
        Ok(log)
    }

    fn metadata_file(&self, n: u32) -> PathBuf {
        self.folder.path().join(format!("metadata-{n}"))
    }

    /// Sets the reserved address that a node's metadata service reports.
    pub(crate) fn metadata(&self, n: u32, reserved: Option<&str>) -> Outcome {
        self.metadata_with(n, reserved, "10.10.0.1")
    }

    pub(crate) fn metadata_with(&self, n: u32, reserved: Option<&str>, gateway: &str) -> Outcome {
        let anchor = format!(
            "interfaces/public/0/anchor_ipv4/address 10.10.0.{}\ninterfaces/public/0/anchor_ipv4/gateway {gateway}\n",
            10 + n
        );
        let reserved = reserved.map_or("reserved_ip/ipv4/active false\n".to_owned(), |ip| {
            format!("reserved_ip/ipv4/active true\nreserved_ip/ipv4/ip_address {ip}\n")
        });
        self.say(n, &(anchor + &reserved))
    }

    /// Makes the metadata service close connections without an answer.
    pub(crate) fn metadata_away(&self, n: u32) -> Outcome {
        self.say(n, "away")
    }

    fn say(&self, n: u32, text: &str) -> Outcome {
        let file = self.metadata_file(n);
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        Ok(fs::rename(new, file)?)
    }

    /// Assigns an address to a node, or takes it off, as the provider does.
    pub(crate) fn assign(&mut self, ip: &str, to: Option<u32>) -> Outcome {
        self.mapped.retain(|(other, _)| other != ip);
        self.mapped.extend(to.map(|n| (ip.to_owned(), n)));
        self.rewrite()
    }

    /// Sets the router's rules, which are stateless like the provider's. The counters of wrong sources restart.
    fn rewrite(&self) -> Outcome {
        let lines = |line: &dyn Fn(&str, &str) -> String| {
            let line = |(ip, n): &(String, u32)| line(ip, &format!("10.10.0.{}", 10 + n));
            self.mapped.iter().map(line).collect::<Vec<_>>().concat()
        };
        let pre = lines(&|ip, anchor| format!("  ip daddr {ip} ip daddr set {anchor}\n"));
        let post = lines(&|ip, anchor| {
            format!("  ip saddr {anchor} ip daddr != 10.0.0.0/8 ip saddr set {ip} accept\n")
        });
        let public: Vec<String> = (1..=self.nodes).map(|n| format!("192.0.2.{}", 10 + n)).collect();
        let public = public.join(", ");
        self.nft(
            &self.router(),
            &format!(
                "table ip provider {{ }}\ndelete table ip provider\ntable ip provider {{\n\
                 chain pre {{\n  type filter hook prerouting priority -300\n  notrack\n{pre} }}\n\
                 chain post {{\n  type filter hook postrouting priority 0\n{post}\
                 \n  oifname ro ip saddr {{ {public}, 198.51.100.1 }} accept\n\
                 oifname ro ip saddr != 10.244.0.0/16 counter drop\n\
                 oifname ro counter drop\n }}\n}}\n"
            ),
        )
    }

    /// Number of packets with a wrong source since the last assignment: first those from other addresses than a pod's,
    /// then those from a pod's.
    pub(crate) fn wrong(&self) -> Outcome<Vec<u64>> {
        let listed = self.inside(&self.router(), "nft", &["list", "chain", "ip", "provider", "post"])?;
        let drops = listed.lines().filter(|line| line.contains("drop"));
        let count = |line: &str| line.split("packets ").nth(1)?.split(' ').next()?.parse().ok();
        Ok(drops.filter_map(count).collect())
    }

    /// The address by which the host outside knows a node's pod.
    pub(crate) fn source(&self, n: u32) -> Outcome<String> {
        self.once(&self.pod(n), &["ask", OUTSIDE])
    }

    /// Waits until the host outside knows the pod by this address.
    pub(crate) async fn leaves_as(&self, n: u32, ip: &str, within: Duration) -> Outcome {
        eventually(&format!("the pod of node {n} leaves as {ip}"), within, || async {
            let source = self.source(n)?;
            (source == ip).then_some(()).ok_or_else(|| Failure::new(source))
        })
        .await
    }

    /// Everything that `ip` and `nft` show of a node, except handles and counters, and IPv6 routes of other tables.
    pub(crate) fn state(&self, n: u32) -> Outcome<String> {
        let node = self.node(n);
        let rules = self.inside(&node, "ip", &["rule"])?;
        let rules6 = self.inside(&node, "ip", &["-6", "rule"])?;
        let routes = self.inside(&node, "ip", &["-4", "route", "show", "table", "all"])?;
        let routes6 = self.inside(&node, "ip", &["-6", "route", "show", "table", "all"])?;
        let routes6: Vec<&str> = routes6.lines().filter(|line| line.contains("table 7141")).collect();
        let tables = self.inside(&node, "nft", &["-s", "list", "ruleset"])?;
        Ok(format!("{rules}\n{rules6}\n{routes}\n{}\n{tables}", routes6.join("\n")))
    }

    /// The public address of a node.
    pub(crate) fn public(n: u32) -> String {
        format!("192.0.2.{}", 10 + n)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
