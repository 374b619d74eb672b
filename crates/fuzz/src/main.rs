//! Runs inputs of a fuzz target, one after the other: what `cargo xtask fuzz` says about a finding.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool talks to its caller"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdfast_fuzz::{TARGETS, Target};

const USAGE: &str = "\
usage: holdfast-fuzz TARGET FILE...   run these inputs
       holdfast-fuzz --seeds FOLDER   write the inputs to begin with into FOLDER/TARGET
       holdfast-fuzz --list           list the targets";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["--list"] => {
            for target in TARGETS {
                println!("{}", target.name);
            }
            Ok(())
        }
        ["--seeds", folder] => write_seeds(Path::new(folder)),
        [name, files @ ..] if !files.is_empty() => run(name, files),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, files: &[&str]) -> Result<()> {
    let Some(target) = Target::find(name) else {
        bail!("there is no target {name:?}; --list names them");
    };
    for file in files {
        let input = fs::read(file).with_context(|| format!("read {file}"))?;
        println!("{file}: {} bytes", input.len());
        (target.run)(&input);
    }
    Ok(())
}

fn write_seeds(folder: &Path) -> Result<()> {
    for target in TARGETS {
        let place: PathBuf = folder.join(target.name);
        fs::create_dir_all(&place).with_context(|| format!("make {}", place.display()))?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            let file = place.join(format!("seed-{index:03}"));
            fs::write(&file, seed).with_context(|| format!("write {}", file.display()))?;
        }
    }
    Ok(())
}
