//! The steps of the gate, cheapest first.
//!
//! Invariants:
//! - no step writes anything outside the build directory and what git ignores in `console/`, and lock files are
//!   never changed;
//! - a step that has nothing to check yet (a crate that does not exist) is not in the list.

use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::made::Program;
use crate::process::succeed;
use crate::{
    bite, book, console, etcd, fuzz, licences, openapi, reference, schemathesis, suites, tidy,
};

/// Seeds that every run of the gate simulates.
const SEEDS_FIXED: u64 = 200;
/// Seeds that only this run simulates, so that the gate sees more of the world with every run.
const SEEDS_FRESH: u64 = 1000;

/// What simulates them.
const SIMULATOR: Program = Program::Bin("holdfast-sim");

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
const TESTS: Step = Step {
    name: "tests",
    run: suites::run,
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

/// The steps that this tree has something for.
fn steps(root: &Path) -> Vec<Step> {
    let mut steps = vec![
        // What is compiled has the console in it, so that comes first.
        FORMAT,
        TIDY,
        BOOK,
        LICENCES,
        CONSOLE,
        LINTS,
        DOCS,
        OPENAPI,
        REFERENCE,
        ETCD,
        TESTS,
        BROWSER,
        SCHEMATHESIS,
        FUZZ,
    ];
    if root.join("crates/sim/Cargo.toml").exists() {
        steps.push(SIMULATION);
    }
    steps
}

/// Prints the names of the steps.
pub(crate) fn list(root: &Path) {
    for step in steps(root) {
        println!("{}", step.name);
    }
}

/// Runs the steps named, or all of them, until one fails.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let steps = steps(root);
    for name in names {
        ensure!(
            steps.iter().any(|step| step.name == *name),
            "there is no step {name:?}; `cargo xtask ci --list` names them"
        );
    }
    let chosen: Vec<&Step> = steps
        .iter()
        .filter(|step| names.is_empty() || names.contains(&step.name))
        .collect();
    let start = Instant::now();
    for (index, step) in chosen.iter().enumerate() {
        println!("== {}/{} {}", index + 1, chosen.len(), step.name);
        let step_start = Instant::now();
        (step.run)(root).with_context(|| format!("step {} failed", step.name))?;
        println!("== {} passed in {:.1?}", step.name, step_start.elapsed());
    }
    println!("== all passed in {:.1?}", start.elapsed());
    Ok(())
}

/// Does what a machine can do about findings: formats the code, writes the interface's document and the reference.
pub(crate) fn fix(root: &Path) -> Result<()> {
    cargo::run(root, &["fmt", "--all"])?;
    openapi::write(root)?;
    reference::write(root)
}

fn simulate(root: &Path) -> Result<()> {
    let program = SIMULATOR.build(root)?;
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
}
