//! The demo from its start to its end.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use holdfast_api::Api;
use holdfast_api::documents::{NodeState, VolumeCreate};
use holdfast_controller::Controller;
use holdfast_model::record::VolumeRecord;
use holdfast_model::{ByteSize, NodeId};
use holdfast_stdx::Count;
use holdfast_tls::AUTHORITY_FILE;
use rustix::process::Signal;
use tokio::time::{Instant, interval, sleep};

use super::claim::Claim;
use super::file::{DemoFile, DemoLogin, DemoVolume};
use super::layout::{Layout, NODES_MAX};
use super::node::{DemoProcess, NodeEvent, running};
use super::patience::Patience;
use super::people::FIRST_USER;
use super::services::Services;
use super::settings::{Settings, default_directory, settle, volume_default};
use super::signals::Signals;
use super::summary::{line, summary};
use super::{DemoOptions, credentials, ports, process, stop};
use crate::cli::VolumeSpec;
use crate::failure::Failure;
use crate::output::Output;

/// How often it is looked whether everything is served.
const READY_POLL: Duration = Duration::from_millis(50);
/// Between two looks at most.
const READY_POLL_MAX: Duration = Duration::from_secs(1);
/// Between two looks passes as much time as one takes, so many times: to look at a large volume keeps the
/// nodes from what they are waited for.
const READY_REST: u32 = 3;
/// After how long, and then how often, it is told what is not served yet.
const WAITING_TALK: Duration = Duration::from_secs(10);
/// How often it is looked whether `demo.json` still says what is there.
const FILE_LOOK: Duration = Duration::from_millis(250);

/// Runs the demo until it is told to stop.
pub(crate) async fn run(options: &DemoOptions, output: Output) -> Result<(), Failure> {
    // From here on a signal waits until it can be obeyed.
    let mut signals = Signals::listen()?;
    let directory = options.dir.clone().map_or_else(default_directory, Ok)?;
    let mut claim = Claim::take(&directory)?;
    let kept = claim.marker().filter(|_| !options.fresh).cloned();
    let settings = settle(options, claim.path(), kept.as_ref())?;
    // What is in the way is told before anything is ended, erased or written.
    if !options.fresh {
        check_metadata(&settings.layout)?;
    }
    check_ports(&settings.layout).await?;
    if options.fresh {
        end_leftovers(&settings.layout).await?;
        // They may have held ports of others.
        check_ports(&settings.layout).await?;
        claim.erase()?;
    }
    let nodes = settings.layout.nodes().count() as u16;
    let nodes_before = kept.as_ref().map_or(nodes, |kept| kept.nodes);
    let marked = claim.mark(nodes_before, &settings)?;
    let cluster = marked.cluster;
    let file = settings.layout.file_path();
    DemoFile::remove(&file).map_err(|error| unwritable(&file, &error))?;
    let own = credentials::prepare(&settings.layout, cluster)?;
    let services = Services::start(&settings.layout, cluster, own).await?;
    if let Err(failure) = check_volumes(
        &services.controller(),
        &settings.volumes,
        &services.patience(),
    )
    .await
    {
        services.leave_to(any_runs(&settings.layout)?);
        return Err(failure);
    }
    if nodes > nodes_before {
        claim.mark(nodes, &settings)?;
        output.talk(&format!(
            "the demo had {nodes_before} nodes: it has {nodes} from now on"
        ));
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("find this program: {error}")))?;
    let mut demo = Demo {
        nodes: Vec::new(),
        settings,
        services,
        output,
        was_here: kept.is_some() && nodes == nodes_before,
        has_result: false,
    };
    let ended = match demo.begin(cluster, &program) {
        Ok(()) => demo.serve(&mut signals).await,
        Err(failure) => Err(Ended::Failed(failure)),
    };
    let has_result = demo.has_result;
    let ended = demo.end(ended, &mut signals).await;
    ended.map_err(|failure| {
        if has_result {
            failure.told_on_stdout()
        } else {
            failure
        }
    })
}

/// Everything that runs.
struct Demo {
    settings: Settings,
    services: Services,
    nodes: Vec<DemoProcess>,
    output: Output,
    /// All its nodes have been here before: what the others have is not given up for one that ends.
    was_here: bool,
    /// It has served everything, and said so on stdout.
    has_result: bool,
}

/// Why the demo is over.
enum Ended {
    /// It was told to stop.
    Stopped,
    /// It never served everything: what it has started itself is ended, what it has adopted goes
    /// on.
    Failed(Failure),
    /// It cannot go on.
    Broken(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Demo {
    /// Starts the nodes that do not run.
    fn begin(&mut self, cluster: holdfast_model::ClusterId, program: &Path) -> Result<(), Failure> {
        let Settings {
            layout,
            device_bytes,
            ..
        } = &self.settings;
        for node in layout.nodes() {
            let begun = DemoProcess::begin(layout, cluster, node, *device_bytes, program)?;
            if begun.is_adopted() {
                let (name, pid) = (begun.name(), begun.pid());
                self.output
                    .talk(&format!("node {name} runs already, as process {pid}"));
            }
            self.nodes.push(begun);
        }
        let directory = layout.directory().display();
        self.output.talk(&format!(
            "starting {} in {directory}",
            Count::of(self.nodes.len(), "node")
        ));
        Ok(())
    }

    /// Brings everything up, and watches it. Returns why that ended; never well.
    async fn serve(&mut self, signals: &mut Signals) -> Result<std::convert::Infallible, Ended> {
        let controller = self.services.controller().serve_within(Duration::ZERO);
        let patience = self.services.patience();
        {
            let ready = prepare(&controller, &self.settings, self.output, &patience);
            tokio::pin!(ready);
            let mut ended = BTreeSet::new();
            loop {
                tokio::select! {
                    done = &mut ready => break done?,
                    (place, event) = next_event(&mut self.nodes) => {
                        let NodeEvent::Ended { how } = &event else {
                            ended.remove(&place);
                            self.tell(place, &event);
                            continue;
                        };
                        ended.insert(place);
                        let failure = too_early(&self.nodes[place], how);
                        if !self.was_here || ended.len() == self.nodes.len() {
                            return Err(failure.into());
                        }
                        self.output.talk(&failure.to_string());
                    }
                    () = signals.next() => return Err(Ended::Stopped),
                    error = self.services.failed() => return Err(broken(&error)),
                }
            }
        }
        let reading = patience.wait("to list the volumes", async || {
            controller.volume_records().await
        });
        let mut file = self.file(demo_volumes(reading.await?));
        self.write(&file).map_err(Ended::Broken)?;
        self.has_result = true;
        self.output
            .result(&file, || summary(&self.settings.layout, &file))?;
        let mut look = interval(FILE_LOOK);
        let mut is_told = false;
        loop {
            let volumes = tokio::select! {
                (place, event) = next_event(&mut self.nodes) => {
                    self.tell(place, &event);
                    None
                }
                found = async { look.tick().await; controller.volume_records().await } => {
                    found.ok().map(demo_volumes)
                }
                () = signals.next() => return Err(Ended::Stopped),
                error = self.services.failed() => return Err(broken(&error)),
            };
            // Nodes come back, and volumes come, grow and go. Without an answer it says what it said.
            let now = self.file(volumes.unwrap_or_else(|| file.volumes.clone()));
            if now == file {
                continue;
            }
            match self.write(&now) {
                Ok(()) => file = now,
                // Hosts are served all the same; it is tried again.
                Err(failure) if !std::mem::replace(&mut is_told, true) => {
                    self.output.talk(&failure.to_string());
                }
                Err(_) => {}
            }
        }
    }

    /// Ends everything.
    async fn end(
        mut self,
        ended: Result<std::convert::Infallible, Ended>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let Err(why) = ended;
        let file = self.settings.layout.file_path();
        if let Err(error) = DemoFile::remove(&file) {
            self.output.talk(&unwritable(&file, &error).to_string());
        }
        if let Ended::Failed(_) = why {
            self.nodes.retain(|node| !node.is_adopted());
        }
        if !self.nodes.is_empty() {
            self.output.talk("stopping the nodes");
        }
        let killed = stop::stop(&mut self.nodes, signals.next()).await;
        let is_needed = any_runs(&self.settings.layout).unwrap_or(false);
        self.services.leave_to(is_needed);
        match why {
            Ended::Failed(failure) | Ended::Broken(failure) => Err(failure),
            Ended::Stopped if killed.is_empty() => {
                self.output.talk("stopped");
                Ok(())
            }
            Ended::Stopped => {
                let names = killed.join(", ");
                Err(Failure::new(format!(
                    "killed {names}, which did not stop cleanly in time"
                ))
                .hint("nothing that was acknowledged is lost; the next start takes longer"))
            }
        }
    }

    fn tell(&self, place: usize, event: &NodeEvent) {
        let node = &self.nodes[place];
        let (name, pid) = (node.name(), node.pid());
        match event {
            NodeEvent::Ended { how } => {
                let command = line(&node.document().command);
                self.output.talk(&format!(
                    "node {name} (process {pid}) {how}\n\nhint: start it again with {command}"
                ));
            }
            NodeEvent::Back => {
                self.output
                    .talk(&format!("node {name} is back as process {pid}"));
            }
        }
    }

    fn file(&self, volumes: Vec<DemoVolume>) -> DemoFile {
        let layout = &self.settings.layout;
        let trusted = layout.credentials();
        let trusted = trusted.map(|it| it.join(AUTHORITY_FILE).display().to_string());
        DemoFile {
            api: layout.url(layout.api()),
            token: self.services.token().map(str::to_owned),
            ca: trusted,
            login: self.services.token().map(|_| DemoLogin {
                user: FIRST_USER.to_owned(),
                password_file: layout.password_path().display().to_string(),
            }),
            nodes: self.nodes.iter().map(DemoProcess::document).collect(),
            volumes,
        }
    }

    fn write(&self, file: &DemoFile) -> Result<(), Failure> {
        let path = self.settings.layout.file_path();
        file.write(&path).map_err(|error| unwritable(&path, &error))
    }
}

/// The volumes, as the file names them.
fn demo_volumes(records: Vec<VolumeRecord>) -> Vec<DemoVolume> {
    let volume = |volume: VolumeRecord| DemoVolume {
        name: volume.name,
        target: volume.target,
        lun: volume.lun,
        bytes: volume.bytes,
        policy: volume.policy,
    };
    records.into_iter().map(volume).collect()
}

/// The next thing that happens to a node. May be cancelled.
async fn next_event(nodes: &mut [DemoProcess]) -> (usize, NodeEvent) {
    let mut waiting: Vec<Pin<Box<dyn Future<Output = NodeEvent> + '_>>> = Vec::new();
    for node in nodes {
        waiting.push(Box::pin(node.next_event()));
    }
    poll_fn(|context| {
        for (place, future) in waiting.iter_mut().enumerate() {
            if let Poll::Ready(event) = future.as_mut().poll(context) {
                return Poll::Ready((place, event));
            }
        }
        Poll::Pending
    })
    .await
}

/// Ends the nodes that an earlier demo has left running: what they have is erased.
async fn end_leftovers(layout: &Layout) -> Result<(), Failure> {
    holdfast_node::etcd::end_left(&layout.etcd_directory());
    for node in 1..=NODES_MAX {
        while let Some(process) = running(layout, NodeId(node))? {
            process.signal(Signal::KILL);
            process::ended(&process).await;
        }
    }
    Ok(())
}

/// Whether a node runs, one of an earlier demo too.
fn any_runs(layout: &Layout) -> Result<bool, Failure> {
    for node in layout.nodes() {
        if running(layout, node)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the volumes that are there already are those that are wanted.
async fn check_volumes(
    controller: &Controller,
    wanted: &[VolumeSpec],
    patience: &Patience,
) -> Result<(), Failure> {
    let reading = patience.wait("to list the volumes", async || controller.volumes().await);
    let there = reading.await?.volumes;
    for spec in wanted {
        let Some(found) = there.iter().find(|found| found.name == spec.name.as_str()) else {
            continue;
        };
        if found.bytes != spec.size.bytes() || found.policy != spec.policy {
            return Err(Failure::new(format!(
                "volume {} is there already, of {} and {}",
                spec.name,
                ByteSize(found.bytes),
                found.policy
            ))
            .hint("leave it out, or give it the same size and policy; --fresh begins anew"));
        }
    }
    Ok(())
}

/// Whether every port is free, but for those of nodes that run already.
async fn check_ports(layout: &Layout) -> Result<(), Failure> {
    let has_etcd = holdfast_node::etcd::is_running(&layout.etcd_directory());
    for used in layout.metadata_uses().iter().filter(|_| !has_etcd) {
        ports::check(used).await?;
    }
    ports::check(&layout.api_use()).await?;
    for node in layout.nodes() {
        if running(layout, node)?.is_none() {
            for used in layout.node_uses(node) {
                ports::check(&used).await?;
            }
        }
    }
    Ok(())
}

/// Nodes that have been here before go with the metadata of then: without it nobody knows what their
/// devices hold.
fn check_metadata(layout: &Layout) -> Result<(), Failure> {
    let metadata = layout.metadata_directory();
    let is_empty = match std::fs::read_dir(&metadata) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let has_nodes = layout
        .nodes()
        .any(|node| layout.node_config_path(node).exists());
    if !(is_empty && has_nodes) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is gone: it says what is on the nodes' devices",
        metadata.display()
    ))
    .hint(
        "put it back from where it went; if it is lost for good, `holdfast recover` makes it again from the \
         devices; --fresh erases everything and begins anew",
    ))
}

/// Waits for the nodes, makes the volumes, and waits until all are served everywhere.
async fn prepare(
    controller: &Controller,
    settings: &Settings,
    output: Output,
    patience: &Patience,
) -> Result<(), Failure> {
    let mut talk = Instant::now() + WAITING_TALK;
    let mut tell = |what: &str| {
        if Instant::now() >= talk {
            output.talk(&format!("waiting still: {what}"));
            talk = Instant::now() + WAITING_TALK;
        }
    };
    let wanted: Vec<NodeId> = settings.layout.nodes().collect();
    loop {
        let begun = Instant::now();
        let listed = patience.wait("to list the nodes", async || controller.nodes().await);
        let nodes = listed.await?.nodes;
        let is_up = |node: &&NodeId| {
            let mut up = nodes.iter().filter(|it| it.state == NodeState::Up);
            up.any(|it| it.node == node.0)
        };
        let (up, down): (Vec<NodeId>, Vec<NodeId>) = wanted.iter().partition(is_up);
        let Some(first) = down.first() else {
            break;
        };
        let (up, all, first) = (up.len(), wanted.len(), Layout::node_name(*first));
        tell(&format!(
            "{up} of {all} nodes are up; {first} is not, its log tells why"
        ));
        rest_after(begun).await;
    }
    let admitting = patience.wait("to admit the nodes", async || {
        controller.admit(&wanted).await
    });
    admitting.await?;
    make_volumes(controller, settings, patience).await?;
    loop {
        let begun = Instant::now();
        let looking = patience.wait("to look at the volumes", async || {
            controller.unserved(&wanted).await
        });
        let unserved = looking.await?;
        let Some((volume, node)) = unserved.first() else {
            return Ok(());
        };
        let (node, more) = (Layout::node_name(*node), unserved.len() - 1);
        let more = if more > 0 {
            format!(", nor {more} more")
        } else {
            String::new()
        };
        tell(&format!(
            "volume {volume} is not served at {node}{more}; {node}'s log tells why"
        ));
        rest_after(begun).await;
    }
}

/// Makes the volumes that are wanted, or one where there have never been any.
async fn make_volumes(
    controller: &Controller,
    settings: &Settings,
    patience: &Patience,
) -> Result<(), Failure> {
    let mut volumes = settings.volumes.clone();
    let asking = patience.wait("to list the volumes", async || controller.is_new().await);
    if volumes.is_empty() && asking.await? {
        // An earlier first start was cut short before its volumes were made.
        volumes.push(volume_default());
    }
    for VolumeSpec { name, size, policy } in volumes {
        let request = VolumeCreate {
            name: name.to_string(),
            bytes: size.bytes(),
            policy,
            target: None,
            lun: None,
        };
        // One that is there already, and is so, is nothing new.
        let making = patience.wait("to make a volume", async || {
            controller.create_volume(request.clone()).await
        });
        making.await?;
    }
    Ok(())
}

async fn rest_after(begun: Instant) {
    let rest = begun.elapsed() * READY_REST;
    sleep(rest.clamp(READY_POLL, READY_POLL_MAX)).await;
}

fn too_early(node: &DemoProcess, how: &str) -> Failure {
    let words = node.last_words();
    let words = words.strip_prefix("error: ").unwrap_or(&words);
    let separator = if words.is_empty() { "" } else { ": " };
    let command = line(&node.document().command);
    Failure::new(format!(
        "node {} {how} before it served{separator}{words}",
        node.name()
    ))
    .hint(format!("start it again with {command}"))
}

fn broken(error: &dyn std::error::Error) -> Ended {
    let cause = error
        .source()
        .map_or_else(String::new, |source| format!(": {source}"));
    Ended::Broken(
        Failure::new(format!("{error}{cause}"))
            .hint("is the disk full? started again, the demo goes on where it was"),
    )
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("write {}: {error}", path.display()))
}
