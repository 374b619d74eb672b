//! `holdfast security`: a cluster's authority, and the credentials of its machines.
//!
//! Everything is done with files on this machine; no API is asked.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use holdfast_model::{ClusterId, NodeId};
use holdfast_node::config::witness::WitnessConfig;
use holdfast_node::config::{NODE_MAX, NodeConfig, cluster_id};
use holdfast_tls::{
    AUTHORITY_FILE, Authority, CredentialsError, Issued, NODE_FILE, Subject, WITNESS,
};
use jiff::Timestamp;
use serde::Serialize;
use zeroize::Zeroizing;

use super::replace::{self, ReplaceCommand};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SecurityCommand {
    /// Make the authority of a new cluster: once, on one of its machines
    ///
    /// A node there makes its own credentials with it when it starts. `holdfast security issue` makes those of other machines.
    Found {
        #[command(flatten)]
        place: Place,
        /// The cluster's id: 32 hexadecimal digits, as in the nodes' files
        #[arg(long, value_name = "ID", value_parser = cluster_id, required_unless_present = "config")]
        cluster: Option<ClusterId>,
    },
    /// Make the credentials of another machine, in a directory that is to be copied there
    ///
    /// Copy it so that nobody else can read it, for example with scp -p, and remove it here.
    Issue {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        subject: SubjectArguments,
        /// Where to put them: a directory that has none yet
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Put another authority in the place of the present one, step by step, while all machines run
    #[command(subcommand)]
    Replace(ReplaceCommand),
    /// Tell whose the credentials in a directory are, and until when they are good
    Show {
        #[command(flatten)]
        place: Place,
    },
}

/// Where this machine's credentials are.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// The directory with this machine's credentials
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file of the node on this machine, which says where that is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// For whom credentials are.
#[derive(Args, Debug)]
pub(crate) struct SubjectArguments {
    /// The file of the node that they are for
    #[arg(long = "for", value_name = "FILE", required_unless_present_any = ["node", "witness"],
          conflicts_with_all = ["node", "name", "address"])]
    file: Option<PathBuf>,
    /// The file of the witness that they are for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "node", "name", "address"])]
    witness: Option<PathBuf>,
    /// The number of the node
    #[arg(long, value_name = "NUMBER", requires = "name",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODE_MAX)))]
    node: Option<u16>,
    /// Its name
    #[arg(long, requires = "node")]
    name: Option<String>,
    /// A host name or an address at which others reach it; may be given several times
    #[arg(long, value_name = "HOST", requires = "node")]
    address: Vec<String>,
}

/// What `show` tells.
#[derive(Serialize)]
struct Shown {
    cluster: String,
    /// The authority.
    authority: Certificate,
    /// Authorities that are believed besides, while one is replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    believed: Vec<Certificate>,
    /// The machine's own certificate; null where there is none yet.
    node: Option<Certificate>,
}

#[derive(Serialize)]
struct Certificate {
    /// The node's number; null for the authority, 65535 for a witness.
    node: Option<u16>,
    /// Host names and addresses that it stands for.
    names: Vec<String>,
    not_after: String,
    sha256: String,
}

/// Does it.
pub(crate) fn run(output: &Output, command: SecurityCommand) -> Result<(), Failure> {
    match command {
        SecurityCommand::Found { place, cluster } => {
            let (directory, config) = place.settle()?;
            let of_file = config.map(|it| it.cluster);
            if let (Some(told), Some(of_file)) = (cluster, of_file)
                && told != of_file
            {
                return Err(Failure::new(format!(
                    "--cluster {told}: the node's file says that it is {of_file}"
                )));
            }
            let cluster = cluster.or(of_file).expect("one of them is required");
            Authority::found(&directory, cluster, SystemTime::now()).map_err(refused)?;
            output.talk(&format!(
                "{} has the authority of cluster {cluster}: whoever has its key can be any node of it",
                directory.display()
            ));
            show(*output, &directory)
        }
        SecurityCommand::Issue {
            place,
            subject,
            out,
        } => {
            let (directory, _) = place.settle()?;
            let authority = Authority::open(&directory).map_err(refused)?;
            let subject = subject.settle(authority.cluster())?;
            let now = SystemTime::now();
            let keys = keys_for_secrets(&directory)?;
            let issued = authority.issue_with(&subject, &out, &keys, now);
            issued.map_err(refused)?;
            if keys.is_empty() {
                output.talk(&format!(
                    "note: {} has no {}, so this machine derives that key from the authority's. That is right unless the authority was ever \
                     replaced: then copy the file there from a node, or secrets in the metadata stay closed to it",
                    directory.display(),
                    holdfast_seal::KEY_FILE
                ));
            }
            output.talk(&format!(
                "{} has the credentials of {}: copy it to that machine, for its owner only, as the directory that its \
                 [security] names",
                out.display(),
                whose(subject.node)
            ));
            show(*output, &out)
        }
        SecurityCommand::Replace(command) => replace::run(output, command),
        SecurityCommand::Show { place } => show(*output, &place.settle()?.0),
    }
}

impl Place {
    /// The directory, and what the node's file says.
    fn settle(self) -> Result<(PathBuf, Option<NodeConfig>), Failure> {
        if let Some(directory) = self.directory {
            return Ok((directory, None));
        }
        let path = self.config.expect("one of them is required");
        let config = NodeConfig::read(&path).map_err(Failure::new)?;
        Ok((config.credentials(), Some(config)))
    }
}

impl SubjectArguments {
    fn settle(self, cluster: ClusterId) -> Result<Subject, Failure> {
        if let Some(path) = self.witness {
            let config = WitnessConfig::read(&path).map_err(Failure::new)?;
            same_cluster(&path, config.cluster, cluster)?;
            return Ok(config.subject());
        }
        let Some(path) = self.file else {
            return Ok(Subject {
                node: NodeId(self.node.expect("one of them is required")),
                name: self.name.expect("it is required with the number"),
                hosts: self.address,
            });
        };
        let config = NodeConfig::read(&path).map_err(Failure::new)?;
        same_cluster(&path, config.cluster, cluster)?;
        Ok(config.subject())
    }
}

/// The keys that secrets in the metadata are sealed with, which a new machine gets. It would derive one from the authority's key, and
/// that is another one where the authority was replaced.
fn keys_for_secrets(directory: &Path) -> Result<Vec<(&'static str, Zeroizing<String>)>, Failure> {
    let names = [holdfast_seal::KEY_FILE, holdfast_seal::FORMER_FILE];
    let read = |name: &'static str| match holdfast_tls::read_key(&directory.join(name)) {
        Ok(text) => Some(Ok((name, text))),
        Err(CredentialsError::Missing(_)) => None,
        Err(error) => Some(Err(refused(error))),
    };
    names.into_iter().filter_map(read).collect()
}

/// Whether a file is of the authority's cluster.
fn same_cluster(path: &Path, found: ClusterId, wanted: ClusterId) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::new(format!(
        "{path} is of cluster {found}, and the authority of {wanted}"
    )))
}

fn show(output: Output, directory: &Path) -> Result<(), Failure> {
    let (authorities, cluster) =
        holdfast_tls::authorities_in(&directory.join(AUTHORITY_FILE)).map_err(refused)?;
    let mut authorities = authorities.into_iter().map(certificate);
    let authority = authorities.next().expect("there is one at least");
    let node = match Issued::of_file(&directory.join(NODE_FILE)) {
        Ok(issued) => Some(certificate(issued)),
        Err(CredentialsError::Missing(_)) => None,
        Err(error) => return Err(refused(error)),
    };
    let shown = Shown {
        cluster: cluster.to_string(),
        authority,
        believed: authorities.collect(),
        node,
    };
    output.result(&shown, || text(&shown))
}

fn text(shown: &Shown) -> String {
    let mut text = format!("cluster    {}\n", shown.cluster);
    let mut line = |what: &str, it: &Certificate| {
        text.push_str(&format!("{what:<10} until {}\n", it.not_after));
        text.push_str(&format!("           SHA-256 {}\n", it.sha256));
        if !it.names.is_empty() {
            text.push_str(&format!("           for {}\n", it.names.join(", ")));
        }
    };
    line("authority", &shown.authority);
    for besides in &shown.believed {
        line("believed", besides);
    }
    match &shown.node {
        Some(own) => {
            let whose = own.node.map_or("node ?".to_owned(), |it| whose(NodeId(it)));
            line(&whose, own);
        }
        None => text.push_str("node       none yet: a node makes it when it starts\n"),
    }
    text
}

/// Whose credentials are.
fn whose(node: NodeId) -> String {
    if node == WITNESS {
        "witness".to_owned()
    } else {
        format!("node {}", node.0)
    }
}

fn certificate(issued: Issued) -> Certificate {
    let until = Timestamp::try_from(issued.not_after);
    Certificate {
        node: issued.identity.map(|it| it.node.0),
        names: issued.names,
        not_after: until.map_or_else(|_| "?".to_owned(), |it| it.to_string()),
        sha256: issued.fingerprint,
    }
}

fn refused(error: CredentialsError) -> Failure {
    let hint = match &error {
        CredentialsError::Missing(_) => {
            "`holdfast security found` makes a cluster's authority, once, on one of its machines; the others get what \
             `holdfast security issue` makes there"
        }
        CredentialsError::Exists(_) => {
            "`holdfast security show` tells what it is; nothing here replaces credentials"
        }
        _ => return Failure::new(error),
    };
    Failure::new(error).hint(hint)
}
