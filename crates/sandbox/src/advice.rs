//! The warnings of an installation's admission policies (k8s/policy-warnings-*.yaml), without evaluating the policies.
//!
//! Most of them are the operator's own list of mistakes. `RULES` has a row for each warning beyond that list.
//! `tests/apiserver/verdicts.rs` checks on a real API server that both sides agree.

use flipop::api::translate::pool::pool_object;
use flipop::api::translate::record_set::record_set_object;
use flipop::api::{FloatingIPPool, NodeDNSRecordSet};
use flipop::provider::descriptors;
use flipop_core::addresses::pool::manual_move::result::{MOVE_ANNOTATION, Request, request_of};
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_core::model::provider::Providers;
use flipop_core::model::spec::{RawMatch, RawRecordSet, SpecProblem};
use flipop_core::records::spec::NodeSetSpec;
use serde_json::Value;

/// An object as rules see it.
struct Seen<'a> {
    object: &'a Value,
    matching: &'a RawMatch,
    record_set: Option<&'a RawRecordSet>,
    /// The provider of the records.
    dns_provider: &'a str,
}

/// A warning beyond the operator's own list of mistakes.
type Rule = fn(&Seen<'_>) -> Option<String>;

const RULES: [Rule; 14] = [
    missing_match,
    missing_record_set,
    empty_zone,
    empty_record_name,
    unknown_operator,
    unknown_effect,
    raised_ttl,
    outside_zone,
    unreachable_minimum,
    default_deletes,
    paused_by_false,
    unreadable_move,
    impatient_with_the_agent,
    pods_of_every_namespace,
];

/// The policies' warnings about an object of FLIPOP's kinds. None for other objects and unreadable ones.
pub fn advice(object: &Value) -> Vec<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some("FloatingIPPool") => of_pool(object),
        Some("NodeDNSRecordSet") => of_record_set(object),
        Some(_) | None => None,
    }
    .unwrap_or_default()
}

/// The providers of an operator with both tokens.
pub fn providers() -> Providers {
    Providers::new(descriptors().map(|descriptor| (descriptor, true)), false)
}

fn of_pool(object: &Value) -> Option<Vec<String>> {
    let pool: FloatingIPPool = serde_json::from_value(object.clone()).ok()?;
    let raw = pool_object(&Ok(pool)).spec.ok()?;
    let problems = PoolSpec::parse(&raw, &providers()).problems;
    Some(said(object, &raw.matching, raw.record_set.as_ref(), &raw.provider, problems))
}

fn of_record_set(object: &Value) -> Option<Vec<String>> {
    let set: NodeDNSRecordSet = serde_json::from_value(object.clone()).ok()?;
    let raw = record_set_object(&Ok(set)).spec.ok()?;
    let problems = NodeSetSpec::parse(&raw, &providers()).problems;
    Some(said(object, &raw.matching, raw.record_set.as_ref(), &raw.provider, problems))
}

/// The operator's own list of mistakes, and the other warnings. `provider` is the one of the object itself.
fn said(
    object: &Value,
    matching: &RawMatch,
    record_set: Option<&RawRecordSet>,
    provider: &str,
    problems: Vec<SpecProblem>,
) -> Vec<String> {
    let own = record_set.map(|set| set.provider.as_str()).filter(|own| !own.is_empty());
    let seen = Seen { object, matching, record_set, dns_provider: own.unwrap_or(provider) };
    let mistakes = problems.into_iter().map(|problem| problem.to_string());
    mistakes.chain(RULES.iter().filter_map(|rule| rule(&seen))).collect()
}

fn missing_match(seen: &Seen<'_>) -> Option<String> {
    let missing = seen.object.pointer("/spec/match").is_none_or(Value::is_null);
    missing.then(|| {
        "spec.match: missing, so every Ready node without taints matches; set match.nodeLabel or match.podLabel"
            .to_owned()
    })
}

/// A record set without one also lacks its zone and its name.
fn missing_record_set(seen: &Seen<'_>) -> Option<String> {
    let is_set = seen.object.get("kind").and_then(Value::as_str) == Some("NodeDNSRecordSet");
    (is_set && seen.record_set.is_none()).then(|| {
        "spec.dnsRecordSet: missing, so no record is written; set its zone and recordName".to_owned()
    })
}

/// The operator ignores a record set whose fields are all empty, because the Go operator's client writes an absent one
/// that way.
fn empty(seen: &Seen<'_>, field: &str, remedy: &str) -> Option<String> {
    let is_empty = seen.record_set.is_some_and(|set| *set == RawRecordSet::default());
    is_empty.then(|| {
        format!(
            "spec.dnsRecordSet.{field}: missing, so no record is written; {remedy}, or remove dnsRecordSet"
        )
    })
}

fn default_deletes(seen: &Seen<'_>) -> Option<String> {
    let is_set = seen.object.get("kind").and_then(Value::as_str) == Some("NodeDNSRecordSet");
    (is_set && seen.record_set?.when_empty.is_empty()).then(|| {
        "spec.dnsRecordSet.whenEmpty: missing, which means Delete; set it to Keep to leave the last records"
            .to_owned()
    })
}

/// The annotation's presence counts, not its text.
fn paused_by_false(seen: &Seen<'_>) -> Option<String> {
    let text = seen.object.get("metadata")?.get("annotations")?.get(PAUSED_ANNOTATION)?.as_str()?;
    let says_no = ["false", "no", "off", "0"].contains(&text.trim().to_ascii_lowercase().as_str());
    says_no.then(|| {
        format!(
            "metadata.annotations: {PAUSED_ANNOTATION} pauses the object although its text is {text}; remove the annotation \
             to end the pause"
        )
    })
}

fn empty_zone(seen: &Seen<'_>) -> Option<String> {
    empty(seen, "zone", "set it, for example to example.com")
}

fn empty_record_name(seen: &Seen<'_>) -> Option<String> {
    empty(seen, "recordName", "set it, for example to www, or to @ for the zone itself")
}

/// The unknown values in a field of the tolerations; `None` if there are none.
fn unknown(seen: &Seen<'_>, field: &str, known: &[&str]) -> Option<String> {
    let tolerations = seen.matching.tolerations.iter();
    let values = tolerations.map(|toleration| match field {
        "operator" => toleration.operator.as_str(),
        _ => toleration.effect.as_str(),
    });
    let unknown: Vec<&str> = values.filter(|value| !value.is_empty() && !known.contains(value)).collect();
    (!unknown.is_empty()).then(|| unknown.join(", "))
}

fn unknown_operator(seen: &Seen<'_>) -> Option<String> {
    let unknown = unknown(seen, "operator", &["Equal", "Exists"])?;
    Some(format!(
        "spec.match.tolerations: unknown operator, tolerates nothing: {unknown}; use Equal or Exists"
    ))
}

fn unknown_effect(seen: &Seen<'_>) -> Option<String> {
    let unknown = unknown(seen, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"])?;
    Some(format!(
        "spec.match.tolerations: unknown effect, matches no taint: {unknown}; use NoSchedule, PreferNoSchedule, \
         NoExecute, or leave it out for all"
    ))
}

fn raised_ttl(seen: &Seen<'_>) -> Option<String> {
    let ttl = seen.record_set?.ttl;
    let providers = providers();
    let rules = providers.get(seen.dns_provider)?.dns?;
    let automatic = rules.ttl_automatic.is_some_and(|automatic| i64::from(automatic) == ttl);
    let floor = if automatic { ttl } else { i64::from(rules.ttl_floor) };
    (ttl > 0 && ttl < floor).then(|| {
        format!("spec.dnsRecordSet.ttl: {ttl} is below what the provider takes, so it is raised to {floor} s")
    })
}

/// A user hardly means a name with such an ending to be relative to the zone.
fn outside_zone(seen: &Seen<'_>) -> Option<String> {
    let set = seen.record_set?;
    let (name, zone) = (set.record_name.to_ascii_lowercase(), set.zone.to_ascii_lowercase());
    let zone = zone.trim_end_matches('.');
    let public = [".com", ".net", ".org", ".io", ".dev"].iter().any(|end| name.ends_with(end));
    let inside = format!(".{name}").ends_with(&format!(".{zone}"));
    (public && zone.contains('.') && !inside).then(|| {
        format!(
            "spec.dnsRecordSet.recordName: {name} is not in the zone {zone}, so it is published as {name}.{zone}; write a \
             name of the zone, or correct the zone"
        )
    })
}

/// Read from the raw object, because only pools have this field.
fn unreachable_minimum(seen: &Seen<'_>) -> Option<String> {
    let spec = seen.object.get("spec")?;
    let number = |field: &str| spec.get(field).and_then(Value::as_u64).unwrap_or_default();
    let listed = spec.get("ips").and_then(Value::as_array).map_or(0, Vec::len);
    let wanted = match number("desiredIPs") {
        0 => u64::try_from(listed).unwrap_or(u64::MAX),
        desired => desired,
    };
    let minimum = number("minActive");
    (minimum > wanted).then(|| {
        format!(
            "spec.minActive: {minimum} is more than the pool has ({wanted}), so it is never Ready; lower it"
        )
    })
}

/// A pool that follows the agent, and moves addresses at each of its rollouts.
fn impatient_with_the_agent(seen: &Seen<'_>) -> Option<String> {
    let seconds = seen.object.pointer("/spec/grace/podSeconds").and_then(Value::as_i64).unwrap_or_default();
    (seen.matching.pod_namespace == "flipop-agent" && seconds < 60).then(|| {
        "spec.grace.podSeconds is below 60, so a rollout of flipop-agent moves addresses: set it to 60"
            .to_owned()
    })
}

/// A user who may create pods in any namespace can then make a node match.
fn pods_of_every_namespace(seen: &Seen<'_>) -> Option<String> {
    (!seen.matching.pod_label.is_empty() && seen.matching.pod_namespace.is_empty()).then(|| {
        "spec.match.podNamespace: missing, so pods of every namespace count; name the namespace of the pods"
            .to_owned()
    })
}

/// A request to move an address is no part of the spec. It is answered in `status.lastMove`.
fn unreadable_move(seen: &Seen<'_>) -> Option<String> {
    let is_pool = seen.object.get("kind").and_then(Value::as_str) == Some("FloatingIPPool");
    let annotation = seen.object.get("metadata")?.get("annotations")?.get(MOVE_ANNOTATION)?.as_str();
    let why = Request::parse(&request_of(annotation.filter(|_| is_pool))?).err()?;
    Some(format!("metadata.annotations: {MOVE_ANNOTATION} asks for nothing that can be done: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pool(spec: &Value) -> Vec<String> {
        advice(&json!({ "kind": "FloatingIPPool", "metadata": { "name": "p" }, "spec": spec }))
    }

    #[test]
    fn a_pool_without_a_flaw_is_not_warned_of() {
        let spec = json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { "nodeLabel": "a" } });
        assert_eq!(pool(&spec), Vec::<String>::new());
        assert_eq!(advice(&json!({ "kind": "Namespace" })), Vec::<String>::new());
    }

    #[test]
    fn the_operators_list_of_mistakes_and_what_only_the_policies_say_are_both_told() {
        let spec = json!({ "provider": "digitalocean", "ips": ["192.0.2.1", "x"],
                           "match": { "tolerations": [{ "operator": "Like", "effect": "Never" }] },
                           "dnsRecordSet": { "zone": "example.com", "recordName": "a", "ttl": 5 } });
        let said = pool(&spec);
        let fields: Vec<&str> = said.iter().filter_map(|said| said.split(": ").next()).collect();
        let tolerations = "spec.match.tolerations";
        assert_eq!(fields, ["spec.ips[1]", tolerations, tolerations, "spec.dnsRecordSet.ttl"], "{said:?}");
        assert!(pool(&json!({ "provider": "digitalocean", "ips": ["192.0.2.1"] }))[0].contains("spec.match"));
    }

    #[test]
    fn an_annotation_that_pauses_and_reads_like_none_is_told() {
        let said = |text: &str| {
            let metadata = json!({ "name": "p", "annotations": { PAUSED_ANNOTATION: text } });
            let spec =
                json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { "nodeLabel": "a" } });
            advice(&json!({ "kind": "FloatingIPPool", "metadata": metadata, "spec": spec }))
        };
        assert!(said("False")[0].contains("although its text is False"), "{:?}", said("False"));
        assert_eq!([said(""), said("incident 7")].concat(), Vec::<String>::new());
    }

    #[test]
    fn a_name_of_another_zone_and_a_minimum_beyond_the_pool_are_told() {
        let spec = |name: &str, minimum: u64| {
            json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { "nodeLabel": "a" },
                    "minActive": minimum, "dnsRecordSet": { "zone": "Example.com.", "recordName": name } })
        };
        for fine in ["www", "www.example.com", "Example.com", "@", "a.b"] {
            assert_eq!(pool(&spec(fine, 1)), Vec::<String>::new(), "{fine}");
        }
        let said = pool(&spec("www.example.org", 2));
        assert!(said[0].contains("published as www.example.org.example.com"), "{said:?}");
        assert!(said[1].starts_with("spec.minActive: 2 is more than the pool has (1)"), "{said:?}");
    }

    #[test]
    fn a_request_to_move_that_cannot_be_read_is_told() {
        let spec = json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { "nodeLabel": "a" } });
        let said = |kind: &str, request: &str| {
            let annotations = json!({ MOVE_ANNOTATION: request });
            let metadata = json!({ "name": "p", "annotations": annotations });
            advice(&json!({ "kind": kind, "metadata": metadata, "spec": spec }))
        };
        for fine in ["192.0.2.1=edge-1", "192.0.2.1=edge-1#2", " "] {
            assert_eq!(said("FloatingIPPool", fine), Vec::<String>::new(), "{fine}");
        }
        assert!(said("FloatingIPPool", "edge-1")[0].contains("the annotation has no '='"));
        let of_a_set = said("NodeDNSRecordSet", "edge-1");
        assert!(of_a_set.iter().all(|said| !said.contains("metadata")), "{of_a_set:?}");
    }
}
