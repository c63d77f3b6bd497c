//! A watch that is to replace others.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_to_replace_others_counts_for_readiness_once_its_list_is_complete() {
    let (client, mut calls) = stub::by_hand();
    let (context, _reset) = context(client);
    let (health, aside) = (context.health.clone(), WatchHealth::default());
    let (sink, mut steps) = mpsc::channel(16);
    let target = Target { aside: Some(aside.clone()), ..Target::default() };
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_nodes(context, target, (), sink, CancellationToken::new()));
    calls.next().await.answer(stub::refusal(403, "Forbidden"));
    let again = calls.next().await;
    assert_eq!(health.reasons_not_ready(), Vec::<String>::new());
    assert!(aside.reasons_not_ready()[0].contains("may not list nodes"));
    again.answer(page(5, &[], None));
    steps.recv().await.expect("the list");
    let watch = calls.next().await;
    assert!(aside.snapshot().is_empty());
    assert!(health.snapshot().values().all(|status| status.synced) && health.snapshot().len() == 1);
    watch.answer(stub::refusal(403, "Forbidden"));
    calls.next().await;
    assert!(health.reasons_not_ready()[0].contains("may not watch nodes"));
}
