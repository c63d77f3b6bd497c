//! Objects from real use, on a real API server: accepted under the Go operator's CRDs, and then under ours. The
//! operator tells each one about itself.

use crate::suite::{Case, cases};
use crate::world::{Object, SOON, TEAM, World, ip, path, plain_spec, same};
use flipop_envtest::cluster::Kind;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// The time for work that is not held up, on a loaded machine.
const NOT_HELD_UP: Duration = Duration::from_secs(4);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Bare:
        the_corpus_applies_under_the_go_crds_and_then_under_ours_with_nothing_lost,
        each_object_of_the_corpus_is_accepted_on_its_own,
        what_our_crds_refuse_they_refuse_with_the_promised_message,
    ];
    cases.extend(cases![Installed: each_object_of_the_corpus_is_told_of_itself_and_harms_no_other]);
    cases
}

/// The YAML files directly inside a folder, sorted.
fn files(folder: &str) -> Outcome<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path(folder))? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// The objects in the YAML files of a folder.
pub(crate) fn documents(folder: &str) -> Outcome<Vec<Value>> {
    let mut all = Vec::new();
    for file in files(folder)? {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&file)?)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        all.extend(documents);
    }
    Ok(all)
}

async fn crds(world: &World, folder: &str) -> Outcome {
    world.kubectl.run(&["apply", "-f", &path(folder)]).await?;
    world.cluster.kinds_established().await
}

async fn specs(world: &World) -> Outcome<BTreeMap<String, Value>> {
    let mut specs = BTreeMap::new();
    for kind in Kind::ALL {
        for object in world.cluster.list(kind).await? {
            specs.insert(format!("{}/{}", kind.plural(), object["metadata"]["name"]), object["spec"].clone());
        }
    }
    Ok(specs)
}

async fn the_corpus_applies_under_the_go_crds_and_then_under_ours_with_nothing_lost(
    world: &mut World,
) -> Outcome {
    crds(world, "tests/corpus/go-crds").await?;
    let corpus = path("tests/corpus");
    // As with old clients, the server drops unknown fields and kubectl does not refuse them.
    let apply = ["apply", "--validate=false", "-f", &corpus];
    world.kubectl.run(&apply).await?;
    let under_go = specs(world).await?;
    assert_eq!(under_go.len(), documents("tests/corpus")?.len());

    crds(world, "crds").await?;
    // They are served as stored, and accepted again.
    assert_eq!(specs(world).await?, under_go);
    let again = world.kubectl.run(&apply).await?;
    let made: Vec<&str> = again.stdout.lines().filter(|line| line.ends_with("created")).collect();
    assert_eq!(made, Vec::<&str>::new(), "an object was gone");
    let under_ours = specs(world).await?;
    for (name, spec) in &under_go {
        assert!(contains(&under_ours[name], spec), "{name}: {spec} became {}", under_ours[name]);
    }
    world.kubectl.run(&["apply", "-f", &path("tests/corpus/ours")]).await?;
    Ok(())
}

/// Whether `whole` contains everything in `part`. Our CRDs keep fields that the Go CRDs drop.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value)))
        }
        _ => whole == part,
    }
}

async fn each_object_of_the_corpus_is_accepted_on_its_own(world: &mut World) -> Outcome {
    crds(world, "crds").await?;
    let mut refused = Vec::new();
    for object in documents("tests/corpus")?.iter().chain(&documents("tests/corpus/ours")?) {
        if let Err(error) = world.cluster.create_object("default", object, true).await {
            refused.push(format!("{}: {error}", object["metadata"]["name"]));
        }
    }
    assert_eq!(refused, Vec::<String>::new());
    Ok(())
}

async fn what_our_crds_refuse_they_refuse_with_the_promised_message(world: &mut World) -> Outcome {
    crds(world, "crds").await?;
    for object in documents("tests/corpus/refused")? {
        let name = &object["metadata"]["name"];
        let promised =
            object["metadata"]["annotations"]["corpus/refused"].as_str().unwrap_or("(no annotation)");
        match world.cluster.create_object("default", &object, true).await {
            Ok(_) => panic!("{name} was accepted"),
            Err(error) => {
                assert!(error.to_string().contains(promised), "{name}: {error}\nshould say: {promised}");
            }
        }
    }
    Ok(())
}

/// An object's verdict about its own spec: whether it is valid, and what is wrong.
async fn told(world: &World, kind: Kind, name: &str) -> Outcome<(bool, String)> {
    let what = format!("{} {name} is told of itself", kind.plural());
    eventually(&what, SOON, || async move {
        let object = world.cluster.get(kind, TEAM, name).await?;
        let status = &object["status"];
        if status["observedGeneration"] != object["metadata"]["generation"] {
            return Err(Failure::new(format!("status: {status}")));
        }
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let valid = conditions.iter().find(|condition| condition["type"] == "SpecValid");
        let valid = valid.ok_or_else(|| Failure::new(format!("no condition SpecValid: {status}")))?;
        Ok((valid["status"] == "True", status["error"].as_str().unwrap_or_default().to_owned()))
    })
    .await
}

async fn each_object_of_the_corpus_is_told_of_itself_and_harms_no_other(world: &mut World) -> Outcome {
    world.reserve(&[210, 211]);
    for node in ["alpha", "beta"] {
        world.node_with(node, |new| new.label("of", "good")).await?;
    }
    let _operator = world.operator().await?;
    // The oldest object, so that no other can claim its name or its addresses.
    let mut good = plain_spec(&[210, 211]);
    good["match"]["nodeLabel"] = json!("of=good");
    world.pool("good", &good).await?;
    world.pool_settles("good", &[(210, "alpha"), (211, "beta")]).await?;
    let calls = world.cloud().next_call();

    let corpus = [documents("tests/corpus")?, documents("tests/corpus/ours")?].concat();
    let mut wrong = 0;
    for object in &corpus {
        world.cluster.create_object(TEAM, object, false).await?;
        let kind = if object["kind"] == "FloatingIPPool" { Kind::Pool } else { Kind::RecordSet };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (valid, error) = told(world, kind, name).await?;
        assert!(valid || !error.is_empty(), "{name} is wrong, and status.error does not say why");
        wrong += usize::from(!valid);
    }
    assert!(corpus.len() > 45 && wrong > 10, "{wrong} of {} have a mistake", corpus.len());

    // With all objects present.
    let ours = |call: &(Ipv4Addr, u64)| [ip(210), ip(211)].contains(&call.0);
    assert!(!world.assigns(calls).iter().any(ours), "nobody moves what is in use");
    world.nodes.set_ready("alpha", false).await?;
    let gone = |pool: &Object| same(pool.state(210), "no-match");
    world.pool_shows("good", "alpha is gone", NOT_HELD_UP, gone).await?;
    world.nodes.set_ready("alpha", true).await?;
    world.pool_settles_within("good", &[(210, "alpha"), (211, "beta")], NOT_HELD_UP).await
}
