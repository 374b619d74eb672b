//! Commands about reservations, one after the other, on one record: PERSISTENT RESERVE OUT with any
//! parameter list, PERSISTENT RESERVE IN, RESERVE and RELEASE, resets, lost nexuses.
//!
//! Invariants:
//! - the record stays sound and can be stored: it is read as it was written, and within its bounds;
//! - what is refused changes nothing; what changes counts once, and the fence rises exactly where
//!   somebody lost a right, or commands of others are aborted;
//! - who may read and write follows from the record by the table of SPC-4 5.12.1, worked out here
//!   once more;
//! - READ KEYS and READ FULL STATUS tell of the registrations that there are, and no others.

use holdfast_model::metadata::VALUE_LENGTH_MAX;
use holdfast_model::record::{AccessNexus, AccessRecord, Isid, Record, ReservationKind as Kind};
use holdfast_model::{ClusterId, NodeId, VolumeId};
use holdfast_scsi::limits::REGISTRATIONS_MAX;
use holdfast_scsi::reservation::{
    attentions, is_repeat, on_nexus_loss, on_reset, permits, takes_away,
};
use holdfast_scsi::{
    AccessRequest, BlockLength, Cdb, Decision, Geometry, Identity, LogicalUnit, Need, Nexus,
    Outcome, Request, Response, Status, Surroundings,
};
use holdfast_stdx::Bytes;

use crate::Input;

mod list;

/// Commands of one input.
const COMMANDS_MAX: usize = 64;
/// PERSISTENT RESERVE IN, PERSISTENT RESERVE OUT, RESERVE (6), RELEASE (6).
const IN: u8 = 0x5E;
const OUT: u8 = 0x5F;
const RESERVE: u8 = 0x16;
const RELEASE: u8 = 0x17;

struct World {
    unit: LogicalUnit,
    record: AccessRecord,
    ports: Vec<NodeId>,
}

/// What an input does, by its number: service actions of PERSISTENT RESERVE OUT are below eight.
mod step {
    pub(super) const READ: u8 = 8;
    pub(super) const RESERVE: u8 = 9;
    pub(super) const RELEASE: u8 = 10;
    pub(super) const RESET: u8 = 11;
    pub(super) const NEXUS_LOSS: u8 = 12;
    pub(super) const RAW: u8 = 13;
    pub(super) const COUNT: usize = 14;
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let ports = input.pick(&[2, 1, 3, 300]);
    let mut world = World {
        unit: LogicalUnit::new(
            Identity::of_volume(ClusterId(1), VolumeId(7)),
            Geometry::new(1 << 20, BlockLength::Emulated512),
        ),
        record: AccessRecord::open(VolumeId(7)),
        ports: (1..=ports).map(NodeId).collect(),
    };
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check_record();
    }
}

/// One of the nexuses that the inputs speak of: few, so that they meet.
fn nexus(number: u8) -> AccessNexus {
    let initiator = match number >> 1 & 3 {
        0 => "iqn.2026-11.example:a".into(),
        1 => "iqn.2026-11.example:b".into(),
        2 => "eui.02004567a425678d".into(),
        // As long as a name may be.
        _ => format!("iqn.{}", "x".repeat(219)),
    };
    AccessNexus {
        initiator,
        isid: Isid([0x80, 0, 0, 0, 0, number >> 3 & 1]),
        port: NodeId(1 + u16::from(number & 1)),
    }
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        let step = input.below(step::COUNT) as u8;
        let sender = nexus(input.u8());
        match step {
            step::READ => {
                let action = input.u8();
                let [high, low] = input.array();
                self.read(&sender, action, u16::from_be_bytes([high, low]));
            }
            step::RESERVE => self.send(&sender, &[RESERVE, 0, 0, 0, 0, 0], &[]),
            step::RELEASE => self.send(&sender, &[RELEASE, 0, 0, 0, 0, 0], &[]),
            step::RESET => self.change(on_reset(&self.record)),
            step::NEXUS_LOSS => self.change(on_nexus_loss(&self.record, &sender)),
            step::RAW => {
                let mut cdb = [OUT, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                cdb[1..3].copy_from_slice(&input.array::<2>());
                let count = usize::from(input.u8());
                let list = input.take(count);
                cdb[8] = list.len() as u8;
                self.send(&sender, &cdb, list);
            }
            action => {
                let (cdb, list) = list::draw(action, input);
                self.send(&sender, &cdb, &list);
            }
        }
    }

    /// The command as it comes out of the unit, or what it is refused with.
    fn begin(
        &self,
        sender: &AccessNexus,
        cdb: &[u8],
        list: &[u8],
    ) -> Result<AccessRequest, Response> {
        let cdb = Cdb::parse(cdb, self.unit.geometry());
        let arrived = list.len().min(cdb.data_out_length() as usize);
        // Whose unit attentions have been told.
        let mut told = Nexus::new(sender.port.0);
        let request = |cdb, data: &[u8]| Request {
            cdb,
            data_out: vec![Bytes::copy_from_slice(data)],
            data_out_expected: data.len() as u64,
            data_in_expected: if data.is_empty() { u64::MAX } else { 0 },
            luns: &[],
            access: &self.record,
            port: sender,
            surroundings: Surroundings::default(),
        };
        let ready = Cdb::parse(&[0; 6], self.unit.geometry());
        let attention = self.unit.begin(&mut told, request(ready, &[]));
        assert!(matches!(attention, Outcome::Done(_)));
        match self.unit.begin(&mut told, request(cdb, &list[..arrived])) {
            Outcome::Access(request) => Ok(request),
            Outcome::Done(response) => Err(response),
            other => panic!("{other:?} is not about reservations"),
        }
    }

    fn send(&mut self, sender: &AccessNexus, cdb: &[u8], list: &[u8]) {
        let request = match self.begin(sender, cdb, list) {
            Ok(request) => request,
            Err(response) => {
                assert_ne!(response.status, Status::Good, "nothing is done by half");
                return;
            }
        };
        let may_be_repeat = is_repeat(&self.record, sender, &request);
        let decision = request.decide(&self.record, sender, &self.ports);
        let again = request.decide(&self.record, sender, &self.ports);
        assert_eq!(decision, again, "a decision depends on the record alone");
        let Decision::Change {
            record,
            abort,
            response,
        } = decision
        else {
            return;
        };
        assert!(!request.is_read(), "who reads changes nothing");
        assert_eq!(response.status, Status::Good);
        assert!(abort.is_sorted_by(|one, other| one < other));
        for aborted in &abort {
            assert!(self.record.registration(aborted).is_some());
        }
        assert_eq!(record.changes, self.record.changes + 1);
        let aborts_others = abort.iter().any(|other| other != sender);
        let fences = takes_away(&self.record, &record) || aborts_others;
        assert_eq!(record.fence.0, self.record.fence.0 + u64::from(fences));
        assert_eq!(attentions(&self.record, &record, sender), None, "its own");
        for known in &self.record.registrations {
            let told = attentions(&self.record, &record, &known.nexus);
            if record.registration(&known.nexus).is_none()
                && known.nexus.initiator != sender.initiator
            {
                assert!(told.is_some(), "{:?} has to hear of it", known.nexus);
            }
        }
        let rights = |record| {
            let strangers = (0..16).map(nexus);
            let rights = strangers
                .map(|it| [Need::Read, Need::Write].map(|need| permits(record, &it, need)));
            rights.collect::<Vec<_>>()
        };
        let pairs = rights(&self.record).into_iter().zip(rights(&record));
        let lost = pairs.flat_map(|(old, new)| [old[0] && !new[0], old[1] && !new[1]]);
        if lost.into_iter().any(|lost| lost) {
            assert!(fences, "somebody lost a right");
        }
        // What was done with the same words before is not done again.
        if may_be_repeat {
            assert!(self.record.last.is_some());
        }
        self.record = record;
    }

    fn read(&self, sender: &AccessNexus, action: u8, allocation_length: u16) {
        let [high, low] = allocation_length.to_be_bytes();
        let cdb = [IN, action & 0x1F, 0, 0, 0, 0, 0, high, low, 0];
        let Ok(request) = self.begin(sender, &cdb, &[]) else {
            return;
        };
        assert!(request.is_read());
        let decision = request.decide(&self.record, sender, &self.ports);
        let Decision::Answer(response) = decision else {
            panic!("who reads changes nothing");
        };
        if response.status != Status::Good {
            assert!(self.record.reserved.is_some(), "nothing else forbids it");
            return;
        }
        let data = response.data_in.concat();
        assert!(data.len() <= usize::from(allocation_length));
        if data.len() < 8 || action & 0x1F == 2 {
            return;
        }
        assert_eq!(data[..4], self.record.generation.to_be_bytes());
        let length = u32::from_be_bytes([data[4], data[5], data[6], data[7]]) as usize;
        let fits = length + 8 <= usize::from(allocation_length);
        if fits {
            assert_eq!(
                data.len(),
                length + 8,
                "ADDITIONAL LENGTH counts what follows"
            );
        }
        let registrations = &self.record.registrations;
        match action & 0x1F {
            0 => {
                assert_eq!(length, 8 * registrations.len());
                for (key, known) in data[8..].chunks_exact(8).zip(registrations) {
                    assert_eq!(key, known.key.to_be_bytes());
                }
            }
            3 if fits => list::check_full_status(&data[8..], registrations),
            _ => {}
        }
    }

    /// What becomes of the record without a command.
    fn change(&mut self, after: Option<AccessRecord>) {
        if let Some(after) = after {
            assert_eq!(after.changes, self.record.changes + 1);
            assert!(after.fence.0 >= self.record.fence.0, "it never falls");
            self.record = after;
        }
    }

    fn check_record(&self) {
        let record = &self.record;
        assert!(record.is_sound());
        assert!(record.registrations.len() <= REGISTRATIONS_MAX);
        let written = record.encode();
        assert!(written.len() <= VALUE_LENGTH_MAX, "it can be stored");
        let read = AccessRecord::decode(&written).expect("what is written can be read");
        assert_eq!(read, *record);
        for number in 0..16 {
            let nexus = nexus(number);
            assert!(permits(record, &nexus, Need::Nothing));
            for need in [Need::Unreserved, Need::Read, Need::Write] {
                let expected = may(record, &nexus, need);
                assert_eq!(
                    permits(record, &nexus, need),
                    expected,
                    "{record:?} {nexus:?}"
                );
            }
        }
    }
}

/// SPC-4 5.12.1 and SPC-2 5.5.1, in other words.
fn may(record: &AccessRecord, nexus: &AccessNexus, need: Need) -> bool {
    if let Some(holder) = &record.reserved {
        return holder == nexus;
    }
    let Some(reservation) = &record.reservation else {
        return true;
    };
    let is_registered = record.registrations.iter().any(|it| it.nexus == *nexus);
    let is_holder = reservation.holder.as_ref() == Some(nexus);
    match (reservation.kind, need) {
        (_, Need::Nothing | Need::Unreserved) => true,
        (
            Kind::WriteExclusive
            | Kind::WriteExclusiveRegistrantsOnly
            | Kind::WriteExclusiveAllRegistrants,
            Need::Read,
        ) => true,
        (Kind::WriteExclusive | Kind::ExclusiveAccess, _) => is_holder,
        _ => is_registered,
    }
}

pub(crate) use list::seeds;
