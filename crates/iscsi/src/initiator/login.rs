//! The initiator's part of a login (RFC 7143 6.3).
//!
//! Invariants:
//! - what is agreed on follows from what was offered, or the session ends.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use holdfast_stdx::{Bytes, Instant};

use super::proof::Proof;
use super::{
    CONNECTION, EndReason, Initiator, InitiatorEvent, InitiatorOutput, Phase, SessionKind,
};
use crate::PortalGroupTag;
use crate::negotiation::{Digest, Key, Preferences, parse_text, put_pair};
use crate::pdu::{
    Framing, InitiatorTaskTag, LoginRequest, LoginResponse, LoginStage, LoginStatus, Payload,
    Request,
};

/// Answers of one login.
const RESPONSES_MAX: u32 = 16;
/// Text of one answer.
const TEXT_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct LoginState {
    stage: LoginStage,
    pub(super) proof: Proof,
    task_tag: InitiatorTaskTag,
    responses: u32,
    text: Vec<u8>,
}

impl LoginState {
    pub(super) const fn new() -> Self {
        Self {
            stage: LoginStage::SecurityNegotiation,
            proof: Proof::Offered,
            task_tag: InitiatorTaskTag(0),
            responses: 0,
            text: Vec::new(),
        }
    }
}

impl Initiator {
    pub(super) fn begin_login(&mut self, out: &mut InitiatorOutput) {
        let mut text = String::new();
        put_pair(
            &mut text,
            Key::InitiatorName.name(),
            self.config.name.as_str(),
        );
        match &self.config.kind {
            SessionKind::Discovery => put_pair(&mut text, Key::SessionType.name(), "Discovery"),
            SessionKind::Normal(target) => {
                put_pair(&mut text, Key::SessionType.name(), "Normal");
                put_pair(&mut text, Key::TargetName.name(), target.as_str());
            }
        }
        let methods = match &self.config.chap {
            None => "None",
            // A target that would do without would not prove itself either.
            Some(chap) if chap.mutual.is_some() => "CHAP",
            Some(_) => "CHAP,None",
        };
        put_pair(&mut text, Key::AuthMethod.name(), methods);
        self.send_login(text, out);
    }

    fn send_login(&mut self, text: String, out: &mut InitiatorOutput) {
        let Phase::Login(login) = &self.phase else {
            unreachable!("only a login sends its requests");
        };
        let next = match login.stage {
            LoginStage::SecurityNegotiation => LoginStage::OperationalNegotiation,
            _ => LoginStage::FullFeature,
        };
        // The stage is over when everything that proves something has been said.
        let transit = login.proof.may_be_last();
        let request = Request::Login(LoginRequest {
            transit,
            more: false,
            current: login.stage,
            next: Some(next).filter(|_| transit),
            version_max: 0,
            version_min: 0,
            isid: self.config.isid,
            tsih: self.tsih,
            task_tag: login.task_tag,
            connection: CONNECTION,
            command_number: self.next_command,
            expected_status: self.expected_status(),
        });
        self.send(&request, [Bytes::from(text)].into(), out);
    }

    pub(super) fn handle_login(
        &mut self,
        now: Instant,
        response: &LoginResponse,
        data: Payload,
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        if response.status != LoginStatus::Success {
            if response.status == LoginStatus::TargetMovedTemporarily {
                note_redirection(&data.into_bytes(), out);
            }
            return Err(EndReason::LoginRefused(response.status));
        }
        let Phase::Login(login) = &mut self.phase else {
            unreachable!("only a login takes its answers");
        };
        login.responses += 1;
        login.text.extend_from_slice(&data.into_bytes());
        if login.responses > RESPONSES_MAX || login.text.len() > TEXT_BYTES_MAX {
            return Err(EndReason::ProtocolError("a login without end"));
        }
        if response.current != login.stage || response.task_tag != login.task_tag {
            return Err(EndReason::ProtocolError("an answer to another login"));
        }
        if response.more {
            self.send_login(String::new(), out);
            return Ok(());
        }
        let text = core::mem::take(&mut login.text);
        let proof = self.take_answers(&text)?;
        if let Some(text) = proof {
            if response.next.is_some() {
                return Err(EndReason::ProtocolError(
                    "a stage that ends before its proof",
                ));
            }
            self.send_login(text, out);
            return Ok(());
        }
        match response.next {
            Some(_) if !self.is_proved() => return Err(EndReason::NotAuthenticated),
            None => self.send_login(String::new(), out),
            Some(LoginStage::FullFeature) => {
                self.tsih = response.tsih;
                self.finish_login(now, out);
            }
            Some(next) => {
                let Phase::Login(login) = &mut self.phase else {
                    unreachable!("the login goes on");
                };
                login.stage = next;
                let text = offer(&self.config.preferences, &self.config.kind);
                self.send_login(text, out);
            }
        }
        Ok(())
    }

    /// Takes what the target says; the result is what it is told in turn, to prove something.
    fn take_answers(&mut self, text: &[u8]) -> Result<Option<String>, EndReason> {
        let pairs =
            parse_text(text).map_err(|_| EndReason::ProtocolError("a text that is none"))?;
        let proof = self.take_proof(&pairs)?;
        for pair in pairs {
            match Key::from_name(pair.key) {
                Some(Key::TargetPortalGroupTag) => {
                    let tag = pair.value.parse();
                    let tag = tag.map_err(|_| EndReason::ProtocolError("no portal group tag"))?;
                    self.group = Some(PortalGroupTag(tag));
                }
                Some(
                    Key::AuthMethod
                    | Key::ChapAlgorithm
                    | Key::ChapIdentifier
                    | Key::ChapChallenge
                    | Key::ChapName
                    | Key::ChapResponse,
                ) => {}
                Some(key) => self
                    .parameters
                    .accept(key, pair.value, &self.config.preferences)
                    .map_err(|_| EndReason::ProtocolError("an answer that does not follow"))?,
                None => {}
            }
        }
        Ok(proof)
    }

    fn finish_login(&mut self, now: Instant, out: &mut InitiatorOutput) {
        self.framing = Framing {
            header_digest: self.parameters.header_digest,
            data_digest: self.parameters.data_digest,
            data_length_max: self.config.preferences.receive_segment_max as usize,
        };
        self.reader.set_framing(self.framing);
        self.phase = Phase::Full;
        self.deadline = now + self.config.ping_after;
        out.events.push_back(InitiatorEvent::LoggedIn {
            tsih: self.tsih,
            group: self.group,
        });
    }
}

/// Tells the owner where the target is, if the refusal says so.
fn note_redirection(text: &[u8], out: &mut InitiatorOutput) {
    let pairs = parse_text(text).unwrap_or_default();
    let address = pairs.iter().find(|it| it.key == Key::TargetAddress.name());
    if let Some(address) = address {
        let address = address.value.into();
        out.events.push_back(InitiatorEvent::Redirected { address });
    }
}

/// What a session offers in operational negotiation.
fn offer(wants: &Preferences, kind: &SessionKind) -> String {
    let mut text = String::new();
    let mut put = |key: Key, value: &str| put_pair(&mut text, key.name(), value);
    put(Key::HeaderDigest, &list(wants.header_digests));
    put(Key::DataDigest, &list(wants.data_digests));
    put(
        Key::MaxRecvDataSegmentLength,
        &wants.receive_segment_max.to_string(),
    );
    put(Key::ErrorRecoveryLevel, "0");
    put(Key::DefaultTime2Wait, "0");
    put(Key::DefaultTime2Retain, "0");
    // The rest is about commands, of which discovery has none.
    if *kind != SessionKind::Discovery {
        let boolean = |value: bool| if value { "Yes" } else { "No" };
        put(Key::InitialR2T, boolean(wants.initial_r2t));
        put(Key::ImmediateData, boolean(wants.immediate_data));
        put(Key::MaxBurstLength, &wants.burst_max.to_string());
        put(Key::FirstBurstLength, &wants.first_burst_max.to_string());
        put(
            Key::MaxOutstandingR2T,
            &wants.ready_to_transfer_max.to_string(),
        );
        put(Key::MaxConnections, "1");
        put(Key::DataPduInOrder, "Yes");
        put(Key::DataSequenceInOrder, "Yes");
    }
    text
}

fn list(digests: &[Digest]) -> String {
    let mut text = String::new();
    for digest in digests {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(digest.name());
    }
    text
}
