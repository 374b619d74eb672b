//! The answers to INQUIRY: standard data and vital product data (SPC-4 and SBC-3, Vital product
//! data parameters).
//!
//! Invariants:
//! - nothing in them differs from node to node but the identifier of the port;
//! - the page of supported pages lists those that are answered, ascending.

use alloc::vec::Vec;

use crate::copy;
use crate::data_in;
use crate::geometry::BlockLength;
use crate::limits;
use crate::logical_unit::Identity;
use crate::nexus::Nexus;
use crate::surroundings::Surroundings;
use crate::{Geometry, Response, Sense};

/// T10 VENDOR IDENTIFICATION, eight characters.
pub const VENDOR: &str = "HOLDFAST";
/// PRODUCT IDENTIFICATION, sixteen characters. Hosts know their multipathing rules by it.
pub const PRODUCT: &str = "VIRTUAL DISK    ";
/// PRODUCT REVISION LEVEL, four characters: that of what hosts see, not of the program.
pub const REVISION: &str = "0001";

const _: () = assert!(VENDOR.len() == 8, "the field has eight bytes");
const _: () = assert!(PRODUCT.len() == 16, "the field has sixteen bytes");
const _: () = assert!(REVISION.len() == 4, "the field has four bytes");

/// PERIPHERAL QUALIFIER and DEVICE TYPE of a disk that is there, and of a unit that is not.
const DISK: u8 = 0x00;
const NO_UNIT: u8 = 0x7F;

/// TPGS 01b: states change by themselves (SPC-4). That a host may say what it wants is not told: one that could
/// would, each time that it comes to use another path, and give the path up where that fails.
const TPGS: u8 = 0x10;

/// 3PC: copies between units are known (SPC-4).
const THIRD_PARTY: u8 = 0x08;

/// The one descriptor of the Mode Page Policy page (SPC-4): all pages are shared by all.
const MODE_PAGES_SHARED: [u8; 4] = [0x3F, 0xFF, 0x00, 0x00];

/// Bytes of standard INQUIRY data: all that SPC-4 names.
const STANDARD_LENGTH: usize = 96;

/// Standards that are claimed, none in a particular version (SPC-4, Version descriptor values).
const VERSION_DESCRIPTORS: [u16; 4] = [
    0x00A0, // SAM-5
    0x0960, // iSCSI
    0x0460, // SPC-4
    0x04C0, // SBC-3
];

const SUPPORTED_PAGES: u8 = 0x00;
const UNIT_SERIAL_NUMBER: u8 = 0x80;
const DEVICE_IDENTIFICATION: u8 = 0x83;
const EXTENDED_INQUIRY: u8 = 0x86;
const MODE_PAGE_POLICY: u8 = 0x87;
const SCSI_PORTS: u8 = 0x88;
const THIRD_PARTY_COPY: u8 = 0x8F;
const BLOCK_LIMITS: u8 = 0xB0;
const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xB1;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0xB2;

const PAGES: [u8; 10] = [
    SUPPORTED_PAGES,
    UNIT_SERIAL_NUMBER,
    DEVICE_IDENTIFICATION,
    EXTENDED_INQUIRY,
    MODE_PAGE_POLICY,
    SCSI_PORTS,
    THIRD_PARTY_COPY,
    BLOCK_LIMITS,
    BLOCK_DEVICE_CHARACTERISTICS,
    LOGICAL_BLOCK_PROVISIONING,
];

/// Answers an INQUIRY to a unit that is there.
pub(crate) fn respond(
    identity: &Identity,
    geometry: Geometry,
    (nexus, surroundings): (&Nexus, &Surroundings<'_>),
    page: Option<u8>,
    allocation_length: u32,
) -> Result<Response, Sense> {
    let port = nexus.relative_target_port();
    let Some(page) = page else {
        let mut data = standard(DISK);
        data[5] |= THIRD_PARTY;
        if !surroundings.groups.is_empty() {
            data[5] |= TPGS;
        }
        return Ok(data_in::respond(&data, allocation_length));
    };
    let content = match page {
        SUPPORTED_PAGES => PAGES.to_vec(),
        UNIT_SERIAL_NUMBER => identity.serial().into_bytes(),
        DEVICE_IDENTIFICATION => device_identification(identity, surroundings, port),
        EXTENDED_INQUIRY => extended_inquiry(),
        MODE_PAGE_POLICY => MODE_PAGES_SHARED.to_vec(),
        SCSI_PORTS => scsi_ports(surroundings, port),
        THIRD_PARTY_COPY => copy::third_party_copy(),
        BLOCK_LIMITS => block_limits(geometry.block_length()),
        BLOCK_DEVICE_CHARACTERISTICS => block_device_characteristics(),
        LOGICAL_BLOCK_PROVISIONING => {
            logical_block_provisioning(geometry.block_length(), surroundings)
        }
        _ => return Err(Sense::invalid_cdb_field(2, None)),
    };
    let data = vital_product_data(DISK, page, &content);
    Ok(data_in::respond(&data, allocation_length))
}

/// Answers an INQUIRY to a unit that is not there (SPC-4): qualifier 011b, type 1Fh.
pub(crate) fn respond_absent(page: Option<u8>, allocation_length: u32) -> Result<Response, Sense> {
    let data = match page {
        None => standard(NO_UNIT),
        Some(SUPPORTED_PAGES) => vital_product_data(NO_UNIT, SUPPORTED_PAGES, &[SUPPORTED_PAGES]),
        Some(_) => return Err(Sense::invalid_cdb_field(2, None)),
    };
    Ok(data_in::respond(&data, allocation_length))
}

/// Standard INQUIRY data (SPC-4).
fn standard(peripheral: u8) -> Vec<u8> {
    let mut data = alloc::vec![0; STANDARD_LENGTH];
    data[0] = peripheral;
    data[2] = 0x06; // VERSION: SPC-4.
    data[3] = 0x12; // HISUP; RESPONSE DATA FORMAT 2.
    data[4] = (STANDARD_LENGTH - 5) as u8;
    data[5] = 0x00; // TPGS 00b unless there are groups, 3PC where there is a unit, no PROTECT.
    data[6] = 0x10; // MULTIP: a port on every node.
    data[7] = 0x02; // CMDQUE.
    data[8..16].copy_from_slice(VENDOR.as_bytes());
    data[16..32].copy_from_slice(PRODUCT.as_bytes());
    data[32..36].copy_from_slice(REVISION.as_bytes());
    for (field, standard) in data[58..74].chunks_exact_mut(2).zip(VERSION_DESCRIPTORS) {
        field.copy_from_slice(&standard.to_be_bytes());
    }
    data
}

fn vital_product_data(peripheral: u8, page: u8, content: &[u8]) -> Vec<u8> {
    let mut data = alloc::vec![peripheral, page];
    data.extend((content.len() as u16).to_be_bytes());
    data.extend(content);
    data
}

/// Designation descriptors (SPC-4, Device Identification VPD page).
fn device_identification(
    identity: &Identity,
    surroundings: &Surroundings<'_>,
    port: u16,
) -> Vec<u8> {
    let mut content = Vec::new();
    // Binary; logical unit; NAA.
    content.extend([0x01, 0x03, 0x00, 16]);
    content.extend(identity.naa());
    // ASCII; logical unit; T10 vendor identification and what makes it unique.
    let serial = identity.serial();
    content.extend([0x02, 0x01, 0x00, (VENDOR.len() + serial.len()) as u8]);
    content.extend(VENDOR.as_bytes());
    content.extend(serial.as_bytes());
    // iSCSI, binary; target port (PIV set); relative target port identifier.
    content.extend([0x51, 0x94, 0x00, 4, 0x00, 0x00]);
    content.extend(port.to_be_bytes());
    if let Some(group) = surroundings.group_of(port) {
        // The same; target port group.
        content.extend([0x51, 0x95, 0x00, 4, 0x00, 0x00]);
        content.extend(group.group.to_be_bytes());
    }
    content.extend(port_name(surroundings.target, port));
    if !surroundings.target.is_empty() {
        // iSCSI, UTF-8; target device (PIV set); SCSI name string.
        content.extend(name_string(0xA8, surroundings.target));
    }
    content
}

/// The designation descriptor of a port's name, if the target has one: iSCSI, UTF-8; target port
/// (PIV set); SCSI name string (RFC 7143, iSCSI target port name).
fn port_name(target: &str, port: u16) -> Vec<u8> {
    match target {
        "" => Vec::new(),
        target => name_string(0x98, &alloc::format!("{target},t,0x{port:04x}")),
    }
}

/// A SCSI name string (SPC-4): ends with a zero, and is padded with more to whole words.
fn name_string(kind: u8, name: &str) -> Vec<u8> {
    let mut value = Vec::from(name.as_bytes());
    value.push(0);
    value.resize(value.len().next_multiple_of(4), 0);
    let length = u8::try_from(value.len()).expect("an iSCSI name has at most 223 bytes");
    let mut descriptor = alloc::vec![0x53, kind, 0x00, length];
    descriptor.extend(value);
    descriptor
}

/// Extended INQUIRY Data (SPC-4): what is zero is not supported.
fn extended_inquiry() -> Vec<u8> {
    let mut content = alloc::vec![0; 0x3C];
    content[1] = 0x07; // HEADSUP, ORDSUP, SIMPSUP.
    content
}

/// SCSI Ports (SPC-4): every port of the target, with its name.
fn scsi_ports(surroundings: &Surroundings<'_>, own: u16) -> Vec<u8> {
    let mut content = alloc::vec![0; 2];
    for port in surroundings.ports(own) {
        content.extend([0, 0]);
        content.extend(port.to_be_bytes());
        // No initiator port's TransportID.
        content.extend([0; 6]);
        let name = port_name(surroundings.target, port);
        content.extend((name.len() as u16).to_be_bytes());
        content.extend(name);
    }
    content
}

/// Block Limits (SBC-3). What is zero is not supported, or not limited.
fn block_limits(block_length: BlockLength) -> Vec<u8> {
    let blocks = |bytes: u64| bytes / block_length.bytes();
    let long = |bytes: u64| (blocks(bytes) as u32).to_be_bytes();
    let mut content = Vec::new();
    content.push(0x00); // WSNZ: zero blocks stand for all to the end.
    content.push(blocks(limits::COMPARE_AND_WRITE_BYTES_MAX) as u8);
    content.extend((blocks(limits::TRANSFER_GRANULARITY_BYTES) as u16).to_be_bytes());
    content.extend(long(limits::TRANSFER_BYTES_MAX));
    content.extend(long(limits::TRANSFER_BYTES_OPTIMAL));
    content.extend([0; 4]); // MAXIMUM PREFETCH LENGTH.
    content.extend((limits::UNMAP_BLOCKS_MAX as u32).to_be_bytes());
    content.extend((limits::UNMAP_DESCRIPTORS_MAX as u32).to_be_bytes());
    content.extend(long(limits::UNMAP_GRANULARITY_BYTES));
    content.extend(0x8000_0000_u32.to_be_bytes()); // UGAVALID; alignment 0.
    content.extend(limits::WRITE_SAME_BLOCKS_MAX.to_be_bytes());
    // SBC-4: MAXIMUM ATOMIC TRANSFER LENGTH, ATOMIC ALIGNMENT, ATOMIC TRANSFER LENGTH GRANULARITY.
    content.extend(long(limits::ATOMIC_BYTES_MAX));
    content.extend(long(limits::ATOMIC_GRANULARITY_BYTES));
    content.extend(long(limits::ATOMIC_GRANULARITY_BYTES));
    content.resize(0x3C, 0); // No atomic boundaries.
    content
}

/// Block Device Characteristics (SBC-3).
fn block_device_characteristics() -> Vec<u8> {
    let mut content = alloc::vec![0; 0x3C];
    content[1] = 0x01; // MEDIUM ROTATION RATE 0001h: does not rotate.
    content
}

/// Logical Block Provisioning (SBC-3).
fn logical_block_provisioning(
    block_length: BlockLength,
    surroundings: &Surroundings<'_>,
) -> Vec<u8> {
    // THRESHOLD EXPONENT: in what the log page counts; none without it.
    let set = limits::THRESHOLD_SET_BYTES / block_length.bytes();
    let exponent = surroundings.provisioning.map(|_| set.ilog2() as u8);
    alloc::vec![
        exponent.unwrap_or_default(),
        0xE4, // LBPU, LBPWS, LBPWS10, LBPRZ; neither ANC_SUP nor DP.
        0x02, // PROVISIONING TYPE: thin.
        0x00,
    ]
}
