//! Where the node's devices were last: a file in its directory, beside what its configuration says.
//!
//! The configuration names devices so that the first start can find them. Which devices the store has, it
//! says itself; this file only helps to find those that came later, and keeps the node from opening those
//! that have left.
//!
//! Invariants:
//! - a device that is in the file is never made anew: who wants that removes the file;
//! - a device is in the file before the store has it, and is taken out only when the store has it no more;
//! - whatever the file holds, nothing is done with a device because of it but that it is looked at: the
//!   store decides which are its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use holdfast_model::Tier;
use serde::{Deserialize, Serialize};

use crate::config::{DeviceConfig, NodeConfig};
use crate::directory::replace_file;
use crate::length::is_whole;

/// The file in a node's directory.
pub const DEVICES_FILE: &str = "devices.toml";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    /// Devices that have left: the configuration may still name them.
    removed: BTreeSet<PathBuf>,
    /// Devices that came later. Not those of the first start: who names another one in the configuration
    /// instead is told that it is not the store's.
    devices: Vec<Place>,
    /// Those that the store is used without: nobody waits for them.
    absent: BTreeSet<PathBuf>,
    /// Those that failed when the store was last opened: the next start does without them, once.
    failed: BTreeSet<PathBuf>,
    /// What was drawn for those that were to be added, and are not the store's yet. When that is done once more
    /// it is the same, by which what was left there is known.
    ids: BTreeMap<PathBuf, String>,
    /// Those for want of which the store could not be opened, all of them or one: they are waited for.
    needed: BTreeMap<PathBuf, Lack>,
    /// Where each was when it was last there, by its number.
    numbers: BTreeMap<String, Place>,
}

/// Why a device could not be used that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Lack {
    /// It was not there, or not as long as it had been.
    Missing,
    /// It failed when the store was opened.
    Failed,
}

/// A device of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) number: u16,
    /// Without a path, if it is absent and nobody knows where it was.
    pub(crate) place: Place,
    pub(crate) is_absent: bool,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) tier: Tier,
}

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct Paths {
    file: PathBuf,
    content: Content,
    /// Devices that are being added: the store does not have them yet.
    adding: BTreeSet<PathBuf>,
    /// What the store had when that was last noted.
    known: BTreeSet<PathBuf>,
}

impl Paths {
    /// Reads the file of a node's directory, if there is one. What cannot be understood counts for nothing.
    pub(crate) fn read(directory: &Path) -> Self {
        let file = directory.join(DEVICES_FILE);
        let content = match fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).unwrap_or_else(|error| {
                tracing::warn!("{} is not understood: {error}", file.display());
                Content::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(error) => {
                tracing::warn!("cannot read {}: {error}", file.display());
                Content::default()
            }
        };
        Self {
            file,
            content,
            adding: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// The devices to look at: those that are configured and have not left, and those that came later and
    /// are there.
    pub(crate) fn choose(
        &self,
        configured: &[DeviceConfig],
        is_there: impl Fn(&Path) -> bool,
    ) -> Vec<DeviceConfig> {
        let mut chosen = Vec::new();
        for device in configured {
            if self.content.removed.contains(&device.path) {
                let path = device.path.display();
                tracing::warn!("{path} has left this node's store, and is not opened");
            } else {
                chosen.push(device.clone());
            }
        }
        for place in &self.content.devices {
            let same = |device: &DeviceConfig| is_same(&device.path, &place.path);
            if chosen.iter().any(same) {
                continue;
            }
            if !is_there(&place.path) {
                let path = place.path.display();
                tracing::warn!("{path}, which is one of this node's devices, is not there");
                continue;
            }
            chosen.push(DeviceConfig {
                path: place.path.clone(),
                file_bytes: None,
                preallocate: false,
                tier: place.tier,
            });
        }
        chosen
    }

    /// The devices that came later.
    pub(crate) fn later(&self) -> impl Iterator<Item = &Path> {
        self.content
            .devices
            .iter()
            .map(|place| place.path.as_path())
    }

    /// Where the devices were, by their numbers.
    pub(crate) fn known(&self) -> BTreeMap<u16, Place> {
        let numbers = self.content.numbers.iter();
        numbers
            .filter_map(|(number, place)| Some((number.parse().ok()?, place.clone())))
            .collect()
    }

    /// The devices that were there when the node last ran.
    pub(crate) fn awaited(&self) -> Vec<PathBuf> {
        let had = self.content.numbers.values().map(|place| &place.path);
        had.filter(|path| !self.content.absent.contains(*path))
            .cloned()
            .collect()
    }

    /// A device with which the node last ran, and that is not among these.
    pub(crate) fn not_given(&self, chosen: &[DeviceConfig]) -> Option<PathBuf> {
        let is_chosen = |path: &Path| chosen.iter().any(|device| is_same(&device.path, path));
        let had = self.awaited().into_iter();
        let mut not_given =
            had.filter(|path| !is_chosen(path) && !self.later().any(|it| it == path));
        not_given.next()
    }

    /// Whether a device is one of the store's, or was when that was last noted.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let numbered = self.content.numbers.values().map(|place| &*place.path);
        numbered.chain(self.later()).any(|had| had == path)
    }

    /// Whether there is no other device to be opened.
    pub(crate) fn is_only(&self, path: &Path, configured: &[DeviceConfig]) -> bool {
        self.wanted(configured).all(|wanted| wanted == path)
    }

    /// Those of the devices to be opened for want of which the store could not be.
    pub(crate) fn needed(&self, configured: &[DeviceConfig]) -> Vec<(PathBuf, Lack)> {
        let needed = self.content.needed.iter();
        let needed = needed.filter(|(path, _)| self.wanted(configured).any(|it| it == *path));
        needed.map(|(path, lack)| (path.clone(), *lack)).collect()
    }

    fn wanted<'a>(&'a self, configured: &'a [DeviceConfig]) -> impl Iterator<Item = &'a Path> {
        let configured = configured.iter().map(|device| &*device.path);
        let configured = configured.filter(|path| !self.content.removed.contains(*path));
        configured.chain(self.later())
    }

    /// The store could not be opened without one of those that are not there, or this one that failed. That is so until it
    /// has been opened. Those that it was used without are not needed. Whether there is any that is.
    ///
    /// # Errors
    /// The file cannot be written: the next start does not know.
    pub(crate) fn need(
        &mut self,
        configured: &[DeviceConfig],
        failed: Option<&Path>,
    ) -> io::Result<bool> {
        let missing = self.wanted(configured).filter(|path| {
            self.has(path) && !self.content.absent.contains(*path) && !is_whole(path)
        });
        let missing = missing.map(|path| (path.to_owned(), Lack::Missing));
        let failed = failed.map(|path| (path.to_owned(), Lack::Failed));
        let needed: BTreeMap<PathBuf, Lack> = missing.chain(failed).collect();
        let is_any = !needed.is_empty();
        self.content.needed = needed;
        self.write().map(|()| is_any)
    }

    /// A device failed when the store was opened.
    ///
    /// # Errors
    /// The file cannot be written: the next start tries the device again.
    pub(crate) fn failed(&mut self, path: &Path) -> io::Result<()> {
        self.content.failed.insert(path.to_owned());
        self.write()
    }

    /// The devices that failed when the store was last opened. They are tried again at the start after this
    /// one.
    pub(crate) fn take_failed(&mut self) -> BTreeSet<PathBuf> {
        let failed = std::mem::take(&mut self.content.failed);
        if !failed.is_empty()
            && let Err(error) = self.write()
        {
            tracing::warn!("cannot note which devices are tried again: {error}");
        }
        failed
    }

    /// A device is about to be added, under an id that is this one, unless it was to be added before. Gives the
    /// id.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn begin(&mut self, place: Place, drawn: u64) -> io::Result<u64> {
        let before = self.content.clone();
        let noted = before.ids.get(&place.path);
        let noted = noted.and_then(|id| u64::from_str_radix(id, 16).ok());
        let id = noted.unwrap_or(drawn);
        let text = format!("{id:016x}");
        self.content.ids.insert(place.path.clone(), text);
        self.content.removed.remove(&place.path);
        self.content
            .devices
            .retain(|other| other.path != place.path);
        self.content.devices.push(place.clone());
        let written = self.write();
        match &written {
            Ok(()) => {
                self.adding.insert(place.path);
            }
            Err(_) => self.content = before,
        }
        written.map(|()| id)
    }

    /// It was not added.
    ///
    /// # Errors
    /// The file cannot be written: the device is looked at by the next start, and left alone.
    pub(crate) fn undo(&mut self, path: &Path) -> io::Result<()> {
        self.adding.remove(path);
        self.content.devices.retain(|other| other.path != path);
        self.content.ids.remove(path);
        self.write()
    }

    /// The store has these devices now, and no others.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn note(&mut self, current: &[Noted]) -> io::Result<()> {
        // One that is absent may be any of those that are not there.
        let is_anywhere = |noted: &Noted| noted.place.path.as_os_str().is_empty();
        let keeps_all = current.iter().any(is_anywhere);
        let named = || current.iter().filter(|noted| !is_anywhere(noted));
        let has = |path: &Path| keeps_all || named().any(|noted| noted.place.path == path);
        self.adding.retain(|path| !has(path));
        let mut content = self.content.clone();
        content.needed.clear();
        content
            .devices
            .retain(|place| has(&place.path) || self.adding.contains(&place.path));
        let later = self.content.devices.iter().map(|place| &place.path);
        let left = later.chain(&self.known);
        let left = left.filter(|path| !has(path) && !self.adding.contains(*path));
        content.removed.extend(left.cloned());
        content
            .removed
            .retain(|path| !named().any(|noted| noted.place.path == *path));
        content
            .ids
            .retain(|path, _| !named().any(|noted| noted.place.path == *path));
        let absent = named().filter(|noted| noted.is_absent);
        content.absent = absent.map(|noted| noted.place.path.clone()).collect();
        let numbers = named().map(|noted| (noted.number.to_string(), noted.place.clone()));
        content.numbers = numbers.collect();
        self.known = named().map(|noted| noted.place.path.clone()).collect();
        if content == self.content {
            return Ok(());
        }
        self.content = content;
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let text = toml::to_string(&self.content).map_err(io::Error::other)?;
        replace_file(&self.file, &text)
    }
}

/// The paths of a node's devices, as far as its configuration and what it has noted in `directory` say;
/// those that came later only where `is_there` says so.
#[must_use]
pub fn device_paths(
    config: &NodeConfig,
    directory: &Path,
    is_there: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let chosen = Paths::read(directory).choose(&config.devices, is_there);
    chosen.into_iter().map(|device| device.path).collect()
}

/// The same without a configuration: what the node noted when it last had its devices open. Those that its store
/// is used without only where `is_there` says so. None where it never noted them.
#[must_use]
pub fn noted_device_paths(directory: &Path, is_there: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let paths = Paths::read(directory);
    let had = paths.known().into_values();
    let had =
        had.filter(|place| !paths.content.absent.contains(&place.path) || is_there(&place.path));
    let had = had.map(|place| DeviceConfig {
        path: place.path,
        file_bytes: None,
        preallocate: false,
        tier: place.tier,
    });
    let had: Vec<_> = had.collect();
    if had.is_empty() {
        return Vec::new();
    }
    let chosen = paths.choose(&had, is_there);
    chosen.into_iter().map(|device| device.path).collect()
}

/// Whether two paths lead to the same device.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(path: &Path) -> DeviceConfig {
        DeviceConfig {
            path: path.to_owned(),
            file_bytes: Some(5),
            preallocate: true,
            tier: Tier::Flash,
        }
    }

    fn place(path: &Path) -> Place {
        Place {
            path: path.to_owned(),
            tier: Tier::Capacity,
        }
    }

    fn noted(number: u16, path: &Path) -> Noted {
        Noted {
            number,
            place: place(path),
            is_absent: false,
        }
    }

    fn chosen(paths: &Paths, devices: &[DeviceConfig]) -> Vec<PathBuf> {
        let chosen = paths.choose(devices, Path::exists).into_iter();
        chosen.map(|device| device.path).collect()
    }

    #[test]
    fn what_came_later_is_found_and_what_left_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c, same] = ["a", "b", "c", "same"].map(|name| directory.path().join(name));
        for path in [&a, &b, &c] {
            fs::write(path, b"").unwrap();
        }
        std::os::unix::fs::symlink(&c, &same).unwrap();
        let toml = [configured(&a), configured(&b)];
        let mut paths = Paths::read(directory.path());
        assert_eq!(paths.choose(&toml, Path::exists), toml, "the first start");
        paths.note(&[noted(0, &a), noted(1, &b)]).unwrap();
        // Cut short while one is being added.
        assert_eq!(paths.begin(place(&c), 7).unwrap(), 7);
        paths.note(&[noted(0, &a), noted(1, &b)]).unwrap();
        let all = vec![a.clone(), b.clone(), c.clone()];
        assert_eq!(chosen(&Paths::read(directory.path()), &toml), all);
        let elsewhere = [configured(&c)];
        assert_eq!(
            chosen(&Paths::read(directory.path()), &elsewhere),
            std::slice::from_ref(&c),
            "the configuration says where those of the first start are"
        );
        // It is the node's, and another has left.
        paths
            .note(&[noted(0, &a), noted(1, &b), noted(2, &c)])
            .unwrap();
        paths.note(&[noted(0, &a), noted(2, &c)]).unwrap();
        let mut paths = Paths::read(directory.path());
        assert_eq!(chosen(&paths, &toml), [a.clone(), c.clone()]);
        let more = [configured(&a), configured(&b), configured(&same)];
        assert_eq!(
            chosen(&paths, &more),
            [a.clone(), same],
            "it is named by now"
        );
        // What left may come back, and what was refused is forgotten.
        // What was to be added and was cut short is added under the same id.
        assert_eq!(paths.begin(place(&b), 8).unwrap(), 8);
        let mut paths = Paths::read(directory.path());
        assert_eq!(paths.begin(place(&b), 9).unwrap(), 8);
        assert_eq!(chosen(&Paths::read(directory.path()), &toml).len(), 3);
        paths.undo(&b).unwrap();
        paths.note(&[noted(0, &a), noted(2, &c)]).unwrap();
        fs::remove_file(&c).unwrap();
        assert_eq!(chosen(&Paths::read(directory.path()), &toml), [a, b]);
    }

    #[test]
    fn what_is_needed_is_so_until_the_store_has_been_opened() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| directory.path().join(name));
        let toml = [&a, &b, &c, &d].map(|path| configured(path));
        let mut paths = Paths::read(directory.path());
        assert!(!paths.has(&a), "it never ran");
        assert!(!paths.need(&toml, None).unwrap(), "that it had none of");
        let dead = Noted {
            is_absent: true,
            ..noted(2, &c)
        };
        let all = [noted(0, &a), noted(1, &b), dead, noted(3, &d)];
        paths.note(&all).unwrap();
        fs::write(&b, vec![0; 1 << 20]).unwrap();
        assert!(paths.need(&toml, Some(&b)).unwrap());
        let mut paths = Paths::read(directory.path());
        assert!(paths.has(&a) && paths.has(&b));
        // Not without which it was used before.
        let needed = [
            (a, Lack::Missing),
            (b.clone(), Lack::Failed),
            (d, Lack::Missing),
        ];
        assert_eq!(paths.needed(&toml), needed);
        // Others were given in the place of some.
        assert_eq!(paths.needed(&toml[1..3]), needed[1..2]);
        assert!(paths.is_only(&b, &toml[1..2]) && !paths.is_only(&b, &toml));
        paths.note(&all).unwrap();
        assert_eq!(Paths::read(directory.path()).needed(&toml), []);
    }

    #[test]
    fn a_directory_alone_knows_where_the_devices_are() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| directory.path().join(name));
        let noted_now = || noted_device_paths(directory.path(), Path::exists);
        assert!(noted_now().is_empty(), "it never ran");
        for path in [&a, &b] {
            fs::write(path, b"").unwrap();
        }
        let mut paths = Paths::read(directory.path());
        paths.note(&[noted(0, &a), noted(1, &b)]).unwrap();
        assert_eq!(noted_now(), [a.clone(), b]);
        // One is replaced, and the store is used without another.
        paths.begin(place(&c), 7).unwrap();
        let absent = Noted {
            is_absent: true,
            ..noted(3, &d)
        };
        paths.note(&[noted(0, &a), noted(2, &c), absent]).unwrap();
        assert_eq!(
            noted_now(),
            [a.clone(), c.clone()],
            "the one that is needed is missed"
        );
        fs::write(&d, b"").unwrap();
        assert_eq!(noted_now(), [a, c, d]);
    }

    #[test]
    fn a_file_that_is_not_understood_counts_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(DEVICES_FILE), b"removed = 7").unwrap();
        let toml = [configured(Path::new("/somewhere"))];
        let paths = Paths::read(directory.path());
        assert_eq!(paths.choose(&toml, Path::exists), toml);
    }
}
