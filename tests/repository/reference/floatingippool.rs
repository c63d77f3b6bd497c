//! The kind `FloatingIPPool`.

use super::fields;
use super::page::{Page, cell, code};
use flipop::provider::descriptors;
use flipop_core::addresses::pool::manual_move::result::MoveOutcome;
use flipop_core::addresses::pool::spec::{PoolSpec, RawPoolSpec};
use flipop_core::addresses::pool::status::IpState;
use flipop_core::firewalls::spec::{RawFirewall, RawPort};
use flipop_core::model::RawNodeCheck;
use flipop_core::model::bounds::{BOUNDS, Bound, TEXT_BYTES};
use flipop_core::model::label_mode::RawNodeLabels;
use flipop_core::model::node_labels::LabelKey;
use flipop_core::model::provider::Providers;
use flipop_core::model::spec::{RawGrace, RawMatch, RawRecordSet, Scope};

const KIND: &str = "FloatingIPPool";

pub(crate) fn render() -> String {
    let mut page = Page::new(
        KIND,
        "For authors of manifests: every field of a FloatingIPPool. A pool keeps the reserved IPs (formerly floating \
         IPs) of a DigitalOcean account on matching nodes, and can publish them in DNS.",
    );
    page.paragraph(
        "Examples are in [Listed and created addresses](../concepts/creation.md) and [DNS at another \
         provider](../recipes/dns-elsewhere.md).",
    );
    fields::names(&mut page, KIND);
    fields::fields(&mut page, KIND, "spec");
    mistakes(&mut page);
    bounds(&mut page);
    fields::fields(&mut page, KIND, "status");
    page.heading(2, "States of an address");
    page.paragraph(
        "`status.ips.<address>.state` and the metric `flipop_floatingippoolcontroller_ip_state` have these values:",
    );
    let states = IpState::ALL.iter().map(|state| [code(state.as_str()), cell(state.meaning())]);
    page.table(["state", "meaning"], states);
    page.heading(2, "Outcomes of a move");
    page.paragraph(
        "`status.lastMove.outcome` answers the last request to [move an address by \
         hand](../recipes/move-by-hand.md):",
    );
    let outcomes = MoveOutcome::ALL.iter().map(|outcome| [code(outcome.as_str()), cell(outcome.meaning())]);
    page.table(["outcome", "meaning"], outcomes);
    fields::columns(&mut page, KIND);
    page.paragraph("[Conditions](conditions.md) explains every reason.");
    page.end()
}

fn mistakes(page: &mut Page) {
    page.heading(2, "Mistakes in a spec");
    page.paragraph(
        "A mistake stops only what depends on it. `status.error` and the condition `SpecValid` name it.",
    );
    let providers = Providers::new(descriptors().map(|provider| (provider, true)), false);
    let rows = examples().map(|(mistake, spec)| {
        let problems = PoolSpec::parse(&spec, &providers).problems;
        let [problem] = problems.as_slice() else { panic!("{mistake}: {problems:?}") };
        [cell(mistake), cell(effect(problem.scope)), code(&problem.to_string())]
    });
    page.table(["mistake", "effect", "message, for example"], rows);
    page.paragraph(
        "The API server refuses a value outside a range that is *enforced*, and entries of another form. FLIPOP \
         reads such a value only in an object that was stored under other CRDs.",
    );
    page.paragraph(
        "An [admission warning](warnings.md) reports many of these mistakes when the object is applied.",
    );
}

fn bounds(page: &mut Page) {
    page.heading(2, "Bounds");
    page.paragraph("These bounds keep an object from taking the memory that the others need:");
    let rows = BOUNDS.iter().map(|Bound { field, most, unit, why }| {
        [code(field), cell(&format!("{most} {}", unit.noun())), cell(why)]
    });
    page.table(["field", "at most", "because"], rows);
    page.paragraph(&format!(
        "Any other text has at most {TEXT_BYTES} bytes, the length of a DNS name. A NodeDNSRecordSet has the same bounds."
    ));
    page.list([
        "Over a bound of `ips` or `match`, or with too long a `provider`, the pool is frozen: existing assignments \
         are kept, and no new ones are made. The pool owns the first 1,000 valid addresses of `ips` and those that \
         its status names.",
        "Over a bound of `dnsRecordSet`, and in a NodeDNSRecordSet over any bound, the records stay as they are, and so \
         does the claim to their name.",
        "Over a bound of `releasedIPs` no address is released. Over a bound of `firewall` the open ports stay open.",
        "FLIPOP deletes or adopts an address only if no entry of any pool names it, including those beyond the \
         bound.",
        "A status lists the first 500 nodes, the first 10 bad entries of `ips`, and 1,024 bytes of a text. \
         FLIPOP's memory is never cut.",
    ]);
}

/// The effect of a mistake with this scope.
fn effect(scope: Scope) -> &'static str {
    match scope {
        Scope::Size | Scope::Pool => {
            "The pool is frozen: existing assignments are kept, and no new ones are made."
        }
        Scope::Creation => "No address is created.",
        Scope::Entry => "The entry is ignored.",
        Scope::RecordSet => "The records stay as they are.",
        Scope::Minimum => "The field is ignored.",
        Scope::Grace => "All of `grace` is ignored.",
        Scope::Firewall => {
            "A bad entry is ignored. If no valid port or no valid source is left, the ports stay as they are."
        }
        Scope::Labels => "All of `nodeLabels` is ignored: the pool sets no labels.",
        Scope::Reclaim => "The field counts as `Retain`.",
        Scope::NodeCheck => "All of `nodeCheck` is ignored: no node is checked for the pool.",
    }
}

/// A spec without mistakes.
fn right() -> RawPoolSpec {
    RawPoolSpec {
        provider: "digitalocean".into(),
        ips: vec!["203.0.113.10".into()],
        ..RawPoolSpec::default()
    }
}

/// Kinds of mistakes, each with a spec that has one of them and no other.
fn examples() -> [(&'static str, RawPoolSpec); 10] {
    let ips = ["203.0.113.10", "2001:db8::10"].map(str::to_owned).to_vec();
    let record_set = Some(RawRecordSet { zone: "example.com".into(), ..RawRecordSet::default() });
    let grace = RawGrace { node_seconds: 7_200, ..RawGrace::default() };
    let port = RawPort { protocol: "tcp".into(), port: "443".into() };
    let firewall = Some(RawFirewall { ports: vec![port], sources: Vec::new() });
    let node_label = format!("{}=true", LabelKey::Active.as_str());
    let matching = RawMatch { node_label, ..RawMatch::default() };
    let node_labels = RawNodeLabels { enabled: true, legacy: false };
    let node_check = Some(RawNodeCheck { failure_threshold: Some(1), ..RawNodeCheck::default() });
    [
        (
            "Unknown `provider`, or one without a token; a selector that does not parse; a `podNamespace` that is not \
             the name of a namespace; neither `ips` nor `desiredIPs`",
            RawPoolSpec { provider: "aws".into(), ..right() },
        ),
        (
            "No `region` where addresses have to be created; `desiredIPs` above 1,000",
            RawPoolSpec { desired_ips: 2, ..right() },
        ),
        ("A bad entry in `ips` or `releasedIPs`", RawPoolSpec { ips, ..right() }),
        ("A mistake in `dnsRecordSet`", RawPoolSpec { record_set, ..right() }),
        ("A `minActive` outside its range", RawPoolSpec { min_active: 2_000, ..right() }),
        ("A field of `grace` outside its range", RawPoolSpec { grace, ..right() }),
        (
            "A bad entry in `firewall.ports` or `firewall.sources`; ports without `firewall.sources`",
            RawPoolSpec { firewall, ..right() },
        ),
        (
            "`nodeLabels` is enabled, and `match.nodeLabel` names a label of `nodeLabels`",
            RawPoolSpec { node_labels, matching, ..right() },
        ),
        (
            "A `reclaimPolicy` other than `Retain` and `Delete`",
            RawPoolSpec { reclaim_policy: "delete".into(), ..right() },
        ),
        ("A field of `nodeCheck` outside its range", RawPoolSpec { node_check, ..right() }),
    ]
}

#[test]
fn the_description_of_an_outcome_names_the_outcomes() {
    let schema = &fields::definition(KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let outcome = &schema["properties"]["status"]["properties"]["lastMove"]["properties"]["outcome"];
    let words: Vec<String> = MoveOutcome::ALL.iter().map(|outcome| code(outcome.as_str())).collect();
    assert_eq!(outcome["description"], format!("Outcome of the request. Values: {}.", words.join(", ")));
}

#[test]
fn the_description_of_a_state_names_the_states() {
    let schema = &fields::definition(KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let state =
        &schema["properties"]["status"]["properties"]["ips"]["additionalProperties"]["properties"]["state"];
    let words: Vec<String> = IpState::ALL.iter().map(|state| code(state.as_str())).collect();
    let told = format!("State of the address. Values: {}.", words.join(", "));
    assert_eq!(state["description"], told);
}
