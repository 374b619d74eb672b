//! What hosts do at the portal here, and how long they wait for it: counts of each volume and each session, which whoever keeps
//! history takes from time to time.
//!
//! A command is counted when it is answered without an error. It took from when the last byte of it, or of its data, was taken from its
//! socket until the driver has handed the answer over: what sits in sockets, what a host has not sent, and answers that it does not
//! read, are not known. Where it had to wait for its host then, it took from when that was over
//! (docs/decisions/0060-a-command-takes-from-socket-to-socket.md).
//!
//! Invariants:
//! - a command costs two look-ups in small maps, and no allocation but for the first of a session;
//! - what was answered is counted with its session, and once.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_history::{Done, Meter};
use holdfast_iscsi::IscsiName;
use holdfast_iscsi::target::SessionId;
use holdfast_model::VolumeId;
use holdfast_scsi::MediumOperation;
use holdfast_stdx::{Duration, Instant};

/// What a command does, as far as that is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Read,
    Write,
    /// UNMAP, WRITE SAME, VERIFY, SYNCHRONIZE CACHE, and their kin.
    Other,
}

/// A command under way, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    received: Instant,
    deed: Deed,
    bytes: u64,
}

impl Counted {
    /// A command that does this on the medium, and that this node has in hand since then.
    pub(crate) fn new(received: Instant, operation: &MediumOperation) -> Self {
        let all = |data: &Vec<holdfast_stdx::Bytes>| data.iter().map(|it| it.len() as u64).sum();
        let (deed, bytes) = match operation {
            MediumOperation::Read { range, .. } => (Deed::Read, range.length),
            MediumOperation::Write { data, .. }
            | MediumOperation::WriteAtomic { data, .. }
            | MediumOperation::Or { data, .. } => (Deed::Write, all(data)),
            MediumOperation::CompareAndWrite { data, .. } => (Deed::Write, data.len() as u64),
            MediumOperation::Verify { .. }
            | MediumOperation::Clear { .. }
            | MediumOperation::Fill { .. }
            | MediumOperation::SynchronizeCache { .. }
            | MediumOperation::BlockStatus { .. } => (Deed::Other, 0),
        };
        Self {
            received,
            deed,
            bytes,
        }
    }
}

/// What was done since it was last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// With this volume.
    pub volume: VolumeId,
    /// By whom; by all at this portal if there is no name.
    pub initiator: Option<IscsiName>,
    /// READ and its kin.
    pub reads: Done,
    /// WRITE and its kin.
    pub writes: Done,
    /// All other commands that reach the medium.
    pub others: Done,
}

/// One volume's, or one session's with it.
#[derive(Debug)]
struct Account {
    initiator: Option<IscsiName>,
    /// By [`Deed`].
    kinds: Box<[Meter; 3]>,
    /// Something was done since it was last asked.
    is_used: bool,
}

/// Whose a command is.
type Whose = (VolumeId, SessionId);

/// Commands that end together at most: many more than a turn of a driver answers. Where one does not say that it has handed over,
/// they end with this many.
const ANSWERED_MAX: usize = 4096;

/// All volumes and sessions that are used here.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    accounts: BTreeMap<(VolumeId, Option<SessionId>), Account>,
    /// Commands whose answers are on their way to the sockets.
    answered: Vec<(Whose, Counted)>,
    /// Of sessions that are over.
    last: Vec<Use>,
}

impl Usage {
    /// A session's command is answered. It ends when the answer is [handed over](Self::flushed).
    pub(crate) fn answered(&mut self, whose: Whose, counted: Counted) {
        self.answered.push((whose, counted));
    }

    /// Whether the answers of any were not handed over yet.
    pub(crate) const fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// More could be kept of those.
    pub(crate) const fn has_room(&self) -> bool {
        self.answered.len() < ANSWERED_MAX
    }

    /// All answers have been handed over; `initiator` says whose a session is.
    pub(crate) fn flushed(
        &mut self,
        now: Instant,
        initiator: impl Fn(SessionId) -> Option<IscsiName>,
    ) {
        // The room for them is used again.
        let mut answered = core::mem::take(&mut self.answered);
        for (whose, counted) in answered.drain(..) {
            self.end(now, whose, || initiator(whose.1), counted);
        }
        self.answered = answered;
    }

    fn end(
        &mut self,
        now: Instant,
        (volume, session): Whose,
        initiator: impl Fn() -> Option<IscsiName>,
        counted: Counted,
    ) {
        let waited = microseconds(now.since(counted.received));
        for key in [(volume, None), (volume, Some(session))] {
            let account = self.accounts.entry(key).or_insert_with(|| Account {
                initiator: key.1.and_then(|_| initiator()),
                kinds: Box::default(),
                is_used: false,
            });
            account.is_used = true;
            account.kinds[counted.deed as usize].record(counted.bytes, waited);
        }
    }

    /// A session is over: what it did is told once more.
    pub(crate) fn forget(&mut self, session: SessionId) {
        let last = &mut self.last;
        self.accounts.retain(|(volume, of), account| {
            let stays = *of != Some(session);
            if !stays && account.is_used {
                last.push(account.take(*volume));
            }
            stays
        });
    }

    /// What was done since it was last asked. What was not used meanwhile is forgotten.
    pub(crate) fn take(&mut self) -> Vec<Use> {
        let mut uses = core::mem::take(&mut self.last);
        self.accounts.retain(|(volume, _), account| {
            let was_used = core::mem::take(&mut account.is_used);
            if was_used {
                uses.push(account.take(*volume));
            }
            was_used
        });
        uses
    }
}

/// To the nearest: cut off, half of one would be lacking in each, which is much of 20 us.
fn microseconds(length: Duration) -> u64 {
    let nearest = (length.as_nanos() + 500) / 1000;
    u64::try_from(nearest).unwrap_or(u64::MAX)
}

impl Account {
    fn take(&mut self, volume: VolumeId) -> Use {
        let [reads, writes, others] = &mut *self.kinds;
        Use {
            volume,
            initiator: self.initiator.clone(),
            reads: reads.take(),
            writes: writes.take(),
            others: others.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_scsi::ByteRange;
    use holdfast_stdx::Duration;

    use super::*;

    const VOLUME: VolumeId = VolumeId(1);
    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn name() -> IscsiName {
        IscsiName::parse("iqn.2026-11.example.host:1").expect("it is a name")
    }

    fn read(usage: &mut Usage, session: u64, microseconds: u64) {
        let range = ByteRange {
            offset: 0,
            length: 4096,
        };
        let operation = MediumOperation::Read {
            range,
            force_unit_access: false,
        };
        let counted = Counted::new(START, &operation);
        usage.answered((VOLUME, SessionId(session)), counted);
        assert!(usage.has_answered());
        let now = START + Duration::from_micros(microseconds);
        usage.flushed(now, |_| Some(name()));
        assert!(!usage.has_answered());
    }

    #[test]
    fn commands_are_counted_for_the_volume_and_for_the_session_once() {
        let mut usage = Usage::default();
        read(&mut usage, 1, 100);
        read(&mut usage, 1, 200);
        read(&mut usage, 2, 5);
        let uses = usage.take();
        assert_eq!(uses.len(), 3);
        let of_all = &uses[0];
        assert_eq!((of_all.volume, &of_all.initiator), (VOLUME, &None));
        assert_eq!(of_all.reads.bytes, 3 * 4096);
        assert_eq!(of_all.reads.latencies.count(), 3);
        assert_eq!(of_all.writes, Done::default());
        assert_eq!(uses[1].initiator, Some(name()));
        assert_eq!(uses[1].reads.latencies.count(), 2);
        assert_eq!(usage.take(), [], "it is told once");
    }

    #[test]
    fn what_a_session_did_last_is_told_when_it_is_over() {
        let mut usage = Usage::default();
        read(&mut usage, 1, 100);
        usage.take();
        read(&mut usage, 1, 100);
        usage.forget(SessionId(1));
        let uses = usage.take();
        let counts: Vec<u64> = uses.iter().map(|it| it.reads.latencies.count()).collect();
        assert_eq!(counts, [1, 1]);
        assert!(usage.accounts.keys().all(|(_, session)| session.is_none()));
    }
}
