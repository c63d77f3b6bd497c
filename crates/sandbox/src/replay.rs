//! `cargo sandbox replay`: the transcript of a simulation, and the judge's findings.

use flipop_simulation::{Plan, generate};
use std::io::{self, Write};
use std::process::ExitCode;

/// Plays the plan of a seed or of a file. Exits with 1 if it breaks an invariant, and with 2 if there is no such plan.
pub(crate) fn replay(plan: &str, out: &mut dyn Write) -> ExitCode {
    let plan = match read(plan) {
        Ok(plan) => plan,
        Err(error) => {
            let _unwritten = writeln!(io::stderr(), "sandbox: {error}");
            return ExitCode::from(2);
        }
    };
    match tell(&plan, out) {
        Ok(true) => ExitCode::SUCCESS,
        // A reader that has seen enough is no failure.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn read(plan: &str) -> Result<Plan, String> {
    if let Ok(seed) = plan.parse() {
        return Ok(generate::plan(seed));
    }
    let text = std::fs::read_to_string(plan).map_err(|error| format!("failed to read {plan}: {error}"))?;
    Plan::from_yaml(&text).map_err(|error| error.to_string())
}

fn tell(plan: &Plan, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(out, "{}\n", plan.to_yaml().unwrap_or_default())?;
    out.flush()?;
    let outcome = flipop_simulation::run(plan, true)?;
    out.write_all(outcome.story.as_bytes())?;
    for line in &outcome.end {
        writeln!(out, "{line}")?;
    }
    for found in &outcome.violations {
        writeln!(out, "VIOLATION {found}")?;
    }
    writeln!(out, "{} violations, transcript {:016x}", outcome.violations.len(), outcome.fingerprint)?;
    Ok(outcome.violations.is_empty())
}
