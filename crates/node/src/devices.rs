//! Orders about devices, from the API to the engine and back.
//!
//! The API's thread opens a device, which may take a while, and hands it over; the loop drives it from then
//! on, and closes it when the engine releases it.
//!
//! Invariant: whoever orders something is answered with a report in which it shows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    Device, DeviceChange, DeviceList, DeviceState, DeviceTier, LocalReport,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_disk::{DeviceSpec, Disks, Geometry, OpenDevice};
use holdfast_engine::{
    Absence, DeviceGeometry, DeviceOrder, DeviceRefused, DeviceState as State, DeviceStatus, Event,
    JournalMark,
};
use holdfast_model::{DiskId, PAGE_SIZE, Tier};
use tokio::sync::{mpsc, oneshot, watch};

use crate::detached::Seen;
use crate::paths::{Noted, Paths, Place};
use crate::rates::Rates;

/// Orders that may wait for the loop: people give them.
const WAITING_MAX: usize = 16;
/// What a device writes whole, if it does not say that it is more.
const SECTOR_MIN: u32 = 512;
pub(crate) const SECTOR_MAX: u32 = 4096;

/// What the loop is to have ordered.
#[derive(Debug)]
enum What {
    Add {
        device: OpenDevice,
        path: PathBuf,
        tier: Tier,
        id: u64,
        replaces: Option<u16>,
        journal_room: bool,
    },
    Drain(u16),
    Resume(u16),
    Remove {
        ordinal: u16,
        gives_up: bool,
    },
}

/// How long an order may take: some writes, each behind what is in flight. A drain goes on afterwards.
const ORDER_TIME_MAX: Duration = Duration::from_secs(30);

type Answer = oneshot::Sender<Result<u16, DeviceRefused>>;

/// An order on its way.
#[derive(Debug)]
pub(crate) struct Wanted {
    what: What,
    answer: Answer,
}

/// Where the API orders something about the node's devices.
#[derive(Clone, Debug)]
pub struct DeviceDesk {
    wanted: mpsc::Sender<Wanted>,
    paths: Arc<Mutex<Paths>>,
    report: watch::Receiver<LocalReport>,
}

/// The two ends: the API's and the loop's.
pub(crate) fn desk(paths: Paths, report: watch::Receiver<LocalReport>) -> (DeviceDesk, Orders) {
    let (sender, wanted) = mpsc::channel(WAITING_MAX);
    let desk = DeviceDesk {
        wanted: sender,
        paths: Arc::new(Mutex::new(paths)),
        report,
    };
    let orders = Orders {
        wanted,
        pending: BTreeMap::new(),
        next: 1,
        done: Vec::new(),
    };
    (desk, orders)
}

impl DeviceDesk {
    /// Adds a device to the node, drains one or removes one.
    ///
    /// # Errors
    /// [`ProblemKind::Refused`] with the reason, [`ProblemKind::Invalid`] for a path that is none, and
    /// [`ProblemKind::Unavailable`] if the node stops meanwhile.
    pub async fn change(&self, change: DeviceChange) -> Result<DeviceList, Problem> {
        match change {
            DeviceChange::Add {
                path,
                tier,
                replaces,
                journal_room,
            } => {
                let roles = (replaces, journal_room);
                self.add(Path::new(&path), tier, roles).await?;
            }
            DeviceChange::Drain { device } => self.order(What::Drain(device)).await?,
            DeviceChange::Resume { device } => self.order(What::Resume(device)).await?,
            DeviceChange::Remove { device, give_up } => {
                let (ordinal, gives_up) = (device, give_up);
                self.order(What::Remove { ordinal, gives_up }).await?;
            }
        }
        let devices = self.report.borrow().devices.clone();
        Ok(DeviceList {
            devices,
            awaited_device: None,
            awaited_cause: None,
        })
    }

    async fn add(
        &self,
        path: &Path,
        tier: DeviceTier,
        (replaces, journal_room): (Option<u16>, bool),
    ) -> Result<(), Problem> {
        if !path.is_absolute() {
            let detail = format!("{} is not an absolute path", path.display());
            return Err(Problem::new(ProblemKind::Invalid, detail)
                .hint("name the device as it is called on the node's machine"));
        }
        if !self.report.borrow().open {
            // While the node's own devices are opened, what is noted of others would be taken for one of them.
            let refused = DeviceRefused::NotOpen;
            return Err(Problem::new(ProblemKind::Refused, refused).hint(hint(&refused)));
        }
        let spec = DeviceSpec {
            size_min: u64::from(SECTOR_MAX),
            ..DeviceSpec::existing(path)
        };
        let opened = tokio::task::spawn_blocking(move || OpenDevice::open(&spec));
        let opened = opened
            .await
            .map_err(|error| Problem::new(ProblemKind::Internal, error))?;
        let device = opened.map_err(|error| {
            Problem::new(ProblemKind::Refused, error)
                .hint("name a block device, or a file of the size that is wanted, that nobody uses")
        })?;
        let tier = tier_of(tier);
        let id =
            crate::run::random().map_err(|error| Problem::new(ProblemKind::Internal, error))?;
        let place = Place {
            path: path.to_owned(),
            tier,
        };
        let drawn = u64::from_ne_bytes(id);
        let id = self.paths().begin(place, drawn).map_err(|error| {
            let detail = format!("cannot note where the device is: {error}");
            Problem::new(ProblemKind::Unavailable, detail)
                .hint("the node's directory must have room, and be writable")
        })?;
        let what = What::Add {
            device,
            path: path.to_owned(),
            tier,
            id,
            replaces,
            journal_room,
        };
        let ordered = self.order(what).await;
        let refused = |problem: &Problem| problem.kind == ProblemKind::Refused;
        if ordered.as_ref().is_err_and(refused)
            && let Err(error) = self.paths().undo(path)
        {
            tracing::warn!("cannot forget where {} is: {error}", path.display());
        }
        ordered
    }

    async fn order(&self, what: What) -> Result<(), Problem> {
        let stopped = || {
            Problem::new(
                ProblemKind::Unavailable,
                "the node stops, or a device has failed: what was ordered may or may not be done",
            )
            .hint("ask for the node's devices when it is back")
        };
        let (answer, answered) = oneshot::channel();
        let wanted = Wanted { what, answer };
        self.wanted.send(wanted).await.map_err(|_| stopped())?;
        let answered = tokio::time::timeout(ORDER_TIME_MAX, answered);
        let result = answered.await.map_err(|_| stopped())?;
        let result = result.map_err(|_| stopped())?;
        result
            .map(|_| ())
            .map_err(|refused| Problem::new(ProblemKind::Refused, refused).hint(hint(&refused)))
    }

    /// Where the devices are.
    pub(crate) fn paths(&self) -> MutexGuard<'_, Paths> {
        // What it guards is right after every step, whoever panics.
        self.paths.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Notes where the devices are, whenever the store has others.
    pub(crate) async fn keep(self) {
        let mut report = self.report.clone();
        let mut known: Vec<Noted> = Vec::new();
        while report.changed().await.is_ok() {
            let current: Vec<Noted> = report
                .borrow_and_update()
                .devices
                .iter()
                .map(noted)
                .collect();
            if current.is_empty() || current == known {
                continue;
            }
            match self.paths().note(&current) {
                Ok(()) => known = current,
                Err(error) => tracing::warn!("cannot note where the devices are: {error}"),
            }
        }
        // The loop has ended; what else runs here goes on.
        std::future::pending::<()>().await;
    }
}

/// A class as documents call it.
pub(crate) const fn tier_of(tier: DeviceTier) -> Tier {
    match tier {
        DeviceTier::Flash => Tier::Flash,
        DeviceTier::Capacity => Tier::Capacity,
    }
}

fn noted(device: &Device) -> Noted {
    let place = Place {
        path: PathBuf::from(&device.path),
        tier: tier_of(device.tier),
    };
    Noted {
        number: device.number,
        place,
        is_absent: device.is_absent,
    }
}

fn hint(refused: &DeviceRefused) -> &'static str {
    match refused {
        DeviceRefused::Unknown { .. } | DeviceRefused::InUse => {
            "`holdfast device list NODE` shows the node's devices"
        }
        DeviceRefused::Journal => {
            "put another in its place with `holdfast device replace`, or add one that has room for it: \
             `holdfast device add --journal`"
        }
        DeviceRefused::NotFlash => "name a flash device",
        DeviceRefused::NoRoom { .. } => "add a device first, or have the node hold less",
        DeviceRefused::NotEmpty { .. } => {
            "drain it first: `holdfast device drain NODE DEVICE --wait`"
        }
        DeviceRefused::Absent => {
            "put another in its place with `holdfast device replace`, or remove it; what was on it is brought \
             by other nodes"
        }
        DeviceRefused::Lacking { .. } => {
            "it leaves when other nodes have brought that: `holdfast status --explain` says how far they are. If \
             it is the only copy, and is not to come back: `--give-up`"
        }
        DeviceRefused::NotBlank { .. } => {
            "only a blank device is added; to give up what is on it, overwrite its first 2 MiB with \
             zeros"
        }
        DeviceRefused::TooSmall { .. } | DeviceRefused::BadSector { .. } => "name another device",
        DeviceRefused::TooMany | DeviceRefused::TooLarge => {
            "drain the node, give it other devices, and add it again"
        }
        DeviceRefused::Failed => "the kernel's log says how (`dmesg`)",
        DeviceRefused::NotOpen => "the node's log says why",
        DeviceRefused::Busy => "try again when they are done",
    }
}

/// An order, as the log has it. Devices that are there have numbers; `names` has the paths of disks.
fn words(order: &DeviceOrder, names: &[PathBuf]) -> String {
    match order {
        DeviceOrder::Add {
            geometry,
            replaces,
            journal_room,
            ..
        } => {
            let path = names[usize::from(geometry.disk.0)].display();
            let room = if *journal_room {
                ", with room for the journal"
            } else {
                ""
            };
            let replaces = replaces.map(|number| format!(", in the place of device {number}"));
            let replaces = replaces.unwrap_or_default();
            format!("device {path} is added{replaces}{room}")
        }
        DeviceOrder::Drain { ordinal } => format!("device {ordinal} is drained"),
        DeviceOrder::Resume { ordinal } => format!("the drain of device {ordinal} is called off"),
        DeviceOrder::Remove {
            ordinal,
            gives_up: false,
        } => format!("device {ordinal} is removed"),
        DeviceOrder::Remove {
            ordinal,
            gives_up: true,
        } => format!("device {ordinal} is removed, and what is lacking because of it is given up"),
    }
}

/// An order that the engine has been given.
#[derive(Debug)]
struct Pending {
    answer: Answer,
    /// The device that was opened for it.
    disk: Option<DiskId>,
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Orders {
    wanted: mpsc::Receiver<Wanted>,
    pending: BTreeMap<u64, Pending>,
    next: u64,
    /// Answers that wait for the next report.
    done: Vec<(Answer, Result<u16, DeviceRefused>)>,
}

impl Orders {
    /// The next order; never, when nobody can order anything any more.
    pub(crate) async fn next(&mut self) -> Wanted {
        match self.wanted.recv().await {
            Some(wanted) => wanted,
            None => std::future::pending().await,
        }
    }

    /// Makes an order an event. A device that is to be added is driven from now on; `names` gets its path.
    pub(crate) fn begin(
        &mut self,
        wanted: Wanted,
        disks: &mut Disks,
        names: &mut Vec<PathBuf>,
    ) -> Option<Event> {
        let Wanted { what, answer } = wanted;
        let mut disk = None;
        let order = match what {
            What::Add {
                device,
                path,
                tier,
                id,
                replaces,
                journal_room,
            } => {
                let found = device.geometry();
                let Ok(added) = disks.add(device) else {
                    self.done.push((answer, Err(DeviceRefused::Failed)));
                    return None;
                };
                disk = Some(added);
                names.push(path);
                assert!(
                    names.len() == usize::from(added.0) + 1,
                    "disks are numbered in the order of their names"
                );
                DeviceOrder::Add {
                    geometry: geometry(added, found, tier),
                    id,
                    replaces,
                    journal_room,
                }
            }
            What::Drain(ordinal) => DeviceOrder::Drain { ordinal },
            What::Resume(ordinal) => DeviceOrder::Resume { ordinal },
            What::Remove { ordinal, gives_up } => DeviceOrder::Remove { ordinal, gives_up },
        };
        let number = self.next;
        self.next += 1;
        self.pending.insert(number, Pending { answer, disk });
        tracing::info!("ordered: {}", words(&order, names));
        Some(Event::Order { number, order })
    }

    /// The engine has answered.
    pub(crate) fn end(
        &mut self,
        number: u64,
        result: Result<u16, DeviceRefused>,
        disks: &mut Disks,
    ) {
        let pending = self.pending.remove(&number);
        let Pending { answer, disk } = pending.expect("what is answered was ordered");
        if let Err(refused) = &result {
            tracing::warn!("what was ordered of the devices is not done: {refused}");
            disk.into_iter().for_each(|disk| disks.release(disk));
        }
        self.done.push((answer, result));
    }

    /// Whether somebody waits for the next report.
    pub(crate) fn is_report_awaited(&self) -> bool {
        !self.done.is_empty()
    }

    /// A report has been made: those who wait for it are answered.
    pub(crate) fn reported(&mut self) {
        for (answer, result) in self.done.drain(..) {
            if answer.send(result).is_err() {
                tracing::warn!("whoever ordered something about a device has given up");
            }
        }
    }
}

/// A device as the store takes it.
pub(crate) fn geometry(disk: DiskId, found: Geometry, tier: Tier) -> DeviceGeometry {
    DeviceGeometry {
        disk,
        bytes: found.size,
        sector: if found.sector >= SECTOR_MAX {
            SECTOR_MAX
        } else {
            SECTOR_MIN
        },
        tier,
    }
}

/// Whether what is on a device is to become less: it goes elsewhere, or is brought by others.
fn empties(device: &DeviceStatus) -> bool {
    device.state != State::InUse || device.absent.is_some()
}

/// How what is on devices becomes less, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Emptying {
    /// Of counts that rise by as much as there becomes less.
    rates: Rates<u16>,
    /// The most that was seen on each since it is to become less.
    most: BTreeMap<u16, u64>,
}

impl Emptying {
    /// Takes note of all devices as they are at a moment.
    pub(crate) fn note(&mut self, now: Instant, devices: &[DeviceStatus]) {
        let emptied = || devices.iter().filter(|device| empties(device));
        let counts = emptied().map(|device| (device.ordinal, u64::MAX - used_bytes(device)));
        self.rates.note(now, counts);
        let before = std::mem::take(&mut self.most);
        let most = |device: &DeviceStatus| {
            let most = before.get(&device.ordinal).copied().unwrap_or(0);
            (device.ordinal, used_bytes(device).max(most))
        };
        self.most = emptied().map(most).collect();
    }
}

fn used_bytes(device: &DeviceStatus) -> u64 {
    device.pages_used * PAGE_SIZE as u64
}

/// How long it takes until nothing is left on a device, at so many bytes a second.
fn seconds_left(device: &DeviceStatus, bytes_per_second: u64) -> Option<u64> {
    match used_bytes(device) {
        _ if !empties(device) => None,
        0 => Some(0),
        left => (bytes_per_second > 0).then(|| left.div_ceil(bytes_per_second)),
    }
}

/// The devices as documents tell them: those that are absent as they are known.
pub(crate) fn documents(
    devices: &[DeviceStatus],
    names: &[PathBuf],
    known: &BTreeMap<u16, Place>,
    emptying: &Emptying,
    detached: &Seen,
) -> Vec<Device> {
    let document = |device: &DeviceStatus| {
        let bytes_per_second = emptying.rates.per_second(&device.ordinal);
        let place = known.get(&device.ordinal);
        let path = device.disk.map(|disk| &names[usize::from(disk.0)]);
        let path = path.or(place.map(|place| &place.path));
        let tier = device.tier.or(place.map(|place| place.tier));
        Device {
            number: device.ordinal,
            path: path.map_or_else(String::new, |path| path.display().to_string()),
            tier: match tier.unwrap_or(Tier::Flash) {
                Tier::Flash => DeviceTier::Flash,
                Tier::Capacity => DeviceTier::Capacity,
            },
            state: state(device),
            journal: device.journal == JournalMark::Here,
            journal_room: matches!(device.journal, JournalMark::Room | JournalMark::Next),
            is_absent: device.absent.is_some(),
            bytes: device.pages * PAGE_SIZE as u64,
            used_bytes: used_bytes(device),
            bytes_per_second,
            seconds_left: seconds_left(device, bytes_per_second),
            drain_bytes: emptying.most.get(&device.ordinal).copied(),
            bad_blocks: device.bad_blocks,
            detached: device.disk.and_then(|disk| detached.get(&disk).copied()),
            latency_p99_us: None,
        }
    };
    devices.iter().map(document).collect()
}

fn is_empty(device: &DeviceStatus) -> bool {
    device.pages_used == 0 && device.journal != JournalMark::Here
}

fn state(device: &DeviceStatus) -> DeviceState {
    match (device.state, device.absent) {
        (State::Leaving, _) => DeviceState::Leaving,
        (_, Some(Absence { is_lost: true, .. })) => DeviceState::Lost,
        (_, Some(_)) => DeviceState::Missing,
        (State::InUse, None) => DeviceState::InUse,
        (State::Draining, None) if is_empty(device) => DeviceState::Drained,
        (State::Draining, None) => DeviceState::Draining,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_in_words() {
        let names = ["/dev/sdb", "/dev/sdc"].map(PathBuf::from);
        let add = |replaces, journal_room| DeviceOrder::Add {
            geometry: DeviceGeometry {
                disk: DiskId(1),
                bytes: 1 << 30,
                sector: 512,
                tier: Tier::Flash,
            },
            id: 7,
            replaces,
            journal_room,
        };
        let remove = |gives_up| DeviceOrder::Remove {
            ordinal: 3,
            gives_up,
        };
        for (order, told) in [
            (add(None, false), "device /dev/sdc is added"),
            (
                add(Some(2), true),
                "device /dev/sdc is added, in the place of device 2, with room for the journal",
            ),
            (DeviceOrder::Drain { ordinal: 3 }, "device 3 is drained"),
            (
                DeviceOrder::Resume { ordinal: 3 },
                "the drain of device 3 is called off",
            ),
            (remove(false), "device 3 is removed"),
            (
                remove(true),
                "device 3 is removed, and what is lacking because of it is given up",
            ),
        ] {
            assert_eq!(words(&order, &names), told);
        }
    }

    /// A store of two devices, the second of which is drained a page in a second; that takes until it holds nothing.
    #[test]
    fn a_drain_has_a_rate_and_a_time_left() {
        let device = |ordinal, state, pages_used| DeviceStatus {
            disk: None,
            ordinal,
            id: ordinal.into(),
            tier: None,
            state,
            absent: None,
            journal: JournalMark::None,
            pages: 100,
            pages_used,
            bad_blocks: 0,
        };
        let start = Instant::now();
        let mut emptying = Emptying::default();
        let mut told = Vec::new();
        for second in 0..=5 {
            let statuses = [
                device(0, State::InUse, 10 + second),
                device(1, State::Draining, 5 - second),
            ];
            emptying.note(start + Duration::from_secs(second), &statuses);
            let documents = documents(&statuses, &[], &BTreeMap::new(), &emptying, &Seen::new());
            let kept = &documents[0];
            assert_eq!((kept.bytes_per_second, kept.seconds_left), (0, None));
            assert_eq!(kept.drain_bytes, None);
            told.push(documents[1].seconds_left);
            assert_eq!(documents[1].drain_bytes, Some(5 * PAGE_SIZE as u64));
        }
        // A rate of less than three seconds is none.
        let left = [None, None, None, Some(2), Some(1), Some(0)];
        assert_eq!(told, left);
    }
}
