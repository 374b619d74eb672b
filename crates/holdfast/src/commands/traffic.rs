//! `holdfast volume list --traffic`.

use std::collections::BTreeMap;

use holdfast_api::ApiClient;
use holdfast_api::documents::{Traffic, VolumeList, VolumeTraffic};
use serde::Serialize;

use super::history::length;
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

const NAMES: [&str; 9] = [
    "VOLUME",
    "HEALTH",
    "SESSIONS",
    "READS/S",
    "WRITES/S",
    "READ/S",
    "WRITTEN/S",
    "MEAN",
    "P99",
];

/// What is said to programs: the volumes, and what is done with them.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    list: VolumeList,
    traffic: Traffic,
}

pub(crate) async fn list(client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let (list, traffic) = tokio::try_join!(client.volumes(), client.traffic())?;
    let listed = Listed { list, traffic };
    output.result(&listed, || text(&listed))?;
    for node in &listed.traffic.silent {
        output.talk(&format!(
            "warning: node {node} does not answer: what is done at its portal is not shown"
        ));
    }
    Ok(())
}

fn text(listed: &Listed) -> String {
    let traffic = listed.traffic.volumes.iter();
    let traffic: BTreeMap<&str, &VolumeTraffic> =
        traffic.map(|it| (it.volume.as_str(), it)).collect();
    let idle = VolumeTraffic::default();
    let rows: Vec<_> = listed
        .list
        .volumes
        .iter()
        .map(|volume| {
            let done = traffic.get(volume.name.as_str()).copied().unwrap_or(&idle);
            let rate = |rate: f64| bytes(rate as u64);
            let taken = done.all.latency;
            let took = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), length);
            [
                volume.name.clone(),
                volume.health.as_str().to_owned(),
                volume.sessions.to_string(),
                format!("{:.0}", done.reads.per_second),
                format!("{:.0}", done.writes.per_second),
                rate(done.reads.bytes_per_second),
                rate(done.writes.bytes_per_second),
                took(taken.map(|it| it.mean_us.round() as u64)),
                took(taken.map(|it| it.p99_us)),
            ]
        })
        .collect();
    table(NAMES, &rows)
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{Flow, Latency, VolumeSummary};

    use super::*;

    #[test]
    fn every_volume_is_a_row_and_an_idle_one_says_so() {
        let volume = |name: &str| {
            let text = format!(
                r#"{{"name":"{name}","volume":1,"target":"iqn.t","lun":0,"bytes":4096,"used_bytes":0,"policy":"mirror2","health":"healthy","slices":1,"sessions":2}}"#
            );
            serde_json::from_str::<VolumeSummary>(&text).expect("it is one")
        };
        let flow = Flow {
            per_second: 1234.6,
            bytes_per_second: 5_056_921.6,
            latency: Some(Latency {
                mean_us: 299.6,
                p99_us: 12_287,
                ..Latency::default()
            }),
        };
        let done = VolumeTraffic {
            volume: "sql".to_owned(),
            reads: flow,
            all: flow,
            ..VolumeTraffic::default()
        };
        let list = VolumeList {
            volumes: vec![volume("idle"), volume("sql")],
            next: None,
        };
        let traffic = Traffic {
            volumes: vec![done],
            ..Traffic::default()
        };
        let text = text(&Listed { list, traffic });
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()))
            .map(Iterator::collect)
            .collect();
        assert_eq!(
            rows[1],
            ["idle", "healthy", "2", "0", "0", "0 B", "0 B", "-", "-"]
        );
        let busy = ["sql", "healthy", "2", "1235", "0", "4.82 MiB", "0 B"];
        assert_eq!(rows[2], [&busy[..], &["300 us", "12.3 ms"]].concat());
    }
}
