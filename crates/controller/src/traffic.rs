//! What hosts do with each volume at present, at all nodes together.
//!
//! Invariants:
//! - what a node does not answer is not silently left out: the node is named;
//! - rates are over the seconds in which each node measured, and percentiles are those of all commands.

use std::collections::BTreeMap;

use holdfast_api::Problem;
use holdfast_api::documents::{
    LocalTraffic, LocalVolumeTraffic, TRAFFIC_SECONDS, Traffic, VolumeTraffic,
};
use holdfast_model::record::NodeRecord;
use holdfast_model::{NodeId, VolumeId};

use crate::asking::{Answer, ask_each, silent};
use crate::history::flow;
use crate::{Controller, problem};

impl Answer for LocalTraffic {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Controller {
    pub(crate) async fn traffic_here(&self) -> Result<LocalTraffic, Problem> {
        let asked = self.history.as_ref().ok_or_else(problem::no_node)?;
        asked.traffic().await
    }

    pub(crate) async fn traffic_of_all(&self) -> Result<Traffic, Problem> {
        // What was seen is kept no longer than it takes to know who is asked: that may take a second.
        let (nodes, names, here) = {
            let look = self.inventory().await?;
            let inventory = &look.seen;
            let nodes: Vec<NodeRecord> = inventory.nodes.values().cloned().collect();
            let volumes = inventory.volumes.iter();
            let names: BTreeMap<VolumeId, String> = volumes
                .map(|(id, found)| (*id, found.record.name.clone()))
                .collect();
            (nodes, names, self.registered_here(inventory))
        };
        let own = async {
            here?;
            self.traffic_here().await.ok()
        };
        let others = nodes.iter().filter(|node| Some(node.node) != here);
        let others = ask_each(others, self.connector.as_ref(), |client| async move {
            client.local_traffic().await
        });
        let (own, others) = tokio::join!(own, others);
        let answers = others.into_iter().chain(own);
        let answers: BTreeMap<NodeId, LocalTraffic> =
            answers.map(|it| (NodeId(it.node), it)).collect();
        Ok(Traffic {
            seconds: TRAFFIC_SECONDS,
            volumes: volumes(&names, answers.values()),
            silent: silent(nodes.iter(), |node| answers.contains_key(&node)),
        })
    }
}

/// Each volume's, by name. One that was deleted meanwhile has no name any more.
fn volumes<'a>(
    names: &BTreeMap<VolumeId, String>,
    answers: impl Iterator<Item = &'a LocalTraffic>,
) -> Vec<VolumeTraffic> {
    let mut parts = BTreeMap::<&str, Vec<(u64, &LocalVolumeTraffic)>>::new();
    for answer in answers.filter(|answer| answer.seconds > 0) {
        for volume in &answer.volumes {
            if let Some(name) = names.get(&VolumeId(volume.volume)) {
                let part = (answer.seconds, volume);
                parts.entry(name).or_default().push(part);
            }
        }
    }
    let volumes = parts.iter().map(|(name, parts)| {
        let reads = || parts.iter().map(|(seconds, it)| (*seconds, &it.reads));
        let writes = || parts.iter().map(|(seconds, it)| (*seconds, &it.writes));
        VolumeTraffic {
            volume: (*name).to_owned(),
            reads: flow(reads()),
            writes: flow(writes()),
            all: flow(reads().chain(writes())),
        }
    });
    volumes.collect()
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{Flow, LocalFlow};

    use super::*;

    fn commands(length_us: u64, count: u64) -> LocalFlow {
        LocalFlow {
            bytes: 4096 * count,
            total_us: length_us * count,
            latencies: vec![(length_us, count)],
        }
    }

    /// Fast reads at one node, and a few slow writes at another that measured for less: neither node's percentile is the
    /// volume's, nor a mean of both.
    #[test]
    fn percentiles_are_those_of_all_commands_at_all_nodes() {
        let names = BTreeMap::from([(VolumeId(7), "sql".to_owned())]);
        let of = |node, seconds, reads, writes| LocalTraffic {
            node,
            seconds,
            volumes: vec![LocalVolumeTraffic {
                volume: 7,
                reads,
                writes,
            }],
        };
        let none = LocalFlow::default;
        let answers = [
            of(1, 5, commands(100, 1000), none()),
            of(2, 2, none(), commands(7000, 30)),
            of(3, 0, commands(1, 1_000_000), none()),
        ];
        let told = volumes(&names, answers.iter());
        let [sql] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(sql.volume, "sql");
        assert!((sql.reads.per_second - 200.0).abs() < 1e-9, "{sql:?}");
        assert!((sql.writes.per_second - 15.0).abs() < 1e-9, "{sql:?}");
        assert!((sql.all.per_second - 215.0).abs() < 1e-9, "{sql:?}");
        assert!((sql.all.bytes_per_second - 215.0 * 4096.0).abs() < 1e-6);
        let p99 = |flow: Flow| flow.latency.expect("there were some").p99_us;
        assert!((100..=112).contains(&p99(sql.reads)), "{sql:?}");
        // 30 of 1030 are more than one of a hundred.
        assert!((7000..=7875).contains(&p99(sql.all)), "{sql:?}");
    }

    #[test]
    fn volumes_are_told_by_name_and_those_that_are_gone_are_not() {
        let names = [(3, "a"), (1, "b")].map(|(id, name)| (VolumeId(id), name.to_owned()));
        let volume = |volume| LocalVolumeTraffic {
            volume,
            reads: commands(1, 1),
            ..LocalVolumeTraffic::default()
        };
        let answer = LocalTraffic {
            node: 1,
            seconds: 1,
            volumes: vec![volume(1), volume(2), volume(3)],
        };
        let told = volumes(&names.into(), [answer].iter());
        let told: Vec<_> = told.iter().map(|it| it.volume.as_str()).collect();
        assert_eq!(told, ["a", "b"]);
    }
}
