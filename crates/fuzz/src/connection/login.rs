//! Logins: whole ones, as hosts do them, with and without CHAP, and single requests that say anything.

use holdfast_iscsi::negotiation::{Pair, parse_number, parse_text};
use holdfast_iscsi::pdu::{
    InitiatorTaskTag, LoginRequest, LoginResponse, LoginStage, LoginStatus, Reply, Request,
};
use holdfast_iscsi::target::ConnectionId;
use holdfast_iscsi::{ConnectionIdentifier, Isid, Tsih};
use holdfast_stdx::Bytes;
use md5::{Digest as _, Md5};

use super::directory::{CLOSED, KNOWN, OPEN, SECRET};
use super::peer::Peer;
use super::world::World;
use crate::Input;

/// The identifier of our own challenge to the target.
const OURS: &str = "CHAP_I=9\0CHAP_C=0x00112233445566778899aabbccddeeff\0";

/// What a host wants of a login.
struct Wants {
    flags: u8,
    isid: u8,
    /// How a proof goes wrong; zero is right.
    twist: u8,
}

impl Wants {
    const CLOSED: u8 = 0x01;
    const HEADER_DIGEST: u8 = 0x02;
    const DATA_DIGEST: u8 = 0x04;
    const UNSOLICITED: u8 = 0x08;
    const NOT_IMMEDIATE: u8 = 0x10;
    const DISCOVERY: u8 = 0x20;
    const SMALL: u8 = 0x40;
    const STRANGER: u8 = 0x80;

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn who(&self) -> String {
        let host = match self.flags & (Self::CLOSED | Self::STRANGER) {
            Self::CLOSED => KNOWN,
            _ => "iqn.2026-11.example.host:a",
        };
        let target = if self.has(Self::CLOSED) { CLOSED } else { OPEN };
        match self.has(Self::DISCOVERY) {
            true => format!("InitiatorName={host}\0SessionType=Discovery\0"),
            false => format!("InitiatorName={host}\0TargetName={target}\0SessionType=Normal\0"),
        }
    }

    fn keys(&self, declared: u32) -> String {
        let digest = |flag| if self.has(flag) { "CRC32C" } else { "None" };
        let initial = if self.has(Self::UNSOLICITED) {
            "No"
        } else {
            "Yes"
        };
        let immediate = if self.has(Self::NOT_IMMEDIATE) {
            "No"
        } else {
            "Yes"
        };
        format!(
            "HeaderDigest={}\0DataDigest={}\0InitialR2T={initial}\0ImmediateData={immediate}\0\
             MaxRecvDataSegmentLength={declared}\0MaxBurstLength=8192\0FirstBurstLength=4096\0\
             MaxOutstandingR2T=2\0",
            digest(Self::HEADER_DIGEST),
            digest(Self::DATA_DIGEST),
        )
    }
}

/// A login as hosts do it, as far as the target goes along.
pub(super) fn log_in(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    let [flags, isid, twist] = input.array();
    let wants = Wants { flags, isid, twist };
    if wants.has(Wants::CLOSED) && !prove(world, id, &wants) {
        return;
    }
    let declared = if wants.has(Wants::SMALL) { 512 } else { 16_384 };
    let who = if wants.has(Wants::CLOSED) {
        String::new()
    } else {
        wants.who()
    };
    let text = format!("{who}{}", wants.keys(declared));
    let stages = (
        LoginStage::OperationalNegotiation,
        Some(LoginStage::FullFeature),
    );
    // A session that there is takes no login, and declares nothing by it.
    if say(world, id, &wants, stages, &text).is_some() {
        world.peer(id).declared = declared;
    }
}

/// The security stage; false if the login goes no further.
fn prove(world: &mut World, id: ConnectionId, wants: &Wants) -> bool {
    let security = LoginStage::SecurityNegotiation;
    let operational = Some(LoginStage::OperationalNegotiation);
    let text = format!("{}AuthMethod=CHAP,None\0", wants.who());
    if say(world, id, wants, (security, None), &text).is_none() || wants.twist == 1 {
        return false;
    }
    let algorithm = if wants.twist == 2 {
        "CHAP_A=6\0"
    } else {
        "CHAP_A=5\0"
    };
    let Some(text) = say(world, id, wants, (security, None), algorithm) else {
        return false;
    };
    let pairs = parse_text(&text).expect("a target's text is one");
    let find = |name: &str| {
        pairs
            .iter()
            .find(|pair| pair.key == name)
            .map(|pair| pair.value)
    };
    let (Some(identifier), Some(challenge)) = (find("CHAP_I"), find("CHAP_C")) else {
        return false;
    };
    let response = response(identifier, challenge, wants.twist != 3);
    let extra = match wants.twist {
        4 => format!("CHAP_I={identifier}\0CHAP_C={challenge}\0"),
        5 => OURS.into(),
        6 => "CHAP_I=1\0".into(),
        _ => String::new(),
    };
    let name = if wants.twist == 7 { "other" } else { "host" };
    // The response is right, and what else is said does not matter to that.
    world.peer(id).is_proved = !matches!(wants.twist, 3 | 7);
    let text = format!("CHAP_N={name}\0CHAP_R={response}\0{extra}");
    say(world, id, wants, (security, operational), &text).is_some()
}

/// The hash of identifier, secret and challenge (RFC 1994 4.1).
fn response(identifier: &str, challenge: &str, is_right: bool) -> String {
    let identifier = parse_number(identifier).expect("an identifier is a number") as u8;
    let digits = challenge
        .strip_prefix("0x")
        .expect("a challenge is in hexadecimal");
    let challenge: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("these are digits"))
        .collect();
    let secret: &[u8] = if is_right { SECRET } else { b"something else" };
    let hash = Md5::new()
        .chain_update([identifier])
        .chain_update(secret)
        .chain_update(&challenge)
        .finalize();
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// One request of a login; the text that answers it, if it is answered well and at once.
fn say(
    world: &mut World,
    id: ConnectionId,
    wants: &Wants,
    stages: (LoginStage, Option<LoginStage>),
    text: &str,
) -> Option<Bytes> {
    let request = request(world.peer(id), stages, wants.isid);
    world.peer(id).replies.clear();
    world.send_pdu(id, &Request::Login(request), text.as_bytes());
    match world.peer(id).replies.pop_back()? {
        (Reply::Login(response), data) if response.status == LoginStatus::Success => Some(data),
        _ => None,
    }
}

fn request(
    peer: &Peer,
    (current, next): (LoginStage, Option<LoginStage>),
    isid: u8,
) -> LoginRequest {
    LoginRequest {
        transit: next.is_some(),
        more: false,
        current,
        next,
        version_max: 0,
        version_min: 0,
        isid: Isid([0x80, 0, 0, 0, 0, isid & 3]),
        tsih: Tsih(u16::from(isid >> 6)),
        task_tag: InitiatorTaskTag(7),
        connection: ConnectionIdentifier(1),
        command_number: peer.next_number(),
        expected_status: peer.expected_status(),
    }
}

/// One request that says anything, in any stage.
pub(super) fn send_request(world: &mut World, id: ConnectionId, input: &mut Input<'_>) {
    const STAGES: [LoginStage; 3] = [
        LoginStage::OperationalNegotiation,
        LoginStage::SecurityNegotiation,
        LoginStage::FullFeature,
    ];
    const TEXTS: [&str; 12] = [
        "InitiatorName=iqn.2026-11.example.host:a\0\
         TargetName=iqn.2026-11.example.holdfast:demo\0SessionType=Normal\0",
        "InitiatorName=iqn.2026-11.example.host:known\0\
         TargetName=iqn.2026-11.example.holdfast:closed\0",
        "InitiatorName=iqn.2026-11.example.host:a\0SessionType=Discovery\0",
        "AuthMethod=CHAP,None\0",
        "AuthMethod=None\0",
        "CHAP_A=7,5\0",
        "CHAP_N=host\0CHAP_R=0x00\0",
        OURS,
        "HeaderDigest=CRC32C,None\0DataDigest=None,CRC32C\0",
        "MaxBurstLength=512\0FirstBurstLength=16777215\0MaxOutstandingR2T=65535\0",
        "InitialR2T=No\0ImmediateData=No\0MaxRecvDataSegmentLength=16777215\0",
        "X-other=1\0",
    ];
    let (flags, stages, isid) = (input.u8(), input.u8(), input.u8());
    let mut text = String::new();
    for _ in 0..input.below(6) {
        text.push_str(input.pick(&TEXTS));
    }
    let mut text = text.into_bytes();
    let count = usize::from(input.u8());
    text.extend(input.take(count));
    let peer = world.peer(id);
    // What it negotiates is not known here.
    peer.is_measured = false;
    peer.is_orderly = false;
    let current = STAGES[usize::from(stages) % 3];
    let next = STAGES[usize::from(stages >> 4) % 3];
    let mut request = request(peer, (current, (flags & 1 == 0).then_some(next)), isid);
    request.more = flags & 2 != 0;
    request.version_min = flags >> 7;
    if flags & 4 != 0 {
        request.task_tag = InitiatorTaskTag(8);
    }
    if flags & 8 != 0 {
        request.connection = ConnectionIdentifier(2);
    }
    world.send_pdu(id, &Request::Login(request), &text);
}

impl Peer {
    /// What the answer to a login request agrees on.
    pub(super) fn note_login(&mut self, response: &LoginResponse, data: &Bytes) {
        if response.status != LoginStatus::Success {
            assert_eq!(response.next, None, "what is refused goes nowhere");
            return;
        }
        let pairs = parse_text(data).expect("a target's text is one");
        for Pair { key, value } in pairs {
            let number = parse_number(value);
            match (key, number) {
                ("HeaderDigest", _) => self.agreed.header_digest = value == "CRC32C",
                ("DataDigest", _) => self.agreed.data_digest = value == "CRC32C",
                ("MaxBurstLength", Some(number)) => self.burst_max = number,
                ("MaxOutstandingR2T", Some(number)) => self.ready_to_transfer_max = number,
                ("MaxRecvDataSegmentLength", Some(number)) => self.segment_max = number,
                _ => {}
            }
        }
        if response.next == Some(LoginStage::FullFeature) {
            assert_ne!(response.tsih, Tsih::NEW, "a session has a number");
            // Digests hold when the login is over.
            self.framing = self.agreed;
            self.begin(response.sequence);
        }
    }
}
