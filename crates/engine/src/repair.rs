//! Reads, and what becomes of blocks that fail their checksum: they are fetched from another
//! in-sync replica, put in place, and read again.
//!
//! Invariants:
//! - a bad block is never returned as data, and never as zeros;
//! - what is put in place has the checksum on record, where that is known;
//! - a block is tried at every other in-sync replica before it is called lost.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{BlockRange, Change, NodeId};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{BlockRead, StoreToken, View};
use holdfast_wire::{BlockContent, Content, Fetch, Fetched, OutcomeCode};

use crate::Notice;
use crate::engine::Engine;
use crate::storage::{Read, Reader, Use, contents_of};

/// How often a read is begun anew because of repaired blocks, before they count as lost.
const ATTEMPTS_MAX: u32 = 4;
/// When a replica is asked again that could not say what its blocks are: an entry on them was not
/// known to be committed there, or it had not begun the epoch.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How often that is done. Commits are told within a heartbeat; a host waits for longer than this.
const ASK_AGAIN_MAX: u32 = 100;
/// Fetches under way at most; reads beyond them return their bad blocks.
const FETCHES_MAX: usize = 1024;

/// A read that waits for another replica's blocks.
#[derive(Debug)]
struct Fetching {
    read: Read,
    /// What was read here.
    blocks: Vec<BlockRead>,
    /// Whom it is being asked of.
    asked: NodeId,
    /// Whom it can be asked of after that.
    others: Vec<NodeId>,
}

/// Reads that wait for repair.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    fetching: BTreeMap<u64, Fetching>,
    next_number: u64,
    /// Reads that begin anew later, in the order of their times.
    later: VecDeque<(Instant, Read)>,
}

impl Repairs {
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.later.front().map(|(due, _)| *due)
    }
}

impl Engine {
    /// The store has read.
    pub(crate) fn read_done(&mut self, token: StoreToken, blocks: Vec<BlockRead>) {
        let Use::Read(read) = self.world.storage.take_use(token) else {
            unreachable!("a read's token is a read's")
        };
        let bad = blocks
            .iter()
            .any(|block| matches!(block, BlockRead::Bad { .. }));
        let repairs = !matches!(read.reader, Reader::Peer { .. });
        if bad && repairs && read.attempts < ATTEMPTS_MAX {
            let others = self.repairers(&read);
            self.fetch(read, blocks, others);
        } else {
            self.deliver(&read, blocks);
        }
    }

    fn repairers(&self, read: &Read) -> Vec<NodeId> {
        let replica = self.replicas.get(&read.slice);
        let in_sync = replica.filter(|replica| replica.in_sync_epoch().is_some());
        in_sync
            .map(holdfast_replica::Replica::fellows)
            .unwrap_or_default()
    }

    /// Asks the next of `others` for a read's bad blocks; if there is none, they are lost.
    fn fetch(&mut self, read: Read, blocks: Vec<BlockRead>, mut others: Vec<NodeId>) {
        let epoch = self
            .replicas
            .get(&read.slice)
            .and_then(|replica| replica.in_sync_epoch());
        others.retain(|node| self.world.peers.link(*node).is_some());
        let room = self.repairs.fetching.len() < FETCHES_MAX;
        let (Some(asked), Some(epoch), true) = (others.pop(), epoch, room) else {
            let wanted = read.reader != Reader::Mending;
            for (block, found) in read.range.blocks().zip(&blocks) {
                if wanted && matches!(found, BlockRead::Bad { .. }) {
                    self.world.notices.push(Notice::Lost(read.slice, block.0));
                }
            }
            self.deliver(&read, blocks);
            return;
        };
        self.repairs.next_number += 1;
        let number = self.repairs.next_number;
        let (slice, range) = (read.slice, span_of_bad(read.range, &blocks));
        self.world.peers.send(
            asked,
            Fetch {
                slice,
                epoch,
                number,
                range,
            }
            .into(),
        );
        self.repairs.fetching.insert(
            number,
            Fetching {
                read,
                blocks,
                asked,
                others,
            },
        );
    }

    /// Another replica asks for blocks.
    pub(crate) fn handle_fetch(&mut self, peer: NodeId, fetch: &Fetch) {
        let Fetch {
            slice,
            epoch,
            number,
            range,
        } = *fetch;
        let here = self
            .replicas
            .get(&slice)
            .and_then(|replica| replica.in_sync_epoch());
        let store = self.world.storage.store();
        let known = here == Some(epoch) && self.is_alive() && !store.is_dirty(slice, range);
        let as_of = store.committed(slice);
        if known {
            let reader = Reader::Peer {
                node: peer,
                number,
                epoch,
                as_of,
            };
            let read = Read {
                slice,
                range,
                view: View::Committed,
                reader,
                attempts: 0,
                asked_again: 0,
            };
            self.world.storage.read(self.world.now, read);
        } else {
            let contents = Vec::new();
            let fetched = Fetched {
                slice,
                epoch,
                number,
                as_of,
                contents,
            };
            self.world.peers.send(peer, fetched.into());
        }
    }

    /// The blocks that were asked for.
    pub(crate) fn handle_fetched(&mut self, peer: NodeId, fetched: &Fetched) {
        let asked = self
            .repairs
            .fetching
            .get(&fetched.number)
            .map(|it| (it.asked, it.read.slice));
        if asked != Some((peer, fetched.slice)) {
            return;
        }
        let mut fetching = self
            .repairs
            .fetching
            .remove(&fetched.number)
            .expect("it was just found");
        if fetched.contents.is_empty() && fetching.read.asked_again < ASK_AGAIN_MAX {
            fetching.read.asked_again += 1;
            let due = self.world.now + ASK_AGAIN;
            self.repairs.later.push_back((due, fetching.read));
            return;
        }
        let mut repaired = false;
        for content in &fetched.contents {
            repaired |= self.repair(&fetching, content, fetched.as_of);
        }
        if repaired {
            fetching.read.attempts += 1;
            self.world.storage.read(self.world.now, fetching.read);
        } else {
            self.fetch(fetching.read, fetching.blocks, fetching.others);
        }
    }

    /// Puts in place what is good for it; true if anything was.
    fn repair(
        &mut self,
        fetching: &Fetching,
        content: &Content,
        as_of: holdfast_model::Sequence,
    ) -> bool {
        let (slice, start) = (fetching.read.slice, fetching.read.range.start());
        let mut repaired = false;
        for (place, block) in content.range.blocks().enumerate() {
            let found = block
                .0
                .checked_sub(start)
                .and_then(|offset| fetching.blocks.get(offset as usize));
            let Some(BlockRead::Bad { checksum }) = found else {
                continue;
            };
            let change = match &content.content {
                BlockContent::Data { data, checksums } => {
                    let size = holdfast_model::BLOCK_SIZE;
                    if checksum.is_some_and(|checksum| checksum != checksums[place]) {
                        // Another version: perhaps this one was overwritten meanwhile.
                        repaired = true;
                        continue;
                    }
                    Change::Write {
                        start: block,
                        data: data.slice(place * size..(place + 1) * size),
                        checksums: alloc::vec![checksums[place]],
                    }
                }
                BlockContent::Zero if checksum.is_none() => {
                    Change::Clear(BlockRange::single(block))
                }
                BlockContent::Zero => {
                    repaired = true;
                    continue;
                }
                BlockContent::Bad => continue,
            };
            repaired = true;
            let now = self.world.now;
            let room = self.world.storage.reserve(slice, BlockRange::single(block));
            if room && self.world.storage.repair(now, slice, change, as_of) {
                self.world.notices.push(Notice::Repaired(slice, block.0));
            }
        }
        repaired
    }

    /// Begins reads anew whose time has come.
    pub(crate) fn read_again(&mut self) {
        while let Some((due, _)) = self.repairs.later.front()
            && *due <= self.world.now
        {
            let (_, read) = self.repairs.later.pop_front().expect("it was just seen");
            self.world.storage.read(self.world.now, read);
        }
    }

    /// A link is gone: what was asked over it is asked of another.
    pub(crate) fn give_up_fetches(&mut self, peer: NodeId) {
        let lost: Vec<u64> = self
            .repairs
            .fetching
            .iter()
            .filter(|(_, fetching)| fetching.asked == peer)
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            let Fetching {
                read,
                blocks,
                others,
                ..
            } = self
                .repairs
                .fetching
                .remove(&number)
                .expect("it was just found");
            self.fetch(read, blocks, others);
        }
    }

    /// Brings what was read to whoever wanted it.
    fn deliver(&mut self, read: &Read, blocks: Vec<BlockRead>) {
        let (slice, contents) = (read.slice, contents_of(read.range, blocks));
        match read.reader {
            Reader::Replica(token) => {
                self.with_replica(slice, |replica, context| {
                    replica.handle_read(context, token, contents);
                });
            }
            Reader::Part(command) => {
                self.command_finished(slice, command, OutcomeCode::Done, contents);
            }
            Reader::Peer {
                node,
                number,
                epoch,
                as_of,
            } => {
                let fetched = Fetched {
                    slice,
                    epoch,
                    number,
                    as_of,
                    contents,
                };
                self.world.peers.send(node, fetched.into());
            }
            Reader::Mending => {
                let bad = |content: &Content| matches!(content.content, BlockContent::Bad);
                self.mending.ended(!contents.iter().any(bad));
            }
        }
    }
}

/// The shortest range that holds every bad block.
fn span_of_bad(range: BlockRange, blocks: &[BlockRead]) -> BlockRange {
    let bad = |block: &BlockRead| matches!(block, BlockRead::Bad { .. });
    let first = blocks
        .iter()
        .position(bad)
        .expect("a bad block is why it is asked");
    let last = blocks
        .iter()
        .rposition(bad)
        .expect("a bad block is why it is asked");
    BlockRange::new(range.start() + first as u32, (last - first + 1) as u32)
}
