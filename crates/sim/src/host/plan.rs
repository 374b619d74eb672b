//! What a host is like, and what it has seen in the end.

use holdfast_stdx::{Duration, Prng};

use super::{Copies, Rivalry};

/// What a host is like.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Which volume it uses.
    pub volume: usize,
    /// The one path that it uses, if not all of them.
    pub only: Option<usize>,
    /// Commands under way at a time.
    pub depth: usize,
    /// Between two commands, on average.
    pub pause: Duration,
    /// How long a path may take to answer.
    pub timeout: Duration,
    /// After how much silence of a path it repeats what that did not answer.
    pub patience: Duration,
    /// How long it waits before it repeats a command whose connection its node has ended.
    pub after_end: Duration,
    /// Whether what it has sent is delivered after it has given the connection up.
    pub lingers: bool,
    /// Whether it aborts a command that takes too long before it drops the session.
    pub aborts: bool,
    /// Reads in a hundred commands.
    pub reads: u64,
    /// Between two resets of the unit, on average; none are done if there is none.
    pub resets: Option<Duration>,
    /// Whether it may be told that there is no room.
    pub may_lack_room: bool,
    /// What of its commands are copies from another volume, if some are.
    pub copies: Option<Copies>,
    /// How it and the other hosts of its volume take that from each other, if they do.
    pub rivalry: Option<Rivalry>,
}

impl HostPlan {
    /// A host as they come, or one in a hurry.
    pub fn draw(volume: usize, hurried: bool, prng: &mut Prng) -> Self {
        let pause = if hurried {
            prng.between(3, 10)
        } else {
            prng.between(10, 60)
        };
        let depth = prng.between(1, 3) as usize;
        let timeout = prng.between(5000, 8000);
        // One draw says how it loses patience.
        let patience = prng.between(4300, 6000);
        Self {
            volume,
            only: None,
            depth,
            pause: Duration::from_millis(pause),
            timeout: Duration::from_millis(timeout),
            patience: Duration::from_millis(patience),
            after_end: Duration::from_millis(patience - 3250),
            lingers: patience.is_multiple_of(2),
            aborts: prng.chance(1, 2),
            reads: prng.between(30, 60),
            resets: prng
                .chance(1, 6)
                .then(|| Duration::from_millis(prng.between(1500, 6000))),
            may_lack_room: false,
            copies: None,
            rivalry: None,
        }
    }
}

/// What a host has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostCounts {
    /// Commands done.
    pub done: u64,
    /// Commands repeated.
    pub repeated: u64,
    /// Copies done.
    pub copies: u64,
    /// Answers that a copy was not done, or in part.
    pub copies_aborted: u64,
    /// The longest copy that was done, from its sending to its answer.
    pub copy_longest: Duration,
    /// Answers that data is lost.
    pub medium_errors: u64,
    /// Answers that there is no room.
    pub no_space: u64,
    /// Answers that another host has taken the volume.
    pub conflicts: u64,
    /// Times that it has taken the volume from another one, for certain.
    pub taken: u64,
    /// Resets of the unit that were done.
    pub resets: u64,
    /// Resets of the unit that were refused, for nobody could tell whether all was over.
    pub resets_refused: u64,
    /// Answers that something else had to be told first.
    pub attentions: u64,
    /// Answers that it is to be tried again.
    pub put_off: u64,
    /// Answers that the volume ends before: a node does not know yet that it has grown.
    pub beyond_end: u64,
    /// Logins that were refused because there is no such target.
    pub no_target: u64,
    /// Sessions whose unit was another volume, or none.
    pub other_volume: u64,
}
