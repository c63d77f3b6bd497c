//! The binary during its start: it names what it is waiting for, and can still be ended.

use flipop_envtest::operator::Launch;
use flipop_envtest::process::Signal;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use rustix::process::{Pid, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tokio::net::TcpListener;

/// Enough for a loaded machine, and long before the plugin would end by itself.
const SOON: Duration = Duration::from_secs(20);

/// A hanging credential plugin. Dropping it ends it.
struct HungPlugin(Pid);

impl HungPlugin {
    /// Waits until it runs and has written its process id to a file in this folder.
    async fn found_in(folder: &Path) -> Outcome<Self> {
        let said = folder.join("plugin");
        let pid = eventually("the plugin runs", SOON, || async { Ok(fs::read_to_string(&said)?) }).await?;
        let pid = Pid::from_raw(pid.trim().parse()?).ok_or_else(|| Failure::new("process id 0"))?;
        Ok(Self(pid))
    }
}

impl Drop for HungPlugin {
    fn drop(&mut self) {
        // It may have ended with the process that called it.
        let _gone = kill_process(self.0, Signal::KILL);
    }
}

/// A kubeconfig with a credential plugin that writes its process id to `folder` and hangs.
fn kubeconfig(folder: &Path) -> String {
    let said = folder.join("plugin").display().to_string();
    let script = format!("echo $$ > {said}.new; mv {said}.new {said}; exec sleep 600");
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "/bin/sh", "args": ["-c", script],
        }}}],
    })
    .to_string()
}

/// A kubeconfig for a server whose URL contains a password.
fn with_password(server: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://admin:hunter2@{server}/k8s/")}}],
        "users": [{"name": "u", "user": {"token": "hunter3"}}],
    })
    .to_string()
}

#[tokio::test]
async fn the_log_names_the_build_and_the_api_server_and_after_two_seconds_that_it_is_waited_for() -> Outcome {
    flipop::provider::install_tls();
    // One server accepts connections and stays silent; the other refuses them.
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let refusing = TcpListener::bind("127.0.0.1:0").await?;
    let servers = [silent.local_addr()?.to_string(), refusing.local_addr()?.to_string()];
    drop(refusing);
    for server in servers {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, with_password(&server))?;
        let launch = Launch::new(Path::new(env!("CARGO_BIN_EXE_flipop")), &file, "http://127.0.0.1:1/")?;
        let mut operator = launch.cloudflare("http://127.0.0.1:1/").start(folder.path())?;
        let waits = format!("still waiting for https://{server}/k8s: the lease has not been read yet");
        eventually("it says what it waits for", SOON, || async {
            let log = operator.log();
            if log.contains(&waits) { Ok(()) } else { Err(Failure::new(log)) }
        })
        .await?;
        let log = operator.log();
        let line = log.lines().find(|line| line.contains(r#""starting""#)).unwrap_or_default();
        for (field, value) in [
            ("version", env!("CARGO_PKG_VERSION")),
            ("commit", flipop::version::COMMIT),
            ("providers", "digitalocean, cloudflare"),
            ("api_server", &format!("https://{server}/k8s")),
        ] {
            assert!(line.contains(&format!("\"{field}\":\"{value}\"")), "{field}: {line}");
        }
        assert!(!log.contains("hunter"), "{log}");
        operator.signal(Signal::TERM)?;
        assert!(operator.wait_end(SOON).await?.success(), "{}", operator.log());
    }
    Ok(())
}

#[tokio::test]
async fn sigterm_ends_a_process_that_waits_for_a_plugin_s_credentials() -> Outcome {
    flipop::provider::install_tls();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("kubeconfig");
    fs::write(&file, kubeconfig(folder.path()))?;
    let launch = Launch::new(Path::new(env!("CARGO_BIN_EXE_flipop")), &file, "http://127.0.0.1:1/")?;
    let mut operator = launch.env("PATH", "/usr/bin:/bin").start(folder.path())?;
    let _plugin = HungPlugin::found_in(folder.path()).await?;
    operator.signal(Signal::TERM)?;
    let status = operator.wait_end(SOON).await?;
    assert!(status.success(), "{status}: {}", operator.log());
    Ok(())
}

/// Runs the binary with these arguments and an empty environment: no pod, no tokens.
fn flipop(arguments: &[&str]) -> Outcome<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_flipop")).args(arguments).env_clear().output()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_is_done_without_cluster_and_tokens() -> Outcome {
    let version = flipop(&["version"])?;
    assert_eq!(version.status.code(), Some(0));
    let expected = format!("flipop {} (commit {})\n", flipop::version::VERSION, flipop::version::COMMIT);
    assert_eq!(text(&version.stdout), expected);
    let crds = flipop(&["crd"])?;
    assert_eq!(crds.status.code(), Some(0));
    assert!(text(&crds.stdout).contains("kind: CustomResourceDefinition"));
    Ok(())
}

#[test]
fn a_command_that_finds_no_cluster_ends_with_1_and_check_with_2() -> Outcome {
    for (word, code) in
        [(&["status"][..], 1), (&["plan"], 1), (&["check"], 2), (&["check", "--uninstall"], 2)]
    {
        let ended = flipop(&[word, &["--kubeconfig", "/nonexistent/config"]].concat())?;
        assert_eq!(ended.status.code(), Some(code), "{word:?}: {}", text(&ended.stderr));
        assert!(text(&ended.stderr).starts_with("flipop: failed to "), "{}", text(&ended.stderr));
    }
    Ok(())
}

#[test]
fn an_unknown_word_and_bad_usage_of_a_command_end_with_64_and_bad_flags_of_a_server_with_2() -> Outcome {
    let slip = flipop(&["verison"])?;
    assert_eq!(slip.status.code(), Some(64));
    assert!(text(&slip.stderr).contains("Print version and commit"), "{}", text(&slip.stderr));
    assert_eq!(text(&slip.stdout), "");
    let operator = [&["--no-such-flag"][..], &["--debug=maybe"], &["agent", "--no-such-flag"]];
    let command = [&["crd", "--no-such-flag"][..], &["version", "x"], &["status", "--no-such-flag"]];
    for (flags, code) in operator.into_iter().map(|flags| (flags, 2)).chain(command.map(|flags| (flags, 64)))
    {
        assert_eq!(flipop(flags)?.status.code(), Some(code), "{flags:?}");
    }
    assert_eq!(flipop(&["--help"])?.status.code(), Some(0));
    Ok(())
}
