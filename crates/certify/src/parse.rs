//! What targets answer, read. Every byte may be anything: what is cut short or contradicts itself is refused by
//! name.
//!
//! Invariants:
//! - nothing here panics, or loops for longer than the answer is;
//! - lengths in answers are held against what arrived.

pub(crate) mod capacity;
pub(crate) mod identification;
pub(crate) mod inquiry;
pub(crate) mod limits;
pub(crate) mod lists;
pub(crate) mod pages;
pub(crate) mod port_groups;
pub(crate) mod reservations;

use crate::check::{Unmet, failed};

/// An answer that says nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Malformed> for Unmet {
    fn from(Malformed(what): Malformed) -> Self {
        failed("an answer that is well formed", what)
    }
}

/// The byte at `at`.
fn byte(data: &[u8], at: usize, what: &'static str) -> Result<u8, Malformed> {
    data.get(at).copied().ok_or(Malformed(what))
}

/// `N` bytes at `at`.
fn array<const N: usize>(data: &[u8], at: usize, what: &'static str) -> Result<[u8; N], Malformed> {
    let field = data.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().ok_or(Malformed(what))
}

fn word(data: &[u8], at: usize, what: &'static str) -> Result<u16, Malformed> {
    array(data, at, what).map(u16::from_be_bytes)
}

fn double(data: &[u8], at: usize, what: &'static str) -> Result<u32, Malformed> {
    array(data, at, what).map(u32::from_be_bytes)
}

fn quad(data: &[u8], at: usize, what: &'static str) -> Result<u64, Malformed> {
    array(data, at, what).map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use holdfast_stdx::Prng;

    use super::*;

    /// Answers that are cut anywhere, and ones of noise, are refused or read: nothing else.
    #[test]
    fn no_answer_ends_the_program() {
        let mut prng = Prng::from_seed(7);
        for round in 0..20_000 {
            let mut noise = vec![0; prng.below(300) as usize];
            prng.fill(&mut noise);
            // Lengths that nearly fit are the ones that hurt.
            if round % 2 == 0 {
                for at in [1, 2, 3, 4, 5, 6, 7] {
                    if let Some(byte) = noise.get_mut(at) {
                        *byte = if at % 2 == 0 { 0 } else { *byte };
                    }
                }
            }
            let _ = inquiry::Standard::parse(&noise);
            for code in [0x00, 0x80, 0x83, 0xB0, 0xB1, 0xB2] {
                if let Some(byte) = noise.get_mut(1) {
                    *byte = code;
                }
                let _ = pages::supported(&noise);
                let _ = pages::serial(&noise);
                let _ = identification::Identification::parse(&noise);
                let _ = limits::BlockLimits::parse(&noise);
                let _ = limits::Provisioning::parse(&noise);
                let _ = limits::rotation(&noise);
            }
            let _ = capacity::Capacity::parse(&noise);
            let _ = capacity::parse_10(&noise);
            let _ = reservations::Keys::parse(&noise);
            let _ = reservations::Held::parse(&noise);
            let _ = reservations::Capabilities::parse(&noise);
            let _ = reservations::full_status(&noise);
            let _ = port_groups::parse(&noise);
            let _ = lists::luns(&noise);
            let _ = lists::lba_status(&noise);
            let _ = lists::log_parameters(&noise, 0x0C);
            let _ = lists::caching(&noise);
            let _ = lists::is_supported(&noise);
        }
    }
}
