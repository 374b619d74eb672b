//! The demo's directory: whose it is, and what it was first told.
//!
//! Invariants:
//! - nothing is written into a directory that holds something and bears no marker;
//! - nothing is erased but what is in a directory that bears our marker, and the marker goes last;
//! - a start that fails before it has put anything there leaves none of the directories that it has made (but where the command line makes
//!   no sense, which ends the process at once);
//! - the lock is the operating system's: it is gone when its holder is, however that ended.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holdfast_model::ClusterId;
use holdfast_node::directory::replace_file;
use holdfast_node::predecessor::{self, Holder};
use serde::{Deserialize, Serialize};

use super::layout::MetadataKind;
use super::settings::Settings;
use crate::failure::Failure;

const MARKER_FILE: &str = ".holdfast-demo";
/// What [`replace_file`] writes before.
const MARKER_FILE_NEW: &str = ".holdfast-demo.new";
const LOCK_FILE: &str = ".holdfast-demo.lock";
/// The only schema of a marker that this program understands.
const SCHEMA: u32 = 1;
/// Bytes of a marker at most: what is larger is not ours.
const MARKER_BYTES_MAX: u64 = 4 << 10;

/// What makes a directory a demo's, and what its demo was first told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    /// Schema number, 1.
    schema: u32,
    /// The cluster.
    pub(crate) cluster: ClusterId,
    /// How many nodes it has.
    pub(crate) nodes: u16,
    /// How many of them are on each machine.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) nodes_per_machine: u16,
    /// The size of each node's device.
    pub(crate) device_bytes: u64,
    /// What keeps the metadata.
    #[serde(default, skip_serializing_if = "MetadataKind::is_embedded")]
    pub(crate) metadata: MetadataKind,
}

/// What markers do not say: so they were before there was anything else.
const fn one() -> u16 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_one(count: &u16) -> bool {
    *count == one()
}

/// A directory that is ours for as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    made: Made,
    marker: Option<Marker>,
    _lock: File,
}

impl Claim {
    /// Takes a directory, which is made if it does not exist.
    pub(crate) fn take(path: &Path) -> Result<Self, Failure> {
        let refused = |what: &'static str, path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| Failure::new(format!("{what} {path}: {error}"))
        };
        let made = Made::create(path).map_err(refused("create", path))?;
        let path = path.canonicalize().map_err(refused("find", path))?;
        let look = |path: &Path| {
            read_marker(path)
                .map_err(refused("read", path))?
                .ok_or_else(|| foreign(path))?
                .of_this_version(path)
        };
        look(&path)?;
        let lock = lock(&path)?;
        // Under the lock, what was seen before may have changed.
        let marker = look(&path)?;
        Ok(Self {
            path,
            made,
            marker,
            _lock: lock,
        })
    }

    /// Where it is, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What its demo was first told, if there was one.
    pub(crate) fn marker(&self) -> Option<&Marker> {
        self.marker.as_ref()
    }

    /// Makes the directory a demo's, or has its marker say how many nodes there are now.
    pub(crate) fn mark(&mut self, nodes: u16, settings: &Settings) -> Result<&Marker, Failure> {
        let cluster = match &self.marker {
            Some(marker) => marker.cluster,
            None => random_cluster().map_err(|error| Failure::new(format!("start: {error}")))?,
        };
        let marker = Marker {
            schema: SCHEMA,
            cluster,
            nodes,
            nodes_per_machine: settings.layout.nodes_per_machine(),
            device_bytes: settings.device_bytes,
            metadata: settings.layout.metadata_kind(),
        };
        if self.marker.as_ref() != Some(&marker) {
            write_marker(&self.path, &marker).map_err(|error| {
                Failure::new(format!("write in {}: {error}", self.path.display()))
            })?;
        }
        Ok(self.marker.insert(marker))
    }

    /// Erases everything that the demo has left. Its nodes have ended.
    pub(crate) fn erase(&mut self) -> Result<(), Failure> {
        if self.marker.is_none() {
            return Ok(());
        }
        erase(&self.path).map_err(|error| {
            Failure::new(format!("erase what is in {}: {error}", self.path.display()))
        })?;
        self.marker = None;
        Ok(())
    }
}

impl Drop for Claim {
    /// Without a marker nothing was put there. It happens under the lock: nobody else has begun anything there.
    fn drop(&mut self) {
        if self.marker.is_none() && !self.made.0.is_empty() {
            let _ = fs::remove_file(self.path.join(LOCK_FILE));
        }
    }
}

/// A directory and those above it that were not there before, the deepest first, absolute: those that hold nothing go with this.
#[derive(Debug)]
struct Made(Vec<PathBuf>);

impl Made {
    fn create(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let missing = path.ancestors().take_while(|folder| !folder.exists());
        let made = Self(missing.map(Path::to_owned).collect());
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&path)?;
        Ok(made)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// What is known of a directory that may become, or is, a demo's.
enum Found {
    Demo(Option<Marker>),
    /// Its marker has a schema that this program does not know.
    Newer(u32),
}

impl Found {
    fn of_this_version(self, path: &Path) -> Result<Option<Marker>, Failure> {
        match self {
            Self::Demo(marker) => Ok(marker),
            Self::Newer(schema) => Err(Failure::new(format!(
                "the demo in {} was started by a newer program (schema {schema})",
                path.display()
            ))
            .hint("run that program, or name another directory with --dir")),
        }
    }
}

/// What is the same in all schemas of a marker.
#[derive(Deserialize)]
struct Head {
    schema: u32,
}

/// `None` if the directory is somebody else's.
fn read_marker(path: &Path) -> io::Result<Option<Found>> {
    let file = match File::open(path.join(MARKER_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let ours = [MARKER_FILE_NEW, LOCK_FILE];
            for entry in fs::read_dir(path)? {
                let name = entry?.file_name();
                if !ours.iter().any(|one| name == *one) {
                    return Ok(None);
                }
            }
            return Ok(Some(Found::Demo(None)));
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    let read = file.take(MARKER_BYTES_MAX).read_to_string(&mut text);
    if read.is_err() {
        return Ok(None);
    }
    let head = serde_json::from_str::<Head>(&text).ok();
    if let Some(Head { schema }) = head.filter(|head| head.schema > SCHEMA) {
        return Ok(Some(Found::Newer(schema)));
    }
    let marker = serde_json::from_str::<Marker>(&text).ok();
    let marker = marker.filter(|marker| marker.schema == SCHEMA && marker.nodes_per_machine > 0);
    Ok(marker.map(|marker| Found::Demo(Some(marker))))
}

fn foreign(path: &Path) -> Failure {
    Failure::new(format!(
        "{} is not empty, and not the directory of a demo",
        path.display()
    ))
    .hint("name another with --dir; a directory that does not exist is made")
}

fn lock(path: &Path) -> Result<File, Failure> {
    let name = path.join(LOCK_FILE);
    let refused = |error: io::Error| Failure::new(format!("lock {}: {error}", path.display()));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&name)
        .map_err(refused)?;
    let locked = predecessor::attempt(
        || file.try_lock(),
        |error| match error {
            TryLockError::Error(_) => None,
            TryLockError::WouldBlock => Some(Holder::from(number_in(&name))),
        },
    );
    match locked {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(refused(error)),
        Err(TryLockError::WouldBlock) => {
            let failure = |holder: &str, hint: &str| {
                Failure::new(format!("{} is in use by {holder}", path.display())).hint(hint)
            };
            return Err(match number_in(&name) {
                Some(pid) => failure(
                    &format!("process {pid}"),
                    &format!("stop it with `kill {pid}`, or name another directory with --dir"),
                ),
                None => failure("another process", "name another directory with --dir"),
            });
        }
    }
    // A start that was refused meanwhile takes its directory away again.
    let held = file.metadata().map_err(refused)?.ino();
    if fs::metadata(&name).map_err(refused)?.ino() != held {
        let gone = format!(
            "lock {}: another start was just refused there",
            path.display()
        );
        return Err(Failure::new(gone).hint("start it again"));
    }
    file.set_len(0).map_err(refused)?;
    file.rewind().map_err(refused)?;
    writeln!(file, "{}", std::process::id()).map_err(refused)?;
    Ok(file)
}

/// The number in a lock's file. The length of what is read is bounded: the file may hold anything.
fn number_in(lock: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(lock)
        .ok()?
        .take(16)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}

fn write_marker(path: &Path, marker: &Marker) -> io::Result<()> {
    let mut text = serde_json::to_string(marker)?;
    text.push('\n');
    replace_file(&path.join(MARKER_FILE), &text)
}

fn erase(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == MARKER_FILE || name == LOCK_FILE {
            continue;
        }
        // A link is removed, not what it leads to.
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(path.join(MARKER_FILE))
}

fn random_cluster() -> io::Result<ClusterId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(ClusterId(u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::super::process::FORKING;
    use super::*;

    fn mark(claim: &mut Claim, nodes: u16) -> Result<&Marker, Failure> {
        let layout = Layout::new(Path::new("/d"), 6, 3260, 7460).grouping(2);
        let settings = Settings {
            layout: layout.keeping(MetadataKind::Etcd, None),
            device_bytes: 1 << 30,
            volumes: Vec::new(),
        };
        claim.mark(nodes, &settings)
    }

    #[test]
    fn a_directory_keeps_what_it_was_told() {
        let _nobody_forks = FORKING.blocking_lock();
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let mut claim = Claim::take(&path).unwrap();
        assert_eq!(claim.marker(), None);
        let marker = mark(&mut claim, 3).unwrap().clone();
        assert_eq!((marker.nodes, marker.nodes_per_machine), (3, 2));
        let second = Claim::take(&path).unwrap_err().to_string();
        assert!(
            second.contains(&format!("in use by process {}", std::process::id())),
            "{second}"
        );
        drop(claim);
        let mut claim = Claim::take(&path).unwrap();
        assert_eq!(claim.marker(), Some(&marker));
        assert_eq!(mark(&mut claim, 4).unwrap().cluster, marker.cluster);
    }

    #[test]
    fn a_start_that_is_refused_leaves_no_directory_that_it_made() {
        let _nobody_forks = FORKING.blocking_lock();
        let parent = tempfile::tempdir().unwrap();
        let outer = parent.path().join("outer");
        drop(Claim::take(&outer.join("a/b")).unwrap());
        assert!(!outer.exists(), "none of them was there before");
        drop(Claim::take(&outer.join("../beside")).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(Claim::take(&outer.join("n".repeat(256))).is_err());
        assert!(!outer.exists(), "no name is so long");
        fs::create_dir(&outer).unwrap();
        drop(Claim::take(&outer.join("a/b")).unwrap());
        assert_eq!(fs::read_dir(&outer).unwrap().count(), 0);
        let path = outer.join("new");
        let claim = Claim::take(&path).unwrap();
        fs::write(path.join("precious"), "").unwrap();
        drop(claim);
        assert!(path.join("precious").exists(), "somebody put it there");
        fs::remove_file(path.join("precious")).unwrap();
        drop(Claim::take(&path).unwrap());
        assert!(path.exists(), "it was there before");
        fs::remove_dir_all(&path).unwrap();
        let mut claim = Claim::take(&path).unwrap();
        mark(&mut claim, 3).unwrap();
        drop(claim);
        assert!(Claim::take(&path).unwrap().marker().is_some());
    }

    #[test]
    fn a_marker_without_machines_has_a_node_on_each() {
        let _nobody_forks = FORKING.blocking_lock();
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"schema":1,"cluster":"00000000000000000000000000000007","nodes":3,"device_bytes":1}"#;
        fs::write(folder.path().join(MARKER_FILE), text).unwrap();
        let claim = Claim::take(folder.path()).unwrap();
        let marker = claim.marker().unwrap();
        assert_eq!(marker.nodes_per_machine, 1);
        assert_eq!(serde_json::to_string(marker).unwrap(), text);
    }

    #[test]
    fn somebody_elses_directory_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("precious"), "").unwrap();
        let refused = Claim::take(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("not the directory of a demo"), "{refused}");
        assert!(refused.contains("hint: name another"), "{refused}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing was written"
        );
        for marker in [
            "",
            "{}",
            "{\"schema\":0,\"cluster\":\"1\",\"nodes\":3,\"device_bytes\":1}",
            r#"{"schema":1,"cluster":"00000000000000000000000000000007","nodes":3,"nodes_per_machine":0,"device_bytes":1}"#,
        ] {
            fs::write(folder.path().join(MARKER_FILE), marker).unwrap();
            let refused = Claim::take(folder.path()).unwrap_err().to_string();
            assert!(refused.contains("not the directory of a demo"), "{refused}");
        }
        let newer = "{\"schema\":2,\"nodes\":[3],\"more\":1}";
        fs::write(folder.path().join(MARKER_FILE), newer).unwrap();
        let refused = Claim::take(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("newer program"), "{refused}");
        assert!(refused.contains("hint: run that program"), "{refused}");
    }

    #[test]
    fn only_what_is_ours_is_erased() {
        let _nobody_forks = FORKING.blocking_lock();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut claim = Claim::take(folder.path()).unwrap();
        let first = mark(&mut claim, 3).unwrap().cluster;
        fs::create_dir_all(folder.path().join("n1/deep")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        claim.erase().unwrap();
        assert_eq!(claim.marker(), None);
        let left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, [LOCK_FILE]);
        assert!(outside.path().join("precious").exists());
        assert_ne!(
            mark(&mut claim, 3).unwrap().cluster,
            first,
            "it is another cluster"
        );
        drop(claim);
        // A start that was cut short before the marker left nothing that is in the way.
        fs::remove_file(folder.path().join(MARKER_FILE)).unwrap();
        fs::write(folder.path().join(MARKER_FILE_NEW), "half").unwrap();
        Claim::take(folder.path()).unwrap();
    }
}
