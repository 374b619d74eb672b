//! `demo.json`: how programs find the demo.

use std::io;
use std::path::Path;

use holdfast_model::Policy;
use holdfast_node::directory::remove_if_there;
use serde::Serialize;

/// The mode of a file that is its owner's only.
const SECRET: u32 = 0o600;

/// What it says. A contract: other tools read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DemoFile {
    /// URL of the parent's API.
    pub(crate) api: String,
    /// What the API wants to see; none without TLS.
    pub(crate) token: Option<String>,
    /// The certificate of the authority by which the APIs are known; none without TLS.
    pub(crate) ca: Option<String>,
    /// Who can log in at the console; none without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<DemoLogin>,
    /// The nodes, in order.
    pub(crate) nodes: Vec<DemoNode>,
    /// The volumes, by name.
    pub(crate) volumes: Vec<DemoVolume>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DemoLogin {
    pub(crate) user: String,
    /// Where the password is that this user had at first.
    pub(crate) password_file: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DemoNode {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// With which others it fails: those that say the same; null for none.
    pub(crate) failure_domain: Option<String>,
    /// Where initiators reach it, `127.0.0.1:PORT`.
    pub(crate) portal: String,
    /// URL of its API.
    pub(crate) api: String,
    /// What starts it again, from any directory and environment.
    pub(crate) command: Vec<String>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DemoVolume {
    pub(crate) name: String,
    /// The iSCSI name of its target.
    pub(crate) target: String,
    pub(crate) lun: u16,
    pub(crate) bytes: u64,
    pub(crate) policy: Policy,
}

impl DemoFile {
    /// Replaces the file whole. It has a token, and so is its owner's only.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).expect("the file is valid JSON");
        holdfast_durable::replace(path, (text + "\n").as_bytes(), SECRET)
    }

    /// Removes the file, if there is one.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        remove_if_there(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_looks_as_the_contract_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.json");
        let file = DemoFile {
            api: "http://127.0.0.1:7460".to_owned(),
            token: None,
            ca: None,
            login: None,
            nodes: vec![DemoNode {
                name: "n1".to_owned(),
                pid: 7,
                failure_domain: Some("m1".to_owned()),
                portal: "127.0.0.1:3260".to_owned(),
                api: "http://127.0.0.1:7461".to_owned(),
                command: vec!["/bin/holdfast".to_owned(), "node".to_owned()],
            }],
            volumes: vec![DemoVolume {
                name: "demo".to_owned(),
                target: "iqn.2026-11.io.holdfast:demo".to_owned(),
                lun: 0,
                bytes: 4096,
                policy: Policy::Mirror2,
            }],
        };
        // What an earlier version wrote, and what was left over of it, could be read by others.
        for name in ["demo.json", "demo.json.new"] {
            let left = folder.path().join(name);
            fs::write(&left, "{}").unwrap();
            fs::set_permissions(&left, Permissions::from_mode(0o644)).unwrap();
        }
        file.write(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(
            r#"{"api":"http://127.0.0.1:7460","token":null,"ca":null,
                "nodes":[{"name":"n1","pid":7,"failure_domain":"m1","portal":"127.0.0.1:3260",
                          "api":"http://127.0.0.1:7461","command":["/bin/holdfast","node"]}],
                "volumes":[{"name":"demo","target":"iqn.2026-11.io.holdfast:demo","lun":0,
                            "bytes":4096,"policy":"mirror2"}]}"#,
        )
        .unwrap();
        assert_eq!(read, expected);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left over"
        );
        DemoFile::remove(&path).unwrap();
        DemoFile::remove(&path).unwrap();
    }
}
