//! Mistakes in specs: invalid values for a few seconds, at every moment of an undisturbed run.
//!
//! No mistake may change anything: what exists stays, nothing is bought, and work under way continues once the spec is
//! valid again.

use super::plan::{Act, Plan};
use super::workloads::at;
use json_patch::merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How long a spec stays invalid.
const WRONG_MS: u64 = 4_000;

/// How much of a mistake the name of its plan shows, in characters.
const SHOWN: usize = 80;

/// An object of a plan: its kind and its name.
type Object = (String, String);

/// The specs after the steps up to this moment.
pub(super) fn specs(plan: &Plan, until_ms: u64) -> BTreeMap<Object, Value> {
    let mut specs = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| step.at_ms <= until_ms) {
        // No other act touches a spec in an undisturbed plan.
        if let Act::Create { kind, name, spec } = &step.act {
            specs.insert((kind.clone(), name.clone()), spec.clone());
        } else if let Act::Edit { kind, name, spec } = &step.act
            && let Some(now) = specs.get_mut(&(kind.clone(), name.clone()))
        {
            merge(now, spec);
        } else if let Act::Delete { kind, name } = &step.act {
            specs.remove(&(kind.clone(), name.clone()));
        }
    }
    specs
}

/// The patch that undoes another one.
fn undo(value: &Value, patch: &Value) -> Value {
    let (Value::Object(fields), Value::Object(patch)) = (value, patch) else { return value.clone() };
    let back = |(name, change): (&String, &Value)| {
        let was = fields.get(name).map_or(Value::Null, |was| undo(was, change));
        (name.clone(), was)
    };
    patch.iter().map(back).collect()
}

/// The mistakes for a spec. None of them may change anything.
fn mistakes(kind: &str, spec: &Value) -> Vec<Value> {
    let mut all = vec![
        json!({ "match": { "nodeLabel": "role in (edge" } }),
        json!({ "match": { "podLabel": "=" } }),
        json!({ "match": { "podNamespace": "Not_A_Name" } }),
        // Texts and lists over their bounds.
        json!({ "match": { "podNamespace": "n".repeat(300) } }),
        json!({ "match": { "podLabel": vec!["app"; 2_000].join(",") } }),
    ];
    let set = |field: &str, value: Value| json!({ "dnsRecordSet": { field: value } });
    let asks = spec.get("dnsRecordSet").is_some();
    if asks {
        all.extend([
            set("zone", json!("")),
            set("zone", json!("no zone at all")),
            set("recordName", Value::Null),
            set("recordName", json!("edge.example.org.")),
            set("ttl", json!(-1)),
            set("ttl", json!(i64::from(i32::MAX) + 1)),
            set("provider", json!("nobody")),
            set("whenEmpty", json!("sometimes")),
        ]);
    }
    if kind == "NodeDNSRecordSet" {
        all.extend(["PublicIP", "externalip"].map(|unknown| json!({ "addressType": unknown })));
        return all;
    }
    all.extend(["", "nobody", "cloudflare"].map(|provider| json!({ "provider": provider })));
    if !asks {
        all.push(json!({ "dnsRecordSet": { "zone": "example.com" } }));
    }
    let given = spec.get("ips").and_then(Value::as_array).cloned().unwrap_or_default();
    if spec.get("desiredIPs").is_none() {
        all.push(json!({ "ips": [] }));
        for entry in ["", "192.0.2.300", "2001:db8::1", "edge.example.com"] {
            all.push(json!({ "ips": given.iter().cloned().chain([json!(entry)]).collect::<Vec<_>>() }));
        }
        let many = (0..1_000).map(|number| json!(format!("198.18.{}.{}", number / 250, number % 250)));
        all.push(json!({ "ips": given.iter().cloned().chain(many).collect::<Vec<_>>() }));
        // The same address twice.
        all.push(json!({ "ips": given.iter().chain(given.first()).collect::<Vec<_>>() }));
    }
    all
}

/// A mistake at every call and event of an undisturbed run, with each object and each mistake in turn.
pub(super) fn at_every(plan: &Plan, moments: &[u64]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (number, moment) in moments.iter().enumerate() {
        let (from_ms, to_ms) = (moment + 1, moment + 1 + WRONG_MS);
        // The plan itself must not edit anything meanwhile.
        if plan.steps.iter().any(|step| (from_ms..=to_ms).contains(&step.at_ms)) {
            continue;
        }
        let specs: Vec<(Object, Value)> = specs(plan, from_ms).into_iter().collect();
        let Some(((kind, name), spec)) = nth(&specs, number) else { continue };
        let Some(wrong) = nth(&mistakes(kind, spec), plans.len()).cloned() else { continue };
        let edit = |at_ms, spec| at(at_ms, Act::edit(kind, name, spec));
        let right = undo(spec, &wrong);
        let mut wrong_plan = plan.clone();
        let shown: String = wrong.to_string().chars().take(SHOWN).collect();
        wrong_plan.name = format!("{}: {name} has {shown} at {from_ms} ms", plan.name);
        wrong_plan.steps.extend([edit(from_ms, wrong), edit(to_ms, right)]);
        wrong_plan.steps.sort_by_key(|step| step.at_ms);
        wrong_plan.end_ms = plan.end_ms.max(to_ms) + WRONG_MS;
        plans.push(wrong_plan);
    }
    plans
}

/// The item with this number, counted round and round.
pub(super) fn nth<T>(items: &[T], number: usize) -> Option<&T> {
    items.get(number.checked_rem(items.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    #[test]
    fn what_was_wrong_is_as_it_was_afterwards() {
        let plans = workloads::all();
        let mut tried = 0;
        for plan in &plans {
            for ((kind, _), spec) in specs(plan, plan.end_ms) {
                for wrong in mistakes(&kind, &spec) {
                    let mut now = spec.clone();
                    merge(&mut now, &wrong);
                    assert_ne!(now, spec, "{wrong}");
                    merge(&mut now, &undo(&spec, &wrong));
                    assert_eq!(now, spec, "{wrong}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
