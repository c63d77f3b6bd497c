//! `flipop plan`: the changes that FLIPOP would make. Its own decisions find them on a frozen copy of the cluster.
//!
//! The decisions run on simulated time, with a provider that accepts everything. Nothing is written anywhere: the
//! clients of providers only read, and the copy lives in this process.

mod account;
mod changes;
mod files;
mod rehearsal;
mod report;
mod walls;
mod world;

use super::copy::{self, Lists, Objects};
use super::leader::Installed;
use super::output::Output;
use super::session::Session;
use super::{CommandError, session};
use crate::config::cli_args::PlanArgs;
use crate::config::{DecisionFlags, Order};
use crate::exit::Exit;
use crate::provider::descriptors;
use account::Account;
use flipop_core::firewalls::spec::FirewallSpec;
use flipop_core::model::WatchKey;
use report::Report;
use walls::Walls;
use world::World;

/// Runs the command.
pub(super) async fn run(
    session: &Session,
    order: &Order,
    arguments: &PlanArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    let documents = files::read(&arguments.files, session.namespace.as_deref())?;
    let read = async || plan(session, order, arguments, &documents).await;
    let report = output.keep_showing(arguments.watch, read, |report| report.text(output)).await?;
    Ok(report.exit())
}

async fn plan(
    session: &Session,
    order: &Order,
    arguments: &PlanArgs,
    documents: &files::Documents,
) -> Result<Report, CommandError> {
    // Objects of all namespaces compete for nodes, addresses and names.
    let installed = Objects::read(session, None).await?;
    let mut notes = documents.notes.clone();
    notes.extend(installed.absent.iter().map(|kind| format!("the kind {kind} is not installed")));
    let wanted = documents.applied_to(&installed, session.now());
    let flags = operator_flags(session).await.unwrap_or_else(|| {
        notes.push(
            "the flags of the operator are unknown: --keep-last-record, --zones and --max-addresses are assumed to be \
             unset (you may not get the Deployment flipop, it is not there, or its flags are not understood)"
                .to_owned(),
        );
        DecisionFlags::default()
    });
    let providers = copy::every_provider(flags.keep_last_record);
    let (pools, sets) = wanted.plain();
    let of_pools: Vec<_> = pools.iter().filter_map(|pool| copy::pool_spec(pool, &providers)).collect();
    let of_sets: Vec<_> = sets.iter().filter_map(|set| copy::set_spec(set, &providers)).collect();
    let criteria = of_pools.iter().filter_map(|spec| spec.criteria.as_ref());
    let mut keys = copy::keys(criteria.chain(of_sets.iter().filter_map(|spec| spec.criteria.as_ref())));
    keys.insert(WatchKey::Nodes { selector: String::new() });
    let lists = Lists::read(session, keys).await?;
    let (account, walls) = if arguments.with_provider {
        let variables = session::variables(order, arguments.env_file.as_deref())?;
        let clients = session::clients(&variables, &order.cluster.proxy, &session.clock)?;
        if clients.accounts().next().is_none() {
            let variables: Vec<&str> = descriptors().map(|of| of.token_variable).collect();
            let variables = variables.join(" or ");
            return Err(CommandError::Usage(format!(
                "--with-provider needs a token: set {variables}, or use --env-file"
            )));
        }
        (Account::read(clients.clone(), &mut notes), Walls::read(clients))
    } else {
        notes.push(
            "addresses and records are taken from the status of the objects; --with-provider reads them"
                .to_owned(),
        );
        (Account::default(), Walls::default())
    };
    if flags.max_addresses.is_some() && !arguments.with_provider {
        notes
            .push("--max-addresses counts only the addresses of pools; --with-provider reads all".to_owned());
    }
    notes.push("cool-offs and retries under way in the leader are not known".to_owned());
    let mut walled = of_pools.iter().filter(|spec| spec.firewall != FirewallSpec::None);
    if walled.any(|spec| !walls.knows(&spec.account_id)) {
        notes.push(
            "the changes in firewalls are unknown: --with-provider reads them, with a token in the environment"
                .to_owned(),
        );
    }
    let mut world = World::new((pools, sets), lists, (account, walls));
    world.assume(&installed.plain(), &providers, &mut notes);
    let outcome = rehearsal::run(&mut world, &providers, flags, session.now()).await?;
    Ok(report::make(&world, &outcome, &providers, (&documents.names, notes)))
}

/// The flags of the operator, from its Deployment. Its pods may have other containers beside the first.
async fn operator_flags(session: &Session) -> Option<DecisionFlags> {
    let installed = Installed::find(session).await.ok()?;
    let container = installed.pod.containers.first()?;
    DecisionFlags::of_container(container.command.iter().chain(&container.args).flatten())
}

#[cfg(test)]
mod tests;
