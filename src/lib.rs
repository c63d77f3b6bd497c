//! The shell of FLIPOP: everything that waits, logs or talks.
