//! The simulated world: a Kubernetes API, a DigitalOcean and a Cloudflare, good enough for the real clients.

pub mod advice;
pub mod apiserver;
pub mod cloud;
pub mod news;
pub mod picture;
pub mod simulation;
