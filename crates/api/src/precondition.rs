//! Entity tags, and requests that hold only as long as something is as somebody has seen it (RFC 9110, 8.8.3 and 13).
//!
//! A tag names what an operator may change of a resource, and nothing else of it: not how it is at the moment. So a
//! program that has read a volume may change it as long as nobody else has, however much has been written to it.
//!
//! Invariants:
//! - what cannot be understood as a list of tags is refused, never taken for none.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Problem, ProblemKind};

/// Tags in a header at most: a program has seen few states of what it changes.
const TAGS_MAX: usize = 32;

/// Names a state of what may be changed of a resource: an entity tag as headers have it, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, example = "\"0-1f\"")]
pub struct EntityTag(String);

impl EntityTag {
    /// The tag of what these parts tell apart. They are of letters, digits and hyphens.
    #[must_use]
    pub fn of(parts: &str) -> Self {
        assert!(
            parts.bytes().all(is_opaque),
            "our own tags need no other letters"
        );
        Self(format!("\"{parts}\""))
    }

    /// As a header has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What RFC 9110, 8.8.3 lets be between the quotes, but for what is not ASCII.
const fn is_opaque(byte: u8) -> bool {
    byte == 0x21 || matches!(byte, 0x23..=0x7e)
}

/// Tags of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// Whichever it is, if there is anything.
    Any,
    /// One of these: whether it is weak, and the tag.
    These(Vec<(bool, EntityTag)>),
}

impl Tags {
    fn read(header: &str) -> Option<Self> {
        let mut rest = header.trim();
        if rest == "*" {
            return Some(Self::Any);
        }
        let mut tags = Vec::new();
        loop {
            let (is_weak, quoted) = match rest.strip_prefix("W/") {
                Some(quoted) => (true, quoted),
                None => (false, rest),
            };
            let (opaque, after) = quoted.strip_prefix('"')?.split_once('"')?;
            if !opaque.bytes().all(is_opaque) || tags.len() >= TAGS_MAX {
                return None;
            }
            tags.push((is_weak, EntityTag(format!("\"{opaque}\""))));
            rest = after.trim_start();
            if rest.is_empty() {
                return Some(Self::These(tags));
            }
            rest = rest.strip_prefix(',')?.trim_start();
        }
    }

    /// Whether the tag is among them. A weak one is the same as nothing where what it is for has to be exact.
    fn include(&self, now: &EntityTag, exact: bool) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags
                .iter()
                .any(|(is_weak, tag)| tag == now && !(exact && *is_weak)),
        }
    }
}

/// What has to be so for a request to be done. Without anything it is done in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    only: Option<Tags>,
    not: Option<Tags>,
}

impl Precondition {
    /// That what is changed is as it was when it had this tag.
    #[must_use]
    pub fn still(tag: &EntityTag) -> Self {
        Self {
            only: Some(Tags::These(vec![(false, tag.clone())])),
            not: None,
        }
    }

    /// That there is nothing yet.
    #[must_use]
    pub const fn absent() -> Self {
        Self {
            only: None,
            not: Some(Tags::Any),
        }
    }

    /// Whether anything has to be so.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.only.is_some() || self.not.is_some()
    }

    /// What a request's headers say.
    ///
    /// # Errors
    /// [`ProblemKind::Invalid`] if they say nothing that can be understood.
    pub fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(Self {
            only: tags(headers, &IF_MATCH)?,
            not: tags(headers, &IF_NONE_MATCH)?,
        })
    }

    /// That it is so for what has this tag now, or is not there.
    ///
    /// # Errors
    /// [`ProblemKind::PreconditionFailed`] if it is not.
    pub fn holds(&self, now: Option<&EntityTag>) -> Result<(), Problem> {
        if let Some(tags) = &self.only
            && !now.is_some_and(|now| tags.include(now, true))
        {
            let detail = match now {
                Some(now) => format!("it was changed: its tag is {} now", now.as_str()),
                None => "there is nothing that could have a tag".to_owned(),
            };
            let problem = Problem::new(ProblemKind::PreconditionFailed, detail);
            return Err(problem.hint("read it again, and decide by what it is now"));
        }
        if let Some(tags) = &self.not
            && now.is_some_and(|now| tags.include(now, false))
        {
            let problem = Problem::new(ProblemKind::PreconditionFailed, "it is there already");
            return Err(problem.hint("leave out `If-None-Match` to change what there is"));
        }
        Ok(())
    }

    /// Whether a reader has this already.
    pub(crate) fn is_known(&self, now: &EntityTag) -> bool {
        self.not
            .as_ref()
            .is_some_and(|tags| tags.include(now, false))
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let mut lines = headers.get_all(name).iter().peekable();
    if lines.peek().is_none() {
        return Ok(None);
    }
    let lines: Result<Vec<_>, _> = lines.map(|line| line.to_str()).collect();
    let read = lines.ok().and_then(|lines| Tags::read(&lines.join(",")));
    read.map(Some).ok_or_else(|| {
        let detail = format!("{name} is no list of at most {TAGS_MAX} entity tags");
        Problem::new(ProblemKind::Invalid, detail)
            .hint("it is `*`, or what `ETag` said, with its quotes")
    })
}

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::read(&parts.headers)
    }
}

/// A request that is done only if something is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditional<T> {
    /// What is to be done.
    pub request: T,
    /// What has to be so.
    pub precondition: Precondition,
}

impl<T> From<T> for Conditional<T> {
    /// In any case.
    fn from(request: T) -> Self {
        Self {
            request,
            precondition: Precondition::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(only: &str, not: &str) -> Result<Precondition, Problem> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(IF_MATCH, only), (IF_NONE_MATCH, not)] {
            if !value.is_empty() {
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
        }
        Precondition::read(&headers)
    }

    #[test]
    fn changes_hold_for_what_was_seen_only() {
        let [old, new] = ["0-1", "0-2"].map(EntityTag::of);
        let holds = |only, not, now| read(only, not).unwrap().holds(now).is_ok();
        assert!(holds("", "", None));
        assert!(holds("\"0-1\"", "", Some(&old)));
        assert!(holds(" \"a\" , \"0-1\"", "", Some(&old)));
        assert!(!holds("\"0-1\"", "", Some(&new)));
        assert!(!holds("\"0-1\"", "", None));
        // Weak tags are of what may differ.
        assert!(!holds("W/\"0-1\"", "", Some(&old)));
        assert!(holds("*", "", Some(&old)) && !holds("*", "", None));
        assert!(holds("", "*", None) && !holds("", "*", Some(&old)));
        assert!(!holds("", "W/\"0-1\"", Some(&old)) && holds("", "\"0-1\"", Some(&new)));
        let failed = Precondition::still(&old).holds(Some(&new)).unwrap_err();
        assert_eq!((failed.status, &*failed.code), (412, "precondition-failed"));
        assert!(Precondition::absent().holds(Some(&old)).is_err());
    }

    #[test]
    fn what_is_no_tag_is_not_taken_for_none() {
        let many = vec!["\"a\""; TAGS_MAX + 1].join(",");
        for bad in [
            "0-1",
            "\"0-1",
            "\"a\"\"b\"",
            "\"a\",",
            "w/\"a\"",
            "\"a b\"",
            "\"a\" *",
            &many,
        ] {
            assert_eq!(
                read(bad, "").unwrap_err().kind,
                ProblemKind::Invalid,
                "{bad}"
            );
            assert_eq!(
                read("", bad).unwrap_err().kind,
                ProblemKind::Invalid,
                "{bad}"
            );
        }
        let mut headers = HeaderMap::new();
        headers.append(IF_MATCH, HeaderValue::from_bytes(b"\"\xff\"").unwrap());
        assert!(Precondition::read(&headers).is_err());
        // Two lines are one list.
        let mut headers = HeaderMap::new();
        headers.append(IF_MATCH, HeaderValue::from_static("\"a\""));
        headers.append(IF_MATCH, HeaderValue::from_static("\"b\""));
        let both = Precondition::read(&headers).unwrap();
        assert!(both.holds(Some(&EntityTag::of("b"))).is_ok());
    }
}
