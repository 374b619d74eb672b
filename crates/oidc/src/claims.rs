//! What an ID token has to say before somebody is believed to be whom it is about (OpenID Connect Core 1.0, section 3.1.3.7).

use holdfast_identity::Role;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Header, Validation, decode, decode_header, get_current_timestamp};
use serde_json::{Map, Value};

use crate::error::{LoginError, TokenError};
use crate::settings::Settings;
use crate::signature::ALGORITHMS;

/// How far clocks may differ: seconds.
const LEEWAY_SECONDS: u64 = 60;
/// Letters of a subject at most (OpenID Connect Core 1.0, section 2).
const SUBJECT_LENGTH_MAX: usize = 255;

/// Somebody who has logged in at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// As the provider calls that one for good: 1 to 255 ASCII letters, and none of them a control character.
    pub subject: String,
    /// As people do. It may be anything, may be another tomorrow, and may be others' as well.
    pub name: String,
    /// What that one may.
    pub role: Role,
}

/// The head of a token that may be believed, if it is signed as it says.
pub(crate) fn head(token: &str) -> Result<Header, TokenError> {
    let header = decode_header(token).map_err(|error| match error.kind() {
        // What the head names is not known to the library either: `none`, above all.
        ErrorKind::Json(_) | ErrorKind::InvalidAlgorithmName => TokenError::Algorithm,
        _ => TokenError::Malformed,
    })?;
    if ALGORITHMS.contains(&header.alg) {
        Ok(header)
    } else {
        Err(TokenError::Algorithm)
    }
}

/// Whom a token is about, if it is signed by one of these keys and is of this login.
pub(crate) fn judge(
    token: &str,
    header: &Header,
    keys: &[&DecodingKey],
    settings: &Settings,
    nonce: &str,
) -> Result<Person, LoginError> {
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY_SECONDS;
    validation.validate_nbf = true;
    validation.set_audience(&[&settings.client_id]);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let mut judged = Err(TokenError::UnknownKey);
    for key in keys {
        let decoded = decode::<Map<String, Value>>(token, key, &validation);
        judged = decoded
            .map(|it| it.claims)
            .map_err(|error| reason(error.kind()));
        // Only another key could make another signature of it.
        if !matches!(judged, Err(TokenError::Signature)) {
            break;
        }
    }
    let claims = judged?;
    check(&claims, settings, nonce)?;
    person(&claims, settings)
}

/// What the library does not look at.
fn check(claims: &Map<String, Value>, settings: &Settings, nonce: &str) -> Result<(), TokenError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    // The library takes a list of issuers as well, which no ID token has.
    if text("iss") != Some(&settings.issuer) {
        return Err(TokenError::Issuer);
    }
    let is_for_others = matches!(claims.get("aud"), Some(Value::Array(all)) if all.len() > 1);
    let party = claims.get("azp").filter(|party| !party.is_null());
    match party {
        None if is_for_others => return Err(TokenError::Audience),
        Some(party) if party.as_str() != Some(&settings.client_id) => {
            return Err(TokenError::Audience);
        }
        _ => {}
    }
    if text("nonce") != Some(nonce) {
        return Err(TokenError::Nonce);
    }
    let issued = claims.get("iat").and_then(Value::as_f64);
    let now = get_current_timestamp();
    match issued {
        Some(issued) if issued <= (now + LEEWAY_SECONDS) as f64 => Ok(()),
        _ => Err(TokenError::Time),
    }
}

fn person(claims: &Map<String, Value>, settings: &Settings) -> Result<Person, LoginError> {
    let subject = claims.get("sub").and_then(Value::as_str);
    let is_subject = |subject: &&str| {
        let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
        (1..=SUBJECT_LENGTH_MAX).contains(&subject.len()) && subject.bytes().all(plain)
    };
    let subject = subject.filter(is_subject).ok_or(TokenError::Subject)?;
    let name = claims.get(&settings.username_claim).and_then(Value::as_str);
    let (subject, name) = (subject.to_owned(), name.unwrap_or(subject).to_owned());
    match settings.role_of(values(claims, &settings.roles_claim)) {
        Some(role) => Ok(Person {
            subject,
            name,
            role,
        }),
        None => Err(LoginError::NoRole { subject, name }),
    }
}

/// What a claim says: a text, or several. Its name may have dots, and dots may lead into a claim.
fn values<'a>(claims: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a str> {
    let found = claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |within, part| within.get(part))
    });
    let several = found.and_then(Value::as_array).into_iter().flatten();
    let several = several.filter_map(Value::as_str);
    found.and_then(Value::as_str).into_iter().chain(several)
}

fn reason(kind: &ErrorKind) -> TokenError {
    match kind {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::InvalidAudience => TokenError::Audience,
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => TokenError::Time,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => TokenError::Algorithm,
        ErrorKind::MissingRequiredClaim(claim) => match &**claim {
            "iss" => TokenError::Issuer,
            "aud" => TokenError::Audience,
            "sub" => TokenError::Subject,
            _ => TokenError::Time,
        },
        _ => TokenError::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::tests::settings;

    fn claims(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(claims) => claims,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_claim_may_be_a_text_a_list_or_within_another() {
        let claims = claims(json!({
            "one": "a",
            "several": ["a", 7, "b", null],
            "realm_access": {"roles": ["c"]},
            "https://example/roles": ["d"],
            "a.b": "whole",
            "a": {"b": "part"},
        }));
        let of = |name: &str| values(&claims, name).collect::<Vec<_>>();
        assert_eq!(of("one"), ["a"]);
        assert_eq!(of("several"), ["a", "b"]);
        assert_eq!(of("realm_access.roles"), ["c"]);
        assert_eq!(of("https://example/roles"), ["d"]);
        assert_eq!(of("a.b"), ["whole"]);
        for none in [
            "",
            ".",
            "x",
            "realm_access",
            "realm_access.roles.0",
            "one.two",
        ] {
            assert!(of(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn who_it_is_about_is_said_once_and_for_good() {
        let of = |value: Value| person(&claims(value), &settings());
        let someone = of(json!({"sub": "7", "preferred_username": "Ada", "groups": ["admins"]}));
        let ada = Person {
            subject: "7".to_owned(),
            name: "Ada".to_owned(),
            role: Role::Administrator,
        };
        assert_eq!(someone.unwrap(), ada);
        let nameless = of(json!({"sub": "7", "groups": "guests"})).unwrap();
        assert_eq!((&*nameless.name, nameless.role), ("7", Role::Viewer));
        let none = of(json!({"sub": "7", "preferred_username": "Eve", "groups": ["x"]}));
        assert!(matches!(none, Err(LoginError::NoRole { name, .. }) if name == "Eve"));
        for subject in [
            json!(""),
            json!("x".repeat(256)),
            json!("ä"),
            json!("a\n"),
            json!(7),
        ] {
            let odd = of(json!({"sub": subject, "groups": "guests"}));
            assert!(matches!(odd, Err(LoginError::Token(TokenError::Subject))));
        }
    }

    #[test]
    fn it_is_for_this_client_and_of_this_login() {
        let now = get_current_timestamp();
        let with = |change: Value| {
            let mut all = claims(json!({
                "iss": settings().issuer, "aud": "holdfast", "nonce": "n", "iat": now,
            }));
            all.extend(claims(change));
            check(&all, &settings(), "n")
        };
        assert_eq!(with(json!({})), Ok(()));
        assert_eq!(with(json!({"aud": ["holdfast"], "azp": null})), Ok(()));
        let others = json!(["holdfast", "other"]);
        assert_eq!(with(json!({"aud": others, "azp": "holdfast"})), Ok(()));
        assert_eq!(with(json!({"aud": others})), Err(TokenError::Audience));
        assert_eq!(with(json!({"azp": "other"})), Err(TokenError::Audience));
        assert_eq!(with(json!({"nonce": "m"})), Err(TokenError::Nonce));
        assert_eq!(with(json!({"nonce": null})), Err(TokenError::Nonce));
        let issuers = json!([settings().issuer]);
        assert_eq!(with(json!({"iss": issuers})), Err(TokenError::Issuer));
        assert_eq!(with(json!({"iat": now + 59})), Ok(()));
        assert_eq!(with(json!({"iat": now + 90})), Err(TokenError::Time));
        assert_eq!(with(json!({"iat": null})), Err(TokenError::Time));
    }
}
