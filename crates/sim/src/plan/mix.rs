//! Which kinds of episodes a run has, and how often each.

use holdfast_stdx::Prng;

/// A kind of episode: something goes wrong, and is mended some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Kill,
    PowerLoss,
    Blackout,
    AllKilled,
    /// Several nodes die, one after the other.
    Deaths,
    Freeze,
    Part,
    Isolate,
    Shun,
    /// A node hears nobody, or nobody hears it.
    OneWay,
    MetadataAway,
    HostAway,
    SlowNetwork,
    Empty,
    RollBack,
    /// Only the device with the journal comes back as it was.
    RollBackJournal,
    /// The devices with the journals of two nodes are put into the wrong machines.
    Swap,
    SlowDisks,
    Strand,
    DisturbSync,
    EndBadly,
    /// Replicas are wanted elsewhere.
    Move,
    Drain,
    Maintenance,
    /// A node is away until its replicas are rebuilt elsewhere.
    Replace,
}

/// A kind, how often a run has it at all (in a hundred), and how often it then happens, among the others.
struct Row(Kind, u64, u64);

const KINDS: &[Row] = &[
    Row(Kind::Kill, 60, 4),
    Row(Kind::PowerLoss, 50, 3),
    Row(Kind::Blackout, 40, 2),
    Row(Kind::AllKilled, 30, 2),
    Row(Kind::Deaths, 40, 2),
    Row(Kind::Freeze, 50, 4),
    Row(Kind::Part, 50, 3),
    Row(Kind::Isolate, 30, 1),
    Row(Kind::Shun, 30, 2),
    Row(Kind::OneWay, 40, 2),
    Row(Kind::MetadataAway, 50, 3),
    Row(Kind::HostAway, 40, 2),
    Row(Kind::SlowNetwork, 40, 2),
    Row(Kind::Empty, 40, 2),
    Row(Kind::RollBack, 30, 2),
    Row(Kind::RollBackJournal, 20, 1),
    Row(Kind::Swap, 20, 1),
    Row(Kind::SlowDisks, 50, 4),
    Row(Kind::Strand, 40, 2),
    Row(Kind::DisturbSync, 50, 4),
    Row(Kind::EndBadly, 40, 2),
    Row(Kind::Move, 60, 5),
    Row(Kind::Drain, 40, 3),
    Row(Kind::Maintenance, 40, 2),
    Row(Kind::Replace, 40, 3),
];

impl Kind {
    /// Whether somebody has to steer the cluster for it.
    const fn is_steered(self) -> bool {
        matches!(
            self,
            Self::Move | Self::Drain | Self::Maintenance | Self::Replace
        )
    }
}

/// The kinds that a run has.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    /// Each as often as it weighs.
    kinds: Vec<Kind>,
}

impl Mix {
    pub(super) fn draw(prng: &mut Prng) -> Self {
        let mut kinds = Vec::new();
        for Row(kind, chance, weight) in KINDS {
            if prng.chance(*chance, 100) {
                kinds.extend((0..*weight).map(|_| *kind));
            }
        }
        Self { kinds }
    }

    /// No process starts in this run, and everybody hears of what is agreed on.
    pub(super) fn leave_out_starts(&mut self) {
        let goes_on = |kind: &Kind| {
            matches!(
                kind,
                Kind::Part | Kind::HostAway | Kind::SlowNetwork | Kind::SlowDisks
            )
        };
        self.kinds.retain(goes_on);
    }

    /// Nothing moves, and nobody orders anything.
    pub(super) fn leave_out_steering(&mut self) {
        self.kinds.retain(|kind| !kind.is_steered());
    }

    /// Nothing goes wrong beside what is planned elsewhere, but replicas move.
    pub(super) fn leave_out_all_but_moves(&mut self) {
        self.kinds.retain(|kind| *kind == Kind::Move);
    }

    /// Whether somebody has to steer the cluster.
    pub(super) fn is_steered(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_steered())
    }

    /// The next episode's kind, if the run has any.
    pub(super) fn next(&self, prng: &mut Prng) -> Option<Kind> {
        (!self.kinds.is_empty()).then(|| *prng.choose(&self.kinds))
    }
}
