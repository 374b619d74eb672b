//! Whether the simulator bites: known mistakes are put in, one at a time, and must be found.
//!
//! A mistake is a patch in `crates/sim/bugs`, with a sentence about it before the first diff. It is
//! applied to a copy of the working tree, in the build directory, so that nothing of the tree is
//! touched; the copy is built, and runs seeds until one fails. Where none does, the simulator's stories
//! are told: what goes wrong only in one order of events is led there by them. Last comes the store alone, which is held to more than a
//! cluster sees of it.
//!
//! Invariants:
//! - a patch that no longer applies is named before anything is built;
//! - a mistake that nothing finds is an error, and so is a tree that fails without any.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::fuzz;

/// Seeds that a mistake may take to be found, unless told otherwise.
const SEEDS: u64 = 1000;
/// Seeds that must pass without a mistake: those that find the most of them.
const SEEDS_SOUND: u64 = 50;

/// Mistakes that the simulator finds.
const BUGS: &str = "crates/sim/bugs";

/// A mistake.
pub(crate) struct Bug {
    pub(crate) name: String,
    patch: PathBuf,
    /// What it is, in a sentence.
    pub(crate) about: String,
}

/// Who found a mistake.
enum Finder {
    Seed(u64),
    Story(String),
}

impl fmt::Display for Finder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(formatter, "seed {seed}"),
            Self::Story(name) => write!(formatter, "the story `{name}`"),
        }
    }
}

/// What was found.
struct Found {
    by: Finder,
    what: String,
}

/// Puts in the mistakes that are named, or all, and looks for each.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (names, seeds) = arguments(words)?;
    let bugs = bugs(root, BUGS, &names)?;
    let copy = Copy::make(root)?;
    must_take(&copy.tree, &bugs)?;
    copy.must_be_sound()?;
    let mut missed = Vec::new();
    for bug in &bugs {
        match copy.look_for(bug, seeds)? {
            Some(Found { by, what }) => {
                println!(
                    "| {}: {} | {by} | {what} |",
                    bug.name,
                    bug.about.trim_end_matches('.')
                );
            }
            None => {
                println!("| {}: {} | not in {seeds} | |", bug.name, bug.about);
                missed.push(bug.name.as_str());
            }
        }
    }
    ensure!(
        missed.is_empty(),
        "not found: {}\n\nhint: what does the plan of a run lack (`crates/sim/src/plan.rs`)?",
        missed.join(", ")
    );
    Ok(())
}

fn arguments<'a>(words: &[&'a str]) -> Result<(BTreeSet<&'a str>, u64)> {
    let mut names = BTreeSet::new();
    let mut seeds = SEEDS;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if *word == "--seeds" {
            let count = rest.next().context("--seeds needs a number")?;
            seeds = count.parse().context("--seeds needs a number")?;
        } else {
            names.insert(*word);
        }
    }
    Ok((names, seeds))
}

/// Those of a folder that are named, or all.
pub(crate) fn bugs(root: &Path, place: &str, names: &BTreeSet<&str>) -> Result<Vec<Bug>> {
    let folder = root.join(place);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let patch = entry?.path();
        let name = patch.file_stem().and_then(|stem| stem.to_str());
        let name = name.context("a patch has a name")?.to_owned();
        if !names.is_empty() && !names.contains(name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&patch)?;
        let (about, _) = text
            .split_once("\n\n")
            .with_context(|| format!("{name}: a sentence, an empty line, then the diff"))?;
        let about = about.replace('\n', " ");
        found.push(Bug { name, patch, about });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    for name in names {
        let known = found.iter().any(|bug| bug.name == *name);
        ensure!(known, "there is no {place}/{name}.patch");
    }
    Ok(found)
}

/// Names the mistakes that cannot be put into this tree any more.
///
/// # Errors
/// There are any.
pub(crate) fn all_fit(root: &Path) -> Result<()> {
    let mut all = bugs(root, BUGS, &BTreeSet::new())?;
    all.extend(bugs(root, fuzz::BUGS, &BTreeSet::new())?);
    must_take(root, &all)?;
    println!("bite: {} mistakes can be put in", all.len());
    Ok(())
}

/// Whether mistakes can be put into a tree.
///
/// # Errors
/// Names those that cannot.
pub(crate) fn must_take(tree: &Path, bugs: &[Bug]) -> Result<()> {
    let mut stale = Vec::new();
    for bug in bugs {
        if !apply(tree, &bug.patch, &["--check"])? {
            stale.push(bug.name.as_str());
        }
    }
    ensure!(
        stale.is_empty(),
        "these no longer apply: {}\n\nhint: the code that they spoil has changed; put the same \
         mistake into the new code, and write `git diff` below the sentence of the patch",
        stale.join(", ")
    );
    Ok(())
}

fn apply(tree: &Path, patch: &Path, how: &[&str]) -> Result<bool> {
    let done = Command::new("git")
        .arg("apply")
        .args(how)
        .arg(patch)
        .current_dir(tree)
        // A tree may be no part of the repository around it: without this, git skips its files.
        .env("GIT_CEILING_DIRECTORIES", tree)
        .env("GIT_DIR", tree.join("none"))
        .output()
        .context("run git")?;
    Ok(done.status.success())
}

/// A copy of the tree.
pub(crate) struct Copy {
    pub(crate) tree: PathBuf,
    pub(crate) target: PathBuf,
}

impl Copy {
    /// Copies what git would commit, as far as it differs from the last copy: so little is built.
    pub(crate) fn make(root: &Path) -> Result<Self> {
        let place = root.join("target/bite");
        let copy = Self {
            tree: place.join("tree"),
            target: place.join("target"),
        };
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("run git")?;
        ensure!(listed.status.success(), "git lists no files");
        let mut copied = BTreeSet::new();
        for name in String::from_utf8(listed.stdout)?.lines() {
            let Ok(content) = fs::read(root.join(name)) else {
                continue;
            };
            let to = copy.tree.join(name);
            if fs::read(&to).ok().as_ref() != Some(&content) {
                fs::create_dir_all(to.parent().context("a file lies somewhere")?)?;
                fs::write(&to, content)?;
            }
            copied.insert(to);
        }
        remove_others(&copy.tree, &copied)?;
        Ok(copy)
    }

    fn must_be_sound(&self) -> Result<()> {
        self.build().context("build without a mistake")?;
        match self.find(SEEDS_SOUND)? {
            Some(Found { by, what }) => bail!("{by} fails without any mistake: {what}"),
            None => Ok(()),
        }
    }

    fn look_for(&self, bug: &Bug, seeds: u64) -> Result<Option<Found>> {
        self.with(bug, || {
            self.build()?;
            self.find(seeds)
        })
    }

    /// Does something while a mistake is in the copy.
    pub(crate) fn with<R>(&self, bug: &Bug, look: impl FnOnce() -> Result<R>) -> Result<R> {
        ensure!(
            apply(&self.tree, &bug.patch, &[])?,
            "{} does not apply",
            bug.name
        );
        let found = look();
        ensure!(
            apply(&self.tree, &bug.patch, &["--reverse"])?,
            "{} cannot be taken out of the copy again",
            bug.name
        );
        found.with_context(|| bug.name.clone())
    }

    fn build(&self) -> Result<()> {
        let built = self
            .cargo("build", &["--bin", "holdfast-sim"])
            .status()
            .context("run cargo")?;
        ensure!(built.success(), "it does not build");
        Ok(())
    }

    /// Cargo, about to do something with the simulator. What is built often is built in pieces.
    fn cargo(&self, what: &str, more: &[&str]) -> Command {
        let mut cargo = cargo::command();
        cargo
            .args([what, "--release", "--locked", "--quiet"])
            .args(["-p", "holdfast-sim"])
            .args(more)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "64")
            .env("RUST_BACKTRACE", "0");
        cargo
    }

    /// Runs seeds, and tells the stories where none of them fails.
    fn find(&self, seeds: u64) -> Result<Option<Found>> {
        match self.simulate(seeds)? {
            None => self.tell_stories(),
            found => Ok(found),
        }
    }

    /// Runs seeds from 0 until one fails.
    fn simulate(&self, seeds: u64) -> Result<Option<Found>> {
        let run = Command::new(self.target.join("release/holdfast-sim"))
            .args(["--seeds", &format!("0..{seeds}"), "--stop"])
            .output()
            .context("run the simulator")?;
        if run.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&run.stderr);
        let failed = said.lines().find_map(|line| {
            let (seed, rest) = line.strip_prefix("seed ")?.split_once(" failed at ")?;
            let (_, what) = rest.split_once(": ")?;
            let seed = seed.parse().ok()?;
            Some(Found {
                by: Finder::Seed(seed),
                what: shortened(what),
            })
        });
        let found = failed.with_context(|| format!("it ended with {}: {said}", run.status))?;
        Ok(Some(found))
    }

    /// Tells the simulator's stories, until one fails.
    fn tell_stories(&self) -> Result<Option<Found>> {
        for stories in STORIES {
            let found = self.tell(stories)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn tell(&self, stories: &str) -> Result<Option<Found>> {
        let built = self
            .cargo("test", &["--test", stories, "--no-run"])
            .status()
            .context("run cargo")?;
        ensure!(built.success(), "the stories do not build");
        let told = self
            .cargo("test", &["--test", stories, "--"])
            .args(["--test-threads", "1", "--format", "pretty"])
            .output()
            .context("run cargo")?;
        if told.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&told.stdout);
        let failed = said.lines().find_map(|line| {
            let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(name.to_owned())
        });
        let by =
            failed.with_context(|| format!("the stories ended with {}: {said}", told.status))?;
        // What it said follows the line that tells where.
        let panicked = format!("thread '{by}'");
        let mut lines = said.lines();
        lines.find(|line| line.starts_with(&panicked));
        Ok(Some(Found {
            what: shortened(lines.next().unwrap_or_default()),
            by: Finder::Story(by),
        }))
    }
}

/// The simulator's tests where stories are told: those of clusters, and then those of one store and its devices.
const STORIES: [&str; 2] = ["stories", "store"];

/// Removes the files below a folder that are not among those named.
fn remove_others(folder: &Path, named: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, named)?;
        } else if !named.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn shortened(what: &str) -> String {
    what.chars().take(WORDS).collect()
}

/// Characters of what a finder says that fit into a table.
const WORDS: usize = 100;
