//! `flipop check`: each line that is not good, with its remedy.
//!
//! Much is broken at once in each world, and all lines that are not good are compared.

use crate::commands::{call, ended, name_an_image, user};
use crate::dns::{ZONE, set_spec};
use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, ip, path, plain_spec};
use flipop_cloud::{Fault, Injection, Op, Provider, RecordView, Target};
use flipop_envtest::cluster::{Kind, LEASE, NAMESPACE};
use flipop_envtest::nodes::NewNode;
use flipop_envtest::operator::{CLOUDFLARE_TOKEN, TOKEN};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(crate) fn cases() -> Vec<Case> {
    let mut all = cases![Installed:
        check_names_each_right_that_its_own_user_lacks,
        check_names_mistakes_and_limits_and_nodes_that_can_hold_no_address,
        check_names_what_a_token_cannot_read_and_what_cannot_be_published,
    ];
    all.extend(cases![InstalledForOne:
        check_names_each_part_of_an_installation_that_is_missing_or_old_or_strange,
    ]);
    all
}

/// A line that is not good: its tone, its beginning, and a part of its remedy.
type Line<'a> = (&'a str, &'a str, &'a str);

const fn bad<'a>(what: &'a str, remedy: &'a str) -> Line<'a> {
    ("bad", what, remedy)
}

const fn doubtful<'a>(what: &'a str, remedy: &'a str) -> Line<'a> {
    ("doubtful", what, remedy)
}

const NO_LEASE: Line<'static> = bad("there is no Lease ", "start the operator, or name its namespace with");

const NO_REPLICA: Line<'static> = doubtful("no pod in namespace flipop has the label app=flipop", "name the");

const NO_TOKEN: Line<'static> =
    doubtful("the token of digitalocean is not checked", "set DIGITALOCEAN_ACCESS_TOKEN here, or use");

const WRITE_SCOPES: Line<'static> = doubtful(
    "the write scopes of digitalocean are unknown",
    "make sure that its token has reserved_ip:update",
);

const WRITE_SCOPES_OF_DNS: Line<'static> =
    doubtful("the write scopes of cloudflare are unknown", "make sure that its token has Zone > DNS > Edit");

const UNREAD: Line<'static> = doubtful(
    "the status of FloatingIPPool default/p does not describe its present spec",
    "wait for the leader",
);

const NO_CHECK: Line<'static> = doubtful(
    "the leader reports no check of port 10250",
    "make sure that the port is open from its pods to the",
);

/// `Err` unless these are all lines that are not good, in this order.
fn compare(told: &Value, expected: &[Line<'_>]) -> Outcome {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = told.as_array().into_iter().flatten().filter(|line| line["tone"] != "good");
    let told: Vec<[String; 3]> =
        lines.map(|line| ["tone", "what", "remedy"].map(|key| text(line, key))).collect();
    let fits = |([tone, what, remedy], line): (&[String; 3], &Line<'_>)| {
        tone == line.0 && what.starts_with(line.1) && remedy.contains(line.2)
    };
    if told.len() == expected.len() && told.iter().zip(expected).all(fits) {
        return Ok(());
    }
    Err(Failure::new(format!("{told:#?}\ninstead of {expected:#?}")))
}

/// Runs `check` with these further arguments, and compares its lines and how it ends.
async fn finds(kubeconfig: &Path, further: &[&str], expected: &[Line<'_>]) -> Outcome {
    let code = i32::from(expected.iter().any(|(tone, ..)| *tone == "bad"));
    let arguments = [&["check", "-o", "json"][..], further].concat();
    compare(&ended(&call(kubeconfig, &arguments).await?, code)?, expected)
}

async fn check_names_each_right_that_its_own_user_lacks(world: &mut World) -> Outcome {
    let world = &*world;
    let mut spec = plain_spec(&[10]);
    spec["nodeCheck"] = json!({});
    world.pool("p", &spec).await?;
    let blind = user(world, "blind", &[]).await?;
    let kinds = Kind::ALL.map(|kind| format!("{}.flipop.digitalocean.com", kind.plural())).join(",");
    let resources = format!("--resource={kinds}");
    world.kubectl.run(&["create", "clusterrole", "blind", "--verb=list", &resources]).await?;
    let binding = ["create", "clusterrolebinding", "blind", "--clusterrole=blind", "--user=blind"];
    world.kubectl.run(&binding).await?;
    let definitions = "you may not get customresourcedefinitions in the cluster";
    let policies = "get validatingadmissionpolicies and validatingadmissionpolicybindings in the cluster";
    let deployment = "you may not get deployments in namespace flipop";
    let reviews = "you may not create subjectaccessreviews in the cluster";
    let expected = [
        doubtful("the CRD floatingippools.flipop.digitalocean.com cannot be checked", definitions),
        doubtful("the CRD nodednsrecordsets.flipop.digitalocean.com cannot be checked", definitions),
        doubtful(
            "the account of the operator is assumed to be system:serviceaccount:flipop:flipop",
            deployment,
        ),
        doubtful("the rights of system:serviceaccount:flipop:flipop cannot be checked", reviews),
        doubtful("the admission policy flipop-node-annotation cannot be checked", policies),
        doubtful("the admission policy flipop-warnings-floatingippools cannot be checked", policies),
        doubtful("the admission policy flipop-warnings-nodednsrecordsets cannot be checked", policies),
        doubtful("the Lease cannot be read", "you may not get leases in namespace flipop"),
        doubtful("a second installation cannot be ruled out", "you may not list leases in the cluster"),
        doubtful("the replicas cannot be listed", "you may not list pods in namespace flipop"),
        UNREAD,
        doubtful("the nodes cannot be read", "you may not list nodes in the cluster"),
        doubtful("the agents of nodes cannot be listed", "you may not list pods in the cluster"),
        doubtful(
            "it is unknown whether the Deployment sets NODE_NAME, which spec.nodeCheck needs",
            deployment,
        ),
        NO_CHECK,
        WRITE_SCOPES,
        NO_TOKEN,
    ];
    // The API server learns of the binding by a watch of its own.
    eventually("each missing right is named", SOON, || finds(blind.path(), &[], &expected)).await
}

/// A condition as the operator writes it.
fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": "True", "reason": reason, "message": message })
}

/// Nodes of another provider, nodes without a provider ID, and a worker of DigitalOcean's own clusters.
async fn strange_nodes(world: &World) -> Outcome {
    for name in ["bare-1", "bare-2"] {
        world.nodes.create(&NewNode::new(name)).await?;
    }
    for number in 1..=6 {
        let name = format!("aws-{number}");
        world.nodes.create(&NewNode::new(&name)).await?;
        let of_another = json!({ "spec": { "providerID": format!("aws:///eu-west-1a/{name}") } });
        world.nodes.patch(&name, &of_another).await?;
    }
    world.node_with("worker", |node| node.label("doks.digitalocean.com/node-id", "x")).await.map(drop)
}

async fn check_names_mistakes_and_limits_and_nodes_that_can_hold_no_address(world: &mut World) -> Outcome {
    let world = &*world;
    name_an_image(world).await?;
    strange_nodes(world).await?;
    let mut spec = plain_spec(&[10]);
    spec["reclaimPolicy"] = json!("Delete");
    world.pool("p", &spec).await?;
    let conditions = [
        condition("Ready", "Assigned", "all is well"),
        condition("CreationFailed", "Quota", "ask for more of them"),
        condition("ReclaimBlocked", "Locked", "an action of somebody else is pending"),
        condition("RecordSetExternalDNS", "OwnershipRecord", "let only one write the name of the pool"),
    ];
    let status = json!({ "observedGeneration": 1, "conditions": conditions });
    world.cluster.replace_status(Kind::Pool, TEAM, "p", &status).await?;
    let mut spec = plain_spec(&[11]);
    spec["match"]["nodeLabel"] = json!("a in");
    world.pool("wrong", &spec).await?;
    world.record_set("marked", &set_spec(Provider::DigitalOcean, "marked")).await?;
    let marked = [condition("ExternalDNS", "OwnershipRecord", "let only one write the name of the set")];
    let status = json!({ "observedGeneration": 1, "conditions": marked });
    world.cluster.replace_status(Kind::RecordSet, TEAM, "marked", &status).await?;
    let mut set = set_spec(Provider::DigitalOcean, "wrong");
    set["addressType"] = json!("Nonsense");
    world.record_set("wrong", &set).await?;
    let surveyor = user(world, "surveyor", &["flipop-status", "flipop-check"]).await?;
    let expected = [
        NO_LEASE,
        NO_REPLICA,
        bad(
            "FloatingIPPool default/p: CreationFailed=True Quota: ask for more of them",
            "Ask DigitalOcean for more, or lower desiredIPs.",
        ),
        bad("FloatingIPPool default/p: ReclaimBlocked=True Locked: an action of somebody else", ""),
        doubtful(
            "FloatingIPPool default/p: RecordSetExternalDNS=True OwnershipRecord: let only one write the name",
            "Let only one of the two manage the name.",
        ),
        bad("FloatingIPPool default/wrong is invalid", "spec.match.nodeLabel: "),
        doubtful(
            "NodeDNSRecordSet default/marked: ExternalDNS=True OwnershipRecord: let only one write the name",
            "Let only one of the two manage the name.",
        ),
        bad("NodeDNSRecordSet default/wrong is invalid", "spec.addressType: unknown value \"Nonsense\""),
        bad(
            "2 nodes (bare-1, bare-2) have no spec.providerID, and can hold no address",
            "run the cloud controller manager of DigitalOcean, or set it",
        ),
        doubtful(
            "6 nodes (aws-1, aws-2, aws-3, aws-4, aws-5 …) have a spec.providerID that belongs to no provider of ",
            "only droplets of DigitalOcean can have addresses",
        ),
        doubtful("node worker is a worker of DigitalOcean's managed Kubernetes (DOKS)", "does not support"),
        doubtful("the write scopes of digitalocean are unknown", "reserved_ip:delete, domain:create"),
        NO_TOKEN,
    ];
    finds(surveyor.path(), &[], &expected).await
}

/// A file with these lines, as in the Secret of the Deployment.
fn env_file(lines: &[String]) -> Outcome<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), lines.join("\n"))?;
    Ok(file)
}

/// A pool that asks for everything, and names in zones that are not there or that are outside their zone. Returns the
/// id of the zone at Cloudflare.
async fn asking(world: &World) -> Outcome<String> {
    let id = world.zones();
    let mut spec = plain_spec(&[10]);
    spec["firewall"] = json!({ "ports": [{ "protocol": "tcp", "port": "443" }], "sources": ["0.0.0.0/0"] });
    spec["dnsRecordSet"] = json!({ "zone": ZONE, "recordName": "www" });
    world.pool("p", &spec).await?;
    for (object, provider, zone, name) in [
        ("lost", Provider::Cloudflare, "nowhere.example", "www"),
        ("outside", Provider::Cloudflare, id.as_str(), "www.other.org."),
        ("unknown", Provider::DigitalOcean, "nowhere.example", "www"),
    ] {
        let mut spec = set_spec(provider, name);
        spec["dnsRecordSet"]["zone"] = json!(zone);
        world.record_set(object, &spec).await?;
    }
    Ok(id)
}

async fn check_names_what_a_token_cannot_read_and_what_cannot_be_published(world: &mut World) -> Outcome {
    let world = &*world;
    name_an_image(world).await?;
    let id = asking(world).await?;
    let auditor = user(world, "auditor", &["flipop-status", "flipop-check"]).await?;
    world.cloud().add_token(Provider::DigitalOcean, "blind", "sees-nothing", &["account:read"]);
    // Of 5,000 an hour. The calls of the command count too.
    world.cloud().exhaust(Provider::DigitalOcean, "blind", 100);
    let url = format!("DIGITALOCEAN_API_URL={}", world.digitalocean_url());
    let blind = env_file(&[
        "DIGITALOCEAN_ACCESS_TOKEN=sees-nothing".to_owned(),
        url.clone(),
        format!("CLOUDFLARE_TOKEN={CLOUDFLARE_TOKEN}"),
        format!("CLOUDFLARE_API_URL={}", world.cloudflare_url()),
    ])?;
    let no_name = format!("www.other.org. is not a name in the zone {id}");
    let unread = ["lost", "outside", "unknown"].map(|set| {
        format!("the status of NodeDNSRecordSet default/{set} does not describe its present spec")
    });
    let unread = [0, 1, 2].map(|number: usize| doubtful(&unread[number], "wait for the leader"));
    let common =
        [&[NO_LEASE, NO_REPLICA, UNREAD][..], &unread, &[WRITE_SCOPES, WRITE_SCOPES_OF_DNS]].concat();
    let expected = [
        bad("the token of digitalocean cannot read its addresses", "reserved_ip:read"),
        bad("the token of digitalocean cannot read machines", "give it the scope droplet:read: without it"),
        bad("the token of digitalocean cannot read its firewalls", "firewall:read"),
        bad("the zone nowhere.example is not at cloudflare", "the token sees no zone nowhere.example"),
        bad(&no_name, "is not in the zone example.com"),
        bad("www.example.com at digitalocean cannot be read", "domain:read"),
        bad("www.nowhere.example at digitalocean cannot be read", "domain:read"),
        doubtful("9", "wait, or give FLIPOP a token of its own"),
    ];
    let file = blind.path().display().to_string();
    finds(auditor.path(), &["--env-file", &file], &[&common[..], &expected].concat()).await?;

    // With every scope, no token for Cloudflare, machines that cannot be listed, and a CNAME record at the name.
    world.cloud().inject(Injection::always(Target::op(Op::ListDroplets), Fault::status(500)));
    let alias = RecordView::new("www.example.com", "CNAME", "example.org.", 300);
    world.cloud().add_record(Provider::DigitalOcean, ZONE, &alias);
    let able = env_file(&[format!("DIGITALOCEAN_ACCESS_TOKEN={TOKEN}"), url])?;
    let absent = format!("{} of FloatingIPPool default/p is not in the account of the token", ip(10));
    let expected = [
        doubtful("the token of cloudflare is not checked", "set CLOUDFLARE_TOKEN here, or use --env-file"),
        bad(&absent, "correct spec.ips, or use the token of the account"),
        bad("the token of digitalocean cannot read machines", "answered 500"),
        bad("the token of digitalocean cannot read its firewalls", "answered 500"),
        bad("www.example.com at digitalocean has a CNAME record", "or choose another recordName"),
        bad("the zone nowhere.example is not at digitalocean", "the token sees no such zone"),
    ];
    let file = able.path().display().to_string();
    finds(auditor.path(), &["--env-file", &file], &[&common[..], &expected].concat()).await?;
    assert_eq!(world.cloud().mutations(), 0, "it reads alone");
    Ok(())
}

/// Changes an object, as kubectl does.
async fn patch(world: &World, object: &str, patch: &Value) -> Outcome {
    world.kubectl.run(&["patch", object, "--type=json", "-p", &patch.to_string()]).await.map(drop)
}

/// Definitions of other versions: one lacks fields and lets a number pass, and one is not served.
async fn other_definitions(world: &World) -> Outcome {
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let lacking = [
        "spec/properties/firewall",
        "spec/properties/grace/properties/podSeconds",
        "spec/properties/match/properties/tolerations/items/properties/value",
        "spec/properties/minActive",
        "spec/properties/nodeLabels",
        "spec/properties/reclaimPolicy",
        "status/properties/conditions",
    ];
    let remove = |field: &str| json!({ "op": "remove", "path": format!("{schema}/{field}") });
    let mut patch: Vec<Value> = lacking.into_iter().map(remove).collect();
    patch.push(json!({
        "op": "replace", "path": format!("{schema}/spec/properties/provider"),
        "value": { "x-kubernetes-preserve-unknown-fields": true },
    }));
    self::patch(world, "crd/floatingippools.flipop.digitalocean.com", &json!(patch)).await?;
    world.kubectl.run(&["delete", "crd", "nodednsrecordsets.flipop.digitalocean.com"]).await?;
    let sets = fs::read_to_string(path("k8s/crd-nodednsrecordsets.yaml"))?;
    world.kubectl.apply(NAMESPACE, &sets.replace("served: true", "served: false")).await?;
    // The new schema counts moments later.
    let odd = json!({ "provider": 7 });
    eventually("a provider may be a number", SOON, || world.pool("odd", &odd)).await
}

/// Rights and policies as after an unfinished installation into another namespace.
async fn other_rights(world: &World) -> Outcome {
    let other = "request.userInfo.username == 'system:serviceaccount:other:flipop'";
    let replace = json!([{ "op": "replace", "path": "/spec/matchConditions/0/expression", "value": other }]);
    patch(world, "validatingadmissionpolicy/flipop-node-annotation", &replace).await?;
    let is_of_nodes = json!({ "op": "test", "path": "/rules/1/verbs", "value": ["patch"] });
    patch(world, "clusterrole/flipop", &json!([is_of_nodes, { "op": "remove", "path": "/rules/1" }])).await?;
    let binding = "validatingadmissionpolicybinding/flipop-warnings-floatingippools";
    world.kubectl.run(&["delete", binding]).await?;
    let astray = json!([{ "op": "replace", "path": "/spec/policyName", "value": "nothing" }]);
    patch(world, "validatingadmissionpolicybinding/flipop-warnings-nodednsrecordsets", &astray).await?;
    world.kubectl.run(&["apply", "-f", &path("k8s/tenants/policy.yaml")]).await?;
    let other = "request.userInfo.username != 'system:serviceaccount:other:flipop'";
    let replace = json!([{ "op": "replace", "path": "/spec/matchConditions/0/expression", "value": other }]);
    patch(world, "validatingadmissionpolicy/flipop-tenants", &replace).await?;
    // Another test may have applied them to this server.
    world.kubectl.run(&["delete", "--ignore-not-found", "-f", &path("k8s/nodecheck")]).await?;
    let placeholder = "flipop=registry.invalid/flipop:0.1.0";
    world.kubectl.run(&["set", "image", "deployment/flipop", placeholder, "-n", NAMESPACE]).await?;
    world.kubectl.run(&["set", "env", "deployment/flipop", "-n", NAMESPACE, "NODE_NAME-"]).await.map(drop)
}

async fn lease(world: &World, namespace: &str, holder: &str) -> Outcome {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": LEASE, "namespace": namespace },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    world.kubectl.apply(namespace, &lease.to_string()).await.map(drop)
}

/// A pod of the operator, with its name as the tag of its image.
async fn replica(world: &World, name: &str) -> Outcome {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "app": "flipop" } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "flipop", "image": format!("flipop:{name}"),
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    world.kubectl.apply(NAMESPACE, &pod.to_string()).await.map(drop)
}

async fn check_names_each_part_of_an_installation_that_is_missing_or_old_or_strange(
    world: &mut World,
) -> Outcome {
    let world = &*world;
    let inspector = user(world, "inspector", &["flipop-status", "flipop-check"]).await?;
    let mut spec = plain_spec(&[10]);
    spec["nodeCheck"] = json!({});
    world.pool("p", &spec).await?;
    other_definitions(world).await?;
    other_rights(world).await?;
    world.cluster.namespace("second", None).await?;
    lease(world, "second", "other-0_1").await?;
    replica(world, "one").await?;
    replica(world, "two").await?;
    let apply = "apply the CRDs of this version: flipop crd | kubectl apply --server-side -f -";
    let policies = "apply the policies of k8s/, with their bindings";
    let before = [
        bad("system:serviceaccount:flipop:flipop may not patch nodes", "apply the roles and bindings of"),
        bad("system:serviceaccount:flipop:flipop may not get, list, watch leases ", "apply k8s/nodecheck, "),
        bad("the admission policy flipop-node-annotation is for another account", "write the operator's"),
        doubtful("the admission policy flipop-warnings-floatingippools or its binding is not", policies),
        doubtful("the binding flipop-warnings-nodednsrecordsets binds another admission policy", policies),
        bad("the admission policy flipop-tenants is for another account", "write the operator's"),
    ];
    let after = [
        bad("FloatingIPPool default/odd is invalid", "nvalid type"),
        UNREAD,
        bad("the Deployment does not set NODE_NAME, so spec.nodeCheck has no effect", "k8s/deployment.yaml"),
        NO_CHECK,
        WRITE_SCOPES,
        NO_TOKEN,
    ];
    let all = async |sets: Line<'_>, lease: Line<'_>, replicas: Line<'_>| {
        let old = "the CRD floatingippools.flipop.digitalocean.com is of another version: it lacks spec.firewall, \
                   spec.grace.podSeconds, spec.match.tolerations.value, spec.minActive, spec.nodeLabels and 2 more";
        let second = "there is a Lease of a second installation in namespace second";
        let second = bad(second, "remove that installation, or delete its Lease if it is gone");
        let definitions = [bad(old, apply), sets];
        let image = "the image registry.invalid/flipop:";
        let image = bad(image, "kubectl set image deployment/flipop flipop=<your image> -n flipop");
        let own = [image, lease, second, replicas];
        let expected = [&definitions[..], &before[..], &own[..], &after[..]].concat();
        eventually("each part is named", SOON, || finds(inspector.path(), &[], &expected)).await
    };
    let strange = bad("the CRD nodednsrecordsets.flipop.digitalocean.com does not serve v1alpha1", apply);
    let differ = "the replicas run different images: flipop:one, flipop:two";
    all(strange, NO_LEASE, doubtful(differ, "wait for the end of the rollout")).await?;
    // Without that definition, after a leader that gave its Lease up, and with one replica.
    world.kubectl.run(&["delete", "crd", "nodednsrecordsets.flipop.digitalocean.com"]).await?;
    lease(world, NAMESPACE, "").await?;
    world.nodes.delete_pod(NAMESPACE, "two").await?;
    let sets = "the CRD nodednsrecordsets.flipop.digitalocean.com is not installed";
    let sets = bad(sets, "flipop crd | kubectl apply --server-side -f -");
    let look = "check the operator's pods and their logs";
    let one = doubtful("there is one replica", "run two, so that one takes over in seconds");
    all(sets, bad("no replica holds the Lease", look), one).await?;
    // After a leader that died, and with no replica.
    lease(world, NAMESPACE, "flipop-0_1").await?;
    world.nodes.delete_pod(NAMESPACE, "one").await?;
    all(sets, bad("the Lease of flipop-0_1 has expired", look), NO_REPLICA).await
}
