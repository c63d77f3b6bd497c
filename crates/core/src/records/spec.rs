//! Parses `spec.dnsRecordSet`, and the spec of a `NodeDNSRecordSet`, into the form that decisions use and a list of
//! mistakes. A mistake stops this record set and nothing else.

use super::diff::{DEFAULT_TTL, TtlRule};
use super::name::ZoneRef;
use crate::model::bounds::{self, TooLarge};
use crate::model::provider::{Providers, Rules, ZoneForm};
use crate::model::spec::{Grace, RawGrace, RawMatch, RawRecordSet, Scope, SpecProblem};
use crate::model::words::shown;
use crate::model::{
    AccountId, Address, Criteria, NodeCheck, NodeFacts, ObjectKind, RESERVED_IP_ANNOTATION, RawNodeCheck,
};

/// The provider of a `NodeDNSRecordSet` that names none.
const DEFAULT_PROVIDER: &str = "digitalocean";

/// The place of a record set, as far as the spec alone says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The account. Its provider may be unknown.
    pub account_id: AccountId,
    /// The zone.
    pub zone: ZoneRef,
    /// The name as it was written.
    pub record_name: String,
}

/// The treatment of a set without an address to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenEmpty {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is deleted.
    Delete,
}

/// The parsed spec of a record set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetSpec {
    /// Its place. `None` if the spec does not name one. The place is claimed even if the rest of the spec has
    /// mistakes.
    pub place: Option<Destination>,
    /// The provider that the spec names or implies. It may be unknown, and is shown even without a place.
    pub provider: String,
    /// The name as it was written. It is shown if there is no place.
    pub record_name: String,
    /// TTL of the records, before the zone's floor.
    pub ttl: TtlRule,
    /// Its treatment without addresses.
    pub when_empty: WhenEmpty,
    /// It has no mistake.
    pub valid: bool,
}

impl SetSpec {
    /// Stays where it was, as far as that is known, if a field that may name its place is over its bound.
    pub(crate) fn stay(&mut self, before: Option<&Self>, too_large: &[TooLarge]) {
        if bounds::lie_in(too_large, "spec.dnsRecordSet") {
            let place = before.and_then(|before| before.place.clone());
            (self.place, self.valid) = (place.or_else(|| self.place.take()), false);
        }
    }

    /// Reads what was written, and notes what is wrong with it.
    pub fn parse(
        raw: &RawRecordSet,
        default_provider: &str,
        kind: ObjectKind,
        providers: &Providers,
        problems: &mut Vec<SpecProblem>,
    ) -> Self {
        let before = problems.len();
        let provider = if raw.provider.is_empty() { default_provider } else { &raw.provider };
        let problem = provider_problem(provider, providers);
        let known = problem.is_none();
        if let Some(message) = problem {
            let inherited = raw.provider.is_empty() && !default_provider.is_empty();
            let field = if inherited { "spec.provider" } else { "spec.dnsRecordSet.provider" };
            // A pool reports mistakes about its provider itself.
            if !problems.iter().any(|known| known.field == field) {
                problems.push(SpecProblem { scope: Scope::RecordSet, field: field.to_owned(), message });
            }
        }
        let mut note = |field: &str, message: String| {
            let field = format!("spec.dnsRecordSet.{field}");
            problems.push(SpecProblem { scope: Scope::RecordSet, field, message });
        };
        let rules = providers.get(provider).and_then(|descriptor| descriptor.dns);
        let form = rules.map_or(ZoneForm::NameOrId, |rules| rules.zone_form);
        let zone = raw.zone.trim();
        let zone = if zone.is_empty() {
            note("zone", "no zone is named; write the DNS zone, for example example.com".to_owned());
            None
        } else {
            ZoneRef::parse(zone, form).map_err(|error| note("zone", error.to_string())).ok()
        };
        if raw.record_name.is_empty() {
            note(
                "recordName",
                "no name is given; write one such as www, or @ for the zone itself".to_owned(),
            );
        }
        // A mistake that the spec alone shows is reported at once. The name of a zone that is given by its id is not
        // known yet.
        if let Some(ZoneRef::Name(zone)) = &zone
            && !raw.record_name.is_empty()
            && let Err(error) = super::name::qualify(&raw.record_name, Some(zone))
        {
            note("recordName", error.to_string());
        }
        let ttl = read_ttl(raw.ttl, kind, rules, &mut note);
        let when_empty = read_when_empty(&raw.when_empty, kind, providers.keep_last_record, &mut note);
        let place = zone.filter(|_| !raw.record_name.is_empty()).map(|zone| Destination {
            account_id: AccountId::from(provider),
            zone,
            record_name: raw.record_name.clone(),
        });
        let (provider, record_name) = (provider.to_owned(), raw.record_name.clone());
        Self { place, provider, record_name, ttl, when_empty, valid: known && problems.len() == before }
    }
}

fn provider_problem(provider: &str, providers: &Providers) -> Option<String> {
    if providers.of_dns().any(|(usable, _)| usable.name == provider) {
        return None;
    }
    let usable = Providers::named(providers.of_dns().map(|(usable, _)| usable));
    Some(match (providers.get(provider), provider) {
        (Some(known), name) => {
            format!("provider {name:?} has no token; set {} for the operator", known.token_variable)
        }
        (None, "") => format!("no provider is named; use one of: {usable}"),
        (None, name) => format!("unknown provider {:?}; use one of: {usable}", shown(name)),
    })
}

fn read_ttl(
    raw: i64,
    kind: ObjectKind,
    rules: Option<Rules>,
    note: &mut impl FnMut(&str, String),
) -> TtlRule {
    let default = match kind {
        ObjectKind::Pool => TtlRule::Every(DEFAULT_TTL),
        ObjectKind::RecordSet => TtlRule::default(),
    };
    let ceiling = rules.map_or(u32::MAX, |rules| rules.ttl_ceiling);
    match u32::try_from(raw) {
        Ok(0) => default,
        Ok(ttl) if ttl <= ceiling => TtlRule::Every(ttl),
        Ok(_) => {
            note("ttl", format!("{raw} is more than the provider allows; use at most {ceiling} seconds"));
            default
        }
        Err(_) if raw < 0 => {
            note("ttl", format!("{raw} is negative; write seconds, or leave it out for {DEFAULT_TTL}"));
            default
        }
        Err(_) => {
            note("ttl", format!("{raw} is more than any provider allows; use at most {ceiling} seconds"));
            default
        }
    }
}

fn read_when_empty(
    raw: &str,
    kind: ObjectKind,
    keep: bool,
    note: &mut impl FnMut(&str, String),
) -> WhenEmpty {
    match (raw, kind) {
        ("Keep", _) | ("", ObjectKind::Pool) => WhenEmpty::Keep,
        ("", ObjectKind::RecordSet) if keep => WhenEmpty::Keep,
        ("Delete", _) | ("", ObjectKind::RecordSet) => WhenEmpty::Delete,
        (other, _) => {
            note("whenEmpty", format!("unknown value {:?}; use Keep or Delete", shown(other)));
            WhenEmpty::Keep
        }
    }
}

/// The kind of address of a node that is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// Those of type `ExternalIP`.
    External,
    /// Those of type `InternalIP`.
    Internal,
    /// The reserved IP in the annotation.
    Annotation,
}

impl AddressSource {
    fn parse(raw: &str) -> Option<Self> {
        match raw {
            "" | "ExternalIP" => Some(Self::External),
            "InternalIP" => Some(Self::Internal),
            RESERVED_IP_ANNOTATION => Some(Self::Annotation),
            _ => None,
        }
    }

    /// The addresses of a node that are published: IPv4 only, possibly none.
    pub fn of(self, node: &NodeFacts) -> Vec<Address> {
        match self {
            Self::External => node.external_ips.clone(),
            Self::Internal => node.internal_ips.clone(),
            Self::Annotation => {
                node.annotation.iter().filter_map(|value| Address::v4(value.trim())).collect()
            }
        }
    }

    /// The name of the missing address, in messages about a node without one.
    pub fn lacking(self) -> &'static str {
        match self {
            Self::External => "an IPv4 address of type ExternalIP",
            Self::Internal => "an IPv4 address of type InternalIP",
            Self::Annotation => "an IPv4 address in the annotation flipop.digitalocean.com/ipv4-reserved-ip",
        }
    }
}

/// The spec of a `NodeDNSRecordSet` as it was written; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawRecordSetSpec {
    /// Default of `dnsRecordSet.provider`.
    pub provider: String,
    /// Which nodes.
    pub matching: RawMatch,
    /// The records.
    pub record_set: Option<RawRecordSet>,
    /// The kind of address of a node.
    pub address_type: String,
    /// How long a node that fails stays in the set.
    pub grace: RawGrace,
    /// How nodes are checked.
    pub node_check: Option<RawNodeCheck>,
    /// The fields over their bounds. Above, they are cut.
    pub too_large: Vec<TooLarge>,
}

/// The parsed spec of a `NodeDNSRecordSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSetSpec {
    /// The record set.
    pub set: SetSpec,
    /// The kind of address of a node. `None` if the spec names an unknown one.
    pub source: Option<AddressSource>,
    /// Which nodes; `None` when the selectors do not parse.
    pub criteria: Option<Criteria>,
    /// How long a node that fails stays in the set.
    pub grace: Grace,
    /// How nodes are checked, if they are.
    pub check: Option<NodeCheck>,
    /// All mistakes.
    pub problems: Vec<SpecProblem>,
}

impl NodeSetSpec {
    /// Reads what was written.
    pub fn parse(raw: &RawRecordSetSpec, providers: &Providers) -> Self {
        let mut problems = Vec::new();
        let provider = if raw.provider.is_empty() { DEFAULT_PROVIDER } else { &raw.provider };
        let record_set = raw.record_set.clone().unwrap_or_default();
        let set = SetSpec::parse(&record_set, provider, ObjectKind::RecordSet, providers, &mut problems);
        let source = AddressSource::parse(&raw.address_type);
        if source.is_none() {
            problems.push(SpecProblem {
                scope: Scope::RecordSet,
                field: "spec.addressType".to_owned(),
                message: format!(
                    "unknown value {:?}; use ExternalIP, InternalIP or {RESERVED_IP_ANNOTATION}",
                    shown(&raw.address_type)
                ),
            });
        }
        let criteria = raw.matching.criteria(Scope::RecordSet, &mut problems);
        let grace = Grace::parse(&raw.grace, &mut problems);
        let check = NodeCheck::parse(raw.node_check.as_ref(), &mut problems);
        bounds::add_to(&mut problems, &raw.too_large, Scope::RecordSet);
        Self { set, source, criteria, grace, check, problems }
    }

    /// The mistakes that keep the records as they are.
    pub fn obstacles(&self) -> impl Iterator<Item = &SpecProblem> {
        self.problems.iter().filter(|problem| problem.scope == Scope::RecordSet)
    }

    /// The spec if the present one cannot be read: the last readable one, with this mistake.
    pub fn unreadable(&self, message: &str) -> Self {
        let problem = SpecProblem {
            scope: Scope::RecordSet,
            field: "spec".to_owned(),
            message: format!("cannot be read: {message}"),
        };
        // The place that was last readable stays claimed.
        Self { problems: vec![problem], ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::examples::providers;

    fn raw() -> RawRecordSet {
        RawRecordSet { zone: "example.com".into(), record_name: "www".into(), ..RawRecordSet::default() }
    }

    fn parse(raw: &RawRecordSet, kind: ObjectKind) -> (SetSpec, Vec<String>) {
        let mut problems = Vec::new();
        let spec = SetSpec::parse(raw, "digitalocean", kind, &providers(true), &mut problems);
        (spec, problems.iter().map(|problem| problem.field.replace("spec.dnsRecordSet.", "")).collect())
    }

    #[test]
    fn defaults_differ_by_kind() {
        let (pool, problems) = parse(&raw(), ObjectKind::Pool);
        assert_eq!((pool.ttl, pool.when_empty, problems), (TtlRule::Every(60), WhenEmpty::Keep, vec![]));
        let (node, problems) = parse(&raw(), ObjectKind::RecordSet);
        assert_eq!((node.ttl, node.when_empty, problems), (TtlRule::New(60), WhenEmpty::Delete, vec![]));
        let mut kept = providers(true);
        kept.keep_last_record = true;
        let when_empty = |when_empty: &str| {
            let raw = RawRecordSet { when_empty: when_empty.into(), ..raw() };
            let kind = ObjectKind::RecordSet;
            SetSpec::parse(&raw, "digitalocean", kind, &kept, &mut Vec::new()).when_empty
        };
        assert_eq!((when_empty(""), when_empty("Delete")), (WhenEmpty::Keep, WhenEmpty::Delete));
    }

    #[test]
    fn white_space_around_a_zone_means_nothing() {
        for (zone, is) in [
            (" example.com\n", ZoneRef::Name("example.com".into())),
            ("\t0da42c8d2132a9ddaf714f9e7c920711 ", ZoneRef::Id("0da42c8d2132a9ddaf714f9e7c920711".into())),
        ] {
            let raw = RawRecordSet { zone: zone.into(), provider: "cloudflare".into(), ..raw() };
            let (spec, problems) = parse(&raw, ObjectKind::Pool);
            assert_eq!(problems, [""; 0]);
            assert_eq!(spec.place.map(|place| place.zone), Some(is));
        }
    }

    #[test]
    fn each_mistake_names_its_field_and_the_place_is_claimed_where_it_can_be_told() {
        for (raw, field, claimed) in [
            (RawRecordSet { zone: String::new(), ..raw() }, "zone", false),
            (RawRecordSet { zone: " \n".into(), ..raw() }, "zone", false),
            (RawRecordSet { zone: "a b.c".into(), ..raw() }, "zone", false),
            (RawRecordSet { record_name: String::new(), ..raw() }, "recordName", false),
            (RawRecordSet { record_name: "www.other.org.".into(), ..raw() }, "recordName", true),
            (RawRecordSet { ttl: -1, ..raw() }, "ttl", true),
            (RawRecordSet { ttl: i64::MAX, ..raw() }, "ttl", true),
            (RawRecordSet { ttl: 2_147_483_648, ..raw() }, "ttl", true),
            (RawRecordSet { ttl: 86_401, provider: "cloudflare".into(), ..raw() }, "ttl", true),
            (RawRecordSet { when_empty: "delete".into(), ..raw() }, "whenEmpty", true),
            (RawRecordSet { provider: "route53".into(), ..raw() }, "provider", true),
        ] {
            let (spec, problems) = parse(&raw, ObjectKind::Pool);
            assert_eq!(problems, [field], "{raw:?}");
            assert!(!spec.valid);
            assert_eq!(spec.place.is_some(), claimed, "{raw:?}");
        }
    }

    #[test]
    fn a_provider_without_a_token_is_told_apart_from_an_unknown_one() {
        let message = provider_problem("cloudflare", &providers(false)).unwrap();
        assert!(message.contains("CLOUDFLARE_TOKEN"), "{message}");
        assert!(provider_problem("cloudflare", &Providers::default()).unwrap().contains("unknown provider"));
    }

    #[test]
    fn a_node_set_takes_its_provider_from_the_record_set_then_from_the_spec_then_the_default() {
        let provider = |outer: &str, inner: &str| {
            let record_set = Some(RawRecordSet { provider: inner.into(), ..raw() });
            let raw = RawRecordSetSpec { provider: outer.into(), record_set, ..RawRecordSetSpec::default() };
            let spec = NodeSetSpec::parse(&raw, &providers(true));
            assert_eq!(spec.problems, []);
            spec.set.place.unwrap().account_id.provider
        };
        assert_eq!(provider("", ""), "digitalocean");
        assert_eq!(provider("cloudflare", ""), "cloudflare");
        assert_eq!(provider("digitalocean", "cloudflare"), "cloudflare");
    }

    #[test]
    fn an_address_type_is_one_of_three() {
        let parse = |text: &str| {
            let raw = RawRecordSetSpec {
                record_set: Some(raw()),
                address_type: text.into(),
                ..RawRecordSetSpec::default()
            };
            let spec = NodeSetSpec::parse(&raw, &providers(true));
            (spec.source, spec.problems.into_iter().map(|problem| problem.field).collect::<Vec<_>>())
        };
        assert_eq!(parse(""), (Some(AddressSource::External), vec![]));
        assert_eq!(parse("InternalIP"), (Some(AddressSource::Internal), vec![]));
        assert_eq!(parse(RESERVED_IP_ANNOTATION), (Some(AddressSource::Annotation), vec![]));
        assert_eq!(parse("Hostname"), (None, vec!["spec.addressType".to_owned()]));
    }

    #[test]
    fn of_an_annotation_only_an_ipv4_address_counts() {
        let node =
            |annotation: &str| NodeFacts { annotation: Some(annotation.to_owned()), ..NodeFacts::default() };
        assert_eq!(AddressSource::Annotation.of(&node("192.0.2.1")), [Address::from([192, 0, 2, 1])]);
        for other in ["", "2001:db8::1", "nonsense"] {
            assert!(AddressSource::Annotation.of(&node(other)).is_empty(), "{other}");
        }
    }
}
