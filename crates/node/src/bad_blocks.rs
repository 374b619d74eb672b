//! What the log has of single blocks that were bad or differed, and of segments of the journal: of each kind the first at
//! once, then one line a minute with how many there were. A device that has lost a part of itself has tens of thousands of
//! them.
//!
//! Invariants:
//! - each kind has one line a minute at most, however many blocks and slices there are;
//! - each block is in one line: it is named there, or counted;
//! - what is counted is told within a minute, or when the node ends.

use std::collections::BTreeSet;
use std::time::Instant;

use holdfast_engine::{Notice, Severity};
use holdfast_model::SliceId;

use crate::lasting::{Lasting, span};

/// Slices that a line names; there may be thousands.
const SLICES_NAMED_MAX: usize = 4;

/// A line of the log.
pub(crate) type Line = (Severity, String);

/// What there is to tell of each kind.
#[derive(Debug)]
pub(crate) struct BadBlocks {
    repaired: Kind,
    corrected: Kind,
    /// A block counts each time that it is read.
    lost: Kind,
    /// Segments of the journal.
    rotten: Kind,
}

#[derive(Debug)]
struct Kind {
    lasting: Lasting<()>,
    /// What they are called where there are several.
    called: &'static str,
    untold: Option<Untold>,
}

/// What has come since the last line.
#[derive(Debug)]
struct Untold {
    since: Instant,
    count: u64,
    slices: BTreeSet<SliceId>,
    last: Notice,
}

impl BadBlocks {
    pub(crate) const fn new() -> Self {
        Self {
            repaired: Kind::new("blocks"),
            corrected: Kind::new("blocks"),
            lost: Kind::new("reads"),
            rotten: Kind::new("segments"),
        }
    }

    /// What is to be told of a notice now: of one about something else, that.
    pub(crate) fn line(&mut self, now: Instant, notice: Notice) -> Option<Line> {
        let (kind, slice) = match notice {
            Notice::Repaired(slice, _) => (&mut self.repaired, Some(slice)),
            Notice::Corrected(slice, _) => (&mut self.corrected, Some(slice)),
            Notice::Lost(slice, _) => (&mut self.lost, Some(slice)),
            Notice::JournalRotten(_) => (&mut self.rotten, None),
            other => return Some((other.severity(), other.to_string())),
        };
        kind.add(now, slice, notice);
        kind.due(now)
    }

    /// What has waited for long enough.
    pub(crate) fn due(&mut self, now: Instant) -> impl Iterator<Item = Line> {
        self.kinds().into_iter().filter_map(move |it| it.due(now))
    }

    /// All that has not been told.
    pub(crate) fn rest(&mut self, now: Instant) -> impl Iterator<Item = Line> {
        self.kinds().into_iter().filter_map(move |it| it.tell(now))
    }

    fn kinds(&mut self) -> [&mut Kind; 4] {
        let Self {
            repaired,
            corrected,
            lost,
            rotten,
        } = self;
        [repaired, corrected, lost, rotten]
    }
}

impl Kind {
    const fn new(called: &'static str) -> Self {
        Self {
            lasting: Lasting::new(),
            called,
            untold: None,
        }
    }

    fn add(&mut self, now: Instant, slice: Option<SliceId>, notice: Notice) {
        let untold = self.untold.get_or_insert_with(|| Untold {
            since: now,
            count: 0,
            slices: BTreeSet::new(),
            last: notice.clone(),
        });
        untold.count += 1;
        untold.slices.extend(slice);
        untold.last = notice;
    }

    fn due(&mut self, now: Instant) -> Option<Line> {
        self.untold.as_ref()?;
        self.lasting.goes_on(now, ())?;
        self.tell(now)
    }

    fn tell(&mut self, now: Instant) -> Option<Line> {
        let Untold {
            since,
            count,
            slices,
            last,
        } = self.untold.take()?;
        let mut text = last.to_string();
        if count > 1 {
            let time = span(now.saturating_duration_since(since));
            let called = self.called;
            let of = match slices.is_empty() {
                true => String::new(),
                false => format!(", of {}", names(&slices)),
            };
            text.push_str(&format!(" ({count} {called} in {time}{of})"));
        }
        Some((last.severity(), text))
    }
}

fn names(slices: &BTreeSet<SliceId>) -> String {
    let named = slices.iter().take(SLICES_NAMED_MAX);
    let named: Vec<String> = named.map(SliceId::to_string).collect();
    let word = if slices.len() == 1 { "slice" } else { "slices" };
    let more = match slices.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{word} {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_model::{DiskId, VolumeId};
    use holdfast_store::{GroupNumber, RottenSegment};

    use super::*;

    fn slice(index: u32) -> SliceId {
        SliceId {
            volume: VolumeId(7),
            index,
        }
    }

    /// A device that was truncated: 41,408 blocks are mended, 200 in a second.
    #[test]
    fn blocks_that_are_mended_have_one_line_a_minute_in_which_each_counts() {
        const BLOCKS: u64 = 41_408;
        let start = Instant::now();
        let mut blocks = BadBlocks::new();
        let mut told = Vec::new();
        for number in 0..BLOCKS {
            let now = start + Duration::from_millis(number * 5);
            let notice = Notice::Repaired(slice((number % 6) as u32), number as u32);
            let line = blocks.line(now, notice);
            told.extend(line.into_iter().chain(blocks.due(now)));
        }
        // Nothing more happens, and what was left is told.
        for second in 208..600 {
            told.extend(blocks.due(start + Duration::from_secs(second)));
        }
        assert_eq!(told.len(), 5, "{told:#?}");
        assert_eq!(
            told[0],
            (
                Severity::Warning,
                format!(
                    "repaired block 0 of slice {} from another replica",
                    slice(0)
                )
            )
        );
        let slices: Vec<String> = (0..4).map(|index| slice(index).to_string()).collect();
        let counted = told[1..].iter().map(|(_, text)| {
            let (_, count) = text.split_once(" (").expect(text);
            let (count, rest) = count.split_once(' ').expect(text);
            let of = format!(", of slices {} and 2 more)", slices.join(", "));
            assert!(rest.ends_with(&of), "{text}");
            count.parse::<u64>().expect(text)
        });
        assert_eq!(1 + counted.sum::<u64>(), BLOCKS, "{told:#?}");
    }

    /// All of a journal behind the end of a device that was cut short.
    #[test]
    fn rotten_segments_have_one_line_a_minute() {
        let start = Instant::now();
        let mut blocks = BadBlocks::new();
        let mut told = Vec::new();
        for index in 0..32 {
            let rotten = RottenSegment {
                disk: DiskId(0),
                partition: 1,
                index,
                group: GroupNumber(7),
                offset: 4096,
            };
            let now = start + Duration::from_millis(100 * u64::from(index));
            let notice = Notice::JournalRotten(rotten);
            if index == 0 {
                let first = (notice.severity(), notice.to_string());
                assert_eq!(blocks.line(now, notice), Some(first));
            } else {
                told.extend(blocks.line(now, notice));
            }
        }
        for second in 4..600 {
            told.extend(blocks.due(start + Duration::from_secs(second)));
        }
        let [(severity, text)] = &told[..] else {
            panic!("{told:#?}");
        };
        assert_eq!(*severity, Severity::Warning);
        assert!(text.contains("segment 31"), "the last: {text}");
        assert!(text.ends_with(" (31 segments in 59 s)"), "{text}");
    }

    #[test]
    fn each_kind_is_told_at_once_and_what_is_left_at_the_end() {
        let now = Instant::now();
        let mut blocks = BadBlocks::new();
        for block in 0..3 {
            let notices = [
                Notice::Repaired(slice(1), block),
                Notice::Corrected(slice(1), block),
                Notice::Lost(slice(1), block),
            ];
            for notice in notices {
                let expected = (block == 0).then(|| (notice.severity(), notice.to_string()));
                assert_eq!(blocks.line(now, notice), expected);
            }
            let other = Notice::Spoiled(slice(1), 3);
            let told = (other.severity(), other.to_string());
            assert_eq!(blocks.line(now, other), Some(told), "each time");
        }
        let rest: Vec<_> = blocks.rest(now + Duration::from_secs(5)).collect();
        let [(repaired, _), (corrected, _), (lost, text)] = &rest[..] else {
            panic!("{rest:?}");
        };
        assert_eq!([repaired, corrected], [&Severity::Warning; 2]);
        assert_eq!(*lost, Severity::Error);
        let counted = format!("(2 reads in 5 s, of slice {})", slice(1));
        assert!(text.ends_with(&counted), "{text}");
        assert_eq!(blocks.rest(now).count(), 0);
    }
}
