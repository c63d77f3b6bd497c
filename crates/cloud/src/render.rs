//! How `DigitalOcean` writes droplets, regions, addresses and actions. They are whole objects, as in real lists,
//! since reading them is part of a client's cost.

use serde_json::{Value, json};

use super::actions::Action;
use super::token::Token;
use super::wire::DROPLETS;
use super::world::{Droplet, ReservedIp, World};

/// Regions that exist.
pub(super) const REGIONS: [(&str, &str); 14] = [
    ("ams3", "Amsterdam 3"),
    ("atl1", "Atlanta 1"),
    ("blr1", "Bangalore 1"),
    ("fra1", "Frankfurt 1"),
    ("lon1", "London 1"),
    ("nyc1", "New York 1"),
    ("nyc2", "New York 2"),
    ("nyc3", "New York 3"),
    ("sfo1", "San Francisco 1"),
    ("sfo2", "San Francisco 2"),
    ("sfo3", "San Francisco 3"),
    ("sgp1", "Singapore 1"),
    ("syd1", "Sydney 1"),
    ("tor1", "Toronto 1"),
];

const SIZES: [&str; 8] = [
    "s-1vcpu-1gb",
    "s-1vcpu-2gb",
    "s-2vcpu-2gb",
    "s-2vcpu-4gb",
    "s-4vcpu-8gb",
    "s-8vcpu-16gb",
    "c-2",
    "g-2vcpu-8gb",
];

/// A region.
pub(super) fn region(slug: &str) -> Value {
    let name = REGIONS.iter().find(|(known, _)| *known == slug).map_or(slug, |(_, name)| *name);
    json!({
        "name": name,
        "slug": slug,
        "features": ["backups", "ipv6", "metadata", "install_agent", "storage", "image_transfer"],
        "available": true,
        "sizes": SIZES,
    })
}

/// A droplet, with its tags only for tokens that may read tags.
pub(super) fn droplet(world: &World, token: &Token, droplet: &Droplet) -> Value {
    let created_at = world.timestamp(droplet.created_ms);
    json!({
        "id": droplet.id,
        "name": droplet.name,
        "memory": 4096,
        "vcpus": 2,
        "disk": 80,
        "disk_info": [{"type": "local", "size": {"amount": 80, "unit": "gib"}}],
        "locked": world.droplet_busy(droplet.id),
        "status": if droplet.powered_on { "active" } else { "off" },
        "kernel": null,
        "created_at": created_at,
        "features": ["monitoring", "private_networking"],
        "backup_ids": [],
        "next_backup_window": null,
        "snapshot_ids": [],
        "image": {
            "id": 63_663_980, "name": "1.33.1-do.0", "distribution": "Debian", "slug": null, "public": false,
            "regions": [droplet.region], "created_at": created_at, "min_disk_size": 25, "type": "snapshot",
            "size_gigabytes": 2.36, "description": "", "tags": [], "status": "available",
        },
        "volume_ids": [],
        "size": {
            "slug": "s-2vcpu-4gb", "memory": 4096, "vcpus": 2, "disk": 80, "transfer": 4.0,
            "price_monthly": 24.0, "price_hourly": 0.03571, "regions": [droplet.region],
            "available": true, "description": "Basic",
        },
        "size_slug": "s-2vcpu-4gb",
        "networks": {
            "v4": [
                {"ip_address": droplet.private, "netmask": "255.255.240.0", "gateway": "10.120.0.1", "type": "private"},
                {"ip_address": droplet.public, "netmask": "255.255.240.0", "gateway": "198.18.0.1", "type": "public"},
            ],
            "v6": [],
        },
        "region": region(&droplet.region),
        "tags": if token.allows("tag:read") { droplet.tags.as_slice() } else { &[] },
        "vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000",
    })
}

/// A reserved IP, with its droplet only for tokens that may read droplets.
pub(super) fn reserved_ip(world: &World, token: &Token, ip: &ReservedIp) -> Value {
    let holder =
        ip.droplet.and_then(|id| world.droplets.get(&id)).filter(|_| token.allows(DROPLETS.read_scope));
    let mut value = json!({
        "ip": ip.ip,
        "region": region(&ip.region),
        "droplet": holder.map(|found| droplet(world, token, found)),
        "locked": world.ip_busy(ip),
    });
    if let Some(object) = value.as_object_mut().filter(|_| token.allows("project:read")) {
        object.insert("project_id".to_owned(), json!("746c6152-2fa2-11ed-92d3-27aaa54e4988"));
    }
    value
}

/// An action.
pub(super) fn action(world: &World, action: &Action) -> Value {
    json!({
        "id": action.id,
        "status": action.status.name(),
        "type": action.kind.name(),
        "started_at": world.timestamp(action.started_ms),
        "completed_at": action.ended_ms.map(|ended| world.timestamp(ended)),
        "resource_id": u32::from(action.ip),
        "resource_type": "reserved_ip",
        "region": region(&action.region),
        "region_slug": action.region,
        "project_id": "746c6152-2fa2-11ed-92d3-27aaa54e4988",
    })
}
