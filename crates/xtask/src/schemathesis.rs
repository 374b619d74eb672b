//! The interface as its document describes it: a demo is started, and schemathesis asks it whatever the document allows, and much that
//! it does not.
//!
//! It refuses to look at `/api/v1/events`, which is a stream without an end, and whether what the document allows is done: a volume of
//! no bytes is a well-formed request, and refused.
//!
//! Invariants:
//! - what is answered is listed at the route itself: the document's `default`, which would let everything pass, is taken out before;
//! - what runs is what `crates/xtask/schemathesis/requirements.txt` names, installed into the build directory;
//! - the demo has a directory and ports of its own, and has ended when this has.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::succeed;
use crate::{metadata, openapi};

/// What is installed.
const REQUIREMENTS: &str = "crates/xtask/schemathesis/requirements.txt";
/// What is judged of each answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,unsupported_method,negative_data_rejection";
/// A stream: whoever reads it to its end waits for ever.
const STREAM: &str = "/api/v1/events";
/// It would revoke the token that it asks with, which the listing names, and be nobody from then on.
const TOKEN: &str = "/api/v1/tokens/{id}";
/// Requests of each route, beside those that its parameters' limits ask for.
const EXAMPLES: &str = "50";
/// Seconds that it may take: it takes some three minutes.
const SECONDS_MAX: u64 = 300;
/// How long the demo may take to serve, and to end.
const DEMO_PATIENCE: Duration = Duration::from_secs(60);
/// The first port that is tried, how far the next try is away, and where they end: below those that systems give out.
const PORTS: (u16, u16, u16) = (20_000, 400, 31_000);
/// Ports that a demo of three nodes takes above its API's, and above its portals'.
const API_PORTS: [u16; 10] = [0, 1, 2, 3, 100, 101, 102, 103, 200, 201];
const PORTAL_DISTANCE: u16 = 300;
const PORTALS: u16 = 3;

/// Installs what is needed, starts a demo, and asks.
pub(crate) fn run(root: &Path) -> Result<()> {
    let built = metadata::target_directory(root)?;
    let tool = install(root, &built)?;
    let document = built.join("schemathesis-document.json");
    let kept = fs::read_to_string(root.join(openapi::KEPT))
        .with_context(|| format!("read {}", openapi::KEPT))?;
    fs::write(&document, strict(&kept)?).context("write the document that is asked by")?;
    let program = built.join("debug/holdfast");
    let program = std::env::var_os("HOLDFAST_BIN").map_or(program, PathBuf::from);
    ensure!(
        program.is_file(),
        "{} is not built: `cargo build -p holdfast`, or name another in HOLDFAST_BIN",
        program.display()
    );
    let demo = Demo::start(&program, built.join("schemathesis-demo"))?;
    let told = demo.told()?;
    let mut command = Command::new(tool);
    command
        .arg("run")
        .arg(&document)
        .args(["--url", text(&told, "api")?, "--checks", CHECKS])
        .args(["--exclude-path", STREAM])
        .args(["--exclude-path", TOKEN])
        .args(["--phases", "coverage,fuzzing"])
        // One thread: with several, Python 3.11 now and then fails to parse its own sources ("AST constructor recursion depth
        // mismatch"), and the run ends with an error that is none of the interface's.
        .args(["--max-examples", EXAMPLES, "--workers", "1"])
        .args(["--request-timeout", "30"])
        .args(["--continue-on-failure", "--warnings", "off"])
        // It keeps what it has found beside itself, and nothing in the repository.
        .current_dir(&built);
    if let Some(token) = told["token"].as_str() {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    if let Some(authority) = told["ca"].as_str() {
        command.args(["--tls-verify", authority]);
    }
    let asking = command.spawn().context("start schemathesis")?;
    let status = Ending(asking).within(Duration::from_secs(SECONDS_MAX), "schemathesis")?;
    ensure!(
        status,
        "schemathesis has found what the document does not say: see above"
    );
    Ok(())
}

/// The program, which is installed if it is not there, or if other versions are wanted.
fn install(root: &Path, built: &Path) -> Result<PathBuf> {
    let wanted = root.join(REQUIREMENTS);
    let (folder, has) = (built.join("schemathesis"), "requirements.txt");
    let program = folder.join("bin/st");
    let named = fs::read(&wanted).with_context(|| format!("read {REQUIREMENTS}"))?;
    if program.is_file() && fs::read(folder.join(has)).is_ok_and(|had| had == named) {
        return Ok(program);
    }
    println!(
        "schemathesis: installing it into {}, once",
        folder.display()
    );
    succeed(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder),
    )
    .context("make a Python environment; Debian has it in python3-venv")?;
    succeed(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(["--only-binary", ":all:", "--no-deps", "--requirement"])
            .arg(&wanted),
    )
    .context("install schemathesis; packages come from PyPI, which the network may refuse")?;
    fs::write(folder.join(has), named).context("note what was installed")?;
    Ok(program)
}

/// The document without the answer that stands for all others.
fn strict(document: &str) -> Result<String> {
    let mut document: Value = serde_json::from_str(document).context("read the document")?;
    let paths = document["paths"].as_object_mut();
    let paths = paths.context("the document has paths")?;
    let operations = paths
        .values_mut()
        .filter_map(Value::as_object_mut)
        .flat_map(|methods| methods.values_mut());
    for operation in operations {
        let answers = operation["responses"].as_object_mut();
        let answers = answers.context("each method has answers")?;
        ensure!(
            answers.remove("default").is_some() && !answers.is_empty(),
            "a method has nothing but a default, or none"
        );
    }
    Ok(document.to_string())
}

fn text<'a>(told: &'a Value, key: &str) -> Result<&'a str> {
    told[key]
        .as_str()
        .with_context(|| format!("demo.json has no {key}"))
}

/// A process that ends with this.
struct Ending(Child);

impl Ending {
    /// Whether it succeeds.
    fn within(mut self, time_max: Duration, name: &str) -> Result<bool> {
        let deadline = Instant::now() + time_max;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            ensure!(
                Instant::now() < deadline,
                "{name} takes more than {} s",
                time_max.as_secs()
            );
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A demo, which ends with this.
struct Demo {
    process: Child,
    directory: PathBuf,
}

impl Demo {
    fn start(program: &Path, directory: PathBuf) -> Result<Self> {
        let api = free_ports().context("find ports that are free")?;
        fs::create_dir_all(&directory)?;
        let log = fs::File::create(directory.with_extension("log"))?;
        let process = Command::new(program)
            .args(["demo", "--fresh", "--device-size", "2GiB"])
            .args(["--cache", "16MiB", "--volume", "demo:256MiB:mirror2"])
            .args(["--api-port", &api.to_string()])
            .args(["--portal-port", &(api + PORTAL_DISTANCE).to_string()])
            .arg("--dir")
            .arg(&directory)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .context("start a demo")?;
        Ok(Self { process, directory })
    }

    /// What `demo.json` says, once its volume is there.
    fn told(&self) -> Result<Value> {
        let deadline = Instant::now() + DEMO_PATIENCE;
        while Instant::now() < deadline {
            let told = fs::read(self.directory.join("demo.json")).ok();
            let told = told.and_then(|told| serde_json::from_slice::<Value>(&told).ok());
            let is_whole = |told: &Value| {
                let volumes = told["volumes"].as_array();
                volumes.is_some_and(|volumes| !volumes.is_empty())
            };
            if let Some(told) = told.filter(is_whole) {
                return Ok(told);
            }
            sleep(Duration::from_millis(100));
        }
        bail!(
            "the demo does not serve; it says so in {}",
            self.directory.with_extension("log").display()
        )
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It is asked to end, so that its nodes end with it.
        let asked = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let deadline = Instant::now() + DEMO_PATIENCE;
        while asked.is_ok() && Instant::now() < deadline {
            if let Ok(Some(_)) = self.process.try_wait() {
                drop(fs::remove_dir_all(&self.directory));
                return;
            }
            sleep(Duration::from_millis(100));
        }
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A port from which on a demo's are free at the moment.
fn free_ports() -> Option<u16> {
    let (first, step, end) = PORTS;
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let is_free_from = |api: &u16| {
        let portals = (0..PORTALS).map(|portal| PORTAL_DISTANCE + portal);
        let mut wanted = API_PORTS.into_iter().chain(portals);
        wanted.all(|above| is_free(api + above))
    };
    (first..end).step_by(usize::from(step)).find(is_free_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_because_everything_may_be_answered() {
        let kept = fs::read_to_string(crate::root().join(openapi::KEPT)).unwrap();
        let strict = strict(&kept).unwrap();
        assert!(kept.contains("\"default\": {") && !strict.contains("\"default\":{\"content\""));
        assert!(strict.contains("\"503\":"));
        let bare = r#"{"paths":{"/a":{"get":{"responses":{"default":{}}}}}}"#;
        assert!(super::strict(bare).is_err());
    }

    #[test]
    fn each_version_is_named() {
        let text = fs::read_to_string(crate::root().join(REQUIREMENTS)).unwrap();
        let mut packages = text.lines().filter(|line| !line.starts_with('#'));
        assert!(packages.clone().any(|it| it.starts_with("schemathesis==")));
        assert!(packages.all(|it| it.contains("==")));
    }
}
