//! Which of the node's devices are opened: those that can be.
//!
//! A device that is not there, is shorter than it was, or cannot be opened, is left out: the store says whether it can do
//! without. Where it cannot, the node waits for it, at its next start at the latest: what else runs in its process, and
//! beside it, does not need the device.
//!
//! Invariants:
//! - a file that was one of the node's devices is never made anew: what was on it may come back;
//! - a device that another process holds is not left out: the node does not start;
//! - where one was left out, or is not configured any more, no store is created, and no file made;
//! - what the configuration says of a device, and the device does not follow, is told: it is not changed by a start;
//! - where the store cannot do without one, its user is told why it could not be opened;
//! - whenever a device comes that was waited for, the others that are missing are waited for before they are left out:
//!   those of a machine that starts come one after the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_api::documents::AwaitedCause;
use holdfast_disk::{DeviceSpec, Disks, FileSpec, OpenErrorReason, Options, StartError};
use holdfast_engine::{DeviceStatus, OpenFailure};
use holdfast_model::{DiskId, Tier};
use holdfast_store::OpenError;
use tokio::time::{Instant, sleep};

use crate::config::{DeviceConfig, NodeConfig};
use crate::devices::SECTOR_MAX;
use crate::error::NodeError;
use crate::lasting::{Lasting, Tell, span};
use crate::length::{self, is_whole};
use crate::paths::{Lack, Paths};
use crate::predecessor::{self, Holder};

/// How long the devices are waited for that the node had when it last ran: those of a machine that starts
/// come one after the other, and a node that goes on without one has to be brought what was there.
const AWAITED_MAX: Duration = Duration::from_secs(15);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Between two attempts with a device that has failed and is needed: whoever has mended it does not wait for long, and
/// the processes that try it do not follow each other at once.
const RETRY: Duration = Duration::from_secs(60);

/// The devices that could be opened.
pub(crate) struct Opened {
    pub(crate) disks: Disks,
    /// In the order of their disks.
    pub(crate) found: Vec<DeviceConfig>,
    /// Why the first that could not be was left out.
    pub(crate) left_out: Option<NodeError>,
}

/// Opens the node's devices, those that are there.
///
/// # Errors
/// None can be opened, or one of them must not be.
pub(crate) fn open(config: &NodeConfig, paths: &mut Paths) -> Result<Opened, NodeError> {
    let mut found = paths.choose(&config.devices, Path::exists);
    // What is left may be blank, and the journal on one that came later.
    let not_there = paths.later().find(|path| !path.exists());
    let mut left_out = not_there.map(|path| NodeError::NotThere {
        path: path.to_owned(),
    });
    let not_given = not_given(paths, &found);
    let may_make = not_given.is_none();
    left_out = left_out.or(not_given);
    for path in paths.take_failed() {
        if found.len() > 1 && found.iter().any(|device| device.path == path) {
            tracing::error!(
                "goes on without {}, if that can be: it failed",
                path.display()
            );
            found.retain(|device| device.path != path);
            left_out.get_or_insert(NodeError::Unusable { path });
        }
    }
    leave_out_cut(paths, &mut found, &mut left_out)?;
    if let Some(error) = left_out.take_if(|_| found.is_empty()) {
        return Err(error);
    }
    let disks = loop {
        match open_disks(config, paths, &found, may_make) {
            Ok(disks) => break disks,
            Err(error) => {
                let place = left_out_by(&error, paths, &found).ok_or(error)?;
                let (device, error) = place;
                tracing::error!("goes on without a device, if that can be: {error}");
                found.remove(device);
                left_out.get_or_insert(error);
                if found.is_empty() {
                    return Err(left_out.expect("it was just left out"));
                }
            }
        }
    };
    tracing::info!("disks are driven by {:?}", disks.driver());
    for warning in other_sizes(&disks, &found) {
        tracing::warn!("{warning}");
    }
    Ok(Opened {
        disks,
        found,
        left_out,
    })
}

/// A device of the node's that is not configured any more. What is given in its place may be a mistake: nothing is made, or formatted, for
/// that.
fn not_given(paths: &Paths, found: &[DeviceConfig]) -> Option<NodeError> {
    let path = paths.not_given(found)?;
    let given = found.iter().map(|device| device.path.display().to_string());
    let given = given.collect::<Vec<_>>().join(", ");
    Some(NodeError::NotGiven { path, given })
}

/// Leaves out the devices that were cut short. What is behind their ends is not blank, and nothing but themselves has it.
///
/// # Errors
/// The node cannot do without one: it is the last, or says that the journal is on it.
fn leave_out_cut(
    paths: &Paths,
    found: &mut Vec<DeviceConfig>,
    left_out: &mut Option<NodeError>,
) -> Result<(), NodeError> {
    let cut = |device: &DeviceConfig| {
        let cut = length::cut(&device.path).filter(|_| paths.has(&device.path))?;
        Some((device.path.clone(), cut))
    };
    let all: Vec<_> = found.iter().filter_map(cut).collect();
    for (path, cut) in all {
        found.retain(|device| device.path != path);
        let is_needed = found.is_empty() || cut.has_journal;
        let how = cut.words();
        let error = NodeError::CutShort { path, how };
        if is_needed {
            return Err(error);
        }
        tracing::error!("goes on without a device, if that can be: {error}");
        left_out.get_or_insert(error);
    }
    Ok(())
}

/// What there is to say of files whose size is not the one that they are given: that counts when a file is made,
/// and no more.
fn other_sizes(disks: &Disks, found: &[DeviceConfig]) -> Vec<String> {
    let warning = |(number, device): (u16, &DeviceConfig)| {
        let bytes = device.file_bytes?;
        let geometry = disks.geometry(DiskId(number))?;
        // A part of a sector at the end is not used.
        let is_same = bytes - bytes % u64::from(geometry.sector) == geometry.size;
        let path = device.path.display();
        (!is_same).then(|| {
            format!(
                "{path}: file_bytes is {bytes} in the configuration, and the device has {} bytes, which it keeps: \
                 correct file_bytes, or give the node a file of that size with `holdfast device replace`",
                geometry.size
            )
        })
    };
    (0..).zip(found).filter_map(warning).collect()
}

/// What there is to say of devices that are of another tier than they are given: that counts when a device becomes
/// one of the store's. `given` has paths and tiers by the numbers of their disks.
pub(crate) fn other_tiers(devices: &[DeviceStatus], given: &[(PathBuf, Tier)]) -> Vec<String> {
    let warning = |device: &DeviceStatus| {
        let (path, given) = given.get(usize::from(device.disk?.0))?;
        let has = device.tier.filter(|has| has != given)?;
        let path = path.display();
        let (given, has) = (tier(*given), tier(has));
        Some(format!(
            "{path}: tier is {given} in the configuration, and the device became one of this node's as {has}, which \
             it stays: correct tier, or drain and remove the device and add it again (`holdfast device`)"
        ))
    };
    devices.iter().filter_map(warning).collect()
}

/// As it is configured.
const fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Flash => "flash",
        Tier::Capacity => "capacity",
    }
}

/// What is wrong, where the store cannot be opened: with the journal's device that could not be, if that is
/// it.
pub(crate) fn blame(error: NodeError, left_out: Option<NodeError>) -> NodeError {
    let lacks = matches!(
        error,
        NodeError::Store {
            failure: OpenFailure::Store(
                OpenError::MissingDevice { .. }
                    | OpenError::Blank { .. }
                    | OpenError::NoFlashDevice
            ),
            ..
        }
    );
    match left_out {
        Some(left_out) if lacks => left_out,
        _ => error,
    }
}

/// Has the next start do without a device that failed when the store was opened, for the store may not need it; and wait
/// for one that it is known to need.
pub(crate) fn note_ended(error: &NodeError, config: &NodeConfig) {
    let mut paths = Paths::read(&config.directory);
    let noted = match (failed(error), lacking(error)) {
        (Some(path), _) if !paths.is_only(path, &config.devices) => paths.failed(path),
        (Some(path), _) => paths.need(&config.devices, Some(path)).map(drop),
        (None, Some((path, lack))) if paths.has(path) => {
            let failed = (lack == Lack::Failed).then_some(path);
            paths.need(&config.devices, failed).map(drop)
        }
        (None, _) => return,
    };
    if let Err(error) = noted {
        tracing::warn!("cannot note which device failed, or is needed: {error}");
    }
}

/// The device that failed when the store was opened.
fn failed(error: &NodeError) -> Option<&Path> {
    match error {
        NodeError::Store {
            device: Some(path),
            failure: OpenFailure::Store(OpenError::DeviceFailed { .. }),
        } => Some(path),
        _ => None,
    }
}

/// The device that could not be opened, if that is what is wrong.
fn lacking(error: &NodeError) -> Option<(&Path, Lack)> {
    match error {
        NodeError::NotThere { path } | NodeError::CutShort { path, .. } => {
            Some((path, Lack::Missing))
        }
        NodeError::Unusable { path } => Some((path, Lack::Failed)),
        NodeError::Devices(StartError::Open(about)) => match about.reason {
            OpenErrorReason::Missing => Some((&about.path, Lack::Missing)),
            OpenErrorReason::Os { .. } => Some((&about.path, Lack::Failed)),
            _ => None,
        },
        _ => None,
    }
}

/// Notes that the node waits for a device, if it had the one that could not be opened. Else it is in error.
pub(crate) fn await_lacking(
    error: NodeError,
    config: &NodeConfig,
    paths: &mut Paths,
) -> Result<(), NodeError> {
    let Some((path, lack)) = lacking(&error).filter(|(path, _)| paths.has(path)) else {
        return Err(error);
    };
    let failed = (lack == Lack::Failed).then_some(path);
    match paths.need(&config.devices, failed) {
        Ok(true) => {}
        Ok(false) => return Err(error),
        // In this process it is known all the same.
        Err(failed) => tracing::warn!("cannot note that a device is needed: {failed}"),
    }
    tracing::error!("waits for a device: {error}");
    Ok(())
}

/// Waits until the devices may be opened: until one may help of those for want of which they could not be, however long
/// that takes, and then for those that are missing: of these, where another has come, and of `awaited`, which is empty
/// afterwards. Whoever wants to know is told, at each look, which is waited for, and that it is over.
pub(crate) async fn wait(
    needed: &[(PathBuf, Lack)],
    awaited: &mut Vec<PathBuf>,
    mut tell: impl FnMut(Option<(&Path, AwaitedCause)>),
) {
    wait_for_needed(needed, &mut tell).await;
    let missing = || needed.iter().filter(|(_, lack)| *lack == Lack::Missing);
    // Else one is tried again that has failed: those that are missing have been waited for all that time.
    if missing().any(|(path, _)| is_whole(path)) {
        awaited.extend(missing().map(|(path, _)| path.clone()));
    }
    wait_for(&std::mem::take(awaited), &mut tell).await;
}

/// Waits until all of these are there, or long enough.
async fn wait_for(awaited: &[PathBuf], mut tell: impl FnMut(Option<(&Path, AwaitedCause)>)) {
    let until = Instant::now() + AWAITED_MAX;
    let mut told: Option<&Path> = None;
    while let Some(path) = awaited.iter().find(|path| !path.exists()) {
        if Instant::now() >= until {
            break;
        }
        tell(Some((path, AwaitedCause::Missing)));
        if told != Some(path) {
            tracing::warn!("waits for {}, which is not there", path.display());
            told = Some(path);
        }
        sleep(LOOK).await;
    }
    if told.is_some() {
        tell(None);
    }
}

/// Waits until the store may be opened, for want of some of these it could not be: one that was not there is, as long as it
/// was, however long that takes, or some time has passed since one failed.
async fn wait_for_needed(
    needed: &[(PathBuf, Lack)],
    mut tell: impl FnMut(Option<(&Path, AwaitedCause)>),
) {
    let begun = Instant::now();
    let is_due = |(path, lack): &(PathBuf, Lack)| match lack {
        Lack::Missing => is_whole(path),
        Lack::Failed => begun.elapsed() >= RETRY,
    };
    let has_failed = |(_, lack): &&(PathBuf, Lack)| *lack == Lack::Failed;
    let Some((path, lack)) = needed.iter().find(has_failed).or(needed.first()) else {
        return;
    };
    let mut lasting = Lasting::new();
    while !needed.iter().any(is_due) {
        let (cause, what) = how(path, *lack);
        tell(Some((path, cause)));
        if let Some(told) = lasting.goes_on(Instant::now().into_std(), cause) {
            let time = match told {
                Tell::News => String::new(),
                Tell::Still(time) => format!("for {} ", span(time)),
            };
            let path = path.display();
            tracing::error!("waits {time}for {path}, which {what}: it cannot start without it");
        }
        sleep(LOOK).await;
    }
    if let Some(time) = lasting.over(Instant::now().into_std()) {
        tracing::info!(
            "waits no longer for a device that it needs, after {}",
            span(time)
        );
        tell(None);
    }
}

/// Why a device is waited for that is needed, and that in words.
fn how(path: &Path, lack: Lack) -> (AwaitedCause, String) {
    match lack {
        Lack::Missing => match length::cut(path) {
            Some(cut) => (AwaitedCause::CutShort, cut.words()),
            None => (AwaitedCause::Needed, "is not there".to_owned()),
        },
        Lack::Failed => (
            AwaitedCause::Failed,
            "has failed, and is tried again soon".to_owned(),
        ),
    }
}

fn open_disks(
    config: &NodeConfig,
    paths: &Paths,
    found: &[DeviceConfig],
    may_make: bool,
) -> Result<Disks, StartError> {
    let spec = |device: &DeviceConfig| DeviceSpec {
        path: device.path.clone(),
        file: {
            let bytes = device
                .file_bytes
                .filter(|_| may_make && !paths.has(&device.path));
            bytes.map(|size| FileSpec {
                size,
                preallocate: device.preallocate,
            })
        },
        // The store says how much it needs, and that it is more than this.
        size_min: u64::from(SECTOR_MAX),
    };
    let specs: Vec<DeviceSpec> = found.iter().map(spec).collect();
    let options = Options {
        driver: config.disk_driver.choice(),
        ..Options::default()
    };
    predecessor::attempt(
        || Disks::open(&specs, options.clone()),
        |error| match error {
            StartError::Open(error) => holder_of_device(&error.reason),
            _ => None,
        },
    )
}

/// Which device an error is about, if the node may go on without it.
fn left_out_by(
    error: &StartError,
    paths: &Paths,
    found: &[DeviceConfig],
) -> Option<(usize, NodeError)> {
    let StartError::Open(about) = error else {
        return None;
    };
    let may_be = match about.reason {
        OpenErrorReason::Missing | OpenErrorReason::Os { .. } => true,
        OpenErrorReason::TooSmall { .. } => true,
        OpenErrorReason::Permission
        | OpenErrorReason::NotStorage
        | OpenErrorReason::InUse { .. }
        | OpenErrorReason::NoSpace { .. }
        | OpenErrorReason::Sector { .. } => false,
    };
    let place = found.iter().position(|device| device.path == about.path);
    let path = about.path.clone();
    let why = match about.reason {
        OpenErrorReason::Missing if paths.has(&path) => NodeError::NotThere { path },
        _ => NodeError::Devices(error.clone()),
    };
    Some((place.filter(|_| may_be)?, why))
}

fn holder_of_device(reason: &OpenErrorReason) -> Option<Holder> {
    match reason {
        OpenErrorReason::InUse { holder } => Some(Holder::from(*holder)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use holdfast_engine::{DeviceState, JournalMark};

    use super::*;
    use crate::paths::{DEVICES_FILE, Noted, Place};

    /// A node in `directory` whose first start makes a file for its device.
    fn config(directory: &Path) -> NodeConfig {
        let text = format!(
            "cluster = \"0123456789abcdef0123456789abcdef\"\nnode = 1\nname = \"n1\"\n\
             directory = \"{0}\"\nportal.listen = \"127.0.0.1:0\"\npeers.listen = \"127.0.0.1:0\"\n\
             api.listen = \"127.0.0.1:0\"\nmetadata.addresses = [\"127.0.0.1:1\"]\n\
             [[devices]]\npath = \"{0}/first\"\nfile_bytes = 1048576\n",
            directory.display()
        );
        toml::from_str(&text).unwrap()
    }

    /// A device that does not say how long it was.
    fn make(path: &Path) {
        fs::write(path, vec![0; 1 << 20]).unwrap();
    }

    /// A device with which the node last ran.
    fn noted(number: u16, path: &Path) -> Noted {
        Noted {
            number,
            place: Place {
                path: path.to_owned(),
                tier: Tier::Flash,
            },
            is_absent: false,
        }
    }

    /// Who asks meanwhile is told what it is that the node waits for.
    #[tokio::test(start_paused = true)]
    async fn a_device_that_is_not_there_is_waited_for_and_that_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        let late = directory.path().join("late");
        fs::write(&there, "").unwrap();
        let mut told = Vec::new();
        wait_for(std::slice::from_ref(&there), |path| {
            told.push(path.map(|(path, _)| path.to_owned()));
        })
        .await;
        assert_eq!(told, [], "there is nothing to wait for");
        let begun = Instant::now();
        wait_for(&[there, late.clone()], |path| {
            told.push(path.map(|(path, _)| path.to_owned()));
        })
        .await;
        assert!(begun.elapsed() >= AWAITED_MAX);
        told.dedup();
        assert_eq!(told, [Some(late.clone()), None]);
        let begun = Instant::now();
        let comes = late.clone();
        wait_for(&[late], |path| {
            if path.is_some() {
                fs::write(&comes, "").unwrap();
            }
        })
        .await;
        assert!(begun.elapsed() < AWAITED_MAX, "it has come");
    }

    /// Without it the node can do nothing: whatever else it does, it does meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_device_that_is_needed_is_waited_for_until_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        let (begun, mut told) = (Instant::now(), Vec::new());
        wait_for_needed(&[(path.clone(), Lack::Missing)], |waits| {
            told.push(waits.map(|(_, cause)| cause));
            if begun.elapsed() > 200 * AWAITED_MAX {
                make(&path);
            } else if begun.elapsed() > 100 * AWAITED_MAX {
                fs::write(&path, "a part of it").unwrap();
            }
        })
        .await;
        assert!(begun.elapsed() > 200 * AWAITED_MAX, "however long it takes");
        told.dedup();
        let causes = [AwaitedCause::Needed, AwaitedCause::CutShort].map(Some);
        assert_eq!(told, [&causes[..], &[None]].concat());
        // One that has failed is tried again after some time, there or not.
        let begun = Instant::now();
        let mut told = Vec::new();
        wait_for_needed(&[(path, Lack::Failed)], |waits| {
            told.push(waits.map(|(_, cause)| cause));
        })
        .await;
        assert!(begun.elapsed() >= RETRY && begun.elapsed() < 2 * RETRY);
        told.dedup();
        assert_eq!(told, [Some(AwaitedCause::Failed), None]);
        // Which of several it is, nobody knows: one that comes is tried.
        let [gone, comes] = ["gone", "comes"].map(|name| directory.path().join(name));
        let needed = [gone, comes.clone()].map(|path| (path, Lack::Missing));
        wait_for_needed(&needed, |_| make(&comes)).await;
        let begun = Instant::now();
        wait_for_needed(&[], |_| panic!("there is nothing to wait for")).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    /// As at power-on, where the controller is late: none is given up because another was first.
    #[tokio::test(start_paused = true)]
    async fn when_one_comes_that_is_needed_the_others_are_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second, never] =
            ["first", "second", "never"].map(|name| directory.path().join(name));
        let begun = Instant::now();
        let comes = |path: &Path, at: Duration| {
            if begun.elapsed() >= at && !path.exists() {
                make(path);
            }
        };
        let (late, later) = (10 * AWAITED_MAX, 10 * AWAITED_MAX + AWAITED_MAX / 2);
        let needed = [&first, &second].map(|path| (path.clone(), Lack::Missing));
        let (mut told, mut awaited) = (Vec::new(), Vec::new());
        wait(&needed, &mut awaited, |waits| {
            comes(&first, late);
            comes(&second, later);
            told.push(waits.map(|(path, cause)| (path.to_owned(), cause)));
        })
        .await;
        assert!(first.exists() && second.exists());
        assert!(begun.elapsed() < later + 2 * LOOK, "both are there");
        told.dedup();
        let expected = [
            Some((first.clone(), AwaitedCause::Needed)),
            None,
            Some((second.clone(), AwaitedCause::Missing)),
            None,
        ];
        assert_eq!(told, expected);
        // Those of the last start are waited for as well, all at the same time, and no longer than at a start.
        let begun = Instant::now();
        let needed = [&second, &never].map(|path| (path.clone(), Lack::Missing));
        awaited.push(directory.path().join("neither"));
        wait(&needed, &mut awaited, |_| {}).await;
        let waited = begun.elapsed();
        assert!(waited >= AWAITED_MAX && waited < AWAITED_MAX + 2 * LOOK);
        assert!(awaited.is_empty(), "once");
        // While one was tried that had failed, it has been waited for.
        let begun = Instant::now();
        let needed = [(first, Lack::Failed), (never, Lack::Missing)];
        wait(&needed, &mut awaited, |_| {}).await;
        assert!(begun.elapsed() < RETRY + 2 * LOOK);
    }

    /// A disk that is not mounted must not become a new, empty file in the directory below it.
    #[test]
    fn a_file_that_was_a_device_is_never_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let file = config.devices[0].path.clone();
        let mut paths = Paths::read(directory.path());
        drop(open(&config, &mut paths).unwrap());
        assert!(file.exists(), "the first start makes it");
        paths.note(&[noted(0, &file)]).unwrap();
        fs::remove_file(&file).unwrap();
        let mut paths = Paths::read(directory.path());
        assert_eq!(paths.awaited(), std::slice::from_ref(&file));
        let error = open(&config, &mut paths).map(drop).unwrap_err();
        assert!(!file.exists(), "{error}");
        // It is waited for, in this process and after it.
        await_lacking(error, &config, &mut paths).unwrap();
        let needed = [(file.clone(), Lack::Missing)];
        let paths = Paths::read(directory.path());
        assert_eq!(paths.needed(&config.devices), needed);
        // Until an operator says that there is to be a new one.
        fs::remove_file(directory.path().join(DEVICES_FILE)).unwrap();
        drop(open(&config, &mut Paths::read(directory.path())).unwrap());
        assert!(file.exists());
    }

    /// A path that is written wrong is no order to begin with a blank device.
    #[test]
    fn a_device_that_is_not_given_any_more_is_not_replaced_by_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        let file = config.devices[0].path.clone();
        let mut paths = Paths::read(directory.path());
        drop(open(&config, &mut paths).unwrap());
        paths.note(&[noted(0, &file)]).unwrap();
        let other = directory.path().join("other");
        config.devices[0].path.clone_from(&other);
        let told = |opened: Result<Opened, NodeError>| match opened {
            Ok(opened) => opened.left_out.map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let text = told(open(&config, &mut Paths::read(directory.path()))).unwrap();
        for part in [
            file.to_str().unwrap(),
            "is not in its configuration",
            "devices.toml",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!other.exists(), "no file is made");
        // One that is there is opened, and no store made on it: it may be the former one under another name.
        make(&other);
        let text = told(open(&config, &mut Paths::read(directory.path()))).unwrap();
        assert!(text.contains("is not in its configuration"), "{text}");
        // What was on it is given up.
        fs::remove_file(directory.path().join(DEVICES_FILE)).unwrap();
        let opened = open(&config, &mut Paths::read(directory.path()));
        assert_eq!(told(opened), None);
    }

    /// A node that was started with its only device, and was given another one, which is told as well.
    fn with_another(directory: &Path, config: &NodeConfig) -> (Paths, PathBuf) {
        let later = directory.join("later");
        make(&later);
        let mut paths = Paths::read(directory);
        drop(open(config, &mut paths).unwrap());
        paths.begin(noted(1, &later).place, 7).unwrap();
        let both = [noted(0, &config.devices[0].path), noted(1, &later)];
        paths.note(&both).unwrap();
        (paths, later)
    }

    /// Nor where another device is missing at the same time.
    #[test]
    fn no_file_is_made_at_a_path_written_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        let (_, later) = with_another(directory.path(), &config);
        fs::remove_file(&later).unwrap();
        let other = directory.path().join("other");
        config.devices[0].path.clone_from(&other);
        let opened = open(&config, &mut Paths::read(directory.path()));
        let error = match opened {
            Ok(opened) => opened.left_out.unwrap(),
            Err(error) => error,
        };
        assert!(matches!(error, NodeError::NotThere { .. }), "{error}");
        assert!(!other.exists());
    }

    /// The one that the configuration names has left the store, and the one in its place is not there.
    #[test]
    fn the_only_device_is_waited_for_also_where_it_came_later() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let (mut paths, later) = with_another(directory.path(), &config);
        paths.note(&[noted(1, &later)]).unwrap();
        let opened = open(&config, &mut Paths::read(directory.path())).unwrap();
        assert_eq!(opened.found.len(), 1, "the first has left");
        drop(opened);
        fs::remove_file(&later).unwrap();
        let mut paths = Paths::read(directory.path());
        let error = open(&config, &mut paths).map(drop).unwrap_err();
        assert!(matches!(&error, NodeError::NotThere { path } if *path == later));
        await_lacking(error, &config, &mut paths).unwrap();
        assert_eq!(paths.needed(&config.devices), [(later, Lack::Missing)]);
    }

    /// What was behind its end may come back, and nobody else has it as it was: nothing is formatted, or opened without it.
    #[test]
    fn a_device_that_was_cut_short_is_left_out_and_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        // It never was the node's: the store says that it is too small.
        fs::write(&first, "short").unwrap();
        let mut paths = Paths::read(directory.path());
        let error = open(&config, &mut paths).map(drop).unwrap_err();
        assert!(matches!(error, NodeError::Devices(_)), "{error}");

        paths.note(&[noted(0, &first)]).unwrap();
        let error = open(&config, &mut paths).map(drop).unwrap_err();
        assert!(matches!(error, NodeError::CutShort { .. }), "{error}");
        assert!(error.is_of_a_device());
        let text = error.to_string();
        assert!(text.contains("it has 5 bytes, and had more"), "{text}");
        await_lacking(error, &config, &mut paths).unwrap();
        let needed = [(first.clone(), Lack::Missing)];
        let paths = Paths::read(directory.path());
        assert_eq!(paths.needed(&config.devices), needed);

        // With another one it is tried without it.
        make(&second);
        config.devices.push(DeviceConfig {
            path: second.clone(),
            ..config.devices[0].clone()
        });
        let mut paths = Paths::read(directory.path());
        let both: Vec<_> = (0..)
            .zip([&first, &second])
            .map(|(number, path)| noted(number, path))
            .collect();
        paths.note(&both).unwrap();
        let opened = open(&config, &mut paths).unwrap();
        assert_eq!(opened.found, config.devices[1..]);
        let why = opened.left_out.unwrap();
        assert!(
            matches!(&why, NodeError::CutShort { path, .. } if *path == first),
            "{why}"
        );
        assert_eq!(fs::read(&first).unwrap(), b"short", "it is as it was");
    }

    /// One that never was the node's is an error in its file.
    #[test]
    fn what_a_start_that_failed_is_waited_for_is_what_the_node_had() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        config.devices[0].file_bytes = None;
        let mut paths = Paths::read(directory.path());
        let error = open(&config, &mut paths).map(drop).unwrap_err();
        let error = await_lacking(error, &config, &mut paths).unwrap_err();
        assert!(matches!(error, NodeError::Devices(_)), "{error}");
        note_ended(&error, &config);
        let needed = || Paths::read(directory.path()).needed(&config.devices);
        assert_eq!(needed(), []);
        // The only one that there is: nothing can be done without it.
        let path = config.devices[0].path.clone();
        let failed = NodeError::Store {
            device: Some(path.clone()),
            failure: OpenFailure::Store(OpenError::DeviceFailed { disk: DiskId(0) }),
        };
        note_ended(&failed, &config);
        assert_eq!(needed(), [(path.clone(), Lack::Failed)]);
        assert!(Paths::read(directory.path()).take_failed().is_empty());
        // With another one it is tried without it first.
        let mut two = config.clone();
        two.devices.push(DeviceConfig {
            path: directory.path().join("second"),
            ..two.devices[0].clone()
        });
        note_ended(&failed, &two);
        assert!(Paths::read(directory.path()).take_failed().contains(&path));
    }

    /// Neither is changed by a start, and whoever changed it should not believe so.
    #[test]
    fn what_a_device_does_not_follow_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        drop(open(&config, &mut Paths::read(directory.path())).unwrap());
        let Opened { disks, found, .. } =
            open(&config, &mut Paths::read(directory.path())).unwrap();
        assert_eq!(other_sizes(&disks, &found), [""; 0]);
        drop(disks);
        config.devices[0].file_bytes = Some(2 << 20);
        let Opened { disks, found, .. } =
            open(&config, &mut Paths::read(directory.path())).unwrap();
        let told = other_sizes(&disks, &found);
        assert_eq!(told.len(), 1);
        for part in ["first: ", "file_bytes is 2097152", "has 1048576 bytes"] {
            assert!(told[0].contains(part), "{told:?}");
        }
        let status = DeviceStatus {
            disk: Some(DiskId(0)),
            ordinal: 0,
            id: 5,
            tier: Some(Tier::Flash),
            state: DeviceState::InUse,
            absent: None,
            journal: JournalMark::Here,
            pages: 3,
            pages_used: 0,
            bad_blocks: 0,
        };
        let given = |tier| [(found[0].path.clone(), tier)];
        assert_eq!(other_tiers(&[status], &given(Tier::Flash)), [""; 0]);
        let told = other_tiers(&[status], &given(Tier::Capacity));
        for part in ["first: tier is capacity", "as flash"] {
            assert!(told[0].contains(part), "{told:?}");
        }
    }

    /// The journal may be on the device that came later, and what the configuration names is blank by then, or made
    /// anew: a store that is created there would be another one in place of the node's.
    #[test]
    fn without_a_device_that_came_later_no_store_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let later = directory.path().join("later");
        fs::write(&later, vec![0; 1 << 20]).unwrap();
        let mut paths = Paths::read(directory.path());
        let first_start = open(&config, &mut paths).unwrap();
        assert!(first_start.left_out.is_none(), "nothing came later yet");
        drop(first_start);
        let (path, tier) = (later.clone(), Tier::Flash);
        paths.begin(Place { path, tier }, 7).unwrap();
        let both = open(&config, &mut Paths::read(directory.path())).unwrap();
        assert_eq!((both.found.len(), both.left_out.is_none()), (2, true));
        drop(both);
        fs::remove_file(&later).unwrap();
        fs::remove_file(directory.path().join("first")).unwrap();
        let opened = open(&config, &mut Paths::read(directory.path())).unwrap();
        assert_eq!(opened.found.len(), 1);
        let why = opened.left_out.unwrap();
        assert!(
            matches!(&why, NodeError::NotThere { path } if *path == later),
            "{why}"
        );
        // This is also what the user is told of, where there is no store on what is there.
        let blank = NodeError::Store {
            device: None,
            failure: OpenFailure::Store(OpenError::NoFlashDevice),
        };
        let told = blame(blank, Some(why));
        assert!(matches!(told, NodeError::NotThere { .. }), "{told}");
    }
}
