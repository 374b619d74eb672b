//! How the members of etcd are, as the node's log has it.
//!
//! Invariant: however often a member is well and is not, the log has each of its states once a minute at most, and at
//! last the one that lasts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_metadata::etcd::{MemberState, MemberView, MembersView};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::Level;

use crate::lasting::{Lasting, Tell};

/// How often it is looked whether something is to be told that was told too recently: often enough for who reads it.
const LOOK: Duration = Duration::from_secs(10);

/// Tells of each member that is not well any more, and of each that is again. Never ends.
pub(crate) async fn tell(mut members: watch::Receiver<MembersView>) {
    let mut told = Told::default();
    loop {
        if let Ok(Err(_)) = timeout(LOOK, members.changed()).await {
            // Nobody looks any more; what else runs here goes on.
            std::future::pending::<()>().await;
        }
        for (level, text) in told.lines(Instant::now(), &members.borrow_and_update().configured) {
            match level {
                Level::WARN => tracing::warn!("{text}"),
                _ => tracing::info!("{text}"),
            }
        }
    }
}

/// What was told of each, by its endpoint.
#[derive(Debug, Default)]
struct Told(BTreeMap<String, Lasting<MemberState>>);

impl Told {
    fn lines(&mut self, now: Instant, members: &[MemberView]) -> Vec<(Level, String)> {
        let lines = members.iter().filter_map(|member| {
            let address = member.endpoint.address();
            let lasting = self.0.entry(address.to_owned()).or_insert(Lasting::new());
            if member.state == MemberState::Answers {
                lasting.over(now)?;
                return Some((
                    Level::INFO,
                    format!("etcd: the member at {address} answers"),
                ));
            }
            // Once is enough: what else lasts is told by whom it keeps from working.
            let is_news = lasting.goes_on(now, member.state)? == Tell::News;
            is_news.then(|| (Level::WARN, trouble(address, member.state)))
        });
        lines.collect()
    }
}

fn trouble(address: &str, state: MemberState) -> String {
    match state {
        MemberState::Leaderless => format!(
            "etcd: the member at {address} has no leader: it does not reach enough of the others"
        ),
        MemberState::Foreign => format!(
            "etcd: what answers at {address} is of another etcd than the others: look at the configuration"
        ),
        MemberState::Answers | MemberState::Silent => {
            format!("etcd: the member at {address} does not answer")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(states: impl Fn(u64) -> MemberState, seconds: u64) -> Vec<(u64, String)> {
        let (start, mut told) = (Instant::now(), Told::default());
        let lines = (0..seconds).flat_map(|second| {
            let member = MemberView {
                endpoint: "192.0.2.1:2379".parse().unwrap(),
                state: states(second),
                member: None,
            };
            let lines = told.lines(start + Duration::from_secs(second), &[member]);
            lines.into_iter().map(move |(_, text)| (second, text))
        });
        lines.collect()
    }

    #[test]
    fn a_member_that_is_dead_is_told_once() {
        use MemberState::{Answers, Silent};
        let lines = told(
            |second| {
                if (5..300).contains(&second) {
                    Silent
                } else {
                    Answers
                }
            },
            310,
        );
        let text = |what| format!("etcd: the member at 192.0.2.1:2379 {what}");
        let expected = [(5, text("does not answer")), (300, text("answers"))];
        assert_eq!(lines, expected);
    }

    /// The slow disk of a member makes it so. The last line says how it is at last.
    #[test]
    fn a_member_that_comes_and_goes_is_told_now_and_then() {
        use MemberState::{Answers, Leaderless, Silent};
        let state = |second| match second {
            300.. => Silent,
            _ => [Silent, Answers, Leaderless, Answers][second as usize / 5 % 4],
        };
        let lines = told(state, 400);
        assert!((12..=24).contains(&lines.len()), "{lines:#?}");
        let (_, last) = lines.last().unwrap();
        assert!(last.ends_with("does not answer"), "{last}");
    }
}
