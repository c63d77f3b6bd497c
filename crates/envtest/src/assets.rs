//! Finds or builds `kube-apiserver`, `etcd`, `kubectl` and `kube-controller-manager`.
//!
//! They come from `KUBEBUILDER_ASSETS` if it is set (the folder that `setup-envtest` creates). Otherwise Go builds them
//! once from the two modules in `servers/`, into a cache folder of the user that all clones share. A lock file makes
//! other processes wait for a build under way instead of repeating it.

use crate::{Failure, Outcome};
use fnv::FnvHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const KUBERNETES_MOD: &str = include_str!("../servers/kubernetes/go.mod");
const KUBERNETES_SUM: &str = include_str!("../servers/kubernetes/go.sum");
const ETCD_MOD: &str = include_str!("../servers/etcd/go.mod");
const ETCD_SUM: &str = include_str!("../servers/etcd/go.sum");

/// The programs.
#[derive(Debug, Clone)]
pub struct Assets {
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// Its store.
    pub etcd: PathBuf,
    /// The command-line client.
    pub kubectl: PathBuf,
    /// The controllers. Folders from `setup-envtest` lack them.
    pub kube_controller_manager: Option<PathBuf>,
}

/// The result of the search.
#[derive(Debug, Clone)]
pub enum Found {
    /// The programs exist.
    Assets(Assets),
    /// They do not exist and cannot be built on this machine. The text says why.
    Nothing(String),
}

/// Finds the programs, and builds them if possible.
///
/// # Errors
/// If `KUBEBUILDER_ASSETS` lacks one of them, or the build fails.
pub fn find() -> Outcome<Found> {
    if let Some(folder) = environment("KUBEBUILDER_ASSETS") {
        return given(Path::new(&folder)).map(Found::Assets);
    }
    if !go_is_installed() {
        return Ok(Found::Nothing(
            "needs a real API server: set KUBEBUILDER_ASSETS (a folder with kube-apiserver, etcd and kubectl) or install Go 1.21 or later"
                .to_owned(),
        ));
    }
    built().map(Found::Assets)
}

/// Whether Go can be run.
pub fn go_is_installed() -> bool {
    runs("go", "version")
}

/// Builds the Go program of a module in this repository.
///
/// # Errors
/// If the build fails.
pub fn build_go_program(module: &Path, program: &Path) -> Outcome {
    // The same flags as for the API server, so shared packages are compiled once.
    go_build(module, "-s -w", program, &[".".to_owned()])
}

/// True on a build server, where no test may be skipped.
pub fn nothing_may_be_skipped() -> bool {
    environment("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

#[expect(clippy::disallowed_methods, reason = "the environment of the tests, not of the operator")]
fn environment(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn given(folder: &Path) -> Outcome<Assets> {
    let program = |name: &str| {
        let path = folder.join(name);
        if path.is_file() {
            Ok(path)
        } else {
            Err(Failure::new(format!("KUBEBUILDER_ASSETS: no {}", path.display())))
        }
    };
    Ok(Assets {
        kube_apiserver: program("kube-apiserver")?,
        etcd: program("etcd")?,
        // The command-line client is often installed already.
        kubectl: program("kubectl").unwrap_or_else(|_| PathBuf::from("kubectl")),
        kube_controller_manager: program("kube-controller-manager").ok(),
    })
}

fn built() -> Outcome<Assets> {
    let version = required_version(KUBERNETES_MOD, "k8s.io/kubernetes")?;
    let store = cache_folder()?.join("kubebuilder-assets");
    fs::create_dir_all(&store)?;
    let lock = File::options().create(true).truncate(false).write(true).open(store.join(".lock"))?;
    lock.lock()?;

    let folder = store.join(format!("{version}-{:016x}", fingerprint()?));
    let assets = Assets {
        kube_apiserver: folder.join("kube-apiserver"),
        etcd: folder.join("etcd"),
        kubectl: folder.join("kubectl"),
        kube_controller_manager: Some(folder.join("kube-controller-manager")),
    };
    if !folder.is_dir() {
        say(&format!("building Kubernetes {version} and etcd with Go: once, about 8 minutes on 2 cores"));
        let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(&store)?;
        build(&version, unfinished.path())?;
        fs::rename(unfinished.keep(), &folder)?;
    }
    Ok(assets)
}

fn build(version: &str, out: &Path) -> Outcome {
    let sources = sources();
    go_build(&sources.join("etcd"), "-s -w", &out.join("etcd"), &["go.etcd.io/etcd/server/v3".to_owned()])?;
    let (major, rest) = version.trim_start_matches('v').split_once('.').unwrap_or((version, ""));
    let minor = rest.split('.').next().unwrap_or_default();
    let stamp = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    );
    go_build(
        &sources.join("kubernetes"),
        &flags,
        out,
        &["kube-apiserver", "kube-controller-manager", "kubectl"]
            .map(|name| format!("k8s.io/kubernetes/cmd/{name}")),
    )
}

fn go_build(module: &Path, link_flags: &str, out: &Path, packages: &[String]) -> Outcome {
    let output = Command::new("go")
        .current_dir(module)
        // Nothing reads the debug information, and writing it takes time.
        .args(["build", "-trimpath", "-buildvcs=false", "-gcflags", "all=-dwarf=false"])
        .args(["-ldflags", link_flags, "-o"])
        .arg(out)
        .args(packages)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::new(format!("go build in {} failed:\n{}", module.display(), crate::process::tail(&why, 20))))
}

/// The version that a go.mod file requires of a module.
fn required_version(go_mod: &str, module: &str) -> Outcome<String> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' ')?.split_whitespace().next())
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("go.mod does not require {module}")))
}

/// Changes whenever the build results would. The hash is the same with every toolchain of Rust.
fn fingerprint() -> Outcome<u64> {
    let go =
        Command::new("go").args(["env", "GOVERSION"]).current_dir(sources().join("kubernetes")).output()?;
    let mut hasher = FnvHasher::default();
    for part in [KUBERNETES_MOD, KUBERNETES_SUM, ETCD_MOD, ETCD_SUM] {
        part.hash(&mut hasher);
    }
    go.stdout.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The modules that name the servers' versions.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("servers")
}

/// The folder for what all clones of this repository on a machine share.
fn cache_folder() -> Outcome<PathBuf> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|cache| cache.join("flipop"))
        .ok_or_else(|| {
            Failure::new("neither XDG_CACHE_HOME nor HOME names a folder for built servers".to_owned())
        })
}

/// Cargo's `target` folder, which contains the running program. Cargo writes the first of these files only if it
/// creates the folder itself, and the second in any case.
///
/// # Errors
/// If the running program is elsewhere.
pub fn target_folder() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?;
    program
        .ancestors()
        .find(|folder| ["CACHEDIR.TAG", ".rustc_info.json"].iter().any(|mark| folder.join(mark).is_file()))
        .map(Path::to_owned)
        .ok_or_else(|| Failure::new(format!("{} is not in a target folder of cargo", program.display())))
}

/// Writes a line for the user at the terminal. A closed terminal is no reason to stop.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
