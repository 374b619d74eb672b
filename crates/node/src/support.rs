//! What a node has for whoever looks into something: its part of a support bundle.
//!
//! Invariants:
//! - there is no secret in it: what the configuration has of them is named in one place, and taken out wherever it stands; what looks
//!   like one is taken out as well;
//! - it is bounded: each file is read up to a limit, from its end where that is the newest part;
//! - what could not be read is named in it, with the reason; what need not be there is lacking without a word.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::documents::{LocalSupport, LogChange, LogLevels};
use holdfast_api::{Upkeep, redaction};

use crate::config::NodeConfig;
use crate::logging::{LogDesk, predecessor};
use crate::report::versions;
use crate::run::LOG_FILE;

/// Bytes of the log, its end; and of the one that was full before.
const LOG_BYTES_MAX: u64 = 4 << 20;
const LOG_BEFORE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the log of events, its end; and of the one that was full before.
const EVENT_BYTES_MAX: u64 = 4 << 20;
const EVENT_BEFORE_BYTES_MAX: u64 = 1 << 20;
/// That log in a node's directory.
const EVENTS_FILE: &str = "events.log";
/// Bytes of the log of what was done, its end; and of the one that was full before.
const AUDIT_BYTES_MAX: u64 = 2 << 20;
const AUDIT_BEFORE_BYTES_MAX: u64 = 1 << 20;
/// That log in a node's directory.
const AUDIT_FILE: &str = "audit.log";
/// Bytes of anything else.
const FACT_BYTES_MAX: u64 = 64 << 10;
/// The configuration of a node where the demo and the package put it, beside or in its directory.
const CONFIGURATION_FILE: &str = "node.toml";
/// What the system says, and where.
const FACTS: [&str; 12] = [
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/net/dev",
    "/proc/partitions",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/uptime",
    "/proc/version",
];

/// Answers for the node in this process.
#[derive(Clone, Debug)]
pub struct NodeUpkeep {
    log: LogDesk,
    config: NodeConfig,
}

impl NodeUpkeep {
    pub(crate) fn new(log: LogDesk, config: &NodeConfig) -> Self {
        Self {
            log,
            config: config.clone(),
        }
    }
}

impl Upkeep for NodeUpkeep {
    fn log(&self) -> LogLevels {
        self.log.levels()
    }

    fn change_log(&self, change: &LogChange) -> LogLevels {
        self.log.change(change)
    }

    fn support(&self) -> LocalSupport {
        let config = &self.config;
        let configuration = serde_json::to_value(config).expect("a configuration is a document");
        let known = secrets(config);
        LocalSupport {
            node: config.node.0,
            name: config.name.clone(),
            ..gather(&config.directory, configuration, &known)
        }
    }
}

/// What the configuration has of secrets. What is added to it is named here.
fn secrets(config: &NodeConfig) -> Vec<String> {
    let known = [config.metadata.token.clone()];
    known.into_iter().filter(|it| !it.is_empty()).collect()
}

/// What there is of a node that does not run: of its directory, and the configuration in it, if that is there.
#[must_use]
pub fn offline(directory: &Path) -> LocalSupport {
    let path = directory.join(CONFIGURATION_FILE);
    let read = beginning(&path, FACT_BYTES_MAX);
    // What is no configuration is a reason why the node does not start: as much of it as may be told.
    let table = read.as_deref().ok().map(toml::from_str::<toml::Table>);
    let configuration = match (&table, &read) {
        (Some(Ok(table)), _) => serde_json::to_value(table).unwrap_or_default(),
        (_, Ok(text)) => serde_json::Value::String(text.clone()),
        (_, Err(_)) => serde_json::Value::Null,
    };
    let token = configuration["metadata"]["token"].as_str();
    let known: Vec<String> = token
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect();
    let said = |key: &str| configuration[key].clone();
    let (node, name) = (said("node").as_u64(), said("name"));
    let mut support = LocalSupport {
        node: node.and_then(|it| u16::try_from(it).ok()).unwrap_or(0),
        name: name.as_str().unwrap_or_default().to_owned(),
        ..gather(directory, configuration, &known)
    };
    if let Err(error) = read {
        support.missing.push(format!("{}: {error}", path.display()));
    }
    support
}

/// What a demo has in its own directory, beside those of its nodes: what was done through its address.
#[must_use]
pub fn of_demo(directory: &Path, name: &str) -> LocalSupport {
    let mut missing = Vec::new();
    let audit = directory.join(AUDIT_FILE);
    let audit_before = end_if_any(&predecessor(&audit), AUDIT_BEFORE_BYTES_MAX, &mut missing);
    let audit = end_if_any(&audit, AUDIT_BYTES_MAX, &mut missing);
    LocalSupport {
        name: name.to_owned(),
        versions: versions(),
        taken_ms: now_ms(),
        // It has none, and what a node has is a table.
        configuration: serde_json::json!({}),
        audit: redaction::text(&audit),
        audit_before: redaction::text(&audit_before),
        missing,
        ..LocalSupport::default()
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The end of a log. Before anything has happened, or was done, there is none; before a log was full once there is none before it.
fn end_if_any(path: &Path, bytes_max: u64, missing: &mut Vec<String>) -> String {
    match end(path, bytes_max) {
        Ok((text, _)) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            missing.push(format!("{}: {error}", path.display()));
            String::new()
        }
    }
}

fn gather(
    directory: &Path,
    mut configuration: serde_json::Value,
    known: &[String],
) -> LocalSupport {
    let mut missing = Vec::new();
    let mut facts = BTreeMap::new();
    for path in FACTS {
        match beginning(Path::new(path), FACT_BYTES_MAX) {
            Ok(text) => drop(facts.insert(path.to_owned(), told(&text, known))),
            Err(error) => missing.push(format!("{path}: {error}")),
        }
    }
    let log = directory.join(LOG_FILE);
    let (log_text, log_bytes_before) = end(&log, LOG_BYTES_MAX).unwrap_or_else(|error| {
        missing.push(format!("{}: {error}", log.display()));
        (String::new(), 0)
    });
    let mut any = |path: &Path, bytes_max| told(&end_if_any(path, bytes_max, &mut missing), known);
    let (events, audit) = (directory.join(EVENTS_FILE), directory.join(AUDIT_FILE));
    let log_before = any(&predecessor(&log), LOG_BEFORE_BYTES_MAX);
    let events_before = any(&predecessor(&events), EVENT_BEFORE_BYTES_MAX);
    let audit_before = any(&predecessor(&audit), AUDIT_BEFORE_BYTES_MAX);
    let events = any(&events, EVENT_BYTES_MAX);
    let audit = any(&audit, AUDIT_BYTES_MAX);
    redaction::document(&mut configuration);
    LocalSupport {
        versions: versions(),
        taken_ms: now_ms(),
        configuration: without(configuration, known),
        facts,
        log: told(&log_text, known),
        log_bytes_before,
        log_before,
        events,
        events_before,
        audit,
        audit_before,
        missing,
        ..LocalSupport::default()
    }
}

/// A text without what is known to be secret, and what looks like it.
fn told(text: &str, known: &[String]) -> String {
    let mut text = redaction::text(text);
    for secret in known {
        text = text.replace(secret.as_str(), redaction::REMOVED);
    }
    text
}

/// The same of a document, wherever a secret stands in it.
fn without(value: serde_json::Value, known: &[String]) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(told(&text, known)),
        Value::Array(values) => values.into_iter().map(|it| without(it, known)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, without(value, known)))
            .collect(),
        other => other,
    }
}

/// The beginning of a file.
fn beginning(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of a file, from the beginning of a line on, and how many bytes are before it.
fn end(path: &Path, bytes_max: u64) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut before = file.metadata()?.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(before))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    if before > 0 {
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let begin = line.map_or(bytes.len(), |place| place + 1);
        bytes.drain(..begin);
        before += begin as u64;
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), before))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECRETS: [&str; 4] = [
        "TOKEN-7c1f-of-the-metadata",
        "CHAP-secret-9a",
        "BEARER-of-somebody",
        "MIIEvPRIVATEKEYBYTES",
    ];

    fn planted(directory: &Path) {
        let [token, chap, bearer, key] = SECRETS;
        let toml = format!(
            "node = 3\nname = \"n3\"\n[metadata]\naddresses = [\"h:1\"]\ntoken = \"{token}\"\n\
             [future]\nchap_secret = \"{chap}\"\n"
        );
        fs::write(directory.join(CONFIGURATION_FILE), toml).unwrap();
        let log = format!(
            "an ordinary line\nrefused {token} from h:1\nlogin chap_secret={chap}\n\
             Authorization: Bearer {bearer}\n-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\nthe last line\n"
        );
        for name in [LOG_FILE, EVENTS_FILE, AUDIT_FILE] {
            fs::write(directory.join(name), &log).unwrap();
            fs::write(directory.join(format!("{name}.old")), &log).unwrap();
        }
    }

    #[test]
    fn nothing_secret_is_in_it_wherever_it_was() {
        let directory = tempfile::tempdir().unwrap();
        planted(directory.path());
        let support = offline(directory.path());
        let text = serde_json::to_string(&support).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        assert_eq!((support.node, support.name.as_str()), (3, "n3"));
        assert_eq!(support.configuration["metadata"]["addresses"][0], "h:1");
        assert_eq!(support.configuration["metadata"]["token"], "(removed)");
        for log in [
            &support.log,
            &support.log_before,
            &support.events,
            &support.events_before,
            &support.audit,
            &support.audit_before,
        ] {
            assert!(log.starts_with("an ordinary line\n"), "{log}");
            assert!(log.ends_with("the last line\n"), "{log}");
        }
        assert!(support.facts["/proc/version"].contains("Linux"));
        assert!(support.missing.is_empty(), "{:?}", support.missing);
        // A configuration that is none is told as far as it may be.
        let broken = format!("name = \nmetadata.token = \"{}\"\n", SECRETS[0]);
        fs::write(directory.path().join(CONFIGURATION_FILE), broken).unwrap();
        let support = offline(directory.path());
        let told = support.configuration.as_str().unwrap();
        assert_eq!(told, "name = \nmetadata.token = \"(removed)\"\n");
    }

    #[test]
    fn a_demo_has_what_was_done_through_it_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let nothing = of_demo(directory.path(), "demo");
        assert!(nothing.configuration.is_object(), "as the document says");
        assert_eq!((nothing.audit.as_str(), nothing.missing), ("", Vec::new()));
        planted(directory.path());
        let support = of_demo(directory.path(), "demo");
        assert_eq!((support.node, support.name.as_str()), (0, "demo"));
        for text in [&support.audit, &support.audit_before] {
            assert!(text.starts_with("an ordinary line\n") && text.ends_with("the last line\n"));
            for secret in &SECRETS[1..] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        assert_eq!(support.log, "");
    }

    /// Whoever helps would take a file that is empty for a node to which nothing has happened.
    #[test]
    fn what_is_there_and_cannot_be_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        planted(directory.path());
        let names = [
            "node.log.old",
            EVENTS_FILE,
            "events.log.old",
            AUDIT_FILE,
            "audit.log.old",
        ];
        for name in names {
            let path = directory.path().join(name);
            fs::remove_file(&path).unwrap();
            assert!(offline(directory.path()).missing.is_empty(), "{name}");
            fs::create_dir(&path).unwrap();
            let missing = offline(directory.path()).missing;
            let begin = format!("{}: ", path.display());
            assert!(
                missing.len() == 1 && missing[0].starts_with(&begin),
                "{missing:?}"
            );
            fs::remove_dir(&path).unwrap();
        }
    }

    #[test]
    fn logs_that_were_full_before_are_in_it_up_to_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let line = "{\"an\":\"event\"}\n";
        for (name, bytes_max) in [
            ("events.log.old", EVENT_BEFORE_BYTES_MAX),
            (AUDIT_FILE, AUDIT_BYTES_MAX),
            ("audit.log.old", AUDIT_BEFORE_BYTES_MAX),
        ] {
            let count = bytes_max as usize / line.len() + 1000;
            let text = line.repeat(count) + "the newest\n";
            fs::write(directory.path().join(name), text).unwrap();
        }
        let support = offline(directory.path());
        for (text, bytes_max) in [
            (&support.events_before, EVENT_BEFORE_BYTES_MAX),
            (&support.audit, AUDIT_BYTES_MAX),
            (&support.audit_before, AUDIT_BEFORE_BYTES_MAX),
        ] {
            assert!(text.len() as u64 <= bytes_max);
            assert!(text.starts_with(line) && text.ends_with("the newest\n"));
        }
        assert_eq!(support.events, "", "there is none");
    }

    #[test]
    fn it_is_bounded_and_has_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let line = "a line of a log\n";
        let count = LOG_BYTES_MAX as usize / line.len() + 1000;
        fs::write(&path, line.repeat(count) + "the newest\n").unwrap();
        let support = offline(directory.path());
        assert!(support.log.len() as u64 <= LOG_BYTES_MAX);
        assert!(support.log.starts_with(line) && support.log.ends_with("the newest\n"));
        let all = fs::metadata(&path).unwrap().len();
        assert_eq!(support.log.len() as u64 + support.log_bytes_before, all);
        assert!(
            support.missing[0].contains(CONFIGURATION_FILE),
            "{:?}",
            support.missing
        );
    }
}
