//! What connections make the machine hold beside the data that it asked for: unsolicited data,
//! input that waits, output that no socket has taken.
//!
//! Invariants:
//! - windows that were given let in no more unsolicited data than the limits say, whoever they were
//!   given to and whenever: MaxCmdSN does not go back, so that what was promised is counted;
//! - what is counted for a connection that was closed stays counted until its socket is gone.

use alloc::collections::BTreeMap;

use crate::target::limits::{NARROW_WINDOW_MAX, OUTPUT_MIN, WINDOW_MIN};
use crate::target::{ConnectionId, Limits};

/// What a session has of the room that sessions share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    /// It may send data unasked, and long segments.
    pub(super) is_wide: bool,
    /// Unsolicited data that its window lets in beyond the smallest window's.
    pub(super) extra: u64,
}

#[derive(Debug)]
pub(super) struct Load {
    limits: Limits,
    wide: usize,
    extra: u64,
    extra_max: u64,
    input: usize,
    output: usize,
    /// Output of connections that were closed, while their sockets have it.
    lingering: BTreeMap<ConnectionId, usize>,
}

impl Load {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            wide: 0,
            extra: 0,
            extra_max: limits.window_bytes_max - limits.guaranteed_window_bytes(),
            input: 0,
            output: 0,
            lingering: BTreeMap::new(),
        }
    }

    /// A place for one more session.
    pub(super) const fn take_place(&mut self) -> Allowance {
        let is_wide = self.wide < self.limits.wide_sessions_max;
        if is_wide {
            self.wide += 1;
        }
        Allowance { is_wide, extra: 0 }
    }

    /// A session, or a login, has ended.
    pub(super) fn give_back(&mut self, allowance: Allowance) {
        assert!(allowance.extra <= self.extra, "what is given back was had");
        self.extra -= allowance.extra;
        self.wide -= usize::from(allowance.is_wide);
    }

    /// The window that a session may have, each command of which may bring `unsolicited` bytes.
    pub(super) fn window(&self, allowance: Allowance, unsolicited: u32) -> u32 {
        if !allowance.is_wide {
            return self.limits.window.min(NARROW_WINDOW_MAX);
        }
        let share = (self.extra_max - self.extra + allowance.extra) / 2;
        let extra = share / u64::from(unsolicited.max(1));
        let extra = u32::try_from(extra).unwrap_or(u32::MAX);
        WINDOW_MIN.saturating_add(extra).min(self.limits.window)
    }

    /// A session's window, with the commands that it has let in, is now `commands`.
    pub(super) fn note_window(
        &mut self,
        allowance: &mut Allowance,
        commands: u32,
        unsolicited: u32,
    ) {
        if !allowance.is_wide {
            return;
        }
        let extra = u64::from(commands.saturating_sub(WINDOW_MIN)) * u64::from(unsolicited);
        self.extra = self.extra - allowance.extra + extra;
        allowance.extra = extra;
        assert!(
            self.extra <= self.extra_max,
            "windows stay within their room"
        );
    }

    /// Input of a connection takes `after` bytes, which were `before`. False if it has to go.
    pub(super) const fn note_input(&mut self, before: usize, after: usize) -> bool {
        self.input = self.input - before + after;
        let share = self.limits.input_total_max / self.limits.connections_max;
        self.input <= self.limits.input_total_max || after <= share
    }

    /// Whether whoever waits for a turn is not to bring more: half of the memory for input is taken.
    pub(super) const fn is_input_short(&self) -> bool {
        self.input >= self.limits.input_total_max / 2
    }

    pub(super) const fn note_output(&mut self, bytes: usize) {
        self.output += bytes;
    }

    /// A socket has taken `bytes`.
    pub(super) fn note_taken(&mut self, bytes: usize) {
        assert!(
            bytes <= self.output,
            "a socket takes only what it was given"
        );
        self.output -= bytes;
    }

    /// A connection is being closed with so many bytes that its socket has not taken.
    pub(super) fn linger(&mut self, connection: ConnectionId, unsent: usize) {
        if unsent > 0 {
            self.lingering.insert(connection, unsent);
        }
    }

    /// The socket of a connection that was closed has taken `bytes`; all, if it is gone.
    pub(super) fn note_lingering(&mut self, connection: ConnectionId, bytes: Option<usize>) {
        let Some(unsent) = self.lingering.get_mut(&connection) else {
            return;
        };
        let taken = bytes.unwrap_or(*unsent);
        assert!(taken <= *unsent, "a socket takes only what it was given");
        *unsent -= taken;
        if *unsent == 0 {
            self.lingering.remove(&connection);
        }
        self.note_taken(taken);
    }

    /// Output from which on a connection makes no more.
    pub(super) const fn output_max(&self) -> usize {
        if self.is_output_short() {
            OUTPUT_MIN
        } else {
            self.limits.output_bytes_max
        }
    }

    /// The longest piece of data that a PDU should carry, for a session that would take `length`.
    pub(super) fn piece_max(&self, length: u32) -> u32 {
        if self.is_output_short() {
            length.min(OUTPUT_MIN as u32)
        } else {
            length
        }
    }

    const fn is_output_short(&self) -> bool {
        self.output >= self.limits.output_total_max
    }
}
