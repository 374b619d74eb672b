//! The wait of a member without data, until it is known how it begins.
//!
//! Invariants:
//! - while a new etcd may begin, whoever connects to its clients' port is told that it has nothing;
//! - the port is free where there is an etcd, which this one is not in or not to begin in, and when it has been
//!   decided: something else may be meant to listen there;
//! - whoever was heard to have data has it until it says otherwise: silence says nothing.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdfast_metadata::etcd::EtcdMember;
use holdfast_tls::Acceptor;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::beginning::{Beginning, Heard, Other, Wait, decide};
use super::others::{Asked, Secure, Way};
use super::{EtcdStartError, Plan, others};
use crate::lasting::{Lasting, Tell, span};

/// Between two rounds of questions: a new cluster can do with every member.
const PAUSE: Duration = Duration::from_millis(250);
/// For how long a member must have been silent before an operator's word stands for it: one that is only
/// being started again, or is slow, has answered by then.
const SILENCE_MIN: Duration = Duration::from_secs(10);
/// What the operating system refuses.
const RUNTIME: &str = "start a runtime for";

/// Asks the others until it is known how this member begins; `waited` is what was told of earlier waits. None if
/// `is_over` says so before.
pub(super) fn find(
    plan: &Plan,
    waited: &mut Lasting<Wait>,
    is_over: impl FnMut() -> bool,
    tell: impl FnMut(String),
) -> Result<Option<Beginning>, EtcdStartError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Plan::refused(RUNTIME, &plan.directory))?;
    runtime.block_on(ask(plan, waited, is_over, tell))
}

async fn ask(
    plan: &Plan,
    waited: &mut Lasting<Wait>,
    mut is_over: impl FnMut() -> bool,
    mut tell: impl FnMut(String),
) -> Result<Option<Beginning>, EtcdStartError> {
    let greeting = others::greeting(plan.cluster, &plan.wanted().initial);
    let (secure, acceptor) = plan.tls.both_sides()?.map_or((None, None), |it| {
        let (client, connector, acceptor) = it;
        (Some(Secure { client, connector }), Some(acceptor))
    });
    let way = Way {
        secure,
        permits_plain: plan.permits_plain(),
    };
    let mut door = Door::new(plan.client, &greeting, acceptor);
    door.open().await?;
    let mut memory = Memory::new(plan.others.len());
    let beginning = loop {
        if is_over() {
            break None;
        }
        let mut heard = round(plan, &greeting, &way).await;
        let is_long = memory.recall(&mut heard);
        let mut own = plan.own();
        own.consented &= is_long;
        let wait = match decide(&own, &heard) {
            Ok(beginning) => break Some(beginning),
            Err(wait) => wait,
        };
        if wait.has_etcd {
            door.shut().await;
        } else {
            door.open().await?;
        }
        tell(wait.to_string());
        if let Some(said) = waited.goes_on(Instant::now(), wait.clone()) {
            say(&wait, said);
        }
        sleep(PAUSE).await;
    };
    if let Some(time) = waited.over(Instant::now())
        && beginning.is_some()
    {
        tracing::info!("etcd waits no more, after {}", span(time));
    }
    door.shut().await;
    Ok(beginning)
}

/// The clients' port, at which is told that there is nothing here.
struct Door<'a> {
    address: SocketAddr,
    greeting: &'a str,
    /// How it is told over TLS.
    acceptor: Option<Acceptor>,
    /// What answers there, while it is open.
    answering: JoinSet<()>,
}

impl<'a> Door<'a> {
    fn new(address: SocketAddr, greeting: &'a str, acceptor: Option<Acceptor>) -> Self {
        Self {
            address,
            greeting,
            acceptor,
            answering: JoinSet::new(),
        }
    }

    /// Listens, if it does not.
    async fn open(&mut self) -> Result<(), EtcdStartError> {
        if !self.answering.is_empty() {
            return Ok(());
        }
        let address = self.address;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| EtcdStartError::Listen { address, source })?;
        let answer = others::answer(listener, self.greeting.to_owned(), self.acceptor.clone());
        self.answering.spawn(answer);
        Ok(())
    }

    /// Lets the port go.
    async fn shut(&mut self) {
        self.answering.shutdown().await;
    }
}

/// What was heard in earlier rounds.
struct Memory {
    since: Vec<Instant>,
    /// What counts while one is silent.
    before: Vec<Option<Heard>>,
}

impl Memory {
    fn new(others: usize) -> Self {
        Self {
            since: vec![Instant::now(); others],
            before: vec![None; others],
        }
    }

    /// Puts what is known in the place of silence. Whether all that are silent have been for long.
    fn recall(&mut self, others: &mut [Other]) -> bool {
        let mut is_long = true;
        let known = self.since.iter_mut().zip(&mut self.before);
        for (other, (since, before)) in others.iter_mut().zip(known) {
            match &other.heard {
                Heard::Silent => {
                    is_long &= since.elapsed() >= SILENCE_MIN;
                    if let Some(heard) = before {
                        other.heard = heard.clone();
                    }
                    continue;
                }
                Heard::Agreed(members) | Heard::Leaderless(members) => {
                    let has_data = members.iter().any(EtcdMember::has_run);
                    // Whether they still agree, nobody knows.
                    *before = has_data.then(|| Heard::Leaderless(members.clone()));
                }
                Heard::Empty | Heard::OtherList => *before = None,
                // What it has, it was not asked: what it was heard to have, it has.
                Heard::WithoutTls | Heard::OverTls => {
                    before.get_or_insert_with(|| other.heard.clone());
                }
            }
            *since = Instant::now();
        }
        is_long
    }
}

/// Asks all others at once.
async fn round(plan: &Plan, greeting: &str, way: &Way) -> Vec<Other> {
    let mut asked = JoinSet::new();
    for (place, other) in plan.others.iter().enumerate() {
        let (client, peer) = (other.client, other.peer);
        let (cluster, greeting) = (plan.cluster, greeting.to_owned());
        let way = way.clone();
        asked.spawn(async move {
            let whom = Asked {
                client,
                peer,
                cluster,
                greeting: &greeting,
            };
            (place, others::ask(whom, &way).await)
        });
    }
    let mut heard = vec![(Heard::Silent, false); plan.others.len()];
    for (place, one) in asked.join_all().await {
        heard[place] = one;
    }
    let others = plan.others.iter().zip(heard);
    let others = others.map(|(other, (heard, has_tls))| Other {
        name: other.name.clone(),
        client: other.client,
        has_tls,
        heard,
    });
    others.collect()
}

/// Tells what is waited for; once what an operator has to do, where a service's output goes as well.
fn say(wait: &Wait, said: Tell) {
    let text = match said {
        Tell::News => wait.to_string(),
        Tell::Still(time) => format!("for {}: {wait}", span(time)),
    };
    if !wait.wants_operator {
        tracing::warn!("{text}");
        return;
    }
    tracing::error!("{text}");
    if said == Tell::News {
        // Without an output there is still the log.
        let _ = writeln!(std::io::stderr(), "error: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recalled(memory: &mut Memory, heard: Heard) -> (Heard, bool) {
        let mut others = [Other {
            name: "n1".to_owned(),
            client: ([192, 0, 2, 1], 2379).into(),
            has_tls: false,
            heard,
        }];
        let is_long = memory.recall(&mut others);
        let [other] = others;
        (other.heard, is_long)
    }

    #[test]
    fn who_had_data_has_it_until_it_says_otherwise() {
        let members = vec![EtcdMember {
            client_urls: vec!["http://192.0.2.1:2379".to_owned()],
            ..EtcdMember::default()
        }];
        let mut memory = Memory::new(1);
        let silent = (Heard::Silent, false);
        assert_eq!(recalled(&mut memory, Heard::Silent), silent);
        recalled(&mut memory, Heard::Agreed(members.clone()));
        let known = Heard::Leaderless(members);
        assert_eq!(recalled(&mut memory, Heard::Silent), (known, false));
        // Without TLS it is there, and nobody knows with what.
        let there = (Heard::WithoutTls, true);
        assert_eq!(recalled(&mut memory, Heard::WithoutTls), there);
        assert!(matches!(
            recalled(&mut memory, Heard::Silent),
            (Heard::Leaderless(_), false)
        ));
        recalled(&mut memory, Heard::Empty);
        assert_eq!(recalled(&mut memory, Heard::Silent), silent);
        // One that was there is there, with whatever it has.
        recalled(&mut memory, Heard::WithoutTls);
        assert_eq!(recalled(&mut memory, Heard::Silent).0, Heard::WithoutTls);
        recalled(&mut memory, Heard::Empty);
        // An operator's word counts when the silence is no moment's.
        memory.since[0] -= SILENCE_MIN;
        assert_eq!(recalled(&mut memory, Heard::Silent), (Heard::Silent, true));
    }
}
