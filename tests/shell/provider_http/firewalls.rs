//! Firewalls: the `DigitalOcean` client against the simulated `DigitalOcean`.

use super::{Leadership, TOKEN, account, client};
use flipop::provider::CallError;
use flipop::provider::digitalocean::{DigitalOcean, droplet};
use flipop::provider::{FirewallProvider, NewFirewall};
use flipop_cloud::{CloudServer, Fault, Injection, Op, Options, Provider, Refusal, Target, When};
use flipop_core::firewalls::action::Change;
use flipop_core::firewalls::facts::{Direction, Rule, Targets};
use flipop_core::model::FaultKind;
use std::collections::BTreeSet;

const ALL: [&str; 6] =
    ["firewall:read", "firewall:create", "firewall:update", "firewall:delete", "droplet:read", "tag:read"];

/// A cloud with our token, and a client of it.
async fn start(scopes: &[&str]) -> (CloudServer, DigitalOcean, Leadership) {
    let server = CloudServer::start(Options { seed: 7, epoch_ms: None }).await.unwrap();
    server.cloud().add_token(Provider::DigitalOcean, "ours", TOKEN, scopes);
    let client = client(&server.digitalocean_url());
    (server, client, Leadership::held())
}

fn rule(protocol: &str, ports: &str) -> Rule {
    Rule {
        denies: false,
        direction: Direction::Inbound,
        protocol: protocol.to_owned(),
        ports: ports.to_owned(),
        targets: Targets { addresses: ["0.0.0.0/0", "::/0"].map(str::to_owned).into(), ..Targets::default() },
    }
}

fn new(name: &str, droplets: &[u64]) -> NewFirewall {
    NewFirewall {
        name: name.to_owned(),
        rules: [rule("tcp", "443"), rule("icmp", "0")].into(),
        machines: droplets.iter().map(|id| droplet(*id)).collect(),
    }
}

#[tokio::test]
async fn a_firewall_is_made_filled_changed_and_deleted_with_the_scopes_that_are_documented() {
    let (server, client, leadership) = start(&ALL).await;
    let (cloud, context, permit) = (server.cloud(), account(), &leadership.permit);
    cloud.tune(|knobs| knobs.firewall_ms = 600_000);
    let (a, b) = (cloud.add_droplet("a", "nyc3"), cloud.add_droplet("b", "nyc3"));
    let base = cloud.add_firewall("base", &[a], &["k8s"]).unwrap();
    let before = cloud.firewalls()[0].whole.clone();
    let id = client.create_firewall(&context, permit, &new("flipop-0123abcd-1", &[a])).await.unwrap();
    for change in [
        Change::AddMembers(vec![droplet(b)]),
        Change::AddRules(vec![rule("udp", "30000-30100")]),
        Change::RemoveRules(vec![rule("tcp", "443"), rule("icmp", "0")]),
        Change::RemoveMembers(vec![droplet(a)]),
    ] {
        client.change_firewall(&context, permit, &id, &change).await.unwrap();
    }
    let sight = client.look(&context, true).await.unwrap();
    assert_eq!(sight.missing, BTreeSet::new());
    let machines = sight.machines.unwrap();
    assert_eq!(machines[&droplet(a)], ["k8s", "k8s:worker"].map(str::to_owned).into());
    let [foreign, ours] = sight.firewalls.as_slice() else { panic!("{:?}", sight.firewalls) };
    let (foreign, ours) = if foreign.id == base { (foreign, ours) } else { (ours, foreign) };
    assert_eq!((&foreign.machines, &foreign.tags), (&[droplet(a)].into(), &["k8s".to_owned()].into()));
    assert!(foreign.rules.iter().any(|rule| rule.direction == Direction::Outbound));
    assert_eq!((&ours.machines, &ours.rules), (&[droplet(b)].into(), &[rule("udp", "30000-30100")].into()));
    assert_eq!(ours.pending, [(droplet(a), true), (droplet(b), false)].into());
    assert!(client.has_firewall(&context, &id).await.unwrap());
    for _ in 0..2 {
        client.change_firewall(&context, permit, &id, &Change::Delete).await.unwrap();
    }
    assert!(!client.has_firewall(&context, &id).await.unwrap());
    assert_eq!(cloud.firewalls().iter().map(|wall| wall.whole.clone()).collect::<Vec<_>>(), [before]);
    assert_eq!(cloud.count(Provider::DigitalOcean, Op::PutFirewall), 0);
    server.stop().await;
}

#[tokio::test]
async fn a_denial_is_told_apart_from_a_permission_and_removed_alone() {
    let (server, client, leadership) = start(&ALL).await;
    let (cloud, context) = (server.cloud(), account());
    let id =
        client.create_firewall(&context, &leadership.permit, &new("flipop-0123abcd-1", &[])).await.unwrap();
    assert!(cloud.deny_port(&id, "tcp", "443", "0.0.0.0/0") && cloud.deny_port(&id, "icmp", "0", "::/0"));
    let rules = client.look(&context, false).await.unwrap().firewalls.remove(0).rules;
    let denied: Vec<Rule> = rules.iter().filter(|rule| rule.denies).cloned().collect();
    assert_eq!((denied.len(), rules.len()), (2, 4));
    client.change_firewall(&context, &leadership.permit, &id, &Change::RemoveRules(denied)).await.unwrap();
    let rules = client.look(&context, false).await.unwrap().firewalls.remove(0).rules;
    assert_eq!(rules, [rule("tcp", "443"), rule("icmp", "0")].into());
    server.stop().await;
}

#[tokio::test]
async fn what_a_token_may_not_read_is_named_and_a_shown_tag_is_proof_enough() {
    for (missing, tagged, right) in [
        ("tag:read", true, vec!["tag:read"]),
        ("tag:read", false, vec!["tag:read"]),
        ("droplet:read", true, vec!["droplet:read"]),
        ("firewall:delete", true, vec![]),
        ("firewall:delete", false, vec![]),
    ] {
        let scopes: Vec<&str> = ALL.into_iter().filter(|scope| *scope != missing).collect();
        let (server, client, _leadership) = start(&scopes).await;
        let cloud = server.cloud();
        let id = cloud.add_droplet("a", "nyc3");
        if tagged {
            cloud.add_firewall("base", &[], &["k8s"]).unwrap();
        } else {
            cloud.tag(id, &[]);
        }
        let sight = client.look(&account(), true).await.unwrap();
        assert_eq!(sight.missing, right.into_iter().collect(), "{missing} {tagged}");
        let asked = cloud.count(Provider::DigitalOcean, Op::ListTags);
        let shows = tagged && missing != "tag:read";
        assert_eq!(asked, u64::from(!shows), "{missing} {tagged}");
        assert_eq!(client.look(&account(), false).await.unwrap().machines, None);
        server.stop().await;
    }
    let (server, client, _leadership) = start(&["droplet:read"]).await;
    let fault = client.look(&account(), true).await.unwrap_err();
    assert!(fault.kind == FaultKind::Unauthorized && fault.message.contains("firewall:read"), "{fault}");
    server.stop().await;
}

#[tokio::test]
async fn refusals_and_lost_answers_have_their_kinds() {
    let (server, client, leadership) = start(&["*"]).await;
    let (cloud, context, permit) = (server.cloud(), account(), &leadership.permit);
    client.create_firewall(&context, permit, &new("flipop-0123abcd-1", &[])).await.unwrap();
    let twice = client.create_firewall(&context, permit, &new("flipop-0123abcd-1", &[])).await;
    let Err(CallError::Fault(fault)) = twice else { panic!("{twice:?}") };
    assert_eq!(fault.kind, FaultKind::InProgress, "it is found by its name");
    let gone = client.create_firewall(&context, permit, &new("flipop-0123abcd-2", &[1])).await;
    let Err(CallError::Fault(fault)) = gone else { panic!("{gone:?}") };
    assert_eq!((fault.kind, fault.outcome_unknown), (FaultKind::Invalid, false));
    for (fault, kind, unknown) in [
        (Fault::Refuse(Refusal::Status(422, "firewall limit reached".to_owned())), FaultKind::Quota, false),
        (Fault::Refuse(Refusal::Forbidden), FaultKind::Unauthorized, false),
        (Fault::Reset(When::After), FaultKind::Transient, true),
    ] {
        let _id = cloud.inject(Injection::once(Target::op(Op::CreateFirewall), fault));
        let result = client.create_firewall(&context, permit, &new("flipop-0123abcd-3", &[])).await;
        let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
        assert_eq!((fault.kind, fault.outcome_unknown), (kind, unknown), "{fault}");
    }
    server.stop().await;
}

#[tokio::test]
async fn lists_of_several_pages_are_read_whole() {
    let (server, client, _leadership) = start(&["*"]).await;
    let cloud = server.cloud();
    for n in 0..201 {
        let _id = cloud.add_droplet(&format!("d{n}"), "nyc3");
        cloud.add_firewall(&format!("wall-{n}"), &[], &[]).unwrap();
    }
    let sight = client.look(&account(), true).await.unwrap();
    assert_eq!((sight.firewalls.len(), sight.machines.unwrap().len()), (201, 201));
    assert_eq!(cloud.count(Provider::DigitalOcean, Op::ListFirewalls), 2);
    server.stop().await;
}
