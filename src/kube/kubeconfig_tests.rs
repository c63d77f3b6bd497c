//! The sources of the API server and the namespace, with files in a temporary folder.

use super::*;
use std::fs;
use tempfile::TempDir;

fn kubeconfig(server: &str, namespace: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: u, user: {{token: s3cret}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u{namespace}}}}}]\n"
    )
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// A folder like that of a service account, with `namespace` in it.
fn service_account(folder: &TempDir, namespace: &str) -> PathBuf {
    let authority = rcgen::generate_simple_self_signed(["kubernetes".to_owned()]).unwrap();
    write(folder, "sa/token", "s3cret");
    write(folder, "sa/ca.crt", &authority.cert.pem());
    write(folder, "sa/namespace", namespace);
    folder.path().join("sa")
}

fn namespace_of(settings: &ClusterSettings) -> String {
    resolve(settings, &Clock::system()).unwrap().namespace
}

#[test]
fn the_flag_goes_before_the_variable_and_that_before_the_home() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| write(&folder, name, &kubeconfig(&format!("https://{}:6443", &name[..4]), ""));
    let mut settings = ClusterSettings {
        kubeconfig: Some(file("flag")),
        kubeconfig_list: vec![folder.path().join("missing"), file("list"), file("more")],
        home: Some(folder.path().join("home")),
        ..ClusterSettings::default()
    };
    write(&folder, "home/.kube/config", &kubeconfig("https://home:6443", ""));
    let mut hosts = Vec::new();
    for _ in 0..3 {
        let cluster = resolve(&settings, &Clock::system()).unwrap();
        hosts.push(cluster.config.cluster_url.host().unwrap().to_owned());
        if settings.kubeconfig.take().is_none() {
            settings.kubeconfig_list.clear();
        }
    }
    assert_eq!(hosts, ["flag", "list", "home"]);
}

#[test]
fn the_namespace_is_the_context_s_then_the_variable_s_then_the_service_account_s_then_default() {
    let folder = TempDir::new().unwrap();
    let named = write(&folder, "named", &kubeconfig("https://a:1", "ctx"));
    let bare = write(&folder, "bare", &kubeconfig("https://a:1", ""));
    let mut settings = ClusterSettings {
        kubeconfig: Some(named),
        pod_namespace: Some("pod".to_owned()),
        service_account_dir: service_account(&folder, "sa\n"),
        ..ClusterSettings::default()
    };
    assert_eq!(namespace_of(&settings), "ctx");
    settings.kubeconfig = Some(bare);
    assert_eq!(namespace_of(&settings), "pod");
    settings.pod_namespace = None;
    assert_eq!(namespace_of(&settings), "sa");
    settings.service_account_dir = folder.path().join("nowhere");
    assert_eq!(namespace_of(&settings), "default");
}

#[test]
fn a_pod_uses_its_service_account_by_files_that_are_read_again() {
    let folder = TempDir::new().unwrap();
    let mut settings = ClusterSettings {
        home: Some(folder.path().to_owned()),
        service: Some(("fd00::1".to_owned(), "6443".to_owned())),
        service_account_dir: service_account(&folder, "flipop"),
        ..ClusterSettings::default()
    };
    let cluster = resolve(&settings, &Clock::system()).unwrap();
    assert_eq!(cluster.namespace, "flipop");
    assert_eq!(cluster.config.cluster_url.to_string(), "https://[fd00::1]:6443/");
    assert_eq!(cluster.token.unwrap().bearer().unwrap().header, "Bearer s3cret");
    assert!(cluster.config.root_cert_file.unwrap().ends_with("sa/ca.crt"));
    settings.service = None;
    assert!(matches!(resolve(&settings, &Clock::system()), Err(ClusterError::Nothing)));
}

#[test]
fn a_proxy_is_taken_from_the_kubeconfig_else_from_the_environment_unless_excluded() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "k", &kubeconfig("https://api.example:6443", ""));
    let mut settings = ClusterSettings {
        kubeconfig: Some(file),
        proxy: ProxySettings {
            https: Some(Proxy::parse("HTTPS_PROXY", "http://proxy:3128").unwrap()),
            ..ProxySettings::default()
        },
        ..ClusterSettings::default()
    };
    let proxy_of = |settings: &ClusterSettings| {
        resolve(settings, &Clock::system()).unwrap().config.proxy_url.map(|url| url.to_string())
    };
    assert_eq!(proxy_of(&settings).as_deref(), Some("http://proxy:3128/"));
    settings.proxy.no_proxy = Some("example".to_owned());
    assert_eq!(proxy_of(&settings), None);
    let own = kubeconfig("https://api.example:6443", "")
        .replace("cluster: {server", "cluster: {proxy-url: \"http://own:1\", server");
    settings.kubeconfig = Some(write(&folder, "own", &own));
    assert_eq!(proxy_of(&settings).as_deref(), Some("http://own:1/"));
}

#[test]
fn a_proxy_url_that_cannot_be_used_is_named_and_not_quoted() {
    let folder = TempDir::new().unwrap();
    for url in ["ftp://user:s3cret@proxy", "socks5h://user:s3cret@proxy"] {
        let own = kubeconfig("https://api.example:6443", "")
            .replace("cluster: {server", &format!("cluster: {{proxy-url: \"{url}\", server"));
        let file = Some(write(&folder, "k", &own));
        let found = resolve(&ClusterSettings { kubeconfig: file, ..Default::default() }, &Clock::system());
        let refused = found.unwrap_err().to_string();
        assert!(refused.contains("proxy-url") && !refused.contains("s3cret"), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_kubeconfig_is_named_and_not_quoted() {
    let folder = TempDir::new().unwrap();
    let good = kubeconfig("https://a:1", "");
    for (name, text) in [
        ("yaml", "clusters: [{token: s3cret\n - x"),
        ("type", "clusters: s3cret"),
        ("empty", ""),
        ("context", &good.replace("current-context: c", "current-context: other")),
        ("no-context", &good.replace("current-context: c", "")),
        ("cluster", &good.replace("cluster: k", "cluster: other")),
        ("url", &good.replace("https://a:1", "not a url")),
    ] {
        let path = write(&folder, name, text);
        let settings = ClusterSettings { kubeconfig: Some(path.clone()), ..ClusterSettings::default() };
        let error = resolve(&settings, &Clock::system()).expect_err(name).to_string();
        assert!(error.contains(path.to_str().unwrap()) && !error.contains("s3cret"), "{name}: {error}");
    }
    let missing = folder.path().join("missing");
    let settings = ClusterSettings { kubeconfig: Some(missing.clone()), ..ClusterSettings::default() };
    let error = resolve(&settings, &Clock::system()).expect_err("missing").to_string();
    assert!(error.contains(missing.to_str().unwrap()), "{error}");
}

#[test]
fn a_token_file_goes_before_a_token_and_may_end_in_a_new_line() {
    let folder = TempDir::new().unwrap();
    let token = write(&folder, "token", "s3cret\n");
    let user = format!("token: old, tokenFile: {}", token.display());
    let text = kubeconfig("https://a:1", "").replace("token: s3cret", &user);
    let file = write(&folder, "k", &text);
    let settings = ClusterSettings { kubeconfig: Some(file), ..ClusterSettings::default() };
    let cluster = resolve(&settings, &Clock::system()).unwrap();
    assert_eq!(cluster.token.unwrap().bearer().unwrap().header, "Bearer s3cret");
    assert!(cluster.config.auth_info.token.is_none());
}

#[test]
fn a_file_with_an_empty_context_leaves_it_to_the_next_one() {
    let folder = TempDir::new().unwrap();
    let empty = kubeconfig("https://a:1", "").replace("current-context: c", "current-context: \"\"");
    let list = vec![write(&folder, "empty", &empty), write(&folder, "full", &kubeconfig("https://b:1", ""))];
    let settings = ClusterSettings { kubeconfig_list: list, ..ClusterSettings::default() };
    assert!(resolve(&settings, &Clock::system()).is_ok());
}

/// Runs a test of this file in a separate process, with a malformed `NO_PROXY` like those that templates leave behind.
#[test]
fn a_no_proxy_with_empty_and_odd_entries_is_no_reason_to_end() {
    let test = "a_proxy_is_taken_from_the_kubeconfig_else_from_the_environment_unless_excluded";
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("kube::kubeconfig::tests::{test}")])
        .env("NO_PROXY", "a,,b c,[::1,10.0.0.0/99,")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn what_a_kubeconfig_says_of_its_cluster_and_user_is_all_taken() {
    let folder = TempDir::new().unwrap();
    let authority = rcgen::generate_simple_self_signed(["kubernetes".to_owned()]).unwrap();
    write(&folder, "ca.crt", &authority.cert.pem());
    let more =
        "cluster: {certificate-authority: ca.crt, tls-server-name: kubernetes, disable-compression: true";
    let text = kubeconfig("https://a:1", "n").replace("cluster: {server", &format!("{more}, server"));
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: c, provideClusterInfo: true}";
    for (user, told) in [("token: s3cret", false), (exec, true)] {
        let file = write(&folder, "k", &text.replace("token: s3cret", user));
        let settings = ClusterSettings { kubeconfig: Some(file), ..ClusterSettings::default() };
        let config = resolve(&settings, &Clock::system()).unwrap().config;
        assert_eq!(config.root_cert, Some(vec![authority.cert.der().to_vec()]));
        assert_eq!(config.tls_server_name.as_deref(), Some("kubernetes"));
        assert!(config.disable_compression && !config.accept_invalid_certs);
        assert_eq!(config.default_namespace, "n");
        assert_eq!(config.auth_info.token.is_some(), !told);
        let cluster = config.auth_info.exec.and_then(|exec| exec.cluster);
        assert_eq!(cluster.and_then(|cluster| cluster.server).is_some(), told);
    }
    // Otherwise no server would be trusted, and this one would look unreachable.
    write(&folder, "ca.crt", " -----BEGIN CERTIFICATE-----");
    let settings =
        ClusterSettings { kubeconfig: Some(write(&folder, "k", &text)), ..ClusterSettings::default() };
    let error = resolve(&settings, &Clock::system()).unwrap_err().to_string();
    assert!(error.contains("certificate authority of its cluster"), "{error}");
    let open = kubeconfig("https://a:1", "").replace("{server", "{insecure-skip-tls-verify: true, server");
    let file = write(&folder, "open", &open.replace("user: u", "user: nobody"));
    let settings = ClusterSettings { kubeconfig: Some(file), ..ClusterSettings::default() };
    let config = resolve(&settings, &Clock::system()).unwrap().config;
    assert!(config.accept_invalid_certs && config.root_cert.is_none() && config.auth_info.token.is_none());
}
