//! The tests of all packages: compiled by cargo, and run as cargo would run them, but for the simulator's, which are a step of their
//! own. The end-to-end tests, which judge by time, run first and alone; the others two programs at a time, as many of them wait.
//!
//! Invariants:
//! - no program of tests is left out, whatever it is called;
//! - none is begun after one has failed, and what failed is told of each that did.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use crate::cargo;
use crate::made::LIKE_TESTS;
use crate::process::{printed, succeed_or_say};

/// The directory of the simulator.
const SIMULATOR: &str = "crates/sim";

/// The directory of the end-to-end tests.
const END_TO_END: &str = "crates/e2e";
/// The directory of those that take as long as all others together, and so are begun first.
const LONGEST: &str = "crates/node";
/// How many of the others run at a time.
const AT_A_TIME: usize = 2;

/// The directory of those that wait nearly all of their time, for what happens after seconds: of 158 s they have a processor for 7.6.
const WAITING: &str = "crates/controller";
/// How many of them run at a time, on however few processors.
const WAITING_AT_A_TIME: u32 = 8;

/// The line after which a program of tests says which have failed, and why.
const FAILURES: &str = "failures:";

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    /// The directory of its package, in which it runs.
    folder: PathBuf,
    name: String,
    program: PathBuf,
}

/// Compiles the tests of all packages, and the programs that they run.
pub(crate) fn build(root: &Path) -> Result<()> {
    built(root).map(drop)
}

fn built(root: &Path) -> Result<Vec<Suite>> {
    // The binaries first: end-to-end tests of one package run those of another.
    let build = ["build", "--bins", "--locked"];
    cargo::run(root, &[&build[..], &LIKE_TESTS].concat())?;
    compile(root)
}

/// Runs all tests but the simulator's, until a program fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut suites = built(root)?;
    suites.retain(|suite| !suite.is_of(SIMULATOR));
    let (alone, mut others): (Vec<_>, Vec<_>) = suites
        .into_iter()
        .partition(|suite| suite.is_of(END_TO_END));
    others.sort_by_key(|suite| !suite.is_of(LONGEST));
    run_those(root, alone, 1)?;
    run_those(root, others, AT_A_TIME)?;
    cargo::run(root, &["test", "--workspace", "--doc", "--locked"])
}

/// Runs the simulator's.
pub(crate) fn run_simulator(root: &Path) -> Result<()> {
    let mut suites = compile(root)?;
    suites.retain(|suite| suite.is_of(SIMULATOR));
    run_those(root, suites, 1)
}

/// Runs them in this order, so many at a time.
fn run_those(root: &Path, suites: Vec<Suite>, at_a_time: usize) -> Result<()> {
    ensure!(!suites.is_empty(), "cargo has made none of them");
    let is_alone = at_a_time == 1;
    in_order(suites, at_a_time, |suite| {
        let described = suite.describe(root);
        println!("-- {described}");
        let start = Instant::now();
        let name = (!is_alone).then_some(described.as_str());
        suite.run(name).with_context(|| described.clone())?;
        println!("-- {described}: {:.1?}", start.elapsed());
        Ok(())
    })
}

/// Does this with all of them, in this order, so many at a time; until it fails for one, when those that are begun are waited for.
fn in_order<T: Send>(
    all: Vec<T>,
    at_a_time: usize,
    run: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let waiting = Mutex::new(all.into_iter());
    let failed: Mutex<Vec<anyhow::Error>> = Mutex::default();
    let is_well = || {
        failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    };
    let work = || {
        while is_well() {
            let next = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next();
            let Some(next) = next else { break };
            if let Err(error) = run(next) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(work);
        }
    });
    let mut failed = failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter();
    let Some(first) = failed.next() else {
        return Ok(());
    };
    Err(failed.fold(first, |first, error| anyhow!("{error:#}\nand {first:#}")))
}

fn compile(root: &Path) -> Result<Vec<Suite>> {
    let told = printed(
        cargo::command()
            .args(["test", "--no-run", "--workspace", "--locked"])
            .args(["--lib", "--bins", "--tests"])
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(root),
    )?;
    suites(&told)
}

/// A line of what cargo says: only those of programs have one.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The programs of tests among what cargo says (The Cargo Book, *External tools*, JSON messages), in the order of their packages.
fn suites(told: &str) -> Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for line in told.lines() {
        let message: Message =
            serde_json::from_str(line).with_context(|| format!("read {line:?}"))?;
        let is_test = message.profile.is_some_and(|profile| profile.test);
        if message.reason != "compiler-artifact" || !is_test {
            continue;
        }
        // What is checked as a test and makes no program.
        let Some(program) = message.executable else {
            continue;
        };
        let manifest = message.manifest_path.context("its package is told")?;
        let folder = manifest.parent().context("it lies in a directory")?;
        let target = message.target.context("what it is made of is told")?;
        let source = target.src_path.strip_prefix(folder);
        suites.push(Suite {
            folder: folder.to_owned(),
            name: source.map_or(target.name, |source| source.display().to_string()),
            program,
        });
    }
    suites.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
    Ok(suites)
}

impl Suite {
    fn describe(&self, root: &Path) -> String {
        let folder = self.folder.strip_prefix(root).unwrap_or(&self.folder);
        folder.join(&self.name).display().to_string()
    }

    fn is_of(&self, folder: &str) -> bool {
        self.folder.ends_with(folder)
    }

    /// As cargo would run it; with a name where others run beside it.
    fn run(&self, name: Option<&str>) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // An error's own backtrace stands behind what it says, and is long: where only the end of all this is kept,
            // what it says was lost. That of the panic stays.
            .env("RUST_LIB_BACKTRACE", "0");
        if self.is_of(WAITING) {
            command.env("RUST_TEST_THREADS", WAITING_AT_A_TIME.to_string());
        }
        succeed_or_say(&mut command, name, FAILURES)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    use anyhow::bail;

    use super::*;

    const TOLD: &str = concat!(
        r#"{"reason":"compiler-artifact","package_id":"registry+https://example.org#serde@1.0.0","manifest_path":"/registry/serde/Cargo.toml","target":{"kind":["lib"],"name":"serde","src_path":"/registry/serde/src/lib.rs"},"profile":{"opt_level":"1","test":false},"executable":null,"fresh":true}"#,
        "\n",
        r#"{"reason":"build-script-executed","package_id":"registry+https://example.org#serde@1.0.0","linked_libs":[]}"#,
        "\n",
        r#"{"reason":"compiler-artifact","manifest_path":"/tree/crates/sim/Cargo.toml","target":{"kind":["test"],"name":"stories","src_path":"/tree/crates/sim/tests/stories/main.rs"},"profile":{"test":true},"executable":"/tree/target/debug/deps/stories-1","fresh":true}"#,
        "\n",
        r#"{"reason":"compiler-artifact","manifest_path":"/tree/crates/disk/Cargo.toml","target":{"kind":["lib"],"name":"holdfast_disk","src_path":"/tree/crates/disk/src/lib.rs"},"profile":{"test":true},"executable":"/tree/target/debug/deps/disk-1","fresh":false}"#,
        "\n",
        r#"{"reason":"compiler-artifact","manifest_path":"/tree/crates/disk/Cargo.toml","target":{"kind":["bin"],"name":"tool","src_path":"/tree/crates/disk/src/main.rs"},"profile":{"test":false},"executable":"/tree/target/debug/tool","fresh":false}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
        "\n",
    );

    #[test]
    fn all_are_run_and_no_more_at_a_time_than_may() {
        let (running, most, done) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let run = |_| {
            most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
            let begun = Instant::now();
            while most.load(Relaxed) < 3 && begun.elapsed() < Duration::from_secs(10) {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(10));
            running.fetch_sub(1, Relaxed);
            done.fetch_add(1, Relaxed);
            Ok(())
        };
        in_order((0..9).collect(), 3, run).unwrap();
        assert_eq!(done.into_inner(), 9);
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn none_is_begun_after_a_failure_and_each_failure_is_told() {
        let begun = Mutex::new(Vec::new());
        let both = Barrier::new(2);
        let run = |number| {
            begun.lock().unwrap().push(number);
            if number > 0 {
                both.wait();
                bail!("failure {number}");
            }
            Ok(())
        };
        let error = in_order(vec![0, 1, 2, 3, 4], 2, run).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("failure 1") && error.contains("failure 2"));
        let mut begun = begun.into_inner().unwrap();
        begun.sort_unstable();
        assert_eq!(begun, [0, 1, 2]);
    }

    #[test]
    fn programs_of_tests_are_told_from_all_else() {
        let suite = |folder: &str, name: &str, program: &str| Suite {
            folder: folder.into(),
            name: name.to_owned(),
            program: program.into(),
        };
        assert_eq!(
            suites(TOLD).unwrap(),
            [
                suite(
                    "/tree/crates/disk",
                    "src/lib.rs",
                    "/tree/target/debug/deps/disk-1"
                ),
                suite(
                    "/tree/crates/sim",
                    "tests/stories/main.rs",
                    "/tree/target/debug/deps/stories-1"
                ),
            ]
        );
        assert!(suites("no JSON").is_err());
    }
}
