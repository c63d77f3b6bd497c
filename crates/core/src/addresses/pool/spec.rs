//! Parses the spec of a `FloatingIPPool` into the planner's input and a list of mistakes.
//!
//! A mistake is scoped: each [`SpecProblem`] says how far it reaches. Nothing here fails as a whole.

use crate::firewalls::spec::{FirewallSpec, RawFirewall};
use crate::model::bounds::{self, MAX_IPS, TooLarge};
use crate::model::label_mode::{LabelMode, RawNodeLabels};
use crate::model::provider::Providers;
use crate::model::spec::{Grace, RawGrace, RawMatch, RawRecordSet, Scope, SpecProblem};
use crate::model::words::shown;
use crate::model::{
    AccountId, Address, Criteria, MachineKind, NodeCheck, ObjectKind, RawNodeCheck, region_slug,
};
use crate::records::spec::SetSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The spec of a pool as it was written; empty strings and 0 mean absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawPoolSpec {
    /// Provider of the addresses.
    pub provider: String,
    /// Region in which missing addresses are created.
    pub region: String,
    /// How many addresses are used. Missing ones are created, and others are disabled.
    pub desired_ips: i64,
    /// With fewer active addresses the pool is not ready.
    pub min_active: i64,
    /// How long a node that fails keeps its address.
    pub grace: RawGrace,
    /// How nodes are checked.
    pub node_check: Option<RawNodeCheck>,
    /// Labels of nodes.
    pub node_labels: RawNodeLabels,
    /// Addresses in order of preference.
    pub ips: Vec<String>,
    /// Created addresses to give up.
    pub released_ips: Vec<String>,
    /// The treatment of bought addresses that the spec gives up.
    pub reclaim_policy: String,
    /// Least time between the starts of two assignments, in seconds.
    pub cool_off_seconds: f64,
    /// Which nodes.
    pub matching: RawMatch,
    /// DNS of the pool.
    pub record_set: Option<RawRecordSet>,
    /// Ports to open.
    pub firewall: Option<RawFirewall>,
    /// The fields over their bounds. Above, they are cut.
    pub too_large: Vec<TooLarge>,
}

/// The planner's input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSpec {
    /// The account of the addresses. Its provider may be unknown.
    pub account_id: AccountId,
    /// The kind of machine to which that provider's addresses are assigned, if it has addresses.
    pub machines: Option<&'static MachineKind>,
    /// Region in which missing addresses are created.
    pub region: Option<String>,
    /// How many addresses are used; `None` for all of `ips`.
    pub desired: Option<usize>,
    /// With fewer active addresses the pool is not ready. `None` if there is no minimum.
    pub min_active: Option<usize>,
    /// How long a node that fails keeps its address.
    pub grace: Grace,
    /// How nodes are checked, if they are.
    pub check: Option<NodeCheck>,
    /// Labels of nodes.
    pub labels: LabelMode,
    /// The valid entries of `spec.ips`, in order, each once.
    pub ips: Vec<Address>,
    /// The first invalid entries of `spec.ips`, each with its mistake.
    pub bad_ips: BTreeMap<String, String>,
    /// Created addresses to give up.
    pub released: BTreeSet<Address>,
    /// The treatment of bought addresses that the spec gives up.
    pub reclaim: ReclaimPolicy,
    /// Least time between the starts of two assignments.
    pub cool_off_ms: u64,
    /// Which nodes; `None` when the selectors do not parse.
    pub criteria: Option<Criteria>,
    /// The pool's record set, if it wants one.
    pub record_set: Option<SetSpec>,
    /// Ports to open.
    pub firewall: FirewallSpec,
    /// All mistakes, in the order of the fields.
    pub problems: Vec<SpecProblem>,
}

/// The treatment of bought addresses that the spec gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReclaimPolicy {
    /// They stay in the account.
    #[default]
    Retain,
    /// They are deleted.
    Delete,
}

/// A larger `desiredIPs` is surely a mistake. This bounds the purchases and the size of a status.
pub const MAX_DESIRED: i64 = 1_000;

/// Invalid entries of a list that are reported one by one. The others are counted.
pub const MAX_REPORTED: usize = 10;

/// A longer cool-off than this (a year) counts as this.
const MAX_COOL_OFF_SECONDS: f64 = 31_536_000.0;

impl PoolSpec {
    /// The word for a machine in messages.
    pub fn noun(&self) -> &'static str {
        self.machines.map_or("machine", |machines| machines.noun)
    }

    /// Parses a spec.
    pub fn parse(raw: &RawPoolSpec, providers: &Providers) -> Self {
        let mut spec = Self { account_id: AccountId::from(&raw.provider), ..Self::default() };
        spec.read_provider(providers);
        spec.read_addresses(raw);
        spec.criteria = raw.matching.criteria(Scope::Pool, &mut spec.problems);
        spec.cool_off_ms = cool_off_ms(raw.cool_off_seconds);
        // The Go operator's client writes an absent record set as one with empty fields.
        let wanted = raw.record_set.as_ref().filter(|raw| **raw != RawRecordSet::default());
        spec.record_set = wanted.map(|record_set| {
            let problems = &mut spec.problems;
            SetSpec::parse(record_set, &raw.provider, ObjectKind::Pool, providers, problems)
        });
        spec.read_minimum(raw.min_active);
        spec.read_reclaim(&raw.reclaim_policy);
        spec.grace = Grace::parse(&raw.grace, &mut spec.problems);
        let provider = &raw.provider;
        let limits = providers.get(provider).and_then(|known| known.firewalls.as_ref());
        spec.firewall = FirewallSpec::parse(raw.firewall.as_ref(), provider, limits, &mut spec.problems);
        spec.check = NodeCheck::parse(raw.node_check.as_ref(), &mut spec.problems);
        spec.labels = LabelMode::parse(raw.node_labels, spec.criteria.as_ref(), &mut spec.problems);
        spec.leave_out(&raw.too_large);
        spec
    }

    /// This spec, frozen as a whole because a newer one cannot be read.
    pub fn unreadable(&self, message: &str) -> Self {
        let mut spec = Self { problems: Vec::new(), ..self.clone() };
        spec.problem(Scope::Pool, "spec", format!("cannot be read: {message}"));
        spec
    }

    /// Leaves out the parts of which a field is over its bound.
    fn leave_out(&mut self, too_large: &[TooLarge]) {
        bounds::add_to(&mut self.problems, too_large, Scope::Size);
        let lies_in = |part: &str| bounds::lie_in(too_large, part);
        if lies_in("spec.match") {
            self.criteria = None;
        }
        if lies_in("spec.releasedIPs") {
            self.released.clear();
        }
        if lies_in("spec.firewall") {
            self.firewall = FirewallSpec::Unusable;
        }
    }

    /// True when a mistake stops the whole pool.
    pub fn is_frozen(&self) -> bool {
        self.problems.iter().any(|problem| matches!(problem.scope, Scope::Size | Scope::Pool))
    }

    /// Whether `spec.ips` names addresses beyond its bound.
    pub fn has_hidden_ips(&self) -> bool {
        self.problems.iter().any(|problem| problem.scope == Scope::Size && problem.field == "spec.ips")
    }

    /// True when a mistake stops the creation of addresses.
    pub fn may_create(&self) -> bool {
        let stops = |problem: &SpecProblem| problem.scope == Scope::Creation;
        !self.is_frozen() && !self.problems.iter().any(stops)
    }

    fn problem(&mut self, scope: Scope, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(SpecProblem { scope, field: field.into(), message: message.into() });
    }

    fn read_provider(&mut self, providers: &Providers) {
        let provider = &self.account_id.provider;
        self.machines = providers.get(provider).and_then(|known| known.machines);
        if providers.of_addresses().any(|usable| usable.name == provider) {
            return;
        }
        let usable = Providers::named(providers.of_addresses());
        let message = match (providers.get(provider), shown(provider).as_str()) {
            (Some(known), name) if known.machines.is_none() => {
                format!("provider {name:?} has no floating IPs; use one that has: {usable}")
            }
            (Some(known), name) => {
                format!("provider {name:?} has no token; set {} for the operator", known.token_variable)
            }
            (None, "") => format!("no provider is named; use one of: {usable}"),
            (None, name) => format!("unknown provider {name:?}; use one of: {usable}"),
        };
        self.problem(Scope::Pool, "spec.provider", message);
    }

    /// Parses `minActive`. The CRDs refuse a value out of bounds. If one appears anyway, only this feature is switched
    /// off.
    fn read_minimum(&mut self, raw: i64) {
        if (0..=MAX_DESIRED).contains(&raw) {
            self.min_active = usize::try_from(raw).ok().filter(|minimum| *minimum > 0);
        } else {
            let message =
                format!("{raw} is ignored; use a number from 1 to {MAX_DESIRED}, or 0 to ask for none");
            self.problem(Scope::Minimum, "spec.minActive", message);
        }
    }

    fn read_reclaim(&mut self, raw: &str) {
        self.reclaim = match raw {
            "" | "Retain" => ReclaimPolicy::Retain,
            "Delete" => ReclaimPolicy::Delete,
            other => {
                let message =
                    format!("unknown value {:?} counts as Retain; use Retain or Delete", shown(other));
                self.problem(Scope::Reclaim, "spec.reclaimPolicy", message);
                ReclaimPolicy::Retain
            }
        };
    }

    /// Notes the first mistakes in the entries of a list, and counts the others.
    fn entry_problems(&mut self, list: &str, mut wrong: Vec<(usize, String)>) {
        let more = wrong.split_off(MAX_REPORTED.min(wrong.len())).len();
        for (position, message) in wrong {
            self.problem(Scope::Entry, format!("{list}[{position}]"), message);
        }
        if more > 0 {
            self.problem(Scope::Entry, list, format!("{more} more entries have a mistake"));
        }
    }

    fn read_addresses(&mut self, raw: &RawPoolSpec) {
        let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
        for (position, text) in raw.ips.iter().enumerate() {
            match parse_address(text) {
                Ok(ip) if !seen.insert(ip) => {
                    wrong.push((position, format!("{ip} is listed twice; the first entry counts")));
                }
                // A decoder may keep further entries for those who look for an address in the whole list.
                Ok(ip) if self.ips.len() < MAX_IPS => self.ips.push(ip),
                Ok(_) => {}
                Err(message) => {
                    if self.bad_ips.len() < MAX_REPORTED {
                        self.bad_ips.insert(shown(text), message.clone());
                    }
                    wrong.push((position, message));
                }
            }
        }
        self.entry_problems("spec.ips", wrong);
        let mut wrong = Vec::new();
        for (position, text) in raw.released_ips.iter().enumerate() {
            match parse_address(text) {
                Ok(ip) => {
                    self.released.insert(ip);
                }
                Err(message) => wrong.push((position, message)),
            }
        }
        self.entry_problems("spec.releasedIPs", wrong);
        self.region = Some(region_slug(&raw.region)).filter(|region| !region.is_empty());
        match raw.desired_ips {
            desired if desired > MAX_DESIRED => {
                let message =
                    format!("{desired} is more than the operator supports; use at most {MAX_DESIRED}");
                self.problem(Scope::Creation, "spec.desiredIPs", message);
                self.desired = usize::try_from(MAX_DESIRED).ok();
            }
            desired => self.desired = usize::try_from(desired).ok().filter(|desired| *desired > 0),
        }
        match self.desired {
            Some(desired) if self.region.is_none() && desired > self.ips.len() => {
                let message =
                    "no region is named, so no address can be created; name the region of your nodes";
                self.problem(Scope::Creation, "spec.region", message);
            }
            None if raw.ips.is_empty() => {
                let message = "set spec.ips or spec.desiredIPs";
                self.problem(Scope::Pool, "spec.ips", message);
            }
            Some(_) | None => {}
        }
    }
}

/// A finite, non-negative number of seconds as milliseconds. Any other number means no cool-off.
fn cool_off_ms(seconds: f64) -> u64 {
    if seconds.is_finite() && seconds > 0.0 {
        let duration = std::time::Duration::from_secs_f64(seconds.min(MAX_COOL_OFF_SECONDS));
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    } else {
        0
    }
}

fn parse_address(text: &str) -> Result<Address, String> {
    let shown = shown(text);
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => Ok(ip.into()),
        Ok(IpAddr::V6(_)) => {
            Err(format!("{shown:?} is an IPv6 address; only IPv4 addresses can be assigned"))
        }
        Err(_) => Err(format!("{shown:?} is not an IPv4 address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Toleration;
    use crate::model::bounds::{Unit, bound_of};
    use crate::model::provider::examples::providers;

    fn raw() -> RawPoolSpec {
        RawPoolSpec {
            provider: "digitalocean".into(),
            ips: vec!["192.0.2.1".into()],
            ..RawPoolSpec::default()
        }
    }

    fn problems(raw: &RawPoolSpec) -> Vec<(Scope, String)> {
        PoolSpec::parse(raw, &providers(true)).problems.into_iter().map(|p| (p.scope, p.field)).collect()
    }

    #[test]
    fn a_plain_spec_has_no_problem() {
        let spec = PoolSpec::parse(&raw(), &providers(true));
        assert_eq!(spec.problems, []);
        assert_eq!(spec.desired, None);
        assert!(!spec.is_frozen() && spec.may_create());
    }

    #[test]
    fn each_mistake_reaches_as_far_as_the_contract_says() {
        let pool = |field: &str| vec![(Scope::Pool, field.to_owned())];
        assert_eq!(problems(&RawPoolSpec { provider: String::new(), ..raw() }), pool("spec.provider"));
        assert_eq!(problems(&RawPoolSpec { provider: "aws".into(), ..raw() }), pool("spec.provider"));
        assert_eq!(problems(&RawPoolSpec { provider: "cloudflare".into(), ..raw() }), pool("spec.provider"));
        assert_eq!(problems(&RawPoolSpec { ips: Vec::new(), ..raw() }), pool("spec.ips"));
        let matching = RawMatch { node_label: "a in".into(), ..RawMatch::default() };
        assert_eq!(problems(&RawPoolSpec { matching, ..raw() }), pool("spec.match.nodeLabel"));
        let matching = RawMatch { pod_label: "!".into(), ..RawMatch::default() };
        assert_eq!(problems(&RawPoolSpec { matching, ..raw() }), pool("spec.match.podLabel"));
        for pod_namespace in ["web/secrets?x=", "..", "Web", "a.b", "-a", "a b"].map(str::to_owned) {
            let matching = RawMatch { pod_namespace, ..RawMatch::default() };
            assert_eq!(problems(&RawPoolSpec { matching, ..raw() }), pool("spec.match.podNamespace"));
        }
        let creation = vec![(Scope::Creation, "spec.region".to_owned())];
        assert_eq!(problems(&RawPoolSpec { desired_ips: 2, ..raw() }), creation);
        // No region is needed if nothing is to be created.
        let listed = ["192.0.2.1", "192.0.2.2"].map(str::to_owned).to_vec();
        assert_eq!(problems(&RawPoolSpec { desired_ips: 2, ips: listed, ..raw() }), []);
        let ips =
            ["192.0.2.1", "nonsense", "2001:db8::1", "192.0.2.1", "192.0.2.2"].map(str::to_owned).to_vec();
        let spec = PoolSpec::parse(&RawPoolSpec { ips, ..raw() }, &providers(true));
        assert_eq!(spec.ips, ["192.0.2.1".parse::<Address>().unwrap(), "192.0.2.2".parse().unwrap()]);
        let fields: Vec<_> = spec.problems.iter().map(|p| (p.scope, p.field.as_str())).collect();
        assert_eq!(
            fields,
            [(Scope::Entry, "spec.ips[1]"), (Scope::Entry, "spec.ips[2]"), (Scope::Entry, "spec.ips[3]")]
        );
        assert!(!spec.is_frozen());
    }

    #[test]
    fn a_field_over_its_bound_stops_what_rests_on_it_and_says_field_bound_and_size() {
        let too_large = |field: &str| {
            let found = TooLarge { field: field.into(), size: 5_000, unit: Unit::Entries };
            let firewall = Some(RawFirewall::default());
            let released_ips = vec!["192.0.2.9".to_owned()];
            let raw = RawPoolSpec { too_large: vec![found], firewall, released_ips, ..raw() };
            PoolSpec::parse(&raw, &providers(true))
        };
        for (field, scope) in [
            ("spec.ips", Scope::Size),
            ("spec.match.tolerations", Scope::Size),
            ("spec.match.nodeLabel", Scope::Size),
            ("spec.match.podNamespace", Scope::Size),
            ("spec.provider", Scope::Size),
            ("spec.region", Scope::Creation),
            ("spec.releasedIPs", Scope::Entry),
            ("spec.dnsRecordSet.zone", Scope::RecordSet),
            ("spec.firewall.sources", Scope::Firewall),
            ("spec.reclaimPolicy", Scope::Reclaim),
        ] {
            let spec = too_large(field);
            let [problem] = spec.problems.as_slice() else { panic!("{:?}", spec.problems) };
            assert_eq!((problem.scope, problem.field.as_str()), (scope, field));
            let most = bound_of(field, Unit::Entries);
            assert_eq!(problem.message, format!("5000 entries are too many; use at most {most}"));
            assert_eq!(spec.is_frozen(), scope == Scope::Size, "{field}");
            assert_eq!(spec.criteria.is_none(), field.starts_with("spec.match"), "{field}");
            assert_eq!(spec.released.is_empty(), field == "spec.releasedIPs");
            assert_eq!(spec.firewall == FirewallSpec::Unusable, field == "spec.firewall.sources");
            assert_eq!(spec.has_hidden_ips(), field == "spec.ips");
        }
    }

    #[test]
    fn the_first_thousand_addresses_count_and_the_first_ten_mistakes_are_named() {
        let bad = (0..30).map(|number| format!("bad-{number}-{}", "x".repeat(100)));
        let good = (0..1_200_u16).map(|number| format!("198.18.{}.{}", number / 250, number % 250));
        let spec =
            PoolSpec::parse(&RawPoolSpec { ips: bad.chain(good).collect(), ..raw() }, &providers(true));
        assert_eq!((spec.ips.len(), spec.bad_ips.len(), spec.problems.len()), (1_000, 10, 11));
        assert!(spec.bad_ips.keys().all(|key| key.len() == 64));
        assert_eq!(spec.problems[10].to_string(), "spec.ips: 20 more entries have a mistake");
    }

    #[test]
    fn a_provider_without_its_token_is_told_apart_from_an_unknown_one() {
        let spec = PoolSpec::parse(&raw(), &providers(false));
        assert!(spec.problems[0].message.contains("DIGITALOCEAN_ACCESS_TOKEN"), "{:?}", spec.problems);
    }

    #[test]
    fn cool_off_takes_fractions_and_survives_any_number() {
        for (seconds, ms) in [
            (0.0, 0),
            (-1.0, 0),
            (f64::NAN, 0),
            (f64::INFINITY, 0),
            (0.25, 250),
            (20.0, 20_000),
            (1e300, 31_536_000_000),
        ] {
            assert_eq!(cool_off_ms(seconds), ms, "{seconds}");
        }
    }

    #[test]
    fn tolerations_are_never_an_error() {
        let odd =
            Toleration { operator: "Sometimes".into(), effect: "Whatever".into(), ..Toleration::default() };
        let matching = RawMatch { tolerations: vec![odd], ..RawMatch::default() };
        assert_eq!(problems(&RawPoolSpec { matching, ..raw() }), []);
    }
}
