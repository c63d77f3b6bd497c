//! The panels, in display order.

use serde_json::{Value, json};

/// The columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// How a panel shows its queries' results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One number.
    Number,
    /// A row per series, with its present value.
    Table,
    /// Lines over time.
    Lines,
}

/// A panel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) shape: Shape,
    /// Grafana's name for the unit.
    pub(super) unit: &'static str,
    /// Each query with the name of its lines.
    pub(super) queries: &'static [(&'static str, &'static str)],
}

/// All panels.
pub(super) fn panels() -> Vec<Panel> {
    [NUMBERS, TABLES, ADDRESSES, PROVIDERS, PROCESSES].concat()
}

const fn number(
    title: &'static str,
    text: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, text, shape: Shape::Number, unit: "short", queries }
}

const fn lines(
    title: &'static str,
    text: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, text, shape: Shape::Lines, unit, queries }
}

const NUMBERS: &[Panel] = &[
    number(
        "Replicas",
        "Replicas that Prometheus scrapes. Two or more: one acts, the others stand by.",
        &[("count(flipop_leader)", "replicas")],
    ),
    number(
        "Leaders",
        "One, except for seconds while another replica takes over.",
        &[("sum(flipop_leader)", "leaders")],
    ),
    number(
        "Objects that are not Ready",
        "FloatingIPPools and NodeDNSRecordSets. The table below says which and why.",
        &[(
            "count(flipop_condition{type=\"Ready\",namespace=~\"$namespace\"}) \
         - sum(flipop_condition{type=\"Ready\",status=\"True\",namespace=~\"$namespace\"} or \
         0 * flipop_condition{type=\"Ready\",namespace=~\"$namespace\"})",
            "objects",
        )],
    ),
    number(
        "Active addresses",
        "Addresses that are on a node that matches.",
        &[(
            "sum(flipop_floatingippoolcontroller_ip_state{state=\"active\",namespace=~\"$namespace\"})",
            "addresses",
        )],
    ),
    number(
        "Nodes that wait",
        "Nodes that match and have no address.",
        &[(
            "sum(flipop_floatingippoolcontroller_node_status{status=\"available\",namespace=~\"$namespace\"})",
            "nodes",
        )],
    ),
    number(
        "Addresses to be created",
        "Addresses that pools with desiredIPs still lack.",
        &[("sum(flipop_floatingippoolcontroller_unfulfilled_ips{namespace=~\"$namespace\"})", "addresses")],
    ),
];

const TABLES: &[Panel] = &[
    Panel {
        title: "Who has which address",
        text: "The matching node of each active address.",
        shape: Shape::Table,
        unit: "short",
        queries: &[("flipop_floatingippoolcontroller_ip_node{namespace=~\"$namespace\"}", "")],
    },
    Panel {
        title: "Conditions",
        text: "Every condition of every object; docs/reference/conditions.md explains the reasons.",
        shape: Shape::Table,
        unit: "short",
        queries: &[("flipop_condition{namespace=~\"$namespace\"}", "")],
    },
];

const ADDRESSES: &[Panel] = &[
    lines(
        "Addresses by state",
        "Anything but active, unassigned and no-match deserves a look if it lasts.",
        "short",
        &[(
            "sum by (namespace, name, state) (flipop_floatingippoolcontroller_ip_state{namespace=~\"$namespace\"})",
            "{{namespace}}/{{name}} {{state}}",
        )],
    ),
    lines(
        "Assignments in an hour",
        "Moves of addresses, and those that failed.",
        "short",
        &[
            (
                "sum by (namespace, name) (increase(flipop_floatingippoolcontroller_ip_assignments{namespace=~\"$namespace\"}[1h]))",
                "{{namespace}}/{{name}}",
            ),
            (
                "sum by (namespace, name) (increase(flipop_floatingippoolcontroller_ip_assignment_errors{namespace=~\"$namespace\"}[1h]))",
                "{{namespace}}/{{name}} failed",
            ),
        ],
    ),
    lines(
        "Moves in an hour",
        "Addresses that were taken from one node to another, by the reason.",
        "short",
        &[(
            "sum by (namespace, name, reason) (increase(flipop_moves_total{namespace=~\"$namespace\"}[1h]))",
            "{{namespace}}/{{name}} {{reason}}",
        )],
    ),
    lines(
        "Time from the lost match to the end of a phase",
        "Of 99 % of the failovers of all pools, in the last hour.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, phase) (increase(flipop_failover_seconds_bucket[1h])))",
            "{{phase}}",
        )],
    ),
    lines(
        "Time from a change of nodes or pods to the assignment",
        "Of all pools, in the last hour.",
        "s",
        &[
            ("histogram_quantile(0.5, sum by (le) (increase(flipop_assignment_seconds_bucket[1h])))", "half"),
            (
                "histogram_quantile(0.99, sum by (le) (increase(flipop_assignment_seconds_bucket[1h])))",
                "99 %",
            ),
        ],
    ),
    lines(
        "Firewalls left in a day",
        "Firewalls that deleted pools left behind. FLIPOP no longer manages them.",
        "short",
        &[("sum(increase(flipop_firewalls_left_total[1d]))", "firewalls")],
    ),
    lines(
        "Failures with a grace period in an hour",
        "How failures ended that spec.grace covers: recovered in time, expired, or overruled by something that has no grace.",
        "short",
        &[("sum by (outcome) (increase(flipop_grace_total[1h]))", "{{outcome}}")],
    ),
    lines(
        "Checks of nodes",
        "In a second. Late ones wait because too many others are under way.",
        "short",
        &[
            ("sum by (outcome) (rate(flipop_node_checks_total[$__rate_interval]))", "{{outcome}}"),
            ("sum(flipop_node_checks_delayed)", "late"),
        ],
    ),
    lines(
        "Time from the last answer of a node to the detection of its failure",
        "99 % of the last hour are faster.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, stage) (increase(flipop_detection_seconds_bucket[1h])))",
            "stage {{stage}}",
        )],
    ),
    lines(
        "Published addresses of NodeDNSRecordSets",
        "Addresses in the records of each name.",
        "short",
        &[(
            "sum by (namespace, name, dns) (flipop_nodednsrecordset_records{namespace=~\"$namespace\"})",
            "{{namespace}}/{{name}} {{dns}}",
        )],
    ),
];

const PROVIDERS: &[Panel] = &[
    lines(
        "Requests left",
        "In the quota of each token: in an hour at DigitalOcean, in 5 min at Cloudflare.",
        "short",
        &[("min by (provider) (flipop_providers_rate_remaining)", "{{provider}}")],
    ),
    lines(
        "Providers out",
        "1 while all calls to the provider fail.",
        "short",
        &[("max by (provider) (flipop_providers_out)", "{{provider}}")],
    ),
    lines(
        "Operations at providers",
        "In a second.",
        "ops",
        &[(
            "sum by (provider, call, outcome) (rate(flipop_providers_calls_total[$__rate_interval]))",
            "{{provider}} {{call}} {{outcome}}",
        )],
    ),
    lines(
        "Duration of operations at providers",
        "99 % of the last hour are faster.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, provider, call) (increase(flipop_providers_call_duration_seconds_bucket[1h])))",
            "{{provider}} {{call}}",
        )],
    ),
    lines(
        "Restarts of watches in an hour",
        "Often means that the connection to the API server is not stable.",
        "short",
        &[("sum by (kind, reason) (increase(flipop_watch_restarts_total[1h]))", "{{kind}} {{reason}}")],
    ),
];

const PROCESSES: &[Panel] = &[
    lines(
        "Memory",
        "Resident memory of each replica.",
        "bytes",
        &[("process_resident_memory_bytes{job=~\".*flipop\"}", "{{pod}}")],
    ),
    lines(
        "CPU",
        "Of each replica; 1 is a whole core.",
        "short",
        &[("rate(process_cpu_seconds_total{job=~\".*flipop\"}[$__rate_interval])", "{{pod}}")],
    ),
    lines(
        "Versions",
        "Two only while a rollout lasts.",
        "short",
        &[("count by (version) (flipop_build_info)", "{{version}}")],
    ),
];

/// The dashboard as Grafana reads it.
pub(super) fn dashboard() -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let (mut shown, mut x, mut y, mut row) = (Vec::new(), 0, 0, 0);
    for (id, panel) in (1_u64..).zip(panels()) {
        let (width, height) = match panel.shape {
            Shape::Number => (4, 4),
            Shape::Table | Shape::Lines => (12, 8),
        };
        if x + width > COLUMNS {
            (x, y) = (0, y + row);
        }
        let place = json!({ "x": x, "y": y, "w": width, "h": height });
        (x, row) = (x + width, height);
        shown.push(shown_as(id, &panel, &place, &source));
    }
    let namespaces = "label_values(flipop_condition, namespace)";
    json!({
        "uid": "flipop",
        "title": "FLIPOP",
        "description": "Made from the panels in tests/install. Do not edit.",
        "tags": ["flipop"],
        "schemaVersion": 39,
        "editable": false,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus" },
            {
                "name": "namespace", "label": "Namespace", "type": "query", "datasource": source,
                "query": { "query": namespaces, "refId": "namespaces" }, "definition": namespaces,
                "refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*",
                "current": { "text": "All", "value": "$__all" },
            },
        ] },
        "panels": shown,
    })
}

fn shown_as(id: u64, panel: &Panel, place: &Value, source: &Value) -> Value {
    let table = panel.shape == Shape::Table;
    let target = |(at, (query, legend)): (u8, &(&str, &str))| {
        json!({
            "refId": char::from(b'A' + at).to_string(), "datasource": source, "expr": query, "legendFormat": legend,
            "instant": panel.shape != Shape::Lines, "range": panel.shape == Shape::Lines,
            "format": if table { "table" } else { "time_series" },
        })
    };
    let targets: Vec<Value> = (0..).zip(panel.queries).map(target).collect();
    let shape = match panel.shape {
        Shape::Number => "stat",
        Shape::Table => "table",
        Shape::Lines => "timeseries",
    };
    let mut shown = json!({
        "id": id, "type": shape, "title": panel.title, "description": panel.text, "datasource": source,
        "gridPos": place, "targets": targets,
        "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
    });
    if table {
        // Labels that Prometheus adds to each series.
        let hidden = ["Time", "Value", "__name__", "container", "endpoint", "instance", "job", "pod"];
        let hidden: serde_json::Map<String, Value> =
            hidden.into_iter().map(|name| (name.to_owned(), json!(true))).collect();
        shown["transformations"] = json!([{ "id": "organize", "options": { "excludeByName": hidden } }]);
    }
    shown
}
