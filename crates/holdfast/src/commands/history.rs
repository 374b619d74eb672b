//! `holdfast history`.

use std::time::{Duration, SystemTime};

use clap::Args;
use holdfast_api::documents::{Flow, History, HistoryOf, HistoryPoint, HistoryQuery, Latency};
use holdfast_control::VolumeName;

use super::client;
use super::device::Tier;
use super::stalls::utc;
use crate::cli::{Global, age};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

const NAMES: [&str; 9] = [
    "FROM (UTC)",
    "READS/S",
    "WRITES/S",
    "READ/S",
    "WRITTEN/S",
    "READ P50",
    "READ P99",
    "WRITE P50",
    "WRITE P99",
];
/// Steps that fit on a screen.
const STEPS: u64 = 20;

/// Without an option it is all volumes together.
#[derive(Args, Debug)]
pub(crate) struct HistoryArguments {
    /// Of this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<VolumeName>,
    /// What this initiator does, with the volume if one is named, else with all
    #[arg(long, value_name = "IQN", conflicts_with_all = ["node", "tier"])]
    initiator: Option<String>,
    /// At this node's portal
    #[arg(long, value_name = "NAME", conflicts_with = "volume")]
    node: Option<String>,
    /// Of this device of the node, by its number
    #[arg(long, value_name = "NUMBER", requires = "node")]
    device: Option<u16>,
    /// Of all devices of this class
    #[arg(long, conflicts_with_all = ["volume", "node"])]
    tier: Option<Tier>,
    /// Of the last so many seconds, minutes, hours or days, for example 90s, 15m, 6h, 7d
    #[arg(long, value_name = "AGE", value_parser = age, default_value = "10m")]
    last: Duration,
    /// In steps of at least so long; without it, so that they fit on a screen. What is longer ago is kept in longer steps
    #[arg(long, value_name = "SPAN", value_parser = age)]
    step: Option<Duration>,
}

impl HistoryArguments {
    fn of(&self) -> HistoryOf {
        if let Some(volume) = &self.volume {
            let volume = volume.as_str().to_owned();
            return match &self.initiator {
                Some(initiator) => HistoryOf::Initiator(volume, initiator.clone()),
                None => HistoryOf::Volume(volume),
            };
        }
        if let Some(node) = &self.node {
            return match self.device {
                Some(device) => HistoryOf::Device(node.clone(), device),
                None => HistoryOf::Node(node.clone()),
            };
        }
        match (&self.initiator, self.tier) {
            (Some(initiator), _) => HistoryOf::Host(initiator.clone()),
            (None, Some(tier)) => HistoryOf::Tier(tier.document()),
            (None, None) => HistoryOf::Cluster,
        }
    }

    fn query(&self, now: SystemTime) -> HistoryQuery {
        let now = now.duration_since(SystemTime::UNIX_EPOCH);
        let until = now.unwrap_or_default();
        let from = until.saturating_sub(self.last);
        let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        let step = match self.step {
            Some(step) => step.as_secs(),
            None => self.last.as_secs().div_ceil(STEPS),
        };
        HistoryQuery {
            from_ms: Some(milliseconds(from)),
            until_ms: Some(milliseconds(until)),
            step_seconds: Some(u32::try_from(step).unwrap_or(u32::MAX)),
        }
    }
}

pub(crate) async fn show(
    global: &Global,
    output: &Output,
    arguments: &HistoryArguments,
) -> Result<(), Failure> {
    let query = arguments.query(SystemTime::now());
    let history = client(global).history(&arguments.of(), query).await?;
    output.result(&history, || text(&history))?;
    for node in &history.silent {
        output.talk(&format!(
            "warning: node {node} does not answer: what it has measured is not shown"
        ));
    }
    Ok(())
}

fn text(history: &History) -> String {
    if history.points.is_empty() {
        return "nothing was measured in this time\n".to_owned();
    }
    let rows: Vec<_> = history.points.iter().map(row).collect();
    table(NAMES, &rows)
}

fn row(point: &HistoryPoint) -> [String; 9] {
    let HistoryPoint { reads, writes, .. } = point;
    let rate = |flow: &Flow| format!("{:.0}", flow.per_second);
    let moved = |flow: &Flow| bytes(flow.bytes_per_second as u64);
    let [read_p50, read_p99] = percentiles(reads.latency);
    let [write_p50, write_p99] = percentiles(writes.latency);
    [
        // Steps are whole seconds.
        utc(point.at_ms).trim_end_matches(".000").to_owned(),
        rate(reads),
        rate(writes),
        moved(reads),
        moved(writes),
        read_p50,
        read_p99,
        write_p50,
        write_p99,
    ]
}

fn percentiles(latency: Option<Latency>) -> [String; 2] {
    let Some(latency) = latency else {
        return ["-", "-"].map(str::to_owned);
    };
    [latency.p50_us, latency.p99_us].map(length)
}

/// How long a command took, as people read it.
pub(super) fn length(microseconds: u64) -> String {
    match microseconds {
        // Nodes tell whole ones, to the nearest.
        0 => "< 1 us".to_owned(),
        1..1000 => format!("{microseconds} us"),
        1000..1_000_000 => format!("{:.1} ms", microseconds as f64 / 1e3),
        _ => format!("{:.1} s", microseconds as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_row() {
        let flow = Flow {
            per_second: 1234.6,
            bytes_per_second: 5_056_921.6,
            latency: Some(Latency {
                mean_us: 300.0,
                p50_us: 319,
                p99_us: 12_287,
                p999_us: 2_000_000,
                max_us: 2_000_000,
            }),
        };
        let history = History {
            points: vec![HistoryPoint {
                at_ms: 1_795_000_000_000,
                writes: flow,
                ..HistoryPoint::default()
            }],
            ..History::default()
        };
        let text = text(&history);
        let row = text.lines().nth(1).expect("there is one");
        let cells: Vec<&str> = row.split("  ").filter(|it| !it.is_empty()).collect();
        let cells: Vec<&str> = cells.iter().map(|it| it.trim()).collect();
        assert_eq!(
            cells,
            [
                "2026-11-18 11:06:40",
                "0",
                "1235",
                "0 B",
                "4.82 MiB",
                "-",
                "-",
                "319 us",
                "12.3 ms"
            ]
        );
        assert_eq!(length(2_000_000), "2.0 s");
        assert_eq!(length(0), "< 1 us");
        assert_eq!(
            super::text(&History::default()),
            "nothing was measured in this time\n"
        );
    }

    #[test]
    fn the_last_so_long_is_asked_for_in_as_many_steps_as_fit_on_a_screen() {
        let arguments = |last, step| HistoryArguments {
            volume: None,
            initiator: None,
            node: Some("n1".to_owned()),
            device: Some(2),
            tier: None,
            last: Duration::from_secs(last),
            step,
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let query = arguments(600, None).query(now);
        assert_eq!(query.from_ms, Some(9_400_000));
        assert_eq!(
            (query.until_ms, query.step_seconds),
            (Some(10_000_000), Some(30))
        );
        let arguments = arguments(600, Some(Duration::from_secs(1)));
        assert_eq!(arguments.query(now).step_seconds, Some(1));
        assert_eq!(arguments.of(), HistoryOf::Device("n1".to_owned(), 2));
        let of_host = HistoryArguments {
            initiator: Some("iqn.2026-11.host".to_owned()),
            node: None,
            device: None,
            ..arguments
        };
        assert_eq!(of_host.of(), HistoryOf::Host("iqn.2026-11.host".to_owned()));
    }
}
