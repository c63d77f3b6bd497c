//! Names that other software may rely on: of the API, and of objects, annotations and labels.

use super::page::{Page, cell, code};
use super::{fields, sources};
use crate::{root, text};
use flipop::api::{GROUP, VERSION};
use flipop::config::described_variables;
use flipop::kube::events::CONTROLLER;
use flipop::kube::objects::{COMMAND_FIELD_MANAGER, FIELD_MANAGER};
use flipop::kube::writes::POLICY_PROBE_ANNOTATION;
use flipop::leader::LEASE_NAME;
use flipop_core::addresses::pool::manual_move::result::MOVE_ANNOTATION;
use flipop_core::addresses::pool::status::FINALIZER;
use flipop_core::model::node_labels::LabelKey;
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_core::model::{ObjectKind, PASSING_TAINTS, REGION_LABEL, RESERVED_IP_ANNOTATION};
use serde_json::Value;
use std::fs;

/// The objects in a file of k8s/.
pub(crate) fn objects(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&super::read(&format!("k8s/{file}"))).unwrap()
}

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Annotations, labels and names",
        "For authors of tools, policies and dashboards: the names that FLIPOP uses in a cluster. They stay the same from \
         release to release, and most are those of the Go operator.",
    );
    api(&mut page);
    annotations(&mut page);
    page.heading(2, "Fields of nodes and pods that FLIPOP reads");
    page.paragraph("Besides the labels in selectors of your specs:");
    page.table(
        ["object", "field", "for"],
        [
            ("node", format!("label `{REGION_LABEL}`"), "An address goes only to a node of its region. A node without this label is tried. The cloud controller manager writes it."),
            ("node", "`spec.providerID`".to_owned(), "Which droplet the node is: `digitalocean://<droplet id>`."),
            ("node", "`spec.taints`".to_owned(), "Only the tolerations of the spec decide. A cordoned node has the taint `node.kubernetes.io/unschedulable:NoSchedule`."),
            ("node", "condition `Ready`, `metadata.deletionTimestamp`".to_owned(), "Whether the node is healthy."),
            ("node", format!("`status.addresses`, annotation `{RESERVED_IP_ANNOTATION}`"), "The addresses that a NodeDNSRecordSet publishes."),
            ("pod", "`spec.nodeName`, `status.phase`, condition `Ready`, `metadata.deletionTimestamp`".to_owned(), "Whether a matching pod runs on the node."),
        ]
        .map(|(object, field, purpose)| [object.to_owned(), field, cell(purpose)]),
    );
    page.paragraph(
        "By these taints Kubernetes reports a failure of the node, and it removes them by itself. They fall under \
         `spec.grace.nodeSeconds`, and every other taint has no [grace](../concepts/grace.md):",
    );
    page.list(PASSING_TAINTS.map(code));
    page.paragraph(
        "[Taints](https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/) and \
         [well-known labels](https://kubernetes.io/docs/reference/labels-annotations-taints/) are described in the \
         Kubernetes documentation.",
    );
    page.heading(2, "Lease");
    page.paragraph(&format!(
        "Replicas elect a leader by the Lease `{LEASE_NAME}` in the namespace of FLIPOP. Its \
         `spec.holderIdentity` is `<pod name>_<uuid>`. [Leadership](../how-it-works/leadership.md) has the details."
    ));
    page.heading(2, "Field manager and event source");
    page.paragraph(&format!(
        "What the operator writes to Kubernetes has the field manager `{FIELD_MANAGER}`: the annotation and the labels of \
         nodes, `status`, the addresses that are added to or removed from `spec.ips`, the finalizer, and the Lease. The \
         annotations that `move`, `pause` and `resume` write have `{COMMAND_FIELD_MANAGER}`. [Events](events.md) are of the API group \
         `events.k8s.io` and have the `reportingController` `{CONTROLLER}`."
    ));
    secret(&mut page);
    manifests(&mut page);
    page.end()
}

fn annotations(page: &mut Page) {
    page.heading(2, "Annotations");
    page.paragraph(
        "FLIPOP writes one annotation, on nodes. It reads two others, which you write on its objects:",
    );
    let rows = [
        (
            RESERVED_IP_ANNOTATION,
            "an IPv4 address",
            "The node matches a pool, and the provider has confirmed that the address is on its droplet. [Which node gets \
             which address](../concepts/assignment.md) says when it is removed.",
        ),
        (
            MOVE_ANNOTATION,
            "an IPv4 address, `=` and the name of a node; optionally `#` and any text after it. At most 400 characters",
            "On a FloatingIPPool, to [move an address](../recipes/move-by-hand.md#to-a-node-of-your-choice). \
             `status.lastMove` answers.",
        ),
        (
            PAUSED_ANNOTATION,
            "any text, also an empty one",
            "On a FloatingIPPool or NodeDNSRecordSet: FLIPOP starts no new operation for the object. See [Pause FLIPOP \
             during an incident](../recipes/pause.md).",
        ),
    ];
    page.table(
        ["annotation", "value", "when"],
        rows.map(|(name, value, when)| [code(name), value.to_owned(), when.to_owned()]),
    );
    page.paragraph(&format!(
        "Each new leader asks, by a dry run, to write `{POLICY_PROBE_ANNOTATION}` on the first node that it sees, and expects that the [admission \
         policy](../operations/security.md#the-admission-policy-on-nodes) refuses it. No node ever has it."
    ));
    page.paragraph(
        "Annotations of a Namespace whose names begin with `flipop.digitalocean.com/tenant-` [limit what its objects may \
         ask for](../recipes/tenants.md#the-annotations), if you install the policy of `k8s/tenants`.",
    );
    page.paragraph(&format!(
        "On a FloatingIPPool with `reclaimPolicy: Delete`, FLIPOP sets the finalizer `{FINALIZER}` while something is left to \
         [give back](../recipes/give-up-an-address.md)."
    ));
    labels(page);
}

fn labels(page: &mut Page) {
    page.heading(2, "Labels");
    page.paragraph(
        "FLIPOP writes these labels on nodes, for pools that ask for them in `spec.nodeLabels`. It removes them before the \
         address moves: see [Send outbound traffic from the reserved IP](../recipes/egress.md).",
    );
    let rows = LabelKey::ALL.map(|key| {
        let (value, when) = match key {
            LabelKey::Active => ("`true`", "The node has the annotation, and its pool has `nodeLabels.enabled`."),
            LabelKey::Ip => ("an IPv4 address", "The same."),
            LabelKey::LegacyIp => ("an IPv4 address", "The same, in a pool with `nodeLabels.legacy` too."),
            LabelKey::LegacyEnabled => (
                "`true` or `false`",
                "In a pool with `nodeLabels.legacy`: `true` on a node with an address, and `false` on a matching \
                 node that holds no pool address.",
            ),
        };
        [code(key.as_str()), value.to_owned(), when.to_owned()]
    });
    page.table(["label", "value", "when"], rows);
}

fn api(page: &mut Page) {
    page.heading(2, "API");
    page.paragraph(&format!(
        "The API group is `{GROUP}`, and its version `{VERSION}`. Both kinds are namespaced."
    ));
    let rows = [ObjectKind::Pool, ObjectKind::RecordSet].map(|kind| {
        let definition = fields::definition(kind.as_str());
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        let names = &definition["spec"]["names"];
        let [plural, short, category] =
            [&names["plural"], &names["shortNames"][0], &names["categories"][0]].map(text).map(code);
        [code(kind.as_str()), plural, short, category, code(text(&definition["metadata"]["name"]))]
    });
    page.table(["kind", "plural", "short name", "category", "CRD"], rows);
}

fn secret(page: &mut Page) {
    let deployment = objects("deployment.yaml").remove(0);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let keys: Vec<&Value> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| &variable["valueFrom"]["secretKeyRef"])
        .filter(|key| key.is_object())
        .collect();
    let name = text(&keys[0]["name"]);
    page.heading(2, "Secret");
    let variables: Vec<String> =
        described_variables().into_iter().flat_map(|variable| variable.names).collect();
    let listed = keys.into_iter().map(|key| {
        assert!(key["name"] == name && key["optional"] == true, "{key}");
        let key = text(&key["key"]);
        assert!(variables.iter().any(|variable| variable == key), "{key}");
        code(key)
    });
    let listed: Vec<String> = listed.collect();
    page.paragraph(&format!(
        "The Deployment reads these keys of the Secret `{name}`, each of which may be missing, as the [environment \
         variables](command-line.md#environment-variables) of the same name:"
    ));
    page.list(listed);
}

fn manifests(page: &mut Page) {
    page.heading(2, "Objects of the manifests");
    page.paragraph(
        "`kubectl apply -n flipop -f k8s` creates these objects. Those with an asterisk have a namespace:",
    );
    let mut files: Vec<String> = fs::read_dir(root().join("k8s"))
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| !entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    files.sort();
    let rows = files.iter().map(|file| {
        let named = objects(file).into_iter().map(|object| {
            let star = if object["metadata"]["namespace"].is_string() { "\\*" } else { "" };
            format!("{}{star} {}", text(&object["kind"]), code(text(&object["metadata"]["name"])))
        });
        [code(&format!("k8s/{file}")), named.collect::<Vec<_>>().join(", ")]
    });
    page.table(["file", "objects"], rows);
    let deployment = objects("deployment.yaml").remove(0);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let port = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    page.paragraph(&format!(
        "The pods have the label `app={}`. Their port {} is named `{}`.",
        text(&labels["app"]),
        port["containerPort"],
        text(&port["name"])
    ));
}

/// Names of that form that are not ours: a folder of the file system, and the API groups of CRDs, of Leases and of
/// metadata.
const OTHERS: [&str; 4] = [
    "/var/run/secrets/kubernetes.io/serviceaccount",
    "apiextensions.k8s.io/v1",
    "coordination.k8s.io",
    "meta.k8s.io",
];

#[test]
fn every_qualified_name_in_the_source_is_on_the_page() {
    let page = render();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-./_".contains(letter);
    let mut found = 0;
    for (path, literal) in sources::all_literals() {
        for name in literal.split(|letter| !is_part(letter)) {
            let domains = ["kubernetes.io", "k8s.io", "flipop.digitalocean.com"];
            if !OTHERS.contains(&name) && domains.iter().any(|domain| name.contains(domain)) {
                found += 1;
                assert!(page.contains(name), "{}: {name} is not in names.md", path.display());
            }
        }
    }
    assert!(found > 3, "only {found}");
}

#[test]
fn the_lease_of_the_role_and_the_annotation_of_the_policy_are_on_the_page() {
    let page = render();
    let role = objects("role.yaml").remove(0);
    let lease = text(&role["rules"][0]["resourceNames"][0]);
    assert!(page.contains(lease), "{lease}");
    let policy = super::read("k8s/policy-node-annotation.yaml");
    assert!(policy.contains(RESERVED_IP_ANNOTATION));
}
