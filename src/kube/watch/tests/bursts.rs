//! Events that are not urgent wait for each other.

use super::*;

#[tokio::test(start_paused = true)]
async fn events_that_are_not_urgent_are_read_in_bursts() {
    let (client, mut calls) = stub::by_hand();
    let (context, _reset) = context(client);
    let (sink, mut steps) = mpsc::channel(16);
    let pause = Duration::from_millis(200);
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_leases(context, pause, (), sink, CancellationToken::new()));
    calls.next().await.answer(page(5, &[], None));
    steps.recv().await.expect("the list");
    let pen = begin(calls.next().await);
    let began = Instant::now();
    let arrived = async |steps: &mut mpsc::Receiver<((), Observed<LeaseFacts>)>| match steps.recv().await {
        Some(((), Observed::Apply(lease))) => (lease.name, began.elapsed()),
        other => panic!("{other:?}"),
    };
    for name in ["a", "b"] {
        tokio::time::sleep(pause / 4).await;
        pen.send(event("MODIFIED", &node(name, 6))).unwrap();
    }
    for name in ["a", "b"] {
        assert_eq!(arrived(&mut steps).await, (name.to_owned(), pause));
    }
    tokio::time::sleep(3 * pause).await;
    pen.send(event("MODIFIED", &node("c", 7))).unwrap();
    assert_eq!(arrived(&mut steps).await, ("c".to_owned(), 4 * pause));
}
