//! What the provider answers: its discovery document, its keys, and what a code is redeemed for.
//!
//! Invariant: an address of the provider's is as private as the issuer's has to be.

use holdfast_outside::OutsideUrl;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ProviderError;
use crate::settings::{Settings, is_private};

/// Where the discovery document is, below the issuer (OpenID Connect Discovery 1.0, section 4).
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
/// What it is called in errors.
pub(crate) const DISCOVERY: &str = "the provider's discovery document";
/// So are its keys.
pub(crate) const KEYS: &str = "the provider's keys";
/// And what a code is redeemed for.
pub(crate) const TOKENS: &str = "redeem the code";

/// How a client with a secret shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// In the field `Authorization`.
    Basic,
    /// In the form.
    Post,
}

/// What a provider says of itself, as far as it is wanted here.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// Where browsers are sent to.
    pub(crate) authorization: String,
    pub(crate) token: OutsideUrl,
    pub(crate) keys: OutsideUrl,
    pub(crate) authentication: Authentication,
    /// Whether browsers bring back who sent them (RFC 9207).
    pub(crate) says_issuer: bool,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Where the discovery document is.
pub(crate) fn discovery_url(settings: &Settings) -> Result<OutsideUrl, ProviderError> {
    let url = format!("{}{DISCOVERY_PATH}", settings.issuer.trim_end_matches('/'));
    address("the issuer", &url)
}

impl Metadata {
    pub(crate) fn read(body: &[u8], settings: &Settings) -> Result<Self, ProviderError> {
        let read = serde_json::from_slice(body);
        let found: Discovery = read.map_err(|_| ProviderError::Unreadable { what: DISCOVERY })?;
        if found.issuer != settings.issuer {
            return Err(ProviderError::OtherIssuer);
        }
        address("authorization_endpoint", &found.authorization_endpoint)?;
        let takes = |way: &str| match &found.token_endpoint_auth_methods_supported {
            Some(ways) => ways.iter().any(|it| it == way),
            // OpenID Connect Discovery 1.0, section 3.
            None => way == "client_secret_basic",
        };
        let authentication = match &settings.client_secret {
            Some(_) if takes("client_secret_basic") => Authentication::Basic,
            Some(_) if !takes("client_secret_post") => return Err(ProviderError::Authentication),
            _ => Authentication::Post,
        };
        Ok(Self {
            token: address("token_endpoint", &found.token_endpoint)?,
            keys: address("jwks_uri", &found.jwks_uri)?,
            authorization: found.authorization_endpoint,
            authentication,
            says_issuer: found.authorization_response_iss_parameter_supported,
        })
    }
}

fn address(what: &'static str, text: &str) -> Result<OutsideUrl, ProviderError> {
    let url: OutsideUrl = text
        .parse()
        .map_err(|error| ProviderError::Address { what, error })?;
    if is_private(&url) {
        Ok(url)
    } else {
        Err(ProviderError::Plain(what))
    }
}

/// What a code is redeemed for. The access token is nothing that is wanted.
#[derive(Deserialize)]
pub(crate) struct Redeemed {
    pub(crate) id_token: Option<String>,
}

/// Why it is not (RFC 6749, section 5.2).
pub(crate) fn refusal(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    Some(document.get("error")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::Secret;
    use serde_json::json;

    use super::*;
    use crate::settings::tests::settings;

    fn document() -> Value {
        json!({
            "issuer": "https://id.example/realms/staff",
            "authorization_endpoint": "https://id.example/auth",
            "token_endpoint": "https://tokens.example/token",
            "jwks_uri": "https://id.example/keys",
            "response_types_supported": ["code"],
        })
    }

    fn read(document: &Value, settings: &Settings) -> Result<Metadata, ProviderError> {
        Metadata::read(document.to_string().as_bytes(), settings)
    }

    #[test]
    fn what_a_provider_says_of_itself_is_read() {
        let found = read(&document(), &settings()).unwrap();
        assert_eq!(found.token.to_string(), "https://tokens.example");
        assert_eq!(found.authentication, Authentication::Basic);
        assert!(!found.says_issuer);
        let url = discovery_url(&settings()).unwrap();
        assert_eq!(
            url.target.to_string(),
            "/realms/staff/.well-known/openid-configuration"
        );
        let issuer = "https://id.example/".to_owned();
        let slash = Settings {
            issuer,
            ..settings()
        };
        let url = discovery_url(&slash).unwrap();
        assert_eq!(url.target.to_string(), "/.well-known/openid-configuration");
    }

    #[test]
    fn what_it_may_not_say_is_refused() {
        let with = |key: &str, value: Value| {
            let mut document = document();
            document[key] = value;
            read(&document, &settings()).map(|_| ())
        };
        let issuer = with("issuer", json!("https://id.example/realms/staff/"));
        assert!(matches!(issuer, Err(ProviderError::OtherIssuer)));
        for key in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
            let plain = with(key, json!("http://id.example/x"));
            assert!(matches!(plain, Err(ProviderError::Plain(it)) if it == key));
            let none = with(key, json!("javascript:alert(1)"));
            assert!(matches!(none, Err(ProviderError::Address { what, .. }) if what == key));
            let missing = with(key, Value::Null);
            assert!(matches!(missing, Err(ProviderError::Unreadable { .. })));
        }
        let read = Metadata::read(b"<html>", &settings());
        assert!(matches!(read, Err(ProviderError::Unreadable { .. })));
    }

    #[test]
    fn a_secret_is_shown_as_the_provider_takes_it() {
        let by = |ways: &[&str], secret: Option<&str>| {
            let mut document = document();
            document["token_endpoint_auth_methods_supported"] = json!(ways);
            let client_secret = secret.map(|secret| Secret(secret.to_owned()));
            let settings = Settings {
                client_secret,
                ..settings()
            };
            read(&document, &settings).map(|found| found.authentication)
        };
        let (basic, post) = ("client_secret_basic", "client_secret_post");
        assert_eq!(
            by(&[post, basic], Some("s")).unwrap(),
            Authentication::Basic
        );
        assert_eq!(by(&[post], Some("s")).unwrap(), Authentication::Post);
        let other = by(&["private_key_jwt"], Some("s"));
        assert!(matches!(other, Err(ProviderError::Authentication)));
        // Who has none has nothing to show.
        assert_eq!(by(&["none"], None).unwrap(), Authentication::Post);
    }
}
