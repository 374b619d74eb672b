//! What stands in a mail.
//!
//! Invariants:
//! - texts of alarms are in the body, and in the subject as one line: none is a field's name, an address or an end;
//! - who answers mail by itself does not answer this (RFC 3834).

use std::fmt::Write;

use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::raw::Raw;

use super::Mail;
use crate::message::{Change, Message, Told, lines, one_line};

/// What stands between two alarms.
const RULE: &str = "\n----------------------------------------\n\n";

/// A message as a mail, in bytes of ASCII.
pub(super) fn write(mail: &Mail, message: &Message) -> Vec<u8> {
    let domain = mail.from.rsplit_once('@').map_or("localhost", |it| it.1);
    let name = format!("Holdfast {}", one_line(&message.cluster_name));
    let to = mail.to.iter().map(String::as_str).map(Address::from);
    let seconds = i64::try_from(message.sent_at_ms / 1000).unwrap_or(0);
    let built = MessageBuilder::new()
        .from((name, mail.from.clone()))
        .to(Address::new_list(to.collect()))
        .subject(message.summary())
        .date(seconds)
        .message_id(format!("{}@{domain}", message.id()))
        .header("Auto-Submitted", Raw::new("auto-generated"))
        .header("X-Auto-Response-Suppress", Raw::new("All"))
        .text_body(body(message))
        .write_to_vec();
    built.expect("memory takes it")
}

fn body(message: &Message) -> String {
    let (told, more) = message.told();
    let each: Vec<String> = told.iter().map(alarm).collect();
    let mut body = each.join(RULE);
    if more > 0 {
        writeln!(body, "{RULE}And {more} more: the console has all.").expect("a string takes it");
    }
    if message.forgotten > 0 {
        let rule = if told.is_empty() { "" } else { RULE };
        writeln!(
            body,
            "{rule}{} more changes, alarms that were raised or over before, are not on record any more: this receiver could not be \
             told of them in time.",
            message.forgotten
        )
        .expect("a string takes it");
    }
    let (name, id) = (one_line(&message.cluster_name), one_line(&message.cluster));
    let sent = rfc3339(message.sent_at_ms);
    write!(body, "\n-- \nHoldfast, cluster {name} ({id}), {sent}\n").expect("a string takes it");
    body
}

fn alarm(told: &Told) -> String {
    let severity = told.severity.name();
    let change = match told.change {
        Change::Raised => format!("{severity}, raised"),
        Change::Cleared => format!("{severity}, cleared: it is over"),
        Change::Test => "a test: nothing is the matter".to_owned(),
    };
    let mut text = format!("{}\n\n", one_line(&told.title));
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            writeln!(text, "{name:9}{value}").expect("a string takes it");
        }
    };
    line("Alarm:", &format!("{} ({change})", one_line(&told.code)));
    line("Of:", &one_line(&told.subject));
    line("Since:", &rfc3339(told.since_ms));
    line("Over:", &told.cleared_ms.map_or(String::new(), rfc3339));
    for (name, value) in [
        ("", &told.detail),
        ("What it means: ", &told.meaning),
        ("What to do: ", &told.action),
    ] {
        let value = lines(value);
        if !value.is_empty() {
            write!(text, "\n{name}{value}\n").expect("a string takes it");
        }
    }
    text
}

/// A time as RFC 3339 (UTC), to the second.
fn rfc3339(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_795_000_000_999), "2026-11-18T11:06:40Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-30T22:00:00Z");
    }
}
