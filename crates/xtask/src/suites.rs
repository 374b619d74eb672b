//! The tests of all packages: compiled by cargo, and run one program after the other.
//!
//! Cargo would run all of them in a row. But the simulator's only compute, for minutes, while the end-to-end tests, which take
//! longest, mostly wait: so the simulator's run beside all others, on processors that nobody else wants.
//!
//! Invariants:
//! - no program of tests is left out, whatever it is called;
//! - what runs beside the others runs only on processors that they leave, and judges nothing by the time that it takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use crate::made::LIKE_TESTS;
use crate::process::{printed, succeed};
use crate::{cargo, metadata};

/// The directory of the simulator, whose tests run beside the others.
const BESIDE: &str = "crates/sim";
/// Runs a program when no other wants to (util-linux; `sched(7)`, SCHED_IDLE).
const IDLE: [&str; 3] = ["chrt", "--idle", "0"];
/// What they say, in the build directory.
const LOG: &str = "simulator-tests.log";

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    /// The directory of its package, in which it runs.
    folder: PathBuf,
    name: String,
    program: PathBuf,
}

/// Compiles the tests of all packages, and runs them until a program fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    // The binaries first: end-to-end tests of one package run those of another.
    let build = ["build", "--bins", "--locked"];
    cargo::run(root, &[&build[..], &LIKE_TESTS].concat())?;
    let (beside, others): (Vec<Suite>, Vec<Suite>) = compile(root)?
        .into_iter()
        .partition(|suite| suite.folder.ends_with(BESIDE));
    let log = metadata::target_directory(root)?.join(LOG);
    run_both(root, &others, &beside, &log)?;
    cargo::run(root, &["test", "--workspace", "--doc", "--locked"])
}

fn compile(root: &Path) -> Result<Vec<Suite>> {
    let told = printed(
        cargo::command()
            .args(["test", "--no-run", "--workspace", "--locked"])
            .args(["--lib", "--bins", "--tests"])
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(root),
    )?;
    let suites = suites(&told)?;
    ensure!(!suites.is_empty(), "cargo has made no tests");
    Ok(suites)
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

/// Runs the ones, and the others beside them; what these have said is shown at the end.
fn run_both(root: &Path, ones: &[Suite], beside: &[Suite], log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let (told, told_beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| run_idle(root, beside, &file));
        let told = run_each(root, ones);
        let panicked = |_| Err(anyhow!("what runs beside the others has panicked"));
        (told, beside.join().unwrap_or_else(panicked))
    });
    let said = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    println!("-- beside them:\n{said}");
    match (told, told_beside) {
        (Err(error), Err(beside)) => Err(error.context(format!("{beside:#}, and"))),
        (told, told_beside) => told.and(told_beside),
    }
}

fn run_each(root: &Path, suites: &[Suite]) -> Result<()> {
    for suite in suites {
        println!("-- {}", suite.describe(root));
        let start = Instant::now();
        suite.run(root, &mut Command::new(&suite.program))?;
        println!("-- {:.1?}", start.elapsed());
    }
    Ok(())
}

fn run_idle(root: &Path, suites: &[Suite], log: &File) -> Result<()> {
    let [program, arguments @ ..] = IDLE;
    for suite in suites {
        let mut command = Command::new(program);
        let (out, err) = (log.try_clone()?, log.try_clone()?);
        command.args(arguments).arg(&suite.program);
        suite.run(root, command.stdout(out).stderr(err))?;
    }
    Ok(())
}

impl Suite {
    fn describe(&self, root: &Path) -> String {
        let folder = self.folder.strip_prefix(root).unwrap_or(&self.folder);
        folder.join(&self.name).display().to_string()
    }

    /// As cargo would run it.
    fn run(&self, root: &Path, command: &mut Command) -> Result<()> {
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        succeed(command).with_context(|| self.describe(root))
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

    #[test]
    fn a_program_that_fails_is_an_error_wherever_it_runs() {
        let folder = std::env::temp_dir();
        let log = folder.join(format!("holdfast-suites-{}", std::process::id()));
        let suite = |program: &str| {
            [Suite {
                folder: folder.clone(),
                name: program.to_owned(),
                program: program.into(),
            }]
        };
        let (good, bad) = (suite("true"), suite("false"));
        let run = |ones, beside| run_both(&folder, ones, beside, &log);
        assert!(run(&good, &good).is_ok());
        assert!(run(&bad, &good).is_err());
        assert!(run(&good, &bad).is_err());
        let both = run(&bad, &bad).unwrap_err();
        let both = format!("{both:#}");
        assert_eq!(both.matches("ended with").count(), 2, "{both}");
        fs::remove_file(log).unwrap();
    }
}
