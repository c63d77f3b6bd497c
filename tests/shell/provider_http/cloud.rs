//! The `DigitalOcean` client against the simulated `DigitalOcean`.

use super::{Leadership, TOKEN, account, client, ip};
use flipop::provider::digitalocean::{DESCRIPTOR, DigitalOcean, droplet};
use flipop::provider::{Account, ActionStatus, CallError, IpProvider};
use flipop_cloud::{
    Cloud, CloudServer, Fault, Garble, Injection, Op, Options, Provider, Refusal, Target, When,
};
use flipop_core::mechanism::{Budget, Purpose};
use flipop_core::model::{ActionId, Address, FaultKind};
use std::collections::BTreeSet;

/// A cloud with our token, and a client for it.
async fn start(scopes: &[&str]) -> (CloudServer, DigitalOcean, Leadership) {
    let server = CloudServer::start(Options { seed: 7, epoch_ms: None }).await.unwrap();
    server.cloud().add_token(Provider::DigitalOcean, "ours", TOKEN, scopes);
    let client = client(&server.digitalocean_url());
    (server, client, Leadership::held())
}

fn inject(cloud: &Cloud, op: Op, fault: Fault) {
    let _id = cloud.inject(Injection::once(Target::op(op), fault));
}

#[tokio::test]
async fn an_address_is_bought_assigned_moved_and_taken_off() {
    let (server, client, leadership) = start(&["*"]).await;
    let (cloud, context, permit) = (server.cloud(), account(), &leadership.permit);
    cloud.tune(|knobs| knobs.action_ms = 200);
    let (a, b) = (cloud.add_droplet("a", "nyc3"), cloud.add_droplet("b", "nyc3"));

    let ip = client.create_reserved_ip(&context, permit, "nyc3").await.unwrap();
    let list = client.list_reserved_ips(&context).await.unwrap();
    assert_eq!(
        (list.ips[&ip].region.as_str(), list.ips[&ip].machine.clone(), list.ips[&ip].locked),
        ("nyc3", None, false)
    );

    let action = client.assign(&context, permit, ip, droplet(a)).await.unwrap();
    assert_eq!(action.status, ActionStatus::InProgress);
    assert!(client.get_reserved_ip(&context, ip).await.unwrap().locked);
    let again = client.assign(&context, permit, ip, droplet(b)).await;
    let Err(CallError::Fault(pending)) = again else { panic!("{again:?}") };
    assert_eq!((pending.kind, pending.outcome_unknown), (FaultKind::InProgress, false));
    assert_eq!(follow(&client, ip, action.id).await, ActionStatus::Completed);
    assert_eq!(client.get_reserved_ip(&context, ip).await.unwrap().machine, Some(droplet(a)));

    let action = client.assign(&context, permit, ip, droplet(b)).await.unwrap();
    assert_eq!(follow(&client, ip, action.id).await, ActionStatus::Completed);
    assert_eq!(client.list_reserved_ips(&context).await.unwrap().ips[&ip].machine, Some(droplet(b)));

    let action = client.unassign(&context, permit, ip).await.unwrap();
    assert_eq!(follow(&client, ip, action.id).await, ActionStatus::Completed);
    assert_eq!(client.get_reserved_ip(&context, ip).await.unwrap().machine, None);
    server.stop().await;
}

/// Polls an action to its end.
async fn follow(client: &DigitalOcean, ip: Address, action: ActionId) -> ActionStatus {
    for _ in 0..200 {
        let status = client.get_action(&account(), ip, action).await.unwrap().status;
        if status != ActionStatus::InProgress {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the action never ended")
}

#[tokio::test]
async fn each_refusal_of_the_cloud_has_its_kind() {
    let (server, client, leadership) = start(&["*"]).await;
    let (cloud, context, permit) = (server.cloud(), account(), &leadership.permit);
    let droplet = droplet(cloud.add_droplet("a", "nyc3"));
    let ip = cloud.add_ip(None, "nyc3");
    for (refusal, kind) in [
        (Refusal::PendingEventOnIp, FaultKind::InProgress),
        (Refusal::PendingEventOnDroplet, FaultKind::InProgress),
        (Refusal::NodeInUse, FaultKind::NodeInUse),
        (Refusal::WrongDatacenter, FaultKind::Invalid),
        (Refusal::NotFound, FaultKind::NotFound),
        (Refusal::Unauthorized, FaultKind::Unauthorized),
        (Refusal::Forbidden, FaultKind::Unauthorized),
        (Refusal::Status(412, "no".to_owned()), FaultKind::Permanent),
        (Refusal::Status(503, "no".to_owned()), FaultKind::Transient),
    ] {
        inject(cloud, Op::AssignIp, Fault::Refuse(refusal.clone()));
        let result = client.assign(&context, permit, ip.into(), droplet.clone()).await;
        let Err(CallError::Fault(fault)) = result else { panic!("{refusal:?}: {result:?}") };
        assert_eq!((fault.kind, fault.outcome_unknown), (kind, kind == FaultKind::Transient), "{refusal:?}");
    }
    cloud.tune(|knobs| knobs.reserved_ip_quota = 1);
    let result = client.create_reserved_ip(&context, permit, "nyc3").await;
    let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
    assert_eq!(fault.kind, FaultKind::Quota);
    cloud.tune(|knobs| knobs.reserved_ip_quota = 50);
    let result = client.create_reserved_ip(&context, permit, "atlantis1").await;
    let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
    assert_eq!(fault.kind, FaultKind::Invalid);
    let fault = client.get_reserved_ip(&context, super::ip("45.55.96.47").into()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn a_token_without_droplet_read_shows_no_droplet_and_fails_the_proof() {
    let (server, client, _leadership) = start(&["reserved_ip:*"]).await;
    let cloud = server.cloud();
    let droplet = cloud.add_droplet("a", "nyc3");
    let ip = cloud.add_ip(None, "nyc3");
    cloud.move_ip(ip, Some(droplet)).unwrap();
    assert_eq!(client.list_reserved_ips(&account()).await.unwrap().ips[&ip.into()].machine, None);
    assert_eq!(client.prove_machine_read(&account()).await, Ok(false));
    cloud.revoke_token("ours", true);
    let fault = client.prove_machine_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized);
    server.stop().await;
}

#[tokio::test]
async fn a_droplet_that_is_off_one_that_is_gone_and_a_missing_scope_are_told_apart() {
    let (server, client, _leadership) = start(&["droplet:read"]).await;
    let cloud = server.cloud();
    let id = cloud.add_droplet("a", "nyc3");
    let (context, machine) = (account(), droplet(id));
    assert_eq!(client.is_switched_off(&context, &machine).await, Ok(false));
    cloud.power_droplet(id, false);
    assert_eq!(client.is_switched_off(&context, &machine).await, Ok(true));
    cloud.destroy_droplet(id);
    let gone = client.is_switched_off(&context, &machine).await.unwrap_err();
    assert_eq!(gone.kind, FaultKind::NotFound);
    server.stop().await;
    let (server, client, _leadership) = start(&["reserved_ip:*"]).await;
    let id = server.cloud().add_droplet("a", "nyc3");
    let hidden = client.is_switched_off(&context, &droplet(id)).await.unwrap_err();
    assert_eq!(hidden.kind, FaultKind::Unauthorized);
    server.stop().await;
}

#[tokio::test]
async fn a_purchase_whose_answer_is_lost_is_unknown_and_never_repeated() {
    let (server, client, leadership) = start(&["*"]).await;
    let cloud = server.cloud();
    let spoilt = [
        (Fault::Reset(When::Before), 0),
        (Fault::Reset(When::After), 1),
        (Fault::Garble(Garble::MalformedJson), 2),
        (Fault::Garble(Garble::Html), 3),
        (Fault::Garble(Garble::Truncated), 4),
        (Fault::Garble(Garble::Empty), 5),
        (Fault::Garble(Garble::Null), 6),
        (Fault::Garble(Garble::Oversized(5 << 20)), 7),
    ];
    for (fault, bought) in spoilt {
        inject(cloud, Op::CreateReservedIp, fault.clone());
        let result = client.create_reserved_ip(&account(), &leadership.permit, "nyc3").await;
        let Err(CallError::Fault(found)) = result else { panic!("{fault}: {result:?}") };
        assert_eq!((found.kind, found.outcome_unknown), (FaultKind::Transient, true), "{fault}");
        assert_eq!(cloud.ips().len(), bought, "{fault}");
    }
    inject(cloud, Op::CreateReservedIp, Fault::Garble(Garble::UnknownFields));
    let known = client.create_reserved_ip(&account(), &leadership.permit, "nyc3").await.unwrap();
    assert!(cloud.ip(known.as_v4().unwrap()).is_some());
    server.stop().await;
}

#[tokio::test]
async fn neither_a_redirect_nor_a_foreign_link_leads_into_the_trap() {
    let (server, client, leadership) = start(&["*"]).await;
    let cloud = server.cloud();
    for _ in 0..201 {
        cloud.add_ip(None, "nyc3");
    }
    inject(cloud, Op::ListReservedIps, Fault::ForeignNext { base: server.trap_url() });
    assert_eq!(client.list_reserved_ips(&account()).await.unwrap().ips.len(), 201);
    inject(cloud, Op::ListReservedIps, Fault::redirect(307, &server.trap_url()));
    assert_eq!(client.list_reserved_ips(&account()).await.unwrap_err().kind, FaultKind::Permanent);
    inject(cloud, Op::CreateReservedIp, Fault::redirect(308, &server.trap_url()));
    client.create_reserved_ip(&account(), &leadership.permit, "nyc3").await.unwrap_err();
    assert_eq!(server.trapped(), []);
    server.stop().await;
}

#[tokio::test]
async fn lists_at_the_edges_of_a_page_are_whole() {
    let (server, client, _leadership) = start(&["*"]).await;
    let cloud = server.cloud();
    let mut there = 0;
    for count in [0, 1, 199, 200, 201, 400] {
        while there < count {
            cloud.add_ip(None, "nyc3");
            there += 1;
        }
        let before = cloud.count(Provider::DigitalOcean, Op::ListReservedIps);
        let list = client.list_reserved_ips(&account()).await.unwrap();
        let held: BTreeSet<Address> = cloud.ips().iter().map(|view| view.ip.into()).collect();
        assert!(list.ips.keys().eq(&held), "{count}: {} listed, {} held", list.ips.len(), held.len());
        let pages = cloud.count(Provider::DigitalOcean, Op::ListReservedIps) - before;
        assert_eq!(pages, u64::try_from(count).unwrap().div_ceil(200).max(1), "{count}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_used_up_quota_silences_the_budget_until_its_reset() {
    let (server, client, _leadership) = start(&["*"]).await;
    let (cloud, context) = (server.cloud(), account());
    let mut budget = Budget::new(DESCRIPTOR.limits);
    let clock = flipop::clock::Clock::system();
    cloud.exhaust(Provider::DigitalOcean, "ours", 1);
    budget.sent(Purpose::Poll, clock.now());
    client.list_reserved_ips(&context).await.unwrap();
    budget.observe(clock.now(), &client.api().rate().borrow());
    assert_eq!(budget.remaining(), Some(0));
    let again = budget.admit(Purpose::Assign, clock.now()).unwrap_err();
    let wait = again.millis_since(clock.now());
    assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
    let fault = client.list_reserved_ips(&context).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Throttled);
    server.stop().await;
}

#[tokio::test]
async fn a_throttled_token_is_blocked_for_as_long_as_it_is_told() {
    let (server, client, _leadership) = start(&["*"]).await;
    let clock = flipop::clock::Clock::system();
    inject(server.cloud(), Op::GetReservedIp, Fault::Throttle { retry_after_s: Some(17) });
    let before = clock.now();
    let fault = client.get_reserved_ip(&account(), ip("45.55.96.47").into()).await.unwrap_err();
    assert_eq!((fault.kind, fault.retry_after_ms), (FaultKind::Throttled, Some(17_000)));
    let mut budget = Budget::new(DESCRIPTOR.limits);
    budget.observe(clock.now(), &client.api().rate().borrow());
    let again = budget.admit(Purpose::Create, clock.now()).unwrap_err();
    assert!(again >= before.plus_millis(17_000), "{again:?}");
    server.stop().await;
}

#[tokio::test]
async fn as_many_addresses_as_the_budget_admits_at_once_are_sold() {
    let (server, client, leadership) = start(&["*"]).await;
    let clock = flipop::clock::Clock::system();
    let mut budget = Budget::new(DESCRIPTOR.limits);
    let mut bought = 0;
    while budget.admit(Purpose::Create, clock.now()).is_ok() {
        budget.sent(Purpose::Create, clock.now());
        client.create_reserved_ip(&account(), &leadership.permit, "nyc3").await.unwrap();
        bought += 1;
    }
    assert_eq!(bought, 12);
    let Err(CallError::Fault(fault)) =
        client.create_reserved_ip(&account(), &leadership.permit, "nyc3").await
    else {
        panic!("one more is refused");
    };
    assert_eq!(fault.kind, FaultKind::Throttled);
    server.stop().await;
}
