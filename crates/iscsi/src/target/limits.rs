//! What a target lets its initiators make it hold and wait for.
//!
//! Invariants:
//! - every figure has a bound that [`Limits::validate`] keeps, so that none can be set to "none".

use holdfast_stdx::Duration;

/// Bounds of one node's target. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections, whatever their state. One more is closed without a word.
    pub connections_max: usize,
    /// Connections that have not finished their login: whoever they are, they are strangers. One
    /// more takes the place of the oldest.
    pub logins_max: usize,
    /// Sessions. One more login is refused with "out of resources".
    pub sessions_max: usize,
    /// The longest data segment that this side takes (its MaxRecvDataSegmentLength).
    pub data_segment_max: u32,
    /// MaxBurstLength that this side offers.
    pub burst_max: u32,
    /// FirstBurstLength that this side offers.
    pub first_burst_max: u32,
    /// MaxOutstandingR2T that this side offers.
    pub ready_to_transfer_max: u16,
    /// Sessions that may send data unasked, and long segments. Beyond them a session is narrow:
    /// its data is asked for, and comes in segments of [`NARROW_SEGMENT_MAX`].
    pub wide_sessions_max: usize,
    /// Commands of one session that wait or are under way: the command window. A narrow session
    /// has at most [`NARROW_WINDOW_MAX`]; what a wide one has above [`WINDOW_MIN`] depends on the
    /// others, see `window_bytes_max`.
    pub window: u32,
    /// Immediate commands of one session beyond its window.
    pub immediate_max: usize,
    /// Task management requests of one session that the layer above has.
    pub management_max: usize,
    /// The longest Data-Out of one command. A command that expects to send more is refused.
    pub data_out_max: u32,
    /// The longest Data-In of one command that is given to the layer above as what it may return.
    pub data_in_max: u32,
    /// Data of one connection's tasks that is here, was asked for, or may come back from the layer
    /// above; unsolicited data aside, which the window bounds.
    pub connection_bytes_max: u64,
    /// The same for all connections together.
    pub total_bytes_max: u64,
    /// Unsolicited data that all windows together let in. Every wide session has room for a window
    /// of [`WINDOW_MIN`] in it; of what is left each may take half.
    pub window_bytes_max: u64,
    /// Memory of input that waits, in sum: parts of PDUs, texts, requests before their turn. Above
    /// it a connection is closed that has more than an equal share.
    pub input_total_max: usize,
    /// Output of one connection that its socket has not taken. From it on no Data-In is made and no
    /// input is wanted.
    pub output_bytes_max: usize,
    /// The same in sum; from it on each connection has [`OUTPUT_MIN`] and one PDU.
    pub output_total_max: usize,
    /// Text of one login or one text exchange.
    pub text_bytes_max: usize,
    /// From the connection to the full feature phase.
    pub login_timeout: Duration,
    /// Silence after which the initiator is asked whether it is there.
    pub ping_after: Duration,
    /// How long it may take to say something after it was asked.
    pub ping_timeout: Duration,
    /// How long the layer above may take to end a session's tasks before its logout is answered
    /// by closing the connection.
    pub drain_timeout: Duration,
}

/// A window never shrinks below this, or hosts could not keep a disk busy.
pub const WINDOW_MIN: u32 = 8;
/// The window of a narrow session, whose commands hold no data until it is asked for.
pub const NARROW_WINDOW_MAX: u32 = 32;
/// The longest data segment that a narrow session sends: what holds without negotiation (RFC 7143
/// 13.12).
pub const NARROW_SEGMENT_MAX: u32 = 8192;
/// Output that every connection may have, however little its neighbours read, and the longest
/// Data-In PDU then.
pub const OUTPUT_MIN: usize = 8192;
/// FirstBurstLength of an initiator that does not negotiate it (RFC 7143 13.14).
const FIRST_BURST_DEFAULT: u32 = 64 << 10;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // 64 volumes of 6 hosts with one path each are 384; discovery and reconnects on top.
            connections_max: 1024,
            logins_max: 64,
            sessions_max: 768,
            data_segment_max: 256 << 10,
            burst_max: 1 << 20,
            // What hosts offer by default (open-iscsi, Windows: 64 KiB) and the RFC's default.
            first_burst_max: 64 << 10,
            ready_to_transfer_max: 4,
            // A dozen volumes with two hosts each; together with `window` this is what
            // `window_bytes_max` has to have room for.
            wide_sessions_max: 24,
            window: 128,
            // Hosts mark task management and NOP-Out as immediate, not commands.
            immediate_max: 2,
            management_max: 8,
            // Block limits VPD page says 4 MiB at most; twice that is no honest command.
            data_out_max: 8 << 20,
            data_in_max: 8 << 20,
            connection_bytes_max: 16 << 20,
            // A node stays below 256 MiB: 48 and 32 MiB of commands' data, which may keep alive a
            // third more than they are; 16 MiB of input; output of 8 MiB, of 16 KiB for each
            // of 1,024 connections, and a PDU of 256 KiB for each wide session; the sockets' 16 MiB;
            // the store's 80 MiB.
            total_bytes_max: 48 << 20,
            window_bytes_max: 32 << 20,
            input_total_max: 16 << 20,
            output_bytes_max: 1 << 20,
            output_total_max: 8 << 20,
            text_bytes_max: 64 << 10,
            login_timeout: Duration::from_secs(15),
            ping_after: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(20),
            drain_timeout: Duration::from_secs(15),
        }
    }
}

impl Limits {
    /// Panics on limits with which no session could work, or that bound nothing.
    pub(crate) fn validate(&self) {
        assert!(self.connections_max >= 1, "a target has connections");
        assert!(self.logins_max >= 1, "connections begin with a login");
        assert!(
            (1..=65_000).contains(&self.sessions_max),
            "TSIHs have 16 bits"
        );
        for length in [self.data_segment_max, self.burst_max, self.first_burst_max] {
            // Ranges of RFC 7143 13.12 to 13.14.
            assert!(
                (512..1 << 24).contains(&length),
                "lengths are 512 bytes to 16 MiB"
            );
        }
        assert!(self.first_burst_max <= self.burst_max, "RFC 7143 13.14");
        assert!(self.ready_to_transfer_max >= 1, "RFC 7143 13.17");
        assert!(
            (WINDOW_MIN..=4096).contains(&self.window),
            "a window is 8 to 4096"
        );
        assert!(
            u64::from(self.data_out_max) <= self.connection_bytes_max,
            "one command fits"
        );
        assert!(
            u64::from(self.data_in_max) <= self.connection_bytes_max,
            "one command fits"
        );
        assert!(
            self.connection_bytes_max <= self.total_bytes_max,
            "one connection fits"
        );
        assert!(self.output_bytes_max >= 64 << 10, "a few PDUs fit");
        assert!(
            self.guaranteed_window_bytes() <= self.window_bytes_max,
            "every wide session has its smallest window"
        );
        assert!(
            self.input_total_max / self.connections_max > NARROW_SEGMENT_MAX as usize,
            "the PDU that each connection waits for fits"
        );
        assert!(self.text_bytes_max >= 8192, "one login PDU fits");
    }

    /// The longest data segment that a session may send.
    pub(super) const fn segment_max(&self, is_wide: bool) -> u32 {
        if is_wide || self.data_segment_max < NARROW_SEGMENT_MAX {
            self.data_segment_max
        } else {
            NARROW_SEGMENT_MAX
        }
    }

    /// Unsolicited data of the smallest windows of all wide sessions, and of their immediate
    /// commands.
    pub(super) fn guaranteed_window_bytes(&self) -> u64 {
        let commands = u64::from(WINDOW_MIN) + self.immediate_max as u64;
        let unsolicited_max = self.first_burst_max.max(FIRST_BURST_DEFAULT);
        self.wide_sessions_max as u64 * commands * u64::from(unsolicited_max)
    }
}
