//! The messages about records that wait for the limits of a token.

use crate::world::{PROVIDER, World};
use crate::zones::{CLOUDFLARE, DnsTrick, external};
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Quota, RateReport};
use flipop_core::model::FaultKind;

/// A set whose token has these limits when the second node comes, more than a minute after the start of the clock.
fn limited(provider: &str, report: impl Fn(&World) -> RateReport) -> World {
    let mut world = World::with_set(1);
    if provider != PROVIDER {
        world.edit_set("set", |spec| spec.provider = provider.into());
    }
    world.run(60);
    let report = report(&world);
    world.observe(Input::Rate(provider.into(), report));
    world.set_node(2, true);
    world
}

#[test]
fn whose_limit_holds_records_back_and_until_when_is_told_in_one_write() {
    let ends = |world: &World| world.now.plus_millis(600_000);
    for provider in [PROVIDER, CLOUDFLARE] {
        let paused = |world: &World| RateReport { blocked_until: Some(ends(world)), ..RateReport::default() };
        let used_up = |world: &World| {
            let (limit, remaining, reset_at) = (Some(5_000), 0, ends(world));
            let quota = Quota { limit, remaining, reset_at, observed_at: world.now };
            RateReport { quota: Some(quota), ..RateReport::default() }
        };
        for (mut world, says) in [
            (limited(provider, paused), format!("{provider} throttles the token until")),
            (
                limited(provider, used_up),
                format!(
                    "the token for {provider} has few requests left, and FLIPOP keeps them for addresses until"
                ),
            ),
        ] {
            let minutes = ends(&world).as_millis().div_ceil(60_000);
            world.run(30);
            let told = format!("the change of the records waits: {says} 00:{minutes:02} UTC");
            assert_eq!(world.told("set", "Ready").2, told);
            let writes = world.status_writes;
            world.run(560);
            assert_eq!(
                (world.told("set", "Ready").2, world.status_writes),
                (told.as_str(), writes),
                "it is told once"
            );
            world.run(120);
            assert_eq!(world.dns.addresses(provider, "www.example.com"), [external(1), external(2)]);
            assert_eq!(world.told("set", "Ready").2, "2 addresses: 203.0.113.1, 203.0.113.2");
        }
    }
}

#[test]
fn a_refusal_for_excess_without_a_time_is_told_in_the_words_of_the_provider() {
    let mut world = World::with_set(1);
    world.run(60);
    world.dns.tricks.extend((0..6).map(|_| DnsTrick::Refused(0, FaultKind::Throttled)));
    world.set_node(2, true);
    world.run(12);
    let told = world.told("set", "Ready").2.to_owned();
    assert!(
        told.starts_with("the change of the records waits: the provider throttles the token: "),
        "{told}"
    );
    world.run(120);
    assert_eq!(world.told("set", "Ready").2, "2 addresses: 203.0.113.1, 203.0.113.2");
}

#[test]
fn a_full_window_of_requests_is_told_without_a_time() {
    let mut world = limited(CLOUDFLARE, |_| RateReport { requests: 5_000, ..RateReport::default() });
    world.run(60);
    let told = "the change of the records waits: the rate limit of the token for cloudflare leaves no request for them \
                yet";
    assert_eq!(world.told("set", "Ready").2, told);
}
