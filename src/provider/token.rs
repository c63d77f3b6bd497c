//! Part of the provider foundation.
