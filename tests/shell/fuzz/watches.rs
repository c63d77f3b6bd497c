//! The API server's answers to a watch: whole lists, and single events.

use super::corpus::replay;
use super::input::{bytes_like, json_like};
use super::transport::run;
use bytes::Bytes;
use flipop::api::{FloatingIPPool, NodeDNSRecordSet, Seen};
use flipop::clock::Clock;
use flipop::kube::objects::{NodeSlim, PodSlim, protobuf};
use flipop::kube::watch::messages::{News, Reported};
use flipop::kube::watch::page::{self, Form};
use flipop::kube::watch::{Target, WatchContext, WatchHealth, watch_nodes, watch_pods, watch_resources};
use flipop::latest;
use flipop::random::Random;
use flipop_core::model::Observed;
use http::{Request, Response};
use http_body_util::Full;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client, Resource};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The longest text about a failing watch or an unreadable object.
const MAX_TEXT_CHARS: usize = 700;

/// The latency of each answer. On a paused clock nothing else takes time.
const LATENCY: Duration = Duration::from_millis(100);

/// Long enough for several tries.
const PATIENCE: Duration = Duration::from_secs(5);

/// An empty list, and then always `events` in the watch.
fn after_a_list(kind: &'static str, events: Bytes) -> impl Fn(bool) -> Bytes + Clone {
    let list = format!(
        r#"{{"kind": "{kind}List", "apiVersion": "v1", "items": [], "metadata": {{"resourceVersion": "1"}}}}"#
    );
    move |watches| if watches { events.clone() } else { Bytes::from(list.clone()) }
}

fn client(answer: impl Fn(bool) -> Bytes + Clone + Send + 'static) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = answer(watches);
        async move {
            tokio::time::sleep(LATENCY).await;
            Ok::<_, std::convert::Infallible>(Response::new(Full::new(body)))
        }
    });
    Client::new(service, "default")
}

fn context(client: Client) -> WatchContext {
    WatchContext {
        client,
        clock: Clock::simulated(jiff::Timestamp::UNIX_EPOCH),
        random: Random::seeded(1),
        reset: latest::Sender::new(0).subscribe(),
        health: WatchHealth::default(),
    }
}

/// Runs a watch for a while. True if it delivered a complete list or an event.
async fn follow<M, W: Future<Output = ()>>(
    health: WatchHealth,
    watch: impl FnOnce(mpsc::Sender<((), M)>, CancellationToken) -> W,
    mut look: impl FnMut(&M) -> bool,
) -> bool {
    let (sink, mut steps) = mpsc::channel(4);
    let mut delivered = false;
    let taking = async {
        while let Some(((), message)) = steps.recv().await {
            delivered |= look(&message);
        }
    };
    let texts = async {
        tokio::time::sleep(PATIENCE).await;
        let statuses = health.snapshot().into_values().map(|status| status.message);
        for text in statuses.chain(health.reasons_not_ready()) {
            assert!(text.chars().count() <= MAX_TEXT_CHARS, "{text}");
        }
    };
    tokio::select! {
        () = texts => {}
        ((), ()) = async { tokio::join!(watch(sink, CancellationToken::new()), taking) } => {}
    }
    delivered
}

fn readable<K>(step: &Observed<Seen<K>>) -> bool {
    let seen = match step {
        Observed::Reset(all) => all.as_slice(),
        Observed::Apply(one) | Observed::Delete(one) => std::slice::from_ref(one),
    };
    for undecodable in seen.iter().filter_map(|seen| seen.as_ref().err()) {
        assert!(undecodable.error.chars().count() <= MAX_TEXT_CHARS, "{}", undecodable.error);
    }
    true
}

/// Whether a list or an event is reported.
const fn tells<T>(News { reported, .. }: &News<T>) -> bool {
    !matches!(reported, Reported::Nothing)
}

fn nodes(answer: impl Fn(bool) -> Bytes + Clone + Send + 'static) -> bool {
    run(async {
        let context = context(client(answer));
        let health = context.health.clone();
        let target = Target { selector: "role=web".to_owned(), ..Target::default() };
        follow(health, |sink, cancel| watch_nodes(context, target, (), sink, cancel), tells).await
    })
}

fn pods(answer: impl Fn(bool) -> Bytes + Clone + Send + 'static) -> bool {
    run(async {
        let context = context(client(answer));
        let health = context.health.clone();
        let target = Target::default();
        follow(health, |sink, cancel| watch_pods(context, target, (), sink, cancel), tells).await
    })
}

fn pools(answer: impl Fn(bool) -> Bytes + Clone + Send + 'static) -> bool {
    run(async {
        let context = context(client(answer));
        let health = context.health.clone();
        let watch = |sink, cancel| watch_resources::<FloatingIPPool, ()>(context, (), sink, cancel);
        follow(health, watch, readable).await
    })
}

fn record_sets(answer: impl Fn(bool) -> Bytes + Clone + Send + 'static) -> bool {
    run(async {
        let context = context(client(answer));
        let health = context.health.clone();
        let watch = |sink, cancel| watch_resources::<NodeDNSRecordSet, ()>(context, (), sink, cancel);
        follow(health, watch, readable).await
    })
}

/// The same bytes for the list and the events of every kind.
fn always(bytes: &[u8]) -> impl Fn(bool) -> Bytes + Clone + use<> {
    let bytes = Bytes::copy_from_slice(bytes);
    move |_| bytes.clone()
}

fn sound_list(bytes: &[u8]) -> bool {
    let delivered = nodes(always(bytes));
    pods(always(bytes));
    record_sets(always(bytes));
    pools(always(bytes)) && delivered
}

fn sound_events(bytes: &[u8]) {
    let events = Bytes::from([bytes, b"\n", bytes].concat());
    assert!(nodes(after_a_list("Node", events.clone())), "the list is whole");
    assert!(pools(after_a_list("FloatingIPPool", events)), "the list is whole");
}

/// Whether the answer is the only page of a list, which has a version.
fn complete<K, T>(
    answer: impl Fn(bool) -> Bytes + Clone + Send + 'static,
    form: &Form<K>,
    cut: fn(K) -> T,
) -> bool
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    run(async {
        let page = page::read(&Api::<K>::all(client(answer)), &mut ListParams::default(), form, cut).await;
        page.is_ok_and(|page| page.version.is_some() && page.more.is_none())
    })
}

/// The list as its kind reads it, followed by a watch without events.
fn sound_protobuf(bytes: &[u8]) -> bool {
    let list = Bytes::copy_from_slice(bytes);
    let answer = move |watches| if watches { Bytes::new() } else { list.clone() };
    let (of_nodes, of_pods) = (nodes(answer.clone()), pods(answer.clone()));
    assert_eq!(
        of_nodes,
        complete(answer.clone(), &Form::Protobuf(protobuf::NODES.item), NodeSlim::into_facts)
    );
    assert_eq!(of_pods, complete(answer, &Form::Protobuf(protobuf::PODS.item), PodSlim::into_facts));
    of_nodes && of_pods
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("list", sound_list);
    replay("list-protobuf", sound_protobuf);
    replay("event", |bytes| {
        sound_events(bytes);
        true
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn any_list_is_delivered_or_told_of(bytes in json_like("list")) {
        sound_list(&bytes);
    }

    #[test]
    fn any_list_in_protobuf_is_delivered_or_told_of(bytes in bytes_like("list-protobuf")) {
        sound_protobuf(&bytes);
    }

    #[test]
    fn any_event_is_delivered_or_told_of(bytes in json_like("event")) {
        sound_events(&bytes);
    }
}
