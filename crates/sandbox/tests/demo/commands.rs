//! The program's own commands beside `cargo sandbox serve`.

use crate::serve::typed_to;
use flipop::config::Invocation;
use std::ffi::OsString;
use std::process::Command;

/// The arguments of a command, for this test as a child of itself.
const ARGUMENTS: &str = "FLIPOP_TEST_ARGUMENTS";

/// The output of a command.
fn flipop(kubeconfig: &str, arguments: &str) -> String {
    let name = "commands::status_and_check_ask_the_leader_and_the_api_server_as_in_a_cluster";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", name, "--nocapture"])
        .env(ARGUMENTS, format!("{arguments} --kubeconfig {kubeconfig}"));
    String::from_utf8(child.output().unwrap().stdout).unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test runs itself as a child")]
fn status_and_check_ask_the_leader_and_the_api_server_as_in_a_cluster() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let words = ["flipop"].into_iter().chain(arguments.split(' ')).map(OsString::from);
        let Ok(Invocation::Command(order)) = Invocation::from_parts(words, &|_| None) else {
            panic!("{arguments}")
        };
        std::process::exit(flipop::command::run(&order).code().into());
    }
    let mut server = typed_to();
    let kubeconfig = server.wait(&["kubeconfig: "]);
    let kubeconfig = kubeconfig.trim_start_matches("kubeconfig: ");
    server.wait(&["pool", "default/game-servers Ready=True"]);
    server.type_in("kill games-1");
    server.wait(&["account", "is on games-4, "]);
    let told = || flipop(kubeconfig, "status -A -o json");
    // The leader prints what it knows a moment later than the account does.
    let shown = std::iter::repeat_with(told).take(100).find(|shown| shown.contains("\"since\": ")).unwrap();
    assert!(shown.contains("\"pod\": \"flipop-1\"") && shown.contains("\"notes\": []"), "{shown}");
    let checked = flipop(kubeconfig, "check");
    for line in [
        "ok system:serviceaccount:flipop:flipop may patch nodes\n",
        "ok the admission policy flipop-node-annotation is there and bound\n",
        "ok flipop-1 leads\n",
    ] {
        assert!(checked.contains(line), "{line}{checked}");
    }
    assert!(!checked.contains("x  "), "{checked}");
    server.type_in("deny patch nodes");
    server.wait(&["DENY"]);
    let denied = flipop(kubeconfig, "check");
    assert!(denied.contains("x  system:serviceaccount:flipop:flipop may not patch nodes: "), "{denied}");
}
