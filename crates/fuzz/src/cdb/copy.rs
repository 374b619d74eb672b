//! EXTENDED COPY within the unit: lists that mean something, what they come to, and what is told of them.
//!
//! Invariants:
//! - after a copy the medium holds what one move after another would have left there, as far as the copy says it came;
//! - a list that is right is done, unless the medium or a reservation keeps it from that;
//! - RECEIVE COPY RESULTS tells of each copy what its answer told, and of no other.

use std::collections::BTreeMap;

use holdfast_scsi::{
    CopyReport, Geometry, Response, ResultsWanted, Sense, SenseKey, Status, limits,
};

use super::medium::{KEPT_BYTES_MAX, Medium};
use crate::Input;

/// Bytes that the lists of one input copy, as far as they are drawn here: more takes long, and says no more.
pub(super) const COPIED_BYTES_MAX: u64 = 16 << 20;

/// A list that the input asked for.
pub(super) struct Drawn {
    pub(super) list: Vec<u8>,
    /// Nothing about it is to be refused.
    pub(super) is_right: bool,
}

/// What there is to be copied.
pub(super) struct Field {
    pub(super) naa: [u8; 16],
    pub(super) geometry: Geometry,
    /// So many bytes may be copied yet.
    pub(super) left: u64,
}

/// What a segment asks for, in bytes.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: u128,
    to: u128,
    length: u64,
    is_of_bytes: bool,
}

impl Field {
    /// A list for this unit, right or nearly so.
    pub(super) fn draw(&mut self, input: &mut Input<'_>) -> Drawn {
        let shape = input.u8();
        let cscd_count = usize::from(shape & 1) + 1;
        let segment_count = usize::from(shape >> 1 & 7) + 1;
        // LIST ID USAGE: data may be held, may be discarded; and nobody asks.
        let (usage, identifier) = match shape >> 4 & 3 {
            0 | 1 => (0b00, input.u8() & 3),
            2 => (0b10, input.u8() & 3),
            _ => (0b11, 0),
        };
        let cscds = [self.cscd(), self.cscd()];
        let cscds = &cscds.concat()[..cscd_count * 32];
        let segments: Vec<Vec<u8>> = (0..segment_count)
            .map(|_| self.segment(input, cscd_count))
            .collect();
        let segments = segments.concat();
        let mut list = vec![identifier, usage << 3];
        list.extend((cscds.len() as u16).to_be_bytes());
        list.extend([0; 4]);
        list.extend((segments.len() as u32).to_be_bytes());
        list.extend([0; 4]);
        list.extend(cscds);
        list.extend(segments);
        let mut is_right = self.has_all(&moves(&list, self.geometry));
        if shape >> 6 == 3 {
            spoil(&mut list, input);
            is_right = false;
        }
        Drawn { list, is_right }
    }

    /// Of the unit itself: binary, of a logical unit, NAA.
    fn cscd(&self) -> Vec<u8> {
        let mut cscd = vec![0xE4, 0, 0, 0, 0x01, 0x03, 0, 16];
        cscd.extend(self.naa);
        cscd.extend([0; 4]);
        cscd.extend((self.geometry.block_length().bytes() as u32).to_be_bytes());
        cscd
    }

    fn segment(&mut self, input: &mut Input<'_>, cscd_count: usize) -> Vec<u8> {
        let form = input.u8();
        let is_of_bytes = form & 0x01 != 0;
        let block = self.geometry.block_length().bytes();
        let whole = |at: u64| if is_of_bytes { at } else { at - at % block };
        let from = whole(self.position(input));
        let to = match form & 0x02 {
            0 => self.position(input),
            _ => {
                // Near enough to overlap.
                let by = self.scaled(input);
                let (before, behind) = (from.saturating_sub(by), from + by);
                if form & 0x04 != 0 { before } else { behind }
            }
        };
        let to = whole(to);
        let mut length = self.scaled(input).min(self.left);
        // A few may reach beyond the end.
        if form & 0x18 != 0x18 {
            let room = self.geometry.bytes().saturating_sub(from.max(to));
            length = length.min(room);
        }
        if !is_of_bytes {
            length = (length / block).min(0xFFFF) * block;
        }
        self.left -= length;
        // DC and CAT: neither changes anything within one unit.
        let flags = form >> 5 & 0x03;
        let ids = [
            input.below(cscd_count) as u16,
            input.below(cscd_count) as u16,
        ];
        let skips_more = form & 0x80 != 0;
        let place = |at: u64| match (at / block, at % block) {
            (number @ 1.., skip) if is_of_bytes && skips_more => (number - 1, skip + block),
            other => other,
        };
        let (from, to) = (place(from), place(to));
        let mut segment = vec![if is_of_bytes { 0x0A } else { 0x02 }, flags, 0];
        segment.push(if is_of_bytes { 28 } else { 24 });
        segment.extend(ids.map(u16::to_be_bytes).concat());
        segment.extend(match is_of_bytes {
            true => (length as u32).to_be_bytes(),
            false => ((length / block) as u32).to_be_bytes(),
        });
        segment.extend(from.0.to_be_bytes());
        segment.extend(to.0.to_be_bytes());
        if is_of_bytes {
            segment.extend((from.1 as u16).to_be_bytes());
            segment.extend((to.1 as u16).to_be_bytes());
        }
        segment
    }

    /// Some byte of the unit, where something is kept, or at its end.
    fn position(&self, input: &mut Input<'_>) -> u64 {
        let end = self.geometry.bytes();
        match input.u8() & 7 {
            7 => end - u64::from(input.u16()).min(end),
            _ => self.scaled(input) % end.min(KEPT_BYTES_MAX),
        }
    }

    /// A number of bytes, blocks, or pieces of 64 KiB.
    fn scaled(&self, input: &mut Input<'_>) -> u64 {
        let scale = [1, self.geometry.block_length().bytes(), 64 << 10];
        let number = u64::from(input.u16());
        let scale = input.pick(&scale);
        number * scale % (KEPT_BYTES_MAX + 1)
    }

    fn has_all(&self, moves: &[Move]) -> bool {
        moves.iter().all(|it| it.lies_in(self.geometry))
    }
}

/// Makes it a little wrong, mostly.
fn spoil(list: &mut Vec<u8>, input: &mut Input<'_>) {
    let at = usize::from(input.u16()) % list.len();
    match input.u8() {
        0 => list.truncate(at),
        1 => list.extend([0; 32]),
        bits => list[at] ^= bits,
    }
}

impl Move {
    fn lies_in(&self, geometry: Geometry) -> bool {
        let room = u128::from(geometry.bytes());
        self.from.max(self.to) + u128::from(self.length) <= room
            && self.length <= limits::COPY_SEGMENT_BYTES_MAX
    }

    /// Its end goes first.
    fn goes_backwards(&self) -> bool {
        self.from < self.to && self.to - self.from < u128::from(self.length)
    }

    /// Does the first `done` bytes of it, of those that go first.
    fn apply(&self, medium: &mut Medium, done: u64) {
        let skipped = match self.goes_backwards() {
            true => self.length - done,
            false => 0,
        };
        let (from, to) = (self.from as u64 + skipped, self.to as u64 + skipped);
        medium.copy(from, to, done);
    }

    /// What is told of it as not done, when so much is (SPC-4 6.4): all of it, where its front was not done.
    fn residue(&self, done: u64, block: u64) -> u64 {
        let done = if self.goes_backwards() { 0 } else { done };
        (self.length - done) / if self.is_of_bytes { 1 } else { block }
    }
}

/// What a list that was taken asks for.
fn moves(list: &[u8], geometry: Geometry) -> Vec<Move> {
    let block = geometry.block_length().bytes();
    let number = |at: usize, length: usize| -> u128 {
        let bytes = list[at..at + length].iter();
        bytes.fold(0, |value, byte| value << 8 | u128::from(*byte))
    };
    let mut at = 16 + number(2, 2) as usize;
    let end = at + number(8, 4) as usize;
    let mut moves = Vec::new();
    while at < end {
        let is_of_bytes = list[at] == 0x0A;
        let (length, skips) = match is_of_bytes {
            true => (
                number(at + 8, 4) as u64,
                [number(at + 28, 2), number(at + 30, 2)],
            ),
            false => (number(at + 10, 2) as u64 * block, [0; 2]),
        };
        moves.push(Move {
            from: number(at + 12, 8) * u128::from(block) + skips[0],
            to: number(at + 20, 8) * u128::from(block) + skips[1],
            length,
            is_of_bytes,
        });
        at += 4 + number(at + 2, 2) as usize;
    }
    moves
}

/// What a copy that was answered left on the medium.
pub(super) fn check(
    list: &[u8],
    before: Medium,
    after: &Medium,
    (geometry, report, response): (Geometry, CopyReport, &Response),
) {
    let moves = moves(list, geometry);
    let (done, rest) = moves.split_at(usize::from(report.segments));
    let mut model = before;
    let mut left = report.bytes;
    for it in done {
        assert!(it.lies_in(geometry), "it was checked before: {it:?}");
        assert!(it.length <= left, "what is done is written");
        it.apply(&mut model, it.length);
        left -= it.length;
    }
    let residue = response.sense.and_then(|sense| sense.information);
    if let (Some(residue), Some(it)) = (residue, rest.first()) {
        assert!(it.lies_in(geometry), "it was checked before: {it:?}");
        assert!(left < it.length, "something was not done");
        it.apply(&mut model, left);
        let block = geometry.block_length().bytes();
        assert_eq!(residue, it.residue(left, block), "what was not done");
    } else {
        assert_eq!(left, 0, "no segment is done in part");
    }
    let is_good = response.status == Status::Good;
    assert!(!is_good || rest.is_empty(), "all is done");
    assert!(model.is_like(after), "one move after another: {moves:?}");
}

/// What was answered to the copies of one nexus.
#[derive(Default)]
pub(super) struct Told(BTreeMap<u8, Ended>);

struct Ended {
    report: CopyReport,
    status: Status,
    sense: Option<Sense>,
    /// Its status was asked for.
    is_told: bool,
}

impl Told {
    /// A copy was answered.
    pub(super) fn note(&mut self, report: CopyReport, response: &Response) {
        let ended = Ended {
            report,
            status: response.status,
            sense: response.sense,
            is_told: false,
        };
        if let Some(identifier) = report.identifier {
            self.0.insert(identifier, ended);
        }
    }

    /// Nothing is known after a reset.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What RECEIVE COPY RESULTS was answered with, if it was not kept from that; of the answer at least
    /// `expected` bytes are there.
    pub(super) fn check(
        &mut self,
        (wanted, identifier, allocation_length): (ResultsWanted, u8, u32),
        expected: u64,
        response: &Response,
    ) {
        let is_refused = match (response.status, response.sense) {
            (Status::Good, _) => false,
            (_, Some(sense)) if sense.key == SenseKey::IllegalRequest => true,
            _ => return,
        };
        let ended = self.0.get_mut(&identifier);
        let answer = match wanted {
            ResultsWanted::Parameters => {
                assert!(!is_refused, "it asks about no copy");
                check_parameters(&response.data_in.concat());
                return;
            }
            ResultsWanted::Status => {
                let untold = ended.filter(|ended| !ended.is_told);
                assert_eq!(is_refused, untold.is_none(), "once, for each copy");
                let Some(ended) = untold else { return };
                ended.is_told = true;
                ended.status_data()
            }
            ResultsWanted::Failure => {
                assert!(!is_refused, "no copy is under way");
                let failed = ended.filter(|ended| ended.status != Status::Good);
                failed.map_or(vec![0; 4], |ended| ended.failure_data())
            }
        };
        let data = response.data_in.concat();
        let whole = (answer.len() as u64).min(allocation_length.into());
        assert!(
            data.len() as u64 >= whole.min(expected),
            "all that there is room for"
        );
        assert_eq!(data, answer[..data.len()], "as the copy was answered");
        // Who was told everything, or wanted nothing of it, does not ask again (SPC-4, RECEIVE COPY FAILURE DETAILS).
        let is_over = allocation_length == 0 || allocation_length as usize >= answer.len();
        let is_failure = wanted == ResultsWanted::Failure && answer.len() > 4;
        let succeeded = |ended: &Ended| ended.is_told && ended.status == Status::Good;
        if is_failure && is_over || self.0.get(&identifier).is_some_and(succeeded) {
            self.0.remove(&identifier);
        }
    }
}

impl Ended {
    /// AVAILABLE DATA, COPY MANAGER STATUS, SEGMENTS PROCESSED, TRANSFER COUNT UNITS and TRANSFER COUNT.
    fn status_data(&self) -> Vec<u8> {
        let mut data = vec![0, 0, 0, 8];
        data.push(if self.status == Status::Good { 1 } else { 2 });
        data.extend(self.report.segments.to_be_bytes());
        data.push(0);
        data.extend((self.report.bytes as u32).to_be_bytes());
        data
    }

    /// AVAILABLE DATA, EXTENDED COPY COMMAND STATUS, SENSE DATA LENGTH and SENSE DATA.
    fn failure_data(&self) -> Vec<u8> {
        let sense = self.sense.map(|sense| sense.encode_fixed());
        let sense = sense.as_ref().map_or(&[][..], |sense| sense);
        let mut data = vec![0; 60];
        data[3] = 56 + sense.len() as u8;
        data[56] = self.status.code();
        data[59] = sense.len() as u8;
        data.extend(sense);
        data
    }
}

/// IMPLEMENTED DESCRIPTOR LIST LENGTH and the list end what is told of all copies.
fn check_parameters(data: &[u8]) {
    let Some((header, types)) = data.split_at_checked(44) else {
        return;
    };
    assert!(types.len() <= usize::from(header[43]), "as many as it says");
    assert!(types.is_sorted(), "ascending");
    let available = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    assert_eq!(available, 40 + u32::from(header[43]), "all that follows it");
}
