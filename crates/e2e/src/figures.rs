//! What benches measured, as JSON: for plots, and to be kept.
//!
//! Invariants:
//! - a file says of which commit it is, and on how many processors, and has one line for each result: it is read by people, too,
//!   and kept.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};
use holdfast_lab::meter::Latencies;
use serde_json::{Value, json};

use crate::revision;

/// What is wanted of a ratio, and what it is.
#[derive(Clone, Debug)]
pub struct Aim {
    /// Of what.
    pub what: String,
    /// What is wanted.
    pub bound: Bound,
    /// What it is.
    pub ratio: f64,
}

/// What a ratio is to be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// That, or more.
    AtLeast(f64),
    /// That, or less.
    AtMost(f64),
}

impl Aim {
    /// Whether it is as is wanted.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.ratio >= bound,
            Bound::AtMost(bound) => self.ratio <= bound,
        }
    }

    /// As a result in a file.
    #[must_use]
    pub fn json(&self) -> Value {
        let (name, bound) = match self.bound {
            Bound::AtLeast(bound) => ("at_least", bound),
            Bound::AtMost(bound) => ("at_most", bound),
        };
        let (ratio, is_reached) = (rounded(self.ratio), self.is_reached());
        json!({ "aim": self.what, name: bound, "ratio": ratio, "reached": is_reached })
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_reached() {
            "reached"
        } else {
            "NOT REACHED"
        };
        let Self { what, bound, ratio } = self;
        write!(formatter, "aim: {what} {bound}: {ratio:.2}, {verdict}")
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(formatter, "at least {bound:.2}"),
            Self::AtMost(bound) => write!(formatter, "at most {bound:.2}"),
        }
    }
}

/// Writes what `bench` found: what is true of all of the run, and a line for each result.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bench: &str, run: &Value, results: &[Value]) -> Result<()> {
    let about = json!({
        "bench": bench,
        "commit": revision::described()?,
        "processors": available_parallelism()?.get(),
        "run": run,
    });
    let text = document(&about, results)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// `about` with the results as one more member, each in a line of its own.
fn document(about: &Value, results: &[Value]) -> Result<String> {
    let members = about.as_object().context("what is told is an object")?;
    ensure!(!members.contains_key("results"), "results are told once");
    let mut text = String::from("{\n");
    for (name, value) in members {
        writeln!(text, "  {}: {value},", json!(name))?;
    }
    let results: Vec<String> = results.iter().map(|it| format!("\n    {it}")).collect();
    writeln!(text, "  \"results\": [{}\n  ]\n}}", results.join(","))?;
    Ok(text)
}

/// A figure as it is told: to a thousandth, and to a whole one where it is large. More is noise.
#[must_use]
pub fn rounded(figure: f64) -> f64 {
    if figure >= 1000.0 {
        figure.round()
    } else {
        (figure * 1000.0).round() / 1000.0
    }
}

/// What is told of latencies, in microseconds.
#[must_use]
pub fn latencies(latencies: &Latencies) -> Value {
    let micros = |percent| latencies.percentile(percent).as_micros() as u64;
    json!({
        "count": latencies.count(),
        "p50_us": micros(50.0),
        "p99_us": micros(99.0),
        "p99.9_us": micros(99.9),
        "max_us": latencies.max().as_micros() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_json_with_a_line_for_each_result() {
        let about = json!({ "bench": "x \"y\"", "run": { "rounds": 2 } });
        let results = [json!({ "a": [1, 2] }), json!({ "a": [] })];
        let text = document(&about, &results).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["bench"], "x \"y\"");
        assert_eq!(read["run"]["rounds"], 2);
        assert_eq!(read["results"], json!(results));
        let lines = text.lines().filter(|line| line.contains("\"a\""));
        assert_eq!(lines.count(), 2);
        assert!(serde_json::from_str::<Value>(&document(&about, &[]).unwrap()).is_ok());
        assert!(document(&json!({ "results": 1 }), &[]).is_err());
    }

    #[test]
    fn small_figures_keep_their_digits() {
        assert_eq!(rounded(0.123_46), 0.123);
        assert_eq!(rounded(99.987_6), 99.988);
        assert_eq!(rounded(123_456.7), 123_457.0);
    }
}
