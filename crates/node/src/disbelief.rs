//! That the metadata is not believed, as the node's log has it.
//!
//! Invariant: while it goes on, a line is told when it begins, when the reason becomes another one, and then each minute,
//! however often it is heard of, and however often it comes and goes.

use std::time::Instant;

use holdfast_engine::{Astray, Notice};

use crate::bad_blocks::Line;
use crate::lasting::{Lasting, Tell, span};

/// What was told, and of what.
#[derive(Debug)]
pub(crate) struct Disbelief {
    lasting: Lasting<Astray>,
}

impl Disbelief {
    pub(crate) const fn new() -> Self {
        Self {
            lasting: Lasting::new(),
        }
    }

    /// What the log is to have now, if anything; `why` the metadata is not believed, if it is not.
    pub(crate) fn line(&mut self, now: Instant, why: Option<Astray>) -> Option<Line> {
        let Some(why) = why else {
            let lasted = self.lasting.over(now)?;
            let notice = Notice::MetadataFollowed;
            let text = format!("{notice}, after {}", span(lasted));
            return Some((notice.severity(), text));
        };
        let tell = self.lasting.goes_on(now, why)?;
        let notice = Notice::MetadataAstray(why);
        let text = match tell {
            Tell::News => notice.to_string(),
            Tell::Still(time) => format!("for {} now: {notice}", span(time)),
        };
        Some((notice.severity(), text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// It had one line, of which nothing was left in a log that is a week older.
    #[test]
    fn metadata_that_is_not_believed_is_told_once_a_minute() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut disbelief = Disbelief::new();
        assert_eq!(disbelief.line(start, None), None);
        let told: Vec<_> = (0..600)
            .filter_map(|turn| disbelief.line(after(turn * 250), Some(Astray::NoCluster)))
            .collect();
        let [first, second, third] = &told[..] else {
            panic!("three in two and a half minutes: {told:#?}");
        };
        let says = "the metadata is not believed, and nothing is deleted or changed: it has no record of the cluster; ";
        assert!(first.1.starts_with(says), "{}", first.1);
        assert_eq!(second.1, format!("for 1 min now: {}", first.1));
        assert!(third.1.starts_with("for 2 min now: "), "{}", third.1);
        let (_, end) = disbelief.line(after(150_000), None).unwrap();
        assert_eq!(end, "the metadata is the right one again, after 2 min");
        assert_eq!(disbelief.line(after(150_250), None), None);
    }
}
