//! The first words on a connection between nodes.
//!
//! Invariants:
//! - a hello is read to its last byte and no further: what follows belongs to the lane;
//! - the dialling side offers the newest version that it speaks, and another one to a peer whose
//!   answer says that it knows only that;
//! - who greets wrongly learns whom it has reached, if it speaks the protocol at all, so that both
//!   ends can tell their people what is wrong; so does who comes with TLS where there is none, and without it where there is;
//! - where there is TLS, a hello is believed only from the node whose certificate was shown.

use std::io;
use std::rc::Rc;

use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use holdfast_stdx::{BufMut, Bytes};
use holdfast_tls::{Handshake, HandshakeError, NOT_TLS, PeerTls, Secured, is_tls};
use holdfast_wire::{
    FRAME_HEADER_BYTES, FrameHeader, Hello, Lane, WIRE_VERSION, WireError, hello_from_frame,
    hello_to_frame,
};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use super::handshakes::Bench;
use crate::limits::{
    CONNECT_TIME_MAX, CONTROL_KERNEL_BYTES, GREETING_TIME_MAX, HANDSHAKE_READ_BYTES,
    HELLO_BYTES_MAX, LINK_PROBE, LINK_UNANSWERED_MAX, PROOF_TIME_MAX, UNPROVEN_MAX,
    UNPROVEN_OF_ADDRESS_MAX,
};
use crate::sealing::Sealing;
use crate::stream::{Patience, Stream};

/// Who this node is to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) store: StoreId,
    pub(crate) incarnation: Incarnation,
}

impl Identity {
    fn hello(&self, to: NodeId, link: u64, lane: Lane, version: u16) -> Hello {
        Hello {
            cluster: self.cluster,
            node: self.node,
            store: self.store,
            incarnation: self.incarnation,
            to,
            link,
            lane,
            version,
        }
    }

    /// Whether the speaker belongs to this cluster and means this node.
    fn check(&self, hello: &Hello) -> Result<(), GreetingError> {
        if hello.cluster != self.cluster {
            return Err(GreetingError::Cluster {
                ours: self.cluster,
                theirs: hello.cluster,
            });
        }
        if hello.to != self.node {
            return Err(GreetingError::Recipient {
                node: self.node,
                meant: hello.to,
            });
        }
        Ok(())
    }
}

/// Why two nodes do not come together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetingError {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("it did not answer in time")]
    Time,
    #[error("it closed the connection without a greeting")]
    Closed,
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error(
        "it offers version {0} of the protocol, and was told that this node speaks up to {WIRE_VERSION}: \
         if it can it will, else update this node"
    )]
    Newer(u16),
    #[error("it belongs to cluster {theirs}, this node to cluster {ours}")]
    Cluster { ours: ClusterId, theirs: ClusterId },
    #[error("it wants to reach {meant}, this is {node}")]
    Recipient { node: NodeId, meant: NodeId },
    #[error("{found} answers there")]
    Speaker { found: NodeId },
    #[error("its answer is not to what it was asked")]
    Answer,
    #[error("{0} connects, which this node knows nothing of")]
    Stranger(NodeId),
    #[error("{said} connects with the certificate of {shown}")]
    Impostor { said: NodeId, shown: NodeId },
    #[error("{0}")]
    Handshake(HandshakeError),
    #[error("{0}")]
    Sealed(io::Error),
    #[error(
        "it does not speak TLS, and this node does: give both nodes credentials, or take TLS from both (docs/security.md)"
    )]
    WithoutTls,
    #[error(
        "it speaks TLS, and this node does not (`security.off`): give both nodes credentials, or take TLS from both \
         (docs/security.md)"
    )]
    WithTls,
    #[error(
        "it closed the connection in the handshake of TLS: its log says why, unless it is a node without TLS"
    )]
    ClosedHandshake,
    #[error(
        "more connections of it than {UNPROVEN_OF_ADDRESS_MAX}, or than fit, wait without saying who they are: the oldest was \
         closed. Keep everything but nodes from `peers.listen`"
    )]
    Crowd,
    #[error(
        "it was closed at once: {UNPROVEN_MAX} connections wait without saying who they are, all from where nodes are. Keep everything \
         but nodes from `peers.listen`"
    )]
    Full,
    #[error("{0} connects, although this node has the lower number and should")]
    Direction(NodeId),
}

impl GreetingError {
    /// Whether a human must mend it; the others pass by themselves when the peer is back.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(
            self,
            Self::Socket(_)
                | Self::Time
                | Self::Closed
                | Self::ClosedHandshake
                | Self::Stranger(_)
                | Self::Newer(_)
        )
    }
}

/// Both lanes, greeted, and who is at the other end.
pub(crate) struct Greeted {
    pub(crate) hello: Hello,
    pub(crate) control: Rc<Stream>,
    pub(crate) data: Rc<Stream>,
}

/// Connects both lanes to `peer` and greets it.
pub(crate) async fn dial(
    identity: Identity,
    tls: Option<(&PeerTls, &Bench)>,
    peer: NodeId,
    address: &str,
    link: u64,
) -> Result<Greeted, GreetingError> {
    let lane = |lane| greet(identity, tls, (peer, address), link, lane);
    let (control, data) = tokio::try_join!(lane(Lane::Control), lane(Lane::Data))?;
    let (hello, other) = (control.1, data.1);
    let speaker = |hello: &Hello| (hello.store, hello.incarnation, hello.version);
    if speaker(&hello) != speaker(&other) {
        // It was started anew between the lanes.
        return Err(GreetingError::Answer);
    }
    Ok(Greeted {
        hello,
        control: control.0,
        data: data.0,
    })
}

/// Connects one lane to `peer` and greets it, in the newest version that both speak.
async fn greet(
    identity: Identity,
    tls: Option<(&PeerTls, &Bench)>,
    (peer, address): (NodeId, &str),
    link: u64,
    lane: Lane,
) -> Result<(Rc<Stream>, Hello), GreetingError> {
    let mut version = WIRE_VERSION;
    loop {
        let mut socket = timeout(CONNECT_TIME_MAX, connect(address, lane))
            .await
            .map_err(|_| GreetingError::Time)??;
        let hello = identity.hello(peer, link, lane, version);
        let asked = async {
            let shaken = match tls {
                Some((tls, bench)) => {
                    Some(shake_dialled(&mut socket, Box::new(tls.dial()), bench).await?)
                }
                None => None,
            };
            let (stream, shown) = secured(socket, shaken)?;
            if let Some(found) = shown
                && found != peer
            {
                return Err(GreetingError::Speaker { found });
            }
            let answer = ask(&stream, &hello).await?;
            Ok((stream, answer))
        };
        let (stream, answer) = timeout(GREETING_TIME_MAX, asked)
            .await
            .map_err(|_| GreetingError::Time)??;
        if answer.version < version {
            // It could not read the offer, and has said what it can.
            version = answer.version;
            continue;
        }
        identity.check(&answer)?;
        if answer.node != peer {
            return Err(GreetingError::Speaker { found: answer.node });
        }
        if (answer.link, answer.lane, answer.version) != (link, lane, version) {
            return Err(GreetingError::Answer);
        }
        return Ok((stream, answer));
    }
}

/// Hears who connects, and answers. `admit` says whether a node may connect to this one.
pub(crate) async fn answer(
    identity: Identity,
    tls: Option<(&PeerTls, &Bench)>,
    mut socket: TcpStream,
    admit: impl FnOnce(NodeId) -> bool,
) -> Result<(Hello, Rc<Stream>), GreetingError> {
    let heard = async {
        let shaken = match tls {
            Some((tls, bench)) => {
                Some(shake_answered(&mut socket, Box::new(tls.answer()), bench).await?)
            }
            None => None,
        };
        let (stream, shown) = secured(socket, shaken)?;
        let heard = hear(&stream).await;
        Ok::<_, GreetingError>((stream, shown, heard))
    };
    let (stream, shown, heard) = timeout(PROOF_TIME_MAX, heard)
        .await
        .map_err(|_| GreetingError::Time)??;
    let hello = match heard {
        Ok(hello) => hello,
        Err(error @ (GreetingError::Wire(WireError::Version(_)) | GreetingError::WithTls)) => {
            return Err(tell_version(identity, &stream, error).await);
        }
        Err(error) => return Err(error),
    };
    if let Some(shown) = shown
        && shown != hello.node
    {
        let said = hello.node;
        return Err(GreetingError::Impostor { said, shown });
    }
    let checked = identity.check(&hello);
    if checked.is_ok() {
        if hello.node >= identity.node {
            return Err(GreetingError::Direction(hello.node));
        }
        if !admit(hello.node) {
            return Err(GreetingError::Stranger(hello.node));
        }
    }
    set_buffers(stream.socket(), hello.lane)?;
    let ours = identity.hello(hello.node, hello.link, hello.lane, hello.version);
    timeout(PROOF_TIME_MAX, say(&stream, &ours))
        .await
        .map_err(|_| GreetingError::Time)??;
    checked.map(|()| (hello, stream))
}

/// Who came cannot be read, but it can read in this one's header which version is here, and that there is no TLS.
async fn tell_version(identity: Identity, stream: &Stream, error: GreetingError) -> GreetingError {
    // A socket that is closed with unread bytes takes back what the other end has not read yet.
    drop(stream.read(&mut (&mut Vec::new()).limit(HANDSHAKE_READ_BYTES)));
    let ours = identity.hello(NodeId(0), 0, Lane::Control, WIRE_VERSION);
    drop(timeout(PROOF_TIME_MAX, say(stream, &ours)).await);
    match error {
        GreetingError::Wire(WireError::Version(theirs)) if theirs > WIRE_VERSION => {
            GreetingError::Newer(theirs)
        }
        error => error,
    }
}

/// Goes on, sealed if there was a handshake; who then has shown its certificate.
fn secured(
    socket: TcpStream,
    secured: Option<Box<Secured>>,
) -> Result<(Rc<Stream>, Option<NodeId>), GreetingError> {
    let patience = Patience {
        unanswered: LINK_UNANSWERED_MAX,
        probe: LINK_PROBE,
    };
    let mut stream = Stream::new(socket, patience)?;
    let node = secured.as_ref().map(|secured| secured.node);
    if let Some(secured) = secured {
        stream.seal(Sealing::new(*secured));
    }
    Ok((Rc::new(stream), node))
}

/// What computing a step of a handshake gave: what is to be said, and how it goes on.
type Step = (Vec<u8>, Result<Shaking, HandshakeError>);

enum Shaking {
    On(Box<Handshake>),
    Done(Box<Secured>),
}

/// Takes what came.
fn advance(mut handshake: Box<Handshake>, came: &[u8]) -> Step {
    let advanced = handshake.advance(came);
    let said = match &advanced {
        Err(HandshakeError::Plain) => NOT_TLS.to_vec(),
        _ => handshake.take_outgoing(),
    };
    let next = match advanced {
        Ok(true) => handshake
            .finish()
            .map(|secured| Shaking::Done(Box::new(secured))),
        Ok(false) => Ok(Shaking::On(handshake)),
        Err(error) => Err(error),
    };
    (said, next)
}

/// Shakes hands as the one who dials.
async fn shake_dialled(
    socket: &mut TcpStream,
    handshake: Box<Handshake>,
    bench: &Bench,
) -> Result<Box<Secured>, GreetingError> {
    let step = bench.compute(move || advance(handshake, &[])).await;
    shake(socket, step, bench).await
}

/// Shakes hands as the one who answers: nothing is computed before something has come that may be a handshake.
async fn shake_answered(
    socket: &mut TcpStream,
    handshake: Box<Handshake>,
    bench: &Bench,
) -> Result<Box<Secured>, GreetingError> {
    let came = hear_handshake(socket).await?;
    if came.len() == 1 || is_tls(&came) {
        bench.begin().await;
    }
    let step = bench.compute(move || advance(handshake, &came)).await;
    shake(socket, step, bench).await
}

/// Goes on until both are done.
async fn shake(
    socket: &mut TcpStream,
    mut step: Step,
    bench: &Bench,
) -> Result<Box<Secured>, GreetingError> {
    loop {
        let (said, next) = step;
        let sent = socket.write_all(&said).await;
        let handshake = match next {
            Ok(Shaking::Done(secured)) => {
                sent?;
                return Ok(secured);
            }
            Ok(Shaking::On(handshake)) => handshake,
            Err(HandshakeError::Plain) => return Err(GreetingError::WithoutTls),
            Err(error) => return Err(GreetingError::Handshake(error)),
        };
        sent?;
        let came = hear_handshake(socket).await?;
        step = bench.compute(move || advance(handshake, &came)).await;
    }
}

/// What comes next, at least a byte.
async fn hear_handshake(socket: &mut TcpStream) -> Result<Vec<u8>, GreetingError> {
    let mut came = Vec::with_capacity(HANDSHAKE_READ_BYTES);
    match socket.read_buf(&mut came).await {
        Ok(0) => Err(GreetingError::ClosedHandshake),
        Ok(_) => Ok(came),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            Err(GreetingError::ClosedHandshake)
        }
        Err(error) => Err(error.into()),
    }
}

async fn connect(address: &str, lane: Lane) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host(address).await? {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Before connecting: the window's scale is agreed on there.
        set_buffers(&socket, lane)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Keeps what the kernel queues for the control lane small. The data lane's buffers grow by
/// themselves.
fn set_buffers<'a>(socket: impl Into<SockRef<'a>>, lane: Lane) -> io::Result<()> {
    if lane == Lane::Control {
        let socket = socket.into();
        socket.set_send_buffer_size(CONTROL_KERNEL_BYTES)?;
        socket.set_recv_buffer_size(CONTROL_KERNEL_BYTES)?;
    }
    Ok(())
}

async fn ask(stream: &Stream, hello: &Hello) -> Result<Hello, GreetingError> {
    say(stream, hello).await?;
    hear(stream).await
}

async fn say(stream: &Stream, hello: &Hello) -> io::Result<()> {
    stream.queue(hello_to_frame(hello));
    stream.send_queued(&mut |_| ()).await
}

async fn hear(stream: &Stream) -> Result<Hello, GreetingError> {
    let mut header = Vec::new();
    let read = read_exact(stream, &mut header, FRAME_HEADER_BYTES).await;
    if !stream.is_sealed() && is_tls(&header) {
        return Err(GreetingError::WithTls);
    }
    read?;
    let header = header.first_chunk().expect("it was read whole");
    let header = FrameHeader::parse(header)?;
    if header.rest_length() > HELLO_BYTES_MAX {
        return Err(WireError::TooLong.into());
    }
    let mut rest = Vec::new();
    read_exact(stream, &mut rest, header.rest_length()).await?;
    Ok(hello_from_frame(&header, &Bytes::from(rest))?)
}

/// Reads so many bytes, and what there is of them if there are fewer.
async fn read_exact(
    stream: &Stream,
    bytes: &mut Vec<u8>,
    length: usize,
) -> Result<(), GreetingError> {
    while bytes.len() < length {
        stream.readable().await?;
        let missing = length - bytes.len();
        match stream.read(&mut (&mut *bytes).limit(missing)) {
            Ok(Some(0)) => return Err(GreetingError::Closed),
            Ok(_) => {}
            // What came is not what TLS allows, or says that this node is not trusted.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(GreetingError::Sealed(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
