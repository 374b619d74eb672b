//! A host that comes when all others are gone: it has all the room that there is, as it has with a
//! machine that has just started.

use holdfast_iscsi::pdu::{
    CommandFlags, LoginRequest, LoginStage, LoginStatus, Reply, Request, ScsiCommand,
};
use holdfast_iscsi::target::ConnectionId;
use holdfast_iscsi::{ConnectionIdentifier, Isid, Tsih, pdu::InitiatorTaskTag};
use holdfast_scsi::{Lun, Response, TaskAttribute};

use super::directory::OPEN;
use super::world::World;

/// The window of a session that has all of the room, in commands: a half of what is beyond the
/// smallest windows, and no more than the limits say.
const WINDOW: u32 = 16;

impl World {
    pub(super) fn probe(&mut self) {
        let id = self.accept();
        let peer = self.peer(id);
        let login = LoginRequest {
            transit: true,
            more: false,
            current: LoginStage::OperationalNegotiation,
            next: Some(LoginStage::FullFeature),
            version_max: 0,
            version_min: 0,
            isid: Isid([0x80, 0, 0, 0, 0, 0xFF]),
            tsih: Tsih::NEW,
            task_tag: InitiatorTaskTag(0),
            connection: ConnectionIdentifier(1),
            command_number: peer.next_number(),
            expected_status: peer.expected_status(),
        };
        let text = format!(
            "InitiatorName=iqn.2026-11.example.host:probe\0TargetName={OPEN}\0InitialR2T=No\0\
             FirstBurstLength=4096\0MaxRecvDataSegmentLength=8192\0"
        );
        self.send_pdu(id, &Request::Login(login), text.as_bytes());
        let reply = self.peer(id).replies.pop_back();
        let Some((Reply::Login(response), data)) = reply else {
            panic!("a login is answered: {reply:?}");
        };
        assert_eq!(response.status, LoginStatus::Success);
        let said = String::from_utf8_lossy(&data);
        assert!(said.contains("InitialR2T=No\0"), "there is room: {said}");
        assert_eq!(self.peer(id).open_window(), Some(WINDOW), "all of it");
        self.probe_room(id, false);
        self.probe_room(id, true);
        self.close(id);
        assert_eq!(self.target_held(), 0);
    }

    /// A command that takes all the room for data, either way.
    fn probe_room(&mut self, id: ConnectionId, reads: bool) {
        let expected_length = self.limits().total_bytes_max as u32;
        let peer = self.peer(id);
        let task_tag = peer.new_tag();
        let command = ScsiCommand {
            immediate: false,
            flags: CommandFlags {
                is_final: true,
                read: reads,
                write: !reads,
            },
            attribute: TaskAttribute::Simple,
            lun: Lun::from_number(0),
            task_tag,
            expected_length,
            command_number: peer.take_number(false),
            expected_status: peer.expected_status(),
            cdb: [0; 16],
        };
        self.send_pdu(id, &Request::Command(command), &[]);
        let command = self.above().commands.pop();
        let command = command.expect("there is room for it");
        assert_eq!(command.expected_in + command.expected_out, expected_length);
        self.with(|target, now, out| target.respond(now, command.task, Response::good(), out));
        let reply = self.peer(id).replies.pop_back();
        let Some((Reply::Response(response), _)) = reply else {
            panic!("a command is answered: {reply:?}");
        };
        assert_eq!(response.task_tag, task_tag);
        assert_eq!(response.status, 0);
    }
}
