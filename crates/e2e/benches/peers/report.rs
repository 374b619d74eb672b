//! What was measured, as text and as JSON: medians of the runs with the least and the most, and the ratio of Holdfast to each peer,
//! run by run.
//!
//! Invariants:
//! - a ratio is one of two measurements that followed each other; of ratios the median is told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use holdfast_lab::bench::BenchReport;
use serde_json::{Value, json};

use crate::contestants::HOLDFAST;
use crate::workloads::{Aim, Workload};

/// What is told of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Commands in a second.
    Rate,
    /// Megabytes (10⁶) in a second.
    Megabytes,
    /// The latency that half of the commands did not exceed, in microseconds.
    Median,
    /// That 99 of 100 did not exceed.
    P99,
    /// That 999 of 1,000 did not exceed.
    P999,
    /// Processor time of all processes that serve, for a command, in microseconds.
    ServerTime,
    /// That of the load itself.
    ClientTime,
}

impl Figure {
    const ALL: [Self; 7] = [
        Self::Rate,
        Self::Megabytes,
        Self::Median,
        Self::P99,
        Self::P999,
        Self::ServerTime,
        Self::ClientTime,
    ];

    /// Its name in a table and in JSON.
    const fn name(self) -> &'static str {
        match self {
            Self::Rate => "iops",
            Self::Megabytes => "MB/s",
            Self::Median => "p50_us",
            Self::P99 => "p99_us",
            Self::P999 => "p99.9_us",
            Self::ServerTime => "cpu_us",
            Self::ClientTime => "client_us",
        }
    }

    const fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::Megabytes)
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample(BTreeMap<Figure, f64>);

impl Sample {
    pub(crate) fn new(report: &BenchReport, server_time: Duration, client_time: Duration) -> Self {
        let latencies = report.latencies();
        let count = latencies.count().max(1) as f64;
        let latency = |percent| micros(latencies.percentile(percent));
        let figure = |figure| match figure {
            Figure::Rate => report.commands_per_second(),
            Figure::Megabytes => report.megabytes_per_second(),
            Figure::Median => latency(50.0),
            Figure::P99 => latency(99.0),
            Figure::P999 => latency(99.9),
            Figure::ServerTime => micros(server_time) / count,
            Figure::ClientTime => micros(client_time) / count,
        };
        Self(Figure::ALL.map(|it| (it, figure(it))).into())
    }

    fn figure(&self, figure: Figure) -> f64 {
        self.0[&figure]
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Measurements of one load, of each contestant in order, run by run.
pub(crate) struct Outcome {
    pub(crate) workload: &'static Workload,
    pub(crate) samples: Vec<(&'static str, Vec<Sample>)>,
}

impl Outcome {
    /// As a table, and what became of the aims.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.workload.what, self.workload.name);
        let names = Figure::ALL.map(Figure::name);
        let _ = write!(text, "  {:<13}", "");
        for name in names {
            let _ = write!(text, " {name:>18}");
        }
        text.push('\n');
        for (contestant, samples) in &self.samples {
            let _ = write!(text, "  {contestant:<13}");
            for figure in Figure::ALL {
                let values = samples.iter().map(|sample| sample.figure(figure));
                let median = Spread::of(values).median;
                let digits = usize::from(median < 100.0);
                let _ = write!(text, " {median:>18.digits$}");
            }
            text.push('\n');
        }
        for (peer, _) in self.peers() {
            let _ = write!(text, "  / {peer:<11}");
            for figure in Figure::ALL {
                let _ = write!(text, " {:>18}", self.ratios(figure, peer).text());
            }
            text.push('\n');
        }
        for aim in self.workload.aims {
            if let Some((ratio, reached)) = self.judge(aim) {
                let name = aim.figure.name();
                let wanted = if aim.figure.more_is_better() {
                    "at least"
                } else {
                    "at most"
                };
                let verdict = if reached { "reached" } else { "NOT REACHED" };
                let _ = writeln!(
                    text,
                    "  aim: {name} {wanted} {:.2} × {}: {ratio:.2}, {verdict}",
                    aim.bound, aim.peer
                );
            }
        }
        text
    }

    fn peers(&self) -> impl Iterator<Item = &(&'static str, Vec<Sample>)> {
        self.samples.iter().filter(|(name, _)| *name != HOLDFAST)
    }

    fn of(&self, contestant: &str) -> &[Sample] {
        let found = self.samples.iter().find(|(name, _)| *name == contestant);
        found.map_or(&[], |(_, samples)| samples)
    }

    /// Holdfast's figure by the peer's, of each run.
    fn ratios(&self, figure: Figure, peer: &str) -> Spread {
        let pairs = self.of(HOLDFAST).iter().zip(self.of(peer));
        Spread::of(pairs.map(|(ours, theirs)| ours.figure(figure) / theirs.figure(figure)))
    }

    /// The ratio that an aim is about, and whether it is reached; none if the peer was not measured.
    fn judge(&self, aim: &Aim) -> Option<(f64, bool)> {
        if self.of(aim.peer).is_empty() || self.of(HOLDFAST).is_empty() {
            return None;
        }
        let ratio = self.ratios(aim.figure, aim.peer).median;
        let reached = if aim.figure.more_is_better() {
            ratio >= aim.bound
        } else {
            ratio <= aim.bound
        };
        Some((ratio, reached))
    }

    /// Every figure of every run.
    pub(crate) fn json(&self) -> Value {
        let contestants = self.samples.iter().map(|(name, samples)| {
            let figures = Figure::ALL.map(|figure| {
                let runs: Vec<f64> = samples.iter().map(|it| it.figure(figure)).collect();
                let median = Spread::of(runs.iter().copied()).median;
                (
                    figure.name().to_owned(),
                    json!({ "median": median, "runs": runs }),
                )
            });
            let figures: serde_json::Map<String, Value> = figures.into_iter().collect();
            ((*name).to_owned(), Value::Object(figures))
        });
        let contestants: serde_json::Map<String, Value> = contestants.collect();
        let aims = self.workload.aims.iter().filter_map(|aim| {
            let (ratio, reached) = self.judge(aim)?;
            Some(json!({
                "figure": aim.figure.name(),
                "peer": aim.peer,
                "bound": aim.bound,
                "ratio": ratio,
                "reached": reached,
            }))
        });
        json!({
            "workload": self.workload.name,
            "contestants": contestants,
            "aims": aims.collect::<Vec<_>>(),
        })
    }
}

/// The median of some values, with the least and the most.
#[derive(Clone, Copy, Debug)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        Self {
            least: at(0),
            median: at(values.len() / 2),
            most: at(values.len().saturating_sub(1)),
        }
    }

    fn text(&self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.least, self.most)
    }
}
