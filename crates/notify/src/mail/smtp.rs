//! The dialogue with a mail server (RFC 5321, RFC 3207, RFC 4954).
//!
//! It is our own, and short, since what there is as a library reads lines of any length, goes on with what came in plain text behind the
//! reply to `STARTTLS`, and sends to nobody where one address is refused.
//!
//! Invariants:
//! - after `STARTTLS` nothing counts that was said before;
//! - what is sent ends with the one full stop that we write.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::reply::{self, Lines, NoReply, Reply};
use crate::connection::{Peer, Wire};
use crate::{Secret, SmtpStep, Stage, Undelivered};

/// How long a server may take to say goodbye. The mail is its by then.
const QUIT_TIME_MAX: Duration = Duration::from_millis(500);

pub(super) struct Smtp<'a> {
    peer: &'a Peer<'a>,
    stream: BufReader<Box<dyn Wire>>,
    name: String,
    /// What the server can do, in capitals.
    extensions: Vec<String>,
}

impl<'a> Smtp<'a> {
    /// Waits for the greeting, and says who we are: our address, since a node's name need not be one that a server finds
    /// (RFC 5321, 4.1.4).
    pub(super) async fn greet(
        peer: &'a Peer<'a>,
        stream: Box<dyn Wire>,
        local: IpAddr,
    ) -> Result<Self, Undelivered> {
        let name = match local {
            IpAddr::V4(address) => format!("[{address}]"),
            IpAddr::V6(address) => format!("[IPv6:{address}]"),
        };
        let mut smtp = Self {
            peer,
            stream: BufReader::new(stream),
            name,
            extensions: Vec::new(),
        };
        let greeting = smtp.read().await?;
        smtp.expect(SmtpStep::Greeting, 220, greeting)?;
        smtp.hello().await?;
        Ok(smtp)
    }

    async fn hello(&mut self) -> Result<(), Undelivered> {
        let hello = format!("EHLO {}\r\n", self.name);
        let lines = self.ask(&hello).await?;
        let extensions = lines.lines.iter().skip(1);
        self.extensions = extensions.map(|line| line.to_ascii_uppercase()).collect();
        self.expect(SmtpStep::Greeting, 250, lines)
    }

    /// Goes on over TLS, or not at all.
    pub(super) async fn start_tls(mut self) -> Result<Self, Undelivered> {
        if !self.extensions.iter().any(|line| line == "STARTTLS") {
            let at = self.peer.to_string();
            return Err(Undelivered::NoStartTls { at });
        }
        let reply = self.ask("STARTTLS\r\n").await?;
        self.expect(SmtpStep::StartTls, 220, reply)?;
        // Somebody between may have put it there, to be taken for what came over TLS.
        if !self.stream.buffer().is_empty() {
            return Err(self.stranger());
        }
        let stream = self.peer.secure(self.stream.into_inner()).await?;
        self.stream = BufReader::new(Box::new(stream));
        self.extensions.clear();
        self.hello().await?;
        Ok(self)
    }

    /// Logs in. For whoever has seen to it that there is TLS.
    pub(super) async fn login(&mut self, name: &str, password: &Secret) -> Result<(), Undelivered> {
        let offers = |mechanism: &str| {
            let mut offered = self
                .extensions
                .iter()
                .filter_map(|line| line.strip_prefix("AUTH "));
            offered.any(|line| line.split_ascii_whitespace().any(|it| it == mechanism))
        };
        let encode = |text: &str| Zeroizing::new(STANDARD.encode(text));
        let mut steps = if offers("PLAIN") {
            let both = Zeroizing::new(format!("\0{name}\0{}", password.expose()));
            let line = Zeroizing::new(format!("AUTH PLAIN {}\r\n", *encode(&both)));
            vec![line]
        } else if offers("LOGIN") {
            let line = |text: &str| Zeroizing::new(format!("{}\r\n", *encode(text)));
            let begin = Zeroizing::new("AUTH LOGIN\r\n".to_owned());
            vec![begin, line(name), line(password.expose())]
        } else {
            let at = self.peer.to_string();
            return Err(Undelivered::NoLogin { at });
        };
        let last = steps.pop().expect("there is one at least");
        for line in &steps {
            let reply = self.ask(line).await?;
            self.expect_login(334, reply)?;
        }
        let reply = self.ask(&last).await?;
        self.expect_login(235, reply)
    }

    /// The text of a refused login is not told: it may repeat what was sent.
    fn expect_login(&self, code: u16, mut lines: Lines) -> Result<(), Undelivered> {
        lines.lines.clear();
        self.expect(SmtpStep::Login, code, lines)
    }

    /// Sends a mail to every address that is taken, and says goodbye.
    pub(super) async fn send(
        mut self,
        from: &str,
        to: &[String],
        mail: &[u8],
    ) -> Result<(), Undelivered> {
        let reply = self.ask(&format!("MAIL FROM:<{from}>\r\n")).await?;
        self.expect(SmtpStep::Sender, 250, reply)?;
        let mut refused = Vec::new();
        for address in to {
            let reply = self.ask(&format!("RCPT TO:<{address}>\r\n")).await?;
            match reply.code {
                // 251: it is passed on (RFC 5321, 3.4); 252: it will be tried (RFC 5321, 3.5.3).
                250..=252 => {}
                400.. => refused.push((address.clone(), Reply::from(reply))),
                _ => return Err(self.stranger()),
            }
        }
        if refused.len() == to.len() {
            self.quit().await;
            // What is refused for now may be taken later.
            let later = refused.iter().position(|(_, reply)| reply.code < 500);
            let (_, reply) = refused.swap_remove(later.unwrap_or(0));
            return Err(self.refused(SmtpStep::Recipient, reply));
        }
        let reply = self.ask("DATA\r\n").await?;
        self.expect(SmtpStep::Content, 354, reply)?;
        self.write(&stuffed(mail)).await?;
        let reply = self.read().await?;
        self.expect(SmtpStep::Content, 250, reply)?;
        self.quit().await;
        if refused.is_empty() {
            return Ok(());
        }
        let at = self.peer.to_string();
        Err(Undelivered::Partly { at, refused })
    }

    /// Says goodbye, for those who mind; what comes of it does not matter.
    async fn quit(&mut self) {
        let goodbye = async {
            if self.write(b"QUIT\r\n").await.is_ok() {
                let _ = self.read().await;
            }
        };
        let _ = timeout(QUIT_TIME_MAX, goodbye).await;
    }

    async fn ask(&mut self, line: &str) -> Result<Lines, Undelivered> {
        self.write(line.as_bytes()).await?;
        self.read().await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Undelivered> {
        let stream = &mut self.stream;
        let write = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        let written = self.peer.wait(Stage::Answer, write).await?;
        written.map_err(|error| self.peer.broken(error).into())
    }

    async fn read(&mut self) -> Result<Lines, Undelivered> {
        let read = reply::read(&mut self.stream);
        let read = self.peer.wait(Stage::Answer, read).await?;
        read.map_err(|none| match none {
            NoReply::Io(error) => self.peer.broken(error).into(),
            NoReply::Stranger => self.stranger(),
        })
    }

    fn expect(&self, step: SmtpStep, code: u16, lines: Lines) -> Result<(), Undelivered> {
        match lines.code {
            it if it == code => Ok(()),
            400.. => Err(self.refused(step, lines.into())),
            _ => Err(self.stranger()),
        }
    }

    fn refused(&self, step: SmtpStep, reply: Reply) -> Undelivered {
        let at = self.peer.to_string();
        Undelivered::Refused { at, step, reply }
    }

    fn stranger(&self) -> Undelivered {
        Undelivered::Stranger {
            at: self.peer.to_string(),
            protocol: "SMTP",
        }
    }
}

/// A mail as it is sent: lines end alike, those that begin with a full stop have another one before it (RFC 5321, 4.5.2), and one of
/// a full stop is the last.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(mail.len() + mail.len() / 16);
    let mail = mail.strip_suffix(b"\n").unwrap_or(mail);
    for line in mail.split(|byte| *byte == b'\n') {
        let mut kept = line.iter().filter(|byte| **byte != b'\r').peekable();
        if kept.peek() == Some(&&b'.') {
            sent.push(b'.');
        }
        sent.extend(kept);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b".\r\n");
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_ends_where_we_say_so() {
        for (mail, sent) in [
            ("a\r\nb\r\n", "a\r\nb\r\n.\r\n"),
            ("a", "a\r\n.\r\n"),
            ("a\r\n.\r\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\n.\nQUIT\n", "a\r\n..\r\nQUIT\r\n.\r\n"),
            ("a\r.\rb\n", "a.b\r\n.\r\n"),
            ("a\n\r.\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("..\r\n", "...\r\n.\r\n"),
        ] {
            assert_eq!(stuffed(mail.as_bytes()), sent.as_bytes(), "{mail:?}");
        }
    }
}
