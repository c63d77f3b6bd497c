//! Missing rights: each verb of each rule in turn. The failing part is named, the rest goes on, and work resumes by
//! itself with the right. Also a service account token that is replaced at runtime.

use crate::dns::{Name, externals, set_spec};
use crate::suite::{Case, cases};
use crate::team::holder;
use crate::world::{Object, REGION, SOON, World, binary, ip, plain_spec, same};
use flipop_cloud::Provider;
use flipop_envtest::apiserver::connect;
use flipop_envtest::cluster::{Cluster, Kind, NAMESPACE, SERVICE_ACCOUNT};
use flipop_envtest::operator::{Launch, Operator};
use flipop_envtest::wait::{eventually, throughout};
use flipop_envtest::{Failure, Outcome};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A forbidden watch's longest backoff after it is allowed again, on a loaded machine.
const RESUMED: Duration = Duration::from_secs(20);

/// A forbidden write is retried after a minute.
const SLOW_RETRY: Duration = Duration::from_secs(75);

/// A token file is read again within a minute. The rest is for the first call with the new token.
const REREAD: Duration = Duration::from_secs(70);

pub(crate) fn cases() -> Vec<Case> {
    cases![InstalledForOne:
        each_list_that_is_forbidden_is_named_and_nothing_is_done_without_it,
        each_watch_that_is_forbidden_is_named_and_lists_replace_it_meanwhile,
        each_right_to_the_lease_that_is_missing_is_named_and_nobody_acts_without_it,
        statuses_that_may_not_be_written_stop_purchases_and_nothing_else,
        created_addresses_that_may_not_be_written_into_the_spec_are_remembered_and_written_later,
        a_token_that_was_exchanged_in_its_file_is_taken_up_without_a_restart,
    ]
}

/// A role of the operator, as installed.
struct Role<'a> {
    world: &'a World,
    path: Vec<&'static str>,
    rules: Value,
}

impl<'a> Role<'a> {
    async fn cluster(world: &'a World) -> Outcome<Self> {
        Self::read(world, vec!["clusterrole", "flipop"]).await
    }

    async fn namespaced(world: &'a World) -> Outcome<Self> {
        Self::read(world, vec!["role", "flipop", "-n", NAMESPACE]).await
    }

    async fn read(world: &'a World, path: Vec<&'static str>) -> Outcome<Self> {
        let arguments = [&["get"][..], path.as_slice(), &["-o", "json"]].concat();
        let role: Value = serde_json::from_str(&world.kubectl.run(&arguments).await?.stdout)?;
        Ok(Self { world, path, rules: role["rules"].clone() })
    }

    /// Removes verbs on resources, and nothing else.
    async fn without(&self, missing: &[(&str, &str)]) -> Outcome {
        let mut rules = Vec::new();
        for rule in self.rules.as_array().into_iter().flatten() {
            // One rule per resource, so that a rule's other resources keep the verb.
            for resource in rule["resources"].as_array().into_iter().flatten() {
                let mut rule = rule.clone();
                rule["resources"] = json!([resource]);
                if let Some(verbs) = rule["verbs"].as_array_mut() {
                    verbs.retain(|verb| !missing.iter().any(|(name, of)| resource == name && verb == of));
                }
                if rule["verbs"] != json!([]) {
                    rules.push(rule);
                }
            }
        }
        self.put(&json!(rules)).await
    }

    async fn restore(&self) -> Outcome {
        self.put(&self.rules).await
    }

    async fn put(&self, rules: &Value) -> Outcome {
        let patch = json!({ "rules": rules }).to_string();
        let arguments = [&["patch"][..], self.path.as_slice(), &["--type=merge", "-p", &patch]].concat();
        self.world.kubectl.run(&arguments).await.map(drop)
    }
}

/// Waits until `/readyz` is unhealthy and contains all of these words.
async fn is_not_ready(operator: &Operator, words: &[&str]) -> Outcome {
    eventually(&format!("/readyz says {words:?}"), SOON, || async {
        match operator.get("/readyz").await? {
            (503, why) if why.lines().any(|line| words.iter().all(|word| line.contains(word))) => Ok(()),
            (status, why) => Err(Failure::new(format!("{status}: {why}"))),
        }
    })
    .await
}

async fn is_ready(operator: &Operator) -> Outcome {
    eventually("/readyz is well", RESUMED, || async {
        match operator.get("/readyz").await? {
            (200, _) => Ok(()),
            (status, why) => Err(Failure::new(format!("{status}: {why}"))),
        }
    })
    .await
}

async fn warns(operator: &Operator, words: &[&str]) -> Outcome {
    eventually(&format!("a warning says {words:?}"), SOON, || async {
        let log = operator.log();
        let says = |line: &str| line.contains("WARN") && words.iter().all(|word| line.contains(word));
        if log.lines().any(says) { Ok(()) } else { Err(Failure::new(operator.log_tail())) }
    })
    .await
}

/// A pool that asks for nodes and pods. alpha has a pod and beta has none. Returns alpha's droplet.
async fn stage(world: &World) -> Outcome<u64> {
    world.reserve(&[10]);
    let alpha = world.node("alpha").await?;
    world.node("beta").await?;
    world.pod("web-0", "alpha").await?;
    let mut spec = plain_spec(&[10]);
    spec["match"]["podNamespace"] = json!("web");
    spec["match"]["podLabel"] = json!("app=web");
    world.pool("p", &spec).await?;
    Ok(alpha)
}

/// Waits until the address is on this droplet.
async fn lands_on(world: &World, droplet: u64, timeout: Duration) -> Outcome {
    eventually(&format!("the address is on {droplet}"), timeout, || async {
        same(world.cloud().ip(ip(10)).and_then(|view| view.droplet), Some(droplet)).map_err(Failure::new)
    })
    .await
}

const WATCHED: [&str; 4] = ["nodes", "pods", "floatingippools", "nodednsrecordsets"];

async fn each_list_that_is_forbidden_is_named_and_nothing_is_done_without_it(world: &mut World) -> Outcome {
    let world = &*world;
    let alpha = stage(world).await?;
    let role = Role::cluster(world).await?;
    for resource in WATCHED {
        // Creates work to do.
        world.cloud().move_ip(ip(10), None)?;
        let calls = world.cloud().next_call();
        role.without(&[(resource, "list")]).await?;
        let mut operator = world.operator().await?;
        is_not_ready(&operator, &["may not list", resource]).await?;
        warns(&operator, &["may not list", resource]).await?;
        assert_eq!(world.mutating_calls(calls), [], "nothing is decided without the {resource}");
        assert_eq!(operator.get("/healthz").await?.0, 200);
        role.restore().await?;
        is_ready(&operator).await?;
        lands_on(world, alpha, RESUMED).await?;
        assert!(operator.terminate().await?.success());
    }
    Ok(())
}

async fn each_watch_that_is_forbidden_is_named_and_lists_replace_it_meanwhile(world: &mut World) -> Outcome {
    let world = &*world;
    let alpha = stage(world).await?;
    let role = Role::cluster(world).await?;
    role.without(&WATCHED.map(|resource| (resource, "watch"))).await?;
    let operator = world.operator().await?;
    lands_on(world, alpha, SOON).await?;
    for resource in WATCHED {
        is_not_ready(&operator, &["may not watch", resource]).await?;
        warns(&operator, &["may not watch", resource]).await?;
    }
    // A change of a pod, of a node, and of a pool.
    world.pod("web-1", "beta").await?;
    world.nodes.delete_pod("web", "web-0").await?;
    world.pool_settles_within("p", &[(10, "beta")], RESUMED).await?;
    world.pod("web-2", "alpha").await?;
    world.nodes.set_ready("beta", false).await?;
    lands_on(world, alpha, RESUMED).await?;
    world.reserve(&[11]);
    let mut spec = plain_spec(&[11]);
    spec["match"]["nodeLabel"] = json!("only=q");
    let gamma = world.node_with("gamma", |node| node.label("only", "q")).await?;
    world.pool("q", &spec).await?;
    world.pool_settles_within("q", &[(11, "gamma")], RESUMED).await?;
    assert_eq!(world.assigns(0).iter().filter(|(_, droplet)| *droplet == gamma).count(), 1);
    role.restore().await?;
    is_ready(&operator).await
}

/// Waits until an operator leads.
async fn leads(world: &World) -> Outcome {
    eventually("somebody leads", RESUMED, || holder(world)).await.map(drop)
}

async fn each_right_to_the_lease_that_is_missing_is_named_and_nobody_acts_without_it(
    world: &mut World,
) -> Outcome {
    let world = &*world;
    let alpha = stage(world).await?;
    let role = Role::namespaced(world).await?;
    for verb in ["get", "create"] {
        world.cloud().move_ip(ip(10), None)?;
        let calls = world.cloud().next_call();
        world.cluster.delete_lease().await?;
        role.without(&[("leases", verb)]).await?;
        let mut operator = world.operator().await?;
        warns(&operator, &["lease", &format!("cannot {verb}")]).await?;
        is_not_ready(&operator, &["the lease has not been read yet"]).await?;
        assert_eq!(world.cloud().calls(calls), [], "a process that does not lead calls no provider");
        role.restore().await?;
        leads(world).await?;
        lands_on(world, alpha, SOON).await?;
        assert!(operator.terminate().await?.success());
    }
    // Without a watch of the lease, only takeovers are slower.
    role.without(&[("leases", "watch")]).await?;
    let mut operator = world.operator().await?;
    leads(world).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    role.without(&[("leases", "update")]).await?;
    warns(&operator, &["could not renew the lease", "cannot update"]).await?;
    let calls = world.cloud().next_call();
    // A move to beta is due at once.
    world.pod("web-1", "beta").await?;
    world.nodes.delete_pod("web", "web-0").await?;
    throughout("no permit, no write", Duration::from_secs(3), || async {
        same(world.mutating_calls(calls).as_slice(), &[]).map_err(Failure::new)
    })
    .await?;
    assert!(operator.runs()?, "{}", operator.log_tail());
    role.restore().await?;
    world.pool_settles("p", &[(10, "beta")]).await
}

async fn statuses_that_may_not_be_written_stop_purchases_and_nothing_else(world: &mut World) -> Outcome {
    let world = &*world;
    let alpha = stage(world).await?;
    let name = Name::new(Provider::DigitalOcean, "www");
    world.zones();
    world.public_node("delta", 4).await?;
    world.node_with("gamma", |node| node.label("only", "c")).await?;
    let role = Role::cluster(world).await?;
    role.without(&[("floatingippools/status", "update"), ("nodednsrecordsets/status", "update")]).await?;
    let operator = world.operator().await?;
    world.pool("c", &bought()).await?;
    world.record_set("s", &set_spec(Provider::DigitalOcean, "www")).await?;
    lands_on(world, alpha, SOON).await?;
    world.name_has(&name, &externals(&[4])).await?;
    for resource in ["floatingippools/status", "nodednsrecordsets/status"] {
        warns(&operator, &["may not update", resource]).await?;
    }
    assert_eq!(world.cloud().ips().len(), 1, "nothing is bought that could not be remembered");
    role.restore().await?;
    world.pool_settles_within("p", &[(10, "alpha")], SLOW_RETRY).await?;
    let of_gamma = |pool: &Object| same(pool.active().into_values().collect(), vec!["gamma".to_owned()]);
    world.pool_shows("c", "its address is bought and given out", SLOW_RETRY, of_gamma).await?;
    world
        .set_shows("s", "its status is written", SLOW_RETRY, |set| {
            set.is_current()?;
            same(set.names("addresses"), externals(&[4]))
        })
        .await?;
    assert_eq!(world.cloud().ips().len(), 2);
    Ok(())
}

/// A pool that buys one address for gamma.
fn bought() -> Value {
    json!({ "provider": "digitalocean", "region": REGION, "desiredIPs": 1, "match": { "nodeLabel": "only=c" } })
}

async fn created_addresses_that_may_not_be_written_into_the_spec_are_remembered_and_written_later(
    world: &mut World,
) -> Outcome {
    let world = &*world;
    let role = Role::cluster(world).await?;
    role.without(&[("floatingippools", "update")]).await?;
    world.node_with("gamma", |node| node.label("only", "c")).await?;
    let mut operator = world.operator().await?;
    world.pool("c", &bought()).await?;
    let of_gamma = |pool: &Object| same(pool.active().into_values().collect(), vec!["gamma".to_owned()]);
    world.pool_shows("c", "its address is bought and given out", SOON, of_gamma).await?;
    warns(&operator, &["may not update", "floatingippools.flipop"]).await?;
    // Another process knows the address from the status alone.
    assert!(operator.terminate().await?.success());
    let operator = world.operator().await?;
    warns(&operator, &["may not update", "floatingippools.flipop"]).await?;
    assert_eq!(world.get_pool("c").await?.spec_ips(), Vec::<String>::new());
    role.restore().await?;
    world
        .pool_shows("c", "the address is in its spec", SLOW_RETRY, |pool| same(pool.spec_ips().len(), 1))
        .await?;
    assert_eq!(world.cloud().ips().len(), 1, "one was asked for, one was bought");
    Ok(())
}

/// A service account token that is valid as long as a secret exists.
async fn token_bound_to(world: &World, secret: &str) -> Outcome<String> {
    let client = world.server.client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let new: Secret = serde_json::from_value(json!({ "metadata": { "name": secret } }))?;
    let uid = secrets.create(&PostParams::default(), &new).await?.metadata.uid;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Secret".to_owned()),
        name: Some(secret.to_owned()),
        uid,
    };
    let spec = TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
    let wanted = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(SERVICE_ACCOUNT, &PostParams::default(), &wanted).await?;
    Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
}

async fn end_token_bound_to(world: &World, secret: &str) -> Outcome {
    let secrets: Api<Secret> = Api::namespaced(world.server.client().await?, NAMESPACE);
    Ok(secrets.delete(secret, &DeleteParams::default()).await.map(drop)?)
}

async fn a_token_that_was_exchanged_in_its_file_is_taken_up_without_a_restart(world: &mut World) -> Outcome {
    let world = &*world;
    stage(world).await?;
    world.pod("web-1", "beta").await?;
    let (token, kubeconfig) =
        (world.server.folder().join("token"), world.server.folder().join("token.kubeconfig"));
    let first = token_bound_to(world, "first").await?;
    fs::write(&token, &first)?;
    let mut content: Value = serde_json::from_slice(&fs::read(world.operator_kubeconfig().await?)?)?;
    content["users"][0]["user"] = json!({ "tokenFile": token });
    fs::write(&kubeconfig, content.to_string())?;
    let mut operator = world.start(&Launch::new(binary(), &kubeconfig, &world.digitalocean_url())?).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let identity = holder(world).await?;
    let second = token_bound_to(world, "second").await?;
    fs::write(&token, &second)?;
    end_token_bound_to(world, "first").await?;
    // From now on its requests are refused until it reads the file again.
    is_refused(&content, &first, world.server.folder()).await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles_within("p", &[(10, "beta")], REREAD).await?;
    assert_eq!(holder(world).await?, identity);
    assert!(operator.runs()?);
    let log = operator.log();
    assert!(!log.contains(&first) && !log.contains(&second), "a token is in the log");
    end_token_bound_to(world, "second").await
}

/// The API server notices a token's end after some seconds.
async fn is_refused(content: &Value, token: &str, folder: &Path) -> Outcome {
    let path = folder.join("refused.kubeconfig");
    let mut content = content.clone();
    content["users"][0]["user"] = json!({ "token": token });
    fs::write(&path, content.to_string())?;
    let cluster = Cluster::new(connect(&path).await?);
    eventually("the old token is refused", RESUMED, || async {
        match cluster.list(Kind::Pool).await {
            Ok(_) => Err(Failure::new("it is accepted")),
            Err(failure) if failure.to_string().contains("Unauthorized") => Ok(()),
            Err(failure) => Err(failure),
        }
    })
    .await
}
