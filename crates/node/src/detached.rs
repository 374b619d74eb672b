//! Whether the paths of the node's open devices name them still, and whether their files are as long as they were. The
//! node goes on with what it has open, whatever becomes of its name; its next start does not find it, or does not use it.
//!
//! It refuses to touch the devices: it asks what the paths name, on a thread where that may take as long as it does.
//!
//! Invariants:
//! - what is so at one look only is not told: a path may be made anew in several steps;
//! - what cannot be told for certain is as it was;
//! - each change has one line in the log, and what comes and goes no more lines than what lasts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_api::documents::Detached;
use holdfast_disk::Identity;
use holdfast_model::DiskId;
use tokio::sync::watch;
use tracing::Level;

use crate::lasting::{Lasting, Tell};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The devices that are open, by their disks: where each was found, and what it is.
pub(crate) type Opened = BTreeMap<DiskId, OpenedDevice>;
/// Those that their paths do not name any more, or not all of.
pub(crate) type Seen = BTreeMap<DiskId, Detached>;

/// A device that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenedDevice {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    /// What it had when it was opened.
    pub(crate) bytes: u64,
}

/// The loop's end: it says what is open, and is told what was seen.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) opened: watch::Sender<Opened>,
    pub(crate) seen: watch::Receiver<Seen>,
}

/// The end of who looks.
#[derive(Debug)]
pub(crate) struct Looker {
    opened: watch::Receiver<Opened>,
    seen: watch::Sender<Seen>,
}

/// The two ends.
pub(crate) fn watch() -> (Watch, Looker) {
    let (opened, of_looker) = watch::channel(Opened::new());
    let (sender, seen) = watch::channel(Seen::new());
    let looker = Looker {
        opened: of_looker,
        seen: sender,
    };
    (Watch { opened, seen }, looker)
}

impl Watch {
    /// These are open now.
    pub(crate) fn open(&self, now: Opened) {
        self.opened.send_if_modified(|opened| {
            let is_news = *opened != now;
            *opened = now;
            is_news
        });
    }
}

impl Looker {
    /// Looks for as long as the process runs.
    pub(crate) async fn run(self) -> Infallible {
        let mut told = Told::default();
        loop {
            tokio::time::sleep(LOOK).await;
            let opened = self.opened.borrow().clone();
            let looked = tokio::task::spawn_blocking(move || look(&opened));
            let looks = looked.await.expect("no look panics, or is given up");
            let (seen, lines) = told.looked(Instant::now(), looks);
            for (level, text) in lines {
                match level {
                    Level::ERROR => tracing::error!("{text}"),
                    _ => tracing::info!("{text}"),
                }
            }
            self.seen.send_replace(seen);
        }
    }
}

/// What a look found of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    disk: DiskId,
    path: PathBuf,
    found: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Itself,
    Not(Detached),
    /// It could not be told.
    Unknown,
}

fn look(opened: &Opened) -> Vec<Look> {
    let looks = opened.iter().map(|(disk, device)| Look {
        disk: *disk,
        path: device.path.clone(),
        found: find(device),
    });
    looks.collect()
}

fn find(device: &OpenedDevice) -> Found {
    match Identity::measured_at(&device.path) {
        Ok(Some((found, bytes))) if found == device.identity => match bytes {
            Some(bytes) if bytes < device.bytes => Found::Not(Detached::CutShort),
            _ => Found::Itself,
        },
        Ok(Some(_)) => Found::Not(Detached::Another),
        Ok(None) => Found::Not(Detached::Nothing),
        Err(_) => Found::Unknown,
    }
}

/// What was told of each.
#[derive(Debug, Default)]
struct Told(BTreeMap<DiskId, One>);

#[derive(Debug)]
struct One {
    /// What the last look found.
    found: Found,
    /// What is so, by two looks in a row.
    is: Option<Detached>,
    lasting: Lasting<Detached>,
}

impl Told {
    /// What is so, and what there is to say of it.
    fn looked(&mut self, now: Instant, looks: Vec<Look>) -> (Seen, Vec<(Level, String)>) {
        let mut before = std::mem::take(&mut self.0);
        let mut lines = Vec::new();
        for look in looks {
            let mut one = before.remove(&look.disk).unwrap_or(One {
                found: Found::Itself,
                is: None,
                lasting: Lasting::new(),
            });
            lines.extend(one.looked(now, &look));
            self.0.insert(look.disk, one);
        }
        let seen = self
            .0
            .iter()
            .filter_map(|(disk, one)| Some((*disk, one.is?)));
        (seen.collect(), lines)
    }
}

impl One {
    fn looked(&mut self, now: Instant, look: &Look) -> Option<(Level, String)> {
        let was = self.is;
        let is_so = std::mem::replace(&mut self.found, look.found) == look.found;
        match look.found {
            Found::Unknown => return None,
            Found::Itself => self.is = None,
            Found::Not(how) if is_so => self.is = Some(how),
            Found::Not(_) => {}
        }
        let path = look.path.display();
        match self.is {
            None if look.found == Found::Itself => {
                self.lasting.over(now)?;
                let line = match was {
                    Some(Detached::CutShort) => format!(
                        "{path} is as long as it was again: what was not mended meanwhile is, when a scrub reads it"
                    ),
                    _ => format!("{path} is the device again"),
                };
                Some((Level::INFO, line))
            }
            None => None,
            // Once is enough: `status` goes on telling it.
            Some(how) => match self.lasting.goes_on(now, how)? {
                Tell::News => Some((Level::ERROR, trouble(&look.path, how))),
                Tell::Still(_) => None,
            },
        }
    }
}

fn trouble(path: &Path, how: Detached) -> String {
    if how == Detached::CutShort {
        return format!(
            "the device {} was cut short while it is in use: {}. This node goes on with the rest of it, and does not use it \
             when it is started again: give it another device first (`holdfast device replace`)",
            path.display(),
            how.words()
        );
    }
    format!(
        "the device {} was taken away while it is in use: {}. This node goes on with it, and does not find it when it \
         is started again: give it another device first (`holdfast device replace`), or bring this one back",
        path.display(),
        how.words()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Looks from time to time.
    struct Bench {
        told: Told,
        now: Instant,
        opened: Opened,
    }

    impl Bench {
        /// What is at a path is open.
        fn of(path: &Path) -> Self {
            let (identity, bytes) = Identity::measured_at(path).unwrap().unwrap();
            let device = OpenedDevice {
                path: path.to_owned(),
                identity,
                bytes: bytes.unwrap(),
            };
            Self {
                told: Told::default(),
                now: Instant::now(),
                opened: Opened::from([(DiskId(0), device)]),
            }
        }

        fn look(&mut self) -> (Option<Detached>, Vec<String>) {
            self.now += LOOK;
            let (seen, lines) = self.told.looked(self.now, look(&self.opened));
            let lines = lines.into_iter().map(|(_, text)| text);
            (seen.get(&DiskId(0)).copied(), lines.collect())
        }

        fn stays(&mut self, how: Option<Detached>) {
            for _ in 0..100 {
                assert_eq!(self.look(), (how, vec![]));
            }
        }
    }

    #[test]
    fn a_device_that_is_taken_away_is_told_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let [path, aside] = ["device", "aside"].map(|name| folder.path().join(name));
        fs::write(&path, "one").unwrap();
        let mut bench = Bench::of(&path);
        bench.stays(None);
        // For a moment only.
        fs::rename(&path, &aside).unwrap();
        assert_eq!(bench.look(), (None, vec![]));
        fs::rename(&aside, &path).unwrap();
        bench.stays(None);

        fs::rename(&path, &aside).unwrap();
        assert_eq!(bench.look(), (None, vec![]));
        let (seen, lines) = bench.look();
        assert_eq!(seen, Some(Detached::Nothing));
        assert_eq!(lines.len(), 1);
        let words = format!("the device {} was taken away", path.display());
        assert!(lines[0].contains(&words), "{lines:?}");
        bench.stays(Some(Detached::Nothing));
        // Another file of the same name is not the device.
        fs::write(&path, "one").unwrap();
        assert_eq!(bench.look(), (Some(Detached::Nothing), vec![]));
        let (seen, lines) = bench.look();
        assert_eq!((seen, lines.len()), (Some(Detached::Another), 1));
        bench.stays(Some(Detached::Another));

        fs::rename(&aside, &path).unwrap();
        let (seen, lines) = bench.look();
        assert_eq!(seen, None);
        assert!(lines[0].ends_with("is the device again"), "{lines:?}");
        bench.stays(None);
        // It has left the store.
        fs::remove_file(&path).unwrap();
        bench.opened.clear();
        bench.stays(None);
    }

    #[test]
    fn a_device_that_is_cut_short_is_told_until_it_is_as_long_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        fs::write(&path, "contents").unwrap();
        let mut bench = Bench::of(&path);
        bench.stays(None);
        let cut = |bytes| {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(bytes).unwrap();
        };
        cut(100);
        bench.stays(None);
        cut(7);
        assert_eq!(bench.look(), (None, vec![]));
        let (seen, lines) = bench.look();
        assert_eq!(seen, Some(Detached::CutShort));
        let words = format!("the device {} was cut short", path.display());
        assert!(lines[0].contains(&words), "{lines:?}");
        cut(0);
        bench.stays(Some(Detached::CutShort));
        cut(8);
        let (seen, lines) = bench.look();
        assert_eq!(seen, None);
        assert!(lines[0].contains("as long as it was again"), "{lines:?}");
        bench.stays(None);
    }

    #[test]
    fn what_cannot_be_told_is_as_it_was() {
        let path = PathBuf::from("/n1/device");
        let mut told = Told::default();
        let mut at = |found| {
            let look = Look {
                disk: DiskId(0),
                path: path.clone(),
                found,
            };
            let (seen, _) = told.looked(Instant::now(), vec![look]);
            seen.get(&DiskId(0)).copied()
        };
        let gone = Found::Not(Detached::Nothing);
        assert_eq!([Found::Unknown, Found::Unknown].map(&mut at), [None; 2]);
        assert_eq!([gone, gone].map(&mut at), [None, Some(Detached::Nothing)]);
        assert_eq!(at(Found::Unknown), Some(Detached::Nothing));
        assert_eq!(at(Found::Itself), None);
    }
}
