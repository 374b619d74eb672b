//! What is said of the provider, and whom it lets in as what.
//!
//! Invariants:
//! - the provider, and where browsers come back to, are reached by HTTPS only, but for a provider on this very machine;
//! - somebody can be let in: a mapping that lets in nobody is a mistake.

use std::collections::BTreeMap;

use holdfast_identity::Role;
use holdfast_model::is_this_machine;
use holdfast_model::record::Secret;
use holdfast_outside::{AuthorityError, OutsideUrl, UrlError, authorities};

/// Where a browser comes back to, below the external URL.
pub const CALLBACK_PATH: &str = "/api/v1/login/oidc/callback";
/// Letters of the name on the button at most.
const NAME_LENGTH_MAX: usize = 40;
/// Letters of a client's id, of a secret, of a value of a claim at most.
const TEXT_LENGTH_MAX: usize = 1024;
/// Letters of a claim's name at most.
const CLAIM_LENGTH_MAX: usize = 128;
/// Scopes at most.
const SCOPES_MAX: usize = 32;
/// Values that are mapped to roles at most.
const VALUES_MAX: usize = 256;

/// What is said of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What people call it: 1 to 40 letters.
    pub name: String,
    /// Its issuer, exactly as the provider itself says it.
    pub issuer: String,
    /// What it calls this cluster.
    pub client_id: String,
    /// By what it knows that the cluster asks; none for a public client.
    pub client_secret: Option<Secret>,
    /// The authorities that its certificate may be of, as PEM, and no others; the system's if none are said.
    pub authority: Option<String>,
    /// What it is asked for.
    pub scopes: Vec<String>,
    /// The claim that has the name that people know somebody by.
    pub username_claim: String,
    /// The claim that says what somebody is: its name, or, for a claim within a claim, names with dots between.
    pub roles_claim: String,
    /// Which of its values make whom somebody is. The highest role counts.
    pub roles: BTreeMap<Role, Vec<String>>,
    /// Where browsers reach the console: `https://HOST[:PORT]`.
    pub external_url: String,
}

/// What is said makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The issuer is no URL.
    #[error("issuer: `{0}` {1}")]
    Issuer(String, UrlError),
    /// It is to be reached without TLS.
    #[error(
        "issuer: `{0}` is not https://, which is needed unless the provider is on this machine"
    )]
    IssuerPlain(String),
    /// It has what an issuer cannot have.
    #[error("issuer: `{0}` has a query; say it as the provider's discovery document does")]
    IssuerQuery(String),
    /// A text is empty, too long, or has control characters.
    #[error("{key}: is not 1 to {length_max} letters without control characters")]
    Text {
        /// The key.
        key: &'static str,
        /// How long it may be.
        length_max: usize,
    },
    /// A scope that is none.
    #[error(
        "scopes: {0:?} is no scope: letters without spaces and quotes, {SCOPES_MAX} scopes at most"
    )]
    Scope(String),
    /// Without it the provider makes no ID token.
    #[error("scopes: `openid` is missing, without which the provider does not say who somebody is")]
    NoOpenId,
    /// Nobody would be let in.
    #[error(
        "roles: no value is mapped to a role, so that nobody could log in; for example \
         roles.administrator = [\"holdfast-admins\"]"
    )]
    NoRoles,
    /// There are too many values.
    #[error("roles: there are more than {VALUES_MAX} values")]
    Values,
    /// Browsers cannot come back there.
    #[error(
        "external_url: `{0}` is not https://HOST or https://HOST:PORT, where browsers reach the console"
    )]
    ExternalUrl(String),
    /// Whom to trust cannot be read.
    #[error("ca: {0}")]
    Authority(#[from] AuthorityError),
}

impl Settings {
    /// Whether all of it makes sense.
    ///
    /// # Errors
    /// [`SettingsError`] for the first that does not.
    pub fn check(&self) -> Result<(), SettingsError> {
        text("name", &self.name, NAME_LENGTH_MAX)?;
        let issuer = &self.issuer;
        let url: OutsideUrl = issuer
            .parse()
            .map_err(|error| SettingsError::Issuer(issuer.clone(), error))?;
        if !is_private(&url) {
            return Err(SettingsError::IssuerPlain(issuer.clone()));
        }
        if issuer.contains('?') {
            return Err(SettingsError::IssuerQuery(issuer.clone()));
        }
        text("client_id", &self.client_id, TEXT_LENGTH_MAX)?;
        if let Some(Secret(secret)) = &self.client_secret {
            text("client_secret_file", secret, TEXT_LENGTH_MAX)?;
        }
        if let Some(authority) = &self.authority {
            authorities(authority)?;
        }
        self.check_scopes()?;
        text("username_claim", &self.username_claim, CLAIM_LENGTH_MAX)?;
        text("roles_claim", &self.roles_claim, CLAIM_LENGTH_MAX)?;
        let values = self.roles.values().flatten();
        match values.clone().count() {
            0 => return Err(SettingsError::NoRoles),
            1..=VALUES_MAX => {}
            _ => return Err(SettingsError::Values),
        }
        for value in values {
            text("roles", value, TEXT_LENGTH_MAX)?;
        }
        let external = self.external_url.parse::<OutsideUrl>();
        let is_origin = external.is_ok_and(|url| {
            url.is_secure && self.external_url == format!("https://{}", url.authority)
        });
        if !is_origin {
            return Err(SettingsError::ExternalUrl(self.external_url.clone()));
        }
        Ok(())
    }

    fn check_scopes(&self) -> Result<(), SettingsError> {
        // RFC 6749, section 3.3.
        let letter = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        let is_scope = |scope: &&String| {
            !scope.is_empty() && scope.len() <= CLAIM_LENGTH_MAX && scope.bytes().all(letter)
        };
        if let Some(odd) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(SettingsError::Scope(odd.clone()));
        }
        if let Some(more) = self.scopes.get(SCOPES_MAX) {
            return Err(SettingsError::Scope(more.clone()));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return Err(SettingsError::NoOpenId);
        }
        Ok(())
    }

    /// Where a browser comes back to.
    #[must_use]
    pub fn redirect_url(&self) -> String {
        format!("{}{CALLBACK_PATH}", self.external_url)
    }

    /// What somebody may of whom these values are said; none if nothing.
    pub(crate) fn role_of<'a>(&self, values: impl Iterator<Item = &'a str>) -> Option<Role> {
        let values: Vec<&str> = values.collect();
        let mut highest_first = self.roles.iter().rev();
        let found = highest_first.find(|(_, wanted)| {
            let mut wanted = wanted.iter();
            wanted.any(|it| values.contains(&it.as_str()))
        });
        found.map(|(role, _)| *role)
    }
}

/// Whether nobody on the way can read along: TLS, or no way at all.
pub(crate) fn is_private(url: &OutsideUrl) -> bool {
    url.is_secure || is_this_machine(&url.host)
}

fn text(key: &'static str, text: &str, length_max: usize) -> Result<(), SettingsError> {
    let length = text.chars().count();
    if (1..=length_max).contains(&length) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(SettingsError::Text { key, length_max })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            name: "Keycloak".to_owned(),
            issuer: "https://id.example/realms/staff".to_owned(),
            client_id: "holdfast".to_owned(),
            client_secret: Some(Secret("s3cret".to_owned())),
            authority: None,
            scopes: ["openid", "profile"].map(str::to_owned).to_vec(),
            username_claim: "preferred_username".to_owned(),
            roles_claim: "groups".to_owned(),
            roles: BTreeMap::from([
                (Role::Administrator, vec!["admins".to_owned()]),
                (Role::Viewer, vec!["staff".to_owned(), "guests".to_owned()]),
            ]),
            external_url: "https://storage.example:7461".to_owned(),
        }
    }

    #[test]
    fn each_part_is_checked() {
        assert_eq!(settings().check(), Ok(()));
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            settings.check().map_err(|error| error.to_string())
        };
        for issuer in [
            "http://localhost:1/x",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "https://a/",
        ] {
            assert_eq!(
                refused(&|it| it.issuer = issuer.to_owned()),
                Ok(()),
                "{issuer}"
            );
        }
        type Change = dyn Fn(&mut Settings);
        let table: [(&Change, &str); 15] = [
            (&|it| it.name.clear(), "name: "),
            (
                &|it| it.issuer = "id.example".to_owned(),
                "issuer: `id.example` is no URL",
            ),
            (
                &|it| it.issuer = "http://id.example".to_owned(),
                "is not https://",
            ),
            (
                &|it| it.issuer = "https://id.example/?a".to_owned(),
                "has a query",
            ),
            (&|it| it.client_id = "a\nb".to_owned(), "client_id: "),
            (
                &|it| it.client_secret = Some(Secret(String::new())),
                "client_secret_file: ",
            ),
            (
                &|it| it.authority = Some("none".to_owned()),
                "ca: is not PEM",
            ),
            (
                &|it| it.scopes = vec!["email".to_owned()],
                "`openid` is missing",
            ),
            (
                &|it| it.scopes.push("a b".to_owned()),
                "\"a b\" is no scope",
            ),
            (&|it| it.username_claim.clear(), "username_claim: "),
            (&|it| it.roles_claim.clear(), "roles_claim: "),
            (&|it| it.roles.clear(), "nobody could log in"),
            (
                &|it| it.external_url = "http://a".to_owned(),
                "external_url: `http://a` is not",
            ),
            (
                &|it| it.external_url = "https://a/b".to_owned(),
                "external_url: ",
            ),
            (
                &|it| it.external_url = "https://a/".to_owned(),
                "external_url: ",
            ),
        ];
        for (change, said) in table {
            let error = refused(change).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let many = refused(&|it| {
            it.roles
                .insert(Role::Operator, vec!["x".to_owned(); VALUES_MAX]);
        });
        assert!(many.unwrap_err().contains("more than"));
    }

    #[test]
    fn the_highest_role_counts_and_what_is_not_mapped_is_none() {
        let settings = settings();
        let of = |values: &[&str]| settings.role_of(values.iter().copied());
        assert_eq!(of(&["guests"]), Some(Role::Viewer));
        assert_eq!(of(&["staff", "admins"]), Some(Role::Administrator));
        assert_eq!(of(&["Admins", "admin", ""]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", settings()).contains("s3cret"));
    }
}
