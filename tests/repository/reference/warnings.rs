//! The messages of the admission policies in k8s/.

use super::names::objects;
use super::page::{Page, cell};
use crate::text;
use serde_json::Value;

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Admission warnings",
        "For authors of manifests who see a warning of `kubectl apply`, and for administrators: what the three \
         ValidatingAdmissionPolicies in `k8s/` warn of and refuse.",
    );
    page.paragraph(
        "A warning refuses nothing: the object is stored. It is also added to the audit log of the API server. \
         Conditions and `status.error` of the object report the mistakes as well. Writes of FLIPOP give no \
         warnings. A text in angle brackets stands for a value of your object. The policies are \
         `flipop-warnings-floatingippools` and `flipop-warnings-nodednsrecordsets`.",
    );
    let [pools, sets] = ["floatingippools", "nodednsrecordsets"].map(warnings);
    let (both, of_pools): (Vec<_>, Vec<_>) = pools.into_iter().partition(|told| sets.contains(told));
    let of_sets = sets.into_iter().filter(|told| !both.contains(told)).collect();
    for (title, told) in
        [("Both kinds", both.clone()), ("FloatingIPPool", of_pools), ("NodeDNSRecordSet", of_sets)]
    {
        page.heading(2, title);
        page.list(told);
    }
    page.heading(2, "Nodes");
    let file = "policy-node-annotation.yaml";
    let (policy, actions) = policy(file);
    assert_eq!(actions, ["Deny"]);
    let conditions = policy["spec"]["matchConditions"].as_array().unwrap();
    let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
    let account = text(&condition["expression"]).split('\'').nth(1).unwrap();
    page.paragraph(&format!(
        "Policy `{}`, file `k8s/{file}`. It refuses changes of nodes by the account `{account}`, which FLIPOP uses, \
         and by no other account. The messages are:",
        name(&policy)
    ));
    page.list(validations(&policy).iter().flat_map(messages).map(|told| cell(&told)));
    page.end()
}

/// The policy in a file, and the actions of its binding.
fn policy(file: &str) -> (Value, Vec<String>) {
    let objects = objects(file);
    let [policy, binding] = objects.as_slice() else { panic!("{file}: not a policy and its binding") };
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    let actions = binding["spec"]["validationActions"].as_array().unwrap();
    (policy.clone(), actions.iter().map(|action| text(action).to_owned()).collect())
}

fn name(policy: &Value) -> &str {
    text(&policy["metadata"]["name"])
}

fn validations(policy: &Value) -> Vec<Value> {
    policy["spec"]["validations"].as_array().unwrap().clone()
}

/// The possible messages of a validation: its expression's texts, or its fixed one.
fn messages(validation: &Value) -> Vec<String> {
    match validation["messageExpression"].as_str() {
        Some(expression) => alternatives(expression),
        None => vec![text(&validation["message"]).to_owned()],
    }
}

/// The warnings about a kind. Each names its field.
fn warnings(plural: &str) -> Vec<String> {
    let (policy, actions) = policy(&format!("policy-warnings-{plural}.yaml"));
    assert_eq!(name(&policy), format!("flipop-warnings-{plural}"));
    assert_eq!(actions, ["Warn", "Audit"]);
    let told: Vec<String> = validations(&policy).iter().flat_map(messages).collect();
    assert!(told.iter().all(|told| told.contains("spec.") || told.contains("metadata.")), "{told:?}");
    told.iter().map(|told| cell(told)).collect()
}

/// The possible texts of a CEL expression of concatenations and choices. A value appears as its name in angle brackets.
fn alternatives(expression: &str) -> Vec<String> {
    let expression = expression.trim();
    if let Some(inner) = in_brackets(expression) {
        return alternatives(inner);
    }
    if let Some((_, choice)) = split(expression, '?') {
        let (yes, no) = split(choice, ':').unwrap();
        return [alternatives(yes), alternatives(no)].concat();
    }
    if let Some((first, rest)) = split(expression, '+') {
        let rest = alternatives(rest);
        let firsts = alternatives(first);
        return firsts
            .iter()
            .flat_map(|first| rest.iter().map(move |rest| format!("{first}{rest}")))
            .collect();
    }
    if let Some(literal) = expression.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return vec![literal.to_owned()];
    }
    let name = expression.split("variables.").nth(1).unwrap_or_else(|| panic!("what is {expression}?"));
    let name = name.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap();
    vec![format!("<{name}>")]
}

/// The two sides of the first such letter outside texts and brackets.
fn split(expression: &str, at: char) -> Option<(&str, &str)> {
    let (mut depth, mut quoted) = (0, false);
    for (position, letter) in expression.char_indices() {
        match letter {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            _ if letter == at && !quoted && depth == 0 => {
                return Some((&expression[..position], &expression[position + letter.len_utf8()..]));
            }
            _ => {}
        }
    }
    None
}

/// The content of brackets that enclose the whole text.
fn in_brackets(expression: &str) -> Option<&str> {
    let inner = expression.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0;
    for letter in inner.chars() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return None;
        }
    }
    Some(inner)
}

#[test]
fn an_expression_is_told_with_each_of_its_choices() {
    let told = alternatives(
        "(variables.a != '' ? 'x: ' : 'y (' + string(variables.b) + ') ') + variables.c.join(', ') + '?'",
    );
    assert_eq!(told, ["x: <c>?", "y (<b>) <c>?"]);
    assert_eq!(alternatives("v == '' ? 'a' : w == 'b' ? 'b' : 'c'"), ["a", "b", "c"]);
}
