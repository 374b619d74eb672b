//! One iSCSI session over TCP: a handle that any number of tasks may share, and the task behind it.
//!
//! It refuses to reconnect: a session that ended says why, and its owner makes a new one. It refuses
//! to repeat commands: what was under way when the session ended has an unknown outcome.
//!
//! Invariants:
//! - every command that was submitted gets one answer: its completion, or why there will be none;
//! - at most [`InitiatorConfig::commands_max`] commands are under way, the next waits;
//! - the connection is closed when the last handle and the last pending command are dropped.

mod driver;
mod heard;
mod send_queue;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Completion, DiscoveredTarget, EndReason, InitiatorConfig,
    SessionKind, SubmitError,
};
use holdfast_iscsi::pdu::TaskManagementCode;
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_scsi::Lun;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use self::driver::{Driver, Order};
use self::heard::Heard;
pub use self::heard::LastWord;

/// How a session is made.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where to.
    pub portal: SocketAddr,
    /// How long the connection may take to be made; the login has its own limit.
    pub connect_timeout: Duration,
    /// The session's own parameters.
    pub login: InitiatorConfig,
}

impl SessionConfig {
    /// A session as most hosts make it.
    #[must_use]
    pub const fn new(portal: SocketAddr, name: IscsiName, isid: Isid, kind: SessionKind) -> Self {
        Self {
            portal,
            connect_timeout: Duration::from_secs(5),
            login: InitiatorConfig::new(name, isid, kind),
        }
    }
}

/// Why no session came about.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No connection.
    #[error("cannot connect to {portal}: {error}")]
    Connection {
        /// Where to.
        portal: SocketAddr,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The connection took too long.
    #[error("cannot connect to {0}: no answer")]
    Timeout(SocketAddr),
    /// The login failed.
    #[error("cannot log in at {portal}: {reason}")]
    Login {
        /// Where.
        portal: SocketAddr,
        /// Why.
        reason: EndReason,
    },
}

/// Why something that was asked of a session was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The session is over.
    #[error("the session ended: {0}")]
    Ended(EndReason),
    /// The command was aborted.
    #[error("the command was aborted")]
    Aborted,
    /// The session did not take it.
    #[error("the session refused: {0}")]
    Refused(SubmitError),
}

/// A session that is logged in. Clones are handles of the same session.
#[derive(Clone, Debug)]
pub struct Session {
    orders: mpsc::Sender<Order>,
    shared: Arc<Shared>,
}

/// What the handles and the task have in common.
#[derive(Debug)]
struct Shared {
    next_tag: AtomicU64,
    close: Arc<Notify>,
    ended: watch::Receiver<Option<EndReason>>,
    heard: Arc<Heard>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close.notify_one();
    }
}

/// A command under way. Dropping it forgets the command, but does not abort it.
#[derive(Debug)]
pub struct PendingCommand {
    tag: CommandTag,
    answer: oneshot::Receiver<Result<Completion, SessionError>>,
    shared: Arc<Shared>,
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`ConnectError`] if either fails or takes too long.
    pub async fn connect(config: SessionConfig) -> Result<Self, ConnectError> {
        let portal = config.portal;
        let connecting = TcpStream::connect(portal);
        let stream = tokio::time::timeout(config.connect_timeout, connecting)
            .await
            .map_err(|_| ConnectError::Timeout(portal))?
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| ConnectError::Connection { portal, error })?;
        let (orders, received) = mpsc::channel(config.login.commands_max);
        let (logged_in, login) = oneshot::channel();
        let (ended_sender, ended) = watch::channel(None);
        let close = Arc::new(Notify::new());
        let heard = Arc::new(Heard::new());
        let driver = Driver::new(
            stream,
            config.login,
            received,
            logged_in,
            Arc::clone(&heard),
        );
        tokio::spawn(driver.run(Arc::clone(&close), ended_sender));
        let shared = Arc::new(Shared {
            next_tag: AtomicU64::new(0),
            close,
            ended,
            heard,
        });
        let session = Self { orders, shared };
        match login.await {
            Ok(()) => Ok(session),
            Err(_) => {
                let reason = session.ended().await;
                Err(ConnectError::Login { portal, reason })
            }
        }
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// [`SessionError`]: whether the command was done is unknown then.
    pub async fn execute(&self, command: CommandRequest) -> Result<Completion, SessionError> {
        self.submit(command).await?.finish().await
    }

    /// Begins a command; waits while as many as the session takes are under way.
    ///
    /// # Errors
    /// [`SessionError::Ended`]: the command was not sent.
    pub async fn submit(&self, command: CommandRequest) -> Result<PendingCommand, SessionError> {
        let (reply, answer) = oneshot::channel();
        let tag = self.take_tag();
        let order = Order::Execute {
            tag,
            command,
            reply,
        };
        self.order(order).await?;
        Ok(PendingCommand {
            tag,
            answer,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Asks the target to abort the command `tag`, and returns its response code (RFC 7143 11.6.1:
    /// zero is "done", and the command's answer is [`SessionError::Aborted`] then).
    ///
    /// # Errors
    /// [`SessionError`]; refused if the command is not under way.
    pub async fn abort(&self, tag: CommandTag) -> Result<u8, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Abort { tag, reply }).await?;
        self.answered(answer).await
    }

    /// Asks for a task management function that is not about one command, and returns its response
    /// code (RFC 7143 11.6.1).
    ///
    /// # Errors
    /// [`SessionError::Ended`].
    pub async fn manage(&self, function: TaskManagementCode, lun: Lun) -> Result<u8, SessionError> {
        let (reply, answer) = oneshot::channel();
        let tag = self.take_tag();
        let order = Order::Manage {
            tag,
            function,
            lun,
            reply,
        };
        self.order(order).await?;
        self.answered(answer).await
    }

    /// Asks for targets: `All`, a target's name, or nothing for the session's own.
    ///
    /// # Errors
    /// [`SessionError::Ended`].
    pub async fn discover(&self, what: &str) -> Result<Vec<DiscoveredTarget>, SessionError> {
        let (reply, answer) = oneshot::channel();
        let what = what.to_owned();
        self.order(Order::Discover { what, reply }).await?;
        self.answered(answer).await
    }

    /// Logs out, and returns why the session ended: [`EndReason::LoggedOut`] if all went well.
    pub async fn log_out(&self) -> EndReason {
        // A session that is over needs no logout.
        let _ = self.orders.send(Order::LogOut).await;
        self.ended().await
    }

    /// Closes the connection, whatever is under way.
    pub fn close(&self) {
        self.shared.close.notify_one();
    }

    /// Waits for the session's end.
    pub async fn ended(&self) -> EndReason {
        self.shared.ended().await
    }

    /// Why the session is over, if it is.
    #[must_use]
    pub fn end_reason(&self) -> Option<EndReason> {
        *self.shared.ended.borrow()
    }

    /// The last that was heard of the target. What it was sent, and has not answered, it may still do for a while after that.
    #[must_use]
    pub fn last_word(&self) -> LastWord {
        self.shared.heard.last_word()
    }

    fn take_tag(&self) -> CommandTag {
        CommandTag(self.shared.next_tag.fetch_add(1, Ordering::Relaxed))
    }

    async fn order(&self, order: Order) -> Result<(), SessionError> {
        match self.orders.send(order).await {
            Ok(()) => Ok(()),
            Err(_) => Err(SessionError::Ended(self.ended().await)),
        }
    }

    async fn answered<T>(
        &self,
        answer: oneshot::Receiver<Result<T, SessionError>>,
    ) -> Result<T, SessionError> {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(SessionError::Ended(self.ended().await)),
        }
    }
}

impl PendingCommand {
    /// Names the command for [`Session::abort`].
    #[must_use]
    pub const fn tag(&self) -> CommandTag {
        self.tag
    }

    /// Waits for the answer. May be dropped and called again; not once it has answered.
    ///
    /// # Errors
    /// [`SessionError`]: whether the command was done is unknown then.
    pub async fn finish(&mut self) -> Result<Completion, SessionError> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(_) => Err(SessionError::Ended(self.shared.ended().await)),
        }
    }
}

impl Shared {
    async fn ended(&self) -> EndReason {
        let mut ended = self.ended.clone();
        // The task tells the reason before it ends; without one, the runtime was shut down.
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(EndReason::Closed),
            Err(_) => EndReason::Closed,
        }
    }
}
