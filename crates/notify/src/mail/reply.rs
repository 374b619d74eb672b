//! What a mail server replies (RFC 5321, 4.2).
//!
//! Invariant: a reply has at most [`LINES_MAX`] lines of at most [`LINE_BYTES_MAX`] bytes, or it is none.

use std::fmt;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::message::one_line;

/// Bytes in a line at most. The protocol has 512 (RFC 5321, 4.5.3.1.5); some servers say more.
const LINE_BYTES_MAX: usize = 2048;
/// Lines in a reply at most: the longest are lists of what a server can do.
const LINES_MAX: usize = 64;

/// What a mail server replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The code, from 200 to 599.
    pub code: u16,
    /// The text, cut, and as one line.
    pub text: String,
}

impl fmt::Display for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.code)?;
        if self.text.is_empty() {
            return Ok(());
        }
        write!(formatter, " {}", self.text)
    }
}

/// A reply as it came.
pub(super) struct Lines {
    pub(super) code: u16,
    pub(super) lines: Vec<String>,
}

/// Why there is no reply.
pub(super) enum NoReply {
    Io(io::Error),
    /// What came is none.
    Stranger,
}

impl From<Lines> for Reply {
    fn from(Lines { code, lines }: Lines) -> Self {
        let text = one_line(lines.join(" ").trim());
        Self { code, text }
    }
}

pub(super) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Lines, NoReply> {
    let mut lines = Vec::new();
    let mut code = None;
    while lines.len() < LINES_MAX {
        let line = read_line(stream).await?;
        let digits = line
            .get(..3)
            .filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
        let its = digits.and_then(|digits| digits.parse::<u16>().ok());
        let its = its
            .filter(|its| (200..600).contains(its))
            .ok_or(NoReply::Stranger)?;
        if code.is_some_and(|code| code != its) {
            return Err(NoReply::Stranger);
        }
        code = Some(its);
        let is_last = match line.as_bytes().get(3) {
            None | Some(b' ') => true,
            Some(b'-') => false,
            Some(_) => return Err(NoReply::Stranger),
        };
        lines.push(line.get(4..).unwrap_or_default().to_owned());
        if is_last {
            return Ok(Lines { code: its, lines });
        }
    }
    Err(NoReply::Stranger)
}

/// A line without its end.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<String, NoReply> {
    let mut line = Vec::new();
    loop {
        let come = stream.fill_buf().await.map_err(NoReply::Io)?;
        if come.is_empty() {
            return Err(NoReply::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        let end = come.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(come.len(), |end| end + 1);
        line.extend_from_slice(&come[..taken]);
        stream.consume(taken);
        if line.len() > LINE_BYTES_MAX {
            return Err(NoReply::Stranger);
        }
        if end.is_some() {
            let line = String::from_utf8_lossy(&line);
            return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(text: &str) -> Option<(u16, Vec<String>)> {
        let mut bytes = text.as_bytes();
        let lines = read(&mut bytes).await.ok()?;
        Some((lines.code, lines.lines))
    }

    #[tokio::test]
    async fn replies_are_read() {
        let one = |code, text: &str| Some((code, vec![text.to_owned()]));
        assert_eq!(
            reply("220 mail.example ESMTP\r\n").await,
            one(220, "mail.example ESMTP")
        );
        assert_eq!(reply("250\r\n").await, one(250, ""));
        assert_eq!(reply("354 go\n").await, one(354, "go"));
        let lines = vec!["mail.example".to_owned(), "STARTTLS".to_owned()];
        assert_eq!(
            reply("250-mail.example\r\n250 STARTTLS\r\n").await,
            Some((250, lines))
        );
    }

    #[tokio::test]
    async fn what_is_no_reply_is_refused() {
        let long = format!("250 {}\r\n", "x".repeat(LINE_BYTES_MAX));
        let many = format!("{}250 x\r\n", "250-x\r\n".repeat(LINES_MAX));
        for text in [
            "",
            "250 x",
            "\r\n",
            "25\r\n",
            "HTTP/1.1 200 OK\r\n",
            "+50 x\r\n",
            "150 x\r\n",
            "999 x\r\n",
            "250x\r\n",
            "250-a\r\n251 b\r\n",
            "250-a\r\n",
            "25é x\r\n",
            &long,
            &many,
        ] {
            assert_eq!(reply(text).await, None, "{text:?}");
        }
    }
}
