//! A large cluster: memory, and the time from exec to the first assign request while nobody holds the lease.

use crate::bulk::{Copied, Store, Template};
use crate::footprint::Memory;
use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
use crate::world::{OPERATOR, POOL, REGION, Stage, World, is_assign};
use crate::{churn, lists, say};
use flipop_envtest::Outcome;
use flipop_envtest::operator::Operator;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Resident memory, in KiB.
const MEMORY: u64 = 40 * 1_024;

/// From exec to the arrival of the first assign request.
const GOAL: Duration = Duration::from_millis(1_500);

/// How many starts are measured.
const ROUNDS: usize = 5;

/// How long after the last start memory is read.
const REST: Duration = Duration::from_secs(20);

/// How many of a hundred pods match.
const MATCHING_PERCENT: usize = 15;

/// The namespaces of pods that do not match, besides that of the matching ones.
const NAMESPACES: usize = 20;

/// The pool's addresses. The first one is to be assigned.
const IPS: u8 = 10;

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

fn node(number: usize) -> String {
    format!("pool-work-{number:05}")
}

pub(crate) async fn measure(
    stage: &Stage,
    (nodes, pods): (usize, usize),
    quick: bool,
    report: &mut Report,
) -> Outcome {
    let world = stage.world().await?;
    let (node_bytes, pod_bytes) = populate(&world, nodes, pods).await?;
    let cloud = world.cloud();
    for number in 0..IPS {
        cloud.add_ip(Some(ip(number)), REGION);
    }
    let ips: Vec<Ipv4Addr> = (0..IPS).map(ip).collect();
    world.pool(POOL, &ips, "work", Some("app=web")).await?;
    let mut operator = world.serving().await?;
    settled(&world).await?;

    let (mut took, mut bare) = (Samples::default(), Samples::default());
    let mut memories: Vec<Memory> = Vec::new();
    for _ in 0..if quick { 2 } else { ROUNDS } {
        operator.kill_9();
        world.cluster.delete_lease().await?;
        cloud.move_ip(ip(0), None)?;
        let (taken, started) = first_assign(&world).await?;
        took.push(taken);
        operator = started;
        settled(&world).await?;
        memories.push(Memory::of(operator.id())?);
        bare.push(lists::read(&world, "pool=work", "app=web").await?);
    }
    tokio::time::sleep(REST).await;
    memories.push(Memory::of(operator.id())?);
    memories.sort_by_key(|memory| memory.resident);
    let figure = format!("{nodes} nodes, {pods} pods of which {MATCHING_PERCENT} % match");
    if let Some(worst) = memories.last() {
        let measured = format_args!("{worst}, worst of {}", memories.len()).to_string();
        report.row(format_args!("{figure}: resident memory"), "≤ 40 MiB", measured, worst.resident <= MEMORY);
        report.value("KiB resident, large cluster", f64::from(u32::try_from(worst.resident)?));
    }
    report.row(
        format_args!("{figure}: exec → first assign request, no Lease held"),
        format_args!("≤ {}", Ms(GOAL)),
        format_args!("{took}; a client that only reads the lists takes {bare}"),
        took.max() <= GOAL,
    );
    report.value("ms, exec → first assign request, large cluster", ms(took.median()));
    // The last node is the last candidate in line.
    let (matching, spare) = (matching_pods(pods), node(nodes.saturating_sub(1)));
    churn::measure(&world, &operator, (&matching, ip(0), &spare), quick, report).await?;
    report.note(format_args!("scale: a node is {node_bytes} bytes of JSON, a pod {pod_bytes}"));
    world.end().await;
    Ok(())
}

/// Starts the operator. Returns the time until its first assign request arrived.
async fn first_assign(world: &World) -> Outcome<(Duration, Operator)> {
    let cloud = world.cloud();
    let (since, mut changes) = (cloud.next_call(), cloud.changes());
    let started_us = cloud.now_us();
    let operator = world.start()?;
    let call = world.call(&mut changes, since, |call| is_assign(call, OPERATOR)).await?;
    Ok((Duration::from_micros(call.at_us.saturating_sub(started_us)), operator))
}

/// Waits until all addresses are active.
async fn settled(world: &World) -> Outcome {
    world.all_active(IPS).await?;
    // Annotations, and all effects of the status write.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

/// Creates the cluster. Returns the sizes of a node and of a pod.
async fn populate(world: &World, nodes: usize, pods: usize) -> Outcome<(usize, usize)> {
    world.cluster.namespace("web", None).await?;
    let template = make_node(world).await?;
    let mut copies = Vec::with_capacity(nodes);
    for number in 0..nodes {
        let (name, droplet) = (node(number), world.cloud().add_droplet(&node(number), REGION));
        let fields = vec![
            ("/spec/providerID", json!(format!("digitalocean://{droplet}"))),
            ("/metadata/labels/pool", json!("work")),
            ("/metadata/labels/kubernetes.io~1hostname", json!(name)),
        ];
        copies.push(Copied { namespace: None, name, fields });
    }
    let store = Store::of(world)?;
    store.write(&template, 0, &copies).await?;

    let of_pods = make_pod(world).await?;
    let copies: Vec<Copied> = (0..pods).map(|number| copied_pod(number, nodes)).collect();
    store.write(&of_pods, nodes, &copies).await?;
    say(&format!("  a node is {} bytes, a pod {}", template.size(), of_pods.size()));
    // The API server takes them in through its own watches of the store.
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok((template.size(), of_pods.size()))
}

/// The name of a pod.
fn pod(number: usize) -> String {
    format!("web-6f7d9c8b5d-{number:05}")
}

/// A hundred pods that match.
fn matching_pods(pods: usize) -> Vec<String> {
    (0..pods).filter(|number| number % 100 < MATCHING_PERCENT).take(100).map(pod).collect()
}

/// Every 100 pods contain the same share of matching ones, which are spread over all nodes.
fn copied_pod(number: usize, nodes: usize) -> Copied {
    let (hundred, rest) = (number / 100, number % 100);
    let matches = rest < MATCHING_PERCENT;
    let place = if matches { hundred * MATCHING_PERCENT + rest } else { number };
    let (namespace, app) = if matches {
        ("web".to_owned(), "web")
    } else if number.is_multiple_of(2) {
        ("web".to_owned(), "other")
    } else {
        (format!("team-{}", number % NAMESPACES), "web")
    };
    let fields = vec![
        ("/metadata/labels/app", json!(app)),
        ("/spec/nodeName", json!(node(place.checked_rem(nodes).unwrap_or_default()))),
    ];
    Copied { namespace: Some(namespace), name: pod(number), fields }
}

/// A node as kubelets report it, without the pool's label.
pub(crate) async fn make_node(world: &World) -> Outcome<Template> {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"),
            "message": format!("kubelet says that {kind} is {status}"),
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let images: Vec<Value> = (0..20)
        .map(|number| {
            json!({ "sizeBytes": 50_000_000, "names": [
                format!("registry.example.com/team/image-{number}@sha256:{number:064}"),
                format!("registry.example.com/team/image-{number}:v1.2.3"),
            ] })
        })
        .collect();
    let capacity =
        json!({ "cpu": "4", "memory": "8148040Ki", "pods": "110", "ephemeral-storage": "165105408Ki" });
    let object = json!({
        "metadata": { "name": "template", "labels": {
            "pool": "none", "kubernetes.io/hostname": "template", "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "s-4vcpu-8gb",
            "topology.kubernetes.io/region": REGION,
        } },
        "spec": { "providerID": "digitalocean://1", "podCIDR": "10.244.0.0/25", "podCIDRs": ["10.244.0.0/25"] },
    });
    let status = json!({ "status": {
        "capacity": capacity, "allocatable": capacity, "images": images,
        "conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
            condition("PIDPressure", "False"), condition("Ready", "True"),
        ],
        "addresses": [
            { "type": "Hostname", "address": "template" }, { "type": "InternalIP", "address": "10.116.0.3" },
            { "type": "ExternalIP", "address": "198.51.100.7" },
        ],
        "nodeInfo": {
            "machineID": "0123456789abcdef0123456789abcdef", "systemUUID": "01234567-89ab-cdef-0123-456789abcdef",
            "bootID": "01234567-89ab-cdef-0123-456789abcdef", "kernelVersion": "6.1.0-18-amd64",
            "osImage": "Debian GNU/Linux 12 (bookworm)", "containerRuntimeVersion": "containerd://1.7.13",
            "kubeletVersion": "v1.36.3", "kubeProxyVersion": "v1.36.3", "operatingSystem": "linux",
            "architecture": "amd64",
        },
    } });
    let api: Api<Node> = Api::all(world.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    api.patch_status("template", &PatchParams::default(), &Patch::Merge(&status)).await?;
    Template::read(world, "/api/v1/nodes/template", "minions").await
}

/// A pod as a Deployment creates it, on a node that is no candidate.
async fn make_pod(world: &World) -> Outcome<Template> {
    let env: Vec<Value> =
        (0..12).map(|number| json!({ "name": format!("SETTING_{number}"), "value": "some value" })).collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"), "env": env,
            "ports": [{ "name": "http", "containerPort": 8080 }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": 8080 } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/config" }],
        })
    };
    let object = json!({
        "metadata": {
            "name": "template", "namespace": "web",
            "labels": { "app": "none", "pod-template-hash": "6f7d9c8b5d", "tier": "frontend" },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
        },
        "spec": {
            "nodeName": "template", "containers": [container("web"), container("sidecar")],
            "volumes": [{ "name": "config", "configMap": { "name": "web" } }],
        },
    });
    let state = |name: &str| {
        json!({
            "name": name, "ready": true, "started": true, "restartCount": 0,
            "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "imageID": format!("registry.example.com/team/{name}@sha256:{:064}", 7),
            "containerID": format!("containerd://{:064}", 9),
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        })
    };
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(condition);
    let status = json!({ "status": {
        "phase": "Running", "conditions": conditions, "hostIP": "10.116.0.3", "podIP": "10.244.0.17",
        "podIPs": [{ "ip": "10.244.0.17" }], "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [state("web"), state("sidecar")],
    } });
    let api: Api<Pod> = Api::namespaced(world.client.clone(), "web");
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    api.patch_status("template", &PatchParams::default(), &Patch::Merge(&status)).await?;
    Template::read(world, "/api/v1/namespaces/web/pods/template", "pods").await
}
