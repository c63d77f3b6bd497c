//! The image, run as Kubernetes would: an empty root with the binary and a CA bundle, as a numeric user.
//!
//! Not part of `cargo test`: `ci/image.sh` builds the image and names it in `FLIPOP_IMAGE`. The operator runs in the
//! image against a real API server and, by host name over HTTPS, the simulated `DigitalOcean`. The latter's certificate
//! comes from an authority in no bundle. It is refused until `SSL_CERT_FILE` names the authority.
#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at once, and says how far it came"
)]

mod container;
mod tls_front;

use container::Container;
use flipop_cloud::{Cloud, CloudServer, Options, Provider};
use flipop_envtest::apiserver::ApiServer;
use flipop_envtest::assets::{self, Assets, Found};
use flipop_envtest::cluster::{Cluster, Kind, NAMESPACE, SERVICE_ACCOUNT};
use flipop_envtest::nodes::{NewNode, Nodes};
use flipop_envtest::operator::TOKEN;
use flipop_envtest::tls::Certificates;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tls_front::TlsFront;

/// A name that only the container's hosts file knows.
const HOST: &str = "digitalocean.test";

/// The folder with kubeconfig and authority in the container.
const MOUNT: &str = "/run/flipop";

/// The address that the operator is to assign.
const IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// From the start of the container to an assigned address.
const WORKS_WITHIN: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let outcome = image_name().and_then(|image| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(check(&image))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment of the test, not of the operator")]
fn image_name() -> Outcome<String> {
    std::env::var("FLIPOP_IMAGE").map_err(|_| Failure::new("set FLIPOP_IMAGE, or run ci/image.sh"))
}

async fn check(image: &str) -> Outcome {
    flipop_envtest::tls::install_provider();
    let configuration = container::configuration(image).await?;
    assert_eq!(configuration["User"], "65532:65532", "a numeric user, so that runAsNonRoot can be checked");
    assert_eq!(configuration["Cmd"], json!(["/app/flipop"]));
    assert!(
        configuration["Entrypoint"].is_null(),
        "args of existing Deployments would be added to an ENTRYPOINT"
    );
    println!("ok: CMD /app/flipop, no ENTRYPOINT, USER 65532:65532");

    let world = World::start().await?;
    let refused = Container::start(image, &world.folder, &world.operator(), &[]).await?;
    contents(&refused)?;
    eventually("the pool says that the certificate is not trusted", WORKS_WITHIN, || async {
        let status = world.cluster.get(Kind::Pool, "default", "p").await?["status"].to_string();
        if status.contains("certificate") {
            Ok(())
        } else {
            Err(Failure::new(format!("{status}\n{}", refused.log())))
        }
    })
    .await?;
    assert_eq!(world.cloud().calls(0).len(), 0, "a request was sent to a server that is not trusted");
    println!("ok: an unknown authority is refused, and nothing is sent");
    refused.terminate().await?;
    println!("ok: SIGTERM ends it with exit code 0");

    let authority = format!("SSL_CERT_FILE={MOUNT}/authority.pem");
    let trusted = Container::start(image, &world.folder, &world.operator(), &[&authority]).await?;
    eventually("the address is assigned", WORKS_WITHIN, || async {
        let place = world.cloud().ip(IP).and_then(|view| view.droplet);
        if place.is_some() { Ok(()) } else { Err(Failure::new(trusted.log())) }
    })
    .await?;
    assert_eq!(trusted.user()?, 65_532);
    println!("ok: with SSL_CERT_FILE it works, by host name, as user 65532");
    trusted.terminate().await
}

/// Checks that the image has these files and no others.
fn contents(container: &Container) -> Outcome {
    let mut files = container.files()?;
    files.sort();
    assert_eq!(files, ["app/flipop", "etc/ssl/certs/ca-certificates.crt"]);
    let size = fs::metadata(container.root().join("app/flipop"))?.len();
    println!("ok: nothing but the binary ({} KiB) and a CA bundle", size / 1024);
    Ok(())
}

/// A cluster with a pool and a node, and an account behind HTTPS.
struct World {
    _apiserver: ApiServer,
    cluster: Cluster,
    cloud: CloudServer,
    front: TlsFront,
    folder: PathBuf,
}

impl World {
    async fn start() -> Outcome<Self> {
        let apiserver = ApiServer::start(&assets()?).await?;
        let client = apiserver.client().await?;
        let cluster = Cluster::new(client.clone());
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s").display().to_string();
        cluster.install(&apiserver.kubectl()?, &manifests).await?;

        let cloud = CloudServer::start(Options::default()).await?;
        cloud.cloud().add_token(Provider::DigitalOcean, "operator", TOKEN, &["*"]);
        cloud.cloud().add_ip(Some(IP), "nyc3");
        let droplet = cloud.cloud().add_droplet("alpha", "nyc3");
        Nodes::new(client).create(&NewNode::new("alpha").droplet(droplet)).await?;
        let spec = json!({ "provider": "digitalocean", "ips": [IP.to_string()], "match": {} });
        cluster.create(Kind::Pool, "default", "p", &spec).await?;

        let certificates = Certificates::for_host(HOST)?;
        let folder = apiserver.folder().join("mount");
        fs::create_dir(&folder)?;
        fs::copy(apiserver.service_account(NAMESPACE, SERVICE_ACCOUNT).await?, folder.join("kubeconfig"))?;
        fs::write(folder.join("authority.pem"), &certificates.authority_pem)?;
        for name in ["", "kubeconfig", "authority.pem"] {
            // The container's user is not the user who runs the test.
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755))?;
        }
        let front = TlsFront::start(&certificates, &cloud.digitalocean_url()).await?;
        Ok(Self { _apiserver: apiserver, cluster, cloud, front, folder })
    }

    fn cloud(&self) -> &Cloud {
        self.cloud.cloud()
    }

    /// The operator's environment.
    fn operator(&self) -> Vec<String> {
        vec![
            format!("KUBECONFIG={MOUNT}/kubeconfig"),
            format!("DIGITALOCEAN_ACCESS_TOKEN={TOKEN}"),
            format!("DIGITALOCEAN_API_URL=https://{HOST}:{}/", self.front.port()),
        ]
    }
}

fn assets() -> Outcome<Assets> {
    match assets::find()? {
        Found::Assets(assets) => Ok(assets),
        Found::Nothing(reason) => Err(Failure::new(reason)),
    }
}
