//! Clients and watches of the Kubernetes API.
