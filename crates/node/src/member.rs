//! Which member of etcd a node's machine has, and whether the node may start it.
//!
//! The list of members says it. What is in the node's directory may say otherwise, and then nobody but an operator knows
//! which of the two is wrong.
//!
//! Invariants:
//! - where a node has run without a member, none is started because of a list alone: something else may run the etcd
//!   that it names. An operator says that one is to be, by making its directory;
//! - where there is a member's data, no node runs without it because of a list alone;
//! - nothing is changed here.

use std::path::Path;

use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::etcd::{DATA_DIRECTORY, EtcdStartError, Plan};
use crate::machine::MACHINE_FILE;
use crate::paths::DEVICES_FILE;

/// What an etcd beside a node keeps, in the node's directory.
pub(crate) const ETCD_DIRECTORY: &str = "etcd";
/// The file in a node's directory that says that it has seen the cluster in an etcd. Who makes the cluster writes it.
pub const SEEN_FILE: &str = "cluster.seen";
/// What is in the directory of a node that has run.
const LEFT_BEHIND: [&str; 3] = [SEEN_FILE, DEVICES_FILE, MACHINE_FILE];

/// The member of etcd that is to run beside the node, if there is one.
///
/// # Errors
/// [`NodeError::Etcd`] if what is in the node's directory says otherwise, or there is no program.
pub(crate) fn of(config: &NodeConfig) -> Result<Option<Plan>, NodeError> {
    let Some(section) = &config.etcd else {
        return Ok(None);
    };
    let home = config.directory.join(ETCD_DIRECTORY);
    if section.own(&config.name).is_none() {
        if is_there(&home.join(DATA_DIRECTORY))? {
            let name = config.name.clone();
            return Err(EtcdStartError::NotListed { name, home }.into());
        }
        return Ok(None);
    }
    if !is_there(&home)? && has_run(&config.directory)? {
        let endpoints = section.endpoints(&config.name, config.etcd_tls().is_on());
        return Err(EtcdStartError::NeverHere { home, endpoints }.into());
    }
    let plan = Plan::of_machine(
        section,
        config.cluster,
        &config.name,
        &home,
        &config.etcd_tls(),
    )?;
    Ok(Some(plan))
}

fn has_run(directory: &Path) -> Result<bool, EtcdStartError> {
    for file in LEFT_BEHIND {
        if is_there(&directory.join(file))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_there(path: &Path) -> Result<bool, EtcdStartError> {
    let there = path.try_exists();
    there.map_err(|source| EtcdStartError::Refused {
        what: "look for",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A node called n1, in a directory of its own.
    fn node(members: &str) -> (TempDir, NodeConfig) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "cluster = \"0123456789abcdef0123456789abcdef\"\nnode = 1\nname = \"n1\"\n\
             directory = \"{0}\"\nportal.listen = \"192.0.2.1:3260\"\npeers.listen = \"192.0.2.1:7561\"\n\
             api.listen = \"192.0.2.1:7461\"\netcd.program = \"/bin/sh\"\n\
             [[devices]]\npath = \"{0}/first\"\n[etcd.members]\n{members}",
            folder.path().display()
        );
        (folder, toml::from_str(&text).unwrap())
    }

    fn refused(config: &NodeConfig) -> String {
        of(config).unwrap_err().to_string()
    }

    /// Such a list was where the metadata is, and no more: a second etcd, and an empty one, must not begin beside the
    /// one that there is.
    #[test]
    fn where_a_node_has_run_without_a_member_none_is_started_because_of_a_list() {
        let members = "n1 = \"192.0.2.1\"\nn2 = \"192.0.2.2\"\n";
        for file in LEFT_BEHIND {
            let (folder, config) = node(members);
            assert!(of(&config).unwrap().is_some(), "it is new");
            fs::write(folder.path().join(file), "").unwrap();
            let error = refused(&config);
            let home = folder.path().join("etcd").display().to_string();
            for part in [
                "metadata.etcd = [\"https://192.0.2.1:2379\", \"https://192.0.2.2:2379\"]",
                &format!("mkdir -m 700 {home}"),
                "run before",
            ] {
                assert!(error.contains(part), "{part} in {error}");
            }
            // This comes first: who runs etcd otherwise needs no program here.
            let mut lacking = config.clone();
            lacking.etcd.as_mut().unwrap().program = Some("/nowhere/etcd".into());
            assert_eq!(refused(&lacking), error);
            // What an operator does who wants one.
            fs::create_dir(home).unwrap();
            assert!(of(&config).unwrap().is_some(), "an operator says so");
        }
    }

    /// What else an operator, or a start that failed, leaves there does not say that the node has run.
    #[test]
    fn a_new_machine_begins_a_member() {
        let (folder, config) = node("n1 = \"192.0.2.1\"\n");
        for file in ["take-over", "node.pid", "node.log"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        assert!(of(&config).unwrap().is_some());
    }

    #[test]
    fn where_there_is_a_members_data_no_misspelt_name_leaves_it_out() {
        let (folder, config) = node("n01 = \"192.0.2.7\"\n");
        assert_eq!(of(&config).unwrap(), None, "it has no member");
        fs::create_dir_all(folder.path().join("etcd/data")).unwrap();
        let error = refused(&config);
        for part in ["(n1)", "etcd.members", "misspelt", "etcd.member;"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
