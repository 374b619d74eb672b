//! Golden images: clusters that an earlier version wrote, as files in `testdata/golden`, and what each
//! block of their volumes must read as.
//!
//! An image is the directory of a demo whose processes were all killed at once, without what every start
//! writes anew, and what every start appends to. `examples/golden.rs` makes one with the binary of any commit.
//!
//! It refuses to know the format: what is in an image is what that binary wrote.
//!
//! Invariants:
//! - everything that a manifest names was acknowledged, so that there is one right answer for every sector;
//! - an image, once it is there, is never made anew: it is what devices in the world look like.

mod make;
mod pack;
mod sheet;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use self::make::make;
pub use self::pack::{pack, unpack};
pub use self::sheet::{Sheet, Stretch};
use crate::DemoOptions;

/// `--device-size` of the demos: the least that has room for some pages beside a journal.
pub const DEVICE_SIZE: &str = "128MiB";

/// What is in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The commit whose binary wrote it.
    pub commit: String,
    /// Nodes of the demo.
    pub nodes: u16,
    /// Nodes that had been killed before the last writes.
    pub away: Vec<String>,
    /// Volumes that were written to and deleted.
    pub deleted: Vec<String>,
    /// The volumes.
    pub volumes: Vec<GoldenVolume>,
}

/// A volume of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenVolume {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its policy.
    pub policy: String,
    /// What it reads as: everything that is in none of these is zeros.
    pub stretches: Vec<Stretch>,
}

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// What is in it.
    pub manifest: Manifest,
    packed: PathBuf,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden")
}

impl Image {
    /// All images that there are, by their names.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory()).context("list the golden images")? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let manifest = serde_json::from_str(&text);
        Ok(Self {
            manifest: manifest.with_context(|| format!("understand {}", path.display()))?,
            packed: path.with_extension("image"),
        })
    }

    /// Keeps an image, beside those that are there.
    ///
    /// # Errors
    /// It is there already, or what the operating system says.
    pub fn keep(manifest: &Manifest, packed: &[u8]) -> Result<PathBuf> {
        let path = directory().join(format!("{}.json", manifest.commit));
        fs::create_dir_all(directory())?;
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        let file = fs::File::create_new(&path);
        drop(file.with_context(|| format!("make {}, which is never made anew", path.display()))?);
        fs::write(path.with_extension("image"), packed)?;
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Makes the demo's directory again.
    ///
    /// # Errors
    /// The image is not what was packed, or what the operating system says.
    pub fn unpack(&self, directory: &Path) -> Result<()> {
        let packed =
            fs::read(&self.packed).with_context(|| format!("read {}", self.packed.display()))?;
        fs::create_dir_all(directory)?;
        unpack(&packed, directory)
    }

    /// How its demo is started.
    #[must_use]
    pub fn options(&self) -> DemoOptions {
        DemoOptions {
            nodes: self.manifest.nodes,
            device_size: DEVICE_SIZE,
            volumes: Vec::new(),
            secure: false,
            ..DemoOptions::default()
        }
    }
}
