//! Users and tokens that were wished for with a key, so that whoever got no answer may repeat the wish: one document of the
//! metadata, written together with what was made.
//!
//! It is a document of its own so that a version that does not know it reads what it knows.
//!
//! Invariants:
//! - nothing of a password or a token is in it;
//! - so many are kept, and for so long: the oldest give way.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::Record;
use holdfast_stdx::Duration;
use serde::{Deserialize, Serialize};

use crate::AccountError;

/// Where it is.
pub const CREATIONS_KEY: &str = "/holdfast/security/creations";
/// Wishes that are kept at most.
pub const CREATIONS_MAX: usize = 128;
/// For how long one is kept, if there is room: as long as a volume's.
pub const CREATION_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What came of wishes, at [`CREATIONS_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreationsRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// The oldest first.
    pub creations: Vec<CreationOf>,
}

/// What came of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreationOf {
    /// The key that it bore.
    pub key: String,
    /// What was wished for, word by word but for a password: another wish must not bear the same key.
    pub wish: String,
    /// The user's name, or the token's id.
    pub made: String,
    /// When it was made: milliseconds since 1970 (UTC), as it is on record of what was made.
    pub at_ms: u64,
}

impl Record for CreationsRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Default for CreationsRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            creations: Vec::new(),
        }
    }
}

impl CreationsRecord {
    /// What came of a wish before, if it was wished before.
    ///
    /// # Errors
    /// [`AccountError::KeyReused`] if something else was.
    pub fn answered(
        &self,
        key: &str,
        wish: &str,
        now_ms: u64,
    ) -> Result<Option<&CreationOf>, AccountError> {
        let mut kept = self.creations.iter();
        match kept.find(|one| one.key == key && !one.is_over(now_ms)) {
            Some(found) if found.wish != wish => Err(AccountError::KeyReused),
            found => Ok(found),
        }
    }

    /// Keeps what came of a wish that has not been answered. Others go that are over, or for which there is no room.
    pub fn keep(&mut self, creation: CreationOf, now_ms: u64) {
        let is_other = |one: &CreationOf| one.key != creation.key && !one.is_over(now_ms);
        self.creations.retain(is_other);
        let too_many = (self.creations.len() + 1).saturating_sub(CREATIONS_MAX);
        self.creations.drain(..too_many);
        self.creations.push(creation);
    }
}

impl CreationOf {
    /// Whether it was so long ago that it counts no more.
    fn is_over(&self, now_ms: u64) -> bool {
        u128::from(now_ms.saturating_sub(self.at_ms)) > CREATION_KEPT.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;

    use holdfast_model::metadata::VALUE_LENGTH_MAX;

    use super::*;

    fn one(key: &str, wish: &str, at_ms: u64) -> CreationOf {
        CreationOf {
            key: key.to_owned(),
            wish: wish.to_owned(),
            made: "ada".to_owned(),
            at_ms,
        }
    }

    #[test]
    fn a_wish_is_answered_as_it_was_for_a_day() {
        let day = CREATION_KEPT.as_millis() as u64;
        let mut record = CreationsRecord::default();
        record.keep(one("k", "a", 5), 5);
        let made = |wish, now| {
            let found = record.answered("k", wish, now);
            found.map(|found| found.map(|it| it.made.as_str()))
        };
        assert_eq!(made("a", 6), Ok(Some("ada")));
        assert_eq!(made("b", 5 + day), Err(AccountError::KeyReused));
        assert_eq!(made("b", 6 + day), Ok(None), "it is over");
        assert_eq!(record.answered("l", "a", 6), Ok(None));
        record.keep(one("k", "b", 6 + day), 6 + day);
        assert_eq!(record.creations, [one("k", "b", 6 + day)]);
    }

    #[test]
    fn as_many_as_are_kept_fit_and_the_oldest_give_way() {
        let mut record = CreationsRecord::default();
        // A key has 255 bytes at most; a wish the longest name, a role, a scope and a time.
        let wish = "\"".repeat(400);
        for number in 0..CREATIONS_MAX + 2 {
            record.keep(one(&format!("{number:0255}"), &wish, 1), 1);
        }
        assert_eq!(record.creations.len(), CREATIONS_MAX);
        assert_eq!(record.creations[0].key, format!("{:0255}", 2));
        assert!(record.encode().len() <= VALUE_LENGTH_MAX);
    }

    #[test]
    fn it_is_written_as_it_always_was() {
        let literal =
            br#"{"schema":1,"creations":[{"key":"k","wish":"a","made":"ada","at_ms":7}]}"#;
        let record = CreationsRecord::decode(literal).unwrap();
        assert_eq!(record.creations, [one("k", "a", 7)]);
        assert_eq!(&record.encode()[..], &literal[..]);
    }
}
