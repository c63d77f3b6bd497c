//! The CRDs, generated from the Rust types.
//!
//! Owns names, printer columns and the conversion of a Rust type to a structural schema. `crds/` and `k8s/` hold the
//! output of [`files`]; a test fails if they differ. Installs nothing.

use super::{
    FloatingIPPool, FloatingIPPoolSpec, FloatingIPPoolStatus, GROUP, NodeDNSRecordSet, NodeDNSRecordSetSpec,
    NodeDNSRecordSetStatus, UNOBSERVED, VERSION,
};
use kube::Resource;
use kube::core::schema::{OptionalEnum, StructuralSchemaRewriter};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use serde_json::{Map, Value, json};

/// Why a CRD cannot be printed.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the CRD {name} as YAML")]
pub struct Error {
    name: String,
    source: serde_saphyr::ser_error::Error,
}

/// A CRD as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdFile {
    /// Name inside `crds/`.
    pub name: String,
    /// Its YAML, with a header that names the source.
    pub yaml: String,
}

/// Each CRD as a file, sorted by name.
///
/// # Errors
/// If a CRD cannot be written as YAML.
pub fn files() -> Result<Vec<CrdFile>, Error> {
    all().iter().map(file).collect()
}

/// Every CRD as one stream of YAML documents, ready for `kubectl apply -f -`.
///
/// # Errors
/// If a CRD cannot be written as YAML.
pub fn all_yaml() -> Result<String, Error> {
    let documents: Vec<String> = files()?.into_iter().map(|file| file.yaml).collect();
    Ok(documents.join("---\n"))
}

/// Each CRD as a JSON object, sorted by name.
pub fn all() -> Vec<Value> {
    vec![floating_ip_pool(), node_dns_record_set()]
}

fn file(crd: &Value) -> Result<CrdFile, Error> {
    let plural = crd.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
    // No folding: one long line per description survives every YAML reader and diff tool.
    let options = serde_saphyr::ser_options! { compact_list_indent: true, folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(crd, options)
        .map_err(|source| Error { name: plural.to_owned(), source })?;
    let header = "# Generated from src/api by `flipop crd`. Do not edit.\n";
    Ok(CrdFile { name: format!("{plural}.yaml"), yaml: format!("{header}{yaml}") })
}

fn floating_ip_pool() -> Value {
    definition::<FloatingIPPool>(
        "fipool",
        &root_schema::<FloatingIPPoolSpec, FloatingIPPoolStatus>(
            "Keeps reserved IPs (formerly floating IPs) on healthy nodes that match, and DNS A records on those IPs.",
        ),
        &json!([
            wide(column("Provider", "string", ".spec.provider", "Provider of the addresses")),
            column("Desired", "integer", ".status.usedIPs", "Number of addresses that the pool uses"),
            column("Active", "integer", ".status.activeIPs", "Number of addresses in state active"),
            column(
                "Ready",
                "string",
                &ready("status"),
                "Whether the addresses are assigned; DNS does not count"
            ),
            column("Reason", "string", &ready("reason"), "Reason of the condition Ready"),
            column(
                "DNS",
                "string",
                &condition("RecordSetReady", "status"),
                "Whether the DNS records are right"
            ),
            wide(column("FQDN", "string", ".status.dnsRecordSet.fqdn", "Name of the DNS records")),
            paused(),
            wide(column("Move", "string", ".status.lastMove.outcome", "Outcome of the last move by hand")),
            wide(column("Message", "string", &ready("message"), "Message of the condition Ready")),
            age(),
        ]),
    )
}

fn node_dns_record_set() -> Value {
    definition::<NodeDNSRecordSet>(
        "nodedns",
        &root_schema::<NodeDNSRecordSetSpec, NodeDNSRecordSetStatus>(
            "Keeps DNS A records on the addresses of the nodes that match.",
        ),
        &json!([
            column("DNS", "string", ".status.fqdn", "Name of the DNS records"),
            column("State", "string", ".status.state", "State of the records: active, in-progress or error"),
            column("Ready", "string", &ready("status"), "Whether the records are right"),
            column("Reason", "string", &ready("reason"), "Reason of the condition Ready"),
            wide(column("Addresses", "string", ".status.addresses", "Addresses that the records hold")),
            paused(),
            wide(column("Message", "string", &ready("message"), "Message of the condition Ready")),
            age(),
        ]),
    )
}

fn definition<K: Resource<DynamicType = ()>>(short_name: &str, schema: &Value, columns: &Value) -> Value {
    let (kind, plural) = (K::kind(&()), K::plural(&()));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "names": {
                "categories": ["flipop"],
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": [short_name],
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [{
                "additionalPrinterColumns": columns,
                "name": VERSION,
                "schema": { "openAPIV3Schema": schema },
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
            }],
        },
    })
}

fn column(name: &str, kind: &str, json_path: &str, description: &str) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": json_path, "description": description })
}

/// A column for `-o wide`. The others have no priority: the API server drops a 0, so `kubectl apply` would see a change
/// each time.
fn wide(mut column: Value) -> Value {
    if let Some(column) = column.as_object_mut() {
        column.insert("priority".to_owned(), json!(1));
    }
    column
}

fn paused() -> Value {
    let since = condition("Paused", "lastTransitionTime");
    wide(column("Paused", "date", &since, "Time since the object was paused"))
}

fn ready(field: &str) -> String {
    condition("Ready", field)
}

fn condition(kind: &str, field: &str) -> String {
    format!(r#".status.conditions[?(@.type=="{kind}")].{field}"#)
}

fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp", "Time since creation")
}

fn root_schema<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "properties": { "spec": nullable(structural::<Spec>()), "status": unobserved(structural::<Status>()) },
    })
}

/// Sets the default of an absent status to the one that Flux reads as "nobody has looked yet". Otherwise a new object
/// would count as healthy before FLIPOP has seen it. The field inside has no default, because a status written by the
/// Go operator lacks it.
fn unobserved(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("default".to_owned(), json!({ "observedGeneration": UNOBSERVED }));
    }
    schema
}

fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    widen(&mut schema);
    schema
}

/// Lets `null` mean absent in a spec. The API server usually drops a `null` that is not allowed, but refuses it in a
/// server-side apply. GitOps tools apply that way, and the Go operator's types wrote `ips: null`. List elements stay
/// unchanged.
fn nullable(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("nullable".to_owned(), json!(true));
        nullable_properties(object);
    }
    schema
}

fn nullable_properties(object: &mut Map<String, Value>) {
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| *property = nullable(property.take()));
    }
    if let Some(items) = object.get_mut("items").and_then(Value::as_object_mut) {
        nullable_properties(items);
    }
}

/// Removes what Rust types add and a schema must not have.
/// - `nullable`: [`nullable`] decides on it.
/// - `required`: any part may be missing; readers treat it as absent.
/// - `default`: the API server would write it into the user's object ([`unobserved`] adds the only one).
/// - `format`: a reader reports an unusable number in the status; the schema does not refuse it.
fn widen(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["nullable", "required", "default", "format", "title"] {
        object.remove(key);
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(widen);
    }
    for key in ["items", "additionalProperties"] {
        object.get_mut(key).into_iter().for_each(widen);
    }
    one_line_description(object);
}

/// Doc comments are wrapped for the editor. A description is wrapped by its viewer.
fn one_line_description(object: &mut Map<String, Value>) {
    let Some(Value::String(description)) = object.get_mut("description") else { return };
    *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
}
