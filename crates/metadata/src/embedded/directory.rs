//! The store's directory: who holds it, and how a first start becomes whole.
//!
//! Invariants:
//! - the lock is the operating system's: it is gone when its holder is, however that ended;
//! - the database gets its name only when it is a whole, empty store.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use holdfast_model::ClusterId;
use redb::{Builder, Database};

use super::{OpenError, tables};

/// Memory that the database may use to keep pages: the machine has everything in memory already.
const CACHE_BYTES: usize = 8 << 20;
/// Bytes of the lock file that are read to tell who holds it.
const HOLDER_LENGTH_MAX: u64 = 32;

const LOCK_FILE: &str = "LOCK";
const DATABASE_FILE: &str = "store.redb";
const DATABASE_FILE_NEW: &str = "store.redb.new";

/// A directory that is ours for as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        std::fs::create_dir_all(path).map_err(failed(path))?;
        let name = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(failed(&name))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                    holder: holder(&mut lock),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(OpenError::Io { path: name, source });
            }
        }
        write_holder(&mut lock).map_err(failed(&name))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn open_database(&self, cluster: ClusterId) -> Result<Database, OpenError> {
        let name = self.path.join(DATABASE_FILE);
        if !name.try_exists().map_err(failed(&name))? {
            self.create_database(&name, cluster)?;
        }
        let mut database = builder().open(&name).map_err(super::StoreError::from)?;
        // Reads every page: what has rotted is said now, not met by a request one day.
        let whole = database
            .check_integrity()
            .map_err(super::StoreError::from)?;
        if !whole {
            tracing::warn!(path = %name.display(), "repaired the metadata's database");
        }
        Ok(database)
    }

    fn create_database(&self, name: &Path, cluster: ClusterId) -> Result<(), OpenError> {
        let new = self.path.join(DATABASE_FILE_NEW);
        match std::fs::remove_file(&new) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::Io { path: new, source });
            }
            _ => {}
        }
        let database = builder().create(&new).map_err(super::StoreError::from)?;
        tables::initialize(&database, cluster)?;
        drop(database);
        holdfast_durable::rename(&new, name).map_err(failed(name))?;
        self.sync_names()
    }

    /// Makes the names in the directory, and its own, survive a power cut.
    fn sync_names(&self) -> Result<(), OpenError> {
        let sync = |path: &Path| File::open(path).and_then(|folder| folder.sync_all());
        sync(&self.path).map_err(failed(&self.path))?;
        match self
            .path
            .canonicalize()
            .map_err(failed(&self.path))?
            .parent()
        {
            Some(parent) => sync(parent).map_err(failed(parent)),
            None => Ok(()),
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { path, source }
}

fn write_holder(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock.take(HOLDER_LENGTH_MAX).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(process)) => process.to_string(),
        _ => "unknown".to_owned(),
    }
}
