//! More seeds for the record: runs those that come after the last ones in `docs/simulation-runs.md`, and
//! prints the line to add there.
//!
//! Invariants:
//! - it writes nothing but the build directory, where an interrupted run is gone on from;
//! - a line is of one commit: a tree with changes is refused, for nobody could run its seeds again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cargo;

/// The record, from the root.
const RECORD: &str = "docs/simulation-runs.md";
/// Seeds to run, unless told otherwise: as many as a change in the engine asks for.
const COUNT: u64 = 50_000;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    profile: &'a str,
    count: u64,
    jobs: Option<u64>,
}

/// Runs the next seeds of a profile.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let wanted = arguments(words)?;
    let commit = commit(root)?;
    let record = fs::read_to_string(root.join(RECORD)).with_context(|| format!("read {RECORD}"))?;
    let first = next_seed(&record, wanted.profile)?;
    let end = first.checked_add(wanted.count).context("too many seeds")?;
    let summary = simulate(root, &wanted, &commit, first..end)?;
    let failed = summary["failed"].as_object().context("a summary")?;
    println!(
        "| {} | {first}..{end} | {} | {} | `{commit}` |",
        wanted.profile,
        wanted.count,
        failed.len()
    );
    for (seed, what) in failed {
        println!(
            "\nseed {seed}: {}",
            what.as_str().unwrap_or("see above what it said")
        );
    }
    ensure!(failed.is_empty(), "{} seeds failed", failed.len());
    Ok(())
}

fn simulate(
    root: &Path,
    wanted: &Wanted<'_>,
    commit: &str,
    seeds: std::ops::Range<u64>,
) -> Result<Value> {
    let profile = wanted.profile;
    let kept = root.join(format!("target/seeds-{profile}-{commit}-{}", seeds.start));
    let mut cargo = cargo::command();
    cargo
        .args(["run", "--quiet", "--release", "--locked"])
        .args(["-p", "holdfast-sim", "--", "--json", "--progress"])
        .args(["--profile", profile])
        .args(["--seeds", &format!("{}..{}", seeds.start, seeds.end)])
        .arg("--resume")
        .arg(&kept)
        .stderr(std::process::Stdio::inherit())
        .current_dir(root);
    if let Some(jobs) = wanted.jobs {
        cargo.args(["--jobs", &jobs.to_string()]);
    }
    let output = cargo.output().context("run cargo")?;
    let summary = serde_json::from_slice(&output.stdout);
    summary.with_context(|| format!("the simulator ended with {}", output.status))
}

fn arguments<'a>(words: &[&'a str]) -> Result<Wanted<'a>> {
    let mut wanted = Wanted {
        profile: "short",
        count: COUNT,
        jobs: None,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut next = || {
            rest.next()
                .with_context(|| format!("{word} needs something after it"))
        };
        let number = |text: &str| text.parse().with_context(|| format!("{text} is no number"));
        match *word {
            "--profile" => wanted.profile = next()?,
            "--count" => wanted.count = number(next()?)?,
            "--jobs" => wanted.jobs = Some(number(next()?)?),
            other => bail!("{other} is not known: --profile NAME, --count N, --jobs N"),
        }
    }
    Ok(wanted)
}

/// The commit of the tree, which has no changes.
fn commit(root: &Path) -> Result<String> {
    let git = |words: &[&str]| -> Result<String> {
        let output = Command::new("git")
            .args(words)
            .current_dir(root)
            .output()
            .context("run git")?;
        ensure!(output.status.success(), "git {} fails", words.join(" "));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    ensure!(
        changes.is_empty(),
        "the tree has changes\n\nhint: commit them first, so that the seeds can be run again"
    );
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// The seed after the last one of a profile that the record tells of.
fn next_seed(record: &str, profile: &str) -> Result<u64> {
    let mut next = 0;
    for line in record.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.get(1) != Some(&profile) {
            continue;
        }
        let range = cells.get(2).and_then(|range| range.split_once(".."));
        let end = range.and_then(|(_, end)| end.parse().ok());
        let end: u64 = end.with_context(|| format!("{RECORD}: what seeds are `{line}`?"))?;
        next = next.max(end);
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_go_on_after_the_last_ones_of_their_profile() {
        let record = "\
# Runs
| profile | seeds | count | failed | commit |
|---|---|---|---|---|
| short | 0..100 | 100 | 0 | `abc` |
| long | 0..7 | 7 | 0 | `abc` |
| short | 100..150 | 50 | 0 | `def` |
";
        assert_eq!(next_seed(record, "short").expect("a record"), 150);
        assert_eq!(next_seed(record, "long").expect("a record"), 7);
        assert_eq!(next_seed(record, "beyond").expect("a record"), 0);
        assert!(next_seed("| short | some | 3 |", "short").is_err());
    }

    #[test]
    fn arguments_are_taken_or_refused() {
        let wanted = arguments(&["--profile", "long", "--count", "20"]).expect("they are right");
        assert_eq!(
            (wanted.profile, wanted.count, wanted.jobs),
            ("long", 20, None)
        );
        assert!(arguments(&["--count"]).is_err());
        assert!(arguments(&["--count", "x"]).is_err());
        assert!(arguments(&["short"]).is_err());
    }
}
