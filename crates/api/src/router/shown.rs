//! A path, and what a request was about, as they are put down in the log of what was done.
//!
//! It refuses to show what proves who somebody is: of a token or a session in it, its id stands there and nothing behind it.
//!
//! Invariants:
//! - so many letters at most;
//! - a token is known however its letters are escaped, and the letters of escapes as well, as often as somebody likes;
//! - that takes as long as the path is, and no longer;
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
pub(crate) fn shown_text(text: &str) -> String {
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

/// What a path means when it is unescaped until nothing is left to be (RFC 3986, section 2.1): `%255F` is an underscore as `%5F` is,
/// and so is `%25%35%46`. No escape begins within another one, for `%` is no digit: in whichever order they are resolved, the same comes
/// out, and resolving each as soon as its last letter is there needs no second look.
fn letters(path: &[u8]) -> Vec<Letter> {
    let mut letters = Vec::with_capacity(path.len());
    for (at, byte) in path.iter().copied().enumerate() {
        letters.push(Letter { byte, at });
        while let Some(meant) = escaped_at_end(&letters) {
            letters.truncate(letters.len() - 3);
            letters.push(meant);
        }
    }
    letters
}

/// What the last three letters mean together, if they are an escape.
fn escaped_at_end(letters: &[Letter]) -> Option<Letter> {
    let [.., percent, high, low] = letters else {
        return None;
    };
    let digit = |letter: &Letter| char::from(letter.byte).to_digit(16);
    let byte = (digit(high)? * 16 + digit(low)?) as u8;
    (percent.byte == b'%').then_some(Letter {
        byte,
        at: percent.at,
    })
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

    /// A letter, as it is or escaped; so are the letters of the escape in turn, so deep at most.
    fn written(letter: char, depth: u32, prng: &mut Prng) -> String {
        if depth == 0 {
            return letter.to_string();
        }
        let escape = match prng.below(16) {
            0 | 1 => format!("%{:02X}", letter as u32),
            2 => format!("%{:02x}", letter as u32),
            3 => format!("%252525{:02X}", letter as u32),
            _ => return letter.to_string(),
        };
        escape
            .chars()
            .map(|it| written(it, depth - 1, prng))
            .collect()
    }

    #[test]
    fn escapes_of_escapes_are_resolved_to_the_end_and_in_no_time() {
        let meant = |path: &str| {
            let letters = letters(path.as_bytes()).into_iter();
            String::from_utf8(letters.map(|it| it.byte).collect()).unwrap()
        };
        for underscore in [
            "_",
            "%5F",
            "%255f",
            "%25%35%46",
            "%%35F",
            "%5%46",
            "%2525%2535%2546",
            "%25%2535F",
            "%%32%35%35%46",
        ] {
            let secret = "a".repeat(48);
            let token = format!("/hft{underscore}{}_{secret}", "0".repeat(16));
            assert_eq!(meant(underscore), "_");
            let cut = format!("/hft{underscore}{}", "0".repeat(16));
            assert_eq!(shown(&token), cut);
        }
        for whole in ["%", "%5", "%G5", "a%b/%"] {
            assert_eq!(meant(whole), whole);
        }
        // As long as a request's head may be: looked through once.
        assert_eq!(meant(&format!("%{}5F", "25".repeat(200_000))), "_");
    }

    #[test]
    fn nothing_of_a_secret_is_shown_however_a_token_is_written_and_whatever_is_before_it() {
        let mut prng = Prng::from_seed(20_261_129);
        let mut whole = 0;
        for round in 0..20_000 {
            let before: String = (0..prng.below(12))
                .map(|_| {
                    let pieces = ["a", "ä", "日", "%C3%A4", "%", "h", "hf", "/", "?q=", "%25"];
                    *prng.choose(&pieces)
                })
                .collect();
            let start = *prng.choose(&["hft_", "hfs_"]);
            let plain = format!("{start}{}_", "0".repeat(16));
            let token: String = plain.chars().map(|it| written(it, 2, &mut prng)).collect();
            let secret: String = "z".repeat(64);
            let secret: String = secret.chars().map(|it| written(it, 2, &mut prng)).collect();
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
            // Which one it was can be told, unless there is no end of escapes.
            if shown.len() < PATH_LENGTH_MAX {
                assert_eq!(letters.iter().filter(|it| it.byte == b'0').count(), 16);
                whole += 1;
            }
        }
        assert!(whole > 10_000, "{whole}");
    }
}
