//! Runs kube-score over the manifests. It may find only the exceptions below. ci/README.md has to explain each of them,
//! and each of those that ci/checkov.sh makes.

use crate::tools::{Ran, needs, plain, read, run};
use libtest_mimic::Trial;
use std::collections::BTreeSet;

/// It explains each check that is left out.
const GUIDE: &str = "ci/README.md";

/// A check that is left out, as the page names it, and the options that leave it out.
type Exception = (&'static str, &'static [&'static str]);

const CPU_LIMIT: Exception = ("container-resources", &["--ignore-container-cpu-limit"]);
const PULL: Exception = ("container-image-pull-policy", &["--ignore-test", "container-image-pull-policy"]);
const STORAGE: Exception = (
    "container-ephemeral-storage-request-and-limit",
    &["--ignore-test", "container-ephemeral-storage-request-and-limit"],
);
const AFFINITY: Exception =
    ("deployment-has-host-podantiaffinity", &["--ignore-test", "deployment-has-host-podantiaffinity"]);
const NETWORK_POLICY: Exception = ("pod-networkpolicy", &["--ignore-test", "pod-networkpolicy"]);
const USER: Exception = (
    "container-security-context-user-group-id",
    &["--ignore-test", "container-security-context-user-group-id"],
);

/// Manifests that are scored together.
struct Scored {
    folder: &'static str,
    more: &'static [&'static str],
    /// The subjects of the score.
    workload: &'static str,
    exceptions: &'static [Exception],
}

const OPERATOR: Scored = Scored {
    folder: "k8s",
    more: &["kustomize/network-policy/networkpolicy.yaml"],
    workload: "apps/v1/Deployment flipop",
    exceptions: &[CPU_LIMIT, PULL, STORAGE, AFFINITY],
};

const AGENT: Scored = Scored {
    folder: "k8s/agent",
    more: &[],
    workload: "apps/v1/DaemonSet flipop-agent",
    exceptions: &[CPU_LIMIT, PULL, STORAGE, NETWORK_POLICY, USER],
};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        let name = format!("scan::kube_score_finds_what_the_guide_explains_and_nothing_else_of_the_{name}");
        needs("kube-score", &["version"], name, test)
    };
    vec![
        trial("operator", || scan(&OPERATOR)),
        trial("agent", || scan(&AGENT)),
        plain("scan::the_guide_explains_what_checkov_leaves_out_and_nothing_else", checkov),
    ]
}

fn checkov() {
    let checks = |text: &str| -> BTreeSet<String> {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        text.split(word).filter(|word| word.starts_with("CKV")).map(str::to_owned).collect()
    };
    let left_out = checks(&read("ci/checkov.sh"));
    assert!(left_out.len() > 8, "{left_out:?}");
    assert_eq!(left_out, checks(&read(GUIDE)));
}

impl Scored {
    /// Scores the manifests, leaving these checks out.
    fn without(&self, exceptions: &[Exception]) -> Ran {
        let mut arguments = vec!["score", "--kubernetes-version", "v1.30", "--exit-one-on-warning"];
        arguments.extend(exceptions.iter().flat_map(|(_, options)| *options));
        arguments.extend(["-"]);
        let mut objects: Vec<String> =
            crate::objects::folder(self.folder).values().map(ToString::to_string).collect();
        objects.extend(self.more.iter().map(|file| read(file)));
        run("kube-score", &arguments, &objects.join("\n---\n"))
    }
}

fn scan(scored: &Scored) {
    let all = scored.without(scored.exceptions);
    assert!(all.success, "{}{}", all.stdout, all.stderr);
    assert!(all.stdout.contains(scored.workload), "{}", all.stdout);
    let guide = read(GUIDE);
    for (index, (check, _)) in scored.exceptions.iter().enumerate() {
        assert!(guide.contains(&format!("| `{check}` |")), "{GUIDE} does not explain {check}");
        let mut others = scored.exceptions.to_vec();
        others.remove(index);
        assert!(!scored.without(&others).success, "{check} is no finding: remove the exception");
    }
}
