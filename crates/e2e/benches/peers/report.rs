//! What was measured, as text and as JSON: medians of the runs with the least and the most, and the ratio of Holdfast to each peer,
//! run by run.
//!
//! Invariants:
//! - a ratio is one of two measurements that followed each other; of ratios the median is told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use holdfast_e2e::figures::{self, Bound, Spread, micros, rounded};
use holdfast_lab::bench::BenchReport;
use serde_json::{Value, json};

use crate::contestants::{DIRECT, HOLDFAST, MEDIA};
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

/// What was seen of a run, whatever put the load on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) commands: u64,
    pub(crate) per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    pub(crate) p999: Duration,
    /// Processor time of those that serve, if anybody does.
    pub(crate) server_time: Option<Duration>,
    pub(crate) client_time: Duration,
}

impl From<&BenchReport> for Measured {
    /// Without the times of processors, which a load does not know.
    fn from(report: &BenchReport) -> Self {
        let latencies = report.latencies();
        Self {
            commands: latencies.count(),
            per_second: report.commands_per_second(),
            bytes_per_second: report.megabytes_per_second() * 1e6,
            median: latencies.percentile(50.0),
            p99: latencies.percentile(99.0),
            p999: latencies.percentile(99.9),
            server_time: None,
            client_time: Duration::ZERO,
        }
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample(BTreeMap<Figure, f64>);

impl Sample {
    pub(crate) fn new(measured: &Measured) -> Self {
        let for_each = |time| micros(time) / measured.commands.max(1) as f64;
        let figure = |figure| match figure {
            Figure::Rate => Some(measured.per_second),
            Figure::Megabytes => Some(measured.bytes_per_second / 1e6),
            Figure::Median => Some(micros(measured.median)),
            Figure::P99 => Some(micros(measured.p99)),
            Figure::P999 => Some(micros(measured.p999)),
            Figure::ServerTime => measured.server_time.map(for_each),
            Figure::ClientTime => Some(for_each(measured.client_time)),
        };
        let known = Figure::ALL
            .into_iter()
            .filter_map(|it| Some((it, figure(it)?)));
        Self(known.collect())
    }

    /// None of what it has not: a file is served by nobody.
    fn figure(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }
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
        let _ = write!(text, "  {:<28}", "");
        for name in names {
            let _ = write!(text, " {name:>18}");
        }
        text.push('\n');
        for (contestant, samples) in &self.samples {
            let _ = write!(text, "  {contestant:<28}");
            for figure in Figure::ALL {
                let values = samples.iter().filter_map(|sample| sample.figure(figure));
                let told = Spread::of(values).map_or_else(String::new, |spread| {
                    let digits = usize::from(spread.median < 100.0);
                    format!("{:.digits$}", spread.median)
                });
                let _ = write!(text, " {told:>18}");
            }
            text.push('\n');
        }
        for (ours, peer) in self.pairs() {
            let _ = write!(text, "  {:<28}", format!("{ours} / {peer}"));
            for figure in Figure::ALL {
                let ratios = self.ratios(figure, ours, peer);
                let told = ratios.map_or_else(String::new, |ratios| ratios.to_string());
                let _ = write!(text, " {told:>18}");
            }
            text.push('\n');
        }
        for judged in self.judged() {
            let _ = writeln!(text, "  {judged}");
        }
        text
    }

    /// What is held against each other: Holdfast and each peer, and what it has not in memory and the file itself.
    fn pairs(&self) -> Vec<(&'static str, &'static str)> {
        let names = self.samples.iter().map(|(name, _)| *name);
        let peers = names.filter(|name| ![HOLDFAST, MEDIA].contains(name));
        let with_holdfast = peers.map(|peer| (HOLDFAST, peer));
        let mut pairs: Vec<_> = with_holdfast.chain([(MEDIA, DIRECT)]).collect();
        pairs.retain(|(ours, peer)| !self.of(ours).is_empty() && !self.of(peer).is_empty());
        pairs
    }

    fn of(&self, contestant: &str) -> &[Sample] {
        let found = self.samples.iter().find(|(name, _)| *name == contestant);
        found.map_or(&[], |(_, samples)| samples)
    }

    /// Our figure by the peer's, of each run; none if one of them has no such figure.
    fn ratios(&self, figure: Figure, ours: &str, peer: &str) -> Option<Spread> {
        let pairs = self.of(ours).iter().zip(self.of(peer));
        Spread::of(
            pairs.filter_map(|(ours, peer)| Some(ours.figure(figure)? / peer.figure(figure)?)),
        )
    }

    /// The aims of which both contestants were measured.
    fn judged(&self) -> Vec<figures::Aim> {
        let judged = |aim: &Aim| {
            let ratio = self.ratios(aim.figure, aim.ours, aim.peer)?.median;
            let (name, figure) = (self.workload.name, aim.figure.name());
            let bound = if aim.figure.more_is_better() {
                Bound::AtLeast(aim.bound)
            } else {
                Bound::AtMost(aim.bound)
            };
            Some(figures::Aim {
                what: format!("{name}: {figure} of {} / {}", aim.ours, aim.peer),
                bound,
                ratio,
            })
        };
        self.workload.aims.iter().filter_map(judged).collect()
    }

    /// Every figure of every run, by contestant, and what became of the aims.
    pub(crate) fn json(&self) -> Vec<Value> {
        let contestants = self.samples.iter().map(|(name, samples)| {
            let mut told = serde_json::Map::new();
            told.insert("workload".into(), self.workload.name.into());
            told.insert("contestant".into(), (*name).into());
            for figure in Figure::ALL {
                let runs = samples.iter().filter_map(|it| it.figure(figure));
                let runs: Vec<f64> = runs.map(rounded).collect();
                if let Some(spread) = Spread::of(runs.iter().copied()) {
                    let median = spread.median;
                    let figures = json!({ "median": median, "runs": runs });
                    told.insert(figure.name().into(), figures);
                }
            }
            Value::Object(told)
        });
        let judged = self.judged();
        let aims = judged.iter().map(figures::Aim::json);
        contestants.chain(aims).collect()
    }
}
