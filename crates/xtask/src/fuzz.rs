//! Coverage-guided fuzzing: builds the driver of `crates/fuzz` with what counts coverage, runs it, and
//! keeps what it finds in the build directory.
//!
//! The pinned toolchain is enough: the compiler's own pass counts, libFuzzer's driver is built from
//! the package that has its source, and no sanitizer is needed, for there is no `unsafe` in what is
//! fuzzed. Build scripts and procedural macros are built without any of that, because a target is named.
//!
//! Invariants:
//! - nothing outside of the build directory is written, unless `--keep` asks for it;
//! - a finding is an error, and comes with the command that shows it again; it stays one, run after run, until it is
//!   mended;
//! - a run that hardly ran anything is an error too.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::made::Program;
use crate::metadata;

mod bite;

pub(crate) use bite::BUGS;

/// Seconds for each target, unless told otherwise.
const SECONDS: u64 = 60;
/// Seconds for each target in the gate: long enough to find a mistake that is near what is kept.
const GATE_SECONDS: u64 = 12;
/// A run of fewer inputs has not looked: even without any that are new there are more in the corpus.
const INPUTS_MIN: u64 = 100;
/// What knows the targets, and what they begin with.
const TOOL: Program = Program::Bin("holdfast-fuzz");
/// The variable that names the target to the driver.
const TARGET: &str = "HOLDFAST_FUZZ_TARGET";
/// What counts the edges that are taken and shows the driver what is compared with what.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Bounds for one input: longer ones say nothing that several shorter ones do not, and one that takes
/// this long, or a process that grows to this, is a finding.
const BOUNDS: &[&str] = &["-max_len=4096", "-timeout=25", "-rss_limit_mb=1024"];

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    targets: Vec<&'a str>,
    seconds: u64,
    jobs: usize,
    keeps: bool,
}

/// What breaks something.
struct Finding {
    what: String,
    /// The input's file.
    file: String,
    /// It took too long or too much memory, which depends on the machine and on what else it does.
    is_of_bounds: bool,
}

/// Fuzzes what is asked for.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    if let ["bite", names @ ..] = words {
        return bite::run(root, names);
    }
    let wanted = arguments(words)?;
    let place = Place::of_tree(root)?;
    let targets = place.chosen(&wanted.targets)?;
    place.fuzz(&targets, wanted.seconds, wanted.jobs)?;
    if wanted.keeps {
        for target in &targets {
            place.keep(target)?;
        }
    }
    Ok(())
}

/// Runs every target for a short while, from what is kept.
pub(crate) fn gate(root: &Path) -> Result<()> {
    let place = Place::of_tree(root)?;
    let targets = place.chosen(&[])?;
    place.fuzz(&targets, GATE_SECONDS, jobs())
}

fn folder(root: &Path) -> Result<PathBuf> {
    Ok(metadata::target_directory(root)?.join("fuzz"))
}

/// As many as there are processors.
fn jobs() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn arguments<'a>(words: &[&'a str]) -> Result<Wanted<'a>> {
    let mut wanted = Wanted {
        targets: Vec::new(),
        seconds: SECONDS,
        jobs: jobs(),
        keeps: false,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut number = || {
            let value = rest.next().and_then(|value| value.parse::<u64>().ok());
            value.with_context(|| format!("{word} needs a number"))
        };
        match *word {
            "--seconds" => wanted.seconds = number()?,
            "--jobs" => wanted.jobs = usize::try_from(number()?)?.max(1),
            "--keep" => wanted.keeps = true,
            word if word.starts_with('-') => bail!("there is no option {word}"),
            word => wanted.targets.push(word),
        }
    }
    Ok(wanted)
}

/// Where everything is.
struct Place {
    root: PathBuf,
    /// `fuzz` in a build directory.
    folder: PathBuf,
    driver: PathBuf,
    targets: Vec<String>,
}

impl Place {
    /// That of the tree itself, whose programs are built as its tests are.
    fn of_tree(root: &Path) -> Result<Self> {
        Self::build(root, folder(root)?, |arguments| TOOL.print(root, arguments))
    }

    /// Builds the driver, and writes the inputs to begin with. `tool` runs the package's other program, and tells what it prints.
    fn build(
        root: &Path,
        folder: PathBuf,
        tool: impl Fn(&[&str]) -> Result<String>,
    ) -> Result<Self> {
        let host = host()?;
        let built = cargo::command()
            .args(["build", "--locked", "--quiet", "--package", "holdfast-fuzz"])
            .args(["--bin", "libfuzzer", "--features", "libfuzzer"])
            .args(["--profile", "checked", "--target", &host, "--target-dir"])
            .arg(&folder)
            .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
            .current_dir(root)
            .status()
            .context("run cargo")?;
        ensure!(
            built.success(),
            "the driver does not build; it needs a C++ compiler: `apt-get install g++`"
        );
        let seeds = folder.join("seeds");
        tool(&["--seeds", seeds.to_str().context("paths are text")?])?;
        let targets = tool(&["--list"])?;
        let targets = targets.lines().map(Into::into).collect();
        Ok(Self {
            root: root.into(),
            driver: folder.join(host).join("checked/libfuzzer"),
            folder,
            targets,
        })
    }

    fn chosen(&self, names: &[&str]) -> Result<Vec<&str>> {
        for name in names {
            ensure!(
                self.targets.iter().any(|target| target == name),
                "there is no target {name:?}; there are {}",
                self.targets.join(", ")
            );
        }
        let all = self.targets.iter().map(String::as_str);
        let chosen = all.filter(|target| names.is_empty() || names.contains(target));
        Ok(chosen.collect())
    }

    /// Where a target's inputs are that are kept beside the code.
    fn kept(&self, target: &str) -> PathBuf {
        self.root.join("crates/fuzz/corpus").join(target)
    }

    /// Where its inputs are that were found here.
    fn found(&self, target: &str) -> PathBuf {
        self.folder.join("corpus").join(target)
    }

    fn seeds(&self, target: &str) -> PathBuf {
        self.folder.join("seeds").join(target)
    }

    /// The driver, about to do something with a target.
    fn driver(&self, target: &str) -> Command {
        let mut driver = Command::new(&self.driver);
        driver
            .args(BOUNDS)
            .env(TARGET, target)
            .env("RUST_BACKTRACE", "0");
        driver
    }

    /// Runs once more what broke something in runs before this. What no longer does is an input as any other.
    fn run_findings(&self, target: &str) -> Result<()> {
        let folder = self.findings()?;
        let found = self.found(target);
        fs::create_dir_all(&found).with_context(|| format!("make {}", found.display()))?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for name in names.iter().filter(|name| is_finding_of(name, target)) {
            let file = folder.join(name);
            let output = self.driver(target).arg(&file).output();
            let output = output.context("run the driver")?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                let what = finding(&said).unwrap_or_else(|| said.to_string());
                bail!("as before: {}", told(target, &what, &file));
            }
            println!("fuzz: {target}: {name} breaks nothing any more");
            fs::rename(&file, found.join(name)).with_context(|| format!("move {name}"))?;
        }
        Ok(())
    }

    /// Runs targets, so many processes at a time. Where there are fewer targets than processes, several
    /// share one.
    fn fuzz(&self, targets: &[&str], seconds: u64, jobs: usize) -> Result<()> {
        for target in targets {
            self.run_findings(target)
                .with_context(|| format!("fuzz {target}"))?;
        }
        let processes = (jobs / targets.len()).max(1);
        let runs = targets
            .iter()
            .flat_map(|it| (0..processes).map(|process| (*it, process)));
        let waiting = Mutex::new(runs);
        let next = || waiting.lock().expect("nobody panics with it").next();
        let failed = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some((target, process)) = next() {
                        if let Err(error) = self.fuzz_one(target, process, seconds) {
                            eprintln!("fuzz: {target}: {error:#}");
                            failed.lock().expect("nobody panics with it").push(target);
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().expect("nobody panics with it");
        ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
        Ok(())
    }

    fn fuzz_one(&self, target: &str, process: usize, seconds: u64) -> Result<()> {
        let said = match self.search(target, &for_seconds(seconds))? {
            Ok(said) => said,
            Err(Finding { what, file, .. }) => bail!(told(target, &what, Path::new(&file))),
        };
        let inputs = inputs_run(&said)?;
        let process = match process {
            0 => String::new(),
            other => format!(" ({other})"),
        };
        println!(
            "fuzz: {target}{process}: {inputs} inputs, {} of them new, {} edges",
            stat(&said, "stat::new_units_added:").unwrap_or("?"),
            edges(&said).unwrap_or("?"),
        );
        Ok(())
    }

    /// Where what broke something lies.
    fn findings(&self) -> Result<PathBuf> {
        let folder = self.folder.join("findings");
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(folder)
    }

    /// Runs all inputs that are there, and new ones so long; what the driver said, or what was found.
    fn search(&self, target: &str, how_long: &str) -> Result<Result<String, Finding>> {
        let found = self.found(target);
        fs::create_dir_all(&found).with_context(|| format!("make {}", found.display()))?;
        let prefix = self.findings()?.join(format!("{target}-"));
        let output = self
            .driver(target)
            .arg(how_long)
            .arg(format!("-artifact_prefix={}", prefix.display()))
            .args(["-print_final_stats=1", "-reload=1"])
            .args([found, self.seeds(target), self.kept(target)])
            .output()
            .context("run the driver")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(Ok(said));
        }
        let file = said.lines().find_map(|line| line.split_once("written to "));
        let (_, file) = file.with_context(|| format!("it ended with {}: {said}", output.status))?;
        let file = file.trim().into();
        let what = finding(&said).unwrap_or_else(|| said.clone());
        let is_of_bounds = is_of_bounds(&said);
        Ok(Err(Finding {
            what,
            file,
            is_of_bounds,
        }))
    }

    /// Writes the fewest inputs that reach all that was ever reached to where they are kept.
    fn keep(&self, target: &str) -> Result<()> {
        let merged = self.folder.join("merged").join(target);
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        let kept = self.kept(target);
        fs::create_dir_all(&kept)?;
        let output = self
            .driver(target)
            // What edges are taken, not how often: or there would be thousands.
            .args(["-set_cover_merge=1", "-use_counters=0"])
            .args([&merged, &kept, &self.found(target), &self.seeds(target)])
            .output()
            .context("run the driver")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for entry in fs::read_dir(&kept)? {
            fs::remove_file(entry?.path())?;
        }
        let (mut files, mut bytes) = (0, 0);
        for entry in fs::read_dir(&merged)? {
            let entry = entry?;
            bytes += fs::copy(entry.path(), kept.join(entry.file_name()))?;
            files += 1;
        }
        println!("fuzz: {target}: {files} files of {bytes} bytes are kept");
        Ok(())
    }
}

/// The option for new inputs as long as this.
fn for_seconds(seconds: u64) -> String {
    format!("-max_total_time={seconds}")
}

/// A finding, and how it is seen again.
fn told(target: &str, what: &str, file: &Path) -> String {
    let file = file.display();
    format!("{what}\n\nhint: cargo run -p holdfast-fuzz -- {target} {file}")
}

/// Whether a file of that name is what broke a target.
fn is_finding_of(name: &str, target: &str) -> bool {
    let rest = name.strip_prefix(target);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// A number that the driver tells at its end.
fn stat<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    line.map(str::trim)
}

/// How many inputs were run.
///
/// # Errors
/// Too few, or it does not tell.
fn inputs_run(said: &str) -> Result<u64> {
    let inputs = stat(said, "stat::number_of_executed_units:");
    let inputs = inputs.and_then(|inputs| inputs.parse().ok());
    let inputs = inputs.with_context(|| format!("it does not tell what it ran: {said}"))?;
    ensure!(
        inputs >= INPUTS_MIN,
        "it ran {inputs} inputs, which says nothing: at least {INPUTS_MIN} are wanted\n\n\
         hint: give it more time (`--seconds`)"
    );
    Ok(inputs)
}

/// Whether the driver stopped for its bounds (`BOUNDS`), and not for a panic.
fn is_of_bounds(said: &str) -> bool {
    let bounds = ["timeout", "out-of-memory"].map(|what| format!("ERROR: libFuzzer: {what}"));
    bounds.iter().any(|bound| said.contains(bound))
}

/// What the driver says when it stops: the panic's message, or what else it was.
fn finding(said: &str) -> Option<String> {
    let mut lines = said.lines();
    let panicked = lines.by_ref().find(|line| line.contains("panicked at"));
    match panicked {
        Some(line) => Some(format!("{line}\n{}", lines.next().unwrap_or_default())),
        None => said
            .lines()
            .find(|line| line.contains("ERROR: "))
            .map(Into::into),
    }
}

/// How many edges the last line of progress tells of.
fn edges(said: &str) -> Option<&str> {
    let line = said.lines().rfind(|line| line.contains(" cov: "))?;
    let (_, rest) = line.split_once(" cov: ")?;
    rest.split_whitespace().next()
}

/// The machine that is built for and on.
fn host() -> Result<String> {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(&rustc)
        .arg("-vV")
        .output()
        .with_context(|| format!("run {}", rustc.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("the compiler says what it is")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_or_refused() {
        let wanted = arguments(&["pdu", "--seconds", "5", "--jobs", "2", "--keep", "cdb"]);
        let expected = Wanted {
            targets: vec!["pdu", "cdb"],
            seconds: 5,
            jobs: 2,
            keeps: true,
        };
        assert_eq!(wanted.unwrap(), expected);
        for wrong in [&["--seconds"][..], &["--jobs", "x"], &["--fast"]] {
            assert!(arguments(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_the_driver_says_is_understood() {
        let said = "INFO: Seed: 7\n#2\tINITED cov: 17 ft: 20 corp: 1/1b\n#9\tNEW    cov: 21 ft: 30\n\
                    thread '<unnamed>' (5) panicked at crates/fuzz/src/a.rs:3:9:\nit is bounded\n\
                    ==5== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(edges(said), Some("21"));
        let what = finding(said).unwrap();
        assert!(what.ends_with("crates/fuzz/src/a.rs:3:9:\nit is bounded"));
        let slow = "==5== ERROR: libFuzzer: timeout after 25 seconds\n";
        assert_eq!(finding(slow).unwrap(), slow.trim_end());
        assert_eq!(finding("nothing"), None);
        let large = "==5== ERROR: libFuzzer: out-of-memory (used: 1030Mb; limit: 1024Mb)\n";
        assert!(is_of_bounds(slow) && is_of_bounds(large));
        assert!(!is_of_bounds(said), "it panicked");
    }

    #[test]
    fn a_run_of_few_inputs_is_an_error() {
        let said = |inputs: &str| {
            format!("stat::number_of_executed_units: {inputs}\nstat::new_units_added:  0\n")
        };
        assert_eq!(inputs_run(&said("100")).unwrap(), 100);
        for too_few in ["99", "0", ""] {
            assert!(inputs_run(&said(too_few)).is_err(), "{too_few:?}");
        }
        assert!(inputs_run("Done").is_err(), "it does not tell");
    }

    #[test]
    fn findings_are_of_the_target_that_they_are_named_for() {
        assert!(is_finding_of("cdb-crash-0af1", "cdb"));
        assert!(is_finding_of("cdb-timeout-0af1", "cdb"));
        assert!(!is_finding_of("cdb", "cdb"));
        assert!(!is_finding_of("cdbs-crash-0af1", "cdb"));
        assert!(!is_finding_of("pdu-crash-0af1", "cdb"));
    }
}
