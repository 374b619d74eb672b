//! What receivers are told.
//!
//! Invariants:
//! - of one message at most [`ALARMS_MAX`] alarms are told, and how many more there are: a storm is one message;
//! - every text in it is cut to a length, and those that are one line are one line;
//! - a message that is sent again has the same id.

use std::fmt::Write;

use ring::digest::{Context, SHA256};

/// Alarms in a message at most: more than that nobody reads, and each may be some kilobytes.
pub const ALARMS_MAX: usize = 50;
/// Characters of a name, a code, a subject or a title at most: it is a part of one line.
pub(crate) const LINE_CHARS_MAX: usize = 120;
/// Characters of a longer text at most: some sentences.
pub(crate) const TEXT_CHARS_MAX: usize = 1000;
/// Bytes of the hash that are a message's id.
const ID_BYTES: usize = 16;

/// What there is to tell at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The cluster's id.
    pub cluster: String,
    /// What people call the cluster.
    pub cluster_name: String,
    /// When this was put together, in milliseconds since 1970 (UTC). The same when it is sent again.
    pub sent_at_ms: u64,
    /// The alarms, the most important first.
    pub alarms: Vec<Told>,
    /// How many more changes there were, alarms that were raised or over, of which nothing is known any more.
    pub forgotten: u64,
}

/// What there is to tell of an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The alarm's id: the same for all that is told of it.
    pub id: String,
    /// What kind of alarm it is, such as `node-lost`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// Why it is told now.
    pub change: Change,
    /// What it is about, such as `node n2`.
    pub subject: String,
    /// What is the matter, in a few words.
    pub title: String,
    /// What there is to know of this case.
    pub detail: String,
    /// What alarms of this kind mean.
    pub meaning: String,
    /// What to do.
    pub action: String,
    /// Since when it is so, in milliseconds since 1970 (UTC).
    pub since_ms: u64,
    /// Since when it is over, in milliseconds since 1970 (UTC).
    pub cleared_ms: Option<u64>,
}

/// How much an alarm matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody should look.
    Warning,
    /// Somebody must look now.
    Critical,
}

/// Why an alarm is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is raised.
    Raised,
    /// It is over.
    Cleared,
    /// Nothing is the matter: somebody wants to know whether messages arrive.
    Test,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Change {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
            Self::Test => "test",
        }
    }
}

impl Message {
    /// Which message it is, in hexadecimal digits: a message that is sent again, or to another receiver, has the same.
    pub(crate) fn id(&self) -> String {
        let mut hash = Context::new(&SHA256);
        let mut add = |part: &str| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        };
        add(&self.cluster);
        for told in &self.alarms {
            add(&told.id);
            add(told.change.name());
            // What is on record may be restored from a backup: then another alarm has the id.
            add(&told.code);
            add(&told.subject);
            add(&told.since_ms.to_string());
        }
        if self.forgotten > 0 {
            add(&self.forgotten.to_string());
        }
        let hash = hash.finish();
        let mut id = String::new();
        for byte in &hash.as_ref()[..ID_BYTES] {
            write!(id, "{byte:02x}").expect("a string takes it");
        }
        id
    }

    /// What there is to tell, and how many alarms more there are.
    pub(crate) fn told(&self) -> (&[Told], usize) {
        let told = &self.alarms[..self.alarms.len().min(ALARMS_MAX)];
        (told, self.alarms.len() - told.len())
    }

    /// All of it in a line: `[Holdfast prod] CRITICAL node-lost: node n2`.
    pub(crate) fn summary(&self) -> String {
        let cluster = one_line(&self.cluster_name);
        match self.alarms.as_slice() {
            [] => format!(
                "[Holdfast {cluster}] {} changes of alarms that are over, and forgotten",
                self.forgotten
            ),
            [only] => format!("[Holdfast {cluster}] {}", only.headline()),
            several => format!("[Holdfast {cluster}] {}", headline(several)),
        }
    }
}

impl Told {
    fn headline(&self) -> String {
        let severity = self.severity.name().to_uppercase();
        let how = match self.change {
            Change::Raised => severity,
            Change::Cleared => "CLEARED".to_owned(),
            Change::Test => "TEST".to_owned(),
        };
        let (code, subject) = (one_line(&self.code), one_line(&self.subject));
        format!("{how} {code}: {subject}")
    }
}

/// `CRITICAL 3 alarms: 2 raised, 1 cleared`; the severity is the worst of what is not over.
fn headline(several: &[Told]) -> String {
    let bad = |told: &&Told| told.change == Change::Raised;
    let worst = several.iter().filter(bad).map(|told| told.severity).max();
    let how = worst.map_or("ALL CLEARED".to_owned(), |it| it.name().to_uppercase());
    let mut parts = Vec::new();
    for (change, word) in [
        (Change::Raised, "raised"),
        (Change::Cleared, "cleared"),
        (Change::Test, "of a test"),
    ] {
        let count = several.iter().filter(|told| told.change == change);
        match count.count() {
            0 => {}
            count => parts.push(format!("{count} {word}")),
        }
    }
    format!("{how} {} alarms: {}", several.len(), parts.join(", "))
}

/// A text as a part of one line: what would end the line, or steer what shows it, is a space.
pub(crate) fn one_line(text: &str) -> String {
    cut(text, LINE_CHARS_MAX, |character| !is_control(character))
}

/// A text of several lines; nothing in it steers what shows it.
pub(crate) fn lines(text: &str) -> String {
    let text = text.trim();
    cut(text, TEXT_CHARS_MAX, |character| {
        character == '\n' || !is_control(character)
    })
}

/// Control characters, and those that end lines or turn the direction of writing around.
fn is_control(character: char) -> bool {
    let of_lines = matches!(character, '\u{2028}' | '\u{2029}');
    let of_direction = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || of_lines || of_direction
}

fn cut(text: &str, chars_max: usize, is_kept: impl Fn(char) -> bool) -> String {
    let mut characters = text.chars();
    let begin = characters.by_ref().take(chars_max);
    let mut cut: String = begin
        .map(|character| if is_kept(character) { character } else { ' ' })
        .collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: &str, severity: Severity, change: Change) -> Told {
        Told {
            id: format!("id of {code}"),
            code: code.to_owned(),
            severity,
            change,
            subject: "node n2".to_owned(),
            title: String::new(),
            detail: String::new(),
            meaning: String::new(),
            action: String::new(),
            since_ms: 0,
            cleared_ms: None,
        }
    }

    fn message(alarms: &[Told]) -> Message {
        Message {
            cluster: "c1".to_owned(),
            cluster_name: "prod".to_owned(),
            sent_at_ms: 7,
            alarms: alarms.to_vec(),
            forgotten: 3,
        }
    }

    #[test]
    fn a_message_is_summed_up_in_a_line() {
        let lost = |change| told("node-lost", Severity::Critical, change);
        let low = |change| told("pool-low", Severity::Warning, change);
        for (alarms, expected) in [
            (vec![lost(Change::Raised)], "CRITICAL node-lost: node n2"),
            (vec![low(Change::Raised)], "WARNING pool-low: node n2"),
            (vec![lost(Change::Cleared)], "CLEARED node-lost: node n2"),
            (vec![lost(Change::Test)], "TEST node-lost: node n2"),
            (
                vec![lost(Change::Cleared), low(Change::Raised)],
                "WARNING 2 alarms: 1 raised, 1 cleared",
            ),
            (
                vec![lost(Change::Cleared), low(Change::Cleared)],
                "ALL CLEARED 2 alarms: 2 cleared",
            ),
            (vec![], "3 changes of alarms that are over, and forgotten"),
        ] {
            let expected = format!("[Holdfast prod] {expected}");
            assert_eq!(message(&alarms).summary(), expected);
        }
    }

    #[test]
    fn texts_are_cut_and_steer_nothing() {
        assert_eq!(one_line("a\r\nBcc: b\0\u{202e}\u{85}"), "a  Bcc: b   ");
        let long = "ä".repeat(LINE_CHARS_MAX);
        assert_eq!(one_line(&long), long);
        assert_eq!(one_line(&format!("{long}x")), format!("{long}…"));
        assert_eq!(lines(" a\n\tb\x1b[1m\n"), "a\n b [1m");
        assert_eq!(
            lines(&"x".repeat(1_000_000)).chars().count(),
            TEXT_CHARS_MAX + 1
        );
        let mut injected = message(&[told("x\r\ny", Severity::Warning, Change::Raised)]);
        injected.cluster_name = "p\nq".to_owned();
        assert_eq!(injected.summary(), "[Holdfast p q] WARNING x  y: node n2");
    }

    #[test]
    fn an_id_is_one_messages() {
        let raised = told("node-lost", Severity::Critical, Change::Raised);
        let first = message(std::slice::from_ref(&raised));
        assert_eq!(first.id().len(), 2 * ID_BYTES);
        assert_eq!(first.id(), first.id());
        // Sent again, it is the same.
        let mut later = first.clone();
        later.sent_at_ms += 1;
        assert_eq!(later.id(), first.id());
        let mut elsewhere = first.clone();
        elsewhere.cluster = "c2".to_owned();
        let cleared = told("node-lost", Severity::Critical, Change::Cleared);
        let mut more = first.clone();
        more.forgotten += 1;
        // Another alarm may have the same id.
        let of = |change: fn(&mut Told)| {
            let mut told = raised.clone();
            change(&mut told);
            message(&[told])
        };
        let kind = of(|it| it.code = "metadata-lost".to_owned());
        let subject = of(|it| it.subject = "node n3".to_owned());
        let later = of(|it| it.since_ms += 1);
        let others = [elsewhere, message(&[cleared]), message(&[]), more];
        for other in others.into_iter().chain([kind, subject, later]) {
            assert_ne!(other.id(), first.id());
        }
    }
}
