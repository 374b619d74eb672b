//! What a host asks of its volume, as CDBs, and what the answers mean to it.

use holdfast_iscsi::initiator::{CommandRequest, Completion};
use holdfast_scsi::{Identity, Lun};
use holdfast_stdx::{Bytes, BytesMut};

use crate::cluster::CLUSTER;
use crate::content::{SECTOR_SIZE, Value, filled, value_of};
use crate::history::Sectors;
use crate::volumes::volume_id;

/// What INQUIRY is asked for at most.
const INQUIRY_BYTES: u8 = 255;

/// INQUIRY of the page that tells volumes apart (SPC-4, Device Identification VPD page).
pub(super) fn identify() -> CommandRequest {
    let cdb = [0x12, 0x01, 0x83, 0, INQUIRY_BYTES, 0];
    CommandRequest::new(unit(), &cdb).reading(INQUIRY_BYTES.into())
}

/// Whether the answer to it names a volume.
pub(super) fn names(completion: &Completion, naa: [u8; 16]) -> bool {
    let page = completion.data_in.concat();
    completion.status == 0 && page.windows(naa.len()).any(|it| it == naa)
}

/// What a host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Write(Value),
    /// UNMAP.
    Unmap,
    /// WRITE SAME of zeros.
    WriteZeros,
    /// EXTENDED COPY from the same places of another volume, where there is that.
    Copy {
        from: usize,
        value: Value,
    },
    Read,
}

/// The volume's unit.
pub(crate) fn unit() -> Lun {
    Lun::from_number(0)
}

impl Work {
    pub(crate) fn request(self, sectors: Sectors) -> CommandRequest {
        let (first, count) = (sectors.first, sectors.count as u32);
        match self {
            Self::Write(value) => {
                let data = filled(value, sectors.first, sectors.count);
                CommandRequest::new(unit(), &sixteen(0x8A, first, count)).writing(vec![data])
            }
            Self::Read => CommandRequest::new(unit(), &sixteen(0x88, first, count))
                .reading(count * SECTOR_SIZE as u32),
            Self::WriteZeros => {
                let zeros = Bytes::from_static(&[0; SECTOR_SIZE]);
                let mut cdb = sixteen(0x93, first, count);
                cdb[1] = 0x08;
                CommandRequest::new(unit(), &cdb).writing(vec![zeros])
            }
            Self::Unmap => unmap(first, count),
            Self::Copy { from, .. } => copy(from, sectors),
        }
    }
}

/// READ (16), WRITE (16) and their kin (SBC-3 5.11, 5.32, 5.44).
fn sixteen(operation: u8, first: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[2..10].copy_from_slice(&first.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// UNMAP of one range (SBC-3 5.28).
fn unmap(first: u64, count: u32) -> CommandRequest {
    let mut list = BytesMut::new();
    list.extend_from_slice(&22u16.to_be_bytes());
    list.extend_from_slice(&16u16.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&first.to_be_bytes());
    list.extend_from_slice(&count.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    CommandRequest::new(unit(), &cdb).writing(vec![list.freeze()])
}

/// Sectors in one segment of a copy.
const SEGMENT_SECTORS: u64 = 1 << 14;

/// EXTENDED COPY from volume to volume, segment after segment (SPC-4 6.4).
fn copy(
    from: usize,
    Sectors {
        volume,
        first,
        count,
    }: Sectors,
) -> CommandRequest {
    let mut cscds = BytesMut::new();
    for volume in [from, volume] {
        let naa = Identity::of_volume(CLUSTER, volume_id(volume)).naa();
        cscds.extend_from_slice(&[0xE4, 0, 0, 0, 0x01, 0x03, 0, 16]);
        cscds.extend_from_slice(&naa);
        cscds.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0x02, 0]);
    }
    let mut segments = BytesMut::new();
    let mut sector = first;
    while sector < first + count {
        let length = SEGMENT_SECTORS.min(first + count - sector);
        segments.extend_from_slice(&[0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
        segments.extend_from_slice(&(length as u16).to_be_bytes());
        segments.extend_from_slice(&sector.to_be_bytes());
        segments.extend_from_slice(&sector.to_be_bytes());
        sector += length;
    }
    let mut list = BytesMut::new();
    // Without a list identifier: nobody asks how it ended.
    list.extend_from_slice(&[0, 0x18]);
    list.extend_from_slice(&(cscds.len() as u16).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&(segments.len() as u32).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&cscds);
    list.extend_from_slice(&segments);
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    CommandRequest::new(unit(), &cdb).writing(vec![list.freeze()])
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done; a read's values.
    Done(Vec<Value>),
    /// Something else had to be told first: ask again.
    Attention,
    /// Not now: try again, here or elsewhere.
    Later,
    /// It was not done, or in part: try again.
    CopyAborted,
    /// Data is lost.
    MediumError,
    /// No room.
    NoSpace,
    /// The volume has no such place.
    BeyondEnd,
    /// The target has no such unit.
    NoUnit,
    /// Another host has taken the volume.
    Conflict,
    /// What no target of ours should say.
    Wrong(String),
}

/// Judges a completion.
pub(crate) fn judge(work: Work, sectors: Sectors, completion: &Completion) -> Answer {
    match completion.status {
        0x00 => good(work, sectors, completion),
        // BUSY and TASK SET FULL.
        0x08 | 0x28 => Answer::Later,
        0x18 => Answer::Conflict,
        0x02 => match sense_key(&completion.sense) {
            Some((0x2 | 0xB, _)) => Answer::Later,
            Some((0x6, _)) => Answer::Attention,
            // A unit failed, or is not known to the node yet.
            Some((0xA, 0x0D01 | 0x0D02)) if matches!(work, Work::Copy { .. }) => {
                Answer::CopyAborted
            }
            Some((0x3, _)) => Answer::MediumError,
            Some((0x7, 0x2707)) => Answer::NoSpace,
            Some((0x5, 0x2100)) => Answer::BeyondEnd,
            Some((0x5, 0x2500)) => Answer::NoUnit,
            other => Answer::Wrong(format!(
                "{work:?} of {sectors:?} ends with sense {other:x?}"
            )),
        },
        status => Answer::Wrong(format!(
            "{work:?} of {sectors:?} ends with status {status:x}"
        )),
    }
}

fn good(work: Work, sectors: Sectors, completion: &Completion) -> Answer {
    if work != Work::Read {
        return Answer::Done(Vec::new());
    }
    let bytes = completion.data_in.concat();
    if bytes.len() != sectors.count as usize * SECTOR_SIZE {
        let length = bytes.len();
        return Answer::Wrong(format!("a read of {sectors:?} brings {length} bytes"));
    }
    let mut values = Vec::with_capacity(sectors.count as usize);
    for (sector, content) in (sectors.first..).zip(bytes.chunks_exact(SECTOR_SIZE)) {
        match value_of(content, sector) {
            Some(value) => values.push(value),
            None => {
                let head = &content[..32];
                return Answer::Wrong(format!(
                    "sector {sector} holds what nobody wrote there: {head:02x?}"
                ));
            }
        }
    }
    Answer::Done(values)
}

/// Sense key and additional sense code of either format (SPC-4 4.5).
pub(super) fn sense_key(sense: &[u8]) -> Option<(u8, u16)> {
    let code = |at: usize| Some(u16::from_be_bytes([*sense.get(at)?, *sense.get(at + 1)?]));
    match sense.first()? & 0x7F {
        0x70 | 0x71 => Some((sense.get(2)? & 0xF, code(12)?)),
        0x72 | 0x73 => Some((sense.get(1)? & 0xF, code(2)?)),
        _ => None,
    }
}
