//! Persistent reservations, as hosts ask for them.

use holdfast_lab::command::{ReserveIn, ReserveOut, ReserveParameters, ReserveType};

use crate::answer::Answer;
use crate::bench::{Bench, Way};
use crate::check::{Unmet, ensure};
use crate::command;
use crate::parse::reservations::{Capabilities, Held, Keys, Registrant, full_status};
use crate::words;

/// Room for a list of keys, or of who is registered.
const LIST_BYTES: u16 = 32 << 10;

/// Conditions of unit attentions about reservations (SPC-4 5.12.11).
pub(crate) const RESERVATIONS_PREEMPTED: u16 = 0x2A03;
pub(crate) const RESERVATIONS_RELEASED: u16 = 0x2A04;
pub(crate) const REGISTRATIONS_PREEMPTED: u16 = 0x2A05;

/// What clusters use: everybody who is registered writes, and everybody reads.
pub(crate) const SHARED: ReserveType = ReserveType::WriteExclusiveRegistrants;

impl Bench {
    /// PERSISTENT RESERVE OUT, whatever is answered.
    pub(crate) async fn reserve_out(
        &self,
        way: Way,
        action: ReserveOut,
        kind: ReserveType,
        key: u64,
        action_key: u64,
    ) -> Result<Answer, Unmet> {
        let parameters = ReserveParameters {
            key,
            action_key,
            ..ReserveParameters::default()
        };
        self.reserve_with(way, action, kind, parameters).await
    }

    /// The same with all of the parameter list.
    pub(crate) async fn reserve_with(
        &self,
        way: Way,
        action: ReserveOut,
        kind: ReserveType,
        parameters: ReserveParameters,
    ) -> Result<Answer, Unmet> {
        let request = command::persistent_reserve_out(self.lun, action, kind, parameters);
        self.nexus(way).ask(request).await
    }

    async fn reserve_in(&self, way: Way, action: ReserveIn) -> Result<Vec<u8>, Unmet> {
        let request = command::persistent_reserve_in(self.lun, action, LIST_BYTES);
        self.nexus(way).good(request).await
    }

    pub(crate) async fn read_keys(&self, way: Way) -> Result<Keys, Unmet> {
        Ok(Keys::parse(
            &self.reserve_in(way, ReserveIn::ReadKeys).await?,
        )?)
    }

    pub(crate) async fn read_reservation(&self, way: Way) -> Result<Held, Unmet> {
        let data = self.reserve_in(way, ReserveIn::ReadReservation).await?;
        Ok(Held::parse(&data)?)
    }

    pub(crate) async fn capabilities(&self, way: Way) -> Result<Capabilities, Unmet> {
        let data = self.reserve_in(way, ReserveIn::ReportCapabilities).await?;
        Ok(Capabilities::parse(&data)?)
    }

    pub(crate) async fn full_status(&self, way: Way) -> Result<Vec<Registrant>, Unmet> {
        let data = self.reserve_in(way, ReserveIn::ReadFullStatus).await?;
        Ok(full_status(&data)?)
    }

    /// Registers a host's key on one path, as hosts do that cannot know what was before.
    pub(crate) async fn register_on(&self, way: Way) -> Result<(), Unmet> {
        let action = ReserveOut::RegisterAndIgnore;
        let answer = self.reserve_out(way, action, SHARED, 0, self.key(way.0));
        answer.await?.good().map(drop)
    }

    /// Registers a host's key on all paths.
    pub(crate) async fn register(&self, host: usize) -> Result<(), Unmet> {
        for way in self.ways(host) {
            self.register_on(way).await?;
        }
        Ok(())
    }

    /// Ends a host's registrations on all paths.
    pub(crate) async fn unregister(&self, host: usize) -> Result<(), Unmet> {
        for way in self.ways(host) {
            let action = ReserveOut::RegisterAndIgnore;
            let answer = self.reserve_out(way, action, SHARED, 0, 0);
            answer.await?.good()?;
        }
        Ok(())
    }

    /// RESERVE, which has to be GOOD.
    pub(crate) async fn reserve(&self, way: Way, kind: ReserveType) -> Result<(), Unmet> {
        let answer = self.reserve_out(way, ReserveOut::Reserve, kind, self.key(way.0), 0);
        answer.await?.good().map(drop)
    }

    /// RELEASE, which has to be GOOD.
    pub(crate) async fn release(&self, way: Way, kind: ReserveType) -> Result<(), Unmet> {
        let answer = self.reserve_out(way, ReserveOut::Release, kind, self.key(way.0), 0);
        answer.await?.good().map(drop)
    }

    /// PREEMPT of everybody who has that key, whatever is answered.
    pub(crate) async fn preempt(&self, way: Way, whose: u64) -> Result<Answer, Unmet> {
        let key = self.key(way.0);
        let preempt = self.reserve_out(way, ReserveOut::Preempt, SHARED, key, whose);
        preempt.await
    }

    /// Has every path say the same of the reservation.
    pub(crate) async fn is_held(&self, by: Option<(u64, ReserveType)>) -> Result<(), Unmet> {
        let expected = by.map(|(key, kind)| (key, kind as u8));
        for way in self.ways(crate::bench::C) {
            let held = self.read_reservation(way).await?;
            let what = format!("READ RESERVATION by {}", self.nexus(way).label());
            ensure(
                held.by == expected,
                format!("{what}: {}", held_text(expected)),
                || held_text(held.by),
            )?;
        }
        Ok(())
    }

    /// Has every path say that `key` is registered so often.
    pub(crate) async fn is_registered(&self, key: u64, count: usize) -> Result<(), Unmet> {
        for way in self.ways(crate::bench::C) {
            let keys = self.read_keys(way).await?;
            let what = format!("READ KEYS by {}", self.nexus(way).label());
            ensure(
                keys.count(key) == count,
                format!("{what}: key {key:016x}, {count} times"),
                || format!("{} times", keys.count(key)),
            )?;
        }
        Ok(())
    }

    /// Has every nexus of a host be told just this.
    pub(crate) async fn are_told(&self, host: usize, expected: &[u16]) -> Result<(), Unmet> {
        for way in self.ways(host) {
            self.is_told(way, expected).await?;
        }
        Ok(())
    }

    /// Has a nexus be told just this. That the state of paths, or the unit's size, has changed may be told at any
    /// time, and is let through.
    pub(crate) async fn is_told(&self, way: Way, expected: &[u16]) -> Result<(), Unmet> {
        const ANY_TIME: [u16; 3] = [0x2A06, 0x2A09, 0x3807];
        let mut told = self.nexus(way).attentions().await?;
        told.retain(|code| !ANY_TIME.contains(code));
        ensure(
            told == expected,
            format!(
                "{} is told once: {}",
                self.nexus(way).label(),
                words::attentions(expected)
            ),
            || words::attentions(&told),
        )
    }
}

/// Who holds what, in words.
pub(crate) fn held_text(by: Option<(u64, u8)>) -> String {
    match by {
        None => "no reservation".to_owned(),
        Some((key, kind)) => format!("type {kind} by key {key:016x}"),
    }
}
