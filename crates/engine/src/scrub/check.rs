//! One page of a slice, as its in-sync replicas have it: what is bad, what differs, and who is right.
//!
//! It refuses to send, to read and to wait.
//!
//! Of sound blocks that differ these are taken for right, the first rule that decides:
//! 1. what more than half of the replicas have;
//! 2. what the replica has whose page was written later, where all changes are on the media: a medium that
//!    lost a write holds what was there before, and was told of fewer changes;
//! 3. data rather than nothing, for the same reason;
//! 4. what the primary has.
//!
//! Where only the last two decide the block is *doubtful*.
//!
//! Invariants:
//! - blocks differ only if nothing may have changed them between the moments at which they were read;
//! - a bad block is right nowhere.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::record::ScrubFindings;
use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE, Epoch, NodeId, PageIndex, Sequence};
use holdfast_wire::{BlockDigest, Content, Contents};

/// What a replica says of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The committed point as of which it was read.
    pub(crate) as_of: Sequence,
    /// The last change, if all are on the medium.
    pub(crate) written: Option<Sequence>,
    /// One for each block.
    pub(crate) digests: Vec<BlockDigest>,
}

#[derive(Debug, PartialEq, Eq)]
enum Theirs {
    Asked,
    Told(Told),
    /// It cannot tell now.
    Unable,
    /// It does not know the question.
    Never,
}

/// What is to be done about blocks that differ; one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Correction {
    /// They are fetched from there.
    Here { from: NodeId, blocks: u64 },
    /// They are sent there.
    There { node: NodeId, blocks: u64 },
}

impl Correction {
    /// Takes the blocks of another one, if that is of the same kind and node.
    fn takes(&mut self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Here { from: own, blocks },
                Self::Here {
                    from: node,
                    blocks: more,
                },
            )
            | (Self::There { node: own, blocks }, Self::There { node, blocks: more })
                if *own == node =>
            {
                *blocks |= more;
                true
            }
            _ => false,
        }
    }
}

/// What came of one look at all replicas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) corrections: Vec<Correction>,
    /// Bad blocks here, one bit each.
    pub(crate) bad_here: u64,
    /// Bad blocks, and blocks that differ, on all nodes.
    wrong: u64,
    /// Blocks that could not be compared.
    skipped: u64,
    /// Some of them may be able to be compared later.
    is_early: bool,
    /// Bytes that were read.
    bytes: u64,
}

impl Verdict {
    /// Whether nothing is to be gained by another look: everything that can be asked is as it is to be.
    pub(crate) fn is_final(&self) -> bool {
        self.wrong == 0 && !self.is_early
    }

    /// Adds what is to be done about a block to what is to be done about others in the same place.
    fn correct(&mut self, correction: Correction) {
        let known = &mut self.corrections;
        if !known.iter_mut().any(|known| known.takes(correction)) {
            known.push(correction);
        }
    }
}

/// A block of a replica.
type Place = (NodeId, u32);

/// A page under way.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) number: u64,
    pub(crate) page: PageIndex,
    /// Other replicas tell of pages from here on that are not here.
    pub(crate) from: PageIndex,
    /// In which everybody was asked.
    pub(crate) epoch: Epoch,
    me: NodeId,
    own: Option<Told>,
    contents: Contents,
    theirs: BTreeMap<NodeId, Theirs>,
    pub(crate) attempts: u32,
    bad: BTreeSet<Place>,
    differing: BTreeSet<Place>,
    doubtful: BTreeSet<Place>,
}

impl Check {
    pub(crate) fn new(me: NodeId, from: PageIndex, page: PageIndex) -> Self {
        Self {
            number: 0,
            page,
            from,
            epoch: Epoch::ZERO,
            me,
            own: None,
            contents: Contents::new(),
            theirs: BTreeMap::new(),
            attempts: 0,
            bad: BTreeSet::new(),
            differing: BTreeSet::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Everybody is asked anew.
    pub(crate) fn begin(&mut self, number: u64, epoch: Epoch) {
        self.number = number;
        self.epoch = epoch;
        self.attempts += 1;
        self.own = None;
        self.contents = Contents::new();
        self.theirs = BTreeMap::new();
    }

    pub(crate) fn ask(&mut self, node: NodeId) {
        self.theirs.insert(node, Theirs::Asked);
    }

    /// A replica never tells: its node speaks an older version.
    pub(crate) fn leave_out(&mut self, node: NodeId) {
        self.theirs.insert(node, Theirs::Never);
    }

    /// A replica does not tell.
    pub(crate) fn give_up(&mut self, node: NodeId) {
        self.theirs.insert(node, Theirs::Unable);
    }

    /// None tells any more that has not.
    pub(crate) fn give_up_silent(&mut self) {
        for theirs in self.theirs.values_mut() {
            if *theirs == Theirs::Asked {
                *theirs = Theirs::Unable;
            }
        }
    }

    pub(crate) fn is_asked(&self, node: NodeId) -> bool {
        self.theirs.get(&node) == Some(&Theirs::Asked)
    }

    pub(crate) fn tell(&mut self, node: NodeId, told: Told) {
        let whole = told.digests.len() == BLOCKS_PER_PAGE as usize;
        let theirs = if whole {
            Theirs::Told(told)
        } else {
            Theirs::Unable
        };
        self.theirs.insert(node, theirs);
    }

    pub(crate) fn read_here(&mut self, told: Told, contents: Contents) {
        self.own = Some(told);
        self.contents = contents;
    }

    /// Whether everybody who tells has told.
    pub(crate) fn is_complete(&self) -> bool {
        self.own.is_some() && self.theirs.values().all(|theirs| *theirs != Theirs::Asked)
    }

    /// What is here of some blocks, for those who have other ones.
    pub(crate) fn contents_of(&self, blocks: u64) -> Contents {
        let wanted = |content: &Content| {
            let inside = content.range.blocks();
            let inside = inside.filter(|block| blocks & 1 << block.within_page() != 0);
            let one = |block| content.part(holdfast_model::BlockRange::single(block));
            inside.map(one).collect::<Vec<_>>()
        };
        self.contents.iter().flat_map(wanted).collect()
    }

    pub(crate) fn as_of(&self) -> Sequence {
        self.own.as_ref().map_or(Sequence::ZERO, |own| own.as_of)
    }

    /// Judges, once all have told. `changed` says which blocks may have changed here above a sequence.
    pub(crate) fn judge(&mut self, changed: impl Fn(Sequence) -> u64) -> Verdict {
        let own = self.own.take().expect("this replica has told");
        let theirs = core::mem::take(&mut self.theirs);
        let mut verdict = Verdict::default();
        let mut told: Vec<(NodeId, &Told)> = alloc::vec![(self.me, &own)];
        for (node, theirs) in &theirs {
            match theirs {
                Theirs::Told(one) => told.push((*node, one)),
                Theirs::Asked | Theirs::Unable => {
                    verdict.skipped += held(&own.digests);
                    verdict.is_early = true;
                }
                Theirs::Never => verdict.skipped += held(&own.digests),
            }
        }
        let lowest = told.iter().map(|(_, one)| one.as_of).min();
        let unstable = changed(lowest.unwrap_or(own.as_of));
        for (_, one) in &told {
            verdict.bytes += held(&one.digests) * BLOCK_SIZE as u64;
        }
        for block in 0..BLOCKS_PER_PAGE {
            self.judge_block(block, &told, unstable & 1 << block != 0, &mut verdict);
        }
        self.own = Some(own);
        verdict
    }

    fn judge_block(
        &mut self,
        block: u32,
        told: &[(NodeId, &Told)],
        unstable: bool,
        verdict: &mut Verdict,
    ) {
        let mut sound: Vec<Voice> = Vec::new();
        for (node, one) in told {
            match one.digests[block as usize] {
                BlockDigest::Bad => {
                    verdict.wrong += 1;
                    self.bad.insert((*node, block));
                    if *node == self.me {
                        verdict.bad_here |= 1 << block;
                    }
                }
                digest => sound.push(Voice {
                    node: *node,
                    digest,
                    written: one.written,
                }),
            }
        }
        // What is bad here is mended first.
        let Some(own) = sound.iter().find(|voice| voice.node == self.me) else {
            return;
        };
        let others = sound.iter().filter(|voice| voice.digest != own.digest);
        let differing = others.count() as u64;
        if differing == 0 {
            return;
        }
        if unstable {
            verdict.skipped += differing;
            verdict.is_early = true;
            return;
        }
        let (right, is_doubtful) = right(&sound, own);
        let wrong: Vec<NodeId> = sound
            .iter()
            .filter(|voice| voice.digest != right.digest)
            .map(|voice| voice.node)
            .collect();
        for node in &wrong {
            verdict.wrong += 1;
            self.differing.insert((*node, block));
            if is_doubtful {
                self.doubtful.insert((*node, block));
            }
        }
        // Others are put right once this one is.
        let blocks = 1 << block;
        if wrong.contains(&self.me) {
            let from = right.node;
            verdict.correct(Correction::Here { from, blocks });
        } else {
            for node in wrong {
                verdict.correct(Correction::There { node, blocks });
            }
        }
    }

    /// What was found, where this is the last verdict.
    pub(crate) fn findings(&self, last: &Verdict) -> ScrubFindings {
        ScrubFindings {
            bytes_read: last.bytes,
            bad: self.bad.len() as u64,
            differing: self.differing.len() as u64,
            doubtful: self.doubtful.len() as u64,
            unmended: last.wrong,
            skipped: last.skipped,
        }
    }
}

/// A replica with a sound block.
#[derive(Clone, Copy)]
struct Voice {
    node: NodeId,
    digest: BlockDigest,
    written: Option<Sequence>,
}

/// Whose block is right, and whether that is doubtful.
fn right(sound: &[Voice], own: &Voice) -> (Voice, bool) {
    let votes = |voice: &Voice| {
        let same = sound.iter().filter(|other| other.digest == voice.digest);
        same.count()
    };
    if let Some(voice) = sound.iter().find(|voice| 2 * votes(voice) > sound.len()) {
        return (*voice, false);
    }
    let latest = sound.iter().filter_map(|voice| voice.written).max();
    let latest = latest.filter(|_| sound.iter().all(|voice| voice.written.is_some()));
    if let Some(latest) = latest {
        let mut last = sound.iter().filter(|voice| voice.written == Some(latest));
        if let Some(first) = last.next()
            && last.all(|voice| voice.digest == first.digest)
        {
            return (*first, false);
        }
    }
    let has_data = |voice: &&Voice| voice.digest != BlockDigest::Zero;
    let data = sound.iter().find(has_data).filter(|_| !has_data(&own));
    (*data.unwrap_or(own), true)
}

/// Blocks that are not zeros.
fn held(digests: &[BlockDigest]) -> u64 {
    let held = digests
        .iter()
        .filter(|digest| **digest != BlockDigest::Zero);
    held.count() as u64
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
