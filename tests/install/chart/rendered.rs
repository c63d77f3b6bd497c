//! Values, and what the chart renders for them.

use super::render;
use serde_json::{Value, json};

const POD: &str = "/spec/template/spec";

/// An object's kind and name, a path in it, and the expected value.
type Row = (&'static str, &'static str, String, Value);

fn of(kind: &'static str, name: &'static str, path: &str, value: Value) -> Row {
    (kind, name, path.to_owned(), value)
}

fn pod(path: &str, value: Value) -> Row {
    of("Deployment", "flipop", &format!("{POD}{path}"), value)
}

fn container(path: &str, value: Value) -> Row {
    pod(&format!("/containers/0{path}"), value)
}

/// Expects an object to be absent.
fn absent(kind: &'static str, name: &'static str) -> Row {
    of(kind, name, "", Value::Null)
}

pub(super) fn rows(helm: &str) {
    for (values, rows) in [image(), of_the_pod(), security(), tokens(), scheduling(), cluster(), network()]
        .into_iter()
        .flatten()
    {
        let objects = render(helm, &values);
        for (kind, name, path, wanted) in rows {
            let object = objects.get(&(kind.to_owned(), name.to_owned()));
            let found = object.and_then(|object| object.pointer(&path)).cloned().unwrap_or_default();
            assert_eq!(found, wanted, "{values}: {kind} {name} {path}");
        }
    }
}

type Rows = Vec<(Value, Vec<Row>)>;

fn image() -> Rows {
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = |image: &str| container("/image", json!(image));
    vec![
        (json!({}), vec![image("registry.invalid/flipop:0.1.0"), pod("/imagePullSecrets", Value::Null)]),
        (
            json!({ "image": { "repository": "r.example.com:5000/a/b" } }),
            vec![image("r.example.com:5000/a/b:0.1.0")],
        ),
        (
            json!({ "image": { "tag": "v9", "pullPolicy": "Always" } }),
            vec![image("registry.invalid/flipop:v9"), container("/imagePullPolicy", json!("Always"))],
        ),
        (
            json!({ "image": { "tag": "v9", "digest": digest } }),
            vec![image(&format!("registry.invalid/flipop@{digest}"))],
        ),
        (
            json!({ "imagePullSecrets": [{ "name": "registry" }] }),
            vec![pod("/imagePullSecrets", json!([{ "name": "registry" }]))],
        ),
    ]
}

fn of_the_pod() -> Rows {
    let volume = json!([{ "name": "ca", "configMap": { "name": "ca" } }]);
    let mount = json!([{ "name": "ca", "mountPath": "/ca", "readOnly": true }]);
    vec![
        (json!({ "args": ["--debug"] }), vec![container("/args", json!(["/app/flipop", "--debug"]))]),
        (
            json!({ "zones": ["example.com", "example.org"], "maxAddresses": 5 }),
            vec![container(
                "/args",
                json!(["/app/flipop", "--zones=example.com,example.org", "--max-addresses=5"]),
            )],
        ),
        (
            json!({ "volumes": volume, "volumeMounts": mount }),
            vec![pod("/volumes", volume), container("/volumeMounts", mount)],
        ),
        (
            json!({ "podLabels": { "a": "b" }, "podAnnotations": { "c": "d" } }),
            vec![
                of(
                    "Deployment",
                    "flipop",
                    "/spec/template/metadata/labels",
                    json!({ "app": "flipop", "a": "b" }),
                ),
                of("Deployment", "flipop", "/spec/template/metadata/annotations", json!({ "c": "d" })),
                of("Deployment", "flipop", "/spec/selector/matchLabels", json!({ "app": "flipop" })),
                of("Deployment", "flipop", "/metadata/labels", json!({ "app": "flipop" })),
            ],
        ),
        (
            json!({ "resources": { "requests": { "cpu": 1 }, "limits": { "memory": "1Gi" } } }),
            vec![
                container("/resources/requests", json!({ "cpu": 1, "memory": "32Mi" })),
                container("/resources/limits", json!({ "memory": "1Gi" })),
            ],
        ),
        // A null value removes a default.
        (
            json!({ "resources": { "limits": { "memory": null } } }),
            vec![container("/resources/limits", json!({}))],
        ),
    ]
}

/// Null removes a field, and an empty context is none. Where it removes the ids, a namespace may set its own.
fn security() -> Rows {
    let agent = |path: &str, value| of("DaemonSet", "flipop-agent", &format!("{POD}{path}"), value);
    let without_ids = json!({ "runAsUser": null, "runAsGroup": null });
    let on = json!({
        "enabled": true, "nodeSelector": { "pool": "egress" }, "podSecurityContext": { "seccompProfile": null },
        "securityContext": { "readOnlyRootFilesystem": null, "seLinuxOptions": { "type": "spc_t" } },
    });
    vec![
        (
            json!({ "podSecurityContext": without_ids, "securityContext": { "readOnlyRootFilesystem": false } }),
            vec![
                pod(
                    "/securityContext",
                    json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } }),
                ),
                container("/securityContext/readOnlyRootFilesystem", json!(false)),
                container("/securityContext/capabilities", json!({ "drop": ["ALL"] })),
            ],
        ),
        (
            json!({ "podSecurityContext": null, "securityContext": null }),
            vec![pod("/securityContext", Value::Null), container("/securityContext", Value::Null)],
        ),
        (
            json!({ "agent": on }),
            vec![
                agent("/securityContext", Value::Null),
                agent("/containers/0/securityContext/readOnlyRootFilesystem", Value::Null),
                agent("/containers/0/securityContext/seLinuxOptions", json!({ "type": "spc_t" })),
                agent("/containers/0/securityContext/runAsUser", json!(0)),
            ],
        ),
    ]
}

fn tokens() -> Rows {
    let secret =
        |name: &str, key: &str| json!({ "secretKeyRef": { "name": name, "key": key, "optional": true } });
    let env = |index: usize, name: &str| container(&format!("/env/{index}/name"), json!(name));
    let url = json!({ "name": "DIGITALOCEAN_API_URL", "value": "https://proxy.example.com" });
    let file = json!({ "name": "DIGITALOCEAN_ACCESS_TOKEN_FILE", "value": "/tokens/do" });
    vec![
        (
            json!({}),
            vec![
                container("/env/0/valueFrom/fieldRef/fieldPath", json!("metadata.namespace")),
                container("/env/1/valueFrom/fieldRef/fieldPath", json!("spec.nodeName")),
                container("/env/2/valueFrom", secret("flipop", "DIGITALOCEAN_ACCESS_TOKEN")),
                container("/env/8", Value::Null),
            ],
        ),
        (
            json!({ "secretName": "tokens" }),
            vec![
                container("/env/2/valueFrom", secret("tokens", "DIGITALOCEAN_ACCESS_TOKEN")),
                container("/env/5/valueFrom", secret("tokens", "CLOUDFLARE_TOKEN")),
            ],
        ),
        (
            json!({ "env": [{ "name": "NO_PROXY", "value": "10.0.0.0/8" }] }),
            vec![container("/env/8", json!({ "name": "NO_PROXY", "value": "10.0.0.0/8" }))],
        ),
        // A named variable replaces the one from the Secret, so no name appears twice.
        (
            json!({ "env": [url] }),
            vec![
                env(3, "DIGITALOCEAN_USER_AGENT"),
                container("/env/7", url),
                container("/env/8", Value::Null),
            ],
        ),
        // For the operator, a token together with a token file is an error.
        (
            json!({ "env": [file] }),
            vec![env(2, "DIGITALOCEAN_API_URL"), container("/env/7", file), container("/env/8", Value::Null)],
        ),
    ]
}

fn scheduling() -> Rows {
    let toleration = json!({ "key": "pool", "operator": "Equal", "value": "infra", "effect": "NoSchedule" });
    let affinity = json!({ "nodeAffinity": { "x": [] } });
    vec![
        (
            json!({ "tolerations": [toleration] }),
            vec![
                pod("/tolerations/0/key", json!("node.kubernetes.io/not-ready")),
                pod("/tolerations/1/tolerationSeconds", json!(15)),
                pod("/tolerations/2", toleration),
            ],
        ),
        (
            json!({ "nodeSelector": { "pool": "infra" }, "affinity": affinity }),
            vec![pod("/nodeSelector", json!({ "pool": "infra" })), pod("/affinity", affinity)],
        ),
        (json!({ "replicas": 0 }), vec![of("Deployment", "flipop", "/spec/replicas", json!(0))]),
        (
            json!({ "priorityClass": { "value": 1_000_001 } }),
            vec![
                of("PriorityClass", "flipop", "/value", json!(1_000_001)),
                pod("/priorityClassName", json!("flipop")),
            ],
        ),
        (
            json!({ "priorityClass": { "create": false, "existing": "high" } }),
            vec![absent("PriorityClass", "flipop"), pod("/priorityClassName", json!("high"))],
        ),
        // Text that YAML would read as a number.
        (
            json!({ "priorityClass": { "create": false, "existing": "1" }, "secretName": "007" }),
            vec![
                pod("/priorityClassName", json!("1")),
                container("/env/2/valueFrom/secretKeyRef/name", json!("007")),
            ],
        ),
        (json!({ "priorityClass": { "create": false } }), vec![pod("/priorityClassName", Value::Null)]),
        (
            json!({ "podDisruptionBudget": { "enabled": false } }),
            vec![absent("PodDisruptionBudget", "flipop")],
        ),
    ]
}

fn cluster() -> Rows {
    let label = |to: &str| format!("/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-{to}");
    let pools = "floatingippools.flipop.digitalocean.com";
    vec![
        (
            json!({ "crds": { "enabled": false } }),
            vec![
                absent("CustomResourceDefinition", pools),
                of("ClusterRole", "flipop", "/kind", json!("ClusterRole")),
            ],
        ),
        (
            json!({ "crds": { "annotations": { "a/b": "false" } } }),
            vec![of(
                "CustomResourceDefinition",
                pools,
                "/metadata/annotations",
                json!({ "a/b": "false", "helm.sh/resource-policy": "keep" }),
            )],
        ),
        (
            json!({ "crds": { "keep": false, "annotations": { "a/b": "c" } } }),
            vec![of("CustomResourceDefinition", pools, "/metadata/annotations", json!({ "a/b": "c" }))],
        ),
        (
            json!({ "userRoles": { "view": true } }),
            vec![
                of("ClusterRole", "flipop-view", &label("view"), json!("true")),
                of("ClusterRole", "flipop-view", "/rules/0/verbs", json!(["get", "list", "watch"])),
                absent("ClusterRole", "flipop-edit"),
            ],
        ),
        (
            json!({ "userRoles": { "edit": true } }),
            vec![
                of("ClusterRole", "flipop-edit", &label("edit"), json!("true")),
                of("ClusterRole", "flipop-edit", &label("admin"), json!("true")),
                of("ClusterRole", "flipop-edit", &label("view"), Value::Null),
                of(
                    "ClusterRole",
                    "flipop-edit",
                    "/rules/0/resources",
                    json!(["floatingippools", "nodednsrecordsets"]),
                ),
                absent("ClusterRole", "flipop-view"),
            ],
        ),
        // Values for another chart.
        (json!({ "global": { "anything": { "at": "all" } } }), vec![absent("NetworkPolicy", "flipop")]),
    ]
}

fn network() -> Rows {
    let policy = |path: &str, value| of("NetworkPolicy", "flipop", &format!("/spec{path}"), value);
    let network = json!({
        "enabled": true, "prometheusNamespace": "1e3", "dnsNamespace": "456", "dnsPorts": [5353], "egressPorts": [3128],
    });
    let namespace = |name| json!({ "kubernetes.io/metadata.name": name });
    let resolvers = json!([
        { "ipBlock": { "cidr": "10.0.0.0/16", "except": ["10.0.1.0/24"] } },
        { "podSelector": { "matchExpressions": [{ "key": "dns", "operator": "Exists" }] } },
    ]);
    vec![
        (
            json!({ "networkPolicy": network }),
            vec![
                policy("/ingress/0/from/0/namespaceSelector/matchLabels", namespace("1e3")),
                policy("/egress/0/to/0/namespaceSelector/matchLabels", namespace("456")),
                policy(
                    "/egress/0/ports",
                    json!([{ "protocol": "UDP", "port": 5353 }, { "protocol": "TCP", "port": 5353 }]),
                ),
                policy("/egress/1/to/0/ipBlock/cidr", json!("169.254.0.0/16")),
                policy(
                    "/egress/1/ports",
                    json!([{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }]),
                ),
                policy("/egress/2/to/1/ipBlock/cidr", json!("::/0")),
                policy("/egress/2/ports", json!([{ "protocol": "TCP", "port": 3128 }])),
                // The kubelets, which spec.nodeCheck asks.
                policy("/egress/3/ports", json!([{ "protocol": "TCP", "port": 10250 }])),
                policy("/egress/3/to/0/ipBlock/cidr", json!("0.0.0.0/0")),
            ],
        ),
        (
            json!({ "networkPolicy": { "enabled": true, "dns": resolvers } }),
            vec![
                policy("/egress/0/to/0/namespaceSelector/matchLabels", namespace("kube-system")),
                policy("/egress/0/to/1", resolvers[0].clone()),
                policy("/egress/0/to/2", resolvers[1].clone()),
                policy("/egress/0/to/3", Value::Null),
            ],
        ),
        (
            json!({ "networkPolicy": { "enabled": true, "nodeCheckPorts": [10255, 22] } }),
            vec![policy(
                "/egress/3/ports",
                json!([{ "protocol": "TCP", "port": 10255 }, { "protocol": "TCP", "port": 22 }]),
            )],
        ),
        (
            json!({ "networkPolicy": { "enabled": true, "nodeCheckPorts": [] } }),
            vec![policy("/egress/3", Value::Null)],
        ),
    ]
}
