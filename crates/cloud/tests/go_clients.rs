//! The official Go clients of both providers against the simulated ones, so that our client and our simulation cannot
//! share a misunderstanding. Needs Go; without it the test is reported as ignored with that reason, and fails where
//! `CI` is set.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and it needs to know whether it runs in CI"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use flipop_cloud::{CloudServer, Options, Plan, Provider, RecordView};
use libtest_mimic::{Arguments, Failed, Trial};

/// Addresses that the account has beforehand.
const IPS: usize = 6;
/// Records that the Cloudflare zone has beforehand.
const RECORDS: usize = 4;
const DO_TOKEN: &str = "dop_v1_for_the_go_clients";
const CF_TOKEN: &str = "cf-for-the-go-clients-0123456789abcdefgh";
const CF_READ_TOKEN: &str = "cf-reader-of-the-go-clients-0123456789ab";

fn main() {
    let arguments = Arguments::from_args();
    let go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    let ci = std::env::var_os("CI").is_some();
    let mut trial = Trial::test("the_official_go_clients_find_nothing_wrong", run);
    if !go && !ci {
        trial = trial.with_ignored_flag(true).with_kind("ignored: Go is not installed");
    }
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

fn run() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = build()?;
    runtime.block_on(check(&client))
}

/// Builds the module into the folder that cargo keeps for this test.
fn build() -> Result<PathBuf, Failed> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/go-clients");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-clients");
    let built = Command::new("go").args(["build", "-o"]).arg(&binary).arg(".").current_dir(module).output();
    let built = built.map_err(|error| format!("failed to run go: {error}"))?;
    if built.status.success() {
        return Ok(binary);
    }
    Err(String::from_utf8_lossy(&built.stderr).into_owned().into())
}

async fn check(client: &Path) -> Result<(), Failed> {
    // This machine's clock: the clients compare the headers with it.
    let server = CloudServer::start(Options { seed: 4, epoch_ms: None }).await.unwrap();
    let cloud = server.cloud();
    cloud.add_token(Provider::DigitalOcean, "do", DO_TOKEN, &["*"]);
    cloud.add_token(Provider::Cloudflare, "cf", CF_TOKEN, &["zone:read", "dns:edit"]);
    cloud.add_token(Provider::Cloudflare, "cf-reader", CF_READ_TOKEN, &["dns:read"]);
    cloud.tune(|knobs| (knobs.action_ms, knobs.firewall_ms) = (30, 30));
    for _ in 0..IPS {
        cloud.add_ip(None, "nyc3");
    }
    cloud.add_domain("example.com");
    assert!(!cloud.add_zone("example.com", Plan::Free).is_empty());
    for n in 0..RECORDS {
        let record = RecordView::new(&format!("other-{n}.example.com"), "A", "198.51.100.1", 300);
        assert!(cloud.add_record(Provider::Cloudflare, "example.com", &record).is_some());
    }
    let droplets = [("a", "nyc3"), ("b", "nyc3"), ("elsewhere", "fra1")];
    let [a, b, elsewhere] = droplets.map(|(name, region)| cloud.add_droplet(name, region));
    let mut command = Command::new(client);
    command
        .env("DIGITALOCEAN_API_URL", server.digitalocean_url())
        .env("DIGITALOCEAN_ACCESS_TOKEN", DO_TOKEN)
        .env("DIGITALOCEAN_ZONE", "example.com")
        .env("DROPLET_A", a.to_string())
        .env("DROPLET_B", b.to_string())
        .env("DROPLET_ELSEWHERE", elsewhere.to_string())
        .env("IPS", IPS.to_string())
        .env("CLOUDFLARE_API_URL", server.cloudflare_url())
        .env("CLOUDFLARE_TOKEN", CF_TOKEN)
        .env("CLOUDFLARE_READ_TOKEN", CF_READ_TOKEN)
        .env("CLOUDFLARE_ZONE", "example.com")
        .env("RECORDS", RECORDS.to_string());
    // The server has a thread of its own; this one may wait.
    let output = command.output().map_err(|error| format!("failed to run the clients: {error}"))?;
    server.stop().await;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}
