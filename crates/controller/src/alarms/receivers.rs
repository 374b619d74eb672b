//! Who is told of alarms: listed, set, removed and tried.
//!
//! Invariant: a secret that is on record stays only for the place that it was given for.

use std::time::Duration;

use holdfast_api::documents::{
    MailPut, MailReceiver, MailSecurity, Receiver, ReceiverList, ReceiverPut, ReceiverTrouble,
    WebhookPut, WebhookReceiver,
};
use holdfast_api::{EntityTag, Precondition, Problem, ProblemKind};
use holdfast_model::record::{self, ReceiverRecord, ReceiverWay, Secret};
use holdfast_notify::{self as notify, Change, Mail, Severity, Told, Webhook, deliver_within};
use holdfast_seal::{SECRET_LENGTH_MAX, is_sealed};
use holdfast_stdx::crc32c;

use super::Kept;
use crate::Controller;
use crate::clock::unix_ms;

/// Receivers at most.
const RECEIVERS_MAX: usize = 32;
/// How long a test may take: somebody waits for it.
const TEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Letters of a receiver's name at most.
const NAME_LENGTH_MAX: usize = 63;

impl Controller {
    pub(crate) async fn receivers_of_alarms(&self) -> Result<ReceiverList, Problem> {
        let kept = self.alarms_kept().await?;
        let names = kept.receivers.receivers.keys();
        let receivers = names.filter_map(|name| document(&kept, name));
        Ok(ReceiverList {
            receivers: receivers.collect(),
        })
    }

    pub(crate) async fn set_receiver(
        &self,
        name: &str,
        request: &ReceiverPut,
        precondition: &Precondition,
    ) -> Result<Receiver, Problem> {
        check_name(name)?;
        let given = (
            request.mail.as_ref().and_then(|it| it.password.as_ref()),
            request.webhook.as_ref().and_then(|it| it.secret.as_ref()),
        );
        let is_secret = |secret: Option<&Secret>| secret.is_some_and(|it| !it.0.is_empty());
        // The URL of a webhook is one.
        if is_secret(given.0) || is_secret(given.1) || request.webhook.is_some() {
            self.may_keep_secrets()?;
        }
        self.change_alarms(|kept| {
            holds(precondition, kept, name)?;
            let all = &mut kept.receivers.receivers;
            if all.len() >= RECEIVERS_MAX && !all.contains_key(name) {
                let detail = format!("{RECEIVERS_MAX} are told of alarms already");
                return Err(Problem::new(ProblemKind::ClusterFull, detail)
                    .hint("remove one of them; a mail goes to several addresses"));
            }
            let record = of_request(request, all.get(name))?;
            if secret_of(&record).is_some_and(|it| it.0.len() > SECRET_LENGTH_MAX) {
                let detail = format!("a secret has {SECRET_LENGTH_MAX} bytes at most");
                return Err(Problem::new(ProblemKind::Invalid, detail));
            }
            receiver(&record)
                .check()
                .map_err(|error| Problem::new(ProblemKind::Invalid, error))?;
            all.insert(name.to_owned(), record);
            // What was raised before is not told, and what could not be told before may be now.
            let changes = kept.alarms.changes;
            let told = kept.alarms.told.entry(name.to_owned()).or_insert(changes);
            let trouble = kept.alarms.undelivered.remove(name);
            if trouble.is_some_and(|it| it.is_given_up) {
                // What was given up, and lasts, is told after all. What was only waited with is told in any case; it is not made
                // older, so that nothing counts as forgotten that was told.
                let first = kept.alarms.raised.iter().map(|it| it.id).min();
                *told = first.map_or(*told, |first| (*told).min(first.saturating_sub(1)));
            }
            Ok(())
        })
        .await?;
        // What is told has the tag that it is told with, though another may have put it anew meanwhile.
        document(&self.alarms_kept().await?, name).ok_or_else(|| no_such_receiver(name))
    }

    pub(crate) async fn drop_receiver(
        &self,
        name: &str,
        precondition: &Precondition,
    ) -> Result<(), Problem> {
        self.change_alarms(|kept| {
            if kept.receivers.receivers.contains_key(name) {
                holds(precondition, kept, name)?;
            }
            let removed = kept.receivers.receivers.remove(name);
            removed.ok_or_else(|| no_such_receiver(name))?;
            kept.alarms.told.remove(name);
            kept.alarms.undelivered.remove(name);
            Ok(())
        })
        .await
    }

    pub(crate) async fn try_receiver(&self, name: &str) -> Result<(), Problem> {
        let kept = self.alarms_kept().await?;
        let record = kept.receivers.receivers.get(name);
        let record = record.ok_or_else(|| no_such_receiver(name))?;
        if is_closed(record) {
            return Err(Problem::new(ProblemKind::Undelivered, CLOSED));
        }
        let now = unix_ms();
        let test = Told {
            // Each is a message of its own.
            id: format!("test-{now}"),
            code: "test".to_owned(),
            severity: Severity::Warning,
            change: Change::Test,
            subject: format!("receiver {name}"),
            title: "A test".to_owned(),
            detail: "Somebody wants to see whether this arrives.".to_owned(),
            meaning: "Nothing is wrong.".to_owned(),
            action: "Nothing is to be done.".to_owned(),
            since_ms: now,
            cleared_ms: None,
        };
        let delivered =
            deliver_within(&receiver(record), &self.message(vec![test]), TEST_TIME_MAX).await;
        delivered.map_err(|error| Problem::new(ProblemKind::Undelivered, &error).hint(error.help()))
    }
}

/// That a precondition holds of a receiver. What is planned from that is done only while it is so: every change of alarms compares
/// what it was made from.
fn holds(precondition: &Precondition, kept: &Kept, name: &str) -> Result<(), Problem> {
    if !precondition.is_any() {
        return Ok(());
    }
    precondition.holds(tag(kept, name).as_ref())
}

/// Names how receivers are set: by the revision of their document, and, for metadata that was made again, by what is no secret of
/// this one.
fn tag(kept: &Kept, name: &str) -> Option<EntityTag> {
    let mut record = kept.receivers.receivers.get(name)?.clone();
    match &mut record.way {
        ReceiverWay::Mail { password, .. } => *password = None,
        ReceiverWay::Webhook { url, secret } => {
            url.clear();
            *secret = None;
        }
    }
    let text = serde_json::to_vec(&record).expect("a record is valid JSON");
    let (revision, sum) = (kept.at[2].0, crc32c(&text));
    Some(EntityTag::of(&format!("r-{revision:x}-{sum:08x}")))
}

fn secret_of(record: &ReceiverRecord) -> Option<&Secret> {
    match &record.way {
        ReceiverWay::Mail { password, .. } => password.as_ref(),
        ReceiverWay::Webhook { secret, .. } => secret.as_ref(),
    }
}

/// Whether this process cannot open what is sealed of the receiver, and so cannot tell it anything.
pub(super) fn is_closed(record: &ReceiverRecord) -> bool {
    let has_closed_url = matches!(&record.way, ReceiverWay::Webhook { url, .. } if is_sealed(url));
    has_closed_url || secret_of(record).is_some_and(|it| is_sealed(&it.0))
}

/// What is said then.
pub(super) const CLOSED: &str =
    "its secret, or its URL, was sealed with a key that this node does not have: give both anew";

/// What is shown in the place of a URL that cannot be opened.
const CLOSED_URL: &str = "(sealed)";

fn no_such_receiver(name: &str) -> Problem {
    let detail = format!("nobody called {name} is told of alarms");
    Problem::new(ProblemKind::NoSuchReceiver, detail).hint("`holdfast receiver list` tells who is")
}

fn check_name(name: &str) -> Result<(), Problem> {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(is_fit) {
        return Ok(());
    }
    let detail = format!("a receiver's name has 1 to {NAME_LENGTH_MAX} letters, digits and '-'");
    Err(Problem::new(ProblemKind::Invalid, detail))
}

/// What a request makes of what is on record.
fn of_request(
    request: &ReceiverPut,
    present: Option<&ReceiverRecord>,
) -> Result<ReceiverRecord, Problem> {
    let way = match (&request.mail, &request.webhook) {
        (Some(mail), None) => by_mail(mail, present),
        (None, Some(webhook)) => by_webhook(webhook, present),
        _ => {
            let detail = "a receiver is told by mail or by a webhook: one of them";
            return Err(
                Problem::new(ProblemKind::Invalid, detail).hint("for both, make two receivers")
            );
        }
    };
    Ok(ReceiverRecord {
        critical_only: request.critical_only,
        authority: match (&request.authority, present) {
            (Some(given), _) => given.clone(),
            (None, Some(present)) => present.authority.clone(),
            (None, None) => String::new(),
        },
        way,
    })
}

fn by_mail(mail: &MailPut, present: Option<&ReceiverRecord>) -> ReceiverWay {
    let known = present.and_then(|record| match &record.way {
        ReceiverWay::Mail {
            server,
            port,
            user,
            password,
            ..
        } if (server, port, user) == (&mail.server, &mail.port, &mail.user) => password.clone(),
        _ => None,
    });
    ReceiverWay::Mail {
        server: mail.server.clone(),
        port: mail.port,
        security: match mail.security {
            MailSecurity::Tls => record::MailSecurity::Tls,
            MailSecurity::StartTls => record::MailSecurity::StartTls,
            MailSecurity::None => record::MailSecurity::None,
        },
        user: mail.user.clone(),
        password: kept(mail.password.as_ref(), known),
        from: mail.from.clone(),
        to: mail.to.clone(),
    }
}

fn by_webhook(webhook: &WebhookPut, present: Option<&ReceiverRecord>) -> ReceiverWay {
    let known = present.and_then(|record| match &record.way {
        ReceiverWay::Webhook { url, secret } if *url == webhook.url => secret.clone(),
        _ => None,
    });
    ReceiverWay::Webhook {
        url: webhook.url.clone(),
        secret: kept(webhook.secret.as_ref(), known),
    }
}

/// What there is of a secret then: what was given, or nothing where that is empty; without it what was there.
fn kept(given: Option<&Secret>, known: Option<Secret>) -> Option<Secret> {
    match given {
        Some(given) => (!given.0.is_empty()).then(|| given.clone()),
        None => known,
    }
}

/// As deliveries want it.
pub(super) fn receiver(record: &ReceiverRecord) -> notify::Receiver {
    let hidden = |secret: &Secret| notify::Secret::new(secret.0.clone());
    let authority = (!record.authority.is_empty()).then(|| record.authority.clone());
    match &record.way {
        ReceiverWay::Mail {
            server,
            port,
            security,
            user,
            password,
            from,
            to,
        } => notify::Receiver::Mail(Mail {
            server: server.clone(),
            port: *port,
            security: match security {
                record::MailSecurity::Tls => notify::MailSecurity::Tls,
                record::MailSecurity::StartTls => notify::MailSecurity::StartTls,
                record::MailSecurity::None => notify::MailSecurity::None,
            },
            login: user.clone().map(|user| {
                let none = notify::Secret::new(String::new());
                (user, password.as_ref().map_or(none, hidden))
            }),
            from: from.clone(),
            to: to.clone(),
            authority,
        }),
        ReceiverWay::Webhook { url, secret } => notify::Receiver::Webhook(Webhook {
            url: url.clone(),
            secret: secret.as_ref().map(hidden),
            authority,
        }),
    }
}

fn document(kept: &Kept, name: &str) -> Option<Receiver> {
    let record = kept.receivers.receivers.get(name)?;
    let (mail, webhook) = match &record.way {
        ReceiverWay::Mail {
            server,
            port,
            security,
            user,
            from,
            to,
            ..
        } => {
            let mail = MailReceiver {
                server: server.clone(),
                port: *port,
                security: match security {
                    record::MailSecurity::Tls => MailSecurity::Tls,
                    record::MailSecurity::StartTls => MailSecurity::StartTls,
                    record::MailSecurity::None => MailSecurity::None,
                },
                user: user.clone(),
                from: from.clone(),
                to: to.clone(),
            };
            (Some(mail), None)
        }
        ReceiverWay::Webhook { url, secret } => {
            let webhook = WebhookReceiver {
                url: if is_sealed(url) {
                    CLOSED_URL.to_owned()
                } else {
                    url.clone()
                },
                is_signed: secret.is_some(),
            };
            (None, Some(webhook))
        }
    };
    let told = kept.alarms.told.get(name).copied();
    let undelivered = kept.alarms.undelivered.get(name);
    Some(Receiver {
        name: name.to_owned(),
        critical_only: record.critical_only,
        has_authority: !record.authority.is_empty(),
        mail,
        webhook,
        waiting: kept.alarms.changes - told.unwrap_or(kept.alarms.changes).min(kept.alarms.changes),
        undelivered: undelivered.map(|it| ReceiverTrouble {
            at_ms: it.at_ms,
            why: it.why.clone(),
            attempts: it.attempts,
            given_up: it.is_given_up,
        }),
        etag: tag(kept, name),
    })
}
