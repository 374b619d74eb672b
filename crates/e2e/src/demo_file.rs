//! `DIR/demo.json` and the JSON of `holdfast volume show`, as the contract of the command line says.
//!
//! The types are this crate's own: a contract is held against what was promised, not against what
//! the code says today. Unknown fields are let through, because the contract may grow.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// How to reach a demo.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DemoFile {
    /// URL of the parent's API.
    pub api: String,
    /// What the API wants to see.
    #[serde(deserialize_with = "present")]
    pub token: Option<String>,
    /// The authority of the API's certificate.
    #[serde(deserialize_with = "present")]
    pub ca: Option<String>,
    /// The nodes, in order.
    pub nodes: Vec<DemoNode>,
    /// The volumes.
    pub volumes: Vec<DemoVolume>,
}

/// One node of a demo.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DemoNode {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its machine, if that has several.
    pub failure_domain: Option<String>,
    /// Where initiators reach it.
    pub portal: SocketAddr,
    /// URL of its API.
    pub api: String,
    /// What starts it again.
    pub command: Vec<String>,
}

/// One volume of a demo.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DemoVolume {
    /// Its name.
    pub name: String,
    /// Its target's iSCSI name.
    pub target: String,
    /// Its number there.
    pub lun: u16,
    /// Its size.
    pub bytes: u64,
    /// Its policy.
    pub policy: String,
}

/// The answer of `holdfast volume show`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VolumeShow {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Written pages, once whatever the copies; none while no node has told yet.
    pub used_bytes: Option<u64>,
    /// Its policy.
    pub policy: String,
    /// How it is.
    pub health: String,
    /// Its slices, in order.
    pub slices: Vec<SliceShow>,
    /// What its resyncs have done.
    pub resync: ResyncShow,
    /// What its scrubs have found.
    pub scrub: ScrubShow,
}

/// The scrubs of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ScrubShow {
    /// The last one that ended.
    pub last: Option<ScrubResultShow>,
}

/// A scrub that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ScrubResultShow {
    /// What it found.
    pub findings: FindingsShow,
}

/// What a scrub has found, in blocks of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FindingsShow {
    /// Bytes that were read, of all replicas.
    pub bytes_read: u64,
    /// Unreadable, or with a wrong checksum.
    pub bad_blocks: u64,
    /// Sound, and not what the other replicas have.
    pub differing_blocks: u64,
    /// Bad or differing, and not put right.
    pub unmended_blocks: u64,
    /// Not compared.
    pub skipped_blocks: u64,
}

/// A slice of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SliceShow {
    /// Its place, from 0.
    pub index: u64,
    /// Number of its configuration.
    pub epoch: u64,
    /// The node that leads it, if one does.
    #[serde(deserialize_with = "present")]
    pub primary: Option<String>,
    /// The nodes that have everything.
    pub in_sync: Vec<String>,
    /// The nodes that catch up.
    pub joining: Vec<JoiningShow>,
}

/// A node that catches up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct JoiningShow {
    /// Which.
    pub node: String,
    /// How far it is.
    pub bytes_done: u64,
    /// How far it has to go.
    pub bytes_total: u64,
}

/// What resyncs have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ResyncShow {
    /// Bytes that they have moved.
    pub bytes_moved: u64,
}

/// A key that must be there, though it may be null.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

impl DemoFile {
    /// Reads and checks a demo's file.
    ///
    /// # Errors
    /// It is missing, or not as the contract says.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("understand {}", path.display()))
    }

    /// Reads and checks its text.
    ///
    /// # Errors
    /// It is not as the contract says.
    pub fn parse(text: &str) -> Result<Self> {
        let file: Self = serde_json::from_str(text)?;
        ensure!(file.api.starts_with("http"), "api is a URL");
        for (index, node) in file.nodes.iter().enumerate() {
            ensure!(node.pid > 0, "a node has a process");
            ensure!(node.portal.ip().is_loopback(), "portals are on 127.0.0.1");
            ensure!(node.api.starts_with("http"), "a node's api is a URL");
            let first = file.nodes[0].portal.port();
            let expected = usize::from(first) + index;
            ensure!(
                usize::from(node.portal.port()) == expected,
                "portals follow each other"
            );
            let program = node.command.first().context("a command has a program")?;
            ensure!(
                Path::new(program).is_absolute(),
                "the command's paths are absolute"
            );
        }
        for volume in &file.volumes {
            if volume.lun != 0 {
                // It was made a unit of a target that another volume has.
                let mut others = file.volumes.iter();
                let has_first = others.any(|it| it.lun == 0 && it.target == volume.target);
                ensure!(has_first, "a volume is unit 0 of its target, or beside one");
                continue;
            }
            let prefix = volume.target.strip_suffix(&volume.name);
            let is_ours = prefix
                .is_some_and(|prefix| prefix.starts_with("iqn.2026-11.") && prefix.ends_with(':'));
            ensure!(
                is_ours,
                "{} is not the name of {}",
                volume.target,
                volume.name
            );
        }
        Ok(file)
    }

    /// The node of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self, name: &str) -> Result<&DemoNode> {
        let node = self.nodes.iter().find(|node| node.name == name);
        node.with_context(|| format!("find node {name}"))
    }

    /// The volume of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn volume(&self, name: &str) -> Result<&DemoVolume> {
        let volume = self.volumes.iter().find(|volume| volume.name == name);
        volume.with_context(|| format!("find volume {name}"))
    }
}

impl VolumeShow {
    /// Whether every slice has a primary and `copies` replicas in sync.
    #[must_use]
    pub fn is_whole(&self, copies: usize) -> bool {
        self.slices.iter().all(|slice| {
            slice.primary.is_some() && slice.in_sync.len() == copies && slice.joining.is_empty()
        })
    }

    /// The epochs, by slice.
    #[must_use]
    pub fn epochs(&self) -> BTreeMap<u64, u64> {
        let slices = self.slices.iter();
        slices.map(|slice| (slice.index, slice.epoch)).collect()
    }

    /// The nodes that lead a slice.
    #[must_use]
    pub fn primaries(&self) -> Vec<&str> {
        let slices = self.slices.iter();
        slices
            .filter_map(|slice| slice.primary.as_deref())
            .collect()
    }

    /// Whether a node holds a replica of any slice.
    #[must_use]
    pub fn is_held_by(&self, node: &str) -> bool {
        self.slices.iter().any(|slice| {
            slice.in_sync.iter().any(|name| name == node)
                || slice.joining.iter().any(|joining| joining.node == node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's own example, filled in.
    const EXAMPLE: &str = r#"{"api": "http://127.0.0.1:7460", "token": null, "ca": null,
        "nodes": [
            {"name": "n1", "pid": 4711, "portal": "127.0.0.1:3260", "api": "http://127.0.0.1:7461",
             "command": ["/bin/holdfast", "node", "--config", "/d/n1/node.toml"]},
            {"name": "n2", "pid": 4712, "failure_domain": "m1", "portal": "127.0.0.1:3261", "api": "http://127.0.0.1:7462",
             "command": ["/bin/holdfast", "node", "--config", "/d/n2/node.toml"], "more": 1}],
        "volumes": [{"name": "demo", "target": "iqn.2026-11.io.holdfast:demo", "lun": 0,
            "bytes": 4294967296, "policy": "mirror2"}]}"#;

    #[test]
    fn the_contract_is_understood() {
        let file = DemoFile::parse(EXAMPLE).unwrap();
        assert_eq!(file.node("n2").unwrap().portal.port(), 3261);
        assert_eq!(file.volume("demo").unwrap().bytes, 4 << 30);
        assert_eq!(file.nodes[0].failure_domain, None);
        assert_eq!(file.nodes[1].failure_domain.as_deref(), Some("m1"));
        assert!(file.node("n3").is_err());
    }

    #[test]
    fn what_breaks_the_contract_is_refused() {
        for (from, to) in [
            ("\"token\": null, ", ""),
            ("\"ca\": null,", ""),
            ("\"lun\": 0", "\"lun\": 1"),
            ("127.0.0.1:3261", "127.0.0.1:3263"),
            ("127.0.0.1:3261", "10.0.0.1:3261"),
            (
                "/bin/holdfast\", \"node\", \"--config\", \"/d/n2",
                "holdfast\", \"/d/n2",
            ),
            ("holdfast:demo", "holdfast:other"),
            ("\"pid\": 4711", "\"pid\": 0"),
            ("\"pid\": 4711, ", ""),
            ("\"policy\": \"mirror2\"", "\"policy\": 2"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            assert!(DemoFile::parse(&text).is_err(), "{to}");
        }
    }

    #[test]
    fn a_volume_is_understood() {
        let text = r#"{"name": "demo", "bytes": 4294967296, "used_bytes": 262144,
            "policy": "mirror2", "health": "degraded", "slices": [
                {"index": 0, "epoch": 3, "primary": "n1", "in_sync": ["n1"],
                 "joining": [{"node": "n2", "bytes_done": 1, "bytes_total": 2}]}],
            "resync": {"bytes_moved": 1}, "scrub": {"running": null, "last": null}}"#;
        let volume: VolumeShow = serde_json::from_str(text).unwrap();
        assert!(!volume.is_whole(1));
        assert!(volume.is_held_by("n2") && !volume.is_held_by("n3"));
        assert_eq!(volume.primaries(), ["n1"]);
        assert_eq!(volume.epochs(), BTreeMap::from([(0, 3)]));
        assert_eq!(volume.used_bytes, Some(262_144));

        // A moment after a start no node has told.
        let text = text.replace("262144", "null");
        let volume: VolumeShow = serde_json::from_str(&text).unwrap();
        assert_eq!(volume.used_bytes, None);
    }
}
