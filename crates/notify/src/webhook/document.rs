//! The JSON that a webhook is sent.
//!
//! Invariants:
//! - fields are added, never changed: what could not be read by who reads `version` 1 is another version;
//! - it is bounded, as its texts and the alarms in it are.

use serde::Serialize;

use crate::message::{Message, Told, lines, one_line};

/// The version of the document.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    id: String,
    cluster: Cluster<'a>,
    text: String,
    sent_at_ms: u64,
    alarms: Vec<Alarm>,
    more: usize,
    forgotten: u64,
}

#[derive(Serialize)]
struct Cluster<'a> {
    id: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct Alarm {
    id: String,
    code: String,
    severity: &'static str,
    change: &'static str,
    subject: String,
    title: String,
    detail: String,
    meaning: String,
    action: String,
    since_ms: u64,
    cleared_ms: Option<u64>,
}

impl From<&Told> for Alarm {
    fn from(told: &Told) -> Self {
        Self {
            id: one_line(&told.id),
            code: one_line(&told.code),
            severity: told.severity.name(),
            change: told.change.name(),
            subject: one_line(&told.subject),
            title: one_line(&told.title),
            detail: lines(&told.detail),
            meaning: lines(&told.meaning),
            action: lines(&told.action),
            since_ms: told.since_ms,
            cleared_ms: told.cleared_ms,
        }
    }
}

/// A message as bytes of JSON.
pub(super) fn write(message: &Message) -> Vec<u8> {
    let (told, more) = message.told();
    let document = Document {
        version: VERSION,
        id: message.id(),
        cluster: Cluster {
            id: &one_line(&message.cluster),
            name: &one_line(&message.cluster_name),
        },
        text: message.summary(),
        sent_at_ms: message.sent_at_ms,
        alarms: told.iter().map(Alarm::from).collect(),
        more,
        forgotten: message.forgotten,
    };
    serde_json::to_vec(&document).expect("it has text keys only")
}
