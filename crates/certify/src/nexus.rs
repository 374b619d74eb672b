//! One host on one path.
//!
//! Invariants:
//! - a command that is not answered in time ends the session, and the check that sent it;
//! - what a target has to say first (unit attentions) is taken note of, and the command sent again, as hosts do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_lab::session::{ConnectError, SessionError};
use holdfast_lab::{CommandRequest, Lun};
use tokio::time::{Instant, sleep, timeout};

use crate::answer::Answer;
use crate::check::{Unmet, failed};
use crate::link::{Dialer, Link};
use crate::{command, words};

/// How long a command may take: hosts wait for 30 s (Linux) or 60 s (Windows).
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);
/// How long a command is sent again that the target does not take now.
const BUSY_PATIENCE: Duration = Duration::from_secs(30);
/// The pause before.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Unit attentions in a row: a target that has more to say never comes to an end.
const ATTENTIONS_MAX: usize = 16;

/// One host on one path. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Nexus {
    dialer: Arc<dyn Dialer>,
    host: usize,
    path: usize,
    lun: Lun,
    /// Such as "host A through 127.0.0.1:3260".
    label: Arc<str>,
    link: Arc<Mutex<Option<Arc<dyn Link>>>>,
}

impl Nexus {
    pub(crate) fn new(
        dialer: Arc<dyn Dialer>,
        (host, path): (usize, usize),
        lun: Lun,
        label: &str,
    ) -> Self {
        Self {
            dialer,
            host,
            path,
            lun,
            label: label.into(),
            link: Arc::default(),
        }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The session, if there is one.
    pub(crate) fn link(&self) -> Option<Arc<dyn Link>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.clone().filter(|link| !link.is_over())
    }

    fn set(&self, link: Option<Arc<dyn Link>>) -> Option<Arc<dyn Link>> {
        let mut slot = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, link)
    }

    /// Logs in, unless it is.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        if self.link().is_none() {
            let link = self.dialer.connect(self.host, self.path).await?;
            self.set(Some(link));
        }
        Ok(())
    }

    /// Ends the session without a word.
    pub(crate) async fn cut(&self) {
        if let Some(link) = self.set(None) {
            link.cut().await;
        }
    }

    /// Ends the session in order.
    pub(crate) async fn log_out(&self) {
        if let Some(link) = self.set(None) {
            link.log_out().await;
        }
    }

    fn needed(&self, what: &str) -> Result<Arc<dyn Link>, Unmet> {
        self.link().ok_or_else(|| {
            failed(
                format!("{what} by {}: an answer", self.label),
                "the session is gone",
            )
        })
    }

    fn lost(&self, what: &str, error: SessionError) -> Unmet {
        failed(
            format!("{what} by {}: an answer", self.label),
            error.to_string(),
        )
    }

    /// One attempt: whatever is answered.
    pub(crate) async fn once(&self, request: CommandRequest) -> Result<Answer, Unmet> {
        let what = words::command(&request.cdb);
        let link = self.needed(what)?;
        match timeout(COMMAND_PATIENCE, link.execute(request)).await {
            Ok(Ok(completion)) => {
                let what = format!("{what} by {}", self.label);
                Ok(Answer::new(what, &completion))
            }
            Ok(Err(error)) => Err(self.lost(what, error)),
            Err(_) => {
                self.cut().await;
                let seconds = COMMAND_PATIENCE.as_secs();
                Err(failed(
                    format!("{what} by {}: an answer", self.label),
                    format!("none within {seconds} s"),
                ))
            }
        }
    }

    /// A command as hosts send it: again after a unit attention, and while the target is busy.
    pub(crate) async fn ask(&self, request: CommandRequest) -> Result<Answer, Unmet> {
        let deadline = Instant::now() + BUSY_PATIENCE;
        let mut attentions = 0;
        loop {
            let answer = self.once(request.clone()).await?;
            if answer.attention().is_some() && attentions < ATTENTIONS_MAX {
                attentions += 1;
            } else if answer.is_for_later() && Instant::now() < deadline {
                sleep(BUSY_PAUSE).await;
            } else {
                return Ok(answer);
            }
        }
    }

    /// A command that has to be GOOD.
    pub(crate) async fn good(&self, request: CommandRequest) -> Result<Vec<u8>, Unmet> {
        self.ask(request).await?.good()
    }

    /// Everything that the unit has to tell this nexus, in order: TEST UNIT READY until it is GOOD. That command is let
    /// through by every persistent reservation (SPC-4 5.12.1).
    pub(crate) async fn attentions(&self) -> Result<Vec<u16>, Unmet> {
        let deadline = Instant::now() + BUSY_PATIENCE;
        let mut attentions = Vec::new();
        loop {
            let answer = self.once(command::test_unit_ready(self.lun)).await?;
            match answer.attention() {
                Some(attention) if attentions.len() < ATTENTIONS_MAX => attentions.push(attention),
                None if answer.is_good() => return Ok(attentions),
                None if answer.is_for_later() && Instant::now() < deadline => {
                    sleep(BUSY_PAUSE).await;
                }
                _ => return Err(answer.instead_of("GOOD after all unit attentions")),
            }
        }
    }

    /// LOGICAL UNIT RESET, and its response.
    pub(crate) async fn reset(&self) -> Result<u8, Unmet> {
        const WHAT: &str = "LOGICAL UNIT RESET";
        let link = self.needed(WHAT)?;
        match timeout(COMMAND_PATIENCE, link.reset(self.lun)).await {
            Ok(response) => response.map_err(|error| self.lost(WHAT, error)),
            Err(_) => Err(self.lost(WHAT, SessionError::Aborted)),
        }
    }

    /// A command that is aborted on its way; see [`Link::abort_midway`].
    pub(crate) async fn abort_midway(
        &self,
        request: CommandRequest,
        after: Duration,
    ) -> Result<Option<u8>, Unmet> {
        const WHAT: &str = "ABORT TASK";
        let link = self.needed(WHAT)?;
        match timeout(COMMAND_PATIENCE, link.abort_midway(request, after)).await {
            Ok(response) => response.map_err(|error| self.lost(WHAT, error)),
            Err(_) => Err(failed(
                format!("{WHAT} by {}: a response", self.label),
                "none",
            )),
        }
    }
}
