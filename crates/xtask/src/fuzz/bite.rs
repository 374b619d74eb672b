//! Whether the fuzzer bites: known mistakes are put in, one at a time, and must be found.
//!
//! A mistake is a patch in `crates/fuzz/bugs`, as the simulator's are; its name begins with that of
//! the target which has to find it, from what is kept beside the code and nothing else.
//!
//! Invariants:
//! - a mistake that is not found is an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Place;
use crate::bite;

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
    let mut missed = Vec::new();
    for bug in &bugs {
        let (target, _) = bug.name.split_once('-').context("TARGET-WHAT.patch")?;
        let (found, seconds) = copy.with(bug, || {
            let folder = copy.target.join("fuzz");
            let place = Place::build(&copy.tree, folder)?;
            let target = place.chosen(&[target])?[0];
            // Nothing that was found with another mistake.
            let known = place.found(target);
            if known.exists() {
                fs::remove_dir_all(&known)?;
            }
            let start = Instant::now();
            let found = place.search(target, SECONDS)?;
            Ok((found.err(), start.elapsed().as_secs()))
        })?;
        let about = bug.about.trim_end_matches('.');
        match found {
            Some(finding) => {
                let what = finding.what.replace('\n', " ");
                println!("| {}: {about} | {seconds} s | {what} |", bug.name);
            }
            None => {
                println!("| {}: {about} | not in {SECONDS} s | |", bug.name);
                missed.push(bug.name.as_str());
            }
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}
