//! Invalid values.

use super::{everything, template};
use serde_json::{Value, json};

pub(super) fn rows(helm: &str) {
    let on = json!({ "enabled": true, "without": ["FlipopQuotaLwo"] });
    let severe = json!({ "enabled": true, "severities": { "FlipopPausd": "page" } });
    let token = json!([{ "name": "DIGITALOCEAN_ACCESS_TOKEN", "value": "dop_v1" }]);
    let rows: Vec<(Value, &str)> = vec![
        (json!({ "replica": 2 }), "'replica' not allowed"),
        (json!({ "image": { "name": "x" } }), "'name' not allowed"),
        (json!({ "image": { "repository": "registry.example.com/flipop:0.1.0" } }), "/image/repository"),
        (json!({ "image": { "digest": "sha256:0" } }), "/image/digest"),
        (json!({ "image": { "pullPolicy": "always" } }), "/image/pullPolicy"),
        (json!({ "replicas": -1 }), "/replicas"),
        (json!({ "replicas": "2" }), "/replicas"),
        (json!({ "secretName": "" }), "/secretName"),
        (json!({ "secret": { "token": "x" } }), "'secret' not allowed"),
        (json!({ "crds": { "enable": true } }), "'enable' not allowed"),
        (json!({ "env": token }), "/env/0"),
        (json!({ "env": [{ "name": "A", "valu": "x" }] }), "'valu' not allowed"),
        (json!({ "env": [{ "name": "POD_NAMESPACE", "value": "x" }] }), "/env/0/name"),
        (json!({ "args": ["--debug", "--metrics-bind-addr=:9090"] }), "/args/1"),
        (json!({ "zones": ["a b"] }), "/zones/0"),
        (json!({ "maxAddresses": -1 }), "/maxAddresses"),
        (json!({ "args": ["-metrics-bind-addr", ":9090"] }), "/args/0"),
        (json!({ "tolerations": [{ "key": "a", "operater": "Exists" }] }), "'operater' not allowed"),
        (json!({ "affinity": { "nodeAffinities": {} } }), "'nodeAffinities' not allowed"),
        (json!({ "resources": { "limit": {} } }), "'limit' not allowed"),
        (json!({ "labels": { "app": "other" } }), "'app'"),
        (json!({ "labels": { "a": 1 } }), "/labels/a"),
        (json!({ "priorityClass": { "value": 2_000_000_000 } }), "/priorityClass/value"),
        (json!({ "userRoles": { "admin": true } }), "'admin' not allowed"),
        (json!({ "tenants": { "enable": true } }), "'enable' not allowed"),
        (json!({ "agent": { "enabled": true, "egress": "Off" } }), "/agent/egress"),
        (json!({ "agent": { "enabled": true } }), "agent.nodeSelector is empty"),
        (json!({ "agent": { "enabled": true, "nodeSelector": null } }), "agent.nodeSelector is empty"),
        (json!({ "podSecurityContext": { "runAsUsr": 1 } }), "'runAsUsr' not allowed"),
        (json!({ "networkPolicy": { "dns": [{ "cidr": "10.0.0.0/8" }] } }), "'cidr' not allowed"),
        (json!({ "agent": { "enabled": true, "metrics": { "hostIp": true } } }), "'hostIp' not allowed"),
        (json!({ "networkPolicy": { "dnsPorts": [] } }), "/networkPolicy/dnsPorts"),
        (json!({ "networkPolicy": { "egressPorts": [] } }), "/networkPolicy/egressPorts"),
        (json!({ "networkPolicy": { "egressPorts": [70000] } }), "/networkPolicy/egressPorts/0"),
        (json!({ "crds": { "annotations": { "helm.sh/resource-policy": "delete" } } }), "resource-policy"),
        (json!({ "crds": null }), "'crds'"),
        (json!({ "crds": { "enabled": null } }), "'enabled'"),
        (json!({ "image": null }), "'image'"),
        (json!({ "replicas": null }), "'replicas'"),
        (json!({ "networkPolicy": { "egressPorts": null } }), "'egressPorts'"),
        (json!({ "prometheusRule": { "runbookURL": "docs" } }), "/prometheusRule/runbookURL"),
        (json!({ "prometheusRule": on }), "there is no alert FlipopQuotaLwo"),
        (json!({ "prometheusRule": severe }), "there is no alert FlipopPausd"),
    ];
    for (values, said) in rows {
        let ran = template(helm, "flipop", &values, &[]);
        assert!(!ran.success, "{values} is accepted");
        assert!(ran.stderr.contains(said), "{values}: {said:?} is not in\n{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{values}");
    }
    assert!(template(helm, "flipop", &everything(), &[]).success);
}
