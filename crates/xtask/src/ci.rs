//! The steps of the gate: those that take moments first.
//!
//! Some only compute, for minutes, while the end-to-end tests, which take longest, mostly wait: those run beside the tests, on
//! processors that nobody else wants. Whoever wants to know sooner runs them alone.
//!
//! Invariants:
//! - what runs beside the tests judges nothing by the time that it takes;
//! - no step writes anything outside the build directory and what git ignores in `console/`, and lock files are
//!   never changed;
//! - a step that has nothing to check yet (a crate that does not exist) is not in the list.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};

use crate::made::Program;
use crate::process::{idle, succeed};
use crate::{
    bite, book, cargo, console, etcd, fuzz, licences, metadata, openapi, reference, schemathesis,
    suites, tidy,
};

/// Seeds that every run of the gate simulates.
const SEEDS_FIXED: u64 = 200;
/// Seeds that only this run simulates, so that the gate sees more of the world with every run.
const SEEDS_FRESH: u64 = 1000;

/// What simulates them.
const SIMULATES: Program = Program::Bin("holdfast-sim");

/// What steps that run beside the tests say, in the build directory.
const LOG: &str = "beside-tests.log";

struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<()>,
}

const FORMAT: Step = Step {
    name: "format",
    run: |root| {
        // Only the names of the files: `cargo xtask fix` shows the rest by doing it.
        cargo::run(
            root,
            &["fmt", "--all", "--check", "--", "--files-with-diff"],
        )
        .context("`cargo xtask fix` formats these files")
    },
};
const TIDY: Step = Step {
    name: "tidy",
    run: |root| {
        tidy::run(root)?;
        bite::all_fit(root)
    },
};
const BOOK: Step = Step {
    name: "book",
    run: book::check,
};
const LICENCES: Step = Step {
    name: "licences",
    run: licences::run,
};
const LINTS: Step = Step {
    name: "lints",
    run: |root| {
        cargo::run(
            root,
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        )
    },
};
const DOCS: Step = Step {
    name: "docs",
    run: |root| {
        succeed(
            cargo::command()
                .args(["doc", "--workspace", "--no-deps", "--locked"])
                .env("RUSTDOCFLAGS", "-D warnings")
                .current_dir(root),
        )
    },
};
const OPENAPI: Step = Step {
    name: "openapi",
    run: openapi::check,
};
const REFERENCE: Step = Step {
    name: "reference",
    run: reference::check,
};
const CONSOLE: Step = Step {
    name: "console",
    run: console::check,
};
const ETCD: Step = Step {
    name: "etcd",
    run: etcd::build,
};
const BUILD: Step = Step {
    name: "build",
    run: suites::build,
};
const TESTS: Step = Step {
    name: "tests",
    run: suites::run,
};
const SIMULATOR: Step = Step {
    name: "simulator",
    run: suites::run_simulator,
};
const BROWSER: Step = Step {
    name: "browser",
    run: console::check_in_browser,
};
const SCHEMATHESIS: Step = Step {
    name: "schemathesis",
    run: schemathesis::run,
};
const FUZZ: Step = Step {
    name: "fuzz",
    run: fuzz::gate,
};
const SIMULATION: Step = Step {
    name: "simulation",
    run: simulate,
};

/// All of them.
const STEPS: &[Step] = &[
    // What is compiled has the console in it, so that comes first.
    FORMAT,
    TIDY,
    BOOK,
    LICENCES,
    CONSOLE,
    BUILD,
    OPENAPI,
    REFERENCE,
    ETCD,
    TESTS,
    SIMULATOR,
    FUZZ,
    SIMULATION,
    LINTS,
    DOCS,
    BROWSER,
    SCHEMATHESIS,
];
/// Those that run beside the tests, where these run.
const BESIDE_TESTS: &[&str] = &[
    SIMULATOR.name,
    FUZZ.name,
    SIMULATION.name,
    LINTS.name,
    DOCS.name,
];

/// Prints the names of the steps.
pub(crate) fn list() {
    for step in STEPS {
        println!("{}", step.name);
    }
}

/// Runs the steps named, or all of them, until one fails.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        ensure!(
            STEPS.iter().any(|step| step.name == *name),
            "there is no step {name:?}; `cargo xtask ci --list` names them"
        );
    }
    let is_chosen = |name: &str| names.is_empty() || names.contains(&name);
    let is_beside = |name: &str| is_chosen(TESTS.name) && BESIDE_TESTS.contains(&name);
    let chosen = STEPS.iter().filter(|step| is_chosen(step.name));
    let (beside, chosen): (Vec<&Step>, Vec<&Step>) = chosen.partition(|step| is_beside(step.name));
    let beside: Vec<&str> = beside.iter().map(|step| step.name).collect();
    let start = Instant::now();
    for (index, step) in chosen.iter().enumerate() {
        println!("== {}/{} {}", index + 1, chosen.len(), step.name);
        let step_start = Instant::now();
        if step.name == TESTS.name && !beside.is_empty() {
            println!("== beside it, shown at its end: {}", beside.join(", "));
            let mut others = cargo::command();
            others.args(["xtask", "ci"]).args(&beside).current_dir(root);
            let log = metadata::target_directory(root)?.join(LOG);
            run_beside(|| (step.run)(root), &mut idle(&others), &log)
        } else {
            (step.run)(root)
        }
        .with_context(|| format!("step {} failed", step.name))?;
        println!("== {} passed in {:.1?}", step.name, step_start.elapsed());
    }
    println!("== all passed in {:.1?}", start.elapsed());
    Ok(())
}

/// Runs the one, and the others beside it; what these have said is shown at the end.
fn run_beside(run: impl FnOnce() -> Result<()>, others: &mut Command, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    others.stdout(file.try_clone()?).stderr(file);
    let (told, told_beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| succeed(others));
        let told = run();
        let panicked = |_| Err(anyhow!("what runs beside it has panicked"));
        (told, beside.join().unwrap_or_else(panicked))
    });
    let said = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    println!("-- beside it:\n{said}");
    match (told, told_beside) {
        (Err(error), Err(beside)) => Err(error.context(format!("{beside:#}, and"))),
        (told, told_beside) => told.and(told_beside),
    }
}

/// Does what a machine can do about findings: formats the code, writes the interface's document and the reference.
pub(crate) fn fix(root: &Path) -> Result<()> {
    cargo::run(root, &["fmt", "--all"])?;
    openapi::write(root)?;
    reference::write(root)
}

fn simulate(root: &Path) -> Result<()> {
    let program = SIMULATES.build(root)?;
    let fresh = fresh_seed()?;
    let ranges = [
        format!("0..{SEEDS_FIXED}"),
        format!("{fresh}..{}", fresh + SEEDS_FRESH),
    ];
    for range in ranges {
        succeed(Command::new(&program).args(["--seeds", &range]))?;
    }
    Ok(())
}

/// A seed that no earlier run had: the microsecond of its start, far from the fixed seeds.
fn fresh_seed() -> Result<u64> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("read the clock")?;
    let seed = u64::try_from(now.as_micros()).context("fit the clock into a seed")?;
    ensure!(seed > SEEDS_FIXED, "the clock stands at its origin");
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_steps_are_refused_before_anything_runs() {
        let error = run(&crate::root(), &["tidy", "no-such-step"]).unwrap_err();
        assert!(error.to_string().contains("no-such-step"));
    }

    #[test]
    fn what_fails_is_an_error_wherever_it_runs() {
        let folder = std::env::temp_dir();
        let log = folder.join(format!("holdfast-beside-{}", std::process::id()));
        let run = |one: &str, other: &str| {
            let one = || succeed(&mut Command::new(one));
            run_beside(one, &mut idle(&Command::new(other)), &log)
        };
        assert!(run("true", "true").is_ok());
        assert!(run("false", "true").is_err());
        assert!(run("true", "false").is_err());
        let both = run("false", "false").unwrap_err();
        let both = format!("{both:#}");
        assert_eq!(both.matches("ended with").count(), 2, "{both}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn what_runs_beside_the_tests_is_a_step_after_them() {
        let position = |name: &str| STEPS.iter().position(|step| step.name == name);
        let tests = position(TESTS.name);
        assert!(BESIDE_TESTS.iter().all(|name| position(name) > tests));
    }
}
