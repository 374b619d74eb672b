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
    /// Commands of one session that wait or are under way: the command window. With many sessions
    /// it is less for each; see `window_bytes_max`.
    pub window: u32,
    /// Immediate commands of one session beyond its window.
    pub immediate_max: usize,
    /// The longest Data-Out of one command. A command that expects to send more is refused.
    pub data_out_max: u32,
    /// The longest Data-In of one command that is given to the layer above as what it may return.
    pub data_in_max: u32,
    /// Data of one connection's tasks that is here, was asked for, or may come back from the layer
    /// above; unsolicited data aside, which the window bounds.
    pub connection_bytes_max: u64,
    /// The same for all connections together.
    pub total_bytes_max: u64,
    /// Unsolicited data that all windows together let in; windows shrink, down to
    /// [`WINDOW_MIN`], when there are many sessions.
    pub window_bytes_max: u64,
    /// Output of one connection that its socket has not taken. Above it no Data-In is made and no
    /// input is wanted.
    pub output_bytes_max: usize,
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
            window: 128,
            immediate_max: 8,
            // Block limits VPD page says 4 MiB at most; twice that is no honest command.
            data_out_max: 8 << 20,
            data_in_max: 8 << 20,
            connection_bytes_max: 16 << 20,
            total_bytes_max: 64 << 20,
            // With `total_bytes_max` and the store's 80 MiB, a node stays below 256 MiB.
            window_bytes_max: 48 << 20,
            output_bytes_max: 1 << 20,
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
        assert!(self.text_bytes_max >= 8192, "one login PDU fits");
    }
}
