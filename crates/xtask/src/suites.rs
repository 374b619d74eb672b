//! The tests of all packages: compiled by cargo, and run one program after the other, as cargo would, but for the simulator's, which
//! are a step of their own.
//!
//! Invariant: no program of tests is left out, whatever it is called.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo;
use crate::made::LIKE_TESTS;
use crate::process::{printed, succeed_or_say};

/// The directory of the simulator.
const SIMULATOR: &str = "crates/sim";

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
    run_those(root, &built(root)?, |suite| {
        !suite.folder.ends_with(SIMULATOR)
    })?;
    cargo::run(root, &["test", "--workspace", "--doc", "--locked"])
}

/// Runs the simulator's.
pub(crate) fn run_simulator(root: &Path) -> Result<()> {
    run_those(root, &compile(root)?, |suite| {
        suite.folder.ends_with(SIMULATOR)
    })
}

fn run_those(root: &Path, suites: &[Suite], is_wanted: impl Fn(&Suite) -> bool) -> Result<()> {
    ensure!(suites.iter().any(&is_wanted), "cargo has made none of them");
    for suite in suites.iter().filter(|suite| is_wanted(suite)) {
        println!("-- {}", suite.describe(root));
        let start = Instant::now();
        suite.run(root)?;
        println!("-- {:.1?}", start.elapsed());
    }
    Ok(())
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

    /// As cargo would run it.
    fn run(&self, root: &Path) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // An error's own backtrace stands behind what it says, and is long: where only the end of all this is kept,
            // what it says was lost. That of the panic stays.
            .env("RUST_LIB_BACKTRACE", "0");
        if self.folder.ends_with(WAITING) {
            command.env("RUST_TEST_THREADS", WAITING_AT_A_TIME.to_string());
        }
        succeed_or_say(&mut command, FAILURES).with_context(|| self.describe(root))
    }
}

#[cfg(test)]
mod tests {
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
