//! Modules depend on each other in one direction: no two of them import each other, directly or through others. A room
//! is a module of a crate, or a module inside a folder.
//!
//! A folder's own file (`mod.rs`) is left out, because its modules share it. So are tests. In some folders the modules
//! share nothing there: their own file only passes on what the modules hold.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that are checked.
const CRATES: [&str; 7] = [
    "crates/core/src",
    "src",
    "crates/apiserver/src",
    "crates/cloud/src",
    "crates/simulation/src",
    "crates/sandbox/src",
    "crates/bench/src",
];

/// The layers of the core. Each may import only those before it.
const LAYERS: [&str; 6] = ["model", "mechanism", "records", "firewalls", "addresses", "fleet"];

/// The modules of records that addresses may import: the parts of a pool's spec and status about records.
const RECORDS_OF_A_POOL: [&str; 2] = ["records::spec", "records::status"];

/// The modules of firewalls that addresses may import: the parts of a pool's spec and status about firewalls.
const FIREWALLS_OF_A_POOL: [&str; 1] = ["firewalls::spec"];

/// The folders, below their crate's, whose own file only passes on what their modules hold. A module that imports from
/// that file imports all its neighbours.
const PASSING_ON: [(&str, &str); 3] =
    [("src", "provider"), ("crates/core/src", "model"), ("crates/core/src", "mechanism")];

/// A module's path in the crate. The crate's own file has an empty one.
type Module = Vec<String>;
/// The imports of each room of a folder from the folder's other rooms.
type Rooms = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_room_imports_what_imports_it() {
    let found: BTreeSet<String> = CRATES.into_iter().flat_map(knots).collect();
    assert_eq!(found, BTreeSet::new());
}

#[test]
fn no_room_imports_its_neighbours_through_a_file_that_passes_them_on() {
    let mut found = Vec::new();
    for (sources, folder) in PASSING_ON {
        let files = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join(sources));
        let within = |path: &[String]| path.first().is_some_and(|first| first == folder);
        let rooms = files.iter().filter(|(module, _)| module.len() > 1 && within(module) && !is_test(module));
        for (module, path) in rooms {
            for imported in imports(module, &fs::read_to_string(path).unwrap()) {
                let names_a_room = imported.get(..2).is_some_and(|room| files.contains_key(room));
                if within(&imported) && !names_a_room {
                    found.push(format!("{} imports {}", module.join("::"), imported.join("::")));
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn the_layers_of_the_core_import_downwards_only() {
    let place =
        |name: Option<&String>| LAYERS.iter().position(|layer| Some(*layer) == name.map(String::as_str));
    let mut upwards = Vec::new();
    for (module, path) in modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/core/src")) {
        let Some(layer) = place(module.first()) else {
            assert!(module.is_empty(), "{} belongs to no layer", module.join("::"));
            continue;
        };
        for imported in imports(&module, &fs::read_to_string(path).unwrap()) {
            let (from, to) = (module.join("::"), imported.join("::"));
            let of_a_pool = |room: &str, parts: &[&str]| {
                !to.starts_with(room) || parts.iter().any(|part| to.starts_with(part))
            };
            let reaches_too_far = match LAYERS.get(layer) {
                Some(&"addresses") => {
                    !of_a_pool("records::", &RECORDS_OF_A_POOL)
                        || !of_a_pool("firewalls::", &FIREWALLS_OF_A_POOL)
                }
                Some(&"firewalls") => to.starts_with("records::"),
                Some(_) | None => false,
            };
            if place(imported.first()).is_some_and(|other| other > layer) || reaches_too_far {
                upwards.push(format!("{from} imports {to}"));
            }
        }
    }
    assert_eq!(upwards, Vec::<String>::new());
}

#[test]
fn imports_are_found_however_they_are_written() {
    let text = "use crate::account::Op;\nuse crate::{claims, pool::Pool}; // crate::never\n\
                use super::{super::dns::Zone, site::Site};\nfn f() { super::read_trust::Looks::new() }\n\
                #[cfg(test)]\nmod tests { use crate::fleet::Fleet; }\n";
    let module = ["record_set", "set"].map(str::to_owned);
    let found: Vec<String> = imports(&module, text).into_iter().map(|path| path.join("::")).collect();
    let expected = [
        "account::Op",
        "claims",
        "pool::Pool",
        "dns::Zone",
        "record_set::read_trust::Looks::new",
        "record_set::site::Site",
    ];
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
}

/// The import cycles, as `folder: room room`.
fn knots(sources: &str) -> BTreeSet<String> {
    let files = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join(sources));
    let mut folders: BTreeMap<Module, Rooms> = BTreeMap::new();
    for (module, path) in files.iter().filter(|(module, _)| !is_test(module)) {
        for imported in imports(module, &fs::read_to_string(path).unwrap()) {
            let known = |length: &usize| files.contains_key(imported.get(..*length).unwrap());
            let Some(length) = (1..=imported.len()).rev().find(known) else { continue };
            let shared = module.iter().zip(&imported).take_while(|(a, b)| a == b).count();
            if let Some(from) = module.get(shared)
                && let Some(to) = imported.get(shared)
                && shared < length
            {
                let folder = folders.entry(module.iter().take(shared).cloned().collect()).or_default();
                folder.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let mut found = BTreeSet::new();
    for (folder, rooms) in &folders {
        for room in rooms.keys() {
            let tied = |other: &&String| reaches(rooms, room, other) && reaches(rooms, other, room);
            let knot: Vec<&str> = rooms.keys().filter(tied).map(String::as_str).collect();
            if !knot.is_empty() {
                let place: Vec<&str> =
                    [sources].into_iter().chain(folder.iter().map(String::as_str)).collect();
                found.insert(format!("{}: {}", place.join("/"), knot.join(" ")));
            }
        }
    }
    found
}

fn reaches(rooms: &Rooms, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = rooms.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(room) = open.pop() {
        if room == to {
            return true;
        }
        if seen.insert(room) {
            open.extend(rooms.get(room).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

fn is_test(module: &Module) -> bool {
    module.iter().any(|name| name.ends_with("tests") || name == "stub")
}

/// Every module of a crate, with its file.
fn modules(sources: &Path) -> BTreeMap<Module, PathBuf> {
    let files = crate::architecture::sources(sources).into_iter();
    files
        .map(|path| {
            let name = path.strip_prefix(sources).unwrap().with_extension("");
            let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
            (module, path)
        })
        .collect()
}

/// The modules that a module's text names through `crate::` or `super::`, as paths from the crate's root.
fn imports(module: &[String], text: &str) -> Vec<Module> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (word, depth) in [("crate::", 0), ("super::", module.len().saturating_sub(1))] {
        for (at, _) in text.match_indices(word) {
            let before = text.get(..at).unwrap_or_default();
            if before.ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '{'))
            {
                continue;
            }
            let base: Module = module.iter().take(depth).cloned().collect();
            found.extend(paths(text.get(at + word.len()..).unwrap_or_default(), base));
        }
    }
    found
}

/// The paths that begin here: one, or all those between braces.
fn paths(text: &str, base: Module) -> Vec<Module> {
    if let Some(list) = text.strip_prefix('{') {
        let mut depth = 0_usize;
        let mut parts = vec![String::new()];
        for letter in list.chars() {
            match letter {
                '}' if depth == 0 => break,
                ',' if depth == 0 => parts.push(String::new()),
                _ => {
                    depth = if letter == '{' { depth + 1 } else { depth - usize::from(letter == '}') };
                    parts.last_mut().unwrap().push(letter);
                }
            }
        }
        return parts.iter().flat_map(|part| paths(part.trim(), base.clone())).collect();
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = base;
    if name == "super" {
        path.pop();
    } else if !name.is_empty() {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) => paths(rest, path),
        None if name.is_empty() => Vec::new(),
        None => vec![path],
    }
}
