//! HTTP endpoints of the operator: metrics, health and debug.
