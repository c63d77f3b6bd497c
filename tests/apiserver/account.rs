//! The account at the provider: its size, its token, and where that token is sent.

use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, plain_spec, same};
use flipop_cloud::{Fault, Injection, Op, Provider, Target};
use flipop_envtest::operator::TOKEN;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// The time in which changes by others are noticed: 60 s, and some margin.
const NOTICED: Duration = Duration::from_secs(70);

/// A token that is replaced in its file is in use within this time.
const TAKEN_UP: Duration = Duration::from_mins(1);

/// A refused call is repeated as soon as there is another token, before its minute is over.
const SENT_AGAIN: Duration = Duration::from_secs(20);

/// Sizes of accounts around the page length of 200.
const SIZES: [usize; 4] = [1, 199, 200, 201];

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        an_account_without_addresses_and_one_of_several_pages_are_read_whole,
        neither_a_redirect_nor_a_foreign_next_page_is_followed,
        a_token_that_was_replaced_in_its_file_is_taken_up_without_a_restart,
        an_address_that_is_deleted_by_hand_is_an_error_of_its_own_and_is_not_replaced,
    ]
}

async fn an_account_without_addresses_and_one_of_several_pages_are_read_whole(world: &mut World) -> Outcome {
    world.node("alpha").await?;
    world.plain_pool("none", &[99]).await?;
    let mut operator = world.operator().await?;
    world
        .pool_shows("none", "the address is not there", NOTICED, |pool| same(pool.state(99), "error"))
        .await?;
    assert_eq!(world.mutating_calls(0), []);
    for (number, size) in SIZES.into_iter().enumerate() {
        assert!(operator.terminate().await?.success());
        let last = 10 + u8::try_from(number)?;
        while world.cloud().ips().len() + 1 < size {
            world.cloud().add_ip(None, "nyc3");
        }
        // Our address is the last one on the last page.
        world.reserve(&[last]);
        let (pool, node) = (format!("p{number}"), format!("n{number}"));
        let droplet = world.node_with(&node, |new| new.label("only", &pool)).await?;
        let mut spec = plain_spec(&[last]);
        spec["match"]["nodeLabel"] = json!(format!("only={pool}"));
        world.pool(&pool, &spec).await?;
        let calls = world.cloud().next_call();
        operator = world.operator().await?;
        world.pool_settles(&pool, &[(last, &node)]).await?;
        assert_eq!(world.assigns(calls), [(ip(last), droplet)], "with {size} addresses");
        let mut pages: Vec<String> = world
            .cloud()
            .calls(calls)
            .into_iter()
            .filter(|call| call.op == Op::ListReservedIps)
            .map(|call| call.query)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), size.div_ceil(200), "with {size} addresses: {pages:?}");
    }
    for (number, _) in SIZES.iter().enumerate() {
        let last = 10 + u8::try_from(number)?;
        world.pool_settles(&format!("p{number}"), &[(last, &format!("n{number}"))]).await?;
    }
    Ok(())
}

async fn neither_a_redirect_nor_a_foreign_next_page_is_followed(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    while world.cloud().ips().len() < 201 {
        world.cloud().add_ip(None, "nyc3");
    }
    world.node("alpha").await?;
    world.node("beta").await?;
    let trap = world.trap_url();
    let base = trap.trim_end_matches('/').to_owned();
    let action = format!("{trap}v2/reserved_ips/{}/actions", ip(10));
    let assign = Target::op(Op::AssignIp);
    let faults = [
        (Target::op(Op::ListReservedIps), Fault::ForeignNext { base }),
        (assign.clone().containing("203.0.113.10"), Fault::redirect(307, &action)),
        (assign.containing("203.0.113.11"), Fault::redirect(302, &trap)),
    ];
    let injected = faults.map(|(target, fault)| world.cloud().inject(Injection::once(target, fault)));
    let operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    eventually("each fault has struck", SOON, || async {
        let left = injected.iter().filter(|id| world.cloud().injected(**id)).count();
        same(left, 0).map_err(Failure::new)
    })
    .await?;
    world
        .pool_shows("p", "the redirects are told", SOON, |pool| {
            let told = |last: u8| pool.of_ip(&ip(last).to_string(), "error").contains("redirect");
            same((told(10), told(11)), (true, true))
        })
        .await?;
    assert_eq!(world.trapped(), [], "nothing is sent to another host, the token least of all");
    assert!(!operator.log().contains(TOKEN));
    Ok(())
}

async fn a_token_that_was_replaced_in_its_file_is_taken_up_without_a_restart(world: &mut World) -> Outcome {
    const FIRST: &str = "envtest-first-token";
    const SECOND: &str = "envtest-second-token";
    for (name, token) in [("first", FIRST), ("second", SECOND)] {
        world.cloud().add_token(Provider::DigitalOcean, name, token, &["*"]);
    }
    let file = world.server.folder().join("digitalocean-token");
    fs::write(&file, FIRST)?;
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    world.plain_pool("p", &[10]).await?;
    let launch = world.launch().await?.without_env("DIGITALOCEAN_ACCESS_TOKEN");
    let launch = launch.env("DIGITALOCEAN_ACCESS_TOKEN_FILE", &file.display().to_string());
    let mut operator = world.start(&launch).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.cloud().revoke_token("first", true);
    let since = world.cloud().next_call();
    world.nodes.set_ready("alpha", false).await?;
    eventually("the token is refused", SOON, || async {
        let refused = world.cloud().calls(since).into_iter().any(|call| call.status == Some(401));
        same(refused, true).map_err(Failure::new)
    })
    .await?;
    // The kubelet does it like this: another file replaces the old one.
    let next = file.with_extension("next");
    fs::write(&next, format!("{SECOND}\n"))?;
    fs::rename(&next, &file)?;
    eventually("the new token is in use", TAKEN_UP, || async {
        let used = world.cloud().calls(since).into_iter().any(|call| call.token == "second");
        same(used, true).map_err(Failure::new)
    })
    .await?;
    world.pool_settles_within("p", &[(10, "beta")], SENT_AGAIN).await?;
    let refused = world.cloud().calls(since).into_iter().filter(|call| call.status == Some(401)).count();
    assert!(refused <= 4, "{refused} calls with a token that is refused");
    assert!(operator.runs()?);
    let log = operator.log();
    assert!(!log.contains(FIRST) && !log.contains(SECOND), "a token is in the log");
    Ok(())
}

async fn an_address_that_is_deleted_by_hand_is_an_error_of_its_own_and_is_not_replaced(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    let calls = world.cloud().next_call();
    assert!(world.cloud().delete_ip(ip(10)));
    world
        .pool_shows("p", "the address is an error, the other one is not", NOTICED, |pool| {
            same(pool.state(10), "error")?;
            same(pool.state(11), "active")
        })
        .await?;
    eventually("alpha loses its annotation", SOON, || async {
        same(world.nodes.annotation("alpha", crate::world::ANNOTATION).await?, None).map_err(Failure::new)
    })
    .await?;
    assert_eq!(world.mutating_calls(calls), []);
    assert_eq!(world.cloud().ips().len(), 1);
    Ok(())
}
