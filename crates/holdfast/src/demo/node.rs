//! One node of the demo: started, adopted, watched.
//!
//! Invariants:
//! - a node is started once, at the demo's start, if it does not run; after that only others start
//!   it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use holdfast_model::{ClusterId, NodeId};
use holdfast_node::config::NodeConfig;
use holdfast_node::directory::replace_file;
use tokio::time::sleep;

use super::layout::Layout;
use super::process::{self, Process};
use crate::failure::Failure;

use super::file::DemoNode;

/// How often it is looked for a node that does not run.
const RETURN_POLL: Duration = Duration::from_millis(100);
/// Bytes of a node's last words that are told.
const LAST_WORDS_MAX: u64 = 2 << 10;

/// A node.
#[derive(Debug)]
pub(crate) struct DemoProcess {
    name: String,
    directory: PathBuf,
    talk: PathBuf,
    failure_domain: Option<String>,
    command: Vec<String>,
    portal: String,
    api: String,
    /// The process that ran last.
    pid: u32,
    process: Option<Process>,
    /// If it is a child of ours.
    child: Option<Child>,
}

/// What becomes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    /// Its process has ended.
    Ended {
        /// How, for people.
        how: String,
    },
    /// It has been started again.
    Back,
}

impl DemoProcess {
    /// Adopts the node if it runs, else writes its configuration and starts it.
    pub(crate) fn begin(
        layout: &Layout,
        cluster: ClusterId,
        node: NodeId,
        device_bytes: u64,
        program: &Path,
    ) -> Result<Self, Failure> {
        let config_path = layout.node_config_path(node);
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                Failure::new(format!("{} is not UTF-8", path.display()))
                    .hint("name another directory with --dir")
            })
        };
        let mut demo_node = Self {
            name: Layout::node_name(node),
            directory: layout.node_directory(node),
            talk: layout.node_talk_path(node),
            failure_domain: layout.failure_domain(node),
            command: vec![
                text(program)?,
                "node".to_owned(),
                "--config".to_owned(),
                text(&config_path)?,
            ],
            portal: layout.node_portal(node).to_string(),
            api: layout.url(layout.node_api(node)),
            pid: 0,
            process: None,
            child: None,
        };
        let config = layout.node_config(cluster, node, device_bytes);
        match running(layout, node)? {
            Some(process) => demo_node.adopt(process, &config, &config_path)?,
            None => demo_node.start(&config, &config_path)?,
        }
        Ok(demo_node)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it was found running, not started by us.
    pub(crate) fn is_adopted(&self) -> bool {
        self.child.is_none()
    }

    /// The process, while it runs.
    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// The node as `demo.json` tells of it.
    pub(crate) fn document(&self) -> DemoNode {
        DemoNode {
            name: self.name.clone(),
            pid: self.pid,
            failure_domain: self.failure_domain.clone(),
            portal: self.portal.clone(),
            api: self.api.clone(),
            command: self.command.clone(),
        }
    }

    /// What happens to it next. May be cancelled.
    pub(crate) async fn next_event(&mut self) -> NodeEvent {
        match &self.process {
            Some(process) => {
                process::ended(process).await;
                self.process = None;
                let status = self.child.take().and_then(|mut child| child.wait().ok());
                NodeEvent::Ended {
                    how: describe(status),
                }
            }
            None => {
                while !self.look() {
                    sleep(RETURN_POLL).await;
                }
                NodeEvent::Back
            }
        }
    }

    /// Whether it runs; looks for its process if none is known.
    pub(crate) fn look(&mut self) -> bool {
        if self.process.is_none() {
            match process::of_node(&self.directory) {
                Ok(Some(process)) => {
                    self.pid = process.pid();
                    self.process = Some(process);
                }
                Ok(None) => {}
                Err(error) => tracing::error!(node = self.name, %error, "look for a node"),
            }
        }
        self.process.is_some()
    }

    /// The last that it said, if it said anything.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.talk).unwrap_or_default()
    }

    fn adopt(
        &mut self,
        process: Process,
        config: &NodeConfig,
        config_path: &Path,
    ) -> Result<(), Failure> {
        let pid = process.pid();
        // The file is written before a node is started, and not while it runs.
        let same = NodeConfig::read(config_path).is_ok_and(|present| present == *config);
        if !same {
            let name = &self.name;
            return Err(Failure::new(format!(
                "node {name} runs as process {pid}, with other settings than these"
            ))
            .hint(format!(
                "give the same options as before, or stop it with `kill {pid}`"
            )));
        }
        self.pid = pid;
        self.process = Some(process);
        Ok(())
    }

    fn start(&mut self, config: &NodeConfig, config_path: &Path) -> Result<(), Failure> {
        let refused = |what: &str, error: &io::Error| {
            Failure::new(format!("{what} of node {}: {error}", self.name))
        };
        fs::create_dir_all(&self.directory)
            .and_then(|()| replace_file(config_path, &config.to_toml()))
            .map_err(|error| refused("write the configuration", &error))?;
        let talk = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&self.talk)
            .map_err(|error| refused("write the first words", &error))?;
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(talk)
            // So that a key pressed here is not for it.
            .process_group(0)
            .spawn()
            .map_err(|error| refused("start the process", &error))?;
        self.pid = child.id();
        let process =
            Process::open(self.pid).map_err(|error| refused("watch the process", &error))?;
        self.process = Some(process.expect("a child that nobody has waited for is there"));
        self.child = Some(child);
        Ok(())
    }
}

/// The process that runs a node already.
pub(crate) fn running(layout: &Layout, node: NodeId) -> Result<Option<Process>, Failure> {
    process::of_node(&layout.node_directory(node)).map_err(|error| {
        Failure::new(format!(
            "look for node {}: {error}",
            Layout::node_name(node)
        ))
    })
}

fn last_words(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_MAX)))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn describe(status: Option<ExitStatus>) -> String {
    let Some(status) = status else {
        return "has ended".to_owned();
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(0)) => "has ended".to_owned(),
        (None, code) => format!("has ended with exit status {}", code.unwrap_or_default()),
    }
}
