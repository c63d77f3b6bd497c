//! Tokens that are refused: a condition, an Event and one log line of each object say so, and what stands stays.

use crate::dns::{BOTH, Name, external, named, set_spec};
use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, same};
use flipop_envtest::Outcome;
use flipop_envtest::operator::Operator;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed: a_token_that_is_refused_is_told_once_and_what_stands_stays]
}

/// Longer than the first retries of any call.
const QUIET: Duration = Duration::from_secs(4);

/// The log's warnings about an object.
fn warnings(operator: &Operator, object: &str) -> Vec<String> {
    let object = format!("\"{TEAM}/{object}\"");
    let about = |line: &&str| line.contains("WARN") && line.contains(&object);
    operator.log().lines().filter(about).map(str::to_owned).collect()
}

/// Checks that there is exactly one warning about an object, with these words.
#[track_caller]
fn warned_once(operator: &Operator, object: &str, words: &[&str]) {
    let lines = warnings(operator, object);
    assert!(
        matches!(&lines[..], [only] if words.iter().all(|word| only.contains(word))),
        "one warning about {object} with {words:?} instead of {lines:#?}"
    );
}

async fn a_token_that_is_refused_is_told_once_and_what_stands_stays(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    for provider in BOTH {
        Name::new(provider, "nodes").write(world, external(77), 60);
    }
    world.cloud().revoke_token("operator", true);
    world.cloud().revoke_token("operator-cf", true);
    let operator = world.dns_operator().await?;
    world.plain_pool("p", &[10]).await?;
    for provider in BOTH {
        world.record_set(named(provider), &set_spec(provider, "nodes")).await?;
    }
    world
        .pool_shows("p", "the token is named", SOON, |pool| {
            pool.has("ProviderReady", "False", "Unauthorized", &["DIGITALOCEAN_ACCESS_TOKEN"])?;
            same(pool.active().len(), 0)
        })
        .await?;
    world.event_says("p", "ProviderNotReady", &["DIGITALOCEAN_ACCESS_TOKEN"]).await?;
    let variables = [("digitalocean", "DIGITALOCEAN_ACCESS_TOKEN"), ("cloudflare", "CLOUDFLARE_TOKEN")];
    for (set, variable) in variables {
        world
            .set_shows(set, "the token is named", SOON, |set| {
                same(set.text("state"), "error")?;
                set.has("Ready", "False", "Unauthorized", &[variable])
            })
            .await?;
        world.event_says(set, "Unauthorized", &[variable]).await?;
    }
    tokio::time::sleep(QUIET).await;
    for (object, variable) in variables.into_iter().chain([("p", "DIGITALOCEAN_ACCESS_TOKEN")]) {
        warned_once(&operator, object, &[variable]);
        let remedy = &warnings(&operator, object)[0];
        assert!(!remedy.contains("scope"), "no scope is what this token lacks: {remedy}");
    }
    assert_eq!(world.mutating_calls(0), []);
    // One read per minute of the addresses, and one of DNS.
    assert!(world.cloud().next_call() <= 8, "{:#?}", world.cloud().calls(0));
    Ok(())
}
