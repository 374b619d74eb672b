//! The end of all nodes.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::node::DemoProcess;

/// How long the nodes have to hand everything over. It takes a moment; what is not handed over is
/// taken over by others, or by the next start.
const STOP_TIME_MAX: Duration = Duration::from_secs(15);
/// How long the kernel may take to end a process that was killed.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);

/// Ends all nodes, those that others have started included. Names those that did not end cleanly in
/// time, and were killed.
///
/// `hurry` is done when nobody has patience any more.
pub(crate) async fn stop(
    nodes: &mut [DemoProcess],
    hurry: impl Future<Output = ()>,
) -> Vec<String> {
    let deadline = Instant::now() + STOP_TIME_MAX;
    signal_all(nodes, &[Signal::TERM, Signal::CONT]);
    tokio::select! {
        () = all_ended(nodes) => return Vec::new(),
        () = sleep_until(deadline) => {}
        () = hurry => {}
    }
    let mut killed = Vec::new();
    for node in nodes.iter_mut() {
        if node.look() {
            killed.push(node.name().to_owned());
        }
    }
    signal_all(nodes, &[Signal::KILL]);
    let ended = tokio::time::timeout(KILL_TIME_MAX, all_ended(nodes)).await;
    if ended.is_err() {
        tracing::error!("a node's process does not end, although it was killed");
    }
    killed
}

/// A stopped process sees its end only when it goes on, so that comes with it.
fn signal_all(nodes: &mut [DemoProcess], signals: &[Signal]) {
    for node in nodes {
        // Who was started a moment ago is found here.
        if node.look()
            && let Some(process) = node.process()
        {
            signals.iter().for_each(|signal| process.signal(*signal));
        }
    }
}

async fn all_ended(nodes: &mut [DemoProcess]) {
    for node in nodes {
        while node.look() {
            node.next_event().await;
            // Started again between the signal and now: it is told as well.
            if node.look()
                && let Some(process) = node.process()
            {
                process.signal(Signal::TERM);
            }
        }
    }
}
