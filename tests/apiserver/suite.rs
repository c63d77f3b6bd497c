//! Runs the tests: each in its own world, on a server that no other test uses meanwhile.

use crate::pages::Page;
use crate::team::times;
use crate::world::World;
use crate::{book, dashboard, helm, node_checks};
use flipop_envtest::Outcome;
use flipop_envtest::assets::{self, Assets, Found};
use flipop_envtest::servers::{Installed, Servers};
use futures::FutureExt as _;
use libtest_mimic::{Completion, Failed, Trial};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The longest time for a test, in minutes. A crash in a creation is resolved after two lists at least 30 s apart.
/// `FLIPOP_TEST_MINUTES` gives more to tests that repeat themselves often.
const TEST_MINUTES: usize = 4;

/// A test that runs in a world.
pub(crate) type Test = for<'a> fn(&'a mut World) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A test.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) run: Run,
}

/// The body of a test.
#[derive(Debug)]
pub(crate) enum Run {
    /// A function.
    Test(Test),
    /// A document to follow.
    Page(Page),
}

/// The server that a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// With k8s/ applied. The test changes objects only.
    Installed,
    /// The same for a test that builds a Go program.
    InstalledWithGo,
    /// The same for a test that runs Prometheus.
    InstalledWithPrometheus,
    /// The same for a test that makes network namespaces.
    InstalledWithNamespaces,
    /// With k8s/ applied. The test changes the installation.
    InstalledForOne,
    /// With nothing applied.
    Bare,
    /// With nothing applied, where Kubernetes' controllers can be run.
    BareWithControllers,
    /// With nothing applied, where Helm can be run.
    BareWithHelm,
}

/// Lists a module's tests: the functions, and the server that they need.
macro_rules! cases {
    ($server:ident: $($test:ident),+ $(,)?) => {
        vec![$($crate::suite::Case {
            name: concat!(module_path!(), "::", stringify!($test)).to_owned(),
            server: $crate::suite::Server::$server,
            run: $crate::suite::Run::Test(|world| Box::pin($test(world))),
        }),+]
    };
}
pub(crate) use cases;

impl Case {
    /// The tool that the test needs besides a server, if this machine lacks it.
    fn lacks(&self, assets: &Assets) -> Option<&'static str> {
        let controllers = self.server == Server::BareWithControllers;
        if controllers && assets.kube_controller_manager.is_none() {
            return Some("needs a kube-controller-manager in KUBEBUILDER_ASSETS");
        }
        if self.server == Server::InstalledWithGo && !assets::go_is_installed() {
            return Some("needs Go");
        }
        if self.server == Server::InstalledWithPrometheus && !dashboard::prometheus_is_installed() {
            return Some(dashboard::NEEDS);
        }
        if self.server == Server::InstalledWithNamespaces && !node_checks::namespaces_work() {
            return Some(node_checks::NEEDS);
        }
        if self.server == Server::BareWithHelm && !helm::is_installed() {
            return Some(helm::NEEDS);
        }
        let page = matches!(self.run, Run::Page(_));
        (page && !book::tools_are_installed()).then_some(book::NEEDS)
    }
}

impl Run {
    fn start<'a>(&'a self, world: &'a mut World) -> Pin<Box<dyn Future<Output = Outcome> + 'a>> {
        match self {
            Self::Test(test) => test(world),
            Self::Page(page) => Box::pin(book::follow(page, world)),
        }
    }
}

/// Shared by all tests.
#[derive(Debug)]
pub(crate) struct Suite {
    servers: Servers,
    /// Set by the first test that runs, so that listing tests builds nothing.
    assets: OnceLock<Result<Found, String>>,
}

impl Suite {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { servers: Servers::new(&crate::world::path("k8s")), assets: OnceLock::new() })
    }

    pub(crate) fn trials(self: &Arc<Self>, cases: impl Iterator<Item = Case>) -> Vec<Trial> {
        cases
            .map(|case| {
                let suite = Arc::clone(self);
                let name = case.name.trim_start_matches("apiserver::").to_owned();
                Trial::ignorable_test(name, move || suite.run(&case))
            })
            .collect()
    }

    pub(crate) fn end(&self) {
        self.servers.end();
    }

    fn run(&self, case: &Case) -> Result<Completion, Failed> {
        match self.assets.get_or_init(|| assets::find().map_err(|failure| failure.to_string())) {
            Err(failure) => Err(Failed::from(failure)),
            Ok(Found::Nothing(reason)) if assets::nothing_may_be_skipped() => Err(Failed::from(reason)),
            Ok(Found::Nothing(reason)) => Ok(Completion::ignored_with(reason)),
            Ok(Found::Assets(assets)) => match case.lacks(assets) {
                Some(lack) if !assets::nothing_may_be_skipped() => Ok(Completion::ignored_with(lack)),
                _ => self.run_with(case, assets),
            },
        }
    }

    fn run_with(&self, case: &Case, assets: &Assets) -> Result<Completion, Failed> {
        IN_TEST.set(true);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let installed = match case.server {
                Server::Installed
                | Server::InstalledWithGo
                | Server::InstalledWithPrometheus
                | Server::InstalledWithNamespaces
                | Server::InstalledForOne => Installed::Manifests,
                Server::Bare | Server::BareWithControllers | Server::BareWithHelm => Installed::Nothing,
            };
            let server = self.servers.take(assets, installed).await?;
            let mut world = World::new(server).await?;
            let test = AssertUnwindSafe(case.run.start(&mut world)).catch_unwind();
            let minutes = u64::try_from(times("FLIPOP_TEST_MINUTES", TEST_MINUTES))?;
            let failure = match tokio::time::timeout(Duration::from_mins(minutes), test).await {
                Ok(Ok(Ok(()))) => None,
                Ok(Ok(Err(failure))) => Some(failure.to_string()),
                Ok(Err(_)) => Some(PANIC.take().unwrap_or_default()),
                Err(_) => Some(format!("the test took longer than {minutes} minutes")),
            };
            if let Some(failure) = failure {
                return Err(Failed::from(format!("{failure}\n{}", world.describe().await)));
            }
            let server = world.end().await;
            let shared = [Server::Installed, Server::InstalledWithGo, Server::InstalledWithPrometheus];
            if shared.contains(&case.server) {
                self.servers.give_back(server);
            }
            Ok(Completion::Completed)
        })
    }
}

thread_local! {
    /// The panic of the test on this thread, with its place.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static IN_TEST: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the panics of tests for their report. Panics of other threads are printed at once.
pub(crate) fn catch_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if IN_TEST.get() {
            PANIC.set(Some(panic.to_string()));
        } else {
            print(panic);
        }
    }));
}
