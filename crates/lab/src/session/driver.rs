//! The task behind a session: it carries bytes between the connection and the machine, and answers
//! between the machine and those who wait for them.
//!
//! Invariants:
//! - orders are taken only while there is room for what they send;
//! - every reply that was promised is given, or dropped after the reason of the end is known.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Completion, DiscoveredTarget, EndReason, Initiator,
    InitiatorCommand, InitiatorConfig, InitiatorEvent, InitiatorOutput,
};
use holdfast_iscsi::pdu::TaskManagementCode;
use holdfast_scsi::Lun;
use holdfast_stdx::{Buf, BytesMut, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::SessionError;
use super::heard::Heard;
use super::send_queue::SendQueue;

/// Bytes that wait to be sent, beyond which no more orders are taken: some writes of the longest
/// kind. A target that does not read makes the session hold this much and one more write.
const SEND_BYTES_MAX: usize = 16 << 20;
/// Bytes of one buffer for what is received. What arrives keeps its buffer alive, so it is not long.
const RECEIVE_BYTES: usize = 64 << 10;
/// Room in the buffer below which a read takes a new one.
const RECEIVE_BYTES_MIN: usize = 16 << 10;
/// Orders taken at once: saves turns of the loop when many are waiting.
const ORDERS_AT_ONCE: usize = 64;
/// Event code of an asynchronous message that asks for a logout (RFC 7143 11.9.1).
const ASYNC_LOGOUT: u8 = 1;

type Reply<T> = oneshot::Sender<Result<T, SessionError>>;

/// What a handle asks for.
#[derive(Debug)]
pub(super) enum Order {
    Execute {
        tag: CommandTag,
        command: CommandRequest,
        reply: Reply<Completion>,
    },
    Abort {
        tag: CommandTag,
        reply: Reply<u8>,
    },
    Manage {
        tag: CommandTag,
        function: TaskManagementCode,
        lun: Lun,
        reply: Reply<u8>,
    },
    Discover {
        what: String,
        reply: Reply<Vec<DiscoveredTarget>>,
    },
    LogOut,
}

/// What ends when a management function is done.
#[derive(Debug)]
enum Scope {
    Command,
    Unit(Lun),
    All,
}

#[derive(Debug)]
pub(super) struct Driver {
    clock: Clock,
    machine: Initiator,
    out: InitiatorOutput,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    queue: SendQueue,
    orders: mpsc::Receiver<Order>,
    logged_in: Option<oneshot::Sender<()>>,
    commands: HashMap<CommandTag, (Lun, Reply<Completion>)>,
    managements: HashMap<CommandTag, (Scope, Reply<u8>)>,
    discoveries: VecDeque<Reply<Vec<DiscoveredTarget>>>,
    commands_max: usize,
    heard: Arc<Heard>,
}

/// The machine's time: since the driver's start.
#[derive(Clone, Copy, Debug)]
struct Clock(tokio::time::Instant);

impl Clock {
    fn now(self) -> Instant {
        let elapsed = self.0.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    fn at(self, instant: Instant) -> tokio::time::Instant {
        self.0 + instant.since(Instant::ZERO)
    }
}

/// Resets a connection that is given up, once its other half is dropped. What this machine has not sent of
/// it is never sent: whatever it was, it is repeated elsewhere, and must not arrive after that when the way
/// is passable again.
fn reset(writer: OwnedWriteHalf) {
    let stream: &TcpStream = writer.as_ref();
    // Of a socket that is gone already nothing is sent either.
    let _ = stream.set_zero_linger();
    // Else it would be closed in order.
    writer.forget();
}

impl Driver {
    pub(super) fn new(
        stream: TcpStream,
        config: InitiatorConfig,
        orders: mpsc::Receiver<Order>,
        logged_in: oneshot::Sender<()>,
        heard: Arc<Heard>,
    ) -> Self {
        let clock = Clock(tokio::time::Instant::now());
        let mut out = InitiatorOutput::default();
        let commands_max = config.commands_max;
        let machine = Initiator::connect(clock.now(), config, &mut out);
        let (reader, writer) = stream.into_split();
        Self {
            clock,
            machine,
            out,
            reader,
            writer,
            queue: SendQueue::default(),
            orders,
            logged_in: Some(logged_in),
            commands: HashMap::new(),
            managements: HashMap::new(),
            discoveries: VecDeque::new(),
            commands_max,
            heard,
        }
    }

    /// Runs until the session ends, or `close` is notified.
    pub(super) async fn run(mut self, close: Arc<Notify>, ended: watch::Sender<Option<EndReason>>) {
        let reason = self.drive(&close).await;
        if reason != EndReason::LoggedOut {
            reset(self.writer);
        }
        drop(self.reader);
        // First the reason, then the answers: a dropped reply sends its waiter to look for it.
        ended.send_replace(Some(reason));
        self.orders.close();
        while self.orders.recv().await.is_some() {}
    }

    async fn drive(&mut self, close: &Notify) -> EndReason {
        let mut has_handles = true;
        let mut received = BytesMut::new();
        let mut taken = Vec::with_capacity(ORDERS_AT_ONCE);
        loop {
            if let Some(reason) = self.carry_out() {
                return reason;
            }
            let deadline = self.machine.next_timeout().map(|at| self.clock.at(at));
            let room = self.commands_max.saturating_sub(self.commands.len());
            let takes_orders = has_handles
                && self.machine.is_logged_in()
                && room > 0
                && self.queue.remaining() < SEND_BYTES_MAX;
            if received.capacity() - received.len() < RECEIVE_BYTES_MIN {
                received = BytesMut::with_capacity(RECEIVE_BYTES);
            }
            tokio::select! {
                read = self.reader.read_buf(&mut received) => {
                    let now = self.clock.now();
                    match read {
                        Ok(0) | Err(_) => {
                            self.heard.note_end(&read);
                            self.machine.handle_closed(now, &mut self.out);
                        }
                        Ok(_) => {
                            self.heard.note();
                            let bytes = received.split().freeze();
                            self.machine.handle_received(now, bytes, &mut self.out);
                        }
                    }
                }
                written = self.writer.write_buf(&mut self.queue), if self.queue.has_remaining() => {
                    if written.is_err() {
                        self.heard.note_end(&written);
                        let now = self.clock.now();
                        self.machine.handle_closed(now, &mut self.out);
                    }
                }
                count = self.orders.recv_many(&mut taken, room.min(ORDERS_AT_ONCE)),
                    if takes_orders =>
                {
                    // None come any more, but some that came may be under way.
                    has_handles = count > 0;
                    taken.drain(..).for_each(|order| self.take(order));
                }
                () = close.notified() => return EndReason::Closed,
                () = sleep_until(deadline) => {
                    let now = self.clock.now();
                    self.machine.handle_timeout(now, &mut self.out);
                }
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Execute {
                tag,
                command,
                reply,
            } => {
                let lun = command.lun;
                match self.machine.submit(tag, command, &mut self.out) {
                    Ok(()) => {
                        self.commands.insert(tag, (lun, reply));
                    }
                    Err(error) => refuse(reply, SessionError::Refused(error)),
                }
            }
            Order::Abort { tag, reply } => match self.machine.abort(tag, &mut self.out) {
                Ok(()) => {
                    self.managements.insert(tag, (Scope::Command, reply));
                }
                Err(error) => refuse(reply, SessionError::Refused(error)),
            },
            Order::Manage {
                tag,
                function,
                lun,
                reply,
            } => {
                let scope = match function {
                    TaskManagementCode::TargetWarmReset | TaskManagementCode::TargetColdReset => {
                        Scope::All
                    }
                    _ => Scope::Unit(lun),
                };
                match self.machine.manage(tag, function, lun, &mut self.out) {
                    Ok(()) => {
                        self.managements.insert(tag, (scope, reply));
                    }
                    Err(error) => refuse(reply, SessionError::Refused(error)),
                }
            }
            Order::Discover { what, reply } => match self.machine.discover(&what, &mut self.out) {
                Ok(()) => self.discoveries.push_back(reply),
                Err(error) => refuse(reply, SessionError::Refused(error)),
            },
            Order::LogOut => self.machine.log_out(self.clock.now(), &mut self.out),
        }
    }

    /// Does what the machine wants; returns the reason once the session is over.
    fn carry_out(&mut self) -> Option<EndReason> {
        let mut reason = None;
        while let Some(event) = self.out.events.pop_front() {
            match event {
                InitiatorEvent::LoggedIn { .. } => {
                    if let Some(logged_in) = self.logged_in.take() {
                        // Whoever waited for the login may be gone; the session ends with him.
                        let _ = logged_in.send(());
                    }
                }
                InitiatorEvent::Completed { tag, completion } => {
                    if let Some((_, reply)) = self.commands.remove(&tag) {
                        // Whoever asked may have given up.
                        let _ = reply.send(Ok(completion));
                    }
                }
                InitiatorEvent::TaskManagementDone { tag, response } => {
                    self.management_done(tag, response);
                }
                InitiatorEvent::Targets(targets) => {
                    if let Some(reply) = self.discoveries.pop_front() {
                        let _ = reply.send(Ok(targets));
                    }
                }
                InitiatorEvent::Async { event, .. } if event == ASYNC_LOGOUT => {
                    self.machine.log_out(self.clock.now(), &mut self.out);
                }
                InitiatorEvent::Pong
                | InitiatorEvent::Redirected { .. }
                | InitiatorEvent::Async { .. }
                | InitiatorEvent::Rejected { .. } => {}
                InitiatorEvent::Ended { reason: why } => reason = Some(why),
            }
        }
        while let Some(command) = self.out.commands.pop_front() {
            match command {
                InitiatorCommand::Send(parts) => {
                    parts.into_iter().for_each(|part| self.queue.push(part));
                }
                // The connection is dropped with the driver.
                InitiatorCommand::Close => {}
            }
        }
        reason
    }

    /// What a function that was carried out has ended is not answered by the target any more.
    fn management_done(&mut self, tag: CommandTag, response: u8) {
        let Some((scope, reply)) = self.managements.remove(&tag) else {
            return;
        };
        if response == 0 {
            let ended: Vec<CommandTag> = match scope {
                Scope::Command => vec![tag],
                Scope::Unit(lun) => self
                    .commands
                    .iter()
                    .filter_map(|(tag, (other, _))| (*other == lun).then_some(*tag))
                    .collect(),
                Scope::All => self.commands.keys().copied().collect(),
            };
            for tag in ended {
                if let Some((_, reply)) = self.commands.remove(&tag) {
                    refuse(reply, SessionError::Aborted);
                }
            }
        }
        let _ = reply.send(Ok(response));
    }
}

fn refuse<T>(reply: Reply<T>, error: SessionError) {
    // Whoever asked may have given up.
    let _ = reply.send(Err(error));
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
