//! The simulated API server compared with the real one: `cargo sandbox` accepts, refuses and warns as `kubectl apply`
//! does.

use crate::corpus::documents;
use crate::suite::{Case, cases};
use crate::world::World;
use flipop_apiserver::{ApiServer, ScenarioError};
use flipop_envtest::Outcome;
use flipop_sandbox::advice::advice;
use serde_json::Value;
use std::collections::BTreeSet;

/// The folders with objects. `verdicts` exists for this test only.
const FOLDERS: [&str; 4] =
    ["tests/corpus", "tests/corpus/ours", "tests/corpus/refused", "tests/corpus/verdicts"];

/// The least number of objects, and of refusals among them. Without it a missing folder would compare nothing.
const LEAST: (usize, usize) = (60, 25);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed: the_sandbox_accepts_refuses_and_warns_as_the_real_api_server_does]
}

/// A simulated cluster with the CRDs of both kinds.
fn sandbox() -> Outcome<ApiServer> {
    let epoch: jiff::Timestamp = "2026-03-01T12:00:00Z".parse()?;
    let server = ApiServer::builder(1, move || epoch).advice(advice).build();
    flipop_simulation::furnish::install(&server)?;
    Ok(server)
}

/// The fields that warnings name, without positions in lists.
fn fields(warnings: &[String]) -> BTreeSet<String> {
    let is_field = |word: &&str| word.starts_with("spec.") || word.starts_with("metadata.");
    let field = |text: &String| {
        let word = text.split([' ', ':', ',']).find(is_field)?;
        Some(word.split('[').next().unwrap_or(word).to_owned())
    };
    warnings.iter().filter_map(field).collect()
}

/// Compares what both servers say about an object.
async fn compare(world: &World, object: &Value) -> Outcome<(bool, Option<String>)> {
    let name = &object["metadata"]["name"];
    let real = world.cluster.create_strictly("default", object).await;
    let simulated = sandbox()?.apply_strictly(object.clone(), "default");
    let refused = real.is_err();
    let problem = match (real, simulated) {
        // A failed call is no verdict.
        (Err(error), _) if !error.to_string().contains("\"kind\":\"Status\"") => {
            Some(format!("{name}: {error}"))
        }
        (Err(_), Err(ScenarioError::Refused { .. })) => None,
        (Err(error), Err(other)) => Some(format!("{name}: {error}; the sandbox fails otherwise: {other}")),
        (Err(error), Ok(_)) => Some(format!("{name}: only the real server refuses it: {error}")),
        (Ok(_), Err(error)) => {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Some(format!("{name}: only the sandbox refuses it: {error}: {source}"))
        }
        (Ok(warnings), Ok(applied)) => {
            let told = fields(&applied.warnings);
            let missing: Vec<String> =
                fields(&warnings).into_iter().filter(|field| !told.contains(field)).collect();
            // The operator may call something a mistake that no policy warns about.
            (!missing.is_empty()).then(|| {
                format!(
                    "{name}: the sandbox does not warn of {missing:?} (a row of RULES in advice.rs?): real \
                     {warnings:#?}, simulated {:#?}",
                    applied.warnings
                )
            })
        }
    };
    Ok((refused, problem))
}

async fn the_sandbox_accepts_refuses_and_warns_as_the_real_api_server_does(world: &mut World) -> Outcome {
    crate::warnings::in_force(world).await?;
    let (mut compared, mut refused, mut problems) = (0_usize, 0_usize, Vec::new());
    for object in FOLDERS.iter().map(|folder| documents(folder)).collect::<Outcome<Vec<_>>>()?.concat() {
        let (is_refused, problem) = compare(world, &object).await?;
        compared = compared.saturating_add(1);
        refused = refused.saturating_add(usize::from(is_refused));
        problems.extend(problem);
    }
    assert!(problems.is_empty(), "{} of {compared} differ:\n{}", problems.len(), problems.join("\n"));
    assert!(compared >= LEAST.0 && refused >= LEAST.1, "{compared} compared, {refused} refused");
    Ok(())
}
