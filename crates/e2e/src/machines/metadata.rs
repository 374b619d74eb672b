//! What machines have in etcd is saved, and put in the place of what is there: by Debian's own tool, as the manual has it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::{CLUSTER, Machines, name};
use crate::ports::ETCD_OFFSET;

/// The tool that Debian has beside the etcd that machines start.
const ETCDCTL: &str = "etcdctl";
/// Where what was in a machine's etcd is kept while something else is in its place.
const NEWEST: &str = "etcd.newest";

impl Machines {
    /// Saves the metadata as it is, by a machine's etcd.
    ///
    /// # Errors
    /// Its etcd does not answer.
    pub fn save_metadata(&self, place: usize) -> Result<PathBuf> {
        let file = self.scratch().join("snapshot");
        let url = self.etcd_url(place);
        let mut command = Command::new(ETCDCTL);
        command.args(["--endpoints", &url, "snapshot", "save"]);
        succeed(command.arg(&file))?;
        Ok(file)
    }

    /// Puts what was saved in the place of all machines' etcd, as `docs/deployment.md` says.
    ///
    /// # Errors
    /// One of them runs.
    pub fn restore_metadata(&self, saved: &Path) -> Result<()> {
        let peer = |place: usize| {
            let port = self.ports.api + ETCD_OFFSET + 1;
            format!("http://{}", SocketAddr::new(self.address(place), port))
        };
        let members = [0, 1, 2].map(|one| format!("{}={}", name(one), peer(one)));
        for place in 0..3 {
            ensure!(self.running[place].is_none(), "it runs");
            let directory = self.directory(place);
            fs::rename(directory.join("etcd"), directory.join(NEWEST))?;
            let mut command = Command::new(ETCDCTL);
            command.args(["snapshot", "restore"]).arg(saved);
            command.arg("--data-dir").arg(directory.join("etcd/data"));
            command.args(["--name", &name(place)]);
            command.args(["--initial-cluster", &members.join(",")]);
            command.args(["--initial-cluster-token", &format!("holdfast-{CLUSTER}")]);
            succeed(command.args(["--initial-advertise-peer-urls", &peer(place)]))?;
        }
        Ok(())
    }

    /// Brings back what was in all machines' etcd before that.
    ///
    /// # Errors
    /// One of them runs.
    pub fn bring_back_metadata(&self) -> Result<()> {
        for place in 0..3 {
            ensure!(self.running[place].is_none(), "it runs");
            let directory = self.directory(place);
            fs::remove_dir_all(directory.join("etcd"))?;
            fs::rename(directory.join(NEWEST), directory.join("etcd"))?;
        }
        Ok(())
    }
}

/// Runs a tool of etcd's.
fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended in {said}");
    Ok(())
}
