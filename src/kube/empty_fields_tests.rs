//! Each string field of a kubeconfig's cluster, user and context: absent, empty and set. The server demands the right
//! credential. The operator must send what kubectl sends, if kubectl is installed.

use crate::clock::Clock;
use crate::kube::client;
use crate::kube::kubeconfig::{ClusterSettings, resolve};
use crate::provider::install_tls;
use http::Request;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// The output of the plugin.
const PLUGIN: &str = r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {"token": "fromplugin"}}"#;

/// One entry of a kubeconfig with one field under test. `unset` is what the server sees if that field is absent or
/// empty, `set` if it has a value. An empty text means that the server is not reached.
struct Row {
    entry: &'static str,
    others: &'static str,
    field: &'static str,
    value: &'static str,
    unset: &'static str,
    set: Option<&'static str>,
}

const fn row(
    entry: &'static str,
    others: &'static str,
    (field, value): (&'static str, &'static str),
    unset: &'static str,
    set: Option<&'static str>,
) -> Row {
    Row { entry, others, field, value, unset, set }
}

const CERTIFICATE: &str = "client-certificate-data: CERTIFICATE, client-key-data: KEY, ";
const TOKEN: &str = "token: s3cret, ";
const SERVER: &str = "server: 'SERVER', ";
const CA: &str = "server: 'SERVER', certificate-authority-data: AUTHORITY, ";
/// kubectl refuses a certificate that is given twice, kube takes the data. Empty strings do not matter here.
const TWICE: Option<&str> = None;

fn table() -> Vec<Row> {
    let user = |others, field, unset, set| row("user", others, field, unset, Some(set));
    let cluster = |others, field, unset, set| row("cluster", others, field, unset, set);
    vec![
        user(CERTIFICATE, ("token", "s3cret"), "certificate", "certificate Bearer s3cret"),
        user(CERTIFICATE, ("tokenFile", "FOLDER/token"), "certificate", "certificate Bearer fromfile"),
        user(TOKEN, ("tokenFile", "FOLDER/token"), "Bearer s3cret", "Bearer fromfile"),
        user(CERTIFICATE, ("username", "ann"), "certificate", "certificate Basic YW5uOg=="),
        user(TOKEN, ("as", "bob"), "Bearer s3cret", "Bearer s3cret as bob"),
        user("username: ann, ", ("password", "p"), "Basic YW5uOg==", "Basic YW5uOnA="),
        user(CERTIFICATE, ("password", "p"), "certificate", "certificate"),
        user(
            "token: s3cret, client-key: FOLDER/key, ",
            ("client-certificate", "FOLDER/certificate"),
            "Bearer s3cret",
            "certificate Bearer s3cret",
        ),
        user("client-certificate: FOLDER/certificate, ", ("client-key", "FOLDER/key"), "", "certificate"),
        user(
            "token: s3cret, client-key-data: KEY, ",
            ("client-certificate-data", "CERTIFICATE"),
            "Bearer s3cret",
            "certificate Bearer s3cret",
        ),
        user("client-certificate-data: CERTIFICATE, ", ("client-key-data", "KEY"), "", "certificate"),
        row(
            "user",
            "client-certificate: FOLDER/certificate, client-key: FOLDER/key, client-key-data: '', ",
            ("client-certificate-data", "CERTIFICATE"),
            "certificate",
            TWICE,
        ),
        user("token: s3cret, as: bob, ", ("as-uid", "7"), "Bearer s3cret as bob", "Bearer s3cret as bob 7"),
        user("token: s3cret, as-uid: '7', ", ("as", "bob"), "", "Bearer s3cret as bob 7"),
        user("EXEC", ("command", "cat"), "", "Bearer fromplugin"),
        cluster("certificate-authority-data: AUTHORITY, ", ("server", "SERVER"), "", Some("Bearer s3cret")),
        cluster(SERVER, ("certificate-authority", "FOLDER/authority"), "", Some("Bearer s3cret")),
        cluster(SERVER, ("certificate-authority-data", "AUTHORITY"), "", Some("Bearer s3cret")),
        cluster(
            "server: 'SERVER', insecure-skip-tls-verify: true, ",
            ("certificate-authority", "FOLDER/authority"),
            "Bearer s3cret",
            TWICE,
        ),
        cluster(
            "server: 'SERVER', certificate-authority: FOLDER/authority, ",
            ("certificate-authority-data", "AUTHORITY"),
            "Bearer s3cret",
            TWICE,
        ),
        cluster(CA, ("proxy-url", "http://127.0.0.1:1"), "Bearer s3cret", Some("")),
        cluster(
            CA,
            ("tls-server-name", "other.example"),
            "Bearer s3cret",
            Some("for other.example Bearer s3cret"),
        ),
        row("context", "user: u, ", ("cluster", "c"), "", Some("Bearer s3cret")),
        row("context", "cluster: c, user: u, ", ("namespace", "n"), "Bearer s3cret", Some("Bearer s3cret")),
        row("context", "cluster: c, ", ("user", "u"), "nobody", Some("Bearer s3cret")),
    ]
}

/// The certificates and files that the rows name in capitals.
struct Scene {
    folder: TempDir,
    authority: Issuer,
    certificate: String,
    key: String,
    server: Server,
}

impl Scene {
    async fn new() -> Self {
        install_tls();
        let folder = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "a test's authority");
        let authority = Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        let server = Server::start(&authority).await;
        let scene = Self { folder, authority, certificate, key: key.serialize_pem(), server };
        for (name, text) in [
            ("authority", scene.authority.pem()),
            ("certificate", scene.certificate.clone()),
            ("key", scene.key.clone()),
            ("token", "fromfile\n".to_owned()),
            ("plugin", PLUGIN.to_owned()),
        ] {
            fs::write(scene.path(name), text).unwrap();
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A kubeconfig with `fields` in `entry`. The other entries hold what the server demands.
    fn kubeconfig(&self, entry: &str, fields: &str) -> PathBuf {
        let of = |name: &str, usual: &str| if name == entry { fields.to_owned() } else { usual.to_owned() };
        let user = of("user", TOKEN);
        let user = match user.strip_prefix("EXEC") {
            Some(command) => format!(
                "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
                 args: ['{}'], {command}}}",
                self.path("plugin").display()
            ),
            None => user,
        };
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
             clusters: [{{name: c, cluster: {{{}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{{}}}}}]\n",
            of("cluster", CA),
            of("context", "cluster: c, user: u"),
        );
        self.write(&text)
    }

    fn write(&self, text: &str) -> PathBuf {
        let text = text
            .replace("SERVER", &format!("https://127.0.0.1:{}", self.server.port))
            .replace("AUTHORITY", &base64(&self.authority.pem()))
            .replace("CERTIFICATE", &base64(&self.certificate))
            .replace("KEY", &base64(&self.key))
            .replace("FOLDER/", "");
        let path = self.path("kubeconfig");
        fs::write(&path, text).unwrap();
        path
    }

    /// The request that the server sees from the operator. Empty if the operator does not reach it.
    async fn operator(&self, kubeconfig: &Path) -> String {
        let settings =
            ClusterSettings { kubeconfig: Some(kubeconfig.to_owned()), ..ClusterSettings::default() };
        let Ok(cluster) = resolve(&settings, &Clock::system()) else { return String::new() };
        let Ok(client) = client::requests(&cluster, None) else { return String::new() };
        let request = Request::get("/version").body(Vec::new()).unwrap();
        let answer = client.request::<serde_json::Value>(request).await;
        let shown = self.server.take();
        assert_eq!(answer.is_ok(), is_accepted(&shown), "{shown}: {answer:?}");
        shown
    }

    /// The request that the server sees from kubectl.
    async fn kubectl(&self, kubeconfig: &Path) -> String {
        let mut command = tokio::process::Command::new("kubectl");
        command.args(["get", "--raw", "/version", "--kubeconfig"]).arg(kubeconfig);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let shown = self.server.take();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_accepted(&shown), "{shown}: {said}");
        shown
    }
}

/// Output as from `base64`, without line breaks.
fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits =
            chunk.iter().chain([0, 0].iter()).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for digit in 0..4 {
            let letter = DIGITS[bits >> (18 - 6 * digit) & 63];
            encoded.push(if digit > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    encoded
}

/// A wrong credential is refused, whatever comes with it. So is a missing one.
fn is_accepted(shown: &str) -> bool {
    let known = ["Bearer s3cret", "Bearer fromfile", "Bearer fromplugin", "Basic YW5uOg==", "Basic YW5uOnA="];
    known.iter().any(|known| shown.contains(known)) || shown == "certificate"
}

/// A TLS server that records the last credentials it saw.
struct Server {
    port: u16,
    shown: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(authority: &Issuer) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), "other.example".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, authority).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
        let config = rustls::ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shown: Arc<Mutex<String>> = Arc::default();
        let seen = Arc::clone(&shown);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(answer(stream, acceptor.clone(), Arc::clone(&seen)));
            }
        });
        Self { port, shown, _tasks: tasks }
    }

    fn take(&self) -> String {
        std::mem::take(&mut self.shown.lock().unwrap())
    }
}

async fn answer(stream: TcpStream, acceptor: TlsAcceptor, seen: Arc<Mutex<String>>) {
    // A client that does not trust the server hangs up.
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
        line.map(|line| line[name.len() + 1..].trim().to_owned())
    };
    let (_, tls) = stream.get_ref();
    let shown = [
        tls.server_name().map(|name| format!("for {name}")),
        tls.peer_certificates().map(|_| "certificate".to_owned()),
        header("authorization"),
        header("impersonate-user").map(|name| format!("as {name}")),
        header("impersonate-uid"),
    ];
    let shown = shown.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let shown = if shown.is_empty() { "nobody".to_owned() } else { shown };
    let status = if is_accepted(&shown) { "200 OK" } else { "401 Unauthorized" };
    *seen.lock().unwrap() = shown;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Whether `kubectl` is on the path.
fn has_kubectl() -> bool {
    std::process::Command::new("kubectl").args(["version", "--client"]).output().is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_string_in_a_kubeconfig_is_a_field_that_is_left_out() {
    let scene = Scene::new().await;
    let kubectl = has_kubectl();
    let mut wrong = Vec::new();
    for row in table() {
        let value = |value: &str| format!("{}{}: '{value}'", row.others, row.field);
        let forms = [
            (row.others.to_owned(), Some(row.unset)),
            (value(""), Some(row.unset)),
            (value(row.value), row.set),
        ];
        for (fields, expected) in forms {
            let Some(expected) = expected else { continue };
            let file = scene.kubeconfig(row.entry, &fields);
            let mut check = |who: &str, shown: String| {
                if shown != expected {
                    wrong.push(format!("{who} with {} {{{fields}}}: {shown:?}, not {expected:?}", row.entry));
                }
            };
            check("operator", scene.operator(&file).await);
            if kubectl {
                check("kubectl", scene.kubectl(&file).await);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base64_in_a_kubeconfig_may_be_broken_into_lines() {
    let scene = Scene::new().await;
    let wrapped = |text: &str| {
        let text = base64(text);
        let lines: Vec<&str> = text.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
        format!("|\n        {}\n", lines.join("\n        "))
    };
    let file = scene.write(&format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         clusters:\n- name: c\n  cluster:\n    server: SERVER\n    certificate-authority-data: {}\
         users:\n- name: u\n  user:\n    client-certificate-data: {}    client-key-data: {}",
        wrapped(&scene.authority.pem()),
        wrapped(&scene.certificate),
        wrapped(&scene.key),
    ));
    assert_eq!(scene.operator(&file).await, "certificate");
    if has_kubectl() {
        assert_eq!(scene.kubectl(&file).await, "certificate");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_namespace_of_a_context_leaves_it_to_the_pod() {
    let scene = Scene::new().await;
    let file = scene.kubeconfig("context", "cluster: c, user: u, namespace: ''");
    let settings = ClusterSettings {
        kubeconfig: Some(file),
        pod_namespace: Some("pod".to_owned()),
        ..ClusterSettings::default()
    };
    assert_eq!(resolve(&settings, &Clock::system()).unwrap().namespace, "pod");
}
