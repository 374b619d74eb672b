//! What benches measured, as text and as JSON: for people, for plots, and for the record in docs/figures, whose table is made here, too.
//!
//! Invariants:
//! - a file says of which commit it is, and on how many processors, and has one line for each result: it is read by people, too,
//!   and kept;
//! - a table has ratios of one run only: absolute figures mean nothing on another day.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_lab::meter::Latencies;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::revision;

/// What is wanted of a ratio, and what it is.
#[derive(Clone, Debug, Deserialize)]
pub struct Aim {
    /// Of what.
    #[serde(rename = "aim")]
    pub what: String,
    /// What is wanted.
    #[serde(flatten)]
    pub bound: Bound,
    /// What it is.
    pub ratio: f64,
}

/// What a ratio is to be.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// The median of some values, with the least and the most.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    least: f64,
    /// The value of which as many are less as are greater.
    pub median: f64,
    most: f64,
}

impl Spread {
    /// None of no values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            least: *values.first()?,
            median: values[values.len() / 2],
            most: *values.last()?,
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            least,
            median,
            most,
        } = self;
        write!(formatter, "{median:.2} ({least:.2}–{most:.2})")
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

/// Tells people a line of what was measured.
///
/// # Errors
/// Nobody reads.
pub fn say(line: &str) -> Result<()> {
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}

/// A time in microseconds.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
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

/// The aims of all that is kept in a directory, as a table in Markdown: a column for each directory in it, by name, of whose files
/// those of one bench follow each other. Nothing where nothing is kept.
///
/// # Errors
/// A file cannot be read, or is none of a bench's.
pub fn table(directory: &Path) -> Result<String> {
    let mut releases: Vec<(String, Vec<Aim>)> = Vec::new();
    for release in entries(directory)? {
        let path = directory.join(&release);
        if !path.is_dir() {
            continue;
        }
        let mut aims = Vec::new();
        for file in entries(&path)? {
            aims.extend(aims_in(&path.join(file))?);
        }
        releases.push((release, aims));
    }
    if releases.is_empty() {
        return Ok(String::new());
    }
    // Benches get more aims, and other bounds: what the newest has comes first.
    let mut rows: Vec<(String, String)> = Vec::new();
    for aim in releases.iter().rev().flat_map(|(_, aims)| aims) {
        let row = (aim.what.clone(), aim.bound.to_string());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let names: Vec<&str> = releases.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("| ratio | aim | {} |\n", names.join(" | "));
    writeln!(text, "|---|---|{}", "---|".repeat(names.len()))?;
    for row in rows {
        write!(text, "| {} | {} |", row.0, row.1)?;
        for (_, aims) in &releases {
            let mut aims = aims.iter();
            let cell = aims
                .find(|aim| (aim.what.as_str(), aim.bound.to_string()) == (&row.0, row.1.clone()));
            match cell {
                None => write!(text, " |")?,
                Some(aim) if aim.is_reached() => write!(text, " {:.2} |", aim.ratio)?,
                Some(aim) => write!(text, " **{:.2}** |", aim.ratio)?,
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// The names in a directory, in order.
fn entries(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = fs::read_dir(directory);
    for entry in entries.with_context(|| format!("list {}", directory.display()))? {
        let name = entry?.file_name().into_string().ok();
        names.push(name.context("names are UTF-8")?);
    }
    names.sort();
    Ok(names)
}

fn aims_in(path: &Path) -> Result<Vec<Aim>> {
    let read = || -> Result<Vec<Aim>> {
        let document: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        let results = document["results"].as_array();
        let results = results.context("a bench has results")?;
        let aims = results.iter().filter(|it| it.get("aim").is_some());
        let aims = aims.map(|aim| Ok(Aim::deserialize(aim)?));
        aims.collect()
    };
    read().with_context(|| format!("understand {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aim(what: &str, bound: Bound, ratio: f64) -> Value {
        let what = what.to_owned();
        Aim { what, bound, ratio }.json()
    }

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
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = Spread::of([3.0, 1.0, 2.5].into_iter()).unwrap();
        assert_eq!(spread.to_string(), "2.50 (1.00–3.00)");
        assert!(Spread::of(std::iter::empty()).is_none());
    }

    #[test]
    fn small_figures_keep_their_digits() {
        assert_eq!(rounded(0.123_46), 0.123);
        assert_eq!(rounded(99.987_6), 99.988);
        assert_eq!(rounded(123_456.7), 123_457.0);
    }

    #[test]
    fn a_table_has_a_column_for_each_release() {
        let directory = tempfile::tempdir().unwrap();
        let keep = |release: &str, file: &str, results: &[Value]| {
            let release = directory.path().join(release);
            fs::create_dir_all(&release).unwrap();
            let text = document(&json!({ "bench": file }), results).unwrap();
            fs::write(release.join(file), text).unwrap();
        };
        fs::write(directory.path().join("README.md"), "not one of them").unwrap();
        assert_eq!(table(directory.path()).unwrap(), "");
        let (least, most) = (Bound::AtLeast(0.5), Bound::AtMost(3.0));
        keep(
            "0.1",
            "b.json",
            &[aim("old", most, 1.0), aim("x", least, 0.4)],
        );
        keep(
            "0.2",
            "a.json",
            &[json!({ "iops": 1 }), aim("new", least, 0.5)],
        );
        keep(
            "0.2",
            "b.json",
            &[aim("x", least, 0.7), aim("old", Bound::AtMost(2.0), 2.5)],
        );
        let expected = "\
| ratio | aim | 0.1 | 0.2 |
|---|---|---|---|
| new | at least 0.50 | | 0.50 |
| x | at least 0.50 | **0.40** | 0.70 |
| old | at most 2.00 | | **2.50** |
| old | at most 3.00 | 1.00 | |
";
        assert_eq!(table(directory.path()).unwrap(), expected);
        keep("0.3", "c.json", &[json!({ "aim": "x", "ratio": 1.0 })]);
        assert!(table(directory.path()).is_err(), "an aim has a bound");
    }

    #[test]
    fn the_record_is_as_its_files_say() {
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
        let text = fs::read_to_string(record.join("README.md")).unwrap();
        let table = table(&record).unwrap();
        assert!(
            text.contains(&table),
            "docs/figures/README.md lacks\n{table}"
        );
    }
}
