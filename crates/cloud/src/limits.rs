//! The request limits of both providers, per token, and the limit on creations.

use std::collections::BTreeMap;

use super::rate::Window;

/// Requests per hour at `DigitalOcean`.
pub(super) const DO_HOUR: usize = 5_000;
/// Requests per minute at `DigitalOcean`.
pub(super) const DO_MINUTE: usize = 250;
/// Creations of reserved IPs per minute at `DigitalOcean`.
pub(super) const DO_CREATIONS: usize = 12;
/// Requests per five minutes at Cloudflare.
pub(super) const CF_REQUESTS: usize = 1_200;
/// Cloudflare counts over five minutes and blocks for the same time.
pub(super) const CF_WINDOW_MS: u64 = 300_000;

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

/// The windows of one `DigitalOcean` token.
#[derive(Debug)]
pub(super) struct DoWindows {
    pub(super) hour: Window,
    pub(super) minute: Window,
}

impl DoWindows {
    /// The window that refuses requests, or the hourly window if none does.
    pub(super) fn tighter(&mut self, now_ms: u64) -> &mut Window {
        if self.minute.remaining(now_ms) == 0 && self.hour.remaining(now_ms) > 0 {
            &mut self.minute
        } else {
            &mut self.hour
        }
    }
}

/// The window of one Cloudflare user.
#[derive(Debug)]
pub(super) struct CfWindow {
    pub(super) window: Window,
    pub(super) blocked_until_ms: u64,
}

/// The windows of all tokens.
#[derive(Debug)]
pub(super) struct Limits {
    digitalocean: BTreeMap<String, DoWindows>,
    cloudflare: BTreeMap<String, CfWindow>,
    pub(super) creations: Window,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            digitalocean: BTreeMap::new(),
            cloudflare: BTreeMap::new(),
            creations: Window::new(DO_CREATIONS, MINUTE_MS),
        }
    }
}

impl Limits {
    /// The windows of a `DigitalOcean` token.
    pub(super) fn digitalocean(&mut self, token: &str) -> &mut DoWindows {
        self.digitalocean.entry(token.to_owned()).or_insert_with(|| DoWindows {
            hour: Window::new(DO_HOUR, HOUR_MS),
            minute: Window::new(DO_MINUTE, MINUTE_MS),
        })
    }

    /// The window of a Cloudflare token.
    pub(super) fn cloudflare(&mut self, token: &str) -> &mut CfWindow {
        self.cloudflare.entry(token.to_owned()).or_insert_with(|| CfWindow {
            window: Window::new(CF_REQUESTS, CF_WINDOW_MS),
            blocked_until_ms: 0,
        })
    }
}
