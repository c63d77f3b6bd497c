//! The kind `FloatingIPPool`.

use crate::fields;
use crate::page::{Page, cell, code};
use flipop_core::addresses::pool::last_move::MoveOutcome;
use flipop_core::addresses::pool::status::IpState;

const KIND: &str = "FloatingIPPool";

pub(crate) fn render() -> String {
    let mut page = Page::new(
        KIND,
        "For authors of manifests: every field of a FloatingIPPool. A pool keeps the reserved IPs (formerly floating \
         IPs) of a DigitalOcean account on matching nodes, and can publish them in DNS.",
    );
    page.paragraph(
        "Examples are in [Listed and created addresses](../recipes/addresses.md) and [DNS at another \
         provider](../recipes/dns-elsewhere.md). How FLIPOP decides is in [Which nodes \
         match](../concepts/matching.md), [Who gets which address](../concepts/assignment.md), [Addresses that FLIPOP \
         buys](../concepts/creation.md) and [DNS records](../concepts/records.md).",
    );
    fields::names(&mut page, KIND);
    fields::fields(&mut page, KIND, "spec");
    mistakes(&mut page);
    fields::fields(&mut page, KIND, "status");
    page.heading(2, "States of an address");
    page.paragraph(
        "`status.ips.<address>.state` and the metric `flipop_floatingippoolcontroller_ip_state` have one of these \
         values:",
    );
    let states = IpState::ALL.iter().map(|state| [code(state.as_str()), cell(state.meaning())]);
    page.table(["state", "meaning"], states);
    page.heading(2, "Outcomes of a move");
    page.paragraph(
        "`status.lastMove.outcome` says what became of the last request to [move an address by \
         hand](../recipes/move-by-hand.md#to-a-node-of-your-choice):",
    );
    let outcomes = MoveOutcome::ALL.iter().map(|outcome| [code(outcome.as_str()), cell(outcome.meaning())]);
    page.table(["outcome", "meaning"], outcomes);
    fields::columns(&mut page, KIND);
    page.paragraph(
        "Ready and Reason are about the addresses alone. [Conditions](conditions.md) explains every reason.",
    );
    page.heading(2, "Sources");
    page.list([
        "[Label selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors) \
         and [taints and tolerations](https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/) \
         in the Kubernetes documentation",
        TTL,
    ]);
    page.end()
}

/// The sources for the bounds of TTLs.
pub(crate) const TTL: &str = "Bounds of a TTL: [Cloudflare](https://developers.cloudflare.com/dns/manage-dns-records/reference/ttl/). \
    The [API description](https://github.com/digitalocean/openapi) of DigitalOcean names none; the upper one is that of \
    DNS itself ([RFC 2181, section 8](https://www.rfc-editor.org/rfc/rfc2181#section-8)).";

fn mistakes(page: &mut Page) {
    page.heading(2, "Mistakes in a spec");
    page.paragraph(
        "A mistake stops only what depends on it. `status.error` and the condition `SpecValid` say what is wrong, and \
         clear when it is corrected.",
    );
    let rows = [
        (
            "Unknown `provider`, or one without a token; a selector that does not parse; a `podNamespace` that is not \
             the name of a namespace; neither `ips` nor `desiredIPs`",
            "The pool is frozen: existing assignments are kept, and no new ones are made.",
        ),
        (
            "No `region` where addresses have to be created; `desiredIPs` above 1,000",
            "No address is created.",
        ),
        ("A bad entry in `ips` or `releasedIPs`", "The entry is ignored."),
        ("A mistake in `dnsRecordSet`", "The records stay as they are."),
        ("A `minActive` outside its range", "The field is ignored."),
        ("A field of `grace` outside its range", "All of `grace` is ignored: nothing has a grace."),
    ];
    page.table(["mistake", "effect"], rows.map(|(mistake, effect)| [cell(mistake), cell(effect)]));
    page.paragraph(
        "If a Cloudflare zone is given by its id, FLIPOP learns its name later. A `recordName` that is not in the \
         zone is then reported in `status.error` and in the condition `RecordSetReady`. An [admission \
         warning](warnings.md) reports many of these mistakes when the object is applied.",
    );
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
