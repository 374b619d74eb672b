//! What a peer that breaks the protocol says: its link is reset, and nothing is done.

use holdfast_model::{Change, Entry, Epoch, Fence};
use holdfast_replica::Context;
use holdfast_wire::{Message, Prepare};

use crate::lab::{Lab, SLICE, node};

/// The next entry for node 2 from node 1, its primary, as if numbered in `numbered`.
fn next_entry(lab: &mut Lab, numbered: impl FnOnce(Epoch) -> Epoch) -> Message {
    let epoch = lab.record.epoch;
    let prepared = lab.act(node(2), |_, context| context.prepared());
    let (last, sequence) = prepared.expect("node 2 runs");
    let committed = sequence;
    Message::Prepare(Prepare {
        slice: SLICE,
        epoch,
        entry: Entry {
            epoch: numbered(last),
            sequence: sequence.next(),
            fence: Fence(0),
            command: Default::default(),
            change: Change::Nothing,
        },
        committed,
        stable: committed,
    })
}

#[test]
fn entries_of_other_epochs_than_can_follow_reset_the_link() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    let numbered: [fn(Epoch) -> Epoch; 2] = [
        |last| Epoch(last.0 - 1),
        // Later than the epoch in which it is sent.
        |last| last.next(),
    ];
    for numbered in numbered {
        let message = next_entry(&mut lab, numbered);
        let resets = lab.nodes[&node(2)].world.resets.len();
        lab.expect_resets(2);
        lab.act(node(2), |replica, context| {
            let before = context.prepared();
            replica.handle_message(context, node(1), &message);
            assert_eq!(context.prepared(), before);
        });
        let world = &lab.nodes[&node(2)].world;
        assert_eq!(world.resets[resets..], [node(1)]);
    }
    let message = next_entry(&mut lab, |last| last);
    lab.act(node(2), |replica, context| {
        let before = context.prepared();
        replica.handle_message(context, node(1), &message);
        assert_eq!(context.prepared().1, before.1.next());
    });
}
