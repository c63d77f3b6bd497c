//! The shell around the decisions without a cluster: the clients of the providers over real sockets, every decoder of
//! external data, and leadership in a simulated network.

mod fuzz;
mod leadership;
mod provider_http;
