//! The thread that keeps etcd running.
//!
//! Invariant: when a supervisor has been dropped, no etcd runs that it has started or adopted.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::again::Again;
use super::beginning::{Beginning, Wait};
use super::reached::Moving;
use super::trouble::Trouble;
use super::{EtcdStartError, LOG_FILE, PID_FILE, Plan, waiting};
use crate::lasting::Lasting;
use crate::process::Process;

/// How often it is looked whether etcd has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is looked whether its log has grown.
const LOG_LOOK: Duration = Duration::from_secs(10);
/// Why an etcd that runs well is started again.
const BELIEVES_OTHERS: &str = "its machine believes other authorities now";
/// Between the end of etcd and its next start: short at first, because the cluster can do with every
/// member; at most so long that whoever has mended what was wrong does not wait.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// An etcd that ran for so long was not ended by what ended the last one.
const STEADY: Duration = Duration::from_secs(30);
/// How long etcd may take to hand over and end.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the kernel may take to end a process that was killed.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);

/// An etcd that is kept running until this is dropped.
#[derive(Debug)]
pub struct Supervisor {
    stop: Option<Sender<End>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// What a supervisor tells.
#[derive(Clone, Debug, Default)]
struct State {
    pid: Option<u32>,
    /// How its last etcd ended, and what it said.
    ended: Option<String>,
    /// What it waits for before it starts etcd.
    waits: Option<String>,
}

/// What becomes of etcd when its supervisor ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is ended as well.
    Stop,
    /// It runs on.
    Leave,
}

/// An etcd that runs.
struct Running {
    process: Process,
    /// If it is a child of ours.
    child: Option<Child>,
    since: Instant,
}

impl Running {
    /// Tells that it has been started.
    fn tell(&self, beginning: &Beginning) {
        let how = match beginning {
            Beginning::Joining { .. } => ", and joins",
            Beginning::New => "",
        };
        tracing::info!("etcd is started as process {}{how}", self.process.pid());
    }
}

impl Supervisor {
    /// Starts etcd, or adopts the one that runs as it should. Where its directory holds no data, and it
    /// has other members, they are asked first, which may take as long as they are away.
    ///
    /// # Errors
    /// [`EtcdStartError`] if it cannot be started. One that ends after that is started again.
    pub fn start(plan: Plan) -> Result<Self, EtcdStartError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&plan.directory)
            .map_err(Plan::refused("create", &plan.directory))?;
        plan.check_tls()?;
        let running = match adopt(&plan) {
            None if plan.must_ask() => None,
            None => {
                let running = begin(&plan, &Beginning::New)?;
                running.tell(&Beginning::New);
                Some(running)
            }
            adopted => adopted,
        };
        let state = Arc::new(Mutex::new(State {
            pid: running.as_ref().map(|running| running.process.pid()),
            ..State::default()
        }));
        let (stop, stopped) = channel();
        let told = Arc::clone(&state);
        let path = plan.directory.clone();
        let thread = thread::Builder::new()
            .name("etcd".into())
            .spawn(move || keep(&plan, running, &stopped, &told))
            .map_err(Plan::refused("start a thread for", &path))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            state,
        })
    }

    /// The process that runs now.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.state().pid
    }

    /// How the last etcd ended that has ended, if one has.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.state().ended
    }

    /// What is waited for before etcd is started, if anything: words for an operator.
    #[must_use]
    pub fn waits(&self) -> Option<String> {
        self.state().waits
    }

    fn state(&self) -> State {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets etcd run on, for the next supervisor to adopt.
    pub fn leave(mut self) {
        if let Some(stop) = self.stop.take() {
            // It listens for as long as it has not been told.
            let _ = stop.send(End::Leave);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said what it died of.
            let _ = thread.join();
        }
    }
}

fn keep(plan: &Plan, mut running: Option<Running>, stopped: &Receiver<End>, state: &Mutex<State>) {
    let tell = |change: &dyn Fn(&mut State)| {
        change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let mut pause = PAUSE_MIN;
    let (mut trouble, mut waited) = (Trouble::new(), Lasting::new());
    let mut moving = Moving::new();
    loop {
        if let Some(mut now) = running.take() {
            match watch(plan, &now, stopped, &mut trouble, &mut moving) {
                Some(End::Stop) => return stop(now),
                Some(End::Leave) => return,
                None => {}
            }
            let how = ended(&mut now, plan);
            if let Some(line) = trouble.ended(Instant::now(), &how) {
                tracing::warn!("{line}");
            }
            tell(&|state| {
                state.pid = None;
                state.ended = Some(how.clone());
            });
            if now.since.elapsed() >= STEADY {
                pause = PAUSE_MIN;
            }
        }
        if told(stopped, pause).is_some() {
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
        let is_over = || told(stopped, Duration::ZERO).is_some();
        let waits = |text: String| tell(&|state| state.waits = Some(text.clone()));
        match begin_again(plan, &trouble, &mut waited, is_over, waits) {
            Ok(Some(new)) => {
                tell(&|state| {
                    state.pid = Some(new.process.pid());
                    state.waits = None;
                });
                running = Some(new);
            }
            Ok(None) => return,
            Err(error) => {
                if let Some(line) = trouble.not_started(Instant::now(), &error) {
                    tracing::error!("{line}");
                }
            }
        }
    }
}

/// Adopts what runs as it should; else starts etcd, when it is known how it begins. None if `is_over` says
/// so before.
fn begin_again(
    plan: &Plan,
    trouble: &Trouble,
    waited: &mut Lasting<Wait>,
    is_over: impl FnMut() -> bool,
    waits: impl FnMut(String),
) -> Result<Option<Running>, EtcdStartError> {
    if let Some(running) = adopt(plan) {
        return Ok(Some(running));
    }
    let beginning = if plan.must_ask() {
        match waiting::find(plan, waited, is_over, waits)? {
            Some(beginning) => beginning,
            None => return Ok(None),
        }
    } else {
        Beginning::New
    };
    let running = begin(plan, &beginning)?;
    if trouble.tells_starts() {
        running.tell(&beginning);
    }
    Ok(Some(running))
}

/// What the supervisor is told within `pause`, if anything.
fn told(stopped: &Receiver<End>, pause: Duration) -> Option<End> {
    match stopped.recv_timeout(pause) {
        Err(RecvTimeoutError::Timeout) => None,
        Ok(end) => Some(end),
        Err(RecvTimeoutError::Disconnected) => Some(End::Stop),
    }
}

/// Waits until etcd has ended, or the supervisor is to end.
fn watch(
    plan: &Plan,
    running: &Running,
    stopped: &Receiver<End>,
    trouble: &mut Trouble,
    moving: &mut Moving,
) -> Option<End> {
    let mut looked = Instant::now();
    let mut again = Again::new(plan);
    moving.started(looked);
    loop {
        let end = told(stopped, LOOK);
        if end.is_some() || running.process.has_ended() {
            return end;
        }
        if running.since.elapsed() >= STEADY
            && let Some(line) = trouble.over(Instant::now(), running.process.pid())
        {
            tracing::info!("{line}");
        }
        if moving.is_due(plan, Instant::now())
            && again.may_go(plan, Instant::now())
            && Moving::take_up(plan)
        {
            self::end(&running.process);
            return None;
        }
        if looked.elapsed() >= LOG_LOOK {
            looked = Instant::now();
            if !plan.believes_others() {
                again.over();
            } else if again.is_time(plan, BELIEVES_OTHERS) {
                tracing::info!("etcd is started again: {BELIEVES_OTHERS}");
                super::supervisor::end(&running.process);
                return None;
            }
            if let Err(error) = plan.trim_log() {
                tracing::warn!("shorten etcd's log: {error}");
            }
            if plan.has_data()
                && let Err(error) = plan.begun()
            {
                tracing::warn!("remove the file that says that etcd is new: {error}");
            }
        }
    }
}

fn ended(running: &mut Running, plan: &Plan) -> String {
    let status = running.child.take().and_then(|mut child| child.wait().ok());
    let how = status.map_or_else(
        || "has ended".to_owned(),
        |status| format!("ended: {status}"),
    );
    let is_killed = status.is_some_and(|status| status.signal().is_some());
    let words = plan.last_words();
    // One that was killed has not said why.
    if is_killed || words.is_empty() {
        return how;
    }
    format!("{how}; its last words: {words}")
}

/// Adopts what runs as it should; ends what does not.
fn adopt(plan: &Plan) -> Option<Running> {
    let (process, is_same) = plan.left()?;
    let running = Running {
        process,
        child: None,
        since: Instant::now(),
    };
    if is_same {
        tracing::info!("etcd runs already, as process {}", running.process.pid());
        return Some(running);
    }
    stop(running);
    None
}

fn begin(plan: &Plan, beginning: &Beginning) -> Result<Running, EtcdStartError> {
    let since = Instant::now();
    plan.check_tls()?;
    let form = plan.form_of(beginning);
    plan.note_beginning(form)
        .and_then(|()| plan.note_believed())
        .map_err(Plan::refused("mark", &plan.directory))?;
    plan.trim_log()
        .map_err(Plan::refused("shorten", &plan.path(LOG_FILE)))?;
    let path = plan.path(LOG_FILE);
    let log = File::options().create(true).append(true).open(&path);
    let log = log.map_err(Plan::refused("open", &path))?;
    let spawned = plan
        .command(form, beginning, log)
        .and_then(|mut command| command.spawn());
    let child = spawned.map_err(Plan::refused("start", &plan.program))?;
    let pid = child.id();
    let process = Process::open(pid).map_err(Plan::refused("watch", &plan.program))?;
    let process = process.expect("a child that nobody has waited for is there");
    let path = plan.path(PID_FILE);
    write_pid(plan, pid).map_err(Plan::refused("write", &path))?;
    Ok(Running {
        process,
        child: Some(child),
        since,
    })
}

fn write_pid(plan: &Plan, pid: u32) -> std::io::Result<()> {
    let new = plan.path("etcd.pid.new");
    let mut file = File::create(&new)?;
    writeln!(file, "{pid}")?;
    fs::rename(new, plan.path(PID_FILE))
}

/// Ends etcd.
fn stop(mut running: Running) {
    if end(&running.process)
        && let Some(mut child) = running.child.take()
    {
        // It has ended: this gives its number back.
        let _ = child.wait();
    }
}

/// Ends an etcd, which first hands over what it leads. Whether it has ended.
pub(super) fn end(process: &Process) -> bool {
    process.signal(Signal::TERM);
    // A stopped process sees its end only when it goes on.
    process.signal(Signal::CONT);
    if ends_within(process, STOP_TIME_MAX) {
        return true;
    }
    tracing::warn!("etcd does not stop in time and is killed");
    process.signal(Signal::KILL);
    let has_ended = ends_within(process, KILL_TIME_MAX);
    if !has_ended {
        tracing::error!("etcd does not end, although it was killed");
    }
    has_ended
}

fn ends_within(process: &Process, time: Duration) -> bool {
    let begun = Instant::now();
    while !process.has_ended() {
        if begun.elapsed() >= time {
            return false;
        }
        sleep(LOOK);
    }
    true
}
