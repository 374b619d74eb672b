//! The basic header segment: 48 bytes, big-endian (RFC 7143 11.2).
//!
//! Invariants:
//! - the length fields of a header are set in one place, when it is framed.

/// Bytes of a basic header segment.
pub const HEADER_LENGTH: usize = 48;

/// Operation codes (RFC 7143 11.2.1.2).
#[allow(missing_docs, reason = "the names are the standard's")]
pub mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const SCSI_COMMAND: u8 = 0x01;
    pub const TASK_MANAGEMENT_REQUEST: u8 = 0x02;
    pub const LOGIN_REQUEST: u8 = 0x03;
    pub const TEXT_REQUEST: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const LOGOUT_REQUEST: u8 = 0x06;
    pub const SNACK: u8 = 0x10;
    pub const NOP_IN: u8 = 0x20;
    pub const SCSI_RESPONSE: u8 = 0x21;
    pub const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    pub const READY_TO_TRANSFER: u8 = 0x31;
    pub const ASYNC_MESSAGE: u8 = 0x32;
    pub const REJECT: u8 = 0x3F;
}

/// I: to be executed at once, outside of the command window (RFC 7143 11.2.1.1).
const IMMEDIATE: u8 = 0x40;
const OPCODE_MASK: u8 = 0x3F;

/// A basic header segment as it stands in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_LENGTH]);

impl Header {
    /// An empty header of `opcode`, with `flags` in its second byte.
    pub(crate) const fn new(opcode: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0] = opcode;
        bytes[1] = flags;
        Self(bytes)
    }

    /// The operation code.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        self.0[0] & OPCODE_MASK
    }

    /// Whether the I bit is set.
    #[must_use]
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & IMMEDIATE != 0
    }

    pub(crate) const fn set_immediate(&mut self, immediate: bool) {
        if immediate {
            self.0[0] |= IMMEDIATE;
        }
    }

    /// Bytes of additional header segments (RFC 7143 11.2.1.5).
    #[must_use]
    pub const fn additional_length(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// Bytes of the data segment, without padding (RFC 7143 11.2.1.6).
    #[must_use]
    pub const fn data_length(&self) -> usize {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]]) as usize
    }

    /// Sets the length of the data segment, below 2²⁴.
    pub(crate) fn set_data_length(&mut self, length: usize) {
        assert!(length < 1 << 24, "a data segment's length has 24 bits");
        self.0[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    }

    pub(crate) const fn flags(&self) -> u8 {
        self.0[1]
    }

    pub(crate) fn half(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.0[offset], self.0[offset + 1]])
    }

    pub(crate) fn word(&self, offset: usize) -> u32 {
        let bytes = self.0[offset..offset + 4].try_into();
        u32::from_be_bytes(bytes.expect("four bytes are four bytes"))
    }

    pub(crate) fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let bytes = self.0[offset..offset + N].try_into();
        bytes.expect("as many bytes as were asked for")
    }

    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn put_half(&mut self, offset: usize, value: u16) {
        self.put(offset, &value.to_be_bytes());
    }

    pub(crate) fn put_word(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_be_bytes());
    }
}
