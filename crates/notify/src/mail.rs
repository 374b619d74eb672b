//! Mail: a message as plain text, given to a mail server that passes it on.
//!
//! It refuses to find the servers of addresses by itself: there is one server that takes all mail, as a relay does.
//!
//! Invariants:
//! - a login is sent over TLS only;
//! - addresses and hosts have no character that could end a line or a field.

mod address;
mod reply;
mod smtp;
mod text;

use std::time::Duration;

use crate::connection::{Peer, Wire, trust};
use crate::receiver::check_secret;
use crate::{MayBegin, Message, ReceiverError, Secret, Undelivered};

pub use self::reply::Reply;

/// Addresses of one receiver at most.
pub const ADDRESSES_MAX: usize = 16;
/// Bytes of a host's name at most (RFC 1035, 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// People who get mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The host of the mail server that takes it: a name or an address.
    pub server: String,
    /// Its port: 465 for [`MailSecurity::Tls`], 587 for [`MailSecurity::StartTls`] and 25 for [`MailSecurity::None`] are usual.
    pub port: u16,
    /// How the connection is secured.
    pub security: MailSecurity,
    /// User name and password, if the server wants them.
    pub login: Option<(String, Secret)>,
    /// The address that mail is from.
    pub from: String,
    /// The addresses that it is for: 1 to [`ADDRESSES_MAX`].
    pub to: Vec<String>,
    /// PEM with certificates of authorities that are trusted beside the system's.
    pub authority: Option<String>,
}

/// How the connection to a mail server is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    /// TLS from the begin.
    Tls,
    /// TLS from `STARTTLS` on; no mail goes to a server that does not offer it.
    StartTls,
    /// Not at all: who listens reads the mail.
    None,
}

impl Mail {
    pub(crate) fn check(&self) -> Result<(), ReceiverError> {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let fits = (1..=HOST_BYTES_MAX).contains(&self.server.len());
        if !fits || !self.server.bytes().all(is_host) {
            return Err(ReceiverError::Host);
        }
        if self.port == 0 {
            return Err(ReceiverError::Port);
        }
        if !(1..=ADDRESSES_MAX).contains(&self.to.len()) {
            return Err(ReceiverError::Addresses(self.to.len()));
        }
        for address in self.to.iter().chain([&self.from]) {
            address::check(address)?;
        }
        if let Some((name, password)) = &self.login {
            if self.security == MailSecurity::None {
                return Err(ReceiverError::LoginInTheOpen);
            }
            check_secret(name)?;
            check_secret(password.expose())?;
        }
        Ok(())
    }

    pub(crate) async fn send(
        &self,
        message: &Message,
        (patience, may_begin): (Duration, MayBegin<'_>),
    ) -> Result<(), Undelivered> {
        let peer = Peer::new(
            &self.server,
            self.port,
            trust(self.authority.as_deref()),
            patience,
        );
        let stream = peer.connect().await?;
        let local = stream.local_addr().map_err(|error| peer.broken(error))?;
        let stream: Box<dyn Wire> = match self.security {
            MailSecurity::Tls => Box::new(peer.secure(stream).await?),
            MailSecurity::StartTls | MailSecurity::None => Box::new(stream),
        };
        let mut smtp = smtp::Smtp::greet(&peer, stream, local.ip()).await?;
        if self.security == MailSecurity::StartTls {
            smtp = smtp.start_tls().await?;
        }
        if let Some((name, password)) = &self.login {
            smtp.login(name, password).await?;
        }
        if !may_begin() {
            return Err(Undelivered::CalledOff);
        }
        smtp.send(&self.from, &self.to, &text::write(self, message))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Receiver;

    fn mail() -> Mail {
        Mail {
            server: "mail.example".to_owned(),
            port: 587,
            security: MailSecurity::StartTls,
            login: Some(("holdfast".to_owned(), Secret::new("s3cret".to_owned()))),
            from: "holdfast@example.com".to_owned(),
            to: vec!["ops@example.com".to_owned(); ADDRESSES_MAX],
            authority: None,
        }
    }

    #[test]
    fn each_part_of_a_receiver_is_checked() {
        assert_eq!(mail().check(), Ok(()));
        for server in [
            "192.0.2.1",
            "[::1]",
            "::1",
            "mail",
            &"x".repeat(HOST_BYTES_MAX),
        ] {
            let server = server.to_owned();
            assert_eq!(Mail { server, ..mail() }.check(), Ok(()));
        }
        let long = "x".repeat(HOST_BYTES_MAX + 1);
        for server in [
            "",
            "a b",
            "mail.example\r\nRCPT",
            "a/b",
            "u@h",
            "mäil",
            &long,
        ] {
            let server = server.to_owned();
            assert_eq!(Mail { server, ..mail() }.check(), Err(ReceiverError::Host));
        }
        assert_eq!(Mail { port: 0, ..mail() }.check(), Err(ReceiverError::Port));
        for count in [0, ADDRESSES_MAX + 1] {
            let to = vec!["ops@example.com".to_owned(); count];
            let refused = Mail { to, ..mail() }.check();
            assert_eq!(refused, Err(ReceiverError::Addresses(count)));
        }
        let injected = "a@b.example>\r\nBcc: <c@d.example".to_owned();
        let error = Err(ReceiverError::Address(injected.clone()));
        let from = injected.clone();
        assert_eq!(Mail { from, ..mail() }.check(), error);
        let to = vec!["ops@example.com".to_owned(), injected];
        assert_eq!(Mail { to, ..mail() }.check(), error);
        let security = MailSecurity::None;
        let refused = Mail { security, ..mail() }.check();
        assert_eq!(refused, Err(ReceiverError::LoginInTheOpen));
        for (name, password) in [("a\0b", "x"), ("", "x"), ("a", "x\r\ny"), ("a", "")] {
            let login = Some((name.to_owned(), Secret::new(password.to_owned())));
            assert_eq!(Mail { login, ..mail() }.check(), Err(ReceiverError::Secret));
        }
        let authority = Some("none".to_owned());
        let refused = Receiver::Mail(Mail {
            authority,
            ..mail()
        });
        assert_eq!(refused.check(), Err(ReceiverError::Authority));
    }

    #[test]
    fn the_password_is_not_shown() {
        assert!(!format!("{:?}", mail()).contains("s3cret"));
    }
}
