//! A record that commands are decided on one after the other, and how commands are put together.

use alloc::string::ToString;
use alloc::vec::Vec;

use holdfast_model::record::{
    AccessNexus, AccessRecord, Isid, Registration, Reservation, ReservationKind,
};
use holdfast_model::{NodeId, VolumeId};

use crate::reservation::{attentions, kind, takes_away};
use crate::{
    AccessRequest, AdditionalSense, BlockLength, Cdb, Decision, Geometry, Response, Sense, Status,
    UnitAttention,
};

pub(super) const KINDS: [ReservationKind; 6] = [
    ReservationKind::WriteExclusive,
    ReservationKind::ExclusiveAccess,
    ReservationKind::WriteExclusiveRegistrantsOnly,
    ReservationKind::ExclusiveAccessRegistrantsOnly,
    ReservationKind::WriteExclusiveAllRegistrants,
    ReservationKind::ExclusiveAccessAllRegistrants,
];

pub(super) const PORTS: [NodeId; 2] = [NodeId(1), NodeId(2)];

/// Service actions.
pub(super) const REGISTER: u8 = 0;
pub(super) const RESERVE: u8 = 1;
pub(super) const RELEASE: u8 = 2;
pub(super) const CLEAR: u8 = 3;
pub(super) const PREEMPT: u8 = 4;
pub(super) const PREEMPT_AND_ABORT: u8 = 5;
pub(super) const REGISTER_AND_IGNORE: u8 = 6;
pub(super) const REGISTER_AND_MOVE: u8 = 7;

/// Flags of a parameter list.
pub(super) const APTPL: u8 = 0x01;
pub(super) const ALL_TG_PT: u8 = 0x04;
pub(super) const SPEC_I_PT: u8 = 0x08;

/// The nexus of initiator `name` through a port.
pub(super) fn nexus(name: &str, port: u16) -> AccessNexus {
    let number = name.bytes().next().unwrap_or_default();
    AccessNexus {
        initiator: name.to_string(),
        isid: Isid([0x80, 0, 0, 0, 0, number]),
        port: NodeId(port),
    }
}

/// Those of most tests: two initiators, one of them through two ports, and a third one.
pub(super) fn a1() -> AccessNexus {
    nexus("a", 1)
}
pub(super) fn a2() -> AccessNexus {
    nexus("a", 2)
}
pub(super) fn b1() -> AccessNexus {
    nexus("b", 1)
}
pub(super) fn c1() -> AccessNexus {
    nexus("c", 1)
}

/// A PERSISTENT RESERVE OUT: CDB and parameter list.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub(super) cdb: [u8; 10],
    pub(super) list: Vec<u8>,
}

pub(super) fn out(action: u8, key: u64, action_key: u64) -> Out {
    let mut list = Vec::from(key.to_be_bytes());
    list.extend(action_key.to_be_bytes());
    list.extend([0; 8]);
    Out {
        cdb: [0x5F, action, 0, 0, 0, 0, 0, 0, 24, 0],
        list,
    }
}

impl Out {
    /// Of a type.
    pub(super) fn of(mut self, kind: ReservationKind) -> Self {
        self.cdb[2] = kind::code(kind);
        self
    }

    pub(super) fn with(mut self, flags: u8) -> Self {
        let byte = match self.cdb[1] {
            REGISTER_AND_MOVE => 17,
            _ => 20,
        };
        self.list[byte] |= flags;
        self
    }

    /// With those bytes behind it, and a length that counts them.
    pub(super) fn followed_by(mut self, bytes: &[u8]) -> Self {
        self.list.extend(bytes);
        self.cdb[5..9].copy_from_slice(&(self.list.len() as u32).to_be_bytes());
        self
    }

    /// With those TransportIDs to be registered too.
    pub(super) fn naming(self, ids: &[Vec<u8>]) -> Self {
        let ids = ids.concat();
        let mut bytes = Vec::from((ids.len() as u32).to_be_bytes());
        bytes.extend(ids);
        self.with(SPEC_I_PT).followed_by(&bytes)
    }

    pub(super) fn request(&self) -> Result<AccessRequest, Sense> {
        request(&self.cdb, &self.list)
    }
}

/// A REGISTER AND MOVE to a nexus.
pub(super) fn move_to(key: u64, action_key: u64, destination: &AccessNexus) -> Out {
    let id = crate::reservation::transport_id::encode(destination);
    let mut out = out(REGISTER_AND_MOVE, key, action_key);
    out.list[18..20].copy_from_slice(&destination.port.0.to_be_bytes());
    out.list[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
    out.followed_by(&id)
}

pub(super) fn request(cdb: &[u8], list: &[u8]) -> Result<AccessRequest, Sense> {
    let geometry = Geometry::new(1 << 20, BlockLength::Emulated512);
    AccessRequest::read(Cdb::parse(cdb, geometry).command()?, list)
}

/// What becomes of a record.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) record: AccessRecord,
    /// The one before the last change.
    pub(super) before: AccessRecord,
    /// Whose commands the last command aborted.
    pub(super) aborted: Vec<AccessNexus>,
}

impl World {
    pub(super) fn new() -> Self {
        let record = AccessRecord::open(VolumeId(7));
        Self {
            before: record.clone(),
            record,
            aborted: Vec::new(),
        }
    }

    /// With those registrations.
    pub(super) fn registered(registrations: &[(AccessNexus, u64)]) -> Self {
        let mut world = Self::new();
        for (nexus, key) in registrations {
            world.good(nexus, &out(REGISTER, 0, *key));
        }
        world
    }

    /// The answer to a command, whose change counts at once.
    pub(super) fn run(&mut self, nexus: &AccessNexus, out: &Out) -> Response {
        match out.request() {
            Ok(request) => self.decide(nexus, &request),
            Err(sense) => Response::check_condition(sense),
        }
    }

    pub(super) fn run_cdb(&mut self, nexus: &AccessNexus, cdb: &[u8]) -> Response {
        let request = request(cdb, &[]).expect("it is well formed");
        self.decide(nexus, &request)
    }

    pub(super) fn decide(&mut self, nexus: &AccessNexus, request: &AccessRequest) -> Response {
        let decision = request.decide(&self.record, nexus, &PORTS);
        assert_eq!(decision, request.decide(&self.record, nexus, &PORTS));
        self.aborted.clear();
        match decision {
            Decision::Answer(response) => response,
            Decision::Change {
                record,
                abort,
                response,
            } => {
                assert_eq!(response.status, Status::Good);
                assert!(record.is_sound());
                assert_eq!(record.changes, self.record.changes + 1);
                let aborts_others = abort.iter().any(|other| other != nexus);
                let fences = takes_away(&self.record, &record) || aborts_others;
                assert_eq!(record.fence.0, self.record.fence.0 + u64::from(fences));
                self.before = core::mem::replace(&mut self.record, record);
                self.aborted = abort;
                response
            }
        }
    }

    pub(super) fn good(&mut self, nexus: &AccessNexus, out: &Out) {
        let response = self.run(nexus, out);
        assert_eq!(
            response.status,
            Status::Good,
            "{out:x?} {:?}",
            response.sense
        );
        assert_eq!(response.transfer_length, out.list.len() as u64);
    }

    pub(super) fn conflict(&mut self, nexus: &AccessNexus, out: &Out) {
        let before = self.record.clone();
        let response = self.run(nexus, out);
        assert_eq!(response.status, Status::ReservationConflict, "{out:x?}");
        assert_eq!(self.record, before, "what is refused changes nothing");
    }

    pub(super) fn refuse(&mut self, nexus: &AccessNexus, out: &Out, why: AdditionalSense) {
        let before = self.record.clone();
        let response = self.run(nexus, out);
        assert_eq!(response.status, Status::CheckCondition, "{out:x?}");
        let sense = response.sense.expect("CHECK CONDITION has sense data");
        assert_eq!(sense.key, crate::SenseKey::IllegalRequest);
        assert_eq!(sense.additional, why, "{out:x?}");
        assert_eq!(self.record, before, "what is refused changes nothing");
    }

    /// Who is registered, with which key.
    pub(super) fn registrations(&self) -> Vec<(AccessNexus, u64)> {
        let pair = |it: &Registration| (it.nexus.clone(), it.key);
        self.record.registrations.iter().map(pair).collect()
    }

    pub(super) fn kind(&self) -> Option<ReservationKind> {
        self.record.reservation.as_ref().map(|it| it.kind)
    }

    /// The reservation is of that type, and that nexus's.
    pub(super) fn assert_held(&self, kind: ReservationKind, holder: &AccessNexus) {
        let holder = (!kind::is_held_by_all(kind)).then(|| holder.clone());
        assert_eq!(self.record.reservation, Some(Reservation { kind, holder }));
    }

    /// What the last change is told to a nexus as.
    pub(super) fn told(&self, nexus: &AccessNexus) -> Option<UnitAttention> {
        attentions(&self.before, &self.record, nexus)
    }
}
