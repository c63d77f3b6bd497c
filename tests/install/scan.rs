//! Runs kube-score over the manifests. It may find only the exceptions below, and docs/operations/security.md has to
//! explain each of them.

use crate::tools::{Ran, needs, read, run};
use libtest_mimic::Trial;

/// A check that is left out, as the page names it, and the option that does it.
const EXCEPTIONS: [(&str, &[&str]); 4] = [
    ("container-resources", &["--ignore-container-cpu-limit"]),
    ("container-image-pull-policy", &["--ignore-test", "container-image-pull-policy"]),
    (
        "container-ephemeral-storage-request-and-limit",
        &["--ignore-test", "container-ephemeral-storage-request-and-limit"],
    ),
    ("deployment-has-host-podantiaffinity", &["--ignore-test", "deployment-has-host-podantiaffinity"]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let name = "scan::kube_score_finds_what_security_md_explains_and_nothing_else".to_owned();
    vec![needs("kube-score", &["version"], name, kube_score)]
}

/// Scores the manifests with the network policy, leaving these checks out.
fn score(exceptions: &[(&str, &[&str])]) -> Ran {
    let mut arguments = vec!["score", "--kubernetes-version", "v1.30", "--exit-one-on-warning"];
    arguments.extend(exceptions.iter().flat_map(|(_, options)| *options));
    arguments.extend(["-"]);
    let mut objects: Vec<String> = crate::objects::folder("k8s").values().map(ToString::to_string).collect();
    objects.push(read("kustomize/network-policy/networkpolicy.yaml"));
    run("kube-score", &arguments, &objects.join("\n---\n"))
}

fn kube_score() {
    let all = score(&EXCEPTIONS);
    assert!(all.success, "{}{}", all.stdout, all.stderr);
    assert!(all.stdout.contains("apps/v1/Deployment flipop"), "{}", all.stdout);
    let guide = read("docs/operations/security.md");
    for (index, (check, _)) in EXCEPTIONS.iter().enumerate() {
        assert!(guide.contains(&format!("| `{check}` |")), "security.md does not explain {check}");
        let mut others = EXCEPTIONS.to_vec();
        others.remove(index);
        assert!(!score(&others).success, "{check} is no finding: remove the exception");
    }
}
