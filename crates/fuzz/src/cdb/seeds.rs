//! Inputs to begin with: every command that the unit says it knows, lists as hosts send them, and copies.

use holdfast_scsi::cdb::CDB_LENGTH_MAX;
use holdfast_scsi::{Cdb, Outcome, Request, Status, Surroundings};

use super::Bench;

/// Every command that the unit says it knows, with the bits that it says it reads, few of them set;
/// and lists as hosts send them.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut bench = Bench::new(0);
    let mut report = [0; CDB_LENGTH_MAX];
    report[..2].copy_from_slice(&[0xA3, 0x0C]);
    report[8] = 0xFF;
    let known = bench.returned(&report);
    let mut seeds = Vec::new();
    for (index, descriptor) in known[4..].chunks_exact(8).enumerate() {
        let mut one = [0; CDB_LENGTH_MAX];
        one[..2].copy_from_slice(&[0xA3, 0x0C]);
        let has_action = descriptor[5] & 1 != 0;
        one[2] = if has_action { 2 } else { 1 };
        one[3] = descriptor[0];
        one[4..6].copy_from_slice(&descriptor[2..4]);
        one[8] = 0xFF;
        let usage = bench.returned(&one);
        let mut cdb = [0; CDB_LENGTH_MAX];
        for (at, mask) in usage[4..].iter().take(CDB_LENGTH_MAX).enumerate() {
            // Lengths and addresses end in what is set: one block, a few bytes.
            cdb[at] = mask & if at == 0 { 0xFF } else { 0x08 };
        }
        if has_action {
            cdb[1] |= descriptor[3];
        }
        // The unit says that it is new before it does anything.
        let ready = [0x00; 17];
        for kind in [0x60, 0x21 | (index as u8 & 3) << 1] {
            let mut seed = vec![kind];
            seed.extend(ready);
            seed.push(0x00);
            seed.extend(cdb);
            seed.extend([16, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8]);
            seeds.push(seed);
        }
    }
    seeds.extend(lists());
    seeds.extend(copies());
    seeds
}

/// Commands whose data is a list.
fn lists() -> Vec<Vec<u8>> {
    let unmap: &[u8] = &[
        0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0,
    ];
    let select: &[u8] = &[
        0, 0, 0, 0, 0x08, 0x12, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let groups: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 7];
    let register: &[u8] = &[
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let mut seeds = Vec::new();
    for (cdb, list) in [
        (&[0x42, 0, 0, 0, 0, 0, 0, 0, 24][..], unmap),
        (&[0x15, 0x10, 0, 0, 24], select),
        (&[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 12], groups),
        (&[0x5F, 0, 0, 0, 0, 0, 0, 0, 24], register),
    ] {
        let mut seed = vec![0x60];
        seed.extend([0; 17]);
        let mut padded = [0; CDB_LENGTH_MAX];
        padded[..cdb.len()].copy_from_slice(cdb);
        seed.push(0);
        seed.extend(padded);
        seed.push(list.len() as u8);
        seed.extend(list);
        seeds.push(seed);
    }
    seeds
}

/// A unit of 64 MiB, of blocks of 512 bytes and of 4 KiB.
const LARGE: [u8; 2] = [0x64, 0x65];
/// How lists are drawn (`Bench::draw_copy`): something is sown, and the medium fails after two operations if it does.
const DRAWN: u8 = 0x0B;

/// Copies, and questions about them.
fn copies() -> Vec<Vec<u8>> {
    // By 64 KiB: a segment of 3 MiB to 1 MiB behind it, before it, and elsewhere.
    let behind = [0x02, 0, 0, 4, 2, 0, 16, 2, 0, 48, 2, 0, 0];
    let before = [0x06, 0, 0, 32, 2, 0, 16, 2, 0, 48, 2, 0, 0];
    let elsewhere = [0x20, 0, 0, 4, 2, 0, 0, 64, 2, 0, 16, 2, 0, 0];
    // By bytes: 5,000 to 700 behind them; 700 from one skip of more than a block to another.
    let bytes_behind = [0x03, 0, 0x10, 0x03, 0, 0x02, 0xBC, 0, 0x13, 0x88, 0, 0, 0];
    let bytes_apart = [
        0x81, 0, 0x22, 0x22, 0, 0, 0x70, 0x11, 0, 0x02, 0xBC, 0, 0, 0,
    ];
    // Five blocks of a run of zeros to where there are none.
    let zeros = [0x00, 0, 0, 216, 1, 0, 0, 10, 1, 0, 5, 1, 0, 0];
    let mut seeds = Vec::new();
    for kind in LARGE {
        for segments in [
            &[&behind[..]][..],
            &[&before],
            &[&elsewhere],
            &[&bytes_behind],
            &[&bytes_apart],
            &[&zeros],
            &[&bytes_behind, &zeros, &before, &elsewhere],
        ] {
            let shape = (segments.len() as u8 - 1) << 1;
            for flags in [0x00, 0x04] {
                let mut seed = copy(kind, flags, shape, &segments.concat());
                for action in [0x00, 0x04, 0x03] {
                    seed.push(0);
                    let mut cdb = [0; CDB_LENGTH_MAX];
                    cdb[..3].copy_from_slice(&[0x84, action, 1]);
                    cdb[13] = 0xFF;
                    seed.extend(cdb);
                }
                seeds.push(seed);
            }
            // One byte of the list is another.
            let mut nearly = copy(kind, 0, shape | 0xC0, &segments.concat());
            nearly.extend([0, 0x32, 0x04]);
            seeds.push(nearly);
        }
    }
    seeds
}

/// An EXTENDED COPY with the list identifier 1, and what the unit says before it.
fn copy(kind: u8, flags: u8, shape: u8, segments: &[u8]) -> Vec<u8> {
    let mut seed = vec![kind];
    seed.extend([0; 1 + CDB_LENGTH_MAX]);
    seed.push(flags);
    if flags & 0x04 != 0 {
        // How the medium fails: what is lost.
        seed.push(1);
    }
    let mut cdb = [0; CDB_LENGTH_MAX];
    cdb[0] = 0x83;
    seed.extend(cdb);
    seed.extend([DRAWN, 0x5A, shape, 1]);
    seed.extend(segments);
    seed
}

impl Bench {
    /// What a command returns to an initiator that has heard that the unit is new.
    fn returned(&mut self, cdb: &[u8]) -> Vec<u8> {
        for cdb in [&[0; 6], cdb] {
            let (port, nexus) = &mut self.sides[0];
            let request = Request {
                cdb: Cdb::parse(cdb, self.unit.geometry()),
                data_out: Vec::new(),
                data_out_expected: 0,
                data_in_expected: u64::MAX,
                luns: &[],
                access: &self.access,
                port,
                surroundings: Surroundings {
                    target: "",
                    groups: &self.groups,
                    provisioning: None,
                },
            };
            let outcome = self.unit.begin(nexus, request);
            if let Outcome::Done(response) = outcome
                && response.status == Status::Good
                && cdb.len() > 6
            {
                return response.data_in.concat();
            }
        }
        panic!("{cdb:x?} returns what the unit knows");
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Medium;
    use super::*;
    use crate::Input;

    /// How a seed's copy is answered, and whether it changed anything.
    fn copied(seed: &[u8]) -> (Status, bool) {
        let mut input = Input::new(seed);
        let mut bench = Bench::new(input.u8());
        let [_, copy] = [(); 2].map(|()| {
            let sent = bench.draw(&mut input);
            bench.send(&sent)
        });
        let mut sown = Medium::new(bench.unit.geometry());
        sown.sow(0x5A);
        (copy.status, !bench.medium.is_like(&sown))
    }

    #[test]
    fn copies_are_done_interrupted_and_refused() {
        let mut interrupted = 0;
        for seeds in copies().chunks(3) {
            let [done, failing, nearly] = [0, 1, 2].map(|index| copied(&seeds[index]));
            assert_eq!(done, (Status::Good, true));
            assert!(failing.1, "one step is done");
            interrupted += usize::from(failing.0 == Status::CheckCondition);
            assert_eq!(nearly, (Status::CheckCondition, false));
        }
        assert!(interrupted >= 6, "copies of several steps");
    }
}
