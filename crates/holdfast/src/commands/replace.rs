//! `holdfast security replace`: another authority takes the place of the present one, while all machines run.
//!
//! Each step changes files of this machine's credentials; the process that runs here takes them up by itself. Before a step that
//! others have to be ready for, all of them are asked.
//!
//! Invariant: no step is taken that would have a machine refused by another one that runs, unless it is said that it is to be.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use holdfast_api::ApiClient;
use holdfast_api::client::ApiUrl;
use holdfast_node::config::NodeConfig;
use holdfast_node::config::etcd::EtcdSection;
use holdfast_node::config::witness::WitnessConfig;
use holdfast_node::etcd::MemberTls;
use holdfast_tls::replacing::{self, Found, Probe, Stage};
use holdfast_tls::{Connector, Credentials, CredentialsError, Subject};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::output::Output;

/// How long another machine may take to take a connection, and to say its first byte: a refusal comes at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a node is asked for: it is there for everybody who is let in.
const OF_NODE: &str = "/api/v1/openapi.json";
/// What a member of etcd is asked for.
const OF_ETCD: &str = "/version";

#[derive(Debug, Subcommand)]
pub(crate) enum ReplaceCommand {
    /// First step: make the next authority, or take the one that was copied here, and believe both
    ///
    /// On the first machine it makes authority.next.pem and authority.next.key in the directory of credentials. Copy both to that of
    /// every other machine, for the owner only, and give this command there, too.
    Begin {
        #[command(flatten)]
        machine: Machine,
    },
    /// Second step, when all machines believe both: have the next authority sign, and show what it signs
    Switch {
        #[command(flatten)]
        machine: Machine,
        /// Do not ask whether the others are ready: those that are not refuse this machine
        #[arg(long)]
        unasked: bool,
    },
    /// Third step, when all machines show what the next authority has signed: believe the one before no more
    Finish {
        #[command(flatten)]
        machine: Machine,
        /// Do not ask whether the others are ready: those that are not are refused by this machine
        #[arg(long)]
        unasked: bool,
    },
    /// Tell how far this machine is, and ask the others whether they are ready for its next step
    Status {
        #[command(flatten)]
        machine: Machine,
    },
}

/// Which machine this is.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Machine {
    /// The file of the node on this machine
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file of the witness on this machine. It asks members of etcd only, not nodes: give its steps after those of all nodes
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
}

/// This machine, as its file says it.
struct Settled {
    directory: PathBuf,
    subject: Subject,
    /// Where the cluster is asked which nodes there are; none on a witness.
    api: Option<String>,
    /// The members of etcd that machines run with TLS.
    members: Vec<String>,
}

/// What `status` tells.
#[derive(Serialize)]
struct Told {
    /// How far this machine is: `one`, `both` or `switched`.
    stage: &'static str,
    /// Whether all others are ready for the next step.
    ready: bool,
    others: Vec<Other>,
}

/// Another port, and whether it is ready.
#[derive(Serialize)]
struct Other {
    name: String,
    ready: bool,
    /// How it is.
    detail: String,
}

/// Does it.
pub(crate) fn run(output: &Output, command: ReplaceCommand) -> Result<(), Failure> {
    match command {
        ReplaceCommand::Begin { machine } => {
            let here = machine.settle()?;
            let next = replacing::prepare(&here.directory, SystemTime::now()).map_err(refused)?;
            output.talk(&format!(
                "{} believes the next authority beside the present one (SHA-256 {}). Do the same on every other machine, with \
                 authority.next.pem and authority.next.key from here, and give clients the new authority.pem; then: holdfast security replace switch",
                here.directory.display(),
                next.fingerprint
            ));
            Ok(())
        }
        ReplaceCommand::Switch { machine, unasked } => {
            let here = machine.settle()?;
            if !unasked {
                here.require(Stage::Both)?;
            }
            replacing::switch(&here.directory).map_err(refused)?;
            output.talk(&format!(
                "the next authority signs in {}: what runs here shows a new certificate within half a minute. When all machines are \
                 so far: holdfast security replace finish",
                here.directory.display()
            ));
            Ok(())
        }
        ReplaceCommand::Finish { machine, unasked } => {
            let here = machine.settle()?;
            if !unasked {
                here.require(Stage::Switched)?;
            }
            replacing::finish(&here.directory).map_err(refused)?;
            output.talk(&format!(
                "{} believes one authority. When this was done on every machine, what the authority before has signed opens no \
                 connection any more. Those that were made before stay up: if its key got into strange hands, restart the process on \
                 every machine now, one after the other",
                here.directory.display()
            ));
            Ok(())
        }
        ReplaceCommand::Status { machine } => {
            let here = machine.settle()?;
            let told = here.look()?;
            output.result(&told, || text(&told))
        }
    }
}

impl Machine {
    fn settle(self) -> Result<Settled, Failure> {
        if let Some(path) = self.witness {
            let config = WitnessConfig::read(&path).map_err(Failure::new)?;
            return Ok(Settled {
                directory: config.credentials(),
                subject: config.subject(),
                api: None,
                members: members(&config.etcd, &config.name, &config.etcd_tls()),
            });
        }
        let path = self.config.expect("one of them is required");
        let config = NodeConfig::read(&path).map_err(Failure::new)?;
        let tls = config.etcd_tls();
        let section = config.etcd.as_ref();
        let members = section.map(|it| members(it, &config.name, &tls));
        Ok(Settled {
            directory: config.credentials(),
            subject: config.subject(),
            api: Some(format!("https://{}", config.api.advertised())),
            members: members.unwrap_or_default(),
        })
    }
}

/// Where the members of etcd are that machines run. All of them are asked where machines have TLS: one that has none yet answers
/// nothing, and believes what it read when it was started.
fn members(section: &EtcdSection, name: &str, tls: &MemberTls) -> Vec<String> {
    if *tls == MemberTls::Off {
        return Vec::new();
    }
    let endpoints = section.endpoints(name, true);
    endpoints.iter().map(|it| it.address().to_owned()).collect()
}

impl Settled {
    /// Whether this machine is so far, and all others are ready.
    fn require(&self, wanted: Stage) -> Result<(), Failure> {
        let told = self.look()?;
        let is_here = replacing::stage(&self.directory).map_err(refused)? == wanted;
        // The step itself says what is wrong on this machine.
        if !is_here || told.ready {
            return Ok(());
        }
        let late = told.others.iter().filter(|it| !it.ready);
        let late: Vec<String> = late
            .map(|it| format!("{}: {}", it.name, it.detail))
            .collect();
        Err(Failure::new(format!(
            "not all machines are ready for this step: {}",
            late.join("; ")
        ))
        .hint(
            "give the step before on these, and wait for half a minute, and so long for each member of etcd, which take turns; one that \
             is gone for good is removed first, or --unasked says that nobody is to be asked",
        ))
    }

    fn look(&self) -> Result<Told, Failure> {
        let stage = replacing::stage(&self.directory).map_err(refused)?;
        let probe = match stage {
            Stage::Both => Probe::of_next(&self.directory, &self.subject, SystemTime::now()),
            Stage::One | Stage::Switched => Probe::of_present(&self.directory),
        };
        let probe = probe.map_err(refused)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::new)?;
        let others = runtime.block_on(self.ask_all(&probe, stage))?;
        Ok(Told {
            stage: match stage {
                Stage::One => "one",
                Stage::Both => "both",
                Stage::Switched => "switched",
            },
            ready: others.iter().all(|it| it.ready),
            others,
        })
    }

    async fn ask_all(&self, probe: &Probe, stage: Stage) -> Result<Vec<Other>, Failure> {
        let mut all = Vec::new();
        if let Some(api) = &self.api {
            for (name, address) in self.nodes(api).await? {
                all.push(ask(probe, stage, format!("node {name}"), &address, OF_NODE).await);
            }
        }
        for address in &self.members {
            let name = format!("etcd at {address}");
            all.push(ask(probe, stage, name, address, OF_ETCD).await);
        }
        Ok(all)
    }

    /// The nodes that there are, and where their interfaces are.
    async fn nodes(&self, api: &str) -> Result<Vec<(String, String)>, Failure> {
        let own = Credentials::read(&self.directory).map_err(refused)?;
        let url: ApiUrl = api.parse().map_err(Failure::new)?;
        let client = ApiClient::new(vec![url], None).connecting(Some(Connector::of_machine(&own)));
        let nodes = client.nodes().await.map_err(|error| {
            Failure::new(format!("ask {api} which nodes there are: {error}")).hint(
                "the node on this machine has to run; --unasked goes on without asking anybody",
            )
        })?;
        let nodes = nodes.nodes.into_iter();
        let address = |url: &str| url.trim_start_matches("https://").to_owned();
        Ok(nodes.map(|it| (it.name, address(&it.api))).collect())
    }
}

async fn ask(probe: &Probe, stage: Stage, name: String, address: &str, path: &str) -> Other {
    let asked = async {
        let reached = timeout(PATIENCE, TcpStream::connect(address)).await;
        let stream = match reached {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(format!("cannot be reached: {error}")),
            Err(_) => return Err("cannot be reached: nobody answers".to_owned()),
        };
        let host = holdfast_model::host_and_port(address).map_or(address, |(host, _)| host);
        let asked = timeout(PATIENCE, probe.ask(host, stream, path)).await;
        let asked = asked.map_err(|_| "it does not answer".to_owned())?;
        asked.map_err(|error| error.to_string())
    };
    let (ready, detail) = match (asked.await, stage) {
        (Err(error), _) => (false, error),
        (Ok(Found::Refuses), Stage::Both) => (
            false,
            "it does not believe the next authority yet".to_owned(),
        ),
        (Ok(Found::Refuses), _) => (false, "it refuses this machine's certificate".to_owned()),
        (Ok(Found::Believes), Stage::Switched) => (
            false,
            "it shows what the authority before has signed".to_owned(),
        ),
        (Ok(Found::Believes | Found::Shows), Stage::Both) => {
            (true, "it believes the next authority".to_owned())
        }
        (Ok(Found::Believes), Stage::One) => (
            false,
            "what it shows is of another authority that is believed here".to_owned(),
        ),
        (Ok(Found::Shows), _) => (
            true,
            "it shows what the authority here has signed".to_owned(),
        ),
    };
    Other {
        name,
        ready,
        detail,
    }
}

fn text(told: &Told) -> String {
    let here = match told.stage {
        "both" => "both authorities are believed here, and the present one signs: `switch` is next",
        "switched" => {
            "the next authority signs here, and the one before is believed: `finish` is next"
        }
        _ => "there is one authority here",
    };
    let mut text = format!("{here}\n");
    for other in &told.others {
        let ready = if other.ready { "ready" } else { "not ready" };
        text.push_str(&format!("{:<9} {}: {}\n", ready, other.name, other.detail));
    }
    text
}

fn refused(error: CredentialsError) -> Failure {
    let is_next = |path: &Path| path.ends_with(replacing::NEXT_KEY_FILE);
    let hint = match &error {
        CredentialsError::Missing(path) if is_next(path) => {
            "copy authority.next.key from the machine on which the next authority was made"
        }
        CredentialsError::Missing(_) => {
            "`holdfast security show` tells what is there; `replace begin` is for machines that have credentials"
        }
        _ => return Failure::new(error),
    };
    Failure::new(error).hint(hint)
}
