//! The fields of a kind, taken from its CRD.

use super::page::{Page, cell, code, number};
use crate::text;
use flipop::api::crd;
use serde_json::Value;

/// The CRD of a kind.
pub(crate) fn definition(kind: &str) -> Value {
    crd::all().into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap()
}

fn schema(kind: &str) -> Value {
    definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// `kubectl`'s names for the kind.
pub(crate) fn names(page: &mut Page, kind: &str) {
    let names = &definition(kind)["spec"]["names"];
    let [plural, short, category] =
        [&names["plural"], &names["shortNames"][0], &names["categories"][0]].map(text);
    page.paragraph(&format!(
        "`kubectl get {short}` is short for `kubectl get {plural}`. `kubectl get {category}` lists the objects of both \
         kinds. `kubectl explain {short}.spec` shows the descriptions of this page."
    ));
}

/// The kind whose page has the sections of the objects that both kinds share.
const FIRST: &str = "FloatingIPPool";

/// The beginning of the description of a field that only FLIPOP reads. `kubectl explain` shows what is below it.
const INTERNAL: &str = "Internal, do not edit:";

/// The fields below `spec` or `status`.
pub(crate) fn fields(page: &mut Page, kind: &str, top: &str) {
    page.heading(2, &code(top));
    let (schema, first) = (schema(kind), schema(FIRST));
    let schema = &schema["properties"][top];
    page.paragraph(&cell(text(&schema["description"])));
    let first = (kind != FIRST).then(|| &first["properties"][top]);
    object(page, top, schema, first);
}

/// The fields of an object, followed by a section for each object in it that the page of [`FIRST`] does not have.
fn object(page: &mut Page, path: &str, schema: &Value, first: Option<&Value>) {
    let properties = schema["properties"].as_object().unwrap();
    let shared = |name: &String| first.map(|first| &first["properties"][name]);
    let section = |name: &String, field| match nested(path, name, field)? {
        _ if text(&field["description"]).starts_with(INTERNAL) => None,
        (path, within) => {
            let there = shared(name).is_some_and(|first| alike(first, field));
            Some((path, within, if there { "floatingippool.md" } else { "" }))
        }
    };
    let rows = properties.iter().map(|(name, field)| {
        let link = section(name, field)
            .map(|(path, _, page)| format!("See [{}]({page}#{}).", code(&path), anchor(&path)));
        row(path, name, field, link)
    });
    if path.starts_with("spec") {
        page.table(["field", "type", "default", "meaning"], rows);
    } else {
        page.table(["field", "type", "meaning"], rows.map(|[name, kind, _, meaning]| [name, kind, meaning]));
    }
    for (name, field) in properties {
        if let Some((path, within, "")) = section(name, field) {
            page.heading(3, &code(&path));
            // A text in the row of a field is not repeated.
            if within["description"] != field["description"] {
                page.paragraph(&cell(text(&within["description"])));
            }
            object(page, &path, within, shared(name));
        }
    }
}

/// Whether two objects, or lists of objects, have the same fields.
fn alike(one: &Value, other: &Value) -> bool {
    ["properties", "items"].iter().all(|key| one[key] == other[key])
}

/// The object in a field, once or many times.
fn nested<'a>(path: &str, name: &str, field: &'a Value) -> Option<(String, &'a Value)> {
    let ways = [("", field), ("[]", &field["items"]), (".<address>", &field["additionalProperties"])];
    let (way, schema) = ways.into_iter().find(|(_, schema)| schema["properties"].is_object())?;
    Some((format!("{path}.{name}{way}"), schema))
}

fn kind_of(field: &Value) -> String {
    let plural = |schema: &Value| format!("{}s", text(&schema["type"]));
    match text(&field["type"]) {
        "array" => format!("list of {}", plural(&field["items"])),
        "object" if field["additionalProperties"].is_object() => {
            format!("map of {}", plural(&field["additionalProperties"]))
        }
        other => other.to_owned(),
    }
}

fn row(path: &str, name: &str, field: &Value, link: Option<String>) -> [String; 4] {
    let described = Described::of(field);
    let mut meaning = vec![cell(&described.text)];
    let refused = refused(field).filter(|_| path.starts_with("spec"));
    meaning.extend(refused.iter().filter_map(Refused::told));
    meaning.extend(link);
    let mut kind = kind_of(field);
    if let Some(values) = described.values.or(described.range) {
        kind.push_str(": ");
        kind.push_str(&cell(values));
    }
    if matches!(refused, Some(Refused::OutsideOfRange)) {
        kind.push_str(" (enforced)");
    }
    [code(name), kind, described.default.map(cell).unwrap_or_default(), meaning.join(" ")]
}

/// The anchor of a heading with this path.
fn anchor(path: &str) -> String {
    path.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

/// A bound as people write it: a fraction as it is, and a whole number with its thousands told apart.
fn shown(bound: f64) -> String {
    let text = bound.to_string();
    text.parse().map_or(text, number)
}

/// The values that the API server refuses.
enum Refused {
    /// All but those of the range.
    OutsideOfRange,
    /// Those below the least one. The range has an upper end too, which FLIPOP judges.
    Below(String),
}

impl Refused {
    fn told(&self) -> Option<String> {
        match self {
            Self::OutsideOfRange => None,
            Self::Below(least) => Some(format!("The API server refuses a number below {least}.")),
        }
    }
}

fn refused(field: &Value) -> Option<Refused> {
    let bound = |key: &str| field[key].as_f64().map(shown);
    let rule = [field, &field["items"]].iter().any(|schema| schema["x-kubernetes-validations"].is_array());
    match (bound("minimum"), bound("maximum"), field["maxItems"].as_u64()) {
        (Some(_), Some(_), None) | (None, None, Some(_)) => Some(Refused::OutsideOfRange),
        (Some(least), None, None) if Described::of(field).range == Some(&format!("{least} or more")) => {
            Some(Refused::OutsideOfRange)
        }
        (Some(least), None, None) => Some(Refused::Below(least)),
        (None, None, None) => rule.then_some(Refused::OutsideOfRange),
        other => panic!("no words for {other:?}"),
    }
}

/// A description. It may end in sentences that begin with `Range:`, `Values:` and `Default:`.
struct Described<'a> {
    text: String,
    range: Option<&'a str>,
    values: Option<&'a str>,
    default: Option<&'a str>,
}

impl<'a> Described<'a> {
    fn of(schema: &'a Value) -> Self {
        let mut rest = text(&schema["description"]);
        let mut take = |label: &str| {
            let (before, told) = rest.split_once(label)?;
            rest = before;
            told.strip_suffix('.')
        };
        let default = take(" Default: ");
        let values = take(" Values: ");
        let range = take(" Range: ");
        Self { text: rest.to_owned(), range, values, default }
    }
}

/// The columns of `kubectl get`.
pub(crate) fn columns(page: &mut Page, kind: &str) {
    page.heading(2, "Columns of `kubectl get`");
    let columns = definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"].clone();
    let rows = columns.as_array().unwrap().iter().map(|column| {
        let wide = if column["priority"] == 1 { "with `-o wide`" } else { "always" };
        let shows = cell(text(&column["description"]));
        [text(&column["name"]).to_owned(), wide.to_owned(), format!("{shows}.")]
    });
    page.table(["column", "shown", "content"], rows);
}

/// Every field of both kinds, by path.
#[cfg(test)]
fn all() -> Vec<(String, Value)> {
    fn visit(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        found.push((path.to_owned(), schema.clone()));
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            visit(&format!("{path}.{name}"), field, found);
        }
        for key in ["items", "additionalProperties"] {
            if schema[key].is_object() {
                visit(&format!("{path}[]"), &schema[key], found);
            }
        }
    }
    let mut found = Vec::new();
    for kind in ["FloatingIPPool", "NodeDNSRecordSet"] {
        visit(kind, &schema(kind), &mut found);
    }
    found.retain(|(_, schema)| schema["description"].is_string());
    found
}

#[test]
fn descriptions_are_plain_text_and_every_field_of_a_spec_says_what_its_absence_means() {
    for (path, schema) in all() {
        let told = text(&schema["description"]);
        assert!(told.matches('`').count().is_multiple_of(2), "{path}: {told}");
        for markdown in ["](", "**", "\n", "<br"] {
            assert!(!told.contains(markdown), "{path}: {told}");
        }
        assert!(told.ends_with('.'), "{path}: {told}");
        let Described { text, range, values, default } = Described::of(&schema);
        for (label, part) in [("Range:", range), ("Values:", values), ("Default:", default)] {
            assert_eq!(part.is_some(), told.contains(label), "{path}: {label} must be the last sentences");
        }
        assert!(text.ends_with('.') && !text.contains("efault:"), "{path}: {text}");
        let in_spec = path.contains(".spec.") && !path.ends_with("[]");
        assert!(!in_spec || default.is_some(), "{path} does not say what its absence means");
    }
}

/// The range of a field of `nodeCheck`. The tests of the core hold its parser to the same numbers.
fn checked(path: &str) -> Option<[&'static str; 2]> {
    let (_, field) = path.split_once(".nodeCheck.")?;
    match field {
        "port" => Some(["1", "65,535"]),
        "periodSeconds" => Some(["0.5", "10"]),
        "timeoutSeconds" => Some(["0.1", "10"]),
        "failureThreshold" => Some(["2", "10"]),
        _ => None,
    }
}

#[test]
fn the_ranges_that_are_told_are_those_of_the_code() {
    use flipop::provider::descriptors;
    let described = |path: &str| {
        let all = all();
        let (_, schema) = all.iter().find(|(found, _)| found == path).unwrap();
        text(&schema["description"]).to_owned()
    };
    let most = u64::try_from(flipop_core::addresses::pool::spec::MAX_DESIRED).unwrap();
    for field in ["desiredIPs", "minActive"] {
        let told = described(&format!("FloatingIPPool.spec.{field}"));
        assert!(told.contains(&format!("Range: 0 to {}.", number(most))), "{told}");
    }
    for kind in ["FloatingIPPool", "NodeDNSRecordSet"] {
        let told = described(&format!("{kind}.spec.dnsRecordSet.ttl"));
        for of in descriptors() {
            let (name, rules) = (of.title, of.dns.unwrap());
            let [floor, ceiling] = [rules.ttl_floor, rules.ttl_ceiling].map(|ttl| number(ttl.into()));
            assert!(told.contains(&format!("{floor} to {ceiling} at {name}")), "{told}");
        }
    }
    let longest = u64::try_from(flipop_core::model::spec::MAX_GRACE_SECONDS).unwrap();
    for (path, schema) in all() {
        let told = text(&schema["description"]);
        if let Some([least, most]) = checked(&path) {
            assert!(told.contains(&format!("Range: {least} to {most}.")), "{path}: {told}");
            let of_schema = ["minimum", "maximum"].map(|key| schema[key].as_f64().map(shown));
            assert_eq!(of_schema, [Some(least.to_owned()), Some(most.to_owned())], "{path}");
            continue;
        }
        let highest = if path.contains(".grace.") { longest } else { most };
        if let Some(most) = schema["maxItems"].as_u64().or(schema["maximum"].as_f64().map(|_| highest)) {
            assert!(told.contains(&number(most)), "{path}: {told}");
        }
    }
}
