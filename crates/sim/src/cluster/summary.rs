//! What happened in a few words, for the trace. Data is never printed.

use std::fmt::{self, Display};

use holdfast_engine::{Command, Event, PeerCommand, PeerEvent, PortalCommand, PortalEvent};
use holdfast_model::metadata::{MetadataAnswer, MetadataRequest};
use holdfast_wire::{Content, ForwardKind, Message};

struct Lazy<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> Display for Lazy<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(formatter)
    }
}

fn lazy<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result>(write: F) -> Lazy<F> {
    Lazy(write)
}

/// Something that a process is told.
pub(super) fn event(event: &Event) -> impl Display + '_ {
    lazy(move |f| match event {
        Event::Disk(done) => match &done.result {
            Ok(bytes) => write!(f, "disk t{} ok {}", done.token.0, bytes.len()),
            Err(error) => write!(f, "disk t{} {error}", done.token.0),
        },
        Event::Metadata { token, answer } => write!(f, "metadata t{} {}", token.0, said(answer)),
        Event::Peer(event) => peer_event(event, f),
        Event::Portal(event) => portal_event(event, f),
        Event::Order { number, order } => write!(f, "order {number}: {order:?}"),
        Event::Stop => f.write_str("stop"),
    })
}

fn peer_event(event: &PeerEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        PeerEvent::Up {
            peer,
            link,
            incarnation,
            ..
        } => {
            write!(f, "{peer} up, link {}, {incarnation}", link.0)
        }
        PeerEvent::Received {
            peer, message: it, ..
        } => write!(f, "{peer} {}", message(it)),
        PeerEvent::Down { peer, link } => write!(f, "{peer} down, link {}", link.0),
    }
}

fn portal_event(event: &PortalEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        PortalEvent::Connected { connection, from } => write!(f, "c{} from {from}", connection.0),
        PortalEvent::Received {
            connection, bytes, ..
        } => {
            write!(f, "c{} {} bytes", connection.0, bytes.len())
        }
        PortalEvent::Sent { connection, count } => write!(f, "c{} sent {count}", connection.0),
        PortalEvent::Closed { connection } => write!(f, "c{} closed", connection.0),
    }
}

fn said(answer: &MetadataAnswer) -> impl Display + '_ {
    lazy(move |f| match answer {
        MetadataAnswer::Transacted(outcome) => {
            write!(
                f,
                "transacted {} r{}",
                outcome.succeeded, outcome.revision.0
            )
        }
        MetadataAnswer::Watched { revision, events } => {
            write!(f, "watched {} to r{}", events.len(), revision.0)
        }
        other => write!(f, "{other:?}"),
    })
}

/// Something that an engine wants.
pub(super) fn command(command: &Command) -> impl Display + '_ {
    lazy(move |f| match command {
        Command::Disk(request) => write!(f, "disk t{}", request.token.0),
        Command::Metadata { token, request } => {
            write!(f, "metadata t{} {}", token.0, asked(request))
        }
        Command::Peer(command) => peer_command(command, f),
        Command::Portal(command) => portal_command(command, f),
        Command::Registered => f.write_str("registered"),
        Command::Opened { incarnation, .. } => write!(f, "opened, {incarnation}"),
        Command::OpenFailed(failure) => write!(f, "cannot open: {failure}"),
        Command::Notice(notice) => write!(f, "notice: {notice}"),
        Command::Stalled(stall) => write!(f, "stalled: {stall}"),
        Command::Ordered { number, result } => write!(f, "order {number}: {result:?}"),
        Command::Release(disk) => write!(f, "release disk {}", disk.0),
        Command::DeviceLost(disk) => write!(f, "lost disk {}", disk.0),
        Command::Unusable(disk) => write!(f, "nothing without disk {}", disk.0),
        Command::Displaced => f.write_str("displaced"),
        Command::Stopped => f.write_str("stopped"),
    })
}

fn asked(request: &MetadataRequest) -> impl Display + '_ {
    lazy(move |f| match request {
        MetadataRequest::Transact(transaction) => {
            let puts = transaction
                .success
                .iter()
                .filter_map(|operation| match operation {
                    holdfast_model::metadata::Operation::Put { key, value, .. } => {
                        Some((key, value))
                    }
                    _ => None,
                });
            f.write_str("transact")?;
            for (key, value) in puts {
                write!(f, " {key} = {}", String::from_utf8_lossy(value))?;
            }
            Ok(())
        }
        other => write!(f, "{other:?}"),
    })
}

fn peer_command(command: &PeerCommand, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match command {
        PeerCommand::Connect { peer, .. } => write!(f, "{peer} connect"),
        PeerCommand::Forget { peer } => write!(f, "{peer} forget"),
        PeerCommand::Send {
            peer, message: it, ..
        } => write!(f, "{peer} {}", message(it)),
        PeerCommand::Reset { peer, link } => write!(f, "{peer} reset link {}", link.0),
    }
}

fn portal_command(command: &PortalCommand, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match command {
        PortalCommand::Send { connection, parts } => {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            write!(f, "c{} {bytes} bytes", connection.0)
        }
        PortalCommand::Pause { connection } => write!(f, "c{} pause", connection.0),
        PortalCommand::Resume { connection } => write!(f, "c{} resume", connection.0),
        PortalCommand::Close { connection } => write!(f, "c{} close", connection.0),
        PortalCommand::Abort { connection } => write!(f, "c{} abort", connection.0),
    }
}

/// A message between nodes.
fn message(message: &Message) -> impl Display + '_ {
    lazy(move |f| match message {
        Message::Heartbeat(it) => {
            write!(f, "heartbeat {} echo {}", it.sent, it.echo)?;
            for claim in &it.claims {
                write!(
                    f,
                    " claim {} {} {}us",
                    claim.slice, claim.epoch, claim.read_lease_us
                )?;
            }
            for grant in &it.grants {
                write!(f, " grant {} {}", grant.slice, grant.epoch)?;
            }
            Ok(())
        }
        Message::Forward(it) => {
            write!(f, "forward {} {:?} ", it.slice, it.command.number)?;
            match &it.kind {
                ForwardKind::Write { offset, data } => write!(f, "write {offset}+{}", data.len()),
                other => write!(f, "{other:?}"),
            }
        }
        Message::Forwarded(it) => write!(
            f,
            "forwarded {} {} {:?} {}",
            it.slice,
            it.command.number,
            it.outcome,
            contents(&it.contents)
        ),
        Message::Copy(it) => {
            write!(
                f,
                "copy {} {} #{} as of {} {}",
                it.slice,
                it.epoch,
                it.number,
                it.as_of,
                contents(&it.contents)
            )
        }
        Message::Fetched(it) => write!(
            f,
            "fetched {} #{} {}",
            it.slice,
            it.number,
            contents(&it.contents)
        ),
        Message::Begin(it) => write!(
            f,
            "begin {} {} {:?} committed {} tail {:?} stable {}",
            it.slice, it.epoch, it.role, it.committed, it.tail, it.stable
        ),
        other => write!(f, "{other:?}"),
    })
}

fn contents(contents: &[Content]) -> impl Display + '_ {
    lazy(move |f| {
        for content in contents {
            let kind = match &content.content {
                holdfast_wire::BlockContent::Data { .. } => "data",
                holdfast_wire::BlockContent::Zero => "zero",
                holdfast_wire::BlockContent::Bad => "bad",
            };
            write!(f, "{:?} {kind} ", content.range)?;
        }
        Ok(())
    })
}
