//! Where checks are carried out: three hosts, each with a session on every path, and a stretch of the unit.
//!
//! Invariants:
//! - blocks are written within the stretch only, which held zeros before or was given up by who asked for the run;
//! - before each check every session is there, nobody is registered, and every unit attention has been told;
//! - a key that is not ours is never removed, once the run has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_lab::command::{ReserveOut, ReserveType};
use holdfast_lab::{Lun, SenseKey};
use holdfast_stdx::Prng;
use tokio::time::{Instant, sleep};

use crate::check::{Checked, Unmet};
use crate::command;
use crate::link::{Dialer, InitiatorPort};
use crate::nexus::Nexus;
use crate::options::Timing;
use crate::parse::capacity::Capacity;
use crate::stretch::Stretch;

/// How long a session may take to come back between two checks.
const RETURN_PATIENCE: Duration = Duration::from_secs(30);
const RETURN_PAUSE: Duration = Duration::from_millis(200);

/// The hosts.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;
pub(crate) const HOSTS: usize = 3;

/// A host and a path.
pub(crate) type Way = (usize, usize);

/// A path, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathNote {
    /// `host:port` of the portal.
    pub(crate) portal: String,
}

/// What was found out about portals, for the checks of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discovery {
    /// Portals that SendTargets names, and the run has no path through: why.
    pub(crate) unreachable: Vec<(String, String)>,
    /// What SendTargets itself came to, where it failed.
    pub(crate) failure: Option<String>,
}

/// What the check of the restart found, for those after it.
#[derive(Clone, Debug)]
pub(crate) struct Restarted {
    pub(crate) reservation: Checked,
    pub(crate) data: Checked,
    pub(crate) identity: Checked,
}

/// All of it.
pub(crate) struct Bench {
    pub(crate) lun: Lun,
    pub(crate) paths: Vec<PathNote>,
    pub(crate) capacity: Capacity,
    pub(crate) stretch: Stretch,
    pub(crate) timing: Timing,
    pub(crate) discovery: Discovery,
    /// What restarts something in the middle.
    pub(crate) restart: Option<String>,
    pub(crate) restarted: Option<Restarted>,
    dialer: Arc<dyn Dialer>,
    /// By host, then by path.
    nexuses: Vec<Vec<Nexus>>,
    /// The upper part of all keys of this run.
    keys: u64,
    /// Whether the target knows PERSISTENT RESERVE IN; not known before the first look.
    reserves: Option<bool>,
    /// The last tag of content that was given out.
    tags: AtomicU64,
}

/// Bits of a key below those that tell the run.
const KEY_BITS: u32 = 16;

impl Bench {
    pub(crate) fn new(
        dialer: Arc<dyn Dialer>,
        portals: &[String],
        lun: Lun,
        timing: Timing,
        prng: &mut Prng,
    ) -> Self {
        let nexus = |host: usize, path: usize| {
            let label = format!("host {} through {}", name(host), portals[path]);
            Nexus::new(Arc::clone(&dialer), (host, path), lun, &label)
        };
        let nexuses = (0..HOSTS)
            .map(|host| (0..portals.len()).map(|path| nexus(host, path)).collect())
            .collect();
        // Never zero, which stands for "not registered".
        let keys = (prng.next_u64() | 1 << 63) >> KEY_BITS << KEY_BITS;
        let paths = portals.iter().cloned().map(|portal| PathNote { portal });
        Self {
            lun,
            paths: paths.collect(),
            capacity: Capacity::default(),
            stretch: Stretch::default(),
            timing,
            discovery: Discovery::default(),
            restart: None,
            restarted: None,
            nexuses,
            dialer,
            keys,
            reserves: None,
            tags: AtomicU64::new(0),
        }
    }

    /// A tag for content that nothing has had before in this run.
    pub(crate) fn tag(&self) -> u64 {
        self.tags.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn nexus(&self, (host, path): Way) -> &Nexus {
        &self.nexuses[host][path]
    }

    /// A host's nexuses, by path.
    pub(crate) fn host(&self, host: usize) -> &[Nexus] {
        &self.nexuses[host]
    }

    /// All nexuses.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Nexus> {
        self.nexuses.iter().flatten()
    }

    /// All ways of a host.
    pub(crate) fn ways(&self, host: usize) -> impl Iterator<Item = Way> + use<> {
        (0..self.paths.len()).map(move |path| (host, path))
    }

    pub(crate) fn last_path(&self) -> usize {
        self.paths.len() - 1
    }

    /// The initiator port of a nexus.
    pub(crate) fn port(&self, (host, path): Way) -> InitiatorPort {
        self.dialer.port(host, path)
    }

    /// A host's key.
    pub(crate) fn key(&self, host: usize) -> u64 {
        self.keys | (host as u64 + 1)
    }

    /// Another key that is ours.
    pub(crate) fn other_key(&self, number: u8) -> u64 {
        self.keys | 0x100 | u64::from(number)
    }

    pub(crate) const fn is_ours(&self, key: u64) -> bool {
        key >> KEY_BITS == self.keys >> KEY_BITS
    }

    /// More than one path, or a reason.
    pub(crate) fn needs_paths(&self) -> Result<(), Unmet> {
        match self.paths.len() {
            1 => Err(Unmet::Skipped("there is one path only".to_owned())),
            _ => Ok(()),
        }
    }

    /// Persistent reservations, or a reason.
    pub(crate) fn needs_reservations(&self) -> Result<(), Unmet> {
        match self.reserves {
            Some(false) => Err(Unmet::NotRun(
                "the target knows no persistent reservations".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Makes everything as a check is to find it.
    pub(crate) async fn refresh(&mut self) -> Result<(), Unmet> {
        self.reconnect(RETURN_PATIENCE).await?;
        self.clear().await?;
        for nexus in self.nexuses.iter().flatten() {
            nexus.attentions().await?;
        }
        Ok(())
    }

    /// Has a session on every path again.
    pub(crate) async fn reconnect(&self, patience: Duration) -> Result<(), Unmet> {
        let deadline = Instant::now() + patience;
        for nexus in self.all() {
            while let Err(error) = nexus.connect().await {
                if Instant::now() >= deadline {
                    return Err(Unmet::NotRun(format!(
                        "no session for {}: {error}",
                        nexus.label()
                    )));
                }
                sleep(RETURN_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Ends all registrations, which have to be ours.
    async fn clear(&mut self) -> Result<(), Unmet> {
        let first = self.nexus((A, 0));
        let keys = match self.read_keys((A, 0)).await {
            Ok(keys) => keys,
            Err(unmet) => {
                let asked = first.ask(command::persistent_reserve_in(
                    self.lun,
                    command::ReserveIn::ReadKeys,
                    8,
                ));
                if asked.await?.is_unknown() {
                    self.reserves = Some(false);
                    return Ok(());
                }
                return Err(unmet);
            }
        };
        self.reserves = Some(true);
        if let Some(other) = keys.keys.iter().find(|key| !self.is_ours(**key)) {
            return Err(Unmet::NotRun(format!(
                "somebody else has registered key {other:016x} meanwhile"
            )));
        }
        if keys.keys.is_empty() {
            return Ok(());
        }
        self.clear_everything().await
    }

    /// Ends all registrations, whoever's they are.
    pub(crate) async fn clear_everything(&self) -> Result<(), Unmet> {
        let key = self.key(A);
        let kind = ReserveType::WriteExclusive;
        let register = self.reserve_out((A, 0), ReserveOut::RegisterAndIgnore, kind, 0, key);
        register.await?.good()?;
        let clear = self.reserve_out((A, 0), ReserveOut::Clear, kind, key, 0);
        clear.await?.good()?;
        Ok(())
    }

    /// Ends what the run has begun: registrations that are ours, what was written, and the sessions. What fails of it is
    /// told.
    pub(crate) async fn leave(&mut self, interrupted: bool) -> Result<(), Unmet> {
        // What was under way when the run was interrupted must not come after what follows.
        if interrupted {
            for nexus in self.nexuses.iter().flatten() {
                nexus.cut().await;
            }
        }
        let done = self.restore().await;
        for nexus in self.nexuses.iter().flatten() {
            nexus.log_out().await;
        }
        done
    }

    async fn restore(&mut self) -> Result<(), Unmet> {
        let nexus = self.nexus((A, 0)).clone();
        let deadline = Instant::now() + RETURN_PATIENCE;
        while let Err(error) = nexus.connect().await {
            if Instant::now() >= deadline {
                return Err(Unmet::NotRun(format!(
                    "no session to clear up with: {error}"
                )));
            }
            sleep(RETURN_PAUSE).await;
        }
        self.clear().await?;
        if self.stretch.is_written() {
            self.stretch.zero(&nexus, self.lun).await?;
        }
        Ok(())
    }

    /// INQUIRY: standard data, or a page, in full.
    pub(crate) async fn inquiry(&self, way: Way, page: Option<u8>) -> Result<Vec<u8>, Unmet> {
        let nexus = self.nexus(way);
        let data = nexus.good(command::inquiry(self.lun, page)).await?;
        let length = match (page, data.get(2..4)) {
            (Some(_), Some(&[high, low])) => u16::from_be_bytes([high, low]).saturating_add(4),
            _ => 0,
        };
        match usize::from(length) > data.len() {
            true => {
                nexus
                    .good(command::long_inquiry(self.lun, page, length))
                    .await
            }
            false => Ok(data),
        }
    }

    /// A page that a target need not have.
    pub(crate) async fn optional_page(&self, way: Way, page: u8) -> Result<Vec<u8>, Unmet> {
        let asked = self.nexus(way).ask(command::inquiry(self.lun, Some(page)));
        Self::unknown(
            &asked.await?,
            &format!("vital product data page {page:02X}h"),
        )?;
        self.inquiry(way, Some(page)).await
    }

    /// Whether an error says that the target does not offer the command.
    pub(crate) fn unknown(answer: &crate::answer::Answer, what: &str) -> Result<(), Unmet> {
        match answer.is_unknown() {
            true => Err(Unmet::NotApplicable(format!(
                "the target knows no {what}: {}",
                answer.how_it_ended()
            ))),
            false => Ok(()),
        }
    }
}

/// A host's name.
pub(crate) const fn name(host: usize) -> char {
    match host {
        A => 'A',
        B => 'B',
        _ => 'C',
    }
}

/// ILLEGAL REQUEST as [`Answer::refused`](crate::answer::Answer::refused) wants it.
pub(crate) const ILLEGAL: SenseKey = SenseKey::IllegalRequest;
