//! Logins at a provider that checks what it is shown, and lies where it is told to: who is let in, and who is not.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

#[path = "support/issuer.rs"]
mod issuer;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_identity::Role;
use holdfast_model::Origin;
use holdfast_model::record::Secret;
use holdfast_oidc::{
    Beginning, LoginError, Person, Provider, ProviderError, Returned, Settings, TICKET_LIFETIME,
    TicketKey, TokenError,
};
use serde_json::json;

use issuer::{Behaviour, CLIENT, Issuer, SECRET, fields, visit};

const EXTERNAL: &str = "https://storage.example";
const CALLBACK: &str = "https://storage.example/api/v1/login/oidc/callback";

/// Where a browser is.
fn from(number: u8) -> Origin {
    Origin::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
}

fn settings(issuer: &Issuer) -> Settings {
    Settings {
        name: "Test".to_owned(),
        issuer: issuer.url.clone(),
        client_id: CLIENT.to_owned(),
        client_secret: Some(Secret(SECRET.to_owned())),
        authority: issuer.authority.clone(),
        scopes: vec!["openid".to_owned(), "profile".to_owned()],
        username_claim: "preferred_username".to_owned(),
        roles_claim: "groups".to_owned(),
        roles: BTreeMap::from([
            (Role::Administrator, vec!["storage-admins".to_owned()]),
            (Role::Viewer, vec!["staff".to_owned()]),
        ]),
        external_url: EXTERNAL.to_owned(),
    }
}

fn provider(settings: Settings) -> Provider {
    let key = TicketKey::derive(b"the cluster's");
    Provider::new(settings, key).unwrap()
}

fn pair() -> (Issuer, Provider) {
    let issuer = Issuer::start(CALLBACK, false);
    let provider = provider(settings(&issuer));
    (issuer, provider)
}

/// What a browser comes back with.
async fn away(provider: &Provider) -> (Beginning, HashMap<String, String>) {
    let begun = provider.begin(SystemTime::now()).await.unwrap();
    let location = begun.location.clone();
    let back = tokio::task::spawn_blocking(move || visit(&location));
    let back = back.await.unwrap();
    let (url, query) = back.split_once('?').unwrap();
    assert_eq!(url, CALLBACK);
    (begun, fields(query))
}

fn returned<'a>(ticket: &'a str, back: &'a HashMap<String, String>) -> Returned<'a> {
    let of = |name: &str| back.get(name).map(String::as_str);
    Returned {
        ticket: Some(ticket),
        state: of("state"),
        code: of("code"),
        error: of("error"),
        issuer: of("iss"),
    }
}

async fn log_in(provider: &Provider) -> Result<Person, LoginError> {
    let (begun, back) = away(provider).await;
    provider
        .end(returned(&begun.ticket, &back), from(1), SystemTime::now())
        .await
}

/// What comes of a login where the provider behaves so.
async fn with(change: impl FnOnce(&mut Behaviour)) -> Result<Person, LoginError> {
    let (issuer, provider) = pair();
    issuer.behave(change);
    log_in(&provider).await
}

async fn token_error(change: impl FnOnce(&mut Behaviour)) -> TokenError {
    match with(change).await {
        Err(LoginError::Token(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn ada() -> Person {
    Person {
        subject: "f7c2-ada".to_owned(),
        name: "ada".to_owned(),
        role: Role::Administrator,
    }
}

#[tokio::test]
async fn whoever_the_provider_knows_and_a_role_is_mapped_for_is_let_in() {
    let (issuer, provider) = pair();
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    // What it says of itself is asked for once, a code each time.
    for (end, count) in [("openid-configuration", 1), ("/keys", 1), ("/token", 2)] {
        assert_eq!(issuer.asked(end), count, "{end}");
    }
    for algorithm in ["RS256", "PS256", "EdDSA"] {
        issuer.behave(|it| it.algorithm = Some(algorithm));
        assert_eq!(log_in(&provider).await.unwrap(), ada(), "{algorithm}");
    }
}

#[tokio::test]
async fn a_login_ends_at_another_node_than_where_it_began() {
    let (issuer, one) = pair();
    let other = provider(settings(&issuer));
    let (begun, back) = away(&one).await;
    let ended = other
        .end(returned(&begun.ticket, &back), from(1), SystemTime::now())
        .await;
    assert_eq!(ended.unwrap(), ada());
}

#[tokio::test]
async fn tls_is_by_the_authority_that_is_said_and_by_no_other() {
    let issuer = Issuer::start(CALLBACK, true);
    provider(settings(&issuer)).look().await.unwrap();
    let untrusted = |authority: Option<String>| Settings {
        authority,
        ..settings(&issuer)
    };
    let other = Issuer::start(CALLBACK, true).authority;
    for authority in [None, other] {
        let looked = provider(untrusted(authority)).look().await.unwrap_err();
        assert!(
            looked.to_string().contains("not of an authority"),
            "{looked}"
        );
    }
}

#[tokio::test]
async fn a_secret_is_shown_in_the_form_where_the_provider_wants_it_so() {
    let post = json!(["client_secret_post"]);
    let found = with(|it| {
        it.discovery
            .insert("token_endpoint_auth_methods_supported".to_owned(), post);
    });
    assert_eq!(found.await.unwrap(), ada());
    // A client without a secret is known by its verifier alone.
    let issuer = Issuer::start(CALLBACK, false);
    let client_secret = None;
    let public = provider(Settings {
        client_secret,
        ..settings(&issuer)
    });
    let refused = log_in(&public).await.unwrap_err();
    assert!(matches!(&refused, LoginError::NotRedeemed(code) if code.as_str() == "invalid_client"));
    issuer.behave(|it| it.is_public = true);
    assert_eq!(log_in(&public).await.unwrap(), ada());
}

#[tokio::test]
async fn what_another_browser_began_is_not_ended_by_this_one() {
    let (issuer, provider) = pair();
    let now = SystemTime::now();
    let (mine, back) = away(&provider).await;
    let (theirs, other) = away(&provider).await;
    let end = async |ticket: &str, back: &HashMap<String, String>, now| {
        provider
            .end(returned(ticket, back), from(1), now)
            .await
            .unwrap_err()
    };
    let unknown = Returned {
        ticket: None,
        ..returned("", &back)
    };
    let unknown = provider.end(unknown, from(1), now).await.unwrap_err();
    assert!(matches!(unknown, LoginError::Unknown));
    assert!(matches!(end("x", &back, now).await, LoginError::Unknown));
    let late = now + TICKET_LIFETIME + Duration::from_secs(1);
    assert!(matches!(
        end(&mine.ticket, &back, late).await,
        LoginError::Unknown
    ));
    assert!(matches!(
        end(&theirs.ticket, &back, now).await,
        LoginError::OtherLogin
    ));
    let mut stateless = back.clone();
    stateless.remove("state");
    assert!(matches!(
        end(&mine.ticket, &stateless, now).await,
        LoginError::OtherLogin
    ));
    // Another's code with one's own state: the verifier is not the one that it was made for.
    let mut mixed = back.clone();
    mixed.insert("code".to_owned(), other["code"].clone());
    let mixed = end(&mine.ticket, &mixed, now).await;
    assert!(matches!(&mixed, LoginError::NotRedeemed(code) if code.as_str() == "invalid_grant"));
    // Nobody but the provider was asked any of that, and that once.
    assert_eq!(issuer.asked("/token"), 1);
}

#[tokio::test]
async fn a_code_is_good_once() {
    let (issuer, provider) = pair();
    let now = SystemTime::now();
    let (begun, back) = away(&provider).await;
    let ended = provider
        .end(returned(&begun.ticket, &back), from(1), now)
        .await;
    assert_eq!(ended.unwrap(), ada());
    let again = provider.end(returned(&begun.ticket, &back), from(1), now);
    assert!(matches!(again.await, Err(LoginError::Ended)));
    assert_eq!(issuer.asked("/token"), 1);
    // Another node does not know that, and the provider does.
    let other = self::provider(settings(&issuer));
    let again = other.end(returned(&begun.ticket, &back), from(1), now);
    assert!(
        matches!(again.await, Err(LoginError::NotRedeemed(code)) if code.as_str() == "invalid_grant")
    );
}

#[tokio::test]
async fn who_has_codes_redeemed_over_and_over_keeps_nobody_else_out() {
    let (issuer, provider) = pair();
    let provider = Arc::new(provider);
    let now = SystemTime::now();
    let (begun, back) = away(&provider).await;
    // Somebody has the provider asked for nothing, while it is slow.
    issuer.behave(|it| it.silent = Some("/token"));
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let (begun, back) = away(&provider).await;
        let provider = Arc::clone(&provider);
        waiting.push(tokio::spawn(async move {
            let ended = provider.end(returned(&begun.ticket, &back), from(66), now);
            ended.await.map(|_| ())
        }));
    }
    while issuer.asked("/token") < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (fifth, fifth_back) = away(&provider).await;
    let more = provider.end(returned(&fifth.ticket, &fifth_back), from(66), now);
    assert!(matches!(more.await, Err(LoginError::Busy)));
    issuer.behave(|it| it.silent = None);
    let ended = provider.end(returned(&begun.ticket, &back), from(1), now);
    assert_eq!(ended.await.unwrap(), ada());
    for one in waiting {
        one.abort();
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_not_asked_without_an_end_nor_by_those_who_wait_for_no_answer() {
    let (issuer, provider) = pair();
    let now = SystemTime::now();
    let down = Some((503, Vec::new()));
    issuer.behave(|it| it.answers.extend(down.map(|it| ("/token", it))));
    for number in 0..20 {
        let (begun, back) = away(&provider).await;
        let ended = provider.end(returned(&begun.ticket, &back), from(1), now);
        let error = ended.await.unwrap_err();
        let is_paced = matches!(error, LoginError::Busy);
        assert_eq!(is_paced, number >= 16, "{number}: {error}");
    }
    assert_eq!(issuer.asked("/token"), 16);
    // Well again, it is asked for the same one within a second.
    issuer.behave(|it| it.answers.clear());
    let (begun, back) = away(&provider).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let ended = provider.end(returned(&begun.ticket, &back), from(1), now);
    assert_eq!(ended.await.unwrap(), ada());
    // Whoever has gone before the answer counts as well.
    let before = issuer.asked("/token");
    issuer.behave(|it| it.silent = Some("/token"));
    for _ in 0..20 {
        let (begun, back) = away(&provider).await;
        let ended = provider.end(returned(&begun.ticket, &back), from(2), now);
        let _ = tokio::time::timeout(Duration::from_millis(20), ended).await;
    }
    let asked = issuer.asked("/token") - before;
    assert!((1..=16).contains(&asked), "{asked}");
}

#[tokio::test]
async fn who_says_what_is_brought_back_has_to_be_the_issuer() {
    let (issuer, provider) = pair();
    let now = SystemTime::now();
    let (begun, mut back) = away(&provider).await;
    back.insert("iss".to_owned(), "https://evil.example".to_owned());
    let other = provider
        .end(returned(&begun.ticket, &back), from(1), now)
        .await;
    assert!(matches!(other, Err(LoginError::OtherIssuer)));
    back.remove("iss");
    let silent = provider
        .end(returned(&begun.ticket, &back), from(1), now)
        .await;
    assert!(matches!(silent, Err(LoginError::OtherIssuer)));
    assert_eq!(issuer.asked("/token"), 0);
    // One that says nothing of it need not.
    let (issuer, provider) = pair();
    issuer.behave(|it| {
        it.discovery.insert(
            "authorization_response_iss_parameter_supported".to_owned(),
            json!(false),
        );
    });
    let (begun, mut back) = away(&provider).await;
    back.remove("iss");
    let ended = provider
        .end(returned(&begun.ticket, &back), from(1), now)
        .await;
    assert_eq!(ended.unwrap(), ada());
}

#[tokio::test]
async fn a_provider_that_refuses_is_quoted_by_its_word_only() {
    let refused = with(|it| it.error = Some("access_denied"))
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "the provider refused: access_denied");
    let odd = with(|it| it.error = Some("%3Cscript%3E"))
        .await
        .unwrap_err();
    assert_eq!(odd.to_string(), "the provider refused: without a word");
}

#[tokio::test]
async fn a_token_that_is_not_as_it_has_to_be_lets_nobody_in() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    for (claim, value, expected) in [
        ("nonce", json!("another"), TokenError::Nonce),
        ("nonce", json!(null), TokenError::Nonce),
        ("aud", json!("another"), TokenError::Audience),
        ("aud", json!(null), TokenError::Audience),
        ("aud", json!([CLIENT, "another"]), TokenError::Audience),
        ("azp", json!("another"), TokenError::Audience),
        ("exp", json!(now - 90), TokenError::Time),
        ("exp", json!(null), TokenError::Time),
        ("nbf", json!(now + 90), TokenError::Time),
        ("iat", json!(now + 90), TokenError::Time),
        ("iss", json!("https://evil.example"), TokenError::Issuer),
        ("iss", json!(null), TokenError::Issuer),
        ("sub", json!(null), TokenError::Subject),
        ("sub", json!("x".repeat(256)), TokenError::Subject),
    ] {
        let said = value.clone();
        let error = token_error(|it| {
            it.claims.insert(claim.to_owned(), value);
        });
        assert_eq!(error.await, expected, "{claim}: {said}");
    }
    // What clocks differ by is no reason.
    let leeway = with(|it| {
        it.claims.insert("exp".to_owned(), json!(now - 30));
        it.claims.insert("iat".to_owned(), json!(now + 30));
    });
    assert_eq!(leeway.await.unwrap(), ada());
}

#[tokio::test]
async fn a_token_that_the_provider_has_not_signed_lets_nobody_in() {
    let by = async |algorithm| token_error(|it| it.algorithm = Some(algorithm)).await;
    assert_eq!(by("none").await, TokenError::Algorithm);
    assert_eq!(by("HS256").await, TokenError::Algorithm);
    assert_eq!(by("ES512").await, TokenError::Algorithm);
    assert_eq!(
        token_error(|it| it.forges = true).await,
        TokenError::Signature
    );
    assert_eq!(
        token_error(|it| it.kid = Some("nobody's")).await,
        TokenError::UnknownKey
    );
    // A key of another kind is none for it.
    assert_eq!(
        token_error(|it| it.kid = Some("rsa")).await,
        TokenError::UnknownKey
    );
}

#[tokio::test]
async fn who_has_no_mapped_role_is_known_and_not_let_in() {
    for groups in [
        json!(["guests"]),
        json!([]),
        json!(null),
        json!({"a": "staff"}),
    ] {
        let found = with(|it| {
            it.claims.insert("groups".to_owned(), groups);
        });
        match found.await {
            Err(LoginError::NoRole { subject, name }) => {
                assert_eq!((&*subject, &*name), ("f7c2-ada", "ada"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_new_key_is_asked_for_but_not_again_and_again() {
    let (issuer, provider) = pair();
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    issuer.behave(|it| it.has_new_key = true);
    let early = log_in(&provider).await.unwrap_err();
    assert!(matches!(early, LoginError::Token(TokenError::UnknownKey)));
    assert_eq!(
        issuer.asked("/keys"),
        1,
        "they are half a minute old at most"
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    assert_eq!(issuer.asked("/keys"), 2);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_as_it_should_is_told_of_clearly() {
    let at = "openid-configuration";
    let long = vec![b' '; (256 << 10) + 1];
    for (answer, said) in [
        ((200, long), "answered with more than 262144 bytes"),
        ((302, Vec::new()), "answers with HTTP status 302"),
        ((404, Vec::new()), "answers with HTTP status 404"),
        ((200, b"<html>".to_vec()), "is not what the standard says"),
    ] {
        let (issuer, provider) = pair();
        issuer.behave(|it| {
            it.answers.insert(at, answer);
        });
        let error = provider
            .begin(SystemTime::now())
            .await
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        // It is left alone for a moment.
        let _ = provider.begin(SystemTime::now()).await;
        assert_eq!(issuer.asked(at), 1);
    }
    for end in ["/token", "/keys"] {
        let refused = with(|it| {
            it.answers.insert(end, (503, Vec::new()));
        });
        let error = refused.await.unwrap_err();
        assert!(error.to_string().contains("HTTP status 503"), "{error}");
    }
    let no_token = with(|it| {
        it.answers.insert("/token", (200, b"{}".to_vec()));
    });
    assert!(matches!(
        no_token.await,
        Err(LoginError::Token(TokenError::Missing))
    ));
    let (issuer, provider) = pair();
    issuer.behave(|it| {
        it.discovery
            .insert("issuer".to_owned(), json!("http://localhost/other"));
    });
    let error = provider.look().await.unwrap_err();
    assert!(matches!(&*error, ProviderError::OtherIssuer), "{error}");
}

#[tokio::test]
async fn a_provider_that_is_away_is_told_of_and_what_is_known_goes_on() {
    let (issuer, _) = pair();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let away = provider(Settings {
        issuer: format!("http://localhost:{port}"),
        ..settings(&issuer)
    });
    let error = away.begin(SystemTime::now()).await.map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("cannot connect to localhost"),
        "{error}"
    );
    // What was known of one is believed where it says nothing now.
    let (issuer, provider) = pair();
    provider.look().await.unwrap();
    issuer.behave(|it| {
        it.answers.insert("openid-configuration", (503, Vec::new()));
        it.answers.insert("/keys", (503, Vec::new()));
    });
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3700)).await;
    tokio::time::resume();
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    assert_eq!(issuer.asked("openid-configuration"), 2);
}

#[tokio::test]
async fn one_that_says_nothing_is_not_waited_for_for_ever() {
    let (issuer, provider) = pair();
    issuer.behave(|it| it.silent = Some("openid-configuration"));
    tokio::time::pause();
    // With nothing else to be done, time is what passes.
    let error = provider
        .begin(SystemTime::now())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("was too slow"), "{error}");
}

#[tokio::test]
async fn one_that_is_slow_keeps_nobody_out_of_whom_all_is_known() {
    let (issuer, provider) = pair();
    assert_eq!(log_in(&provider).await.unwrap(), ada());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3700)).await;
    // From here on it passes by itself only: nothing else to do is no reason to skip any.
    tokio::time::resume();
    issuer.behave(|it| it.silent = Some("openid-configuration"));
    let begun = tokio::time::Instant::now();
    let (one, other) = tokio::join!(
        provider.begin(SystemTime::now()),
        provider.begin(SystemTime::now())
    );
    assert!(one.is_ok() && other.is_ok(), "what it said before counts");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(issuer.asked("openid-configuration"), 2, "once for both");
}
