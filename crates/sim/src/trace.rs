//! What happened, line by line: virtual time, who, what.
//!
//! Invariant: the same seed gives the same lines, byte for byte; nothing of the machine that it
//! runs on goes into them.

use std::fmt;

use holdfast_stdx::Instant;

/// Where the lines go.
pub enum Trace {
    /// Nowhere: they are not even made.
    Off,
    /// Into a sum that tells two traces apart.
    Hash(Hash),
    /// To whoever wants them.
    Print(Box<dyn FnMut(&str)>),
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Trace")
    }
}

/// The sum of a trace (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        Ok(())
    }
}

impl Trace {
    /// A line.
    pub fn line(&mut self, now: Instant, who: &dyn fmt::Display, what: fmt::Arguments<'_>) {
        match self {
            Self::Off => {}
            Self::Hash(hash) => {
                fmt::write(hash, format_args!("{now} {who} {what}\n"))
                    .expect("a sum takes everything");
            }
            Self::Print(print) => print(&format!("{now} {who} {what}")),
        }
    }

    /// The sum, if one is made.
    #[must_use]
    pub fn hash(&self) -> Option<Hash> {
        match self {
            Self::Hash(hash) => Some(*hash),
            Self::Off | Self::Print(_) => None,
        }
    }
}
