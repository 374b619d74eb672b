//! `holdfast recover`, as an operator gives it.

use std::fs;

use anyhow::Result;
use serde_json::Value;

use crate::Demo;
use crate::cli::done;

/// What a step of it says with `--json`.
///
/// # Errors
/// It fails.
pub fn recover(arguments: &[&str]) -> Result<Value> {
    let all = [&["--json", "recover"], arguments].concat();
    Ok(serde_json::from_slice(&done(&all)?)?)
}

/// The report of each node of a demo that does not run, as a file.
///
/// # Errors
/// One cannot be read.
pub fn read_reports(demo: &Demo) -> Result<Vec<String>> {
    let read = |node: &String| {
        let directory = demo.path(node).display().to_string();
        let report = done(&["recover", "read", &directory])?;
        let path = demo.scratch(format!("{node}.json"));
        fs::write(&path, report)?;
        Ok(path.display().to_string())
    };
    demo.node_names().iter().map(read).collect()
}
