//! The initial content of every simulated world.

use super::scene::MACHINES;
use flipop_apiserver::{ApiServer, NodeSpec, ScenarioError};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The operator's namespace.
pub const NAMESPACE: &str = "flipop";

/// Installs FLIPOP's kinds and creates the operator's namespace.
///
/// # Errors
/// If the API server refuses.
pub fn install(api: &ApiServer) -> Result<(), ScenarioError> {
    for crd in flipop::api::crd::all() {
        api.apply_yaml(&crd.to_string(), "")?;
    }
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    api.create_object("v1", "Namespace", "", namespace, "bed").map(drop)
}

/// Creates the ready node of a droplet. `number` is the last part of its addresses.
///
/// # Errors
/// If the API server refuses.
pub fn add_node(
    api: &ApiServer,
    name: &str,
    droplet: u64,
    labels: BTreeMap<String, String>,
    number: u32,
) -> Result<(), ScenarioError> {
    let address = |base: Ipv4Addr| Ipv4Addr::from_bits(base.to_bits().wrapping_add(number)).to_string();
    api.create_node(&NodeSpec {
        name: name.to_owned(),
        provider_id: MACHINES.provider_id(droplet),
        labels,
        internal_ip: address(Ipv4Addr::new(10, 120, 0, 0)),
        external_ip: address(Ipv4Addr::new(198, 18, 0, 0)),
        ready: true,
    })
    .map(drop)
}
