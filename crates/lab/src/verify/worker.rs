//! One worker: a command at a time, on stretches of the volume that are its own, and reads of any.
//!
//! Invariants:
//! - what it writes, no other worker writes;
//! - a write is in the ledger before it is sent, and acknowledged there before the next is begun.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_stdx::{Bytes, Prng};

use super::content::SECTOR_SIZE;
use super::layout::Window;
use super::ledger::{Contents, Writing};
use super::report::{Failure, Kind};
use super::{PathChoice, Shared};
use crate::command;
use crate::multipath::Answer;

/// One command in so many goes to a window that is shared, if there are others: its sectors are few.
const SHARED_ONE_IN: u64 = 16;
/// Pause after a command that failed, so that a volume that refuses all is not asked all the time.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Addresses that fit in a 10-byte command.
const ADDRESS_10_MAX: u64 = u32::MAX as u64;

pub(super) struct Worker {
    shared: Arc<Shared>,
    index: u64,
    prng: Prng,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, index: usize, prng: Prng) -> Self {
        let index = index as u64;
        Self {
            shared,
            index,
            prng,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.shared.stopping.load(Ordering::Relaxed) {
            let went_well = match self.choose_kind() {
                Kind::Read => self.read().await,
                kind => self.change(kind).await,
            };
            if !went_well {
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
            if !self.shared.config.pause.is_zero() {
                tokio::time::sleep(self.shared.config.pause).await;
            }
        }
    }

    fn choose_kind(&mut self) -> Kind {
        let config = &self.shared.config;
        let shares = [
            (Kind::Read, config.reads),
            (Kind::Write, config.writes),
            (Kind::Unmap, config.unmaps),
            (Kind::WriteSame, config.write_sames),
        ];
        let sum = shares.iter().map(|(_, share)| share).sum();
        let mut drawn = self.prng.below(sum);
        for (kind, share) in shares {
            if drawn < share {
                let capacity = self.shared.disk.capacity();
                let can_unmap = capacity.unmaps_to_zeros && capacity.unmap_blocks_max > 0;
                return match kind {
                    Kind::Unmap if !can_unmap => Kind::WriteSame,
                    kind => kind,
                };
            }
            drawn -= share;
        }
        unreachable!("the shares make up their sum");
    }

    async fn read(&mut self) -> bool {
        let window = self.choose_window();
        let sectors = self.choose_within(window.sectors(), Kind::Read);
        let watch = self.shared.ledger().watch(&sectors);
        let blocks = self.blocks_of(&sectors);
        let block_length = self.shared.disk.capacity().block_length;
        let lun = self.shared.disk.config().lun;
        let count = (blocks.end - blocks.start) as u32;
        let short = u16::try_from(count).ok();
        let request = match short {
            Some(short) if blocks.start <= ADDRESS_10_MAX && self.prng.chance(1, 4) => {
                command::read_10(lun, blocks.start as u32, short, block_length)
            }
            _ => command::read(lun, blocks.start, count, block_length),
        };
        let Some(answer) = self.execute(Kind::Read, &request, &sectors).await else {
            return false;
        };
        let data = answer.data_in.concat();
        let tally = |violation| self.shared.tally().violated(violation);
        let checked = self.shared.ledger().check(&watch, &data, tally);
        self.note_ledger(checked.is_ok())
    }

    async fn change(&mut self, kind: Kind) -> bool {
        let sectors = self.choose_own(kind);
        let Some(sectors) = sectors.filter(|sectors| self.shared.ledger().has_room(sectors)) else {
            return false;
        };
        let contents = match kind {
            Kind::Unmap => Contents::Zeros,
            // A pattern that is repeated cannot say which sector it is for, save in one block of
            // one sector.
            Kind::WriteSame if sectors.end - sectors.start > 1 => Contents::Zeros,
            Kind::WriteSame if self.prng.chance(1, 2) => Contents::Zeros,
            _ => Contents::Data,
        };
        let begun = self.shared.ledger().begin(sectors.clone(), contents);
        let Ok(writing) = begun else {
            return self.note_ledger(false);
        };
        let request = self.request(kind, &writing);
        if self.execute(kind, &request, &sectors).await.is_none() {
            return false;
        }
        let acknowledged = self.shared.ledger().acknowledge(&writing);
        self.note_ledger(acknowledged.is_ok())
    }

    fn request(&mut self, kind: Kind, writing: &Writing) -> CommandRequest {
        let lun = self.shared.disk.config().lun;
        let block_length = self.shared.disk.capacity().block_length as usize;
        let blocks = self.blocks_of(&writing.sectors());
        let count = (blocks.end - blocks.start) as u32;
        match kind {
            Kind::Unmap => {
                // Several descriptors where there are several blocks.
                let middle = blocks.start + u64::from(count) / 2;
                let parts = [
                    (blocks.start, (middle - blocks.start) as u32),
                    (middle, (blocks.end - middle) as u32),
                ];
                command::unmap(lun, &parts)
            }
            Kind::WriteSame => {
                let mut pattern = writing.bytes();
                pattern.truncate(block_length);
                let unmap = self.prng.chance(1, 2);
                let unmap = unmap && writing.contents == Contents::Zeros;
                command::write_same(lun, blocks.start, count, pattern.into(), unmap)
            }
            Kind::Write | Kind::Read => {
                let data = vec![Bytes::from(writing.bytes())];
                let short = u16::try_from(count).ok();
                match short {
                    Some(short) if blocks.start <= ADDRESS_10_MAX && self.prng.chance(1, 4) => {
                        command::write_10(lun, blocks.start as u32, short, data)
                    }
                    _ => command::write(lun, blocks.start, count, data, self.prng.chance(1, 8)),
                }
            }
        }
    }

    /// Sends a command through any path and counts what becomes of it.
    async fn execute(
        &mut self,
        kind: Kind,
        request: &CommandRequest,
        sectors: &Range<u64>,
    ) -> Option<Answer> {
        let count = self.shared.disk.path_count();
        let path = match self.shared.config.paths {
            PathChoice::Any => self.prng.below(count as u64) as usize,
            PathChoice::Own => self.index as usize % count,
        };
        let start = Instant::now();
        let result = self.shared.disk.execute(request, path).await;
        let now = Instant::now();
        let count = sectors.end - sectors.start;
        let mut tally = self.shared.tally();
        match result {
            Ok(answer) => {
                tally.completed(
                    now,
                    (kind, count * SECTOR_SIZE as u64),
                    (answer.path, answer.attempts),
                    now - start,
                );
                Some(answer)
            }
            Err(error) => {
                tally.failed(Failure {
                    kind,
                    sector: sectors.start,
                    count,
                    error,
                });
                None
            }
        }
    }

    /// Without its file the ledger would lie after a restart, so the load ends.
    fn note_ledger(&self, is_kept: bool) -> bool {
        if !is_kept {
            self.shared.tally().ledger_lost();
            self.shared.stopping.store(true, Ordering::Relaxed);
        }
        is_kept
    }

    fn blocks_of(&self, sectors: &Range<u64>) -> Range<u64> {
        let grain = u64::from(self.shared.disk.capacity().block_length) / SECTOR_SIZE as u64;
        sectors.start / grain..sectors.end / grain
    }

    fn choose_window(&mut self) -> Window {
        let ledger = self.shared.ledger();
        let windows = ledger.layout().windows();
        let shared = windows.iter().find(|window| window.is_shared);
        match shared {
            Some(shared) if windows.len() == 1 || self.prng.chance(1, SHARED_ONE_IN) => *shared,
            _ => *self.prng.choose(windows),
        }
    }

    /// A stretch that only this worker writes; `None` if it has none in the window that was drawn.
    fn choose_own(&mut self, kind: Kind) -> Option<Range<u64>> {
        let window = self.choose_window();
        let depth = self.shared.config.depth as u64;
        let (grain, part) = {
            let ledger = self.shared.ledger();
            let layout = ledger.layout();
            (layout.grain(), layout.part(&window, self.index, depth))
        };
        if window.is_shared {
            // Every `depth`-th logical block, one at a time: neighbours share blocks of 4 KiB.
            let blocks = window.count / grain;
            let own = (blocks + depth - 1 - self.index) / depth;
            if own == 0 {
                return None;
            }
            let block = self.prng.below(own) * depth + self.index;
            let first = window.first + block * grain;
            return Some(first..first + grain);
        }
        (!part.is_empty()).then(|| self.choose_within(part, kind))
    }

    /// A stretch within `sectors`, of whole logical blocks: often small, often aligned, sometimes
    /// as long as the limits permit.
    fn choose_within(&mut self, sectors: Range<u64>, kind: Kind) -> Range<u64> {
        /// Sectors in a block of 4 KiB.
        const BLOCK: u64 = 8;
        let capacity = self.shared.disk.capacity();
        let grain = u64::from(capacity.block_length) / SECTOR_SIZE as u64;
        let limit = self.shared.config.command_bytes_max / SECTOR_SIZE as u64;
        let limit = match kind {
            Kind::Unmap => limit.min(capacity.unmap_blocks_max * grain),
            Kind::WriteSame => limit,
            Kind::Read | Kind::Write => limit.min(capacity.transfer_blocks_max * grain),
        };
        let limit = limit.min(sectors.end - sectors.start).max(grain) / grain;
        let count = match self.prng.below(3) {
            0 => self.prng.between(1, limit.min(BLOCK)),
            1 => limit.min(BLOCK / grain * self.prng.between(1, 16)),
            _ => self.prng.between(1, limit),
        } * grain;
        let room = (sectors.end - sectors.start - count) / grain;
        let mut first = sectors.start + self.prng.between(0, room) * grain;
        let aligned = first / BLOCK * BLOCK;
        if aligned >= sectors.start && self.prng.chance(1, 2) {
            first = aligned;
        }
        first..first + count
    }
}
