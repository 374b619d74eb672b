//! What a node is asked that changes the access to a volume, or this node itself: to go by it, and to say when it does.
//!
//! Invariants:
//! - a question is answered once, when everything that was numbered here under older fences is committed, or after a
//!   moment, with what can be said then;
//! - a question for another node is passed on once, to that node only.

use alloc::vec::Vec;

use holdfast_model::metadata::Revision;
use holdfast_model::{Epoch, NodeId, SliceId, VolumeId};
use holdfast_replica::FenceState;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Enforce, Enforced};

use crate::engine::Engine;

/// How long a question may wait for what is to be committed.
const ANSWERED_WITHIN: Duration = Duration::from_millis(200);
/// Questions at a time, at most: several for each node of a large cluster.
const QUESTIONS_MAX: usize = 1024;

/// A question that is not answered yet.
#[derive(Debug)]
pub(super) struct Question {
    number: u64,
    origin: NodeId,
    /// Over whom it came, and the answer goes.
    via: NodeId,
    volume: VolumeId,
    revision: Revision,
    /// Slices led here that have not been looked at, or have something to commit; none before it is looked at at all.
    pending: Option<Vec<SliceId>>,
    led: Vec<(u32, Epoch)>,
    /// When it is answered, whatever is left.
    pub(super) until: Instant,
}

impl Engine {
    /// Another node asks, or wants a question passed on.
    pub(crate) fn handle_enforce(&mut self, peer: NodeId, question: Enforce) {
        if question.to == self.config.node {
            let Enforce {
                volume, revision, ..
            } = question;
            let cluster = &mut self.world.cluster;
            cluster.hear_of_access(volume, &question.record, revision);
            self.note_question(peer, &question);
        } else if peer == question.origin && self.knows_fences(question.to) {
            self.world.peers.send(question.to, question.into());
        }
    }

    /// This node asks itself.
    pub(super) fn ask_oneself(&mut self, question: &Enforce) {
        self.note_question(self.config.node, question);
    }

    fn note_question(&mut self, via: NodeId, question: &Enforce) {
        let questions = &mut self.access.questions;
        let is_same = |it: &Question| it.origin == question.origin && it.number == question.number;
        questions.retain(|it| !is_same(it));
        // Who asks asks again.
        if questions.len() >= QUESTIONS_MAX {
            return;
        }
        questions.push(Question {
            number: question.number,
            origin: question.origin,
            via,
            volume: question.volume,
            revision: question.revision,
            pending: None,
            led: Vec::new(),
            until: self.world.now + ANSWERED_WITHIN,
        });
    }

    /// Answers the questions that can be; true if there were any. What was heard with them has been obeyed by now.
    pub(super) fn consider_questions(&mut self) -> bool {
        if self.access.questions.is_empty() {
            return false;
        }
        let now = self.world.now;
        let mut answered = false;
        for mut question in core::mem::take(&mut self.access.questions) {
            self.look_at_question(&mut question);
            let is_done = question.pending.as_ref().is_some_and(Vec::is_empty);
            if is_done || now >= question.until {
                answered = true;
                self.answer_question(question);
            } else {
                self.access.questions.push(question);
            }
        }
        answered
    }

    fn look_at_question(&mut self, question: &mut Question) {
        let volume = question.volume;
        let known = self.world.cluster.access(volume);
        if known.is_none_or(|(_, known)| *known < question.revision) {
            // It could not be read here.
            return;
        }
        let pending = question.pending.take();
        let pending = pending.unwrap_or_else(|| self.slices_of(volume));
        let mut left = Vec::new();
        for slice in pending {
            let state = self.with_replica(slice, |replica, context| replica.fence_state(context));
            match state {
                Some(FenceState::Clear(epoch)) => question.led.push((slice.index, epoch)),
                Some(FenceState::Draining) => left.push(slice),
                Some(FenceState::Follows) | None => {}
            }
        }
        question.pending = Some(left);
    }

    fn answer_question(&mut self, question: Question) {
        let Some((record, _)) = self.world.cluster.access(question.volume) else {
            return;
        };
        if question.pending.is_none() {
            return;
        }
        let answer = Enforced {
            number: question.number,
            origin: question.origin,
            from: self.config.node,
            volume: question.volume,
            fence: record.fence,
            led: question.led,
        };
        if question.via == self.config.node {
            self.enforced(answer);
        } else {
            self.world.peers.send(question.via, answer.into());
        }
    }

    /// An answer has come, for this node or for one that this node has passed a question on for.
    pub(crate) fn handle_enforced(&mut self, answer: Enforced) {
        let origin = answer.origin;
        if origin == self.config.node {
            self.enforced(answer);
        } else if self.knows_fences(origin) {
            self.world.peers.send(origin, answer.into());
        }
    }
}
