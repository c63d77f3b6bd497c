//! Free loopback ports.
//!
//! They come from below the range that the kernel gives to outgoing connections, so that nobody takes one between
//! its choice here and the bind of the process that it is for; and none is given twice by one process.

use crate::Failure;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port of the range; the kernel's own range for outgoing connections starts at 32768.
const FIRST: u16 = 20_000;

/// How many ports the range has.
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 on which nobody listens.
///
/// # Errors
/// When the whole range is taken.
pub fn free_port() -> Result<u16, Failure> {
    for _ in 0..COUNT {
        let port = FIRST + (start().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::new(format!("no free port from {FIRST} to {}", FIRST + COUNT - 1)))
}

/// Processes that run at the same time start at different places.
fn start() -> u16 {
    u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT)).unwrap_or_default()
}
