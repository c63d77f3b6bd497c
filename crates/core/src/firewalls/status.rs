//! The firewalls that a pool owns, as its status remembers them, and their names.

use crate::model::ids::{AccountId, Uid};

/// The prefix of the uid in a name.
const PREFIX: &str = "flipop-";

/// The number of characters of the uid in a name.
const UID_CHARS: usize = 8;

/// A firewall of a pool. The status holds it before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its id. Empty until FLIPOP learns it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its account.
    pub account_id: AccountId,
}

/// The name of a pool's firewall with this number.
pub fn name_of(uid: &Uid, number: u64) -> String {
    let start: String = uid.0.chars().take(UID_CHARS).collect();
    format!("{PREFIX}{start}-{number}")
}

/// The number in the name of a firewall of ours.
pub fn number_of(name: &str) -> Option<u64> {
    let (uid, number) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && uid.chars().count() == UID_CHARS).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_begin_of_the_uid_and_a_number() {
        let uid = Uid("0f3a9c1e-77aa-4b0e-9d3c-000000000000".into());
        assert_eq!(name_of(&uid, 12), "flipop-0f3a9c1e-12");
        assert_eq!(number_of("flipop-0f3a9c1e-12"), Some(12));
        for other in
            ["flipop-0f3a9c1e", "flipop-0f3a9c1e-", "flipop-base", "flipop-short-1", "flipop-0f3a9c1e-x"]
        {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
