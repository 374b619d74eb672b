//! A path, and what a request was about, as they are put down in the log of what was done.
//!
//! It refuses to show what proves who somebody is: of a token or a session in it, its id stands there and nothing behind it.
//!
//! Invariants:
//! - so many letters at most;
//! - a token is known however its letters are escaped, and the `%` of escapes as well;
//! - what is shown is the beginning of what was asked for, letter by letter.

use axum::http::Uri;

use super::login::LOGIN_PATH;

/// Letters of a path that are put down at most.
pub(super) const PATH_LENGTH_MAX: usize = 512;
/// What a token, a session begins with.
const PROOFS: [&[u8]; 2] = [b"hft_", b"hfs_"];
/// Letters of one that are put down: what it is, and its id.
const PROOF_SHOWN: usize = 20;

/// A path with its query, as it is put down: bounded, and without what proves who somebody is.
pub(crate) fn shown_path(uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    // What a browser brings back from a provider of identities is for nobody else.
    let path = match uri.path() {
        alone if alone.starts_with(LOGIN_PATH) => alone,
        _ => path,
    };
    beginning(path).collect()
}

/// What a request was about, as it is put down: bounded like a path, and without what proves who somebody is, which is a name that
/// somebody may give. It stays on its line: what is no letter is shown as such.
pub(super) fn shown_text(text: &str) -> String {
    let on_one_line = |letter: char| {
        if letter.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    beginning(text).map(on_one_line).collect()
}

/// What may be shown.
fn beginning(text: &str) -> impl Iterator<Item = char> {
    let end = shown_bytes(text.as_bytes());
    let letters = text.char_indices().take(PATH_LENGTH_MAX);
    let shown = letters.take_while(move |(at, letter)| at + letter.len_utf8() <= end);
    shown.map(|(_, letter)| letter)
}

/// How many bytes of a path may be shown.
fn shown_bytes(path: &[u8]) -> usize {
    let letters = letters(path);
    let is_proof = |window: &[Letter]| {
        let mut proofs = PROOFS.iter();
        proofs.any(|proof| {
            let bytes = window.iter().map(|letter| letter.byte.to_ascii_lowercase());
            bytes.eq(proof.iter().copied())
        })
    };
    let proof = letters.windows(PROOFS[0].len()).position(is_proof);
    let behind = proof.and_then(|at| letters.get(at + PROOF_SHOWN));
    behind.map_or(path.len(), |letter| letter.at)
}

/// A byte that is meant, and where what means it begins.
struct Letter {
    byte: u8,
    at: usize,
}

/// What a path means, without its escapes (RFC 3986, section 2.1), and theirs: `%255F` is an underscore as `%5F` is.
fn letters(path: &[u8]) -> Vec<Letter> {
    let mut letters = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(first) = path.get(at) {
        let (mut byte, mut next) = (*first, at + 1);
        while byte == b'%'
            && let Some(escaped) = of_hex(path.get(next..next + 2))
        {
            (byte, next) = (escaped, next + 2);
        }
        letters.push(Letter { byte, at });
        at = next;
    }
    letters
}

fn of_hex(digits: Option<&[u8]>) -> Option<u8> {
    let [high, low] = digits?.try_into().ok()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use holdfast_stdx::Prng;

    use super::*;

    fn shown(path: &str) -> String {
        shown_path(&Uri::try_from(path).unwrap())
    }

    #[test]
    fn a_token_in_a_path_is_put_down_by_its_id_only() {
        let token = format!("/api/v1/tokens/hft_{}_{}", "0".repeat(16), "a".repeat(64));
        assert_eq!(
            shown(&token),
            format!("/api/v1/tokens/hft_{}", "0".repeat(16))
        );
        assert_eq!(
            shown("/api/v1/login/oidc/callback?code=c&state=s"),
            "/api/v1/login/oidc/callback"
        );
        for whole in [
            "/api/v1/volumes/a?force=true",
            "/a%5Fb%",
            "/hft_%5",
            "/100%25",
        ] {
            assert_eq!(shown(whole), whole);
        }
        assert_eq!(
            shown(&format!("/{}", "x".repeat(9000))).len(),
            PATH_LENGTH_MAX
        );
    }

    #[test]
    fn what_it_was_about_is_bounded_and_on_one_line_and_no_token_is_in_it() {
        assert_eq!(shown_text("volume db"), "volume db");
        assert_eq!(
            shown_text("add device /dev/a\nb"),
            "add device /dev/a\u{fffd}b"
        );
        let id = "0".repeat(16);
        let token = format!("token hft_{id}_{} (1)", "a".repeat(64));
        assert_eq!(shown_text(&token), format!("token hft_{id}"));
        assert_eq!(
            shown_text(&"ä".repeat(9000)).chars().count(),
            PATH_LENGTH_MAX
        );
    }

    /// A letter, as it is or escaped, once or more often.
    fn written(letter: char, prng: &mut Prng) -> String {
        let escaped = format!("{:02X}", letter as u32);
        match prng.below(6) {
            0 => format!("%{escaped}"),
            1 => format!("%{}", escaped.to_lowercase()),
            2 => format!("%25{escaped}"),
            3 => format!("%252525{escaped}"),
            _ => letter.to_string(),
        }
    }

    #[test]
    fn nothing_of_a_secret_is_shown_however_a_token_is_written_and_whatever_is_before_it() {
        let mut prng = Prng::from_seed(20_261_129);
        for round in 0..20_000 {
            let before: String = (0..prng.below(12))
                .map(|_| {
                    let pieces = ["a", "ä", "日", "%C3%A4", "%", "h", "hf", "/", "?q=", "%25"];
                    *prng.choose(&pieces)
                })
                .collect();
            let start = *prng.choose(&["hft_", "hfs_"]);
            let plain = format!("{start}{}_", "0".repeat(16));
            let token: String = plain.chars().map(|it| written(it, &mut prng)).collect();
            let secret: String = "z".repeat(64);
            let secret: String = secret.chars().map(|it| written(it, &mut prng)).collect();
            // A percent sign by itself would take in what follows.
            let before = before.trim_end_matches('%').trim_end_matches("%25");
            let path = format!("/{before}/{token}{secret}");
            let Ok(uri) = Uri::try_from(&path) else {
                continue;
            };
            let shown = shown_path(&uri);
            assert!(path.starts_with(&shown));
            let letters = letters(shown.as_bytes());
            let of_secret = letters.iter().filter(|it| it.byte == b'z').count();
            assert_eq!(of_secret, 0, "round {round}: {path} is shown as {shown}");
            // Which one it was can be told.
            assert_eq!(letters.iter().filter(|it| it.byte == b'0').count(), 16);
        }
    }
}
