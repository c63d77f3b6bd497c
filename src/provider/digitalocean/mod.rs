//! `DigitalOcean`.
