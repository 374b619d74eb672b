//! A host's session on one path, and how one is made.
//!
//! Checks know this interface only: the session may be one over TCP, or one with a target that a test has made up.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_iscsi::IscsiName;
use holdfast_iscsi::chap::{ChapAccount, ChapAlgorithm};
use holdfast_iscsi::initiator::{InitiatorChap, SubmitError};
use holdfast_lab::session::{ConnectError, SessionError};
use holdfast_lab::{
    CommandRequest, Completion, Isid, Lun, Session, SessionConfig, SessionKind, TaskManagementCode,
};

/// How long a connection, and then the login, may take.
pub(crate) const LOGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Something that is waited for.
pub(crate) type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One session.
pub(crate) trait Link: Send + Sync {
    /// Carries out a command.
    fn execute(&self, command: CommandRequest) -> Waiting<'_, Result<Completion, SessionError>>;

    /// Begins a command, asks `after` later for it to be aborted, and returns the response (RFC 7143 11.6.1), or
    /// `None` if the command was answered before.
    fn abort_midway(
        &self,
        command: CommandRequest,
        after: Duration,
    ) -> Waiting<'_, Result<Option<u8>, SessionError>>;

    /// Asks for LOGICAL UNIT RESET, and returns the response.
    fn reset(&self, lun: Lun) -> Waiting<'_, Result<u8, SessionError>>;

    /// Ends it as a cable that is pulled does: without a word.
    fn cut(&self) -> Waiting<'_, ()>;

    /// Ends it in order.
    fn log_out(&self) -> Waiting<'_, ()>;

    /// Whether it is over.
    fn is_over(&self) -> bool;
}

/// Makes sessions.
pub(crate) trait Dialer: Send + Sync {
    /// Logs in, in the name of `host`, on path `path`.
    fn connect(&self, host: usize, path: usize)
    -> Waiting<'_, Result<Arc<dyn Link>, ConnectError>>;

    /// The initiator port of that nexus.
    fn port(&self, host: usize, path: usize) -> InitiatorPort;
}

/// Who a nexus is, on its initiator's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitiatorPort {
    pub(crate) name: IscsiName,
    pub(crate) isid: Isid,
}

impl Link for Session {
    fn execute(&self, command: CommandRequest) -> Waiting<'_, Result<Completion, SessionError>> {
        Box::pin(Self::execute(self, command))
    }

    fn abort_midway(
        &self,
        command: CommandRequest,
        after: Duration,
    ) -> Waiting<'_, Result<Option<u8>, SessionError>> {
        Box::pin(async move {
            let mut pending = self.submit(command).await?;
            // A timer's turn is a millisecond: longer than many commands take.
            if !after.is_zero()
                && let Ok(answer) = tokio::time::timeout(after, pending.finish()).await
            {
                answer?;
                return Ok(None);
            }
            match self.abort(pending.tag()).await {
                Ok(response) => Ok(Some(response)),
                // The answer was faster.
                Err(SessionError::Refused(SubmitError::NoSuchCommand)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn reset(&self, lun: Lun) -> Waiting<'_, Result<u8, SessionError>> {
        Box::pin(self.manage(TaskManagementCode::LogicalUnitReset, lun))
    }

    fn cut(&self) -> Waiting<'_, ()> {
        Box::pin(async move {
            self.close();
            self.ended().await;
        })
    }

    fn log_out(&self) -> Waiting<'_, ()> {
        Box::pin(async move {
            Self::log_out(self).await;
        })
    }

    fn is_over(&self) -> bool {
        self.end_reason().is_some()
    }
}

/// Makes sessions over TCP.
pub(crate) struct TcpDialer {
    pub(crate) target: IscsiName,
    /// Each host's name.
    pub(crate) hosts: Vec<IscsiName>,
    /// Each path's portal, and what tells its sessions' ISIDs from those of other paths.
    pub(crate) paths: Vec<(SocketAddr, u16)>,
    /// Drawn for this run: it tells its ISIDs from those of another one.
    pub(crate) run: u32,
    pub(crate) chap: Option<ChapAccount>,
}

impl Dialer for TcpDialer {
    fn connect(
        &self,
        host: usize,
        path: usize,
    ) -> Waiting<'_, Result<Arc<dyn Link>, ConnectError>> {
        let InitiatorPort { name, isid } = self.port(host, path);
        let kind = SessionKind::Normal(self.target.clone());
        let (portal, _) = self.paths[path];
        let config = config(portal, name, (isid, kind), self.chap.as_ref());
        Box::pin(async move {
            let session = Session::connect(config).await?;
            Ok(Arc::new(session) as Arc<dyn Link>)
        })
    }

    /// RFC 7143 10.1.1 wants an initiator to use as few ISIDs as it can, and each with one session of a portal
    /// group at most: so registrations by ALL_TG_PT are for all paths.
    fn port(&self, host: usize, path: usize) -> InitiatorPort {
        let [_, a, b, c] = self.run.to_be_bytes();
        let [high, low] = self.paths[path].1.to_be_bytes();
        InitiatorPort {
            name: self.hosts[host].clone(),
            isid: Isid([RANDOM, a, b, c, high, low]),
        }
    }
}

/// ISID of the "random" type (RFC 7143 11.12.5).
const RANDOM: u8 = 0x80;

/// A session's configuration.
pub(crate) fn config(
    portal: SocketAddr,
    name: IscsiName,
    (isid, kind): (Isid, SessionKind),
    chap: Option<&ChapAccount>,
) -> SessionConfig {
    let mut config = SessionConfig::new(portal, name, isid, kind);
    config.connect_timeout = LOGIN_PATIENCE;
    config.login.login_timeout = LOGIN_PATIENCE;
    // There are targets that leave ExpDataSN zero, and it is not what this is about.
    config.login.counts_data = false;
    config.login.chap = chap.map(|account| InitiatorChap {
        account: account.clone(),
        algorithms: ChapAlgorithm::PREFERRED,
        mutual: None,
    });
    config
}
