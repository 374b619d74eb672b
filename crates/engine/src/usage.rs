//! What hosts do at the portal here, and how long they wait for it: counts of each volume and each session, which whoever keeps
//! history takes from time to time.
//!
//! A command is counted when it is answered without an error, from when all of it is here: what sits in sockets, and what a host
//! has not sent, is not known.
//!
//! Invariants:
//! - a command costs two look-ups in small maps, and no allocation but for the first of a session;
//! - what is taken is counted once.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_history::{Done, Meter};
use holdfast_iscsi::IscsiName;
use holdfast_iscsi::target::SessionId;
use holdfast_model::VolumeId;
use holdfast_scsi::MediumOperation;
use holdfast_stdx::Instant;

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
    begun: Instant,
    deed: Deed,
    bytes: u64,
}

impl Counted {
    /// A command that does this on the medium, and begins now.
    pub(crate) fn new(now: Instant, operation: &MediumOperation) -> Self {
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
            begun: now,
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

/// All volumes and sessions that are used here.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    accounts: BTreeMap<(VolumeId, Option<SessionId>), Account>,
    /// Of sessions that are over.
    last: Vec<Use>,
}

impl Usage {
    /// A session's command is answered.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        (volume, session): (VolumeId, SessionId),
        initiator: impl Fn() -> Option<IscsiName>,
        counted: Counted,
    ) {
        let waited = now.since(counted.begun).as_micros();
        let waited = u64::try_from(waited).unwrap_or(u64::MAX);
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
        let now = START + Duration::from_micros(microseconds);
        usage.end(now, (VOLUME, SessionId(session)), || Some(name()), counted);
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
