//! API tokens with scopes.

use std::fmt;

use super::wire::Provider;

/// A token as the provider knows it. The secret itself is only the key under which the token is stored.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) provider: Provider,
    pub(super) scopes: Vec<String>,
    pub(super) revoked: bool,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Token {
    /// Whether the token has `scope`, for example `reserved_ip:read`.
    pub(super) fn allows(&self, scope: &str) -> bool {
        let family = scope.split(':').next().unwrap_or_default();
        self.scopes.iter().any(|own| {
            own == "*" || own == scope || own.strip_suffix(":*").is_some_and(|prefix| prefix == family)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_family_or_for_all() {
        let token = |scopes: &[&str]| Token {
            name: "t".to_owned(),
            provider: Provider::DigitalOcean,
            scopes: scopes.iter().map(ToString::to_string).collect(),
            revoked: false,
        };
        assert!(token(&["*"]).allows("domain:read"));
        assert!(token(&["reserved_ip:*"]).allows("reserved_ip:update"));
        assert!(!token(&["reserved_ip:*"]).allows("reserved_ipv6:update"));
        assert!(!token(&["droplet:read"]).allows("droplet:create"));
    }
}
