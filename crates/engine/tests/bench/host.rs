//! A host, with a session at the portal of the engine's node.

use std::collections::BTreeMap;

use holdfast_engine::{ConnectionId, PortalCommand, PortalEvent};
use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Completion, Initiator, InitiatorCommand, InitiatorConfig,
    InitiatorEvent, InitiatorOutput, SessionKind,
};
use holdfast_iscsi::pdu::TaskManagementCode;
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_model::record::{Record, VolumeRecord};
use holdfast_model::{Policy, VolumeId};
use holdfast_scsi::Lun;
use holdfast_stdx::{Bytes, Duration};

use super::Bench;

pub(crate) const UNIT: Lun = Lun::from_number(0);

pub(crate) fn target(volume: VolumeId) -> String {
    format!("iqn.2026-11.example.holdfast:v{}", volume.0)
}

/// A volume of one slice with one copy, as the metadata has it.
pub(crate) fn volume_document(volume: VolumeId) -> (String, Bytes) {
    let record = VolumeRecord {
        schema: 1,
        volume,
        name: format!("v{}", volume.0),
        bytes: 16 << 20,
        policy: Policy::None,
        target: target(volume),
        lun: 0,
    };
    (VolumeRecord::key(volume), record.encode())
}

pub(crate) fn name(text: &str) -> IscsiName {
    IscsiName::parse(text).expect("it is a name")
}

pub(crate) fn initiator(host: u8) -> String {
    format!("iqn.2026-11.example.host:{host}")
}

/// A host's session with one target.
pub(crate) struct Host {
    pub(crate) initiator: Initiator,
    pub(crate) connection: ConnectionId,
    pub(crate) out: InitiatorOutput,
    pub(crate) done: BTreeMap<CommandTag, Completion>,
    /// Answers to task management, by tag.
    pub(crate) managed: BTreeMap<CommandTag, u8>,
    next_tag: u64,
}

impl Host {
    pub(crate) fn log_in(bench: &mut Bench, host: u8, volume: VolumeId) -> Self {
        let mut host = Self::connect(bench, host, volume);
        assert!(host.initiator.is_logged_in());
        // What is told to whoever is new.
        let ready = CommandRequest::new(UNIT, &[0; 6]);
        assert_eq!(host.complete(bench, ready).status, 0x02);
        host
    }

    /// A session that is being opened.
    pub(crate) fn connect(bench: &mut Bench, host: u8, volume: VolumeId) -> Self {
        let mut config = InitiatorConfig::new(
            name(&initiator(host)),
            Isid([0x80, 0, 0, 0, 0, host]),
            SessionKind::Normal(name(&target(volume))),
        );
        config.ping_after = Duration::from_secs(10_000);
        bench.connections += 1;
        let connection = ConnectionId(bench.connections);
        let mut out = InitiatorOutput::default();
        let mut host = Self {
            initiator: Initiator::connect(bench.now, config, &mut out),
            connection,
            out,
            done: BTreeMap::new(),
            managed: BTreeMap::new(),
            next_tag: 0,
        };
        let from = "a test".into();
        bench.at_portal(PortalEvent::Connected { connection, from });
        host.run(bench);
        host
    }

    /// Moves bytes both ways until there are none. What is for others stays.
    pub(crate) fn run(&mut self, bench: &mut Bench) {
        loop {
            let connection = self.connection;
            for event in std::mem::take(&mut self.out.events) {
                match event {
                    InitiatorEvent::Completed { tag, completion } => {
                        let before = self.done.insert(tag, completion);
                        assert!(before.is_none(), "a command completes once");
                    }
                    InitiatorEvent::TaskManagementDone { tag, response } => {
                        self.managed.insert(tag, response);
                    }
                    _ => {}
                }
            }
            let mut is_idle = true;
            for command in std::mem::take(&mut self.out.commands) {
                is_idle = false;
                if let InitiatorCommand::Send(parts) = command {
                    let bytes = Bytes::from(parts.concat());
                    let received = bench.now;
                    bench.at_portal(PortalEvent::Received {
                        connection,
                        bytes,
                        received,
                    });
                }
            }
            for command in std::mem::take(&mut bench.portal) {
                match command {
                    PortalCommand::Send { connection, parts } if connection == self.connection => {
                        is_idle = false;
                        let bytes = Bytes::from(parts.concat());
                        let count = bytes.len();
                        bench.at_portal(PortalEvent::Sent { connection, count });
                        self.initiator
                            .handle_received(bench.now, bytes, &mut self.out);
                    }
                    other => bench.portal.push(other),
                }
            }
            if is_idle {
                return;
            }
        }
    }

    pub(crate) fn log_out(&mut self, bench: &mut Bench) {
        self.initiator.log_out(bench.now, &mut self.out);
        self.run(bench);
    }

    pub(crate) fn submit(&mut self, bench: &mut Bench, request: CommandRequest) -> CommandTag {
        self.next_tag += 1;
        let tag = CommandTag(self.next_tag);
        let taken = self.initiator.submit(tag, request, &mut self.out);
        taken.expect("the session takes one more");
        self.run(bench);
        tag
    }

    pub(crate) fn complete(&mut self, bench: &mut Bench, request: CommandRequest) -> Completion {
        let tag = self.submit(bench, request);
        bench.pass(10);
        self.run(bench);
        self.done.remove(&tag).expect("it is done")
    }

    pub(crate) fn reset(&mut self, bench: &mut Bench) -> CommandTag {
        self.next_tag += 1;
        let tag = CommandTag(self.next_tag);
        let function = TaskManagementCode::LogicalUnitReset;
        let sent = self.initiator.manage(tag, function, UNIT, &mut self.out);
        sent.expect("it is sent");
        self.run(bench);
        tag
    }
}
