//! Machines whose configuration says that they are a node that another machine is.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, binary, cli, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// How long a node may take to start, or to be brought everything: little is on it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the demo's nodes are.
const HERE: &str = "127.0.0.1";
/// Another address of this machine.
const ELSEWHERE: &str = "127.0.0.9";
/// What is looked at of a device: its superblocks, and where the journal begins.
const LOOKED_AT: u64 = 4 << 20;

/// A process that is none of the demo's own.
struct Machine {
    config: PathBuf,
    /// URL of its API.
    api: String,
    child: Child,
}

impl Machine {
    fn start(demo: &Demo, config: &Path) -> Result<Self> {
        let text = fs::read_to_string(config)?;
        let (_, api) = text.split_once("[api]").context("it has an API")?;
        let api = api.split('"').nth(1).context("the API listens")?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(demo.scratch("machine.log"))?;
        let child = Command::new(binary::holdfast()?)
            .args(["node", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start a machine")?;
        Ok(Self {
            config: config.to_owned(),
            api: format!("http://{api}"),
            child,
        })
    }

    /// Waits until it says why it is not registered.
    fn wait_until_rejected(&self, why: &str) -> Result<()> {
        let what = format!("{} is rejected: {why}", self.config.display());
        wait_until(&what, PATIENCE, || {
            let Ok(status) = cli::json::<Value>(&self.api, &["status"]) else {
                return Ok(false);
            };
            let alerts = status["alerts"].to_string();
            Ok(alerts.contains("not registered") && alerts.contains(why))
        })?;
        Ok(())
    }

    /// Waits until it ends by itself, with an error.
    fn wait_until_ended(mut self) -> Result<()> {
        let what = format!("{} ends", self.config.display());
        wait_until(&what, PATIENCE, || {
            let ended = self.child.try_wait()?;
            ended.map_or(Ok(false), |status| {
                ensure!(!status.success(), "it ended as if it had been told to");
                Ok(true)
            })
        })?;
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a copied configuration says.
#[derive(Clone, Copy)]
enum Start<'a> {
    /// This name, and that the node is reached on this machine.
    Named(&'a str),
    /// The name of the node, and that it is reached where it was: a file that tells to listen at every address.
    Unchanged,
}

/// Where a configuration says that other nodes are heard.
fn peers(config: &str) -> Result<&str> {
    let (_, rest) = config.split_once("[peers]").context("it has peers")?;
    rest.split('"').nth(1).context("it listens to them")
}

/// A node's configuration on another machine, with that machine's own addresses and devices.
struct Copied {
    text: String,
    node: String,
    directory: PathBuf,
    config: PathBuf,
}

impl Copied {
    fn new(demo: &Demo, node: &str) -> Result<Self> {
        let directory = demo.scratch("elsewhere");
        let text = fs::read_to_string(demo.path(node).join("node.toml"))?;
        let old = demo.path(node).display().to_string();
        let lines = text.lines().map(|line| {
            let line = line.replace(&old, &directory.display().to_string());
            if line.starts_with("listen") {
                line.replace(HERE, ELSEWHERE) + "\n"
            } else {
                line + "\n"
            }
        });
        Ok(Self {
            text: lines.collect(),
            node: node.to_owned(),
            config: demo.scratch("elsewhere.toml"),
            directory,
        })
    }

    fn start(&self, demo: &Demo, start: Start<'_>) -> Result<Machine> {
        let (old, new) = match start {
            Start::Named(name) => (
                format!("name = \"{}\"", self.node),
                format!("name = \"{name}\""),
            ),
            Start::Unchanged => {
                let of_node = fs::read_to_string(demo.path(&self.node).join("node.toml"))?;
                let listens = format!("listen = \"{}\"", peers(&self.text)?);
                let reached = format!("{listens}\nadvertise = \"{}\"", peers(&of_node)?);
                (listens, reached)
            }
        };
        ensure!(self.text.contains(&old), "{}", self.text);
        fs::write(&self.config, self.text.replacen(&old, &new, 1))?;
        Machine::start(demo, &self.config)
    }

    fn is_blank(&self) -> Result<bool> {
        let device = File::open(self.directory.join("device"))?;
        let mut found = Vec::new();
        device.take(LOOKED_AT).read_to_end(&mut found)?;
        Ok(found.iter().all(|byte| *byte == 0))
    }
}

fn wait_until_filled(demo: &Demo, node: &str, address: &str) -> Result<()> {
    let what = format!("{node} is filled at {address}");
    wait_until(&what, PATIENCE, || {
        let shown: Value = cli::json(demo.api(), &["node", "show", node])?;
        let portal = shown["node"]["portal"].as_str().unwrap_or_default();
        Ok(portal.starts_with(address) && demo.is_whole("demo")?)
    })?;
    Ok(())
}

#[test]
fn another_machine_is_a_node_only_if_an_operator_says_that_the_first_is_gone() {
    // The other machine has a file of its own, and no credentials.
    let options = DemoOptions {
        secure: false,
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let host = Host::open(demo, "demo")?;
        let config = LoadConfig {
            depth: 8,
            ..LoadConfig::default()
        };
        let load = host.load(host.ledger(13), config);
        load.wait_for(200)?;
        let node = demo.primary("demo")?;
        let before = demo.volume("demo")?.epochs();
        let copied = Copied::new(demo, &node)?;
        let of_node = format!("is node {node}'s");
        for (what, start, why) in [
            ("another name", Start::Named("stranger"), of_node.as_str()),
            ("another address", Start::Named(&node), "`take-over`"),
            ("nothing else", Start::Unchanged, "`take-over`"),
        ] {
            let machine = copied.start(demo, start)?;
            machine.wait_until_rejected(why)?;
            load.run_for(Duration::from_secs(3))?;
            drop(machine);
            ensure!(copied.is_blank()?, "with {what} the device was formatted");
        }
        ensure!(
            demo.volume("demo")?.epochs() == before,
            "the node's slices were taken over"
        );
        // The machine is gone for good, and an operator says so.
        demo.kill(&node)?;
        fs::write(copied.directory.join("take-over"), "")?;
        let machine = copied.start(demo, Start::Named(&node))?;
        wait_until_filled(demo, &node, ELSEWHERE)?;
        ensure!(!copied.directory.join("take-over").exists());
        // It is back after all, and is not that node any more.
        let own = demo.path(&node).join("node.toml");
        let former = Machine::start(demo, &own)?;
        former.wait_until_rejected("`take-over`")?;
        drop(former);
        // That was a mistake: the machine that runs ends, and the two do not take turns.
        fs::write(demo.path(&node).join("take-over"), "")?;
        let former = Machine::start(demo, &own)?;
        machine.wait_until_ended()?;
        let machine = copied.start(demo, Start::Named(&node))?;
        machine.wait_until_rejected("`take-over`")?;
        wait_until_filled(demo, &node, HERE)?;
        drop(machine);
        // A copy of everything but the devices passes for the node. The two do not take turns then either.
        fs::copy(
            demo.path(&node).join("machine"),
            copied.directory.join("machine"),
        )?;
        let mut machine = copied.start(demo, Start::Unchanged)?;
        former.wait_until_ended()?;
        let former = Machine::start(demo, &own)?;
        former.wait_until_rejected("`take-over`")?;
        wait_until_filled(demo, &node, ELSEWHERE)?;
        ensure!(machine.child.try_wait()?.is_none(), "it runs");
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        drop((machine, former));
        Ok(())
    });
}
