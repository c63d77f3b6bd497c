//! Record sets of both kinds: as the API server shows them, as they should be, and as the simulated zones have them.
//!
//! Invariant: the right records are derived from specs, nodes and assigned addresses, never from what the operator says
//! it published.

use super::pools::{self, API_VERSION, Cluster, POOL_KIND, Pool, RECORD_SET_KIND, Standing};
use super::stage::Stage;
use super::zones::Zone;
use flipop::api::translate::record_set::record_set_object;
use flipop::api::{Condition, NodeDNSRecordSet};
use flipop_apiserver::ApiServer;
use flipop_cloud::Cloud;
use flipop_core::model::{Address, Criteria, NodeFacts, ObjectName};
use flipop_core::records::name::qualify;
use flipop_core::records::spec::{AddressSource, Destination, NodeSetSpec, SetSpec, WhenEmpty};
use flipop_sandbox::advice;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Where the addresses of a record set come from.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// A pool: its active addresses, and the criteria for its nodes.
    Pool(BTreeSet<Ipv4Addr>, Option<Criteria>),
    /// Matching nodes: their addresses of this kind.
    Nodes(Option<Criteria>, Option<AddressSource>),
}

/// A record set as it is on the API server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordSet {
    /// The object's kind.
    pub(super) kind: &'static str,
    pub(super) object: ObjectName,
    /// As far as the spec says.
    pub(super) place: Option<Destination>,
    when_empty: WhenEmpty,
    source: Source,
    observed: bool,
    /// Whether a mistake in the object's spec stops all work for it.
    frozen: bool,
    conditions: Vec<Condition>,
    /// The published records according to the status.
    told: (String, BTreeSet<String>),
}

/// The right content of a name.
#[derive(Debug, PartialEq)]
enum Wanted {
    Exactly(BTreeSet<String>),
    /// Anything that was there.
    Kept,
}

impl RecordSet {
    fn of_pool(pool: &Pool) -> Option<Self> {
        let SetSpec { place, when_empty, .. } = pool.spec.record_set.clone()?;
        let told = pool.status.dns_record_set.clone().unwrap_or_default();
        Some(Self {
            kind: POOL_KIND,
            object: pool.name.clone(),
            place,
            when_empty,
            source: Source::Pool(pool.active().into_keys().collect(), pool.spec.criteria.clone()),
            observed: pool.is_observed(),
            frozen: pool.is_frozen(),
            conditions: pool.status.conditions.clone(),
            told: (told.fqdn, told.addresses.into_iter().collect()),
        })
    }

    /// From an object; `None` if it cannot be read as a record set.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let set: NodeDNSRecordSet = serde_json::from_value(object.clone()).ok()?;
        let status = set.status.clone().unwrap_or_default();
        let object = record_set_object(&Ok(set));
        let spec = NodeSetSpec::parse(&object.spec.ok()?, &advice::providers());
        Some(Self {
            kind: RECORD_SET_KIND,
            object: object.object.name,
            place: spec.set.place,
            when_empty: spec.set.when_empty,
            source: Source::Nodes(spec.criteria, spec.source),
            observed: status.observed_generation == Some(object.generation),
            frozen: false,
            conditions: status.conditions,
            told: (status.fqdn, status.addresses.into_iter().collect()),
        })
    }

    /// The conditions of the object.
    pub(super) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The summary condition.
    pub(super) fn summary(&self) -> Option<&Condition> {
        let kind = if self.kind == POOL_KIND { "RecordSetReady" } else { "Ready" };
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Whether its addresses are those that pools write on nodes.
    pub(super) fn follows_annotations(&self) -> bool {
        matches!(self.source, Source::Nodes(_, Some(AddressSource::Annotation)))
    }

    /// Whether the operator says that something has to be fixed first.
    pub(super) fn has_failed(&self) -> bool {
        let failed = |summary: &Condition| summary.status == "False" && summary.reason != "InProgress";
        self.observed && self.summary().is_some_and(failed)
    }

    /// Its zone among these, and the fully qualified name.
    pub(super) fn located<'a>(&self, zones: &'a [Zone]) -> Option<(&'a Zone, String)> {
        let place = self.place.as_ref()?;
        let zone = zones.iter().find(|zone| zone.is(place))?;
        Some((zone, qualify(&place.record_name, Some(&zone.name)).ok()?))
    }

    fn wanted(&self, cluster: &Cluster) -> Wanted {
        let matching = |criteria| {
            cluster
                .judge(criteria)
                .filter(|(_, standing)| *standing == Standing::Matches)
                .map(|(node, _)| node)
        };
        let (addresses, any_node) = match &self.source {
            Source::Pool(active, criteria) => (
                active.clone(),
                criteria.as_ref().is_some_and(|criteria| matching(criteria).next().is_some()),
            ),
            Source::Nodes(Some(criteria), Some(source)) => {
                let of_nodes: Vec<_> = matching(criteria).map(|node| source.of(node)).collect();
                let any_node = !of_nodes.is_empty();
                (of_nodes.into_iter().flatten().filter_map(Address::as_v4).collect(), any_node)
            }
            Source::Nodes(..) => return Wanted::Kept,
        };
        if addresses.is_empty() && (any_node || self.when_empty == WhenEmpty::Keep) {
            return Wanted::Kept;
        }
        Wanted::Exactly(addresses.iter().map(ToString::to_string).collect())
    }

    /// Checks it. `Err` says what is wrong.
    pub(super) fn check(&self, cluster: &Cluster, cloud: &Cloud, zones: &[Zone]) -> Result<(), String> {
        let Some(summary) = self.summary().filter(|_| self.observed) else {
            return Err("the operator has written nothing about this record set".to_owned());
        };
        if summary.status != "True" {
            let Condition { type_, status, reason, message, .. } = summary;
            return Err(format!("{type_}={status} {reason}: {message}"));
        }
        let Some((zone, fqdn)) = self.located(zones) else {
            return Err("it is said to be published, though the spec does not say where".to_owned());
        };
        let held = cloud.a_records(zone.provider, &zone.name, &fqdn);
        let published: BTreeSet<String> = held.iter().cloned().collect();
        let at = format!("{fqdn} at {}", zone.provider.name());
        if published.len() != held.len() {
            return Err(format!("{at} holds an address twice: {}", held.join(", ")));
        }
        if self.told != (fqdn, published.clone()) {
            let (name, addresses) = &self.told;
            return Err(format!(
                "{at} holds {}, the status says {name}: {}",
                list(&published),
                list(addresses)
            ));
        }
        match self.wanted(cluster) {
            Wanted::Exactly(wanted) if wanted != published => {
                Err(format!("{at} holds {} instead of {}", list(&published), list(&wanted)))
            }
            Wanted::Exactly(_) | Wanted::Kept => Ok(()),
        }
    }

    /// The row for the summary: name, provider, addresses, object; `None` if it has no place.
    pub(super) fn row(&self, cloud: &Cloud, zones: &[Zone]) -> Option<[String; 5]> {
        let (zone, fqdn) = self.located(zones)?;
        let records = cloud.records(zone.provider, &zone.name).into_iter();
        let records: Vec<_> = records.filter(|record| record.fqdn == fqdn && record.rtype == "A").collect();
        let ttls: BTreeSet<String> = records.iter().map(|record| record.ttl.to_string()).collect();
        let addresses: BTreeSet<String> = records.into_iter().map(|record| record.data).collect();
        let ttls: Vec<String> = ttls.into_iter().collect();
        let object = format!("{} {}", self.kind, self.object);
        Some([fqdn, zone.provider.name().to_owned(), ttls.join(", "), object, list(&addresses)])
    }

    /// Why an address came or left, as far as the cluster shows.
    pub(super) fn reason(&self, ip: Ipv4Addr, cluster: &Cluster) -> String {
        let object = &self.object;
        let Source::Nodes(Some(criteria), Some(source)) = &self.source else { return String::new() };
        let mut reason = format!(": no node that matches {object} has it");
        for (node, standing) in
            cluster.judge(criteria).filter(|(node, _)| source.of(node).contains(&ip.into()))
        {
            match standing {
                Standing::Matches => return format!(": {} has it and matches {object}", node.name),
                Standing::Fails(why) => reason = format!(": {} no longer matches {object}, {why}", node.name),
                Standing::NotSelected => {}
            }
        }
        reason
    }
}

fn list(addresses: &BTreeSet<String>) -> String {
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    if addresses.is_empty() { "nothing".to_owned() } else { addresses.join(", ") }
}

/// The record sets of both kinds, those of pools first.
pub(super) fn record_sets(api: &ApiServer) -> Vec<RecordSet> {
    let of_pools = pools::pools(api);
    let own = api.objects(API_VERSION, RECORD_SET_KIND);
    of_pools.iter().filter_map(RecordSet::of_pool).chain(own.iter().filter_map(RecordSet::read)).collect()
}

/// The faults, one line per record set.
pub(super) fn trouble(stage: &Stage) -> Vec<String> {
    let cluster = Cluster::now(&stage.api);
    let check = |set: &RecordSet| set.check(&cluster, stage.cloud.cloud(), &stage.zones).err();
    let sets = record_sets(&stage.api);
    sets.iter().filter_map(|set| Some(format!("{} {}: {}", set.kind, set.object, check(set)?))).collect()
}

/// Whether every record set is right, or will never be.
pub(super) fn are_settled(stage: &Stage) -> bool {
    let cluster = Cluster::now(&stage.api);
    let right = |set: &RecordSet| set.check(&cluster, stage.cloud.cloud(), &stage.zones).is_ok();
    record_sets(&stage.api).iter().all(|set| set.frozen || set.has_failed() || right(set))
}

/// The first node by name whose address a `NodeDNSRecordSet` publishes, and that object.
pub(super) fn publisher(stage: &Stage) -> Option<(String, ObjectName)> {
    let cluster = Cluster::now(&stage.api);
    record_sets(&stage.api).iter().find_map(|set| {
        let Source::Nodes(Some(criteria), Some(source)) = &set.source else { return None };
        let publishes = |(node, standing): &(&NodeFacts, Standing)| {
            *standing == Standing::Matches && !source.of(node).is_empty()
        };
        let (node, _) = cluster.judge(criteria).find(publishes)?;
        Some((node.name.clone(), set.object.clone()))
    })
}
