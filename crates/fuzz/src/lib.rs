//! Fuzz targets: whatever an initiator can send, whatever a target or another node can answer, and
//! what has to hold whatever it is.
//!
//! A target is a function that takes any bytes and panics where something does not hold. The same
//! function is driven by libFuzzer (`cargo xtask fuzz`), which looks for bytes that reach what was not
//! reached before, and replays what was found in `cargo test`.
//!
//! It refuses to draw anything at random: the same bytes do the same.
//!
//! Invariants:
//! - each target has a corpus, small enough to be kept beside the code;
//! - no target takes memory or time without bound, or it would find that of itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

mod cdb;
mod connection;
mod initiator;
mod input;
mod negotiation;
mod pdu;
mod reservation;
mod wire;

pub use input::Input;

/// Something to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As it is named on the command line, and in `corpus`.
    pub name: &'static str,
    /// Does whatever the bytes say, and panics where something does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with, made of what real hosts and nodes say.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "pdu",
        run: pdu::run,
        seeds: pdu::seeds,
    },
    Target {
        name: "negotiation",
        run: negotiation::run,
        seeds: negotiation::seeds,
    },
    Target {
        name: "cdb",
        run: cdb::run,
        seeds: cdb::seeds,
    },
    Target {
        name: "reservation",
        run: reservation::run,
        seeds: reservation::seeds,
    },
    Target {
        name: "connection",
        run: connection::run,
        seeds: connection::seeds,
    },
    Target {
        name: "initiator",
        run: initiator::run,
        seeds: initiator::seeds,
    },
    Target {
        name: "wire",
        run: wire::run,
        seeds: wire::seeds,
    },
];

impl Target {
    /// The target of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Where the inputs are that are kept beside the code.
    #[must_use]
    pub fn corpus(&self) -> PathBuf {
        let place = Path::new(env!("CARGO_MANIFEST_DIR"));
        place.join("corpus").join(self.name)
    }
}
