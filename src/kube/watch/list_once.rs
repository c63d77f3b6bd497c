//! Reads complete lists once.

use super::in_namespace;
use super::messages::Keys;
use super::page::{self, Form, MAX_PAGES, PAGE_SIZE};
use super::sorted::Selection;
use crate::api::seen::{Guarded, Seen};
use crate::api::{Conditioned, FloatingIPPool, bounded};
use crate::kube::client::CALL_TIMEOUT_MS;
use crate::kube::objects::labelled::Labelled;
use crate::kube::objects::{NodeSlim, PodSlim, protobuf};
use crate::kube::trouble::{Trouble, TroubleKind};
use flipop_core::fleet::action::{MarkedNode, Sweep};
use flipop_core::model::{Address, NodeFacts, PodFacts, WatchKey};
use kube::api::ListParams;
use kube::core::Resource;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The nodes that `label_selector` selects (empty: all).
///
/// # Errors
/// Why a page could not be read.
pub async fn nodes(client: &Client, label_selector: &str) -> Result<Vec<NodeFacts>, Trouble> {
    let params = ListParams::default().labels(label_selector);
    let api = Api::<NodeSlim>::all(client.clone());
    list(&api, params, Form::Protobuf(protobuf::NODES.item), NodeSlim::into_facts).await
}

/// The nodes of the whole cluster, with those that carry the reserved-IP annotation or one of our labels.
///
/// # Errors
/// Why a page could not be read.
pub async fn sweep(client: &Client) -> Result<Sweep, Trouble> {
    let cut = |node: NodeSlim| {
        let NodeFacts { name, uid, annotation: value, annotation_ours: ours, labels, .. } = node.into_facts();
        let marked = value.is_some() || !labels.is_empty();
        (name.clone(), marked.then_some(MarkedNode { name, uid, value, ours, labels }))
    };
    let api = Api::<NodeSlim>::all(client.clone());
    let all = list(&api, ListParams::default(), Form::Metadata(protobuf::NODES.item), cut).await?;
    let (names, marked): (BTreeSet<String>, Vec<Option<MarkedNode>>) = all.into_iter().unzip();
    Ok(Sweep { names, marked: marked.into_iter().flatten().collect() })
}

/// The nodes that each of these keys selects, from one list.
///
/// # Errors
/// Why a page could not be read.
pub async fn nodes_by_key(
    client: &Client,
    keys: Vec<WatchKey>,
) -> Result<BTreeMap<WatchKey, Vec<NodeFacts>>, Trouble> {
    let selection = Selection::new(&keys);
    let cut = |node: Labelled<NodeSlim>| (selection.of("", &node.labels), node.object.into_facts());
    let api = Api::<Labelled<NodeSlim>>::all(client.clone());
    let all = list(&api, ListParams::default(), Form::Protobuf(protobuf::LABELLED_NODES.item), cut).await?;
    Ok(by_key(keys, all))
}

/// The running pods that each of these keys of one namespace (empty: all) selects, from one list.
///
/// # Errors
/// Why a page could not be read.
pub async fn pods_by_key(
    client: &Client,
    namespace: &str,
    keys: Vec<WatchKey>,
) -> Result<BTreeMap<WatchKey, Vec<PodFacts>>, Trouble> {
    let selection = Selection::new(&keys);
    let cut = |pod: Labelled<PodSlim>| (selection.of(namespace, &pod.labels), pod.object.into_facts());
    let api: Api<Labelled<PodSlim>> =
        in_namespace(client.clone(), Some(namespace).filter(|namespace| !namespace.is_empty()));
    let params = ListParams::default().fields("status.phase=Running");
    let params = match keys.as_slice() {
        [WatchKey::Pods { selector, .. }] => params.labels(selector),
        _ => params,
    };
    let all = list(&api, params, Form::Protobuf(protobuf::LABELLED_PODS.item), cut).await?;
    Ok(by_key(keys, all))
}

fn by_key<T: Clone>(keys: Vec<WatchKey>, all: Vec<(Keys, T)>) -> BTreeMap<WatchKey, Vec<T>> {
    let mut lists = vec![Vec::new(); keys.len()];
    for (places, facts) in all {
        for place in places.iter() {
            lists.get_mut(*place).into_iter().for_each(|list| list.push(facts.clone()));
        }
    }
    keys.into_iter().zip(lists).collect()
}

/// The objects of one of our kinds in a namespace (`None`: in all).
///
/// # Errors
/// Why a page could not be read. [`TroubleKind::NotFound`] if the kind is not installed.
pub async fn resources<K: Conditioned>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<Seen<K>>, Trouble> {
    let api = in_namespace::<K>(client.clone(), namespace);
    list(&api, ListParams::default(), Form::Json, |guarded: Guarded<K>| guarded.0).await
}

/// All pools, each with those of the sought addresses that its `spec.ips` names anywhere.
///
/// # Errors
/// Like [`resources`].
pub async fn pools_naming(
    client: &Client,
    sought: &BTreeSet<Address>,
) -> Result<Vec<(Seen<FloatingIPPool>, BTreeSet<Address>)>, Trouble> {
    let found = |text: Box<RawValue>| {
        let Guarded(pool) = Guarded::of(text.get())?;
        // A list that cannot be read to its end may name any of them.
        Ok((pool, bounded::named_in(text.get(), sought).unwrap_or_else(|_unread| sought.clone())))
    };
    let api: Api<FloatingIPPool> = Api::all(client.clone());
    let all = list(&api, ListParams::default(), Form::Json, found).await?;
    let unread = |error: serde_json::Error| Trouble::new(TroubleKind::Undecodable, error.to_string());
    all.into_iter().collect::<Result<_, _>>().map_err(unread)
}

async fn list<K, I, T>(
    api: &Api<K>,
    params: ListParams,
    form: Form<I>,
    cut: impl Fn(I) -> T,
) -> Result<Vec<T>, Trouble>
where
    K: Resource + Clone,
    I: DeserializeOwned,
{
    let mut params = ListParams { limit: Some(PAGE_SIZE), ..params };
    params.label_selector.take_if(|selector| selector.is_empty());
    let mut all = Vec::new();
    for _ in 0..MAX_PAGES {
        let read = page::read(api, &mut params, &form, &cut);
        let page = tokio::time::timeout(Duration::from_millis(CALL_TIMEOUT_MS), read).await;
        let page = page.map_err(|_elapsed| Trouble::timed_out(CALL_TIMEOUT_MS))?.map_err(Trouble::from)?;
        all.extend(page.items);
        if page.more.is_none() {
            return Ok(all);
        }
        params.continue_token = page.more;
    }
    Err(Trouble::new(TroubleKind::Undecodable, "the list has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_what_it_selects_from_the_list_for_all_keys() {
        let [web, mail, none] = ["app=web", "app in (mail, web)", "app=none"]
            .map(|selector| WatchKey::Pods { namespace: "team".to_owned(), selector: selector.to_owned() });
        let keys = vec![web.clone(), mail.clone(), none.clone()];
        let selection = Selection::new(&keys);
        let pod = |name, app: &str| {
            let labels = BTreeMap::from([("app".to_owned(), app.to_owned())]);
            (selection.of("team", &labels), name)
        };
        let lists = by_key(keys, vec![pod("a", "web"), pod("b", "mail"), pod("c", "other")]);
        let expected = [(web, vec!["a"]), (mail, vec!["a", "b"]), (none, Vec::new())];
        assert_eq!(lists, BTreeMap::from(expected));
    }
}
