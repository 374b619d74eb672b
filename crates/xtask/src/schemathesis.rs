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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::demo::Demo;
use crate::process::{Ending, succeed};
use crate::{metadata, openapi};

/// What is installed.
const REQUIREMENTS: &str = "crates/xtask/schemathesis/requirements.txt";
/// What is judged of each answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,unsupported_method,negative_data_rejection";
/// A stream: whoever reads it to its end waits for ever.
const STREAM: &str = "/api/v1/events";
/// It would revoke the token that it asks with, which the listing names, and be nobody from then on: so it is asked in a run of
/// its own, which no listing has told an id, and draws them.
const TOKEN: &str = "/api/v1/tokens/{id}";
/// Requests of each route, beside those that its parameters' limits ask for.
const EXAMPLES: &str = "50";
/// Seconds that it may take: it takes some three minutes.
const SECONDS_MAX: u64 = 300;

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
    let directory = built.join("schemathesis-demo");
    let demo = Demo::start(&mut Command::new(program), directory.clone(), &directory)?;
    let told = demo.told()?;
    let deadline = Instant::now() + Duration::from_secs(SECONDS_MAX);
    let rest = ["--exclude-path", STREAM, "--exclude-path", TOKEN];
    for paths in [&rest[..], &["--include-path", TOKEN]] {
        let mut command = asking(&tool, &document, &told, paths)?;
        // It keeps what it has found beside itself, and nothing in the repository.
        let asks = command.current_dir(&built).spawn();
        let asks = asks.context("start schemathesis")?;
        let left = deadline.saturating_duration_since(Instant::now());
        let status = Ending(asks).within(left, "schemathesis")?;
        ensure!(
            status,
            "schemathesis has found what the document does not say: see above"
        );
    }
    Ok(())
}

/// How these paths are asked.
fn asking(tool: &Path, document: &Path, told: &Value, paths: &[&str]) -> Result<Command> {
    let mut command = Command::new(tool);
    command
        .arg("run")
        .arg(document)
        .args(["--url", text(told, "api")?, "--checks", CHECKS])
        .args(paths)
        .args(["--phases", "coverage,fuzzing"])
        // One thread: with several, Python 3.11 now and then fails to parse its own sources ("AST constructor recursion depth
        // mismatch"), and the run ends with an error that is none of the interface's.
        .args(["--max-examples", EXAMPLES, "--workers", "1"])
        .args(["--request-timeout", "30"])
        .args(["--continue-on-failure", "--warnings", "off"]);
    if let Some(token) = told["token"].as_str() {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    if let Some(authority) = told["ca"].as_str() {
        command.args(["--tls-verify", authority]);
    }
    Ok(command)
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
