//! Inputs to begin with: every command that the unit says it knows, and lists as hosts send them.

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
