//! The command line as other tools use it: JSON on stdout, talk on stderr, exit codes.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use crate::binary;
use crate::demo_file::VolumeShow;

/// Exit code of a command that was understood and failed.
pub const FAILED: i32 = 1;
/// Exit code of a command that was not understood.
pub const USAGE: i32 = 2;

/// Longest that any command may take that is not meant to go on; `timeout` then ends with 124.
const PATIENCE_SECONDS: &str = "60";

/// By what the demo that runs is reached: a process has one at a time.
static KEYS: Mutex<Option<Keys>> = Mutex::new(None);

/// By what a cluster is reached that has TLS.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// The authority's certificate, a file, and a token.
    Token { ca: String, token: String },
    /// A machine's credentials, a directory.
    Machine(String),
}

/// From now on commands trust this authority and show this token; or none.
pub(crate) fn show(keys: Option<Keys>) {
    *KEYS.lock().unwrap_or_else(PoisonError::into_inner) = keys;
}

/// Gives a command of `holdfast` the keys of the demo that runs, and none of the other variables that it looks at.
pub fn equip(command: &mut Command) {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    equip_with(keys.as_ref(), command);
}

fn equip_with(keys: Option<&Keys>, command: &mut Command) {
    for name in ["API", "TOKEN", "CA", "CREDENTIALS"] {
        command.env_remove(format!("HOLDFAST_{name}"));
    }
    match keys {
        Some(Keys::Token { ca, token }) => {
            command.env("HOLDFAST_CA", ca);
            command.env("HOLDFAST_TOKEN", token);
        }
        Some(Keys::Machine(directory)) => {
            command.env("HOLDFAST_CREDENTIALS", directory);
        }
        None => {}
    }
}

/// Runs `holdfast` with these arguments, by the keys of the demo that runs, and without the other variables that it looks at.
///
/// # Errors
/// It cannot be started.
pub fn run(arguments: &[&str]) -> Result<Output> {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    run_with(keys.as_ref(), arguments)
}

fn run_with(keys: Option<&Keys>, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new("timeout");
    command
        .arg(PATIENCE_SECONDS)
        .arg(binary::holdfast()?)
        .args(arguments);
    equip_with(keys, &mut command);
    command
        .output()
        .with_context(|| format!("run holdfast {arguments:?}"))
}

/// Runs a command that must succeed, and gives what it prints.
///
/// # Errors
/// It fails.
pub fn done(arguments: &[&str]) -> Result<Vec<u8>> {
    let output = run(arguments)?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "holdfast {arguments:?} ended with {}: {talk}",
        output.status
    );
    Ok(output.stdout)
}

/// Runs a command that must succeed with `--json`, and reads its one value.
///
/// # Errors
/// It fails, or prints anything else than one value that is as expected.
pub fn json<T: DeserializeOwned>(api: &str, arguments: &[&str]) -> Result<T> {
    let all = [&["--json", "--api", api], arguments].concat();
    let output = done(&all)?;
    serde_json::from_slice(&output).with_context(|| format!("read the answer of holdfast {all:?}"))
}

/// Runs a command that must fail with `code` and say something; returns what it said.
///
/// # Errors
/// It does not.
pub fn fails(code: i32, arguments: &[&str]) -> Result<String> {
    failed(code, arguments, &run(arguments)?)
}

/// The same, by somebody who trusts no authority and shows nothing but what the arguments say.
///
/// # Errors
/// It does not.
pub fn fails_for_nobody(code: i32, arguments: &[&str]) -> Result<String> {
    failed(code, arguments, &run_with(None, arguments)?)
}

fn failed(code: i32, arguments: &[&str], output: &Output) -> Result<String> {
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(code),
        "holdfast {arguments:?} ended with {}, not with {code}: {talk}",
        output.status
    );
    ensure!(!talk.trim().is_empty(), "an error says what is wrong");
    ensure!(!talk.contains("panicked"), "an error is no panic: {talk}");
    Ok(talk)
}

/// `holdfast volume show NAME`.
///
/// # Errors
/// It fails, or its answer is not as the contract says.
pub fn volume_show(api: &str, name: &str) -> Result<VolumeShow> {
    json(api, &["volume", "show", name])
}
