//! The loop: gathers what has happened, tells the engine, and does what the engine wants.
//!
//! Invariants:
//! - the engine hears of everything in the order in which its source told it, with a time that was
//!   read after the input had been taken;
//! - what the events of one turn cause is sent together at the turn's end, and then the commands end that it answers;
//! - of what has come of initiators the engine looks at a part in each turn, and all sockets were looked at before;
//! - nothing in the loop waits but the one place that waits for everything.

use std::future::{Future, poll_fn, ready};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use holdfast_api::documents::LocalReport;
use holdfast_disk::Disks;
use holdfast_engine::{Command, Engine, Event, NodeStatus, Notice, OpenFailure, Output, Severity};
use holdfast_metadata::Session;
use holdfast_model::{DiskCompletion, DiskId, Tier};
use holdfast_net::{BindError, Network};
use holdfast_seal::Seal;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::attention::{AWAKE_MAX, Attention};
use crate::bad_blocks::{BadBlocks, Line};
use crate::clock;
use crate::departures::Departures;
use crate::detached::{self, OpenedDevice};
use crate::devices::{Orders, Wanted};
use crate::disbelief::Disbelief;
use crate::error::NodeError;
use crate::history::{FrameSender, Measuring};
use crate::machine;
use crate::opening::other_tiers;
use crate::report::Reporter;
use crate::room::RoomWatch;
use crate::signals::Signals;
use crate::stalls::StallSender;

/// How long a clean stop may take before the process ends anyway.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two snapshots for the API, where they cost little.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// Between two snapshots at most, whatever they cost: with the asking, what the API shows is no older than
/// 2 s.
const REPORT_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Between two snapshots passes as much time as one takes, so many times: there may be thousands of slices.
const REPORT_REST: u32 = 100;
/// Answers of the metadata that one turn takes; the others wait their turn.
const ANSWERS_MAX: usize = 64;

/// The engine with everything that it commands.
pub(crate) struct Reactor {
    pub(crate) engine: Engine,
    pub(crate) disks: Disks,
    pub(crate) network: Network,
    pub(crate) session: Session,
    /// Opens the secrets in what the metadata answers.
    pub(crate) seal: Seal,
    pub(crate) reporter: Reporter,
    pub(crate) report: watch::Sender<LocalReport>,
    /// When the report is next made.
    pub(crate) report_due: Instant,
    pub(crate) room: RoomWatch,
    pub(crate) bad_blocks: BadBlocks,
    pub(crate) departures: Departures,
    pub(crate) disbelief: Disbelief,
    pub(crate) detached: detached::Watch,
    pub(crate) stalls: StallSender,
    pub(crate) frames: FrameSender,
    pub(crate) measuring: Measuring,
    /// When the second is over that is measured.
    pub(crate) measure_due: Instant,
    pub(crate) names: Names,
    pub(crate) orders: Orders,
    pub(crate) alarm: Alarm,
    pub(crate) attention: Attention,
    /// Why the node has to end.
    pub(crate) end: Option<NodeError>,
    pub(crate) out: Output,
}

/// What the configuration calls things, for messages.
pub(crate) struct Names {
    /// The node's directory.
    pub(crate) directory: PathBuf,
    /// The devices, by the numbers of their disks.
    pub(crate) devices: Vec<PathBuf>,
    /// Those that were there at the start, with the tiers that they were given.
    pub(crate) given: Vec<(PathBuf, Tier)>,
    /// The keys of the addresses that are listened on.
    pub(crate) addresses: Vec<(&'static str, SocketAddr)>,
}

/// What has happened since the last turn.
#[derive(Default)]
struct Batch {
    completions: Vec<DiskCompletion>,
    events: Vec<Event>,
    ordered: Option<Wanted>,
    signalled: bool,
}

impl Batch {
    /// Whether there is nothing that the engine has to hear of.
    fn is_empty(&self) -> bool {
        self.completions.is_empty() && self.events.is_empty()
    }
}

impl Reactor {
    /// Runs until the engine has stopped.
    ///
    /// # Errors
    /// [`NodeError`] if the store cannot be opened, or the node has to end otherwise than cleanly.
    pub(crate) async fn run(mut self, signals: Signals) -> Result<(), NodeError> {
        let ended = self.turn(signals).await;
        self.bad_blocks
            .rest(Instant::now().into_std())
            .for_each(tell);
        self.departures.rest().for_each(tell);
        let ended = ended?;
        // The others are told; then, where that was no clean stop, whoever watches over the node starts it
        // again: without the device if it can do without.
        self.network.close().await;
        ended
    }

    /// Until the engine has ended, and how; an error of its own where nobody waits for that.
    async fn turn(&mut self, mut signals: Signals) -> Result<Result<(), NodeError>, NodeError> {
        let mut batch = Batch::default();
        let mut give_up: Option<Instant> = None;
        let mut has_told = false;
        loop {
            let has_stopped = self.obey()?;
            if let Some(ended) = ended(has_stopped, self.end.take()) {
                return Ok(ended);
            }
            // What is sent leaves now, and requests begin, and not only when everything has had its turn.
            self.network.flush();
            if self.engine.has_answered() {
                self.engine.handle_flushed(clock::now());
            }
            self.network.take_events(&mut batch.events);
            self.disks.poll(&mut batch.completions);
            if !batch.is_empty() && !std::mem::replace(&mut has_told, true) {
                // Mostly what the sockets have taken: to look at all of them before the engine hears of it is a system
                // call for each command. Once a turn: whoever reads as fast as is sent does not keep the others waiting.
                self.hand_in(&mut batch);
                continue;
            }
            has_told = false;
            let now = Instant::now();
            if now >= self.report_due || self.orders.is_report_awaited() {
                self.make_report();
            }
            if now >= self.measure_due {
                self.measure();
            }
            let until = self.report_due.min(self.measure_due);
            let until = give_up.map_or(until, |give_up| give_up.min(until));
            self.gather(&mut signals, &mut batch, until).await;
            if std::mem::take(&mut batch.signalled) {
                if give_up.is_some() {
                    return Err(NodeError::Hurried);
                }
                tracing::info!("stopping");
                give_up = Some(Instant::now() + STOP_TIME_MAX);
                // Whoever steers here leaves it to others before they look for this node.
                self.reporter.stops();
                self.make_report();
                batch.events.push(Event::Stop);
            }
            if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
                return Err(NodeError::Hurried);
            }
            self.hand_in(&mut batch);
            self.pass_time();
        }
    }

    fn make_report(&mut self) {
        let begun = Instant::now();
        let status = self.engine.status();
        self.detached.open(self.opened(&status));
        self.measuring.note(&status);
        let report = self.reporter.report(&status, &self.names.devices);
        self.room.tell(report.room);
        self.bad_blocks
            .due(Instant::now().into_std())
            .for_each(tell);
        let left = self.departures.due(Instant::now().into_std());
        left.into_iter().for_each(tell);
        let line = self
            .disbelief
            .line(Instant::now().into_std(), status.astray);
        line.into_iter().for_each(tell);
        self.report.send_replace(report);
        self.orders.reported();
        let rest = begun.elapsed() * REPORT_REST;
        let rest = rest.clamp(REPORT_INTERVAL, REPORT_INTERVAL_MAX);
        self.report_due = Instant::now() + rest;
    }

    /// Hands over what was measured, when a second of the wall's clock is over.
    fn measure(&mut self) {
        let now = SystemTime::now();
        let (engine, disks) = (&mut self.engine, &mut self.disks);
        let uses = || (engine.take_uses(), disks.take_uses());
        if let Some(frame) = self.measuring.take(now, uses) {
            self.frames.told(frame);
        }
        self.measure_due = Instant::now() + Measuring::left_of_second(now);
    }

    /// The store's devices that are open: where each was found, and what it is.
    fn opened(&self, status: &NodeStatus) -> detached::Opened {
        let disks = status.devices.iter().filter_map(|device| device.disk);
        let opened = disks.filter_map(|disk| {
            let device = OpenedDevice {
                path: self.names.path(disk),
                identity: self.disks.identity(disk)?,
                bytes: self.disks.geometry(disk)?.size,
            };
            Some((disk, device))
        });
        opened.collect()
    }

    /// Waits until something has happened, then takes everything that has; at the latest at
    /// `until`.
    async fn gather(&mut self, signals: &mut Signals, batch: &mut Batch, until: Instant) {
        let until = self.next_timeout().map_or(until, |due| due.min(until));
        let has_waited = self.wait(signals, batch, until).await;
        if !has_waited {
            // The tasks of the sockets have their turn, whatever is ready here: what was sent leaves, and who has just sent
            // something is heard before more is done for others.
            yield_now().await;
        }
        self.disks.poll(&mut batch.completions);
        self.network.take_events(&mut batch.events);
        for _ in 0..ANSWERS_MAX {
            let Ok((token, mut answer)) = self.session.answers.try_recv() else {
                break;
            };
            self.seal.open(&mut answer);
            batch.events.push(Event::Metadata { token, answer });
        }
    }

    /// Waits until something has happened, or it is time; tells whether it had to. A time that has passed needs no timer, and
    /// is no wait that was short.
    async fn wait(&mut self, signals: &mut Signals, batch: &mut Batch, until: Instant) -> bool {
        let mut has_waited = false;
        if self.disks.outstanding() > 0 {
            self.attention.is_for_devices();
        }
        let (begun, stays_awake) = (Instant::now(), self.attention.stays_awake());
        let busy = !batch.is_empty() || until <= begun;
        let something = async {
            loop {
                let is_awake = stays_awake && begun.elapsed() < AWAKE_MAX;
                tokio::select! {
                    biased;
                    () = signals.next() => batch.signalled = true,
                    wanted = self.orders.next() => batch.ordered = Some(wanted),
                    () = ready(()), if busy => {}
                    () = self.disks.completions(&mut batch.completions) => {}
                    () = self.network.next_events(&mut batch.events) => {}
                    answer = self.session.answers.recv() => {
                        let (token, mut answer) =
                            answer.expect("the session lasts as long as its requests");
                        self.seal.open(&mut answer);
                        batch.events.push(Event::Metadata { token, answer });
                    }
                    () = self.alarm.until(until) => {}
                    () = yield_now(), if is_awake => continue,
                }
                break;
            }
        };
        {
            let mut something = pin!(something);
            poll_fn(|context| {
                let polled = something.as_mut().poll(context);
                has_waited |= polled.is_pending();
                polled
            })
            .await;
        }
        if has_waited {
            self.attention.note(begun.elapsed());
        }
        has_waited
    }

    /// When the engine next needs the time, by the runtime's clock.
    fn next_timeout(&self) -> Option<Instant> {
        let due = self.engine.next_timeout()?;
        Instant::now().checked_add(due.since(clock::now()))
    }

    /// Tells the engine what has happened.
    fn hand_in(&mut self, batch: &mut Batch) {
        if let Some(wanted) = batch.ordered.take() {
            let names = &mut self.names.devices;
            let event = self.orders.begin(wanted, &mut self.disks, names);
            batch.events.extend(event);
        }
        let completions = batch.completions.drain(..).map(Event::Disk);
        for event in completions.chain(batch.events.drain(..)) {
            self.engine.handle(clock::now(), event, &mut self.out);
        }
    }

    /// Tells the engine the time, if it needs that.
    fn pass_time(&mut self) {
        let now = clock::now();
        if self.engine.next_timeout().is_some_and(|due| due <= now) {
            self.engine.handle_timeout(now, &mut self.out);
        }
    }

    /// Does what the engine wants. Whether it has stopped.
    fn obey(&mut self) -> Result<bool, NodeError> {
        let mut stopped = false;
        for command in self.out.drain() {
            match command {
                Command::Disk(request) => self.disks.submit(request),
                Command::Metadata { token, request } => {
                    self.session.requests.submit(token, request);
                }
                Command::Peer(command) => self.network.peer_command(command),
                Command::Portal(command) => self.network.portal_command(command),
                Command::Registered => {
                    if let Some(is_used) = self.engine.take_over_used() {
                        tracing::info!("{}", machine::take_over_words(is_used));
                    }
                    note_failed(machine::registered(&self.names.directory));
                }
                Command::Opened { store, incarnation } => {
                    tracing::info!("opened store {store}, and registered");
                    self.reporter.registered(store, incarnation);
                    for warning in other_tiers(&self.engine.status().devices, &self.names.given) {
                        tracing::warn!("{warning}");
                    }
                    self.report_due = Instant::now();
                    let opened = self.network.open(store, incarnation);
                    opened.map_err(|error| self.names.listen_error(error))?;
                }
                Command::OpenFailed(failure) => {
                    return Err(self.names.store_error(failure));
                }
                Command::Notice(notice) => {
                    let now = Instant::now().into_std();
                    if let Some(notice) = self.departures.take(now, notice) {
                        note(&mut self.disbelief, &mut self.bad_blocks, notice);
                    }
                }
                Command::Stalled(stall) => {
                    if stall.initiator.is_none() {
                        tracing::warn!("{stall}");
                    }
                    self.stalls.told(&stall);
                }
                Command::Ordered { number, result } => {
                    self.orders.end(number, result, &mut self.disks);
                }
                Command::Release(disk) => self.disks.release(disk),
                Command::DeviceLost(disk) => {
                    let path = self.names.path(disk);
                    self.end = Some(NodeError::DeviceLost { path });
                }
                Command::Unusable(disk) => {
                    let path = self.names.path(disk);
                    self.end = Some(NodeError::NeededDeviceFailed { path });
                }
                Command::Displaced => {
                    note_failed(machine::displaced(&self.names.directory));
                    self.end = Some(NodeError::Displaced);
                }
                Command::Stopped => stopped = true,
            }
        }
        Ok(stopped)
    }
}

impl Names {
    fn listen_error(&self, error: BindError) -> NodeError {
        let named = self
            .addresses
            .iter()
            .find(|(_, address)| *address == error.address);
        let (key, _) = named.expect("every address that is listened on is configured");
        NodeError::listen(key, error)
    }

    fn path(&self, disk: DiskId) -> PathBuf {
        self.devices[usize::from(disk.0)].clone()
    }

    fn store_error(&self, failure: OpenFailure) -> NodeError {
        let device = failure
            .disk()
            .and_then(|disk| self.devices.get(usize::from(disk.0)))
            .cloned();
        NodeError::Store { device, failure }
    }
}

/// How the node has ended, if it has: cleanly only where nothing else made it end.
fn ended(has_stopped: bool, end: Option<NodeError>) -> Option<Result<(), NodeError>> {
    match end {
        Some(why) => Some(Err(why)),
        None => has_stopped.then_some(Ok(())),
    }
}

/// What cannot be kept in the node's directory is no reason to end.
fn note_failed(noted: Result<(), NodeError>) {
    if let Err(error) = noted {
        tracing::error!("{error}");
    }
}

/// What the engine notices goes into the log.
fn note(disbelief: &mut Disbelief, bad_blocks: &mut BadBlocks, notice: Notice) {
    let now = Instant::now().into_std();
    let line = match notice {
        Notice::MetadataAstray(why) => disbelief.line(now, Some(why)),
        Notice::MetadataFollowed => disbelief.line(now, None),
        other => bad_blocks.line(now, other),
    };
    line.into_iter().for_each(tell);
}

fn tell((severity, text): Line) {
    match severity {
        Severity::Info => tracing::info!("{text}"),
        Severity::Warning => tracing::warn!("{text}"),
        Severity::Error => tracing::error!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has stopped, and who watches over it must not take that for what an operator wanted.
    #[test]
    fn what_made_a_node_end_is_told_though_it_stopped() {
        for has_stopped in [false, true] {
            let ended = ended(has_stopped, Some(NodeError::Displaced));
            assert!(
                matches!(ended, Some(Err(NodeError::Displaced))),
                "{ended:?}"
            );
        }
        assert!(matches!(ended(true, None), Some(Ok(()))));
        assert!(ended(false, None).is_none());
    }
}
