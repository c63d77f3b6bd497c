//! The handle on the simulated providers: controls for tests and demonstrations, and calls in process.
//!
//! Owns the clock (tokio's, so that a paused clock pauses the providers too) and the lock, which is never held
//! across an await. Invariant: a call takes effect even if its client has gone.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Notify, broadcast, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Call;
use super::change::{Change, ChangeKind};
use super::exchange::{Fate, Ticket};
use super::faults::{Injection, InjectionId};
use super::token::Token;
use super::wire::{Op, Provider, Reply, Request};
use super::world::{CLUSTER_TAGS, Droplet, Knobs, World};

/// The most changes that a slow listener may be behind before it loses the oldest.
const CHANGES_BACKLOG: usize = 4_096;

/// The start of a simulated pair of accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Determines every invented value.
    pub seed: u64,
    /// Wall-clock time of the start, in milliseconds since 1970. `None`: this machine's clock, since clients
    /// compare `ratelimit-reset` with theirs.
    pub epoch_ms: Option<u64>,
}

/// The connection ended without a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("failed to receive an answer: the connection was cut")]
pub struct ConnectionLost;

/// Why a change from outside the API failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CloudError {
    /// There is no such address.
    #[error("failed to find the address {0}")]
    NoSuchIp(Ipv4Addr),
    /// There is no such droplet.
    #[error("failed to find the droplet {0}")]
    NoSuchDroplet(u64),
    /// The droplet is taken or in another region.
    #[error("failed to place the address: droplet {0} cannot hold it")]
    Unfit(u64),
}

/// A reserved IP as a test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpView {
    /// The address.
    pub ip: Ipv4Addr,
    /// Its region.
    pub region: String,
    /// Its droplet.
    pub droplet: Option<u64>,
    /// Whether something is pending.
    pub locked: bool,
}

struct Inner {
    world: Mutex<World>,
    started: Instant,
    changes: broadcast::Sender<Change>,
    wake: Notify,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

/// The simulated providers. Clones are handles on the same providers.
#[derive(Clone)]
pub struct Cloud {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud").finish_non_exhaustive()
    }
}

impl Cloud {
    /// A pair of empty accounts.
    pub fn new(options: Options) -> Self {
        let epoch_ms = options.epoch_ms.unwrap_or_else(wall_clock_ms);
        Self {
            inner: Arc::new(Inner {
                world: Mutex::new(World::new(options.seed, epoch_ms)),
                started: Instant::now(),
                changes: broadcast::channel(CHANGES_BACKLOG).0,
                wake: Notify::new(),
                tracker: TaskTracker::new(),
                cancel: CancellationToken::new(),
            }),
        }
    }

    /// Milliseconds since the beginning.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Microseconds since the beginning, the unit of [`Call::at_us`].
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.inner.tracker
    }

    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.inner.cancel
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.inner.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the present world, and tells the listeners about the changes.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let now_ms = self.now_ms();
        let mut world = self.lock();
        let due_before = world.next_due();
        world.advance(now_ms);
        let result = f(&mut world);
        for change in world.changes.drain(..) {
            // It is no error if nobody listens.
            let _ = self.inner.changes.send(change);
        }
        if world.next_due() != due_before {
            self.inner.wake.notify_one();
        }
        result
    }

    /// Ends actions at their due times even without calls, so that listeners learn of it in time. Runs until
    /// [`Cloud::stop`]. A server runs it by itself.
    pub async fn run(self) {
        loop {
            let due = self.with(|world| world.next_due());
            let now_ms = self.now_ms();
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep(Duration::from_millis(due.saturating_sub(now_ms))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.inner.cancel.cancelled() => return,
                () = self.inner.wake.notified() => {}
                () = sleep => {}
            }
        }
    }

    /// Ends all background work, and waits for its end.
    pub async fn stop(&self) {
        self.inner.cancel.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    /// Calls a provider in process. A call that hangs never returns, so give it a timeout.
    ///
    /// # Errors
    /// If a fault cuts the connection.
    pub async fn call(&self, request: Request) -> Result<Reply, ConnectionLost> {
        match self.deliver(request).await {
            Fate::Answer(reply) => Ok(reply),
            Fate::Truncate(_) | Fate::Reset => Err(ConnectionLost),
            Fate::Hang => std::future::pending().await,
        }
    }

    /// Takes a request through its delays and its effect to its result.
    pub(super) async fn deliver(&self, request: Request) -> Fate {
        let arrival = self.now_us();
        let ticket = self.with(|world| world.admit(arrival, request));
        let (seq, before_ms, after_ms) = (ticket.seq, ticket.before_ms, ticket.after_ms);
        let fate =
            if before_ms == 0 { self.serve(&ticket) } else { self.serve_later(ticket, before_ms).await };
        if after_ms > 0 {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
        }
        let status = match &fate {
            Fate::Answer(reply) | Fate::Truncate(reply) => Some(reply.status),
            Fate::Reset => None,
            Fate::Hang => return fate,
        };
        let now_ms = self.now_ms();
        self.with(|world| world.close(now_ms, seq, status));
        fate
    }

    fn serve(&self, ticket: &Ticket) -> Fate {
        let now_ms = self.now_ms();
        self.with(|world| world.serve(now_ms, ticket))
    }

    /// Runs as a task of its own, so that the effect comes even if the client has given up.
    async fn serve_later(&self, ticket: Ticket, before_ms: u64) -> Fate {
        let (sender, receiver) = oneshot::channel();
        let cloud = self.clone();
        self.inner.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cloud.inner.cancel.cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(before_ms)) => {
                    // The client may have gone, but the effect has taken place.
                    let _ = sender.send(cloud.serve(&ticket));
                }
            }
        });
        receiver.await.unwrap_or(Fate::Reset)
    }

    /// Adds a token. `*` stands for every scope, `domain:*` for every scope of a family.
    pub fn add_token(&self, provider: Provider, name: &str, secret: &str, scopes: &[&str]) {
        let scopes = scopes.iter().map(ToString::to_string).collect();
        let token = Token { name: name.to_owned(), provider, scopes, revoked: false };
        self.with(|world| world.tokens.insert(secret.to_owned(), token));
    }

    /// Whether some token of a provider has a scope.
    pub fn allows(&self, provider: Provider, scope: &str) -> bool {
        let may = |token: &Token| token.provider == provider && !token.revoked && token.allows(scope);
        self.with(|world| world.tokens.values().any(may))
    }

    /// Revokes a token (`true`), or accepts it again.
    pub fn revoke_token(&self, name: &str, revoked: bool) {
        self.revoke(revoked, |token| token.name == name);
    }

    /// The same for one provider.
    pub fn revoke_token_of(&self, provider: Provider, name: &str, revoked: bool) {
        self.revoke(revoked, |token| token.provider == provider && token.name == name);
    }

    fn revoke(&self, revoked: bool, which: impl Fn(&Token) -> bool) {
        self.with(|world| {
            world.tokens.values_mut().filter(|token| which(token)).for_each(|token| token.revoked = revoked);
        });
    }

    /// Changes the providers' behaviour.
    pub fn tune(&self, change: impl FnOnce(&mut Knobs)) {
        self.with(|world| change(&mut world.knobs));
    }

    /// Injects a fault.
    pub fn inject(&self, injection: Injection) -> InjectionId {
        self.with(|world| world.faults.push(injection))
    }

    /// Withdraws an injection. Returns false if it was used up.
    pub fn withdraw(&self, id: InjectionId) -> bool {
        self.with(|world| world.faults.withdraw(id))
    }

    /// Withdraws all injections.
    pub fn withdraw_all(&self) {
        self.with(|world| world.faults.clear());
    }

    /// Whether the injection is still in force.
    pub fn injected(&self, id: InjectionId) -> bool {
        self.with(|world| world.faults.holds(id))
    }

    /// The calls from number `from` on.
    pub fn calls(&self, from: u64) -> Vec<Call> {
        self.with(|world| world.calls.since(from))
    }

    /// The number that the next call will have.
    pub fn next_call(&self) -> u64 {
        self.with(|world| world.calls.next())
    }

    /// The number of calls of an operation.
    pub fn count(&self, provider: Provider, op: Op) -> u64 {
        self.with(|world| world.calls.count(provider, op))
    }

    /// The number of calls that changed something.
    pub fn mutations(&self) -> u64 {
        self.with(|world| world.calls.effects())
    }

    /// Follows the changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Leaves a token only this many requests of its window: an hour at `DigitalOcean`, five minutes at Cloudflare.
    pub fn exhaust(&self, provider: Provider, token: &str, remaining: usize) {
        self.with(|world| {
            let now_ms = world.now_ms;
            match provider {
                Provider::DigitalOcean => world.limits.digitalocean(token).hour.fill(now_ms, remaining),
                Provider::Cloudflare => world.limits.cloudflare(token).window.fill(now_ms, remaining),
            }
        });
    }

    /// Whether one of the tokens occurs in this text.
    pub(super) fn leaks(&self, text: &str) -> bool {
        self.with(|world| world.tokens.keys().any(|secret| text.contains(secret.as_str())))
    }
}

/// Droplets and addresses, changed from outside the API.
impl Cloud {
    /// Adds a droplet and returns its id.
    pub fn add_droplet(&self, name: &str, region: &str) -> u64 {
        self.with(|world| {
            let id = world.fresh_id().saturating_add(300_000_000);
            let low = u32::try_from(id % 65_536).unwrap_or(0);
            let (name, region) = (name.to_owned(), region.to_owned());
            let droplet = Droplet {
                id,
                name,
                region,
                powered_on: true,
                public: Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() | low),
                tags: CLUSTER_TAGS.map(str::to_owned).to_vec(),
                private: Ipv4Addr::from_bits(Ipv4Addr::new(10, 120, 0, 0).to_bits() | low),
                created_ms: world.now_ms,
                busy_until_ms: 0,
            };
            world.droplets.insert(id, droplet);
            world.note(ChangeKind::DropletAdded(id));
            id
        })
    }

    /// Destroys a droplet. Its address stays, unassigned.
    pub fn destroy_droplet(&self, id: u64) {
        self.with(|world| {
            if world.droplets.remove(&id).is_none() {
                return;
            }
            world.leave_firewalls(id);
            let held = world.ips.now().values().find(|ip| ip.droplet == Some(id)).map(|ip| ip.ip);
            if let Some(ip) = held {
                world.place(ip, None);
            }
            world.note(ChangeKind::DropletDestroyed(id));
        });
    }

    /// Switches a droplet on or off.
    pub fn power_droplet(&self, id: u64, on: bool) {
        self.with(|world| {
            if let Some(droplet) = world.droplets.get_mut(&id) {
                droplet.powered_on = on;
            }
        });
    }

    /// Whether the API shows a droplet as switched off.
    pub fn is_off(&self, id: u64) -> bool {
        self.with(|world| world.droplets.get(&id).is_some_and(|droplet| !droplet.powered_on))
    }

    /// Keeps an event pending on a droplet for a while.
    pub fn busy_droplet(&self, id: u64, for_ms: u64) {
        self.with(|world| {
            let until_ms = world.now_ms.saturating_add(for_ms);
            if let Some(droplet) = world.droplets.get_mut(&id) {
                droplet.busy_until_ms = until_ms;
            }
        });
    }

    /// Reserves an address from outside the API: this one, or an invented one.
    pub fn add_ip(&self, ip: Option<Ipv4Addr>, region: &str) -> Ipv4Addr {
        self.with(|world| world.reserve_ip(ip, region))
    }

    /// Moves or (with `None`) unassigns an address at once, as if by hand.
    ///
    /// # Errors
    /// If there is no such address or droplet, or the droplet cannot hold it.
    pub fn move_ip(&self, ip: Ipv4Addr, droplet: Option<u64>) -> Result<(), CloudError> {
        self.with(|world| {
            let region = world.ips.now().get(&ip).ok_or(CloudError::NoSuchIp(ip))?.region.clone();
            if let Some(id) = droplet {
                let found = world.droplets.get(&id).ok_or(CloudError::NoSuchDroplet(id))?;
                let taken = world.ips.now().values().any(|other| other.droplet == Some(id) && other.ip != ip);
                if taken || found.region != region {
                    return Err(CloudError::Unfit(id));
                }
            }
            world.place(ip, droplet);
            Ok(())
        })
    }

    /// Releases an address from outside the API. Returns false if there was none.
    pub fn delete_ip(&self, ip: Ipv4Addr) -> bool {
        self.with(|world| world.release_ip(ip))
    }

    /// Keeps an address locked for a while.
    pub fn lock_ip(&self, ip: Ipv4Addr, for_ms: u64) {
        self.with(|world| {
            let until_ms = world.now_ms.saturating_add(for_ms);
            if let Some(ip) = world.ips_mut().get_mut(&ip) {
                ip.busy_until_ms = until_ms;
            }
        });
    }

    /// Ends the action that is in progress on an address.
    pub fn end_action(&self, ip: Ipv4Addr) {
        self.with(|world| {
            if let Some(id) = world.ips.now().get(&ip).and_then(|ip| ip.pending) {
                world.end_action(id);
            }
        });
    }

    /// One address.
    pub fn ip(&self, ip: Ipv4Addr) -> Option<IpView> {
        self.ips().into_iter().find(|view| view.ip == ip)
    }

    /// All addresses, in the order in which they were reserved.
    pub fn ips(&self) -> Vec<IpView> {
        self.with(|world| {
            let mut ips: Vec<_> = world.ips.now().values().collect();
            ips.sort_by_key(|ip| ip.order);
            ips.into_iter()
                .map(|ip| IpView {
                    ip: ip.ip,
                    region: ip.region.clone(),
                    droplet: ip.droplet,
                    locked: world.ip_busy(ip),
                })
                .collect()
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "clients compare the providers' headers with this machine's own clock"
)]
fn wall_clock_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
