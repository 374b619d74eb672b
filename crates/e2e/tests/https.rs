//! What a server answers over TLS, asked by hand: for what no command tells as it is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;

/// What was answered: the status, the fields, and the body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn field(&self, name: &str, begins: &str) -> Result<&str> {
        let fields = self.head.split("\r\n").filter_map(|it| it.split_once(": "));
        let mut fields = fields.filter(|(it, _)| it.eq_ignore_ascii_case(name));
        let found = fields.find(|(_, value)| value.starts_with(begins));
        let (_, value) = found.with_context(|| format!("no {name} in {}", self.head))?;
        Ok(value.split("; ").next().unwrap_or_default())
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("read {}", self.body))
    }
}

/// Gets what is at a URL, trusting that authority, with these fields; follows nothing.
pub(crate) fn get(authority: &str, url: &str, fields: &[(&str, &str)]) -> Result<Answer> {
    let rest = url.strip_prefix("https://").context("it is HTTPS")?;
    let (host, target) = rest.split_once('/').context("it has a path")?;
    let (server, _) = host.rsplit_once(':').context("it has a port")?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerName::try_from(server.to_owned())?;
    let session = rustls::ClientConnection::new(Arc::new(config), server)?;
    let stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = rustls::StreamOwned::new(session, stream);
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let fields: String = fields.collect();
    write!(
        stream,
        "GET /{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n"
    )?;
    let mut bytes = Vec::new();
    // Not everybody takes leave.
    let read = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .with_context(|| format!("an answer: {read:?}"))?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
