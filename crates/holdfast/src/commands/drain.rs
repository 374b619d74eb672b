//! `holdfast node drain --wait`: how far a drain is, until nothing is left on the node.
//!
//! It refuses to end a drain: who interrupts it only stops looking.
//!
//! Invariants:
//! - it ends well only when nothing is on the node, or is to be, and the node is still to go: then it can be removed;
//! - it ends in any other case, as a failure: when the drain was called off, when the node was removed, also if it, or
//!   another machine of its name, is back since, and when nobody has told how far it is for [`UNHEARD_MAX`];
//! - an API that does not answer for a while is asked again: the drain does not need it.

use std::time::Duration;

use holdfast_api::documents::{Node, NodeStanding};
use holdfast_api::{ApiClient, ClientError, ProblemKind};
use holdfast_stdx::Count;
use tokio::time::{Instant, sleep};

use super::node::to_move;
use super::protection::span;
use crate::failure::Failure;
use crate::output::Output;

/// Between two looks: each is one at the whole cluster.
const LOOK: Duration = Duration::from_secs(1);
/// After so many looks people are told again.
const LOOKS_PER_WORD: u32 = 5;
/// How long nobody may tell how far it is: longer than a cluster takes to be started again.
const UNHEARD_MAX: Duration = Duration::from_secs(10 * 60);

/// Waits until nothing is on a node whose drain has been ordered. Gives the node as it is then.
///
/// # Errors
/// The drain was called off, or the node removed; or nobody has told for long.
pub(crate) async fn wait(client: &ApiClient, output: &Output, node: Node) -> Result<Node, Failure> {
    if !node.is_drained {
        output.talk("the drain goes on if this is interrupted");
    }
    let name = node.name.clone();
    let look = async || client.node(&name).await.map(|found| found.node);
    watch(node, look, |word| output.talk(word)).await
}

/// The same, with the looks and the words of somebody else.
async fn watch(
    mut node: Node,
    look: impl AsyncFn() -> Result<Node, ClientError>,
    talk: impl Fn(&str),
) -> Result<Node, Failure> {
    let (name, number) = (node.name.clone(), node.node);
    let mut heard = Instant::now();
    let mut looks = 0;
    while goes_on(&node)? {
        let is_time = looks % LOOKS_PER_WORD == 0;
        looks += 1;
        if is_time {
            talk(&left(&node));
        }
        sleep(LOOK).await;
        match look().await {
            Ok(found) if found.node != number => return Err(removed(&name)),
            Ok(found) => (node, heard) = (found, Instant::now()),
            Err(ClientError::Problem(problem)) if problem.kind == ProblemKind::NoSuchNode => {
                return Err(removed(&name));
            }
            Err(error) if heard.elapsed() >= UNHEARD_MAX => return Err(unheard(&name, &error)),
            Err(error) if is_time => talk(&format!("how far it is is not known: {error}")),
            Err(_) => {}
        }
    }
    Ok(node)
}

/// Whether there is something to wait for.
fn goes_on(node: &Node) -> Result<bool, Failure> {
    let name = &node.name;
    match node.standing {
        NodeStanding::Draining => Ok(!node.is_drained),
        // A machine of its number and name has registered anew.
        NodeStanding::Removed | NodeStanding::Waiting => Err(removed(name)),
        NodeStanding::Active | NodeStanding::Maintenance => {
            let replicas = Count::of(node.replicas, "replica");
            let what = format!(
                "the drain of {name} was called off: {replicas} {} there",
                replicas.choose("is", "are")
            );
            let again = format!("`holdfast node drain {name}` goes on with it");
            Err(Failure::new(what).hint(again))
        }
    }
}

fn removed(name: &str) -> Failure {
    Failure::new(format!("{name} was removed from the cluster meanwhile"))
        .hint("`holdfast status` tells whether the volumes are protected")
}

fn unheard(name: &str, error: &ClientError) -> Failure {
    let time = span(UNHEARD_MAX.as_secs());
    let what = format!("how far the drain of {name} is has not been known for {time}: {error}");
    Failure::new(what).hint(format!(
        "the drain goes on without this; `holdfast node drain {name} --wait` waits for it again"
    ))
}

/// What is left, as people are told meanwhile.
fn left(node: &Node) -> String {
    let left = to_move(node).unwrap_or_else(|| Count::of(node.replicas, "replica").to_string());
    let hint = match node.to_move.seconds_left {
        Some(_) => "",
        None => "; `holdfast status --explain` tells what it waits for",
    };
    format!("to move: {left}{hint}")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use holdfast_api::Problem;
    use holdfast_api::documents::ToMove;

    use super::*;
    use crate::commands::node::tests::node;

    fn drained() -> Node {
        Node {
            is_drained: true,
            ..node(NodeStanding::Draining, 0)
        }
    }

    /// What a drain ends with whose looks find these, one after the other, and then the last one for ever.
    async fn ends(found: Vec<Result<Node, ProblemKind>>) -> (Result<Node, String>, usize) {
        let looks = Cell::new(0);
        let look = async || {
            let at = looks.get();
            looks.set(at + 1);
            let found = found[at.min(found.len() - 1)].clone();
            found.map_err(|kind| Problem::new(kind, "no luck").into())
        };
        let words = RefCell::new(Vec::new());
        let talk = |word: &str| words.borrow_mut().push(word.to_owned());
        let ended = watch(node(NodeStanding::Draining, 2), look, talk).await;
        (ended.map_err(|failure| failure.to_string()), looks.get())
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_the_node_can_be_removed_and_not_before() {
        let going = || Ok(node(NodeStanding::Draining, 1));
        // Nothing is there, and something is to be: of a volume that is being made, or wished.
        let empty = || Ok(node(NodeStanding::Draining, 0));
        let away = || Err(ProblemKind::Unavailable);
        let (ended, looks) = ends(vec![going(), empty(), away(), empty(), Ok(drained())]).await;
        assert_eq!((ended.unwrap().is_drained, looks), (true, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn it_fails_when_there_is_nothing_to_wait_for_any_more() {
        for standing in [NodeStanding::Active, NodeStanding::Maintenance] {
            // Also if nothing is there: the node is not to go any more.
            let (ended, looks) = ends(vec![Ok(node(standing, 0))]).await;
            let failure = ended.unwrap_err();
            assert!(
                failure.contains("was called off: 0 replicas are there") && looks == 1,
                "{failure}"
            );
        }
        let failure = goes_on(&node(NodeStanding::Active, 1)).unwrap_err();
        let told = failure.to_string();
        assert!(told.contains("off: 1 replica is there"), "{told}");
        let other = Node {
            node: 9,
            ..drained()
        };
        for gone in [
            Ok(node(NodeStanding::Removed, 0)),
            Ok(node(NodeStanding::Waiting, 0)),
            Ok(other),
            Err(ProblemKind::NoSuchNode),
        ] {
            let (ended, looks) = ends(vec![gone]).await;
            let failure = ended.unwrap_err();
            assert!(
                failure.contains("n1 was removed") && looks == 1,
                "{failure}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_wait_for_ever_for_a_cluster_that_is_away() {
        let begun = Instant::now();
        let (ended, _) = ends(vec![Err(ProblemKind::Unavailable)]).await;
        let failure = ended.unwrap_err();
        assert!(
            failure.contains("not been known for 10 min: no luck"),
            "{failure}"
        );
        assert!(
            failure.contains("the drain goes on without this"),
            "{failure}"
        );
        assert!(begun.elapsed() < UNHEARD_MAX + LOOK * 2);
    }

    #[test]
    fn what_is_left_is_told_with_its_time_or_where_to_look() {
        let mut going = node(NodeStanding::Draining, 2);
        going.to_move = ToMove {
            slices: 2,
            bytes: 3 << 20,
            bytes_left: 3 << 20,
            bytes_per_second: 1 << 20,
            seconds_left: Some(3),
        };
        assert_eq!(left(&going), "to move: 2 slices (3 MiB), about 3 s");
        going.to_move.seconds_left = None;
        let told = left(&going);
        assert!(told.starts_with("to move: 2 slices (3 MiB); "), "{told}");
    }
}
