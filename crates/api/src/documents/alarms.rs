//! Alarms: what is wrong for long enough to be told to somebody, when that is, and who is told.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use holdfast_model::record::Secret;

use crate::EntityTag;

/// How much an alarm matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlarmSeverity {
    /// Somebody should look, and nothing stands still.
    Warning,
    /// Hosts wait, or the next failure makes them wait.
    Critical,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl AlarmSeverity {
    /// The word that documents use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Other => "other",
        }
    }
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// Names it.
    pub id: u64,
    /// The code of its kind, such as "node-lost".
    pub kind: String,
    /// How much it matters.
    pub severity: AlarmSeverity,
    /// In a few words.
    pub title: String,
    /// What it is about: "node n1", "volume demo", "device 2 of node n1".
    pub subject: String,
    /// What is seen of it while it lasts, as of a minute ago at most, and whether it is well by now, for so long that it may soon be over; of one that is over what was seen last, and how it ended.
    pub detail: String,
    /// What alarms of its kind mean.
    pub meaning: String,
    /// What to do.
    pub action: String,
    /// Since when that is so: milliseconds since 1970 (UTC).
    pub raised_ms: u64,
    /// When it was over: the same; null while it lasts.
    #[serde(default)]
    pub cleared_ms: Option<u64>,
    /// Who has taken note of it; null if nobody has.
    #[serde(default)]
    pub acknowledged: Option<AlarmAcknowledged>,
}

impl Alarm {
    /// Where it stands among others: those that last by how much they matter, then the newest first, before those that are over.
    #[must_use]
    pub fn place(&self) -> String {
        let down = |number: u64| format!("{:020}", u64::MAX - number);
        let id = down(self.id);
        match self.cleared_ms {
            None => format!("0{}{id}", down(self.severity as u64)),
            Some(cleared) => format!("1{}{id}", down(cleared)),
        }
    }
}

/// That somebody has taken note of an alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmAcknowledged {
    /// Who.
    pub by: String,
    /// When: milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// What there was to say; may be empty.
    #[serde(default)]
    pub note: String,
}

/// Letters of a note at most.
pub const ALARM_NOTE_MAX: usize = 200;

/// Taking note of an alarm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlarmAcknowledge {
    /// What there is to say: 200 letters at most.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub note: String,
}

/// Which alarms are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlarmChoice {
    /// Those that last.
    #[default]
    Raised,
    /// Those that are over.
    Cleared,
    /// Both.
    All,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct AlarmQuery {
    /// Which: raised, which is so without it, cleared or all.
    #[param(inline)]
    pub state: AlarmChoice,
}

/// Alarms: those that last, critical ones and the newest first, then those that are over, the newest first; at most 512 and 256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmList {
    /// The alarms.
    pub alarms: Vec<Alarm>,
    /// Where the rest begins, for `after`; none if there is no more. One that lasted when it was told comes again after it if it is
    /// over meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// When alarms of a kind are raised, and cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmThreshold {
    /// The value that sets one, or a worse one.
    pub set: u64,
    /// A better value than this clears it.
    pub clear: u64,
    /// For how many seconds either has to hold.
    pub hold_seconds: u64,
}

/// What an alarm's value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlarmUnit {
    /// It is so (1), or not (0).
    State,
    /// Hundredths.
    Percent,
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Days.
    Days,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// A kind of alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmKind {
    /// Its code.
    pub kind: String,
    /// In a few words.
    pub title: String,
    /// How much alarms of it matter.
    pub severity: AlarmSeverity,
    /// What its value is counted in.
    pub unit: AlarmUnit,
    /// Whether low values are bad, and not high ones.
    pub low_is_bad: bool,
    /// What is in force.
    pub threshold: AlarmThreshold,
    /// What is in force if nobody has set it otherwise.
    pub default_threshold: AlarmThreshold,
    /// Whether none are raised.
    pub off: bool,
    /// What alarms of it mean.
    pub meaning: String,
    /// What to do.
    pub action: String,
    /// Names what is set of it, for `If-Match`: another one when that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// The kinds of alarms, in the order of the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmKindList {
    /// The kinds.
    pub kinds: Vec<AlarmKind>,
}

/// A change of when alarms of a kind are raised. What is not named stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlarmKindChange {
    /// Whether none are raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<bool>,
    /// The value that sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<u64>,
    /// The value beyond which it is cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear: Option<u64>,
    /// For how many seconds either has to hold: a day at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86400)]
    pub hold_seconds: Option<u64>,
}

/// How a connection to a mail relay is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailSecurity {
    /// TLS from the first byte; port 465.
    Tls,
    /// TLS after STARTTLS, and nothing without; port 587 or 25.
    StartTls,
    /// Not at all. Nobody logs in then.
    None,
}

/// That somebody is told by mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MailReceiver {
    /// The relay's host name or address.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: MailSecurity,
    /// Who logs in; null if nobody does.
    #[serde(default)]
    pub user: Option<String>,
    /// The sender's address.
    pub from: String,
    /// The addresses that are told: one to sixteen.
    pub to: Vec<String>,
}

/// That somebody is told by an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookReceiver {
    /// Where the request goes; `(sealed)` where the node that is asked cannot open that.
    pub url: String,
    /// Whether requests are signed.
    pub is_signed: bool,
}

/// Somebody who is told of alarms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receiver {
    /// What it is called.
    pub name: String,
    /// Whether it is told of critical alarms only.
    pub critical_only: bool,
    /// Whether an authority is trusted for it beside the system's.
    pub has_authority: bool,
    /// By mail; null if not.
    #[serde(default)]
    pub mail: Option<MailReceiver>,
    /// By an HTTP request; null if not.
    #[serde(default)]
    pub webhook: Option<WebhookReceiver>,
    /// Changes that it has yet to be told of.
    pub waiting: u64,
    /// Why it could not be told last; null if it could.
    #[serde(default)]
    pub undelivered: Option<ReceiverTrouble>,
    /// Names how receivers are set, for `If-Match`; another one when any of them is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// That a receiver could not be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiverTrouble {
    /// When it was tried last: milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// Why not.
    pub why: String,
    /// How often it was tried since it last could be.
    pub attempts: u32,
    /// Whether what there was to tell was given up.
    pub given_up: bool,
}

/// Those who are told of alarms, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiverList {
    /// The receivers.
    pub receivers: Vec<Receiver>,
}

/// Mail, as it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailPut {
    /// The relay's host name or address.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: MailSecurity,
    /// Who logs in, if anybody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// With which password. Without it, the one that is on record stays, if the server, the port and the user do; empty, none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, write_only)]
    pub password: Option<Secret>,
    /// The sender's address.
    pub from: String,
    /// The addresses that are told: one to sixteen.
    #[schema(min_items = 1, max_items = 16)]
    pub to: Vec<String>,
}

/// A webhook, as it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookPut {
    /// Where requests go: http or https.
    pub url: String,
    /// What they are signed with. Without it, the secret that is on record stays, if the address does; empty, they are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, write_only)]
    pub secret: Option<Secret>,
}

/// A receiver, as it is set: by mail, or by a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiverPut {
    /// Whether it is told of critical alarms only.
    #[serde(default)]
    pub critical_only: bool,
    /// PEM of an authority that is trusted for it beside the system's; empty for none. Without it, the one on record stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// By mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailPut>,
    /// By an HTTP request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookPut>,
}
