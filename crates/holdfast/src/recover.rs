//! `holdfast recover`: metadata that is lost for good, made again from what the nodes' devices say.
//!
//! It refuses to write where something would be replaced unasked, and volumes of which a part would be
//! missing.
//!
//! Invariant: reading and planning change nothing.

mod file;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_control::{Decisions, RecoverError, Recovery, recover};
use holdfast_controller::Controller;
use holdfast_metadata::client::{Client, Status};
use holdfast_metadata::etcd::{EtcdConfig, EtcdEndpoint, EtcdTls, EtcdTlsError};
use holdfast_metadata::{Embedded, HistoryLimits, Store};
use holdfast_model::ClusterId;

use crate::failure::Failure;
use crate::inspect;
use crate::output::Output;

/// How long a store of the metadata may take to answer first.
const PATIENCE: Duration = Duration::from_secs(30);

/// What helps where no etcd answers, whoever starts it.
const UNANSWERED: &str = "start etcd: where `etcd.members` names them, nodes and witnesses start it, and wait meanwhile; where its \
                          data is lost, empty: with an empty `etcd` in each directory of a node or witness, or empty \
                          data directories of an etcd of your own";

#[derive(Debug, Subcommand)]
pub(crate) enum RecoverCommand {
    /// Read a node's devices, while the node does not run, and print its report
    Read {
        /// The node's node.toml, its directory if it has run, or all of its devices
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Tell what the metadata would be, and what cannot be known
    Plan(PlanArguments),
    /// Write the metadata
    Write {
        /// Where to: endpoints of etcd, or the directory of a demo's metadata, while the demo does not run
        #[arg(long, value_name = "URL,URL|DIRECTORY")]
        metadata: String,
        /// Give up what is there
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        tls: TlsArguments,
        #[command(flatten)]
        plan: PlanArguments,
    },
}

/// What TLS to etcd needs, where the endpoints are `https://`.
#[derive(Args, Debug)]
pub(crate) struct TlsArguments {
    /// The certificate of the authority that has signed those of etcd's members, where the endpoints are https://
    #[arg(long, value_name = "FILE")]
    metadata_ca: Option<PathBuf>,
    /// The certificate that is shown to etcd, where it wants one
    #[arg(long, value_name = "FILE", requires = "metadata_key")]
    metadata_certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "metadata_certificate")]
    metadata_key: Option<PathBuf>,
}

impl TlsArguments {
    /// What TLS with these endpoints needs; none where they have none.
    fn settle(&self, endpoints: &[EtcdEndpoint]) -> Result<Option<EtcdTls>, Failure> {
        let secure = endpoints.iter().filter(|it| it.has_tls()).count();
        if secure == 0 {
            return if self.metadata_ca.is_none() && self.metadata_key.is_none() {
                Ok(None)
            } else {
                let text = "--metadata-ca, --metadata-certificate and --metadata-key are for https:// endpoints";
                Err(Failure::new(text).hint("say https:// in --metadata"))
            };
        }
        if secure < endpoints.len() {
            let text = "--metadata: some endpoints are https:// and others are not";
            return Err(Failure::new(text).hint("say https:// for all, or for none"));
        }
        let Some(ca) = &self.metadata_ca else {
            return Err(Failure::new("--metadata: https:// needs --metadata-ca")
                .hint("name the file that metadata.ca in the nodes' files names"));
        };
        let read = |path: &PathBuf| {
            let content = std::fs::read(path);
            content.map_err(|error| Failure::new(format!("read {}: {error}", path.display())))
        };
        let authority = read(ca)?;
        let shown = self.metadata_certificate.as_ref();
        let shown = shown.zip(self.metadata_key.as_ref());
        let shown = shown.map(|(own, key)| Ok::<_, Failure>((read(own)?, read(key)?)));
        let shown = shown.transpose()?;
        let pair = shown.as_ref().map(|(own, key)| (&own[..], &key[..]));
        let tls = EtcdTls::new(&authority, pair).map_err(|error| {
            let option = match error {
                EtcdTlsError::Authority => "--metadata-ca",
                EtcdTlsError::Certificate => "--metadata-certificate",
                EtcdTlsError::Key | EtcdTlsError::OtherKey => "--metadata-key",
            };
            Failure::new(format!("{option}: the file {error}"))
        });
        tls.map(Some)
    }
}

/// What is known, and what was decided.
#[derive(Args, Debug)]
pub(crate) struct PlanArguments {
    /// The nodes' reports, as `holdfast recover read` prints them
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Leave this volume out: its name, or its number, for example v3
    #[arg(long, value_name = "VOLUME")]
    without: Vec<String>,
    /// This node, by its name or its number, for example n2, is lost for good: go on without what it alone
    /// has
    #[arg(long, value_name = "NODE")]
    lost: Vec<String>,
}

/// Reads, or plans.
pub(crate) fn run(output: &Output, command: &RecoverCommand) -> Result<(), Failure> {
    match command {
        RecoverCommand::Read { paths } => {
            let paths = paths.iter().map(PathBuf::as_path);
            let report = inspect::report(paths, output)?;
            output.print(&file::write(&report))
        }
        RecoverCommand::Plan(arguments) => {
            let recovery = plan(arguments)?;
            output.result(&text::document(&recovery), || text::text(&recovery))
        }
        RecoverCommand::Write {
            metadata,
            replace,
            tls,
            plan: arguments,
        } => {
            let recovery = plan(arguments)?;
            refuse_incomplete(&recovery)?;
            crate::within_runtime(write(&recovery, (metadata, tls), *replace))?;
            output.result(&text::document(&recovery), || {
                format!(
                    "{}\nwritten; start the nodes that do not wait already\n",
                    text::text(&recovery).trim_end()
                )
            })
        }
    }
}

fn plan(arguments: &PlanArguments) -> Result<Recovery, Failure> {
    let reports = arguments.reports.iter().map(|path| file::read(path));
    let reports: Vec<_> = reports.collect::<Result<_, _>>()?;
    let decisions = Decisions {
        without: arguments.without.iter().cloned().collect(),
        lost: arguments.lost.iter().cloned().collect(),
    };
    recover(&reports, &decisions).map_err(|error| {
        let hint = match &error {
            RecoverError::NoReport | RecoverError::Absurd { .. } => {
                "write the reports anew, with `holdfast recover read` on each node".to_owned()
            }
            RecoverError::TwoClusters(..) => "name the reports of one cluster".to_owned(),
            RecoverError::Twice(_) => "name the newer one".to_owned(),
            RecoverError::NoVolume(_) | RecoverError::NoNode(_) => {
                "without --without and --lost all volumes and nodes are shown".to_owned()
            }
            RecoverError::NotLost(node) => format!(
                "leave out one of the two: --lost {node}, so that what it has is used; or the file with its report, \
                 and what it alone has is given up"
            ),
            RecoverError::SameName { first, .. } => {
                format!("leave one of them out, for example with --without {first}")
            }
        };
        Failure::new(error).hint(hint)
    })
}

/// A volume of which a part is missing is not written: it cannot be told from one that is whole.
fn refuse_incomplete(recovery: &Recovery) -> Result<(), Failure> {
    let mut volumes = recovery.volumes.values();
    let Some(volume) = volumes.find(|volume| !recovery.is_complete(volume)) else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "of volume {} some slices cannot be made again; `holdfast recover plan` says which, and why",
        volume.name
    ))
    .hint(format!(
        "add the reports that are missing; or leave the volume out for now with --without {}",
        volume.name
    )))
}

async fn write(
    recovery: &Recovery,
    (metadata, tls): (&str, &TlsArguments),
    replace: bool,
) -> Result<(), Failure> {
    let cluster = recovery.cluster.cluster;
    let is_url = metadata.starts_with("http://") || metadata.starts_with("https://");
    // Dropping the store ends it, after everything that it has answered is on the disk.
    let (session, _store) = if is_url {
        (connect(metadata, cluster, tls).await?.session, None)
    } else {
        let store = open(Path::new(metadata), cluster)?;
        (store.session(), Some(store))
    };
    let controller = Controller::new(cluster, session, None);
    Ok(controller.write_recovery(recovery, replace).await?)
}

/// Opens the metadata of a demo that does not run.
fn open(directory: &Path, cluster: ClusterId) -> Result<Embedded, Failure> {
    let opened = Embedded::open(directory, cluster, HistoryLimits::default());
    opened.map_err(|error| {
        Failure::new(format!("open the metadata in {}: {error}", directory.display())).hint(
            "stop the demo first; name a directory that does not exist yet, or that holds the metadata of \
             this cluster",
        )
    })
}

/// Waits until an etcd answers.
async fn connect(urls: &str, cluster: ClusterId, tls: &TlsArguments) -> Result<Client, Failure> {
    let endpoints = urls.split(',').map(|url| url.trim().parse());
    let endpoints: Result<Vec<EtcdEndpoint>, _> = endpoints.collect();
    let endpoints = endpoints.map_err(|error| {
        Failure::new(format!("--metadata: {error}"))
            .hint("name etcd's client endpoints, for example http://192.0.2.7:2379")
    })?;
    let tls = tls.settle(&endpoints)?;
    let mut client = Client::start_etcd(&EtcdConfig {
        endpoints,
        cluster,
        tls,
    });
    let connected = client
        .status
        .wait_for(|status| matches!(status, Status::Connected { .. }));
    let answered = tokio::time::timeout(PATIENCE, connected).await.is_ok();
    if answered {
        return Ok(client);
    }
    let why = match &*client.status.borrow() {
        Status::Disconnected { address, reason } => format!("{address}: {reason}"),
        Status::Connecting | Status::Connected { .. } => "no answer in time".to_owned(),
    };
    Err(Failure::new(format!("the metadata does not answer: {why}")).hint(UNANSWERED))
}
