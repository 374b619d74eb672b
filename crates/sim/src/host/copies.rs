//! Copies between volumes (EXTENDED COPY): a host has the same places of another volume copied to its own, where what is there is
//! known: a template that is written before, or zeros.
//!
//! Invariant: what a copy brings is one write, of which the history knows the value.

use holdfast_stdx::{Duration, Instant};

use super::work::{Answer, Work};
use super::{Host, HostCounts};
use crate::content::TEMPLATE;
use crate::history::Sectors;

/// Copies from a volume to the same places of the host's own one.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// The volume that is read: it has the template in some places, and is zeros otherwise.
    pub from: usize,
    /// Copies in a hundred commands.
    pub percent: u64,
    /// Each is of everything from the first place to the last one, where there is no template.
    pub of_all: bool,
}

impl Host {
    /// Wants the template in its places on its volume, for others to copy.
    pub(crate) fn want_template(&mut self, now: Instant) {
        for sectors in self.areas.template(self.plan.volume) {
            self.add(now, Work::Write(TEMPLATE), sectors, None);
        }
    }

    pub(super) fn copy(&mut self, now: Instant, copies: Copies, drawn: Sectors) {
        let Copies { from, of_all, .. } = copies;
        let sectors = match of_all {
            true => self.areas.whole(self.plan.volume),
            false => drawn,
        };
        let holds = |it: Sectors| (it.first..it.first + it.count).contains(&sectors.first);
        let mut template = self.areas.template(self.plan.volume).into_iter();
        let value = match !of_all && template.any(holds) {
            true => TEMPLATE,
            false => 0,
        };
        self.add(now, Work::Copy { from, value }, sectors, None);
    }
}

impl HostCounts {
    /// A command was done, and took so long.
    pub(super) fn note_done(&mut self, work: Work, took: Duration) {
        self.done += 1;
        if let Work::Copy { .. } = work {
            self.copies += 1;
            self.copy_longest = self.copy_longest.max(took);
        }
    }

    /// A command is to be tried again: not now, or because its copy was aborted.
    pub(super) fn note_later(&mut self, answer: &Answer) {
        match answer {
            Answer::CopyAborted => self.copies_aborted += 1,
            _ => self.put_off += 1,
        }
    }
}
