//! A provider of identities for tests: one that checks what it is shown, and lies where it is told to.
//!
//! It is spoken to over real connections. Each thread of its serves one request at a time.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Map, Value, json};

pub(crate) const CLIENT: &str = "holdfast";
/// What has a meaning in URLs and in headers is in it.
pub(crate) const SECRET: &str = "s3cret: +%/ä";
/// An RSA key of 2048 bits (PKCS #8), made for these tests.
const RSA: &[u8] = include_bytes!("rsa.pk8");

/// How it lies, or does not.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Claims that are other than they should be; null leaves one out.
    pub(crate) claims: Map<String, Value>,
    /// How the ID token is signed: ES256 if nothing is said.
    pub(crate) algorithm: Option<&'static str>,
    /// Of which key it says that it is.
    pub(crate) kid: Option<&'static str>,
    /// Whether the token is signed by another key than it says.
    pub(crate) forges: bool,
    /// What is other than it should be in the discovery document.
    pub(crate) discovery: Map<String, Value>,
    /// What it sends browsers back with, instead of a code.
    pub(crate) error: Option<&'static str>,
    /// An answer instead of the one at that path.
    pub(crate) answers: HashMap<&'static str, (u16, Vec<u8>)>,
    /// Whether there is a new key since.
    pub(crate) has_new_key: bool,
    /// Whether the client has no secret.
    pub(crate) is_public: bool,
    /// Paths at which it says nothing, for as long as is waited for.
    pub(crate) silent: Option<&'static str>,
}

struct Code {
    challenge: String,
    nonce: String,
    redirect: String,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    codes: HashMap<String, Code>,
    made: usize,
    asked: Vec<String>,
}

/// The provider.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    /// The certificate of its authority, where it speaks TLS.
    pub(crate) authority: Option<String>,
    /// Where it lets browsers come back to.
    redirect: String,
    state: Arc<Mutex<State>>,
    keys: Arc<(EcdsaKeyPair, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair)>,
}

impl Issuer {
    /// One that sends browsers back to that URL; over TLS, or without.
    pub(crate) fn start(redirect: &str, tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let secured = tls.then(secured);
        let scheme = if tls { "https" } else { "http" };
        let random = SystemRandom::new();
        let ecdsa = || {
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
        };
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let keys = (
            ecdsa(),
            ecdsa(),
            Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(),
            RsaKeyPair::from_pkcs8(RSA).unwrap(),
        );
        let issuer = Self {
            url: format!("{scheme}://localhost:{port}/realms/staff"),
            authority: secured.as_ref().map(|(_, pem)| pem.clone()),
            redirect: redirect.to_owned(),
            state: Arc::default(),
            keys: Arc::new(keys),
        };
        let server = issuer.clone();
        let config = secured.map(|(config, _)| config);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, server, config) = (stream.unwrap(), server.clone(), config.clone());
                thread::spawn(move || match config {
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        server.serve(rustls::StreamOwned::new(session, stream));
                    }
                    None => server.serve::<TcpStream>(stream),
                });
            }
        });
        issuer
    }

    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state().behaviour);
    }

    /// How often something was asked for, by how its path ends.
    pub(crate) fn asked(&self, end: &str) -> usize {
        let state = self.state();
        state
            .asked
            .iter()
            .filter(|path| path.ends_with(end))
            .count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve<S: Read + Write>(&self, mut stream: S) {
        let Some((line, headers, body)) = request(&mut stream) else {
            return;
        };
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        self.state().asked.push(path.to_owned());
        let silent = self.state().behaviour.silent;
        if silent.is_some_and(|end| path.ends_with(end)) {
            thread::sleep(Duration::from_secs(60));
        }
        let (status, location, body) = self.answer(&line, path, query, &headers, &body);
        let location = location.map_or_else(String::new, |it| format!("Location: {it}\r\n"));
        let head = format!(
            "HTTP/1.1 {status} x\r\n{location}Content-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        // Whoever has heard enough leaves.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body);
        let _ = stream.flush();
    }

    fn answer(
        &self,
        line: &str,
        path: &str,
        query: &str,
        headers: &HashMap<String, String>,
        body: &str,
    ) -> (u16, Option<String>, Vec<u8>) {
        let other = {
            let state = self.state();
            let mut answers = state.behaviour.answers.iter();
            let found = answers.find(|(end, _)| path.ends_with(*end));
            found.map(|(_, answer)| answer.clone())
        };
        if let Some((status, body)) = other {
            let location = (300..400).contains(&status).then(|| self.url.clone());
            return (status, location, body);
        }
        let plain = |document: Value| (200, None, document.to_string().into_bytes());
        match path.strip_prefix("/realms/staff") {
            Some("/.well-known/openid-configuration") => plain(self.discovery()),
            Some("/keys") => plain(self.key_set()),
            Some("/auth") => match self.authorize(query) {
                Ok(location) => (302, Some(location), Vec::new()),
                Err(why) => (400, None, why.into()),
            },
            Some("/token") if line.starts_with("POST ") => match self.redeem(headers, body) {
                Ok(document) => plain(document),
                Err(error) => (
                    400,
                    None,
                    json!({ "error": error }).to_string().into_bytes(),
                ),
            },
            _ => (404, None, Vec::new()),
        }
    }

    fn discovery(&self) -> Value {
        let at = |end: &str| format!("{}/{end}", self.url);
        let mut document = json!({
            "issuer": self.url,
            "authorization_endpoint": at("auth"),
            "token_endpoint": at("token"),
            "jwks_uri": at("keys"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        let changed = self.state().behaviour.discovery.clone();
        document.as_object_mut().unwrap().extend(changed);
        document
    }

    fn key_set(&self) -> Value {
        let point = |id: &str, key: &EcdsaKeyPair| {
            let (x, y) = key.public_key().as_ref()[1..].split_at(32);
            json!({"kty": "EC", "kid": id, "use": "sig", "crv": "P-256", "x": url(x), "y": url(y)})
        };
        let (one, new, ed, rsa) = &*self.keys;
        let public = PublicKeyComponents::<Vec<u8>>::from(rsa.public());
        let mut keys = vec![
            point("1", one),
            json!({"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": url(ed.public_key().as_ref())}),
            json!({
                "kty": "RSA", "kid": "rsa", "use": "sig",
                "n": url(&public.n),
                "e": url(&public.e),
            }),
        ];
        if self.state().behaviour.has_new_key {
            keys.push(point("new", new));
        }
        json!({ "keys": keys })
    }

    /// Logs somebody in, without asking for a password: where the browser is sent back to.
    fn authorize(&self, query: &str) -> Result<String, &'static str> {
        let asked = fields(query);
        let of = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
        if of("response_type") != "code" || of("client_id") != CLIENT {
            return Err("no such client, or another flow");
        }
        if of("redirect_uri") != self.redirect {
            return Err("redirect_uri is not registered");
        }
        let has_openid = of("scope").split(' ').any(|scope| scope == "openid");
        if !has_openid || of("code_challenge_method") != "S256" || of("nonce").is_empty() {
            return Err("no scope openid, no challenge, or no nonce");
        }
        let mut state = self.state();
        let back = match state.behaviour.error {
            Some(error) => format!("error={error}&error_description=%3Cb%3Eno"),
            None => {
                state.made += 1;
                let code = format!("code-{}", state.made);
                let made = Code {
                    challenge: of("code_challenge").to_owned(),
                    nonce: of("nonce").to_owned(),
                    redirect: of("redirect_uri").to_owned(),
                };
                state.codes.insert(code.clone(), made);
                format!("code={code}&session_state=x")
            }
        };
        let issuer = escape(&self.url);
        Ok(format!(
            "{}?{back}&state={}&iss={issuer}",
            self.redirect,
            of("state")
        ))
    }

    /// What a code is redeemed for, once, by whom it was made for.
    fn redeem(&self, headers: &HashMap<String, String>, body: &str) -> Result<Value, &'static str> {
        let shown = fields(body);
        let of = |name: &str| shown.get(name).map(String::as_str).unwrap_or_default();
        let is_public = self.state().behaviour.is_public;
        let pair = match headers.get("authorization") {
            Some(value) => {
                let text = value.strip_prefix("Basic ").ok_or("invalid_client")?;
                let text = STANDARD.decode(text).map_err(|_| "invalid_client")?;
                let text = String::from_utf8(text).map_err(|_| "invalid_client")?;
                let (id, secret) = text.split_once(':').ok_or("invalid_client")?;
                (unescape(id), Some(unescape(secret)))
            }
            None => (
                of("client_id").to_owned(),
                shown.get("client_secret").cloned(),
            ),
        };
        let secret = (!is_public).then(|| SECRET.to_owned());
        if pair != (CLIENT.to_owned(), secret) {
            return Err("invalid_client");
        }
        if of("grant_type") != "authorization_code" {
            return Err("unsupported_grant_type");
        }
        let code = self.state().codes.remove(of("code"));
        let code = code.ok_or("invalid_grant")?;
        let challenge = url(digest(&SHA256, of("code_verifier").as_bytes()).as_ref());
        if code.redirect != of("redirect_uri") || code.challenge != challenge {
            return Err("invalid_grant");
        }
        let token = self.token(&code.nonce);
        Ok(json!({"access_token": "a", "token_type": "Bearer", "id_token": token}))
    }

    fn token(&self, nonce: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = now.as_secs();
        let mut claims = json!({
            "iss": self.url, "sub": "f7c2-ada", "aud": CLIENT, "exp": now + 300, "iat": now,
            "nonce": nonce, "preferred_username": "ada", "groups": ["staff", "storage-admins"],
        });
        let state = self.state();
        let behaviour = &state.behaviour;
        let all = claims.as_object_mut().unwrap();
        for (name, value) in &behaviour.claims {
            all.insert(name.clone(), value.clone());
        }
        all.retain(|_, value| !value.is_null());
        let algorithm = behaviour.algorithm.unwrap_or("ES256");
        let own = match algorithm {
            "EdDSA" => "ed",
            "RS256" | "PS256" | "HS256" => "rsa",
            _ if behaviour.has_new_key => "new",
            _ => "1",
        };
        let header = json!({"alg": algorithm, "typ": "JWT", "kid": behaviour.kid.unwrap_or(own)});
        let head = url(header.to_string().as_bytes());
        let message = format!("{head}.{}", url(claims.to_string().as_bytes()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let (one, new, ed, rsa) = &*self.keys;
        let by_rsa = |padding| {
            let mut signature = vec![0; rsa.public().modulus_len()];
            rsa.sign(padding, &random, bytes, &mut signature).unwrap();
            signature
        };
        let signature = match algorithm {
            "none" => Vec::new(),
            "EdDSA" => ed.sign(bytes).as_ref().to_vec(),
            "RS256" => by_rsa(&RSA_PKCS1_SHA256),
            "PS256" => by_rsa(&RSA_PSS_SHA256),
            // By the public key, which everybody has.
            "HS256" => {
                let public = PublicKeyComponents::<Vec<u8>>::from(rsa.public());
                let key = hmac::Key::new(hmac::HMAC_SHA256, &public.n);
                hmac::sign(&key, bytes).as_ref().to_vec()
            }
            _ if behaviour.has_new_key != behaviour.forges => {
                new.sign(&random, bytes).unwrap().as_ref().to_vec()
            }
            _ => one.sign(&random, bytes).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", url(&signature))
    }
}

/// What TLS is accepted with, and the certificate that it is known by.
fn secured() -> (Arc<rustls::ServerConfig>, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private.into())
        .unwrap();
    (Arc::new(config), certificate.pem())
}

/// The first line, the fields and the body of a request.
fn request(stream: &mut impl Read) -> Option<(String, HashMap<String, String>, String)> {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        if read.len() > 64 << 10 || stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        read.push(byte[0]);
    }
    let head = String::from_utf8(read).ok()?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers: HashMap<_, _> = pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some((line, headers, String::from_utf8(body).ok()?))
}

/// What a form or a query says.
pub(crate) fn fields(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (unescape(name), unescape(value)))
        .collect()
}

fn unescape(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = after;
            }
            (first, after) => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn escape(text: &str) -> String {
    text.replace(':', "%3A").replace('/', "%2F")
}

fn url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Asks without TLS, as a browser that follows nothing: where it is sent to.
pub(crate) fn visit(location: &str) -> String {
    let rest = location.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("GET /{target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer
        .split("\r\n")
        .find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_else(|| panic!("{answer}")).to_owned()
}
