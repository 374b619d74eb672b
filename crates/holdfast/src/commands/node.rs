//! `holdfast node` and `holdfast witness`: the daemons, and who belongs to the cluster.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use holdfast_api::Door;
use holdfast_api::documents::{
    Node, NodeChange, NodeDetails, NodeList, NodeOrder, NodeStanding, NodeState, SyncWork,
};
use holdfast_controller::{AUDIT_FILE, Accounts, AuditLog, Controller, EVENTS_FILE, EventLog};
use holdfast_node::config::NodeConfig;
use holdfast_node::config::witness::WitnessConfig;
use holdfast_node::{ApiParts, HistoryDesk};
use holdfast_stdx::Count;

use super::{client, drain, found, log, login, protection};
use crate::cli::{Global, NodeSubcommand, Switch};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// Runs a node until it is told to stop.
pub(crate) fn run(config: &Path) -> Result<(), Failure> {
    let config = NodeConfig::read(config).map_err(Failure::new)?;
    let oidc = config.oidc_settings().map_err(Failure::new)?;
    let keys = config.credentials();
    let log = Arc::new(OnceLock::new());
    let opened = Arc::clone(&log);
    let ran = holdfast_node::run(&config, move |parts| {
        let ApiParts {
            cluster,
            name,
            directory,
            is_guarded,
            session,
            founding,
            report,
            stalls,
            metrics,
            history,
            devices,
            connector,
            seal,
            credentials,
            shown_to_etcd,
            upkeep,
        } = parts;
        if let Some(session) = founding {
            let controller = Controller::new(cluster, session, None);
            tokio::spawn(found::found(controller, directory.clone(), report.clone()));
        }
        let events = directory.join(EVENTS_FILE);
        let events = EventLog::open(&events).expect("a process that starts has threads to be had");
        let events = opened.get_or_init(|| events).clone();
        let audit = is_guarded.then(|| audit_log(&directory));
        let controller = Controller::new(cluster, session, Some(report))
            .putting_down(events)
            .auditing(audit.clone())
            .connecting(connector)
            .sealing(seal)
            .showing(credentials)
            .showing_to_etcd(move || shown_to_etcd.good())
            .keeping(stalls, move |report| metrics.text(report))
            .keeping_up(upkeep)
            .changing_devices(move |change| {
                let devices = devices.clone();
                async move { devices.change(change).await }
            });
        let controller = with_history(controller, &history);
        // They end with the node.
        drop((controller.steer(), controller.retain()));
        let door = match audit {
            Some(audit) => {
                let provider = oidc.and_then(|settings| login::provider(settings, &keys));
                let accounts = Accounts::new(controller.clone(), &name, audit);
                Door::Guarded(Arc::new(accounts.trusting(provider)))
            }
            None => Door::Open,
        };
        (controller, door)
    });
    if let (Ok(()), Some(log)) = (&ran, log.get()) {
        log.rest();
    }
    ran.map_err(Failure::new)
}

/// With where the history of the node is asked for.
fn with_history(controller: Controller, history: &HistoryDesk) -> Controller {
    let [asked, traffic, kept] = [history.clone(), history.clone(), history.clone()];
    controller
        .telling_history(
            move |subject, query| {
                let history = asked.clone();
                async move { history.ask(subject, query).await }
            },
            move || {
                let history = traffic.clone();
                async move { history.traffic().await }
            },
        )
        .keeping_history(move || {
            let history = kept.clone();
            async move { history.kept().await }
        })
}

/// The audit log in that directory.
pub(crate) fn audit_log(directory: &Path) -> AuditLog {
    let path = directory.join(AUDIT_FILE);
    AuditLog::open(&path).expect("a process that starts has threads to be had")
}

/// Runs a witness until it is told to stop.
pub(crate) fn witness(config: &Path) -> Result<(), Failure> {
    let config = WitnessConfig::read(config).map_err(Failure::new)?;
    holdfast_node::witness::run(&config).map_err(Failure::new)
}

/// Asks the cluster about nodes, or changes it.
pub(crate) async fn ask(
    global: &Global,
    output: &Output,
    command: NodeSubcommand,
) -> Result<(), Failure> {
    let client = client(global);
    let is_awaited = matches!(command, NodeSubcommand::Drain { wait: true, .. });
    let (name, order, site) = match command {
        NodeSubcommand::List => {
            let list = client.nodes().await?;
            output.result(&list, || text(&list))?;
            return Ok(());
        }
        NodeSubcommand::Show { name } => {
            let details = client.node(&name).await?;
            output.result(&details, || shown(&details))?;
            return Ok(());
        }
        NodeSubcommand::Remove { name } => {
            client.remove_node(&name).await?;
            let removed = serde_json::json!({ "removed": name });
            output.result(&removed, || removed_words(&name))?;
            return Ok(());
        }
        NodeSubcommand::Log(arguments) => return log::run(&client, output, arguments).await,
        NodeSubcommand::Add { name, site } => (name, NodeOrder::Add, site),
        NodeSubcommand::Drain { name, cancel, .. } => {
            let order = if cancel {
                NodeOrder::CancelDrain
            } else {
                NodeOrder::Drain
            };
            (name, order, None)
        }
        NodeSubcommand::Maintenance { switch, name } => {
            let order = match switch {
                Switch::On => NodeOrder::MaintenanceOn,
                Switch::Off => NodeOrder::MaintenanceOff,
            };
            (name, order, None)
        }
    };
    let mut node = client
        .change_node(&name, &NodeChange { order, site })
        .await?;
    if is_awaited {
        node = drain::wait(&client, output, node).await?;
    }
    output.result(&node, || changed(&node))?;
    Ok(())
}

/// What became of a node that was removed, and what becomes of its process.
fn removed_words(name: &str) -> String {
    format!(
        "removed node {name}\nits process, if it runs, goes on, and serves nothing: stop it. To have the node back, start it \
         again, then `holdfast node add {name}`\n"
    )
}

/// What became of an order.
fn changed(node: &Node) -> String {
    let name = &node.name;
    if node.is_drained {
        return format!(
            "node {name} is drained, and can be removed: `holdfast node remove {name}`\n"
        );
    }
    let standing = match node.standing {
        NodeStanding::Maintenance => "in maintenance",
        standing => standing.as_str(),
    };
    let site = node.site.as_ref().map(|site| format!(" in {site}"));
    let site = site.unwrap_or_default();
    let left = to_move(node).map(|left| format!("; {left} to move: `holdfast node show {name}`"));
    let state = state(node);
    let state = (state != "up").then(|| format!(", and {state}"));
    format!(
        "node {name} is {standing}{site}{}{}\n",
        state.unwrap_or_default(),
        left.unwrap_or_default()
    )
}

/// What has to go from a node, if anything has.
pub(crate) fn to_move(node: &Node) -> Option<String> {
    let left = node.to_move;
    let slices = Count::of(left.slices, "slice");
    let time = left.seconds_left.map(protection::about);
    let time = time.map(|time| format!(", {time}")).unwrap_or_default();
    (left.slices > 0).then(|| format!("{slices} ({}){time}", bytes(left.bytes)))
}

/// What has to be copied from or to a node, if anything has.
fn to_sync(work: &SyncWork) -> Option<String> {
    let time = work.seconds_left.map(protection::about);
    let time = time.map(|time| format!(", {time}")).unwrap_or_default();
    (work.replicas > 0).then(|| format!("{}{time}", protection::amount(work)))
}

/// A node, and what is on it.
fn shown(details: &NodeDetails) -> String {
    let NodeDetails { node, slices } = details;
    let mut text = changed(node).replacen(&format!(": `holdfast node show {}`", node.name), "", 1);
    for (way, work) in [("send", &node.to_send), ("receive", &node.to_receive)] {
        if let Some(left) = to_sync(work) {
            text.push_str(&format!("to {way}: {left}\n"));
        }
    }
    text.push('\n');
    let rows: Vec<_> = slices
        .iter()
        .map(|slice| {
            [
                format!("{}/{}", slice.volume, slice.index),
                slice.role.as_str().to_owned(),
                known(slice.used_bytes.map(bytes)),
                if slice.leaves { "yes" } else { "-" }.to_owned(),
            ]
        })
        .collect();
    text.push_str(&table(["SLICE", "ROLE", "USED", "LEAVES"], &rows));
    text
}

fn text(list: &NodeList) -> String {
    let rows: Vec<_> = list
        .nodes
        .iter()
        .map(|node| {
            let up = state(node);
            let state = match node.standing {
                NodeStanding::Active => up,
                _ if node.is_drained => format!("{up}, drained (can be removed)"),
                standing => format!("{up}, {}", standing.as_str()),
            };
            [
                node.name.clone(),
                state,
                known(node.site.clone()),
                known(node.failure_domain.clone()),
                node.portal.clone(),
                node.api.clone(),
                node.replicas.to_string(),
                node.primaries.to_string(),
                known(node.work_per_second.map(|work| work.to_string())),
                known(node.sessions.map(|count| count.to_string())),
                known(node.room.map(|room| bytes(room.used_bytes))),
                known(node.room.map(|room| bytes(room.free_bytes()))),
                known(to_move(node)),
                known(to_sync(&node.to_send)),
                known(to_sync(&node.to_receive)),
            ]
        })
        .collect();
    table(
        [
            "NODE",
            "STATE",
            "SITE",
            "DOMAIN",
            "PORTAL",
            "API",
            "REPLICAS",
            "PRIMARIES",
            "WORK/S",
            "SESSIONS",
            "USED",
            "FREE",
            "TO MOVE",
            "TO SEND",
            "TO RECEIVE",
        ],
        &rows,
    )
}

/// What a node says that believes nothing of the metadata.
const DISBELIEVED: &str = "does not believe the metadata";

/// Whether it can be relied on, and why not.
pub(crate) fn state(node: &Node) -> String {
    let is_disbelieved = node.metadata_believed == Some(false);
    match (node.state, &node.awaited_device) {
        (NodeState::Up, _) if is_disbelieved => format!("up, {DISBELIEVED}"),
        (NodeState::Up, _) => "up".to_owned(),
        (NodeState::Down, _) if node.stopped => "stopped".to_owned(),
        (NodeState::Down, _) if !node.answers => "down".to_owned(),
        (NodeState::Down, Some(device)) => format!("waiting for device {device}"),
        (NodeState::Down, None) if is_disbelieved => DISBELIEVED.to_owned(),
        // There is no room before they are.
        (NodeState::Down, None) if node.room.is_some_and(|room| room.bytes == 0) => {
            "devices not open".to_owned()
        }
        (NodeState::Down, None) => "not ready".to_owned(),
    }
}

/// What not every node tells, or has.
fn known(told: Option<String>) -> String {
    told.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use holdfast_api::documents::{Room, ToMove};

    use super::*;

    /// A node that is up, and holds so many replicas.
    pub(crate) fn node(standing: NodeStanding, replicas: u32) -> Node {
        Node {
            name: "n1".to_owned(),
            node: 1,
            state: NodeState::Up,
            answers: true,
            stopped: false,
            metadata_believed: Some(true),
            awaited_device: None,
            portal: "h:1".to_owned(),
            api: "http://h:2".to_owned(),
            incarnation: 1,
            replicas,
            primaries: 0,
            sessions: None,
            room: None,
            work_per_second: None,
            standing,
            is_drained: false,
            site: None,
            failure_domain: None,
            to_move: ToMove::default(),
            to_send: SyncWork::default(),
            to_receive: SyncWork::default(),
            etag: None,
            versions: None,
        }
    }

    #[test]
    fn a_node_that_is_drained_is_told_as_that() {
        let listed = |standing, replicas| {
            let nodes = vec![node(standing, replicas)];
            text(&NodeList { nodes, next: None })
        };
        let drained = || Node {
            is_drained: true,
            ..node(NodeStanding::Draining, 0)
        };
        let nodes = vec![drained()];
        let told = text(&NodeList { nodes, next: None });
        assert!(told.contains("up, drained (can be removed)"), "{told}");
        // Nothing is there, and something is to be.
        let told = listed(NodeStanding::Draining, 0);
        assert!(told.contains("up, draining  "), "{told}");
        let told = listed(NodeStanding::Active, 0);
        assert!(!told.contains("drain"), "{told}");
        let mut shut = node(NodeStanding::Active, 1);
        (shut.state, shut.room) = (NodeState::Down, Some(Room::default()));
        let waits = Node {
            awaited_device: Some("/dev/sdc".to_owned()),
            ..shut.clone()
        };
        let nodes = vec![shut, waits];
        let told = text(&NodeList { nodes, next: None });
        assert!(told.contains("  devices not open  "), "{told}");
        assert!(told.contains("  waiting for device /dev/sdc  "), "{told}");
        let stopped = Node {
            state: NodeState::Down,
            answers: false,
            stopped: true,
            ..node(NodeStanding::Active, 1)
        };
        assert_eq!(changed(&stopped), "node n1 is active, and stopped\n");
        let nodes = vec![stopped];
        let told = text(&NodeList { nodes, next: None });
        assert!(told.contains("n1    stopped  "), "{told}");
        let far = |state| {
            let other = node(NodeStanding::Active, 1);
            let nodes = vec![Node {
                state,
                metadata_believed: Some(false),
                ..other
            }];
            text(&NodeList { nodes, next: None })
        };
        let told = far(NodeState::Up);
        assert!(
            told.contains("  up, does not believe the metadata  "),
            "{told}"
        );
        let told = far(NodeState::Down);
        assert!(told.contains("  does not believe the metadata  "), "{told}");
        let nodes = vec![Node {
            failure_domain: Some("rack-7".to_owned()),
            ..node(NodeStanding::Active, 1)
        }];
        let told = text(&NodeList { nodes, next: None });
        assert!(
            told.contains("  DOMAIN  ") && told.contains("  rack-7  "),
            "{told}"
        );
        let told = removed_words("n1");
        assert!(told.contains("stop it") && told.contains("`holdfast node add n1`"));
        let told = changed(&drained());
        assert!(told.contains("`holdfast node remove n1`"), "{told}");
    }
}
