//! The performance history of this node: what is measured, where it is kept, and how it is asked for.
//!
//! It has a thread of its own, because it reads and writes files. The data path hands over a frame a second and never waits.
//!
//! Invariants:
//! - what waits for the thread is bounded: frames beyond it are lost, to the metrics too, and who asks beyond it is told to come
//!   again;
//! - whatever the thread does, the data path does not hear of it.

mod answer;
mod archive;
mod measure;
mod recent;
mod slowness;

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use holdfast_api::documents::{
    HistorySubject, KeptHistory, LocalHistory, LocalHistoryQuery, LocalTraffic,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_history::Frame;
use tokio::sync::{oneshot, watch};

use self::archive::Archive;
pub(crate) use self::measure::Measuring;
use self::recent::Seconds;
use self::slowness::Slowness;
pub(crate) use self::slowness::Tails;
use crate::metrics::Traffic;

/// The directory in a node's.
pub const HISTORY_DIRECTORY: &str = "history";
/// What may wait for the thread: seconds of frames, while it answers.
const WAITING_MAX: usize = 64;

enum Order {
    Keep(Frame),
    Ask(
        HistorySubject,
        LocalHistoryQuery,
        oneshot::Sender<LocalHistory>,
    ),
    AskTraffic(oneshot::Sender<LocalTraffic>),
    AskKept(oneshot::Sender<KeptHistory>),
}

/// The data path's end.
#[derive(Clone, Debug)]
pub(crate) struct FrameSender(SyncSender<Order>);

impl FrameSender {
    /// Hands over what was measured in a second.
    pub(crate) fn told(&self, frame: Frame) {
        // Where the thread is far behind, or has ended, there is a gap, and nobody waits for it.
        let _ = self.0.try_send(Order::Keep(frame));
    }
}

/// Where the history is asked for.
#[derive(Clone, Debug)]
pub struct HistoryDesk(SyncSender<Order>);

impl HistoryDesk {
    /// What was measured of a subject here.
    ///
    /// # Errors
    /// [`ProblemKind::Busy`] if too many ask; [`ProblemKind::Unavailable`] if the node ends.
    pub async fn ask(
        &self,
        subject: HistorySubject,
        query: LocalHistoryQuery,
    ) -> Result<LocalHistory, Problem> {
        self.order(|sender| Order::Ask(subject, query, sender))
            .await
    }

    /// What was done with each volume here in the last few seconds.
    ///
    /// # Errors
    /// The same.
    pub async fn traffic(&self) -> Result<LocalTraffic, Problem> {
        self.order(Order::AskTraffic).await
    }

    /// How much is kept here, and how far back it reaches.
    ///
    /// # Errors
    /// The same.
    pub async fn kept(&self) -> Result<KeptHistory, Problem> {
        self.order(Order::AskKept).await
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, Problem> {
        let (sender, answer) = oneshot::channel();
        let sent = self.0.try_send(order(sender));
        if let Err(TrySendError::Full(_)) = sent {
            let detail = "the history is asked for more often than it can be read";
            return Err(Problem::new(ProblemKind::Busy, detail).hint("ask again in a second"));
        }
        answer.await.map_err(|_| {
            Problem::new(ProblemKind::Unavailable, "this node is ending")
                .hint("ask another node, or this one when it has started again")
        })
    }
}

/// Begins with what a node's directory has; tells how slow devices are, too. The thread ends when both ends are dropped.
///
/// # Errors
/// The operating system has no thread to give.
pub(crate) fn keep(
    node: u16,
    directory: &Path,
    bytes_max: u64,
    traffic: Traffic,
) -> io::Result<(FrameSender, HistoryDesk, watch::Receiver<Tails>)> {
    let (sender, orders) = sync_channel(WAITING_MAX);
    let (mut slowness, tails) = Slowness::new();
    let directory = directory.join(HISTORY_DIRECTORY);
    let run = move || {
        serve(
            node,
            &orders,
            &mut Archive::open(directory, bytes_max),
            &traffic,
            &mut slowness,
        );
    };
    thread::Builder::new().name("history".into()).spawn(run)?;
    Ok((FrameSender(sender.clone()), HistoryDesk(sender), tails))
}

fn serve(
    node: u16,
    orders: &Receiver<Order>,
    archive: &mut Archive,
    traffic: &Traffic,
    slowness: &mut Slowness,
) {
    let mut seconds = Seconds::default();
    for order in orders {
        match order {
            Order::Keep(frame) => {
                measure::tell(traffic, &frame);
                slowness.take(&frame);
                let frame = frame.bounded();
                seconds.take(&frame);
                archive.take(frame);
            }
            // Who asked has given up.
            Order::Ask(.., sender) if sender.is_closed() => {}
            Order::Ask(subject, query, sender) => {
                let points = answer::points(archive, &subject, &query);
                // Who asked may have gone meanwhile.
                let _ = sender.send(LocalHistory { node, points });
            }
            Order::AskTraffic(sender) => {
                let _ = sender.send(seconds.traffic(node));
            }
            Order::AskKept(sender) => {
                let _ = sender.send(archive.kept());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_history::{Sample, Series, Value};

    use super::*;

    #[tokio::test]
    async fn what_is_handed_over_can_be_asked_for_after_the_next_start() {
        let directory = tempfile::tempdir().expect("there is room");
        let from = 1_795_000_000;
        let query = || LocalHistoryQuery {
            of: "node".to_owned(),
            from,
            until: from + 20,
            step: 10,
        };
        for start in 0..2 {
            let (sender, desk, _) =
                keep(4, directory.path(), 1 << 20, Traffic::default()).expect("it starts");
            if start == 0 {
                for second in 0..20 {
                    let mut sample = Sample::default();
                    sample.add(measure::SECONDS, Value::Count(1));
                    let mut frame = Frame {
                        from: from + second,
                        seconds: 1,
                        ..Frame::default()
                    };
                    frame.add(Series::Node, &sample);
                    sender.told(frame);
                }
            }
            let history = desk.ask(HistorySubject::Node, query()).await;
            let history = history.expect("it answers");
            assert_eq!(history.node, 4);
            let seconds: Vec<(u64, u64)> = history
                .points
                .iter()
                .map(|it| (it.at - from, it.seconds))
                .collect();
            assert_eq!(seconds, [(0, 10), (10, 10)], "start {start}");
        }
    }
}
