//! Carries out terminal commands in the simulated cluster and the simulated accounts.

use super::commands::{Command, HELP};
use super::machines::MARKED_AFTER;
use super::pools::{self, API_VERSION, POOL_KIND, RECORD_SET_KIND};
use super::stage::TOKEN_NAME;
use super::story::Story;
use super::{DemoError, pods, sets, summary};
use flipop_apiserver::{Key, Readiness, ScenarioError};
use flipop_cloud::{Fault, Injection, InjectionId, Provider, Target};
use flipop_core::addresses::pool::manual_move::result::MOVE_ANNOTATION;
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_simulation::furnish::NAMESPACE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

/// The operator's lease.
const LEASE: &str = "floating-ip-pool-controller-leader-election";

/// Effects that last until they are ended.
#[derive(Debug, Default)]
pub(super) struct Levers {
    throttle: Option<(InjectionId, Instant)>,
    dns: Vec<InjectionId>,
    /// The fault of providers that are down.
    providers: Option<InjectionId>,
    /// The number of requests to move an address.
    asked: u64,
    /// Nodes whose machine has failed, and when Kubernetes notices.
    crashed: BTreeMap<String, Instant>,
}

impl Levers {
    /// When the throttling ends, or Kubernetes notices that a machine has failed.
    pub(super) fn next(&self) -> Option<Instant> {
        let throttle = self.throttle.map(|(_, end)| end);
        throttle.into_iter().chain(self.crashed.values().copied()).min()
    }

    /// Whether the providers answer.
    pub(super) fn providers_up(&self) -> bool {
        self.providers.is_none()
    }

    /// Ends the throttling if it is over, and marks the nodes of failed machines.
    pub(super) fn turn(&mut self, story: &mut Story, now: Instant) {
        if self.throttle.is_some_and(|(_, end)| end <= now) {
            self.throttle(story, None, now);
        }
        for (node, _) in self.crashed.extract_if(.., |_, at| *at <= now) {
            story.say(&format!("Kubernetes marks {node} NotReady"));
            if let Err(error) = story.stage.api.set_node_ready(&node, Readiness::Unknown) {
                story.complain(&error.to_string());
            }
        }
    }

    /// Carries out a command. `Ok(true)` ends the sandbox.
    ///
    /// # Errors
    /// If the simulated cluster refuses it.
    pub(super) fn act(&mut self, story: &mut Story, command: &Command) -> Result<bool, DemoError> {
        if let Command::Kill(node)
        | Command::Crash(node)
        | Command::Drain(node)
        | Command::Heal(node)
        | Command::Add(node)
        | Command::Ask(_, node)
        | Command::Move(_, Some(node)) = command
            && !is_node(story, node)
        {
            return Ok(false);
        }
        match command {
            Command::Help => help(story),
            Command::Show => summary::show(story),
            Command::Kill(node) => kill(story, node)?,
            Command::Crash(node) => self.crash(story, node, Instant::now()),
            Command::Drain(node) => drain(story, node)?,
            Command::Heal(node) => {
                self.crashed.remove(node);
                story.stage.machines.set_alive(node, true);
                heal(story, node)?;
            }
            Command::Add(node) => add(story, node)?,
            Command::Quota(number) => {
                story.stage.cloud.cloud().tune(|knobs| knobs.reserved_ip_quota = *number);
                story.say(&format!("QUOTA: the account may have {number} reserved IPs"));
            }
            Command::Token(good, provider) => token(story, *good, *provider),
            Command::Throttle(seconds) => self.throttle(story, *seconds, Instant::now()),
            Command::Dns(up) => self.dns(story, *up),
            Command::Providers(up) => self.providers(story, *up),
            Command::Deny(verb, resource) => {
                story.stage.access.deny(verb, resource);
                // An open watch is not authorized again.
                story.stage.front.cut_watches();
                story.say(&format!("DENY: the API server does not let the operator {verb} {resource}"));
            }
            Command::Allow => {
                story.stage.access.allow_all();
                story.say("ALLOW: the operator may do everything again");
            }
            Command::Move(ip, node) => shift(story, *ip, node.as_deref()),
            Command::Pause(name, text) => pause(story, name, Some(text))?,
            Command::Resume(name) => pause(story, name, None)?,
            Command::Ask(ip, node) => self.ask(story, *ip, node)?,
            Command::Lease => take_lease(story)?,
            Command::Quit => return Ok(true),
        }
        Ok(false)
    }

    fn crash(&mut self, story: &mut Story, node: &str, now: Instant) {
        if story.stage.machines.set_alive(node, false) {
            self.crashed.insert(node.to_owned(), now + MARKED_AFTER);
            let text = "its machine has failed; Kubernetes marks the node NotReady in 40 s, and node checks notice \
                        sooner";
            story.say(&format!("CRASH {node}: {text}"));
        } else {
            let text = "has no machine that could die: this computer has no loopback address for it";
            story.complain(&format!("{node} {text}"));
        }
    }

    /// Sets the annotation on the pool that names the address, each time with another text after `#`.
    fn ask(&mut self, story: &mut Story, ip: Ipv4Addr, node: &str) -> Result<(), ScenarioError> {
        let api = story.stage.api.clone();
        let names = |pool: &Value| pool.pointer(&format!("/status/ips/{ip}")).is_some();
        let Some(pool) = api.objects(API_VERSION, POOL_KIND).into_iter().find(names) else {
            story.complain(&format!("no pool has {ip}"));
            return Ok(());
        };
        self.asked += 1;
        let request = format!("{ip}={node}#{}", self.asked);
        let key = pools::key(&pool);
        let patch = json!({ "metadata": { "annotations": { MOVE_ANNOTATION: request } } });
        api.patch_object((API_VERSION, POOL_KIND), &key, "", patch, "sandbox")?;
        let name = &key.name;
        story.say(&format!("ASK: pool {name} is annotated {MOVE_ANNOTATION}={request}"));
        Ok(())
    }

    fn throttle(&mut self, story: &mut Story, seconds: Option<u64>, now: Instant) {
        let cloud = story.stage.cloud.cloud().clone();
        let before = self.throttle.take();
        if let Some((id, _)) = before {
            cloud.withdraw(id);
        }
        match seconds {
            Some(seconds) => {
                let fault = Fault::Throttle { retry_after_s: Some(seconds) };
                let id = cloud.inject(Injection::always(Target::any(), fault));
                self.throttle = Some((id, now + Duration::from_secs(seconds)));
                story.say(&format!("THROTTLE: both providers answer 429, retry after {seconds} s"));
            }
            None if before.is_some() => story.say("THROTTLE is over: both providers answer"),
            None => story.say("nothing was throttled"),
        }
    }

    fn dns(&mut self, story: &mut Story, up: bool) {
        let cloud = story.stage.cloud.cloud().clone();
        for id in self.dns.drain(..) {
            cloud.withdraw(id);
        }
        if up {
            story.say("DNS is up: both providers answer calls about records");
            return;
        }
        let domains = Target { path_prefix: Some("/v2/domains".to_owned()), ..Target::any() };
        for target in [domains.of(Provider::DigitalOcean), Target::provider(Provider::Cloudflare)] {
            self.dns.push(cloud.inject(Injection::always(target, Fault::status(503))));
        }
        story.say("DNS is down: both providers answer 503 to calls about records");
    }

    fn providers(&mut self, story: &mut Story, up: bool) {
        let cloud = story.stage.cloud.cloud().clone();
        if let Some(id) = self.providers.take() {
            cloud.withdraw(id);
        }
        if up {
            story.say("PROVIDERS are up: both answer");
        } else {
            self.providers = Some(cloud.inject(Injection::always(Target::any(), Fault::status(503))));
            story.say("PROVIDERS are down: both answer 503 to every call");
        }
    }
}

fn add(story: &mut Story, like: &str) -> Result<(), ScenarioError> {
    match story.stage.add_node_like(like)? {
        Some(name) => story.say(&format!("ADD {name}: a node like {like}")),
        None => story.complain(&format!("the sandbox did not make {like}, and cannot copy it")),
    }
    Ok(())
}

fn is_node(story: &mut Story, node: &str) -> bool {
    let exists = story.stage.api.object("v1", "Node", &Key::new("", node)).is_some();
    if !exists {
        let nodes = story.stage.api.objects("v1", "Node");
        let names: Vec<&str> = nodes.iter().map(|node| pools::text(node, "/metadata/name")).collect();
        story.complain(&format!("no node is called {node}; there are {}", names.join(", ")));
    }
    exists
}

fn help(story: &mut Story) {
    story.plain("");
    for (form, what) in HELP {
        story.plain(&format!("  {form:<42} {what}"));
    }
    story.plain("");
}

fn kill(story: &mut Story, node: &str) -> Result<(), ScenarioError> {
    let text =
        "its kubelet is silent, and Kubernetes marks it NotReady (which takes a real cluster 40 to 55 s)";
    story.say(&format!("KILL {node}: {text}"));
    story.stage.api.set_node_ready(node, Readiness::Unknown)
}

fn drain(story: &mut Story, node: &str) -> Result<(), ScenarioError> {
    let pods = pods::pods_on(&story.stage.api, node);
    let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    let evicted = if names.is_empty() {
        "no pod runs on it".to_owned()
    } else {
        format!("{} evicted, to return on other nodes of the set", names.join(", "))
    };
    story.say(&format!("DRAIN {node}: it is cordoned, {evicted}"));
    pods::evict(&story.stage.api, node, &pods)
}

fn heal(story: &mut Story, node: &str) -> Result<(), ScenarioError> {
    let api = story.stage.api.clone();
    story.say(&format!("HEAL {node}: ready and schedulable"));
    api.set_node_ready(node, Readiness::Ready)?;
    api.set_node_unschedulable(node, false)?;
    let moved = sets::make_room_on(&api, node)?;
    if !moved.is_empty() {
        story.say(&format!(
            "{} is deleted elsewhere, so that its set starts a pod on {node}",
            moved.join(", ")
        ));
    }
    Ok(())
}

fn token(story: &mut Story, good: bool, provider: Option<Provider>) {
    let cloud = story.stage.cloud.cloud().clone();
    let names = provider.map_or_else(|| Provider::ALL.to_vec(), |provider| vec![provider]);
    for provider in &names {
        cloud.revoke_token_of(*provider, TOKEN_NAME, !good);
    }
    let names: Vec<&str> = names.into_iter().map(Provider::name).collect();
    let state = if good { "accepted again" } else { "refused" };
    story.say(&format!("TOKEN: the operator's token is {state} at {}", names.join(" and ")));
}

/// Moves an address by hand.
fn shift(story: &mut Story, ip: Ipv4Addr, node: Option<&str>) {
    let droplet = node.and_then(|node| {
        story.stage.nodes.iter().find(|(_, name)| *name == node).map(|(droplet, _)| *droplet)
    });
    let place = node.unwrap_or("no node");
    match story.stage.cloud.cloud().move_ip(ip, droplet) {
        Ok(()) => story.say(&format!("MOVE: {ip} is put on {place} by hand")),
        Err(error) => {
            story.complain(&format!(
                "{ip} is not put on {place}: {error} (a droplet has at most one, of its own region)"
            ));
        }
    }
}

/// Sets or removes the annotation that pauses the objects of a name.
fn pause(story: &mut Story, name: &str, text: Option<&str>) -> Result<(), ScenarioError> {
    let api = story.stage.api.clone();
    let mut found = false;
    for kind in [POOL_KIND, RECORD_SET_KIND] {
        for object in api.objects(API_VERSION, kind) {
            let key = pools::key(&object);
            if key.name != name {
                continue;
            }
            found = true;
            let patch = json!({ "metadata": { "annotations": { PAUSED_ANNOTATION: text } } });
            api.patch_object((API_VERSION, kind), &key, "", patch, "sandbox")?;
            let what = if text.is_some() { "PAUSE" } else { "RESUME" };
            story.say(&format!("{what}: {kind} {name}"));
        }
    }
    if !found {
        story.complain(&format!("no pool and no record set is called {name}"));
    }
    Ok(())
}

/// Another process takes the lease and never renews it.
fn take_lease(story: &mut Story) -> Result<(), ScenarioError> {
    let api = story.stage.api.clone();
    let key = Key::new(NAMESPACE, LEASE);
    let kind = ("coordination.k8s.io/v1", "Lease");
    if api.object(kind.0, kind.1, &key).is_none() {
        story.complain("there is no lease yet: no operator has led");
        return Ok(());
    }
    let now = api.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({ "holderIdentity": "somebody-else", "leaseDurationSeconds": 15, "acquireTime": now,
                       "renewTime": now });
    api.patch_object(kind, &key, "", json!({ "spec": spec }), "sandbox")?;
    story.say("LEASE: somebody else holds it and never renews it; the operator ends, restarts, and waits 15 s for it");
    Ok(())
}
