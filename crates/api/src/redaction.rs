//! Secrets, taken out of what is given away: by the names that values have, and by what they look like.
//!
//! It is the second line: what is put into a support bundle is chosen so that there should be no secret in it. It refuses to judge
//! whether something is worth keeping: it rather takes out too much.
//!
//! Invariants:
//! - a text with a name that is a secret's is never kept, whatever it looks like, and neither is a private key;
//! - what is no text (a number, a yes or no, nothing) is kept: `has_secret: true` is no secret.

use serde_json::Value;

/// What stands where a secret was.
pub const REMOVED: &str = "(removed)";
/// Parts of names that secrets have.
const NAMES: [&str; 8] = [
    "secret",
    "password",
    "passphrase",
    "token",
    "private_key",
    "credential",
    "authorization",
    "cookie",
];
/// Where a word in a text begins to be a secret.
const SCHEMES: [&str; 2] = ["bearer ", "basic "];
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";

/// Whether what is called so is a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    name == "key" || NAMES.iter().any(|part| name.contains(part))
}

/// Takes the secrets out of a document: the texts under names of secrets, and from other texts what looks like one.
pub fn document(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_secret(name) {
                    remove(value);
                }
                document(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(document),
        Value::String(said) => *said = text(said),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes a text, or those of a list.
fn remove(value: &mut Value) {
    match value {
        Value::String(said) if !said.is_empty() => REMOVED.clone_into(said),
        Value::Array(values) => values.iter_mut().for_each(remove),
        _ => {}
    }
}

/// Takes the secrets out of lines: private keys, what follows `Bearer`, and values after names of secrets.
#[must_use]
pub fn text(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut is_key = false;
    for line in text.split_inclusive('\n') {
        let begins = line.contains(KEY_BEGIN) && line.contains("PRIVATE KEY");
        if begins && !is_key {
            told.push_str(REMOVED);
            told.push_str(if line.ends_with('\n') { "\n" } else { "" });
        }
        is_key = (is_key || begins) && !line.contains(KEY_END);
        if !is_key && !begins && !line.contains("PRIVATE KEY-----") {
            told.push_str(&values(&schemes(line)));
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

/// Whether a word ends there.
fn is_end(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '\'' | ',' | ';' | ')' | '}' | ']' | '&')
}

/// A line without the values after names of secrets: `token = "..."`, `token=...`, `"token":"..."`.
fn values(line: &str) -> String {
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
        if !is_secret(name.trim_start_matches(|letter: char| !letter.is_alphanumeric())) {
            continue;
        }
        let value = rest.trim_start_matches([' ', '\t']);
        told.push_str(&rest[..rest.len() - value.len()]);
        let (open, inner) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => (Some(quote), &value[1..]),
            _ => (None, value),
        };
        let end = match open {
            Some(quote) => quoted_end(inner, quote),
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
        ] {
            let told = text(line);
            assert!(!told.contains("hunter2"), "{line} -> {told}");
            assert!(told.contains(REMOVED), "{line} -> {told}");
        }
        let told = text("{\"token\":\"hunter2\",\"b\":2}\nnext=1\n");
        assert_eq!(told, "{\"token\":\"(removed)\",\"b\":2}\nnext=1\n");
        let told = text("a\n-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nb\n");
        assert_eq!(told, "a\n(removed)\nb\n");
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
            "words": format!("Bearer {SECRET}"),
            "token_count": 3,
        });
        document(&mut value);
        let told = value.to_string();
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(value["metadata"]["addresses"][0], "h:1");
        assert_eq!(value["has_secret"], true);
        assert_eq!(value["token_count"], 3);
        assert_eq!(value["chap"]["name"], "host");
    }
}
