//! `holdfast node drain --wait`: how far a drain is, until nothing is left on the node.
//!
//! It refuses to end a drain: who interrupts it only stops looking.
//!
//! Invariants:
//! - it ends well only when nothing is on the node, and the node is still to go;
//! - an API that does not answer for a while is asked again: the drain does not need it.

use std::time::Duration;

use holdfast_api::documents::{Node, NodeStanding};
use holdfast_api::{ApiClient, ClientError, ProblemKind};

use super::node::{is_drained, to_move};
use crate::failure::Failure;
use crate::output::Output;

/// Between two looks: each is one at the whole cluster.
const LOOK: Duration = Duration::from_secs(1);
/// After so many looks people are told again.
const LOOKS_PER_WORD: u32 = 5;

/// Waits until nothing is on a node whose drain has been ordered. Gives the node as it is then.
///
/// # Errors
/// The drain was called off, or the node removed.
pub(crate) async fn wait(
    client: &ApiClient,
    output: &Output,
    mut node: Node,
) -> Result<Node, Failure> {
    if !is_drained(&node) {
        output.talk("the drain goes on if this is interrupted");
    }
    let name = node.name.clone();
    let mut looks = 0;
    while goes_on(&node)? {
        let is_time = looks % LOOKS_PER_WORD == 0;
        looks += 1;
        if is_time {
            output.talk(&left(&node));
        }
        tokio::time::sleep(LOOK).await;
        match client.node(&name).await {
            Ok(found) => node = found.node,
            Err(ClientError::Problem(problem)) if problem.kind == ProblemKind::NoSuchNode => {
                return Err(removed(&name));
            }
            Err(error) if is_time => {
                output.talk(&format!("how far it is is not known: {error}"));
            }
            Err(_) => {}
        }
    }
    Ok(node)
}

/// Whether there is something to wait for.
fn goes_on(node: &Node) -> Result<bool, Failure> {
    let name = &node.name;
    match node.standing {
        NodeStanding::Draining => Ok(!is_drained(node)),
        NodeStanding::Removed => Err(removed(name)),
        NodeStanding::Waiting | NodeStanding::Active | NodeStanding::Maintenance => {
            let what = format!(
                "the drain of {name} was called off: {} replicas are there",
                node.replicas
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

/// What is left, as people are told meanwhile.
fn left(node: &Node) -> String {
    let left = to_move(node).unwrap_or_else(|| format!("{} replicas", node.replicas));
    let hint = match node.to_move.seconds_left {
        Some(_) => "",
        None => "; `holdfast status --explain` tells what it waits for",
    };
    format!("to move: {left}{hint}")
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::ToMove;

    use super::*;
    use crate::commands::node::tests::node;

    #[test]
    fn it_ends_when_nothing_is_left_and_fails_when_it_was_called_off() {
        let going = node(NodeStanding::Draining, 2);
        assert!(goes_on(&going).unwrap());
        assert!(!goes_on(&node(NodeStanding::Draining, 0)).unwrap());
        for standing in [NodeStanding::Active, NodeStanding::Maintenance] {
            // Also if nothing is there: the node is not to go any more.
            let failure = goes_on(&node(standing, 0)).unwrap_err();
            assert!(failure.to_string().contains("called off"), "{failure}");
        }
        let failure = goes_on(&node(NodeStanding::Removed, 0)).unwrap_err();
        assert!(failure.to_string().contains("removed"), "{failure}");
    }

    #[test]
    fn what_is_left_is_told_with_its_time_or_where_to_look() {
        let mut going = node(NodeStanding::Draining, 2);
        going.to_move = ToMove {
            slices: 2,
            bytes: 3 << 20,
            bytes_per_second: 1 << 20,
            seconds_left: Some(3),
        };
        assert_eq!(left(&going), "to move: 2 slices (3 MiB), about 3 s");
        going.to_move.seconds_left = None;
        let told = left(&going);
        assert!(told.starts_with("to move: 2 slices (3 MiB); "), "{told}");
    }
}
