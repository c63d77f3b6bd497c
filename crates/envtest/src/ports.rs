//! Free loopback ports.
//!
//! They are below the kernel's range for outgoing connections, so no connection takes one between its choice here and
//! the bind of its process. One process never gets the same port twice.

use crate::Failure;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port of the range. The kernel's range for outgoing connections starts at 32768.
const FIRST: u16 = 20_000;

/// The size of the range.
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 on which nothing listens.
///
/// # Errors
/// If the whole range is taken.
pub fn free_port() -> Result<u16, Failure> {
    for _ in 0..COUNT {
        let port = FIRST + (start().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::new(format!("no free port from {FIRST} to {}", FIRST + COUNT - 1)))
}

/// Processes that run at the same time start at different ports.
fn start() -> u16 {
    u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT)).unwrap_or_default()
}
