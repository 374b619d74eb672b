//! An initiator without manners: PDUs byte for byte, whatever is in them.
//!
//! It refuses to negotiate, to keep to its window, and to answer what it is asked, unless its user
//! does.
//!
//! Invariants:
//! - nothing waits longer than [`PATIENCE`].

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Bytes of a PDU's header.
pub const HEADER: usize = 48;
/// Longest wait for a node that runs.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The longest data segment that a reply may have here.
const SEGMENT_MAX: usize = 1 << 20;
/// What hosts negotiate that want to send as much as they may.
const EAGER: &str = "InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=65536\0\
    MaxBurstLength=1048576\0MaxRecvDataSegmentLength=262144\0HeaderDigest=None\0DataDigest=None\0";
/// CmdSN of the login and of the first command.
const FIRST: u32 = 1;

/// A session in its full feature phase.
#[derive(Debug)]
pub struct RawSession {
    stream: TcpStream,
    number: u32,
    number_max: u32,
    /// Bytes of data that a command may bring with it.
    pub immediate_max: usize,
    /// Bytes of data that a PDU may have.
    pub segment_max: usize,
}

/// A login that was refused: its status (RFC 7143 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub [u8; 2]);

/// A reply.
#[derive(Clone, Debug)]
pub struct RawReply {
    /// Its header.
    pub header: [u8; HEADER],
    /// Its data segment.
    pub data: Vec<u8>,
}

/// The header of a login request with these lengths (RFC 7143 11.12), straight to the full feature
/// phase.
#[must_use]
pub fn login_header(additional_words: u8, data: u32) -> Vec<u8> {
    let mut header = vec![0; HEADER];
    header[0] = 0x43;
    header[1] = 0x87;
    header[4] = additional_words;
    header[5..8].copy_from_slice(&data.to_be_bytes()[1..]);
    header[8] = 0x80;
    header
}

/// A login request with `text`.
#[must_use]
pub fn login_with(text: &str) -> Vec<u8> {
    padded(login_header(0, text.len() as u32), text.as_bytes())
}

fn padded(mut header: Vec<u8>, data: &[u8]) -> Vec<u8> {
    header.extend(data);
    header.resize(header.len().next_multiple_of(4), 0);
    header
}

/// Connects to a portal.
///
/// # Errors
/// Nobody is there.
pub fn connect(portal: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(portal).context("connect to a portal")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads one PDU.
///
/// # Errors
/// The portal closed, is silent, or sends what is too long.
pub fn read_reply(stream: &mut TcpStream) -> Result<RawReply> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).context("read a header")?;
    let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    ensure!(length <= SEGMENT_MAX, "a segment of {length} bytes");
    let mut data = vec![0; length.next_multiple_of(4)];
    stream.read_exact(&mut data).context("read data")?;
    data.truncate(length);
    Ok(RawReply { header, data })
}

/// Sends a login on a new connection.
///
/// # Errors
/// It is not answered by a login response.
pub fn try_login(portal: SocketAddr, request: &[u8]) -> Result<Result<TcpStream, Refused>> {
    let mut stream = connect(portal)?;
    stream.write_all(request)?;
    let reply = read_reply(&mut stream)?;
    ensure!(reply.header[0] & 0x3F == 0x23, "a login is answered");
    Ok(match [reply.header[36], reply.header[37]] {
        [0, _] => Ok(stream),
        status => Err(Refused(status)),
    })
}

impl RawSession {
    /// Logs in as the initiator port `port`.
    ///
    /// # Errors
    /// The portal does not answer; within: it refuses.
    pub fn open(portal: SocketAddr, target: &str, port: u16) -> Result<Result<Self, Refused>> {
        let who = "InitiatorName=iqn.2026-11.io.holdfast.e2e:raw";
        let text = format!("{who}\0SessionType=Normal\0TargetName={target}\0{EAGER}");
        let mut request = login_with(&text);
        request[12..14].copy_from_slice(&port.to_be_bytes());
        request[24..28].copy_from_slice(&FIRST.to_be_bytes());
        let mut stream = connect(portal)?;
        stream.write_all(&request)?;
        let reply = read_reply(&mut stream)?;
        if reply.header[36] != 0 {
            return Ok(Err(Refused([reply.header[36], reply.header[37]])));
        }
        let text = String::from_utf8(reply.data).context("read the text of a login")?;
        let value = |key: &str| {
            text.split('\0')
                .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
                .with_context(|| format!("{key} is answered"))
        };
        let segment_max = value("MaxRecvDataSegmentLength")?.parse()?;
        let immediate_max = match value("ImmediateData")? {
            "Yes" => value("FirstBurstLength")?
                .parse::<usize>()?
                .min(segment_max),
            _ => 0,
        };
        Ok(Ok(Self {
            stream,
            number: FIRST,
            number_max: word(&reply.header, 32),
            immediate_max,
            segment_max,
        }))
    }

    /// Commands that may be sent still.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.number_max.wrapping_sub(self.number).wrapping_add(1)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// They are not taken.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("send")
    }

    /// A command with the next number, `flags` as RFC 7143 11.3.1 lays them out.
    pub fn command(&mut self, cdb: &[u8], flags: u8, expected: u32, data: &[u8]) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[0] = 0x01;
        header[1] = flags;
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        header[16..20].copy_from_slice(&self.number.to_be_bytes());
        header[20..24].copy_from_slice(&expected.to_be_bytes());
        header[24..28].copy_from_slice(&self.number.to_be_bytes());
        header[32..32 + cdb.len()].copy_from_slice(cdb);
        self.number = self.number.wrapping_add(1);
        padded(header, data)
    }

    /// A NOP-Out that wants no answer.
    #[must_use]
    pub fn nop(&self, data: &[u8]) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[0] = 0x40;
        header[1] = 0x80;
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        header[16..24].fill(0xFF);
        header[24..28].copy_from_slice(&self.number.to_be_bytes());
        padded(header, data)
    }

    /// Reads a block, as any host does: past what the unit has to say first.
    ///
    /// # Errors
    /// The portal does not serve.
    pub fn read_block(&mut self) -> Result<Vec<u8>> {
        const UNIT_ATTENTIONS_MAX: usize = 4;
        for _ in 0..UNIT_ATTENTIONS_MAX {
            let read = self.command(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 0xC1, 512, &[]);
            self.send(&read)?;
            loop {
                let reply = read_reply(&mut self.stream)?;
                match reply.header[0] & 0x3F {
                    0x25 if reply.header[1] & 1 != 0 && reply.data.len() == 512 => {
                        ensure!(
                            reply.header[3] == 0,
                            "a read has status {}",
                            reply.header[3]
                        );
                        return Ok(reply.data);
                    }
                    // CHECK CONDITION: asked again.
                    0x21 if reply.header[3] == 2 => break,
                    // A ping.
                    0x20 => {}
                    code => bail!("a read is answered with {code:#x}: {:02x?}", reply.header),
                }
            }
        }
        bail!("a read is not done")
    }

    /// The connection.
    #[must_use]
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

fn word(header: &[u8; HEADER], at: usize) -> u32 {
    let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
    u32::from_be_bytes([a, b, c, d])
}
