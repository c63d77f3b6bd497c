//! Commands that ask the leader by a port-forward to its pod, with the rights that docs/operations/commands.md names.

use crate::commands::{call, ended, stage, text, user};
use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, binary, ip, path, plain_spec};
use flipop_envtest::cluster::Kind;
use flipop_envtest::kubelet::Kubelet;
use flipop_envtest::nodes::NewNode;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// The namespace of the operator.
const OPERATOR: &str = "flipop";

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        status_shows_what_only_the_leader_knows,
        a_command_says_which_right_or_which_part_of_the_way_is_missing,
        check_tells_which_nodes_have_answered_to_the_leader,
        the_dashboard_leads_to_the_page_of_the_leader_until_it_is_ended,
    ]
}

/// The pod of a leading operator, on a node of its own whose kubelet forwards ports.
async fn led(world: &World, operator: &Operator) -> Outcome<(Kubelet, String)> {
    let port = operator.metrics_address()?.port();
    let kubelet = Kubelet::start().await?;
    world.nodes.create(&NewNode::new("control")).await?;
    world.nodes.patch_status("control", &kubelet.node_status()).await?;
    let holder = eventually("somebody leads", SOON, || async {
        let spec = world.cluster.lease().await?.and_then(|lease| lease.spec);
        let holder = spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
        holder.ok_or_else(|| Failure::new("nobody"))
    })
    .await?;
    let pod = holder.rsplit_once('_').map_or(holder.as_str(), |(pod, _)| pod).to_owned();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod, "namespace": OPERATOR },
        "spec": {
            "nodeName": "control",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "flipop", "image": "none", "ports": [{ "name": "prometheus", "containerPort": port }],
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    world.kubectl.apply(OPERATOR, &object.to_string()).await?;
    Ok((kubelet, pod))
}

async fn status_shows_what_only_the_leader_knows(world: &mut World) -> Outcome {
    let operator = stage(world).await?;
    let (_kubelet, pod) = led(world, &operator).await?;
    let user = user(world, "watcher", &["flipop-status", "flipop-leader"]).await?;
    // This leader made a move, so it knows when the address came. Alpha is free again and waits.
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    world.nodes.set_ready("alpha", true).await?;
    let shown = eventually("the leader tells of the node in line", SOON, || async {
        let shown = ended(&call(user.path(), &["status", "-n", TEAM, "-o", "json"]).await?, 0)?;
        let waits = shown["pools"][0]["line"][0]["waitsFor"].is_string();
        if waits { Ok(shown) } else { Err(Failure::new(format!("{shown:#}"))) }
    })
    .await?;
    assert_eq!(shown["leader"]["pod"], json!(pod), "{shown:#}");
    assert_eq!(shown["notes"], json!([]), "{shown:#}");
    let pool = &shown["pools"][0];
    assert_eq!(pool["line"][0]["node"], json!("alpha"), "{pool:#}");
    let moved =
        pool["addresses"].as_array().and_then(|all| all.iter().find(|a| a["address"] == json!(ip(10))));
    assert!(
        moved.is_some_and(|moved| moved["node"] == json!("gamma") && moved["since"].is_string()),
        "{pool:#}"
    );
    let table = text(&call(user.path(), &["status", "-n", TEAM]).await?);
    assert!(table.contains(&format!("Leader: {pod}. Ready: 1 of 1")) && table.contains("QUEUE"), "{table}");
    assert!(!table.contains("Note:") && !table.contains("did not report"), "{table}");
    // The same in YAML, and the table with nothing cut.
    let yaml = call(user.path(), &["status", "-n", TEAM, "-o", "yaml"]).await?;
    let yaml: Value = serde_saphyr::from_str(&String::from_utf8(yaml.stdout)?)?;
    assert_eq!(yaml["pools"][0]["addresses"], pool["addresses"]);
    let wide = text(&call(user.path(), &["status", "-n", TEAM, "-o", "wide", "--no-color"]).await?);
    assert!(wide.contains(&format!("Leader: {pod}.")) && wide.contains(&ip(10).to_string()), "{wide}");
    Ok(())
}

async fn a_command_says_which_right_or_which_part_of_the_way_is_missing(world: &mut World) -> Outcome {
    let mut operator = stage(world).await?;
    let (kubelet, pod) = led(world, &operator).await?;
    let note = async |kubeconfig: &Path| -> Outcome<String> {
        let shown = ended(&call(kubeconfig, &["status", "-n", TEAM, "-o", "json"]).await?, 0)?;
        // The rest of the report is there.
        assert_eq!(shown["pools"][0]["addresses"][0]["node"], json!("alpha"), "{shown:#}");
        Ok(shown["notes"].to_string())
    };
    let near = user(world, "near", &["flipop-status"]).await?;
    let role = ["create", "role", "near", "-n", OPERATOR, "--verb=get", "--resource=leases,pods"];
    world.kubectl.run(&role).await?;
    world
        .kubectl
        .run(&["create", "rolebinding", "near", "-n", OPERATOR, "--role=near", "--user=near"])
        .await?;
    let denied =
        "queue order, times and waits are unknown: you may not create pods/portforward in namespace flipop";
    eventually("the missing right is named", SOON, || async {
        let told = note(near.path()).await?;
        if told.contains(denied) { Ok(()) } else { Err(Failure::new(told)) }
    })
    .await?;
    let output = call(near.path(), &["dashboard"]).await?;
    assert!(!output.status.success(), "{}", text(&output));
    let told = text(&output);
    assert!(told.contains("you may not create pods/portforward in namespace flipop"), "{told}");
    // The pod is there, and nothing forwards to it.
    let able = user(world, "able", &["flipop-status", "flipop-leader"]).await?;
    assert_eq!(note(able.path()).await?, "[]");
    drop(kubelet);
    let told = note(able.path()).await?;
    assert!(
        told.contains("queue order, times and waits are unknown: ") && !told.contains("you may not"),
        "{told}"
    );
    // The pod is gone, but its Lease has not expired.
    world.nodes.delete_pod(OPERATOR, &pod).await?;
    let told = note(able.path()).await?;
    assert!(told.contains(&format!("the leader {pod} is not a pod in namespace flipop")), "{told}");
    // A leader that ended by itself gave its Lease up.
    operator.terminate().await?;
    let shown = ended(&call(able.path(), &["status", "-n", TEAM, "-o", "json"]).await?, 0)?;
    assert_eq!((&shown["stale"], &shown["notes"]), (&json!(true), &json!([])), "{shown:#}");
    let table = text(&call(able.path(), &["status", "-n", TEAM]).await?);
    assert!(
        table.starts_with("x No replica leads since ") && table.contains("nothing: no replica leads"),
        "{table}"
    );
    Ok(())
}

async fn check_tells_which_nodes_have_answered_to_the_leader(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    // A port that answers, on the address by which the operator checks the node.
    let own = own_address()?;
    let listener = TcpListener::bind((own, 0))?;
    let port = listener.local_addr()?.port();
    world.node_with("alpha", |node| node.address("InternalIP", &own.to_string())).await?;
    world.kubectl.run(&["apply", "-f", &path("k8s/nodecheck")]).await?;
    let launch = world.launch().await?.env("NODE_NAME", "control");
    let operator = world.start(&launch).await?;
    let (_kubelet, _pod) = led(world, &operator).await?;
    let mut spec = plain_spec(&[10]);
    spec["nodeCheck"] = json!({ "port": port });
    world.pool("p", &spec).await?;
    let user = user(world, "doctor", &["flipop-status", "flipop-leader", "flipop-check"]).await?;
    let says = async |line: &str| {
        eventually(line, SOON, || async {
            let told = text(&call(user.path(), &["check"]).await?);
            if told.contains(line) { Ok(()) } else { Err(Failure::new(told)) }
        })
        .await
    };
    says(&format!("ok port {port} of each of the 1 checked nodes has answered\n")).await?;
    let (silent, _held) = silent(own)?;
    spec["nodeCheck"] = json!({ "port": silent });
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", &spec).await?;
    says(&format!("x  port {silent} has answered on 0 of 1 checked nodes")).await
}

/// The address of this machine towards others. FLIPOP checks none of loopback.
fn own_address() -> Outcome<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Nothing is sent: the kernel only chooses the address.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
    match socket.local_addr()?.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() => Ok(ip),
        other @ (IpAddr::V4(_) | IpAddr::V6(_)) => {
            Err(Failure::new(format!("{other} is no address of this machine towards others")))
        }
    }
}

/// A port that never answers while the returned value is held: its queue is full, so the kernel drops new connections.
fn silent(own: Ipv4Addr) -> Outcome<(u16, (TcpListener, TcpStream))> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(own, 0))?;
    rustix::net::listen(&socket, 0)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    let waiting = TcpStream::connect(address)?;
    Ok((address.port(), (listener, waiting)))
}

async fn the_dashboard_leads_to_the_page_of_the_leader_until_it_is_ended(world: &mut World) -> Outcome {
    let operator = stage(world).await?;
    let (_kubelet, pod) = led(world, &operator).await?;
    let user = user(world, "reader", &["flipop-leader"]).await?;
    let mut command = tokio::process::Command::new(binary());
    command.args(["dashboard"]).env_clear().env("KUBECONFIG", user.path());
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let out = child.stdout.take().ok_or_else(|| Failure::new("no output"))?;
    let mut lines = BufReader::new(out).lines();
    let url = lines.next_line().await?.unwrap_or_default();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let second = lines.next_line().await?.unwrap_or_default();
    assert_eq!(second, format!("Forwarding to leader {pod}. Press Ctrl-C to stop."));
    let page = reqwest::get(&url).await?.text().await?;
    assert!(page.contains("<title>"), "{page}");
    // As many at a time as a browser opens, each with what the leader knows.
    let asked = (0..6).map(|_| async {
        let debug: Value = reqwest::get(format!("{url}debug")).await?.json().await?;
        assert_eq!(debug["leading"], json!(true), "{debug:#}");
        Ok::<_, Failure>(())
    });
    futures::future::try_join_all(asked).await?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    kill_process(id.ok_or_else(|| Failure::new("it has ended"))?, Signal::INT)?;
    assert!(child.wait().await?.success());
    assert!(reqwest::get(&url).await.is_err(), "nothing listens any more");
    Ok(())
}
