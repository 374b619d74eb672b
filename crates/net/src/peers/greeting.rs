//! The first words on a connection between nodes.
//!
//! Invariants:
//! - a hello is read to its last byte and no further: what follows belongs to the lane;
//! - the dialling side offers the newest version that it speaks, and another one to a peer whose
//!   answer says that it knows only that;
//! - who greets wrongly learns whom it has reached, if it speaks the protocol at all, so that both
//!   ends can tell their people what is wrong.

use std::io;

use holdfast_model::{ClusterId, Incarnation, NodeId, StoreId};
use holdfast_stdx::Bytes;
use holdfast_wire::{
    FRAME_HEADER_BYTES, FrameHeader, Hello, Lane, WIRE_VERSION, WireError, hello_from_frame,
    hello_to_frame,
};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use crate::limits::{CONNECT_TIME_MAX, CONTROL_KERNEL_BYTES, GREETING_TIME_MAX, HELLO_BYTES_MAX};

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
    #[error("{0} connects, although this node has the lower number and should")]
    Direction(NodeId),
}

impl GreetingError {
    /// Whether a human must mend it; the others pass by themselves when the peer is back.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(
            self,
            Self::Socket(_) | Self::Time | Self::Closed | Self::Stranger(_) | Self::Newer(_)
        )
    }
}

/// Both lanes, greeted, and who is at the other end.
pub(crate) struct Greeted {
    pub(crate) hello: Hello,
    pub(crate) control: TcpStream,
    pub(crate) data: TcpStream,
}

/// Connects both lanes to `peer` and greets it.
pub(crate) async fn dial(
    identity: Identity,
    peer: NodeId,
    address: &str,
    link: u64,
) -> Result<Greeted, GreetingError> {
    let lane = |lane| greet(identity, peer, address, link, lane);
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
    peer: NodeId,
    address: &str,
    link: u64,
    lane: Lane,
) -> Result<(TcpStream, Hello), GreetingError> {
    let mut version = WIRE_VERSION;
    loop {
        let mut socket = timeout(CONNECT_TIME_MAX, connect(address, lane))
            .await
            .map_err(|_| GreetingError::Time)??;
        let hello = identity.hello(peer, link, lane, version);
        let answer = timeout(GREETING_TIME_MAX, ask(&mut socket, &hello))
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
        return Ok((socket, answer));
    }
}

/// Hears who connects, and answers. `admit` says whether a node may connect to this one.
pub(crate) async fn answer(
    identity: Identity,
    socket: &mut TcpStream,
    admit: impl FnOnce(NodeId) -> bool,
) -> Result<Hello, GreetingError> {
    let heard = timeout(GREETING_TIME_MAX, hear(socket))
        .await
        .map_err(|_| GreetingError::Time)?;
    let hello = match heard {
        Ok(hello) => hello,
        Err(GreetingError::Wire(WireError::Version(theirs))) => {
            // It cannot be read, but it can read in this one's header which version is here.
            let ours = identity.hello(NodeId(0), 0, Lane::Control, WIRE_VERSION);
            drop(say(socket, &ours).await);
            return Err(if theirs > WIRE_VERSION {
                GreetingError::Newer(theirs)
            } else {
                WireError::Version(theirs).into()
            });
        }
        Err(error) => return Err(error),
    };
    let checked = identity.check(&hello);
    if checked.is_ok() {
        if hello.node >= identity.node {
            return Err(GreetingError::Direction(hello.node));
        }
        if !admit(hello.node) {
            return Err(GreetingError::Stranger(hello.node));
        }
    }
    set_buffers(&*socket, hello.lane)?;
    let ours = identity.hello(hello.node, hello.link, hello.lane, hello.version);
    timeout(GREETING_TIME_MAX, say(socket, &ours))
        .await
        .map_err(|_| GreetingError::Time)??;
    checked.map(|()| hello)
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

async fn ask(socket: &mut TcpStream, hello: &Hello) -> Result<Hello, GreetingError> {
    say(socket, hello).await?;
    hear(socket).await
}

async fn say(socket: &mut TcpStream, hello: &Hello) -> io::Result<()> {
    let frame: Vec<u8> = hello_to_frame(hello).concat();
    socket.write_all(&frame).await
}

async fn hear(socket: &mut TcpStream) -> Result<Hello, GreetingError> {
    let mut header = [0; FRAME_HEADER_BYTES];
    read_exact(socket, &mut header).await?;
    let header = FrameHeader::parse(&header)?;
    if header.rest_length() > HELLO_BYTES_MAX {
        return Err(WireError::TooLong.into());
    }
    let mut rest = vec![0; header.rest_length()];
    read_exact(socket, &mut rest).await?;
    Ok(hello_from_frame(&header, &Bytes::from(rest))?)
}

async fn read_exact(socket: &mut TcpStream, bytes: &mut [u8]) -> Result<(), GreetingError> {
    match socket.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(GreetingError::Closed),
        Err(error) => Err(error.into()),
    }
}
