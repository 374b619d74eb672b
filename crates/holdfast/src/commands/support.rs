//! `holdfast support-bundle`: what somebody needs who helps, in one file.
//!
//! Invariants:
//! - there is no secret in it: nodes leave theirs out, and everything is looked through once more here;
//! - it is bounded: where not everything has room, what is needed least is left out ([`Need`]), of whichever node it is;
//! - what could not be had is said in `missing.txt`, and keeps nothing else out.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use holdfast_api::documents::{HistoryOf, HistoryQuery, LocalSupport, Retention, StallQuery};
use holdfast_api::{ApiClient, redaction};
use holdfast_tls::DEMO;
use jiff::Timestamp;
use serde::Serialize;

use super::client;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes};

/// Bytes of all files at most, before they are made smaller: a mail takes what is left of it.
const BYTES_MAX: usize = 128 << 20;
/// Volumes whose history is taken: in a larger cluster the others are asked for by name.
const HISTORIES_MAX: usize = 100;
/// How far back the history goes.
const HISTORY: Duration = Duration::from_secs(60 * 60);
/// Seconds of a step of it.
const HISTORY_STEP: u32 = 10;

/// What is put together for whoever helps, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct SupportArguments {
    /// The file to write [default: holdfast-support-TIME.tar.gz here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The nodes to ask, by name [default: all]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "directory"
    )]
    nodes: Vec<String>,
    /// A node's directory, for a node that does not start: nobody is asked anything
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// What is told of the file.
#[derive(Serialize)]
struct Written {
    file: PathBuf,
    bytes: u64,
    missing: Vec<String>,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    arguments: &SupportArguments,
) -> Result<(), Failure> {
    let now = SystemTime::now();
    let path = arguments.out.clone().unwrap_or_else(|| {
        let time = Timestamp::try_from(now).unwrap_or_default();
        format!(
            "holdfast-support-{}.tar.gz",
            time.strftime("%Y%m%dT%H%M%SZ")
        )
        .into()
    });
    let mut bundle = Bundle::default();
    bundle.document("bundle.json", &about(now));
    match &arguments.directory {
        Some(directory) => {
            let support = holdfast_node::support::offline(directory);
            if support.log.is_empty() && support.configuration.is_null() {
                let what = format!(
                    "{} has neither a log nor a configuration",
                    directory.display()
                );
                return Err(Failure::new(what)
                    .hint("it is the node's `directory`, for example /var/lib/holdfast"));
            }
            bundle.node("node", &support);
        }
        None => gather(&client(global), &arguments.nodes, now, &mut bundle).await?,
    }
    let missing = bundle.missing.clone();
    let bytes_written = bundle.write_to(&path).map_err(|error| {
        Failure::new(format!("write {}: {error}", path.display()))
            .hint("--out FILE names another file; one that is there is not written over")
    })?;
    let written = Written {
        file: path,
        bytes: bytes_written,
        missing,
    };
    output.result(&written, || text(&written))
}

fn text(written: &Written) -> String {
    let Written {
        file,
        bytes: size,
        missing,
    } = written;
    let mut text = format!("wrote {} ({})\n", file.display(), bytes(*size));
    for what in missing {
        text.push_str(&format!("missing: {what}\n"));
    }
    text.push_str("there are names, addresses and logs in it, and no secrets: look at it before you send it\n");
    text
}

fn about(now: SystemTime) -> serde_json::Value {
    let taken = Timestamp::try_from(now).unwrap_or_default();
    serde_json::json!({
        "taken": taken.to_string(),
        "program": holdfast_node::versions(),
    })
}

/// Asks for everything, of whoever answers.
async fn gather(
    client: &ApiClient,
    wanted: &[String],
    now: SystemTime,
    bundle: &mut Bundle,
) -> Result<(), Failure> {
    macro_rules! take {
        ($name:expr, $asked:expr) => {
            match $asked.await {
                Ok(answer) => {
                    bundle.document($name, &answer);
                    Some(answer)
                }
                Err(error) => {
                    bundle.lacks($name, &error);
                    None
                }
            }
        };
    }
    take!("status.json", client.status());
    take!("explain.json", client.explain());
    let nodes = take!("nodes.json", client.nodes());
    let volumes = take!("volumes.json", client.volumes());
    take!("settings.json", client.settings());
    take!("initiators.json", client.initiators());
    take!("tasks.json", client.tasks());
    take!("stalls.json", client.stalls(None, StallQuery::default()));
    take!("known-cluster.json", client.local_cluster());
    let retention = take!("retention.json", client.retention());
    let query = history(now);
    take!(
        "history/cluster.json",
        client.history(&HistoryOf::Cluster, query)
    );
    let known = nodes.map(|list| list.nodes).unwrap_or_default();
    let known: Vec<String> = known.into_iter().map(|node| node.name).collect();
    if let Some(name) = wanted
        .iter()
        .find(|it| !known.is_empty() && !known.contains(it))
    {
        return Err(Failure::new(format!("there is no node {name}"))
            .hint("`holdfast node list` names them"));
    }
    let asked = if wanted.is_empty() {
        known
    } else {
        wanted.to_vec()
    };
    for name in &asked {
        let of = |what: &str| format!("nodes/{}/{what}", plain(name));
        take!(&of("node.json"), client.node(name));
        take!(&of("devices.json"), client.devices(name));
        take!(
            &of("history.json"),
            client.history(&HistoryOf::Node(name.clone()), query)
        );
    }
    let volumes = volumes.map(|list| list.volumes).unwrap_or_default();
    for volume in volumes.iter().take(HISTORIES_MAX) {
        let file = format!("history/volume-{}.json", plain(&volume.name));
        take!(
            &file,
            client.history(&HistoryOf::Volume(volume.name.clone()), query)
        );
    }
    logs(client, &asked, bundle).await?;
    of_demo(client, retention.filter(|_| wanted.is_empty()), bundle).await;
    Ok(())
}

/// What a demo has beside its nodes: the log of what was done through its own address.
async fn of_demo(client: &ApiClient, retention: Option<Retention>, bundle: &mut Bundle) {
    let kept = retention.map(|it| it.nodes).unwrap_or_default();
    if !kept.iter().any(|it| it.kept.node == DEMO.0) {
        return;
    }
    match client.local_support().await {
        // Another address of the same cluster may have answered: its part is there already.
        Ok(support) if support.node == DEMO.0 => bundle.node("demo", &support),
        Ok(_) => bundle.lacks("demo/audit.log", &"a node answered in the demo's place"),
        Err(error) => bundle.lacks("demo/audit.log", &error),
    }
}

/// Nodes' own parts. They come last: logs are what is large, and each takes its time.
async fn logs(client: &ApiClient, asked: &[String], bundle: &mut Bundle) -> Result<(), Failure> {
    let mut is_any = false;
    for name in asked {
        match client.node_support(name).await {
            Ok(support) => {
                bundle.node(&format!("nodes/{}", plain(name)), &support);
                is_any = true;
            }
            Err(error) => bundle.lacks(&format!("nodes/{}/node.log", plain(name)), &error),
        }
    }
    if !is_any {
        // Without the metadata nobody is asked for another one.
        match client.local_support().await {
            Ok(support) => {
                let folder = format!("nodes/{}", plain(&support.name));
                bundle.node(&folder, &support);
            }
            Err(error) if bundle.has_answers() => bundle.lacks("a node's own part", &error),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The last hour.
fn history(now: SystemTime) -> HistoryQuery {
    let until = now.duration_since(SystemTime::UNIX_EPOCH);
    let until = until.unwrap_or_default();
    let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or_default();
    HistoryQuery {
        from_ms: Some(milliseconds(until.saturating_sub(HISTORY))),
        until_ms: Some(milliseconds(until)),
        step_seconds: Some(HISTORY_STEP),
    }
}

/// A name as a part of a path: names of the cluster are so, what answers may say anything.
fn plain(name: &str) -> String {
    let letters = name.chars().take(64).map(|letter| {
        let is_plain = letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if is_plain { letter } else { '_' }
    });
    let plain: String = letters.collect();
    if plain.trim_matches('.').is_empty() {
        return "unnamed".to_owned();
    }
    plain
}

/// How much a file is needed: what is needed most first. Ten nodes with full logs have no room for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// What is small, and tells how things are.
    Document,
    /// A node's own log.
    Log,
    /// What was done through a node, which no other node has.
    Done,
    /// What happened, of which several nodes have a copy.
    Happened,
    /// The logs of before, in the same order.
    LogBefore,
    DoneBefore,
    HappenedBefore,
}

/// What was gathered.
#[derive(Default)]
struct Bundle {
    files: BTreeMap<String, (Need, Vec<u8>)>,
    bytes: usize,
    missing: Vec<String>,
}

impl Bundle {
    /// Whether the cluster has told anything.
    fn has_answers(&self) -> bool {
        self.files.len() > 1
    }

    fn lacks(&mut self, what: &str, why: &dyn std::fmt::Display) {
        let line = format!("{what}: {why}").replace('\n', " ");
        self.missing.push(redaction::text(&line));
    }

    fn document(&mut self, name: &str, document: &impl Serialize) {
        let mut value = serde_json::to_value(document).expect("documents are valid JSON");
        redaction::document(&mut value);
        let text = serde_json::to_string_pretty(&value).expect("a value is valid JSON");
        self.add(Need::Document, name, text.into_bytes());
    }

    fn text(&mut self, need: Need, name: &str, text: &str) {
        self.add(need, name, redaction::text(text).into_bytes());
    }

    /// Takes a file if there is room for it, or would be without what is needed less.
    fn add(&mut self, need: Need, name: &str, content: Vec<u8>) {
        let less = self.files.values().filter(|(other, _)| *other > need);
        let less: usize = less.map(|(_, content)| content.len()).sum();
        if self.bytes - less + content.len() > BYTES_MAX {
            self.has_no_room(name, content.len());
            return;
        }
        while self.bytes + content.len() > BYTES_MAX {
            self.drop_least();
        }
        self.bytes += content.len();
        self.files.insert(name.to_owned(), (need, content));
    }

    /// Leaves out what is needed least of what is there.
    fn drop_least(&mut self) {
        let least = self
            .files
            .iter()
            .max_by_key(|(name, (need, _))| (*need, *name));
        let least = least.map(|(name, _)| name.clone());
        let name = least.expect("something takes room");
        let (_, content) = self.files.remove(&name).expect("it has just been found");
        self.bytes -= content.len();
        self.has_no_room(&name, content.len());
    }

    fn has_no_room(&mut self, name: &str, length: usize) {
        self.missing.push(format!(
            "{name}: it has {}, and the bundle is full: --nodes asks of fewer nodes",
            bytes(length as u64)
        ));
    }

    /// A node's part, as files.
    fn node(&mut self, folder: &str, support: &LocalSupport) {
        let LocalSupport {
            configuration,
            facts,
            log,
            log_bytes_before,
            log_before,
            events,
            events_before,
            audit,
            audit_before,
            report,
            metrics,
            missing,
            ..
        } = support;
        let about = serde_json::json!({
            "node": support.node,
            "name": support.name,
            "versions": support.versions,
            "taken_ms": support.taken_ms,
            "log_bytes_before": log_bytes_before,
        });
        self.document(&format!("{folder}/about.json"), &about);
        let has_none = configuration.is_null() || *configuration == serde_json::json!({});
        if !has_none {
            self.document(&format!("{folder}/configuration.json"), configuration);
        }
        if let Some(report) = report {
            self.document(&format!("{folder}/report.json"), report);
        }
        let facts = facts
            .iter()
            .map(|(path, text)| format!("== {path}\n{text}\n"));
        let facts: String = facts.collect();
        for (need, name, text) in [
            (Need::Document, "metrics.txt", metrics.as_str()),
            (Need::Document, "system.txt", facts.as_str()),
            (Need::Log, "node.log", log.as_str()),
            (Need::Done, "audit.log", audit.as_str()),
            (Need::Happened, "events.log", events.as_str()),
            (Need::LogBefore, "node.log.old", log_before.as_str()),
            (Need::DoneBefore, "audit.log.old", audit_before.as_str()),
            (
                Need::HappenedBefore,
                "events.log.old",
                events_before.as_str(),
            ),
        ] {
            if !text.is_empty() {
                self.text(need, &format!("{folder}/{name}"), text);
            }
        }
        for what in missing {
            self.lacks(folder, what);
        }
    }

    /// Writes a file that nobody else may read, and that was not there. Tells how large it is.
    fn write_to(self, path: &Path) -> io::Result<u64> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        self.write(&mut file)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    fn write(mut self, file: &mut impl Write) -> io::Result<()> {
        let missing = if self.missing.is_empty() {
            "nothing\n".to_owned()
        } else {
            self.missing.join("\n") + "\n"
        };
        self.files.insert(
            "missing.txt".to_owned(),
            (Need::Document, missing.into_bytes()),
        );
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        for (name, (_, content)) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            let path = format!("holdfast-support/{name}");
            archive.append_data(&mut header, path, content.as_slice())?;
        }
        archive.into_inner()?.finish()?.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use holdfast_api::{Problem, ProblemKind};

    use super::*;

    fn files(bundle: Bundle) -> BTreeMap<String, String> {
        let mut written = Vec::new();
        bundle.write(&mut written).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(written.as_slice()));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (name, text)
        });
        entries.collect()
    }

    #[test]
    fn whoever_tells_secrets_they_are_not_passed_on() {
        let secret = "hunter2-hunter2";
        let mut bundle = Bundle::default();
        let support = LocalSupport {
            name: "n1".to_owned(),
            configuration: serde_json::json!({ "metadata": { "token": secret }, "name": "n1" }),
            facts: [("/proc/x".to_owned(), format!("password={secret}"))].into(),
            log: format!("a line\nAuthorization: Bearer {secret}\n"),
            log_before: format!("chap_secret=\"{secret}\" refused\n"),
            events: format!("{{\"detail\":\"token={secret}\"}}\n"),
            events_before: format!("{{\"detail\":\"password={secret}\"}}\n"),
            audit: format!("{{\"path\":\"/login?token={secret}\"}}\n"),
            audit_before: format!("{{\"changed\":\"secret={secret}\"}}\n"),
            metrics: format!("x{{token=\"{secret}\"}} 1\n"),
            missing: vec![format!("cookie: {secret}")],
            ..LocalSupport::default()
        };
        bundle.node("nodes/n1", &support);
        bundle.document(
            "initiators.json",
            &serde_json::json!([{ "chap": { "secret": secret } }]),
        );
        let problem = Problem::new(ProblemKind::Invalid, format!("Bearer {secret} is no token"));
        bundle.lacks("settings.json", &problem);
        let files = files(bundle);
        for (name, text) in &files {
            assert!(!text.contains(secret), "{name}: {text}");
        }
        let log = &files["holdfast-support/nodes/n1/node.log"];
        assert!(log.starts_with("a line\n"), "{log}");
        let missing = &files["holdfast-support/missing.txt"];
        assert!(missing.contains("settings.json: "), "{missing}");
        assert_eq!(files.len(), 12, "{:?}", files.keys());
    }

    #[test]
    fn it_is_bounded_and_says_what_is_left_out() {
        let mut bundle = Bundle::default();
        let line = "x".repeat(1023) + "\n";
        let half = line.repeat(BYTES_MAX / 2 / line.len());
        bundle.text(Need::Log, "first", &half);
        bundle.text(Need::Log, "second", &(half + "\n"));
        bundle.text(Need::Log, "third", "small\n");
        assert!(bundle.bytes <= BYTES_MAX);
        assert!(
            bundle.missing[0].starts_with("second: it has 64"),
            "{:?}",
            bundle.missing
        );
        let kept: Vec<_> = bundle.files.keys().collect();
        assert_eq!(kept, ["first", "third"]);
    }

    /// The logs of the first nodes are there already when those of the last ones come.
    #[test]
    fn what_is_needed_least_makes_room_whichever_node_it_is_of() {
        let eighth = || vec![b'x'; BYTES_MAX / 8];
        let mut bundle = Bundle::default();
        for node in 1..=4 {
            bundle.add(Need::Log, &format!("n{node}/node.log"), eighth());
            bundle.add(Need::LogBefore, &format!("n{node}/node.log.old"), eighth());
        }
        assert_eq!((bundle.bytes, bundle.missing.len()), (BYTES_MAX, 0));
        bundle.add(Need::Log, "n5/node.log", eighth());
        bundle.add(Need::HappenedBefore, "n5/events.log.old", eighth());
        bundle.add(Need::Done, "n5/audit.log", eighth());
        bundle.add(Need::Document, "small.json", vec![b'x'; 9]);
        let kept: Vec<_> = bundle.files.keys().map(String::as_str).collect();
        let logs = [1, 2, 3, 4, 5].map(|node| format!("n{node}/node.log"));
        assert!(logs.iter().all(|it| kept.contains(&&**it)), "{kept:?}");
        let others = ["n1/node.log.old", "n5/audit.log", "small.json"];
        assert!(others.iter().all(|it| kept.contains(it)), "{kept:?}");
        assert_eq!(kept.len(), 8, "{kept:?}");
        let named = [
            "n4/node.log.old",
            "n5/events.log.old",
            "n3/node.log.old",
            "n2/node.log.old",
        ];
        for (missing, name) in bundle.missing.iter().zip(named) {
            assert!(missing.starts_with(&format!("{name}: ")), "{missing}");
        }
        // What has no place at all makes none.
        bundle.add(Need::Document, "huge", vec![b'x'; BYTES_MAX + 1]);
        assert_eq!(bundle.files.len(), 8);
        let length: usize = bundle.files.values().map(|(_, it)| it.len()).sum();
        assert_eq!(length, bundle.bytes);
    }

    #[test]
    fn what_is_there_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.tar.gz");
        assert!(Bundle::default().write_to(&path).unwrap() > 0);
        let error = Bundle::default().write_to(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn names_do_not_lead_out_of_the_bundle() {
        assert_eq!(plain("n-1.site_a"), "n-1.site_a");
        assert_eq!(plain("../../etc"), ".._.._etc");
        assert_eq!(
            (plain(".."), plain("")),
            ("unnamed".into(), "unnamed".into())
        );
    }
}
