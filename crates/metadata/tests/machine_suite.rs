//! The suite over the machine itself, with a clock of the test's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdfast_metadata::session::{ANSWERS_WAITING_MAX, Submit};
use holdfast_metadata::suite::{self, Harness};
use holdfast_metadata::{ClientId, HistoryLimits, Machine, Output, Requests, Session};
use holdfast_model::metadata::{MetadataAnswer, MetadataRequest, MetadataToken, Revision};
use holdfast_stdx::{Duration, Instant};
use tokio::sync::mpsc;

struct State {
    machine: Machine,
    now: Instant,
    sessions: BTreeMap<ClientId, mpsc::Sender<(MetadataToken, MetadataAnswer)>>,
}

impl State {
    fn deliver(&mut self, out: Output) {
        self.machine.assert_invariants();
        for addressed in out.answers {
            if let Some(session) = self.sessions.get(&addressed.client) {
                session
                    .try_send((addressed.token, addressed.answer))
                    .unwrap();
            }
        }
    }
}

struct Submitter {
    client: ClientId,
    state: Arc<Mutex<State>>,
}

impl Submit for Submitter {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        let mut state = self.state.lock().unwrap();
        let mut out = Output::default();
        let now = state.now;
        state
            .machine
            .apply(now, self.client, token, request, &mut out);
        state.deliver(out);
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.sessions.remove(&self.client);
        state.machine.disconnect(self.client);
    }
}

struct Simulated {
    state: Arc<Mutex<State>>,
    next_client: u64,
}

impl Harness for Simulated {
    async fn session(&mut self) -> Session {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        let (sender, answers) = mpsc::channel(ANSWERS_WAITING_MAX);
        self.state.lock().unwrap().sessions.insert(client, sender);
        let submitter = Submitter {
            client,
            state: self.state.clone(),
        };
        Session {
            requests: Requests::new(Arc::new(submitter)),
            answers,
        }
    }

    async fn pass(&mut self, time: Duration) {
        let mut state = self.state.lock().unwrap();
        let end = state.now + time;
        while let Some(timeout) = state
            .machine
            .next_timeout()
            .filter(|timeout| *timeout <= end)
        {
            let mut out = Output::default();
            state.machine.handle_timeout(timeout, &mut out);
            state.deliver(out);
        }
        state.now = end;
    }

    async fn compact(&mut self) {
        let mut state = self.state.lock().unwrap();
        let mut out = Output::default();
        let end = Revision(state.machine.revision().0 + 1);
        state.machine.compact(end, &mut out);
        state.deliver(out);
    }
}

#[tokio::test]
async fn the_machine_passes_the_suite() {
    let state = State {
        machine: Machine::new(HistoryLimits::default()),
        now: Instant::ZERO,
        sessions: BTreeMap::new(),
    };
    let mut harness = Simulated {
        state: Arc::new(Mutex::new(state)),
        next_client: 1,
    };
    suite::run(&mut harness).await;
}
