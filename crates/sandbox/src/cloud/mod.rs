//! Simulated cloud providers on loopback.
