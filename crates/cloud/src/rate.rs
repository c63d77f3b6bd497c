//! Sliding windows of requests, as the providers count them.
//!
//! A window never refills at once: each request leaves it when it is as old as the window is long.

use std::collections::VecDeque;

/// A limit of requests in a span of milliseconds.
#[derive(Debug, Clone)]
pub(super) struct Window {
    limit: usize,
    length_ms: u64,
    sent_ms: VecDeque<u64>,
}

impl Window {
    pub(super) fn new(limit: usize, length_ms: u64) -> Self {
        Self { limit, length_ms, sent_ms: VecDeque::new() }
    }

    fn expire(&mut self, now_ms: u64) {
        while self.sent_ms.front().is_some_and(|&sent| sent.saturating_add(self.length_ms) <= now_ms) {
            self.sent_ms.pop_front();
        }
    }

    /// The requests that are left.
    pub(super) fn remaining(&mut self, now_ms: u64) -> usize {
        self.expire(now_ms);
        self.limit.saturating_sub(self.sent_ms.len())
    }

    /// Counts one request, even if the window is full.
    pub(super) fn count(&mut self, now_ms: u64) {
        self.expire(now_ms);
        self.sent_ms.push_back(now_ms);
    }

    /// When the oldest request leaves the window. Now, if there is none.
    pub(super) fn reset_ms(&self, now_ms: u64) -> u64 {
        self.sent_ms.front().map_or(now_ms, |sent| sent.saturating_add(self.length_ms))
    }

    /// The capacity of the window.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Pretends that all but `remaining` requests were sent at `now_ms`.
    pub(super) fn fill(&mut self, now_ms: u64, remaining: usize) {
        self.expire(now_ms);
        while self.limit.saturating_sub(self.sent_ms.len()) > remaining {
            self.sent_ms.push_back(now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_gives_back_each_request_when_it_is_old_enough() {
        let mut window = Window::new(2, 1_000);
        window.count(0);
        window.count(400);
        assert_eq!(window.remaining(999), 0);
        assert_eq!(window.reset_ms(999), 1_000);
        assert_eq!(window.remaining(1_000), 1);
        assert_eq!(window.reset_ms(1_000), 1_400);
        assert_eq!(window.remaining(1_400), 2);
    }
}
