//! The commands that people call, with the rights that docs/operations/commands.md names and no other.

use crate::dns::{ZONE, set_spec};
use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, SOON, TEAM, World, binary, ip, path, plain_spec};
use flipop_cloud::{Provider, RecordView};
use flipop_envtest::cluster::Kind;
use flipop_envtest::nodes::{NewNode, NewPod};
use flipop_envtest::operator::{Operator, TOKEN};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        status_and_plan_agree_with_the_operator_and_write_nothing,
        check_names_what_is_wrong_and_what_cannot_be_asked,
        check_tells_what_tokens_prove_and_what_is_amiss,
        plan_reads_the_account_and_shows_what_changes_in_its_firewalls,
        move_pause_and_resume_wait_for_what_becomes_of_them,
        what_no_operator_answers_is_told_when_the_wait_is_over,
    ]
}

/// Applies the roles of the page, and binds these to a user who has no other right. Servers are reused, so each test
/// has users of its own.
pub(crate) async fn user(world: &World, name: &str, roles: &[&str]) -> Outcome<tempfile::NamedTempFile> {
    let page = fs::read_to_string(path("docs/operations/commands.md"))?;
    let blocks = page.split("```yaml apply\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let roles_of_page: Vec<&str> = blocks.map(|(block, _)| block).collect();
    assert_eq!(roles_of_page.len(), 4);
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), roles_of_page.join("\n---\n"))?;
    world.kubectl.run(&["apply", "-f", &file.path().display().to_string()]).await?;
    for role in roles {
        let (binding, user) = (format!("{name}-{role}"), format!("--user={name}"));
        // The only Role. The others are ClusterRoles.
        if *role == "flipop-leader" {
            let role = format!("--role={role}");
            world.kubectl.run(&["create", "rolebinding", &binding, &role, &user, "-n", "flipop"]).await?;
            continue;
        }
        let role = format!("--clusterrole={role}");
        world.kubectl.run(&["create", "clusterrolebinding", &binding, &role, &user]).await?;
    }
    // The API server learns of a binding by a watch of its own.
    let rights = roles.iter().map(|role| match *role {
        "flipop-check" => ["create", "subjectaccessreviews.authorization.k8s.io"],
        "flipop-steer" => ["patch", "floatingippools.flipop.digitalocean.com"],
        "flipop-leader" => ["get", "pods/portforward"],
        _ => ["list", "nodes"],
    });
    for [verb, resource] in rights {
        eventually("the user has the rights of the role", SOON, || async {
            world.kubectl.run(&["auth", "can-i", verb, resource, "-n", "flipop", "--as", name]).await
        })
        .await?;
    }
    let config = world.kubectl.run(&["config", "view", "--raw", "--flatten", "-o", "json"]).await?.stdout;
    let mut config: Value = serde_json::from_str(&config)?;
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"]["as"] = json!(name);
    }
    let kubeconfig = tempfile::NamedTempFile::new()?;
    fs::write(kubeconfig.path(), config.to_string())?;
    Ok(kubeconfig)
}

/// An image in place of the one that the manifests leave to the user.
pub(crate) async fn name_an_image(world: &World) -> Outcome {
    let image = "flipop=registry.example.com/flipop:9";
    world.kubectl.run(&["set", "image", "deployment/flipop", image, "-n", "flipop"]).await.map(drop)
}

pub(crate) async fn call(kubeconfig: &Path, arguments: &[&str]) -> Outcome<Output> {
    let mut command = tokio::process::Command::new(binary());
    command.args(arguments).env_clear().env("KUBECONFIG", kubeconfig);
    Ok(command.output().await?)
}

/// The same with a token of the simulated account.
async fn call_with(world: &World, token: &str, kubeconfig: &Path, arguments: &[&str]) -> Outcome<Output> {
    let mut command = tokio::process::Command::new(binary());
    command.args(arguments).env_clear().env("KUBECONFIG", kubeconfig);
    command.env("DIGITALOCEAN_ACCESS_TOKEN", token).env("DIGITALOCEAN_API_URL", world.digitalocean_url());
    Ok(command.output().await?)
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn ended(output: &Output, code: i32) -> Outcome<Value> {
    if output.status.code() != Some(code) {
        return Err(Failure::new(format!("{:?} and not {code}: {}", output.status, text(output))));
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

/// Two addresses on alpha and beta, and gamma has none.
pub(crate) async fn stage(world: &World) -> Outcome<Operator> {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    let operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    Ok(operator)
}

async fn status_and_plan_agree_with_the_operator_and_write_nothing(world: &mut World) -> Outcome {
    let mut operator = stage(world).await?;
    let user = user(world, "viewer", &["flipop-status"]).await?;
    let shown = ended(&call(user.path(), &["status", "-n", TEAM, "-o", "json"]).await?, 0)?;
    let addresses = shown["pools"][0]["addresses"].clone();
    assert_eq!(addresses[0]["address"], json!(ip(10).to_string()));
    assert_eq!((&addresses[0]["node"], &addresses[0]["health"]), (&json!("alpha"), &json!("matches")));
    assert_eq!(shown["pools"][0]["line"], json!([{"node": "gamma"}]));
    let table = text(&call(user.path(), &["status", "-n", TEAM]).await?);
    assert!(table.contains("ok Ready=True Assigned, 2 of 2 addresses active\n"), "{table}");
    let note = shown["notes"][0].to_string();
    assert!(note.contains("you may not get lease"), "{note}");
    ended(&call(user.path(), &["plan", "-o", "json"]).await?, 0)?;
    // Without the operator, the planned change is still to be made. With the operator again, the change is made.
    operator.terminate().await?;
    world.nodes.set_ready("beta", false).await?;
    let before = world.get_pool("p").await?;
    let planned = ended(&call(user.path(), &["plan", "-o", "json"]).await?, 3)?;
    let change = format!("move {} from beta to gamma", ip(11));
    assert_eq!(planned["changes"][0]["text"], json!(change), "{planned:#}");
    let bad = tempfile::NamedTempFile::new()?;
    let mut spec = plain_spec(&[12]);
    spec["match"] = json!({"nodeLabel": "a in"});
    let object = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": {"name": "bad", "namespace": TEAM}, "spec": spec,
    });
    fs::write(bad.path(), object.to_string())?;
    let file = bad.path().display().to_string();
    ended(&call(user.path(), &["plan", "-f", &file]).await?, 4)?;
    ended(&call(user.path(), &["plan", "--no-such-flag"]).await?, 64)?;
    let nowhere = call(user.path(), &["status", "-n", "nowhere"]).await?;
    ended(&nowhere, 1)?;
    assert!(text(&nowhere).contains("failed to find the namespace nowhere"), "{}", text(&nowhere));
    let named = ended(&call(user.path(), &["status", "fipool/p", "-n", TEAM, "-o", "json"]).await?, 0)?;
    assert_eq!(named["pools"].as_array().map(Vec::len), Some(1), "{named:#}");
    ended(&call(user.path(), &["status", "nodedns/p", "-n", TEAM]).await?, 1)?;
    assert_eq!(world.get_pool("p").await?.status(), before.status(), "nothing was written");
    let _operator = world.operator().await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "gamma")]).await
}

async fn check_names_what_is_wrong_and_what_cannot_be_asked(world: &mut World) -> Outcome {
    name_an_image(world).await?;
    let _operator = stage(world).await?;
    let viewer = user(world, "onlooker", &["flipop-status"]).await?;
    let output = call(viewer.path(), &["check"]).await?;
    ended(&output, 0)?;
    let told = text(&output);
    assert!(told.contains("you may not create subjectaccessreviews"), "{told}");
    let checker = user(world, "checker", &["flipop-status", "flipop-check"]).await?;
    let output = call(checker.path(), &["check"]).await?;
    ended(&output, 0)?;
    let told = text(&output);
    for right in [
        "ok system:serviceaccount:flipop:flipop may patch nodes\n",
        "ok system:serviceaccount:flipop:flipop may get, watch, update leases (coordination.k8s.io)\n",
        "ok the admission policy flipop-node-annotation is there and bound\n",
        "has every field of version",
        "ok there is no second installation\n",
    ] {
        assert!(told.contains(right), "{right}: {told}");
    }
    let nobody = user(world, "nobody", &[]).await?;
    ended(&call(nobody.path(), &["check"]).await?, 2)?;
    let left = call(checker.path(), &["check", "--uninstall"]).await?;
    ended(&left, 0)?;
    let annotation = "node alpha: annotation flipop.digitalocean.com/ipv4-reserved-ip=";
    assert!(text(&left).contains(annotation), "{}", text(&left));
    Ok(())
}

/// A pool of one address that opens a port.
fn walled_spec(port: &str) -> Value {
    let mut spec = plain_spec(&[10]);
    spec["firewall"] = json!({"ports": [{"protocol": "tcp", "port": port}], "sources": ["0.0.0.0/0"]});
    spec
}

async fn check_tells_what_tokens_prove_and_what_is_amiss(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.zones();
    world.node("alpha").await?;
    world.nodes.create(&NewNode::new("bare").label("pool", "work")).await?;
    let mark = "\"heritage=external-dns,external-dns/owner=other\"";
    let mark = RecordView::new("a-www.example.com", "TXT", mark, 300);
    world.cloud().add_record(Provider::DigitalOcean, ZONE, &mark);
    let mut spec = walled_spec("443");
    spec["desiredIPs"] = json!(3);
    spec["dnsRecordSet"] = json!({"zone": ZONE, "recordName": "www"});
    world.pool("p", &spec).await?;
    let mut set = set_spec(Provider::DigitalOcean, "nodes");
    set["addressType"] = json!(ANNOTATION);
    set["grace"] = json!({"nodeSeconds": 60});
    world.record_set("nodes", &set).await?;
    world.cluster.namespace("flipop-agent", None).await?;
    let agent = NewPod::new("flipop-agent", "agent-alpha", "alpha").label("app", "flipop-agent");
    world.nodes.create_pod(&agent.not_ready()).await?;
    let scopes = ["reserved_ip:read", "droplet:read", "firewall:read", "domain:read"];
    world.cloud().add_token(Provider::DigitalOcean, "narrow", "narrow", &scopes);
    let checker = user(world, "examiner", &["flipop-status", "flipop-check"]).await?;
    let output = call_with(world, "narrow", checker.path(), &["check"]).await?;
    ended(&output, 1)?;
    let told = text(&output);
    for line in [
        "x  the token of digitalocean lacks tag:read: ",
        "!  external-dns has an ownership TXT record for www.example.com at digitalocean: ",
        "!  pools will create 2 more addresses at digitalocean, ",
        "make sure that its token has reserved_ip:update, reserved_ip:create, firewall:create, ",
        "requests are left in the quota of the token of digitalocean",
        "x  the agent on alpha is not ready: ",
        "!  NodeDNSRecordSet default/nodes publishes addresses of FloatingIPPool default/p with another grace \
         period: ",
        "x  node bare has no spec.providerID",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert_eq!(world.cloud().mutations(), 0, "it reads alone");
    // The token has every scope and comes from a file as in a Secret. The agent is ready.
    world.nodes.set_pod_ready("flipop-agent", "agent-alpha", true).await?;
    let file = tempfile::NamedTempFile::new()?;
    let variables = format!(
        "# of the Deployment\nDIGITALOCEAN_ACCESS_TOKEN={TOKEN}\nDIGITALOCEAN_API_URL={}\n",
        world.digitalocean_url()
    );
    fs::write(file.path(), variables)?;
    let file = file.path().display().to_string();
    let told = text(&call(checker.path(), &["check", "--env-file", &file]).await?);
    assert!(!told.contains(TOKEN), "{told}");
    for line in ["ok the token of digitalocean reads its 0 firewalls", "ok all 1 agents of nodes are ready"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    Ok(())
}

async fn plan_reads_the_account_and_shows_what_changes_in_its_firewalls(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    assert!(world.cloud().add_firewall("base", &[], &["k8s"]).is_some());
    world.pool("p", &walled_spec("443")).await?;
    let user = user(world, "planner", &["flipop-status"]).await?;
    let plan = ["plan", "--with-provider", "-o", "json"];
    let texts = |planned: &Value| -> Vec<String> {
        let changes = planned["changes"].as_array().into_iter().flatten();
        changes
            .map(|change| {
                format!(
                    "{} {}",
                    change["sign"].as_str().unwrap_or_default(),
                    change["text"].as_str().unwrap_or_default()
                )
            })
            .collect()
    };
    let planned = ended(&call_with(world, TOKEN, user.path(), &plan).await?, 3)?;
    let wall = "in new firewall 1";
    for change in [
        format!("add assign {} to alpha", ip(10)),
        "add create new firewall 1 at digitalocean".to_owned(),
        format!("add rule tcp/443 from 0.0.0.0/0 {wall}"),
        format!("add member alpha {wall}"),
        format!("add member beta {wall}"),
    ] {
        assert!(texts(&planned).contains(&change), "{change}: {planned:#}");
    }
    let blind = ended(&call(user.path(), &["plan", "-o", "json"]).await?, 3)?;
    assert!(blind["notes"].to_string().contains("the changes in firewalls are unknown"), "{blind:#}");
    assert_eq!(world.cloud().mutations(), 0, "a plan changes nothing");
    // The operator does what was planned, and nothing is left to do.
    let _operator = world.operator().await?;
    eventually("nothing is left to do", SOON, || async {
        ended(&call_with(world, TOKEN, user.path(), &plan).await?, 0).map(drop)
    })
    .await?;
    let name = world.get_pool("p").await?.status()["firewalls"][0]["name"].clone();
    let name = name.as_str().unwrap_or_default();
    for (spec, changes) in [
        (
            walled_spec("80"),
            vec![
                format!("add rule tcp/80 from 0.0.0.0/0 in firewall {name}"),
                format!("remove rule tcp/443 from 0.0.0.0/0 in firewall {name}"),
            ],
        ),
        (plain_spec(&[10]), vec![format!("remove delete firewall {name} at digitalocean")]),
    ] {
        let file = tempfile::NamedTempFile::new()?;
        let object = json!({
            "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
            "metadata": {"name": "p", "namespace": TEAM}, "spec": spec,
        });
        fs::write(file.path(), object.to_string())?;
        let path = file.path().display().to_string();
        let planned =
            ended(&call_with(world, TOKEN, user.path(), &[&plan[..], &["-f", &path]].concat()).await?, 3)?;
        for change in changes {
            assert!(texts(&planned).contains(&change), "{change}: {planned:#}");
        }
    }
    Ok(())
}

async fn move_pause_and_resume_wait_for_what_becomes_of_them(world: &mut World) -> Outcome {
    let _operator = stage(world).await?;
    let user = user(world, "captain", &["flipop-steer"]).await?;
    let address = ip(10).to_string();
    let output = call(user.path(), &["move", "p", &address, "gamma", "-n", TEAM, "-o", "json"]).await?;
    let moved = ended(&output, 0)?[0].clone();
    assert_eq!((&moved["outcome"], &moved["address"]), (&json!("Done"), &json!(address)), "{moved:#}");
    assert_eq!((&moved["from"], &moved["to"]), (&json!("alpha"), &json!("gamma")), "{moved:#}");
    assert!(moved["seconds"].is_number(), "{moved:#}");
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    let output = call(user.path(), &["pause", "fipool/p", "-n", TEAM, "--reason", "incident 7"]).await?;
    ended(&output, 0)?;
    world.get_pool("p").await?.has_condition("incident 7").map_err(Failure::new)?;
    let refused = call(user.path(), &["move", "p", &address, "alpha", "-n", TEAM]).await?;
    ended(&refused, 1)?;
    assert!(text(&refused).contains("Refused"), "{}", text(&refused));
    let wide = world.kubectl.run(&["get", "fipool", "p", "-n", TEAM, "-o", "wide"]).await?.stdout;
    let row = wide.lines().last().unwrap_or_default();
    let times = row
        .split_whitespace()
        .filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()) && cell.ends_with('s'));
    assert!(wide.contains("PAUSED") && wide.contains("MOVE"), "{wide}");
    assert!(row.split_whitespace().any(|cell| cell == "Refused"), "the last move: {wide}");
    assert_eq!(times.count(), 2, "since the pause, and since the creation: {wide}");
    // Another object that was never paused is not named.
    world.record_set("nodes", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    let resumed = text(&call(user.path(), &["resume", "--all", "-n", TEAM]).await?);
    assert_eq!(resumed, "ok FloatingIPPool default/p resumed\n");
    assert!(world.get_pool("p").await?.has_condition("incident 7").is_err());
    // A missing object hides no result for the others.
    let output = call(user.path(), &["pause", "fipool/absent", "fipool/p", "-n", TEAM]).await?;
    ended(&output, 1)?;
    let told = text(&output);
    assert!(told.contains("x FloatingIPPool default/absent Failed: failed to find"), "{told}");
    assert!(told.contains("ok FloatingIPPool default/p paused"), "{told}");
    ended(&call(user.path(), &["resume", "fipool/p", "-n", TEAM, "--wait=0"]).await?, 0)?;
    // A name alone does too, and one that nothing has is named.
    ended(&call(user.path(), &["pause", "p", "-n", TEAM, "--wait=0"]).await?, 0)?;
    ended(&call(user.path(), &["resume", "p", "-n", TEAM, "--wait=0"]).await?, 0)?;
    for (arguments, missing) in [
        (
            &["pause", "absent", "-n", TEAM][..],
            "failed to find a pool or record set absent in namespace default",
        ),
        (&["resume", "--all", "-n", "nowhere"], "failed to find the namespace nowhere"),
        (&["move", "absent", &address, "alpha", "-n", TEAM], "failed to find FloatingIPPool default/absent"),
    ] {
        let output = call(user.path(), arguments).await?;
        ended(&output, 1)?;
        assert!(text(&output).contains(missing), "{}", text(&output));
    }
    Ok(())
}

async fn what_no_operator_answers_is_told_when_the_wait_is_over(world: &mut World) -> Outcome {
    let mut operator = stage(world).await?;
    operator.terminate().await?;
    let user = user(world, "lonely", &["flipop-steer"]).await?;
    let address = ip(10).to_string();
    let to_gamma = ["move", "p", &address, "gamma", "-n", TEAM];
    let pause = ["pause", "fipool/p", "-n", TEAM, "--reason", "incident 7"];
    let (moved, paused) = futures::try_join!(call(user.path(), &to_gamma), call(user.path(), &pause))?;
    ended(&moved, 1)?;
    let told = text(&moved);
    assert!(told.contains("no replica leads since ") && told.contains("nothing was requested"), "{told}");
    let pool = world.cluster.get(Kind::Pool, TEAM, "p").await?;
    assert!(pool["metadata"]["annotations"]["flipop.digitalocean.com/move"].is_null(), "{pool:#}");
    ended(&paused, 1)?;
    let told = text(&paused);
    assert!(told.contains("NoOutcome: the annotation is set, but no operator has confirmed it"), "{told}");
    // The pause stays, and the next leader reads it.
    let _operator = world.operator().await?;
    eventually("the pause counts", SOON, || async {
        world.get_pool("p").await?.has_condition("incident 7").map_err(Failure::new)
    })
    .await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await
}
