//! A host that takes a volume from others, or loses it: it registers on every path, reserves, preempts, and writes where it
//! is told. What it does on which path is up to the test.
//!
//! It refuses to try anything twice by itself, but for unit attentions, of which a host has to be told first.
//!
//! Invariants:
//! - a command is over after [`COMMAND_MAX`], or its session is given up;
//! - a path's session is made anew by the next command that wants it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_lab::command::{self, ReserveOut, ReserveParameters, ReserveType};
use holdfast_lab::sense::SenseData;
use holdfast_lab::session::{Session, SessionConfig};
use holdfast_lab::{CommandRequest, Completion, IscsiName, Isid, Lun, SessionKind};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long a command may take: more than the longest lease, and than a change of access that has to wait for one.
pub const COMMAND_MAX: Duration = Duration::from_secs(12);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Unit attentions in a row, at most.
const ATTENTIONS_MAX: usize = 16;

/// SCSI status codes (SAM-5 5.3.1).
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const RESERVATION_CONFLICT: u8 = 0x18;
/// SENSE KEY of a unit attention.
const UNIT_ATTENTION: u8 = 6;

/// What became of a command.
#[derive(Debug)]
pub enum Outcome {
    /// GOOD, with what it returned.
    Done(Vec<u8>),
    /// RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION.
    Refused(SenseData),
    /// Its session ended, or it was aborted: nobody knows.
    Unknown,
}

/// A host with a path to each portal.
#[derive(Debug)]
pub struct Rival {
    name: IscsiName,
    number: u32,
    target: IscsiName,
    paths: Vec<(SocketAddr, Mutex<Option<Session>>)>,
    /// Its reservation key.
    pub key: u64,
}

impl Rival {
    /// A host of that number; nothing is connected yet.
    ///
    /// # Errors
    /// `target` is no name.
    pub fn new(number: u32, target: &str, portals: &[SocketAddr]) -> Result<Self> {
        Ok(Self {
            name: IscsiName::parse(&format!("iqn.2026-11.io.holdfast.test:rival{number}"))?,
            number,
            target: IscsiName::parse(target)?,
            paths: portals.iter().map(|it| (*it, Mutex::default())).collect(),
            key: 0x1000 + u64::from(number),
        })
    }

    /// How many paths it has.
    #[must_use]
    pub const fn paths(&self) -> usize {
        self.paths.len()
    }

    /// The unit.
    #[must_use]
    pub fn lun(&self) -> Lun {
        Lun::from_number(0)
    }

    /// Carries out a command on a path.
    pub async fn on(&self, path: usize, command: &CommandRequest) -> Outcome {
        for _ in 0..ATTENTIONS_MAX {
            let Some(completion) = self.once(path, command).await else {
                return Outcome::Unknown;
            };
            match completion.status {
                GOOD => return Outcome::Done(completion.data_in.concat()),
                RESERVATION_CONFLICT => return Outcome::Conflict,
                CHECK_CONDITION => match SenseData::parse(&completion.sense) {
                    Some(sense) if sense.key == UNIT_ATTENTION => {}
                    Some(sense) => return Outcome::Refused(sense),
                    None => return Outcome::Unknown,
                },
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        Outcome::Unknown
    }

    /// Carries it out once, whatever comes of it: none if nobody knows.
    pub async fn once(&self, path: usize, command: &CommandRequest) -> Option<Completion> {
        let session = self.session(path).await?;
        match timeout(COMMAND_MAX, session.execute(command.clone())).await {
            Ok(Ok(completion)) => Some(completion),
            Ok(Err(_)) => None,
            Err(_) => {
                session.close();
                None
            }
        }
    }

    async fn session(&self, path: usize) -> Option<Session> {
        let (portal, kept) = &self.paths[path];
        let mut kept = kept.lock().await;
        if let Some(session) = kept.as_ref().filter(|it| it.end_reason().is_none()) {
            return Some(session.clone());
        }
        let [_, b, c, d] = self.number.to_be_bytes();
        // The random format (RFC 7143 11.12.5), which is the path's own.
        let isid = Isid([0x80, b, c, d, 0, u8::try_from(path).ok()?]);
        let kind = SessionKind::Normal(self.target.clone());
        let config = SessionConfig {
            connect_timeout: CONNECT_MAX,
            ..SessionConfig::new(*portal, self.name.clone(), isid, kind)
        };
        let session = timeout(2 * CONNECT_MAX, Session::connect(config)).await;
        *kept = session.ok()?.ok();
        kept.clone()
    }

    /// PERSISTENT RESERVE OUT on a path.
    pub async fn reserve_out(
        &self,
        path: usize,
        action: ReserveOut,
        kind: ReserveType,
        action_key: u64,
    ) -> Outcome {
        let parameters = ReserveParameters {
            key: self.key,
            action_key,
            ..ReserveParameters::default()
        };
        let command = command::persistent_reserve_out(self.lun(), action, kind, parameters);
        self.on(path, &command).await
    }

    /// Registers on every path.
    ///
    /// # Errors
    /// A path does not work.
    pub async fn register(&self) -> Result<()> {
        for path in 0..self.paths() {
            let action = ReserveOut::RegisterAndIgnore;
            let kind = ReserveType::WriteExclusive;
            let outcome = self.reserve_out(path, action, kind, self.key).await;
            done(outcome).with_context(|| format!("register on path {path}"))?;
        }
        Ok(())
    }

    /// Reads `count` logical blocks on a path.
    ///
    /// # Errors
    /// It did not come to that.
    pub async fn read(&self, path: usize, first: u64, count: u32) -> Result<Vec<u8>> {
        let read = command::read(self.lun(), first, count, 512);
        let data = done(self.on(path, &read).await).context("read")?;
        ensure!(data.len() == count as usize * 512, "a read is whole");
        Ok(data)
    }
}

/// What was done has returned this.
///
/// # Errors
/// It was not done.
pub fn done(outcome: Outcome) -> Result<Vec<u8>> {
    match outcome {
        Outcome::Done(data) => Ok(data),
        other => bail!("it was not done: {other:?}"),
    }
}
