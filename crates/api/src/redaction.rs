//! Secrets, taken out of what is given away: by the names that values have, and by what they look like.
//!
//! It is the second line: what is put into a support bundle is chosen so that there should be no secret in it. It refuses to judge
//! whether something is worth keeping: it rather takes out too much.
//!
//! Invariants:
//! - nothing with a name that is a secret's is kept, whatever it looks like, nor what is in it, and neither is a private key; but
//!   for what says no more than that there is one (`has_secret: true`), or how many;
//! - of a URL neither who logs in there is kept, nor, where it is called a URL, its path: whoever has a webhook's may post there;
//! - a token or a session that this program has made is known by its looks, wherever it stands.

use serde_json::Value;

/// What stands where a secret was.
pub const REMOVED: &str = "(removed)";
/// Parts of names that secrets have, without what stands between words.
const NAMES: [&str; 11] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "token",
    "privatekey",
    "apikey",
    "credential",
    "authorization",
    "cookie",
    "verifier",
];
/// What names of secrets end with besides: keys of any kind. One that names no secret is taken out in vain.
const ENDS: [&str; 2] = ["key", "pwd"];
/// Names whose values go on to the end of the line: headers of HTTP.
const HEADERS: [&str; 2] = ["authorization", "cookie"];
/// Where a word in a text begins to be a secret.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "negotiate "];
/// What the secrets begin with that this program makes: tokens, sessions.
const MADE: [&str; 2] = ["hft_", "hfs_"];
/// Letters of these that are kept, so that it can be told which it was: its id.
const MADE_SHOWN: usize = 20;
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";
/// Around texts of several lines.
const FENCES: [&str; 2] = ["\"\"\"", "'''"];

/// Whether what is called so is a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = plain(name);
    NAMES.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end))
}

/// A name without what stands between its words.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Takes the secrets out of a document: what is under names of secrets, and from other texts what looks like one.
pub fn document(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_secret(name) {
                    remove(name, value);
                } else if plain(name).ends_with("url")
                    && let Value::String(said) = value
                {
                    *said = without_path(said);
                }
                document(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(document),
        Value::String(said) => *said = text(said),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes a text, and those that are in a list or an object. A number is kept where the name goes on after the secret's
/// (`token_count`): else it may be one.
fn remove(name: &str, value: &mut Value) {
    match value {
        Value::String(said) if !said.is_empty() => REMOVED.clone_into(said),
        Value::Number(_) if is_all(name) => *value = Value::String(REMOVED.to_owned()),
        Value::Array(values) => values.iter_mut().for_each(|value| remove(name, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| remove(name, value)),
        _ => {}
    }
}

/// Whether a name ends with that of a secret.
fn is_all(name: &str) -> bool {
    let name = plain(name);
    let mut ends = NAMES.iter().chain(&ENDS);
    ends.any(|end| name.ends_with(end))
}

/// A URL without what follows its authority.
fn without_path(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    match rest.find(['/', '?', '#']) {
        Some(place) if place + 1 < rest.len() => {
            format!("{scheme}://{}/{REMOVED}", &rest[..place])
        }
        _ => url.to_owned(),
    }
}

/// Takes the secrets out of lines: private keys, what follows `Bearer`, values after names of secrets, who logs in at a URL, and
/// what this program makes itself.
#[must_use]
pub fn text(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut is_key = false;
    let mut fence = None;
    for line in text.split_inclusive('\n') {
        if let Some(end) = fence {
            // The value of a secret's name goes on.
            if let Some(place) = line.find(end) {
                told.push_str(&line[place..]);
                fence = None;
            }
            continue;
        }
        let begins = line.contains(KEY_BEGIN) && line.contains("PRIVATE KEY");
        if begins && !is_key {
            told.push_str(REMOVED);
            told.push_str(if line.ends_with('\n') { "\n" } else { "" });
        }
        is_key = (is_key || begins) && !line.contains(KEY_END);
        if !is_key && !begins && !line.contains("PRIVATE KEY-----") {
            let line = users(&made(&schemes(line)));
            told.push_str(&values(&line, &mut fence));
        }
    }
    told
}

/// A line without what follows `Bearer` and the like.
fn schemes(line: &str) -> String {
    let mut told = String::with_capacity(line.len());
    let mut rest = line;
    loop {
        let lower = rest.to_ascii_lowercase();
        let found = SCHEMES.iter().filter_map(|scheme| {
            let place = lower.find(scheme)?;
            Some(place + scheme.len())
        });
        let Some(place) = found.min() else {
            told.push_str(rest);
            return told;
        };
        told.push_str(&rest[..place]);
        told.push_str(REMOVED);
        rest = &rest[place..];
        rest = &rest[rest.find(is_end).unwrap_or(rest.len())..];
    }
}

/// A line without the secret parts of tokens and sessions.
fn made(line: &str) -> String {
    let mut told = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = MADE.iter().filter_map(|begin| rest.find(begin)).min() {
        let (before, found) = rest.split_at(place);
        told.push_str(before);
        let is_of_it = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = found.find(|letter| !is_of_it(letter));
        let (whole, after) = found.split_at(end.unwrap_or(found.len()));
        // All of it is ASCII.
        let shown = whole.len().min(MADE_SHOWN);
        told.push_str(&whole[..shown]);
        if shown < whole.len() {
            told.push_str(REMOVED);
        }
        rest = after;
    }
    told.push_str(rest);
    told
}

/// A line whose URLs do not say who logs in there: `https://user:password@host`.
fn users(line: &str) -> String {
    let mut told = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = rest.find("://") {
        let (before, authority) = rest.split_at(place + 3);
        told.push_str(before);
        let ends = |letter: char| letter.is_whitespace() || "/?#\"'<>".contains(letter);
        let end = authority.find(ends).unwrap_or(authority.len());
        rest = match authority[..end].rfind('@') {
            Some(at) => {
                told.push_str(REMOVED);
                &authority[at..]
            }
            None => authority,
        };
    }
    told.push_str(rest);
    told
}

/// Whether a word ends there.
fn is_end(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '\'' | ',' | ';' | ')' | '}' | ']' | '&')
}

/// A line without the values after names of secrets: `token = "..."`, `token=...`, `"token":"..."`. `fence` is what ends a value
/// that goes on in the next line.
fn values(line: &str, fence: &mut Option<&'static str>) -> String {
    let mut told = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(place);
        let name = before.trim_end_matches([' ', '"', '\'']);
        let begin = name.rfind(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter));
        let name = begin.map_or(name, |begin| &name[begin..]);
        told.push_str(before);
        told.push_str(&after[..1]);
        rest = &after[1..];
        if !is_secret(name) {
            continue;
        }
        let value = rest.trim_start_matches([' ', '\t']);
        told.push_str(&rest[..rest.len() - value.len()]);
        if let Some(found) = FENCES.into_iter().find(|fence| value.starts_with(fence)) {
            told.push_str(found);
            told.push_str(REMOVED);
            match value[found.len()..].find(found) {
                Some(end) => rest = &value[found.len() + end..],
                None => {
                    *fence = Some(found);
                    return told + "\n";
                }
            }
            continue;
        }
        let (open, inner) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => (Some(quote), &value[1..]),
            _ => (None, value),
        };
        let is_header = HEADERS.iter().any(|header| plain(name).ends_with(header));
        let end = match open {
            Some(quote) => quoted_end(inner, quote),
            None if is_header => inner.find(['\n', '\r']).unwrap_or(inner.len()),
            None => inner.find(is_end).unwrap_or(inner.len()),
        };
        told.extend(open);
        if end > 0 {
            told.push_str(REMOVED);
        }
        rest = &inner[end..];
    }
    told.push_str(rest);
    told
}

/// Where a quoted text ends: at a quote that is not escaped.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (place, letter) in text.char_indices() {
        if letter == quote && !is_escaped {
            return place;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.trim_end_matches('\n').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-hunter2";

    #[test]
    fn texts_lose_what_they_must_not_tell() {
        for line in [
            "token = \"hunter2-hunter2\"",
            "token=hunter2-hunter2&x=1",
            "chap.secret: hunter2-hunter2",
            "{\"a\":1,\"access_token\":\"hunter2-hunter2\",\"b\":2}",
            "{\"password\": \"a\\\"hunter2-hunter2\"}",
            "Authorization: Bearer hunter2-hunter2",
            "sends 'Bearer hunter2-hunter2' and waits",
            "Set-Cookie: hunter2-hunter2",
            "secret='hunter2-hunter2",
            "at 10:00:01 key=hunter2-hunter2",
            "-----BEGIN PRIVATE KEY-----\nhunter2-hunter2\n-----END PRIVATE KEY-----\nafter",
            "-----BEGIN EC PRIVATE KEY-----\nhunter2-hunter2",
            "webhook = \"https://ada:hunter2-hunter2@hooks.example.com/x\"",
            "connects to http://hunter2-hunter2@h:1 and waits",
            "Cookie: a=b; c=hunter2-hunter2",
            "Authorization: Digest username=\"a\" hunter2-hunter2",
            "Proxy-Authorization: Negotiate hunter2-hunter2",
            "apiKey=hunter2-hunter2",
            "ssh_key: hunter2-hunter2",
            "smtp passwd=hunter2-hunter2",
            "password = \"\"\"\nhunter2-hunter2\n\"\"\" # after",
            "secret = '''hunter2-hunter2''' ",
        ] {
            let told = text(line);
            assert!(!told.contains("hunter2"), "{line} -> {told}");
            assert!(told.contains(REMOVED), "{line} -> {told}");
        }
        let told = text("{\"token\":\"hunter2\",\"b\":2}\nnext=1\n");
        assert_eq!(told, "{\"token\":\"(removed)\",\"b\":2}\nnext=1\n");
        let told = text("a\n-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nb\n");
        assert_eq!(told, "a\n(removed)\nb\n");
        let shown = format!("by hft_{} and no more", "0".repeat(16));
        let token = format!("by hft_{}_{} and no more", "0".repeat(16), "a".repeat(64));
        assert_eq!(text(&token), shown.replace(" and", "(removed) and"));
        assert_eq!(text(&shown), shown);
        let fenced = "password = \"\"\"\nx\ny\n\"\"\"\nname = \"n\"\n";
        let told = "password = \"\"\"(removed)\n\"\"\"\nname = \"n\"\n";
        assert_eq!(text(fenced), told);
        // What is none stays as it is.
        let plain = "2026-11-28T10:00:01Z INFO holdfast_node: listens at 127.0.0.1:7460 a=\"ä\"\n";
        assert_eq!(text(plain), plain);
    }

    #[test]
    fn documents_lose_texts_by_their_names() {
        let mut value = serde_json::json!({
            "metadata": { "token": SECRET, "addresses": ["h:1"] },
            "chap": { "name": "host", "secret": SECRET },
            "passwords": [SECRET, [SECRET]],
            "key": SECRET,
            "has_secret": true,
            "nested": [{ "Private-Key": SECRET }],
            "credentials": { "user": SECRET, "more": [{ "value": SECRET }] },
            "pin_password": 424_242,
            "webhook": { "url": format!("https://hooks.example.com/services/{SECRET}") },
            "api_url": "https://192.0.2.1:7461",
            "words": format!("Bearer {SECRET}"),
            "token_count": 3,
        });
        document(&mut value);
        let told = value.to_string();
        assert!(
            !told.contains("hunter2") && !told.contains("424242"),
            "{told}"
        );
        assert_eq!(
            value["webhook"]["url"],
            "https://hooks.example.com/(removed)"
        );
        assert_eq!(value["api_url"], "https://192.0.2.1:7461");
        assert_eq!(value["metadata"]["addresses"][0], "h:1");
        assert_eq!(value["has_secret"], true);
        assert_eq!(value["token_count"], 3);
        assert_eq!(value["chap"]["name"], "host");
    }

    /// Each field of the interface that is never told: its schema says so.
    fn secrets_of(schema: &Value, path: &str, found: &mut Vec<String>) {
        let Some(fields) = schema.as_object() else {
            return;
        };
        for (name, inner) in fields {
            let path = format!("{path}/{name}");
            if inner["writeOnly"] == true {
                found.push(name.clone());
                // It is only ever sent: nobody is told it, and so it is in nothing that is given away.
                let is_sent_only = path.starts_with("/PasswordChange/");
                assert!(is_secret(name) || is_sent_only, "{path} is not taken out");
            }
            secrets_of(inner, &path, found);
        }
    }

    #[test]
    fn every_secret_of_the_interface_is_known_by_its_name() {
        let document: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let mut found = Vec::new();
        secrets_of(&document["components"]["schemas"], "", &mut found);
        assert!(found.len() >= 8, "{found:?}");
    }

    #[test]
    fn every_secret_on_record_is_taken_out() {
        use holdfast_model::record::{
            ChapRecord, InitiatorRecord, MailSecurity, ReceiverRecord, ReceiverWay, Secret,
        };

        let secret = || Secret(SECRET.to_owned());
        let account = || ChapRecord {
            name: "host".to_owned(),
            secret: secret(),
        };
        let initiator = InitiatorRecord {
            schema: 1,
            name: "iqn.x".to_owned(),
            chap: Some(account()),
            mutual: Some(account()),
        };
        let ways = [
            ReceiverWay::Mail {
                server: "smtp.example.com".to_owned(),
                port: 465,
                security: MailSecurity::Tls,
                user: Some("holdfast".to_owned()),
                password: Some(secret()),
                from: "a@example.com".to_owned(),
                to: vec!["b@example.com".to_owned()],
            },
            ReceiverWay::Webhook {
                url: format!("https://hooks.example.com/{SECRET}?key={SECRET}"),
                secret: Some(secret()),
            },
        ];
        let mut records = vec![serde_json::to_value(initiator).unwrap()];
        for way in ways {
            // One that is new is to be planted above.
            match &way {
                ReceiverWay::Mail { .. } | ReceiverWay::Webhook { .. } => {}
            }
            let record = ReceiverRecord {
                critical_only: false,
                authority: String::new(),
                way,
            };
            records.push(serde_json::to_value(record).unwrap());
        }
        for record in &mut records {
            assert!(record.to_string().contains(SECRET), "{record}");
            document(record);
            assert!(!record.to_string().contains(SECRET), "{record}");
        }
    }
}
