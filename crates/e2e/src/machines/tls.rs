//! Machines with TLS, as the manual has them set up: the first one founds the authority, the others get what it issues.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{CLUSTER, Machines, Role, name, use_machines};
use crate::cli;
use crate::ports::ETCD_OFFSET;

/// The directory of credentials in that of a machine.
const CREDENTIALS: &str = "tls";

/// Runs a test on three machines that have TLS everywhere, once each of them has etcd; commands show the credentials of the
/// first one. If it fails, their logs are printed.
///
/// # Panics
/// If they do not start, or `body` fails.
pub fn on_machines_with_tls(roles: [Role; 3], body: impl FnOnce(&mut Machines) -> Result<()>) {
    let machines = Machines::prepare(roles, None, true);
    use_machines(machines.expect("a place for the machines"), body);
}

impl Machines {
    /// TLS is turned on, as the manual has it: by one stop of all machines, after which they speak in the clear to members
    /// of etcd that have had no turn yet.
    ///
    /// # Errors
    /// One does not run, or there are no credentials to be had.
    pub fn turn_tls_on(&mut self) -> Result<()> {
        ensure!(!self.has_tls, "they have TLS");
        for place in 0..3 {
            self.stop(place)?;
        }
        (self.has_tls, self.is_plain_too) = (true, true);
        self.write_files()?;
        self.give_credentials()?;
        (0..3).try_for_each(|place| self.start(place))
    }

    /// From its next start on, no machine speaks in the clear to anybody.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn demand_tls(&mut self) -> Result<()> {
        self.is_plain_too = false;
        self.write_files()
    }

    /// A machine's credentials.
    #[must_use]
    pub fn credentials(&self, place: usize) -> PathBuf {
        self.directory(place).join(CREDENTIALS)
    }

    /// Where the member of etcd of a machine answers the others.
    #[must_use]
    pub fn etcd_peers(&self, place: usize) -> SocketAddr {
        SocketAddr::new(self.address(place), self.ports.api + ETCD_OFFSET + 1)
    }

    /// URL of a machine's etcd.
    #[must_use]
    pub fn etcd_url(&self, place: usize) -> String {
        let port = self.ports.api + ETCD_OFFSET;
        let scheme = self.scheme();
        format!("{scheme}://{}", SocketAddr::new(self.address(place), port))
    }

    pub(super) fn security(&self) -> &'static str {
        if self.has_tls {
            ""
        } else {
            "[security]\noff = true\n"
        }
    }

    pub(super) const fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
    }

    /// What an operator does before the first start.
    pub(super) fn give_credentials(&self) -> Result<()> {
        cli::show(None);
        if !self.has_tls {
            return Ok(());
        }
        let text = |path: PathBuf| path.into_os_string().into_string();
        let text = |path| text(path).ok().context("a path of a test is UTF-8");
        let first = text(self.credentials(0))?;
        cli::done(&[
            "security",
            "found",
            "--directory",
            &first,
            "--cluster",
            CLUSTER,
        ])?;
        for place in 1..3 {
            let whose = match self.roles[place] {
                Role::Node => "--for",
                Role::Witness => "--witness",
            };
            let (file, out) = (text(self.config(place))?, text(self.credentials(place))?);
            let words = [
                "security",
                "issue",
                "--directory",
                &first,
                whose,
                &file,
                "--out",
                &out,
            ];
            let issued = cli::done(&words);
            issued.with_context(|| format!("credentials of {}", name(place)))?;
        }
        cli::show(Some(cli::Keys::Machine(first)));
        Ok(())
    }
}
