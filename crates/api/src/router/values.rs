//! What a change has set, in words: for the log of what was done.
//!
//! Invariants:
//! - a secret is in it by its name only, and says that it was set;
//! - so many letters of a value at most, and all of it on one line.

use serde::Serialize;
use serde_json::Value;

use super::shown::shown_text;
use crate::redaction;

/// Letters of a value that are put down at most: a name of an initiator or a node is shorter.
const VALUE_LENGTH_MAX: usize = 100;

/// The names and values of a document, as in `disabled=true, role=viewer`; nothing of it if it says nothing.
pub(super) fn values(request: &impl Serialize) -> String {
    let document = serde_json::to_value(request);
    let mut document = document.expect("documents are valid JSON");
    redaction::document(&mut document);
    let mut said = Vec::new();
    flatten("", &document, &mut said);
    shown_text(&said.join(", "))
}

/// Each value by its name, after the names of what it is in.
fn flatten(name: &str, value: &Value, said: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = match name {
                    "" => field.clone(),
                    _ => format!("{name}.{field}"),
                };
                flatten(&name, value, said);
            }
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(word).collect();
            said.push(format!("{name}={}", bounded(&values.join(" "))));
        }
        Value::Null => {}
        other => said.push(format!("{name}={}", bounded(&word(other)))),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn bounded(text: &str) -> String {
    let mut letters = text.chars();
    let begins: String = letters.by_ref().take(VALUE_LENGTH_MAX).collect();
    match letters.next() {
        Some(_) => begins + "...",
        None => begins,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::Secret;

    use super::*;
    use crate::documents::{
        AccessChange, ChapAccount, InitiatorPut, MailPut, MailSecurity, ReceiverPut,
        SettingsChange, UserChange, WebhookPut,
    };

    const SECRET: &str = "correct horse battery";

    fn secret() -> Option<Secret> {
        Some(Secret(SECRET.to_owned()))
    }

    #[test]
    fn what_is_set_is_told_by_its_names_and_nothing_else_is() {
        let settings = SettingsChange {
            rebalance: Some(false),
            repair_delay_seconds: Some(45),
            ..SettingsChange::default()
        };
        let said = "rebalance=false, repair_delay_seconds=45";
        assert_eq!(values(&settings), said);
        assert_eq!(values(&SettingsChange::default()), "");
        let allow = AccessChange::Allow("iqn.a:b".to_owned());
        assert_eq!(values(&allow), "allow=iqn.a:b");
    }

    #[test]
    fn of_a_secret_it_is_told_that_it_was_set() {
        let user = UserChange {
            password: secret(),
            ..UserChange::default()
        };
        assert_eq!(values(&user), "password=(removed)");
        let account = ChapAccount {
            name: "host".to_owned(),
            secret: secret().unwrap(),
        };
        let initiator = InitiatorPut {
            chap: Some(account.clone()),
            mutual: Some(account),
        };
        let mail = ReceiverPut {
            mail: Some(MailPut {
                server: "smtp.example.org".to_owned(),
                port: 587,
                security: MailSecurity::StartTls,
                user: Some("ops".to_owned()),
                password: secret(),
                from: "a@example.org".to_owned(),
                to: vec!["b@example.org".to_owned(), "c@example.org".to_owned()],
            }),
            authority: Some(format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n")),
            ..ReceiverPut::default()
        };
        let webhook = ReceiverPut {
            webhook: Some(WebhookPut {
                url: "https://ops:correct-horse@example.org/battery".to_owned(),
                secret: secret(),
            }),
            ..ReceiverPut::default()
        };
        let said = [values(&initiator), values(&mail), values(&webhook)];
        for said in &said {
            assert!(!said.contains("correct"), "{said}");
            assert!(!said.contains("battery"), "{said}");
        }
        assert!(
            said[0].contains("chap.name=host, chap.secret=(removed)"),
            "{}",
            said[0]
        );
        assert!(
            said[1].contains("mail.to=b@example.org c@example.org"),
            "{}",
            said[1]
        );
        assert!(said[1].contains("mail.password=(removed)"), "{}", said[1]);
    }

    #[test]
    fn it_is_bounded_and_on_one_line() {
        let long = AccessChange::Allow("a\n".repeat(9000));
        let said = values(&long);
        assert!(said.chars().count() < 120, "{said}");
        assert!(said.ends_with("...") && !said.contains('\n'), "{said}");
        let token = format!("hft_{}_{}", "0".repeat(16), "a".repeat(64));
        assert!(!values(&AccessChange::Allow(token)).contains("aaa"));
    }
}
