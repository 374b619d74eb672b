//! A host that owns a disk, or wants to: the steps of challenge and defence by persistent reservations.
//!
//! Invariants:
//! - a host that says that it has won holds the reservation, as far as it was told;
//! - one that says that it has not, was told so by the target, or has found its registration gone.

use std::time::Duration;

use holdfast_lab::Lun;
use holdfast_lab::command::{ReserveIn, ReserveOut, ReserveParameters};
use tokio::time::sleep;

use crate::answer::Answer;
use crate::bench::Bench;
use crate::check::Unmet;
use crate::command;
use crate::nexus::Nexus;
use crate::parse::reservations::{Held, Keys};
use crate::reserve::SHARED;

/// Room for a list of keys.
const LIST_BYTES: u16 = 8 << 10;

/// One host. It begins with the path of its own number, so that several use different ones.
pub(crate) struct Contender {
    host: usize,
    key: u64,
    lun: Lun,
    nexuses: Vec<Nexus>,
}

impl Contender {
    pub(crate) fn new(bench: &Bench, host: usize) -> Self {
        let mut nexuses = bench.host(host).to_vec();
        let turn = host % nexuses.len();
        nexuses.rotate_left(turn);
        Self {
            host,
            key: bench.key(host),
            lun: bench.lun,
            nexuses,
        }
    }

    pub(crate) const fn host(&self) -> usize {
        self.host
    }

    fn first(&self) -> &Nexus {
        &self.nexuses[0]
    }

    async fn out(
        &self,
        nexus: &Nexus,
        action: ReserveOut,
        (key, action_key): (u64, u64),
    ) -> Result<Answer, Unmet> {
        let parameters = ReserveParameters {
            key,
            action_key,
            ..ReserveParameters::default()
        };
        let request = command::persistent_reserve_out(self.lun, action, SHARED, parameters);
        nexus.ask(request).await
    }

    async fn keys(&self) -> Result<Keys, Unmet> {
        let request = command::persistent_reserve_in(self.lun, ReserveIn::ReadKeys, LIST_BYTES);
        Ok(Keys::parse(&self.first().good(request).await?)?)
    }

    async fn held(&self) -> Result<Held, Unmet> {
        let action = ReserveIn::ReadReservation;
        let request = command::persistent_reserve_in(self.lun, action, LIST_BYTES);
        Ok(Held::parse(&self.first().good(request).await?)?)
    }

    async fn register(&self, key: u64) -> Result<(), Unmet> {
        for nexus in &self.nexuses {
            let answer = self.out(nexus, ReserveOut::RegisterAndIgnore, (0, key));
            answer.await?.good()?;
        }
        Ok(())
    }

    /// GOOD is "won", RESERVATION CONFLICT is "lost".
    fn won(answer: &Answer) -> Result<bool, Unmet> {
        match answer.is_good() || answer.is_conflict() {
            true => Ok(answer.is_good()),
            false => Err(answer.instead_of("GOOD or RESERVATION CONFLICT")),
        }
    }

    /// Registers, and reserves. Whether it is the owner then.
    pub(crate) async fn take_free(&self) -> Result<bool, Unmet> {
        self.register(self.key).await?;
        let reserve = self.out(self.first(), ReserveOut::Reserve, (self.key, 0));
        Self::won(&reserve.await?)
    }

    /// Registers, waits for the owner to defend itself, and preempts it if it does not. Whether it is the owner then.
    pub(crate) async fn challenge(&self, wait: Duration) -> Result<bool, Unmet> {
        match self.held().await?.by {
            None => self.take_free().await,
            Some((owner, _)) => self.take_over(owner, wait).await,
        }
    }

    /// Registers, waits, and preempts that owner, and no other one: of several who do that at once, one can win. (One
    /// that looked for the owner itself, and came late, would take the disk from who has just won it.)
    pub(crate) async fn take_over(&self, owner: u64, wait: Duration) -> Result<bool, Unmet> {
        self.register(self.key).await?;
        sleep(wait).await;
        if self.keys().await?.count(self.key) == 0 {
            return Ok(false);
        }
        let preempt = self.out(self.first(), ReserveOut::Preempt, (self.key, owner));
        Self::won(&preempt.await?)
    }

    /// One round of an owner's defence.
    pub(crate) async fn defend(&self) -> Result<(), Unmet> {
        let mut others = self.keys().await?.keys;
        others.retain(|key| *key != self.key);
        others.sort_unstable();
        others.dedup();
        for other in others {
            let preempt = self.out(self.first(), ReserveOut::Preempt, (self.key, other));
            // A challenger may have gone meanwhile.
            Self::won(&preempt.await?)?;
        }
        Ok(())
    }

    /// Ends its registrations.
    pub(crate) async fn give_up(&self) -> Result<(), Unmet> {
        self.register(0).await
    }
}
