//! One block of the journal that rots while the store is down, and what it may cost: what is in its own group, and nothing else.
//!
//! A slice with a record in that group may have lost something, and has to say so; and one of whose log nothing is left from before it, for
//! nobody can tell whether it had something there; and where the last group of all is gone that said of a segment that it is trimmed, all of its partition
//! have to. All others of the group's partition may be
//! called damaged, or in doubt, for the store cannot tell; but they have all that they had, and are held to it
//! when somebody has said that nothing is missing.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_format::group::ReadGroup;
use holdfast_format::{Body, GroupHeader, HEADER_BLOCK, Install, Superblock};
use holdfast_model::{BlockIndex, BlockRange, SliceId};
use holdfast_stdx::{Bytes, Prng};

use super::model::Call;
use super::run::{Asked, Host, Options};

/// What rotted, and what was there.
#[derive(Debug, Default)]
pub(crate) struct RottenBlock {
    /// It is of a segment's header: where that is not in use, it may have been the next one of any partition.
    is_segment_header: bool,
    partitions: BTreeSet<u16>,
    /// Slices with a record in its group, or with nothing of their logs before it.
    slices: BTreeSet<SliceId>,
    /// What records of its group change.
    changed: Vec<(SliceId, BlockRange)>,
}

impl RottenBlock {
    /// Whether no more than one block rots in a run, and where the place is drawn from: a stream of its own, so that other runs
    /// stay what they are. While a journal moves nobody knows from outside where it is read.
    pub(crate) fn rots_alone(seed: u64, options: Options) -> Option<Prng> {
        let mut prng = Prng::from_seed(seed ^ 0x5707_0003);
        let may_be = options.journal_rot && !options.orders;
        (may_be && prng.chance(2, 3)).then_some(prng)
    }

    fn take(&mut self, group: &ReadGroup) {
        self.partitions.insert(group.header.partition);
        for read in &group.records {
            let slice = read.record.slice;
            self.slices.insert(slice);
            let range = match &read.record.body {
                Body::Entry(entry) | Body::Placed { entry, .. } => entry.change.range(),
                Body::Install { install, .. } => Some(range_of(install)),
                _ => None,
            };
            self.changed.extend(range.map(|range| (slice, range)));
        }
    }

    /// Takes slices of the group's partition whose logs begin behind it.
    fn take_later(&mut self, rotten: &ReadGroup, groups: &[Placed]) {
        let all = beside(rotten, groups);
        let newest = all.clone().max_by_key(|group| group.header.group);
        let oldest = newest.map_or(0, |group| group.header.oldest_group);
        let mut firsts: BTreeMap<SliceId, u64> = BTreeMap::new();
        for group in all.filter(|group| group.header.group >= oldest) {
            for read in group
                .records
                .iter()
                .filter(|read| is_of_log(&read.record.body))
            {
                let first = firsts.entry(read.record.slice).or_insert(u64::MAX);
                *first = group.header.group.min(*first);
            }
        }
        let later = firsts.into_iter();
        let later = later.filter(|(_, first)| *first > rotten.header.group);
        self.slices.extend(later.map(|(slice, _)| slice));
    }

    /// Takes all slices of the group's partition, if it was the last one, and the only one to say that a segment is trimmed which
    /// was used again: that looks like a hole at the chain's beginning.
    fn take_untold(&mut self, rotten: &ReadGroup, groups: &[Placed]) {
        let all = beside(rotten, groups);
        let numbers: BTreeSet<u64> = all.clone().map(|it| it.header.group).collect();
        let before = all
            .clone()
            .filter(|it| it.header.group < rotten.header.group)
            .max_by_key(|it| it.header.group);
        let is_last = numbers.last() == Some(&rotten.header.group);
        let oldest = before.map_or(0, |before| before.header.oldest_group);
        if is_last && !numbers.contains(&oldest) {
            let records = all.flat_map(|group| &group.records);
            self.slices.extend(records.map(|read| read.record.slice));
        }
    }
}

/// The groups of a group's partition.
fn beside<'a>(
    group: &ReadGroup,
    groups: &'a [Placed],
) -> impl Iterator<Item = &'a ReadGroup> + Clone + use<'a> {
    let partition = group.header.partition;
    let all = groups.iter().map(|placed| &placed.group);
    all.filter(move |other| other.header.partition == partition)
}

/// Whether a record says something of where a slice's log is.
fn is_of_log(body: &Body) -> bool {
    matches!(
        body,
        Body::Entry(_) | Body::Placed { .. } | Body::Position { .. }
    )
}

fn range_of(install: &Install) -> BlockRange {
    match install {
        Install::Change(change) => change.range().expect("a copy has blocks"),
        Install::Bad(range) => *range,
    }
}

/// A group on the medium.
struct Placed {
    offset: u64,
    group: ReadGroup,
}

impl Placed {
    fn has(&self, offset: u64) -> bool {
        (self.offset..self.offset + self.group.bytes as u64).contains(&offset)
    }
}

impl Host {
    /// Power is gone: at one of these times a block rots.
    pub(crate) fn rot_one_block(&mut self) {
        let Some(mut prng) = self.one_rots.take() else {
            return;
        };
        if self.rotten_block.is_none() && prng.chance(1, 2) {
            self.rot_one(&mut prng);
        }
        self.one_rots = Some(prng);
    }

    fn rot_one(&mut self, prng: &mut Prng) {
        let journal = self.journal_disk();
        let Ok(superblock) = Superblock::decode(&self.disks[journal].peek(0, 4096)) else {
            return;
        };
        let groups = self.groups_on(journal, &superblock);
        let sector = u64::from(self.options.sector);
        let layout = superblock.layout;
        let at = if prng.chance(1, 8) || groups.is_empty() {
            let segment = prng.below(u64::from(layout.segment_count)) as u32;
            layout.segment_offset(segment) + prng.below(HEADER_BLOCK as u64 / sector) * sector
        } else {
            let chosen = prng.choose(&groups);
            let bytes = match prng.chance(1, 2) {
                true => HEADER_BLOCK,
                false => chosen.group.bytes,
            };
            chosen.offset + prng.below(bytes as u64 / sector) * sector
        };
        let within = (at - layout.journal_offset) % u64::from(layout.segment_bytes);
        let mut block = RottenBlock {
            is_segment_header: within < HEADER_BLOCK as u64,
            ..RottenBlock::default()
        };
        for placed in groups.iter().filter(|placed| placed.has(at)) {
            block.take(&placed.group);
            block.take_later(&placed.group, &groups);
            if at < placed.offset + HEADER_BLOCK as u64 {
                block.take_untold(&placed.group, &groups);
            }
        }
        if self.disks[journal].rot(at) {
            self.trace(&format!("{} rots at {at}: {block:?}", self.now));
            self.journal_has_rotted = true;
            self.report.rotten_alone += 1;
            self.rotten_block = Some(block);
        }
    }

    /// The groups in the journal, those included that nobody reads any more.
    fn groups_on(&self, journal: usize, superblock: &Superblock) -> Vec<Placed> {
        let layout = superblock.layout;
        let mut groups = Vec::new();
        for segment in 0..layout.segment_count {
            let offset = layout.segment_offset(segment);
            let bytes = Bytes::from(self.disks[journal].peek(offset, layout.segment_bytes));
            for at in (HEADER_BLOCK..bytes.len()).step_by(HEADER_BLOCK) {
                let read =
                    GroupHeader::read(&bytes.slice(at..), superblock.store, superblock.nonce);
                groups.extend(read.map(|group| Placed {
                    offset: offset + at as u64,
                    group,
                }));
            }
        }
        groups
    }

    /// Whether a slice may be called damaged, or in doubt, because of a block that rotted alone.
    pub(crate) fn is_of_rotten_partition(&self, slice: SliceId) -> bool {
        let partitions = self.config.format.partitions;
        self.rotten_block.as_ref().is_some_and(|block| {
            let partition = partition_of(slice, partitions);
            block.is_segment_header || block.partitions.contains(&partition)
        })
    }

    /// Whether a slice has a record in the group of a block that rotted alone.
    pub(crate) fn is_in_rotten_group(&self, slice: SliceId) -> bool {
        let block = self.rotten_block.as_ref();
        block.is_some_and(|block| block.slices.contains(&slice))
    }

    /// Whether what a slice has in a block may have been lost with it.
    pub(crate) fn may_be_bad(&self, slice: SliceId, block: BlockIndex) -> bool {
        let mut changed = self.rotten_block.iter().flat_map(|it| &it.changed);
        changed.any(|(id, range)| *id == slice && range.contains(block))
    }

    /// Nothing of the slice was in what is missing: whoever knows that says so.
    pub(crate) fn mend(&mut self, slice: SliceId) {
        let token = self.token(Asked::Call(slice));
        let model = self.model.get_mut(&slice).expect("it is there");
        model.call(token.0, Call::Other);
        let now = self.now;
        let (store, out) = self.store_and_out();
        store.mend(now, slice, token, out);
    }
}

/// The partition that a slice writes to, as `docs/data-format.md` says.
fn partition_of(slice: SliceId, partitions: u16) -> u16 {
    let mut hash = slice.volume.0 ^ (u64::from(slice.index) << 32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ (hash >> 31)) % u64::from(partitions)) as u16
}
