//! The stall ledger's source: times in which commands waited and none was done, of each volume and
//! each session at the portal here.
//!
//! What counts as done is an answer without an error to a command that reaches the medium: READ, WRITE,
//! UNMAP, WRITE SAME, VERIFY, SYNCHRONIZE CACHE and their kin. An answer that is an error is no service.
//! One that tells the host to come again (BUSY, NOT READY), or an abort, does not end the time either if
//! the host does come again within [`RESUME_MAX`]: to the host it is one wait. After any other error
//! nothing is waited for any more. A command waits from when the last byte of it, or of its data, was taken from its socket, and
//! nothing of its host was waited for any more, until it is answered, as the histograms of [`usage`](crate::usage) have it, which add
//! what is left of the driver's turn; what sits in sockets is not known.
//!
//! It refuses to know what time it is on the wall, and to keep what is over: that is the driver's.
//!
//! Invariants:
//! - a command costs two look-ups in small maps and no allocation, but for the first of a session;
//! - a stall is told once, when it is over; what lasts can be asked for;
//! - whoever looks does so before anything is done that might end the stall.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::target::SessionId;
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_stdx::{Duration, Instant};

/// Shorter waits are no stalls.
pub const STALL_MIN: Duration = Duration::from_millis(100);
/// Within this a host that was told to come again does; and one that does not has given up.
const RESUME_MAX: Duration = Duration::from_secs(1);
/// Between two looks at what causes the stalls that last.
const LOOK: Duration = Duration::from_millis(50);
/// A volume or session that nobody has used for so long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StallCause {
    /// A node cannot be reached, or says nothing: with it the slice's primary, or a copy without which
    /// nothing commits. The leases that have to be waited for then are part of it.
    NodeLost,
    /// A lease has to be given, or to end, though all nodes concerned are there.
    Lease,
    /// A disk takes long to read or write.
    Media,
    /// A change of configuration waits for the metadata.
    Metadata,
    /// This process stood still.
    Standstill,
    /// Nothing that this node knows of.
    Unknown,
}

impl StallCause {
    const COUNT: usize = 6;

    /// All of them; of two that lasted as long, the first is told.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NodeLost,
        Self::Metadata,
        Self::Media,
        Self::Standstill,
        Self::Lease,
        Self::Unknown,
    ];

    /// The word for it, in documents and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeLost => "node-lost",
            Self::Lease => "lease",
            Self::Media => "media",
            Self::Metadata => "metadata",
            Self::Standstill => "standstill",
            Self::Unknown => "unknown",
        }
    }
}

/// What keeps a command from being done at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    pub(crate) cause: StallCause,
    pub(crate) slice: Option<SliceId>,
    /// Whose fault it is.
    pub(crate) node: Option<NodeId>,
}

/// A time in which commands waited and none was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The volume.
    pub volume: VolumeId,
    /// Whose commands; everybody's at this portal if there is no name.
    pub initiator: Option<IscsiName>,
    /// When the last command before was done, or the first began to wait.
    pub began: Instant,
    /// For how long.
    pub length: Duration,
    /// Commands that waited, at most.
    pub waiting_max: u32,
    /// What caused most of it.
    pub cause: StallCause,
    /// In which slice that was.
    pub slice: Option<SliceId>,
    /// Which node it was.
    pub node: Option<NodeId>,
    /// It ended because a command was done; else whoever waited gave up, or was refused.
    pub served: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "volume {}: no command was done for {} ms: {}",
            self.volume,
            self.length.as_millis(),
            self.cause.as_str()
        )?;
        if let Some(node) = self.node {
            write!(formatter, ", node {node}")?;
        }
        if let Some(slice) = self.slice {
            write!(formatter, ", slice {slice}")?;
        }
        if !self.served {
            formatter.write_str("; whoever waited gave up")?;
        }
        Ok(())
    }
}

/// How a command's wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It was done.
    Served,
    /// Its host was told to come again, or took it back.
    Refused,
    /// It met another error: nobody waits for it any more.
    Failed,
}

/// A stall that lasts.
#[derive(Debug, Default)]
struct Open {
    /// How long each cause was seen.
    weights: [Duration; StallCause::COUNT],
    /// What was last blamed for each.
    blamed: [Option<Blame>; StallCause::COUNT],
    waiting_max: u32,
}

impl Open {
    fn blame(&mut self, span: Duration, blame: Blame) {
        let place = blame.cause as usize;
        self.weights[place] += span;
        self.blamed[place] = Some(blame);
    }

    fn weight(&self, cause: StallCause) -> Duration {
        let own = self.weights[cause as usize];
        match cause {
            // A lease is waited for because its holder is lost.
            StallCause::NodeLost if !own.is_zero() => {
                own + self.weights[StallCause::Lease as usize]
            }
            StallCause::Lease if !self.weights[StallCause::NodeLost as usize].is_zero() => {
                Duration::ZERO
            }
            // What nobody knew at first was what showed later.
            StallCause::Unknown => Duration::ZERO,
            _ => own,
        }
    }

    fn verdict(&self) -> Blame {
        let unknown = Blame {
            cause: StallCause::Unknown,
            slice: None,
            node: None,
        };
        let mut worst = (Duration::ZERO, StallCause::Unknown);
        for cause in StallCause::ALL {
            let weight = self.weight(cause);
            if weight > worst.0 {
                worst = (weight, cause);
            }
        }
        self.blamed[worst.1 as usize].unwrap_or(unknown)
    }
}

/// What is known of one volume, or of one session's use of it.
#[derive(Debug)]
struct Watch {
    initiator: Option<IscsiName>,
    waiting: u32,
    /// When a command was last done, or the first since then began to wait.
    since: Instant,
    /// Nobody waits, because all were refused; they may come again.
    refused: Option<Instant>,
    open: Option<Box<Open>>,
}

impl Watch {
    fn new(now: Instant, initiator: Option<IscsiName>) -> Self {
        Self {
            initiator,
            waiting: 0,
            since: now,
            refused: None,
            open: None,
        }
    }

    /// A command waits, since it was received, which is since this node has it in hand. Returns a stall that was over before.
    fn begin(&mut self, (now, received): (Instant, Instant), volume: VolumeId) -> Option<Stall> {
        let over = self.expire(now, volume);
        if self.waiting == 0 && self.refused.take().is_none() {
            // Up to when a command was last done nobody waited in vain.
            self.since = self.since.max(received);
        }
        self.waiting += 1;
        over
    }

    /// A command waits no more. Returns the stall that this ends.
    fn end(&mut self, now: Instant, volume: VolumeId, left: Left) -> Option<Stall> {
        self.waiting -= 1;
        match left {
            Left::Served => {
                let over = self.close(now, volume, true);
                self.since = now;
                self.refused = None;
                over
            }
            _ if self.waiting > 0 => None,
            Left::Refused => {
                self.refused = Some(now);
                None
            }
            Left::Failed => self.close(now, volume, false),
        }
    }

    /// Ends the wait of those who were refused and have not come again.
    fn expire(&mut self, now: Instant, volume: VolumeId) -> Option<Stall> {
        let since = self
            .refused
            .take_if(|since| now.since(*since) > RESUME_MAX)?;
        self.close(since, volume, false)
    }

    /// Nothing is waited for any more: the stall, if it was one.
    fn close(&mut self, at: Instant, volume: VolumeId, served: bool) -> Option<Stall> {
        let open = self.open.take();
        let length = at.since(self.since);
        if length < STALL_MIN {
            return None;
        }
        Some(self.told(volume, length, &open.unwrap_or_default(), served))
    }

    fn told(&self, volume: VolumeId, length: Duration, open: &Open, served: bool) -> Stall {
        let Blame { cause, slice, node } = open.verdict();
        Stall {
            volume,
            initiator: self.initiator.clone(),
            began: self.since,
            length,
            waiting_max: open.waiting_max.max(1),
            cause,
            slice,
            node,
            served,
        }
    }

    fn is_stalled(&self, now: Instant) -> bool {
        self.waiting > 0 && now.since(self.since) >= STALL_MIN
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.waiting == 0 && self.refused.is_none() && now.since(self.since) > IDLE_MAX
    }
}

/// All volumes and sessions that are used here.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// Of all sessions together, under no session; and of each.
    watches: BTreeMap<(VolumeId, Option<SessionId>), Watch>,
    looked: Instant,
    /// When it is next to be looked; not before something waits.
    look: Option<Instant>,
    over: Vec<Stall>,
}

impl Stalls {
    /// A session's command, which this node has in hand since it was received, not later than now, waits.
    pub(crate) fn begin(
        &mut self,
        (now, received): (Instant, Instant),
        volume: VolumeId,
        session: SessionId,
        initiator: &IscsiName,
    ) {
        for key in [(volume, None), (volume, Some(session))] {
            let watch = self.watches.entry(key).or_insert_with(|| {
                let initiator = key.1.is_some().then(|| initiator.clone());
                Watch::new(received, initiator)
            });
            self.over.extend(watch.begin((now, received), volume));
        }
        self.look.get_or_insert(received + STALL_MIN);
    }

    /// A session's command waits no more.
    pub(crate) fn end(&mut self, now: Instant, volume: VolumeId, session: SessionId, left: Left) {
        for key in [(volume, None), (volume, Some(session))] {
            let watch = self.watches.get_mut(&key);
            let watch = watch.expect("what waits no more has begun to");
            self.over.extend(watch.end(now, volume, left));
        }
    }

    /// A session is over, and with it whatever it waited for.
    pub(crate) fn forget(&mut self, now: Instant, session: SessionId) {
        let over = &mut self.over;
        self.watches.retain(|(volume, of), watch| {
            let stays = *of != Some(session);
            if !stays {
                let at = watch.refused.unwrap_or(now);
                if watch.waiting > 0 || watch.refused.is_some() {
                    over.extend(watch.close(at, *volume, false));
                }
            }
            stays
        });
    }

    /// Stalls that are over.
    pub(crate) fn take_over(&mut self) -> Vec<Stall> {
        core::mem::take(&mut self.over)
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.look.is_some_and(|look| look <= now)
    }

    /// The volumes and sessions that are stalled now.
    pub(crate) fn stalled(&self, now: Instant) -> Vec<(VolumeId, Option<SessionId>)> {
        let watches = self.watches.iter();
        let stalled = watches.filter(|(_, watch)| watch.is_stalled(now));
        stalled.map(|(key, _)| *key).collect()
    }

    /// Somebody has looked, and blames this for each of the stalls that there are.
    pub(crate) fn looked(
        &mut self,
        now: Instant,
        blames: &[((VolumeId, Option<SessionId>), Blame)],
    ) {
        for (key, blame) in blames {
            let Some(watch) = self.watches.get_mut(key) else {
                continue;
            };
            let span = now.since(self.looked.max(watch.since));
            let open = watch.open.get_or_insert_default();
            open.waiting_max = open.waiting_max.max(watch.waiting);
            open.blame(span, *blame);
        }
        self.looked = now;
        let over = &mut self.over;
        self.watches.retain(|(volume, _), watch| {
            over.extend(watch.expire(now, *volume));
            !watch.is_idle(now)
        });
        self.look = self.next_look(now);
    }

    /// When the next stall can be seen, or what lasts is to be looked at again.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let watches = self.watches.values();
        let used = watches.filter(|watch| watch.waiting > 0 || watch.refused.is_some());
        let due = used.map(|watch| {
            let first = watch.since + STALL_MIN;
            if first > now { first } else { now + LOOK }
        });
        due.min()
    }

    /// The stalls that last, of volumes and of single sessions.
    pub(crate) fn lasting(&self, now: Instant) -> Vec<Stall> {
        let watches = self.watches.iter();
        let stalled = watches
            .filter(|(_, watch)| watch.open.is_some() && now.since(watch.since) >= STALL_MIN);
        let told = stalled.map(|((volume, _), watch)| {
            let nothing = Open::default();
            let open = watch.open.as_deref().unwrap_or(&nothing);
            watch.told(*volume, now.since(watch.since), open, false)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(1);
    const ONE: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);
    const SLICE: SliceId = SliceId {
        volume: VOLUME,
        index: 3,
    };

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + milliseconds * 1_000_000)
    }

    /// What is looked at as soon as it comes.
    const fn just(at: Instant) -> (Instant, Instant) {
        (at, at)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn name() -> IscsiName {
        IscsiName::parse("iqn.2026-11.example:host").expect("a good name")
    }

    fn blame(cause: StallCause) -> Blame {
        Blame {
            cause,
            slice: Some(SLICE),
            node: Some(NodeId(2)),
        }
    }

    /// Looks as often as may be until `end`, and sees the same cause all the time.
    fn look(stalls: &mut Stalls, from: u64, end: u64, cause: StallCause) {
        for now in (from..=end).map(at) {
            if stalls.is_due(now) {
                let stalled = stalls.stalled(now).into_iter();
                let blames: Vec<_> = stalled.map(|key| (key, blame(cause))).collect();
                stalls.looked(now, &blames);
            }
        }
    }

    fn of_volume(stalls: &mut Stalls) -> Vec<Stall> {
        let mut over = stalls.take_over();
        over.retain(|stall| stall.initiator.is_none());
        over
    }

    #[test]
    fn a_wait_of_less_is_no_stall_and_one_of_more_is_told_once_for_each() {
        let mut stalls = Stalls::default();
        for start in [0, 200] {
            stalls.begin(just(at(start)), VOLUME, ONE, &name());
            stalls.begin(just(at(start + 50)), VOLUME, ONE, &name());
            look(&mut stalls, start, start + 99, StallCause::Media);
            stalls.end(at(start + 99), VOLUME, ONE, Left::Served);
            look(&mut stalls, start + 99, start + 150, StallCause::Media);
            stalls.end(at(start + 150), VOLUME, ONE, Left::Served);
        }
        assert_eq!(stalls.take_over(), []);
        // Nothing waited before it.
        stalls.begin(just(at(5000)), VOLUME, ONE, &name());
        stalls.begin(just(at(5070)), VOLUME, ONE, &name());
        look(&mut stalls, 5000, 5400, StallCause::Media);
        assert_eq!(stalls.lasting(at(5400))[0].length, ms(400));
        stalls.end(at(5400), VOLUME, ONE, Left::Served);
        let over = stalls.take_over();
        assert_eq!(over.len(), 2);
        assert_eq!(over[0].initiator, None);
        assert_eq!(over[1].initiator, Some(name()));
        for stall in over {
            assert_eq!((stall.began, stall.length), (at(5000), ms(400)));
            assert_eq!(stall.cause, StallCause::Media);
            assert_eq!((stall.slice, stall.node), (Some(SLICE), Some(NodeId(2))));
            assert_eq!((stall.waiting_max, stall.served), (2, true));
        }
        // The other command is still there; it waits from now on.
        stalls.end(at(5480), VOLUME, ONE, Left::Served);
        assert_eq!(stalls.take_over(), []);
    }

    #[test]
    fn a_command_waits_from_when_it_was_received_and_not_while_others_were_served() {
        let mut stalls = Stalls::default();
        stalls.begin((at(150), at(0)), VOLUME, ONE, &name());
        look(&mut stalls, 150, 160, StallCause::Media);
        stalls.end(at(160), VOLUME, ONE, Left::Served);
        let over = of_volume(&mut stalls);
        assert_eq!((over[0].began, over[0].length), (at(0), ms(160)));
        assert_eq!(over[0].cause, StallCause::Media);
        stalls.begin((at(250), at(100)), VOLUME, ONE, &name());
        stalls.end(at(300), VOLUME, ONE, Left::Served);
        let over = of_volume(&mut stalls);
        assert_eq!((over[0].began, over[0].length), (at(160), ms(140)));
    }

    #[test]
    fn one_session_can_be_stalled_while_the_volume_is_not() {
        let mut stalls = Stalls::default();
        stalls.begin(just(at(0)), VOLUME, ONE, &name());
        for step in 0..5 {
            let now = 60 * step;
            stalls.begin(just(at(now)), VOLUME, OTHER, &name());
            look(&mut stalls, now, now + 60, StallCause::NodeLost);
            stalls.end(at(now + 60), VOLUME, OTHER, Left::Served);
        }
        let lasting = stalls.lasting(at(300));
        assert_eq!(lasting.len(), 1);
        assert_eq!(lasting[0].initiator, Some(name()));
        assert_eq!(lasting[0].length, ms(300));
        stalls.end(at(310), VOLUME, ONE, Left::Served);
        let over = stalls.take_over();
        assert_eq!(over.len(), 1);
        assert_eq!(over[0].initiator, Some(name()));
        assert_eq!(over[0].length, ms(310));
        assert_eq!(over[0].cause, StallCause::NodeLost);
    }

    #[test]
    fn a_host_that_is_told_to_come_again_waits_on() {
        let mut stalls = Stalls::default();
        for step in 0..20 {
            stalls.begin(just(at(100 * step)), VOLUME, ONE, &name());
            look(
                &mut stalls,
                100 * step,
                100 * step + 20,
                StallCause::NodeLost,
            );
            stalls.end(at(100 * step + 20), VOLUME, ONE, Left::Refused);
        }
        assert_eq!(stalls.take_over(), []);
        stalls.begin(just(at(2000)), VOLUME, ONE, &name());
        look(&mut stalls, 2000, 2010, StallCause::NodeLost);
        stalls.end(at(2010), VOLUME, ONE, Left::Served);
        let over = of_volume(&mut stalls);
        assert_eq!(over.len(), 1);
        assert_eq!((over[0].began, over[0].length), (at(0), ms(2010)));
        assert_eq!(over[0].cause, StallCause::NodeLost);
    }

    #[test]
    fn whoever_does_not_come_again_has_given_up() {
        let mut stalls = Stalls::default();
        stalls.begin(just(at(0)), VOLUME, ONE, &name());
        look(&mut stalls, 0, 3000, StallCause::Metadata);
        stalls.end(at(3000), VOLUME, ONE, Left::Refused);
        look(&mut stalls, 3000, 4100, StallCause::Metadata);
        let over = of_volume(&mut stalls);
        assert_eq!(over.len(), 1);
        assert_eq!((over[0].length, over[0].served), (ms(3000), false));
        assert_eq!(over[0].cause, StallCause::Metadata);
        // The next one is another one's wait.
        stalls.begin(just(at(4200)), VOLUME, ONE, &name());
        stalls.end(at(4250), VOLUME, ONE, Left::Served);
        assert_eq!(stalls.take_over(), []);
        look(&mut stalls, 4250, 70_000, StallCause::Metadata);
        assert_eq!(stalls.look, None, "nothing waits, and nobody looks");
    }

    #[test]
    fn an_error_ends_the_wait_and_is_no_service() {
        let mut stalls = Stalls::default();
        stalls.begin(just(at(0)), VOLUME, ONE, &name());
        stalls.begin(just(at(0)), VOLUME, ONE, &name());
        look(&mut stalls, 0, 150, StallCause::Media);
        stalls.end(at(150), VOLUME, ONE, Left::Failed);
        assert_eq!(stalls.take_over(), [], "another one waits still");
        stalls.end(at(180), VOLUME, ONE, Left::Failed);
        let over = of_volume(&mut stalls);
        assert_eq!((over[0].length, over[0].served), (ms(180), false));
        stalls.begin(just(at(190)), VOLUME, ONE, &name());
        stalls.end(at(200), VOLUME, ONE, Left::Served);
        assert_eq!(stalls.take_over(), []);
    }

    #[test]
    fn a_session_that_ends_takes_its_wait_along() {
        let mut stalls = Stalls::default();
        stalls.begin(just(at(0)), VOLUME, ONE, &name());
        look(&mut stalls, 0, 500, StallCause::Standstill);
        stalls.end(at(500), VOLUME, ONE, Left::Refused);
        stalls.forget(at(510), ONE);
        let over = stalls.take_over();
        assert_eq!(over.len(), 1);
        assert_eq!((over[0].length, over[0].served), (ms(500), false));
        // For the volume as a whole the host may come again with another session.
        stalls.begin(just(at(900)), VOLUME, OTHER, &name());
        stalls.end(at(910), VOLUME, OTHER, Left::Served);
        let over = of_volume(&mut stalls);
        assert_eq!(over[0].length, ms(910));
        assert_eq!(over[0].cause, StallCause::Standstill);
    }

    #[test]
    fn the_cause_is_what_lasted_longest_and_a_lost_nodes_lease_is_its_own() {
        let mut open = Open::default();
        assert_eq!(open.verdict().cause, StallCause::Unknown);
        open.blame(ms(300), blame(StallCause::Unknown));
        assert_eq!(open.verdict().cause, StallCause::Unknown);
        open.blame(ms(20), blame(StallCause::Lease));
        assert_eq!(open.verdict().cause, StallCause::Lease);
        open.blame(ms(100), blame(StallCause::Media));
        assert_eq!(open.verdict().cause, StallCause::Media);
        open.blame(ms(90), blame(StallCause::NodeLost));
        assert_eq!(open.verdict().cause, StallCause::NodeLost);
        assert_eq!(open.weight(StallCause::Lease), Duration::ZERO);
        open.blame(ms(200), blame(StallCause::Metadata));
        assert_eq!(open.verdict().cause, StallCause::Metadata);
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let mut stalls = Stalls::default();
        for number in 0..100 {
            let volume = VolumeId(number);
            stalls.begin(just(at(0)), volume, ONE, &name());
            stalls.end(at(1), volume, ONE, Left::Served);
        }
        stalls.begin(just(at(70_000)), VOLUME, ONE, &name());
        stalls.looked(at(70_100), &[]);
        assert_eq!(stalls.watches.len(), 2);
    }
}
