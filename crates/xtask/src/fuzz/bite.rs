//! Whether the fuzzer bites: known mistakes are put in, one at a time, and must be found.
//!
//! A mistake is a patch in `crates/fuzz/bugs`, as the simulator's are; its name begins with that of
//! the target which has to find it, from what is kept beside the code and nothing else.
//!
//! Invariants:
//! - a mistake that is not found is an error, and so is a tree in which something is found without any;
//! - what only takes long, or much memory, is not found: a busy machine would find every mistake.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{Finding, Place, for_seconds};
use crate::bite::{self, Bug};
use crate::cargo;

/// Mistakes that the fuzzer finds.
pub(crate) const BUGS: &str = "crates/fuzz/bugs";
/// Seconds that a mistake may take to be found.
const SECONDS: u64 = 120;

/// Puts in the mistakes that are named, or all, and looks for each.
pub(super) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let names: BTreeSet<&str> = names.iter().copied().collect();
    let bugs = bite::bugs(root, BUGS, &names)?;
    let copy = bite::Copy::make(root)?;
    bite::must_take(&copy.tree, &bugs)?;
    must_be_sound(&copy, &bugs)?;
    let mut missed = Vec::new();
    for bug in &bugs {
        let (found, seconds) = copy.with(bug, || {
            let place = place(&copy)?;
            let start = Instant::now();
            let found = look(&place, target(&place, bug)?, &for_seconds(SECONDS))?;
            Ok((found, start.elapsed().as_secs()))
        })?;
        let about = bug.about.trim_end_matches('.');
        let what = found.as_ref().map(|it| it.what.replace('\n', " "));
        let what = what.unwrap_or_default();
        if found.is_some_and(|it| !it.is_of_bounds) {
            println!("| {}: {about} | {seconds} s | {what} |", bug.name);
        } else {
            println!("| {}: {about} | not in {seconds} s | {what} |", bug.name);
            missed.push(bug.name.as_str());
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}

/// Runs what is kept, for the targets that have to find these mistakes, without any of them.
fn must_be_sound(copy: &bite::Copy, bugs: &[Bug]) -> Result<()> {
    let place = place(copy).context("build without a mistake")?;
    let targets: Result<BTreeSet<&str>> = bugs.iter().map(|bug| target(&place, bug)).collect();
    for target in targets? {
        if let Some(Finding { what, file, .. }) = look(&place, target, "-runs=0")? {
            bail!("{target} finds something without any mistake, in {file}: {what}");
        }
    }
    Ok(())
}

fn place(copy: &bite::Copy) -> Result<Place> {
    Place::build(&copy.tree, copy.target.join("fuzz"), |arguments| {
        let mut cargo = cargo::command();
        cargo
            .args(["run", "--locked", "--quiet", "-p", "holdfast-fuzz", "--"])
            .args(arguments)
            .env("CARGO_TARGET_DIR", &copy.target)
            .current_dir(&copy.tree);
        let output = cargo.output().context("run cargo")?;
        ensure!(
            output.status.success(),
            "{cargo:?} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).context("read what cargo says")
    })
}

/// The target that has to find a mistake.
fn target<'a>(place: &'a Place, bug: &Bug) -> Result<&'a str> {
    let (target, _) = bug.name.split_once('-').context("TARGET-WHAT.patch")?;
    Ok(place.chosen(&[target])?[0])
}

/// What is found from what is kept and nothing else: not from what another mistake led to.
fn look(place: &Place, target: &str, how_long: &str) -> Result<Option<Finding>> {
    let known = place.found(target);
    if known.exists() {
        fs::remove_dir_all(&known)?;
    }
    Ok(place.search(target, how_long)?.err())
}
