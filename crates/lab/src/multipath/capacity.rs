//! What a volume says of itself: its size, and the limits that a host has to keep.

use holdfast_iscsi::initiator::CommandRequest;

use super::{CommandError, MultipathDisk, OpenError};
use crate::command;

/// MAXIMUM TRANSFER LENGTH where the volume states none, in bytes.
const TRANSFER_BYTES_DEFAULT: u64 = 1 << 20;
/// Lengths of logical blocks that this crate knows how to work with.
const BLOCK_LENGTHS: [u32; 2] = [512, 4096];

/// A volume's size and abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes in each: 512 or 4,096.
    pub block_length: u32,
    /// Space is given back on request, and what was given back reads as zeros (LBPME, LBPRZ).
    pub unmaps_to_zeros: bool,
    /// Logical blocks in one READ or WRITE at most.
    pub transfer_blocks_max: u64,
    /// Logical blocks in one UNMAP at most; zero if there is no such command.
    pub unmap_blocks_max: u64,
}

impl Capacity {
    /// Bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.blocks * self.block_length as u64
    }

    pub(super) async fn ask(disk: &MultipathDisk) -> Result<Self, OpenError> {
        let lun = disk.config.lun;
        let answer = ask(disk, "its capacity", &command::read_capacity(lun)).await?;
        let mut capacity = Self::parse(&answer).ok_or(OpenError::Malformed("its capacity"))?;
        capacity.transfer_blocks_max = TRANSFER_BYTES_DEFAULT / u64::from(capacity.block_length);
        match ask(disk, "its limits", &command::inquiry(lun, Some(0xB0))).await {
            Ok(page) => capacity.take_limits(&page),
            // The page is optional.
            Err(OpenError::Command {
                error: CommandError::Refused { .. },
                ..
            }) => {}
            Err(error) => return Err(error),
        }
        Ok(capacity)
    }

    /// READ CAPACITY (16) parameter data (SBC-3).
    fn parse(answer: &[u8]) -> Option<Self> {
        let (last, rest) = answer.split_first_chunk::<8>()?;
        let (block_length, rest) = rest.split_first_chunk::<4>()?;
        let flags = rest.get(2)?;
        let block_length = u32::from_be_bytes(*block_length);
        let blocks = u64::from_be_bytes(*last).checked_add(1)?;
        blocks.checked_mul(u64::from(block_length))?;
        BLOCK_LENGTHS.contains(&block_length).then_some(Self {
            blocks,
            block_length,
            unmaps_to_zeros: flags & 0xC0 == 0xC0,
            ..Self::default()
        })
    }

    /// Block Limits VPD page (SBC-3).
    fn take_limits(&mut self, page: &[u8]) {
        let field = |at: usize| {
            let bytes = page.get(at..at + 4)?.try_into().ok()?;
            Some(u64::from(u32::from_be_bytes(bytes)))
        };
        if let Some(blocks) = field(8).filter(|blocks| *blocks > 0) {
            self.transfer_blocks_max = blocks;
        }
        self.unmap_blocks_max = field(20).unwrap_or_default();
    }
}

async fn ask(
    disk: &MultipathDisk,
    what: &'static str,
    command: &CommandRequest,
) -> Result<Vec<u8>, OpenError> {
    let answer = disk.execute(command, 0).await;
    let answer = answer.map_err(|error| OpenError::Command { what, error })?;
    Ok(answer.data_in.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_said() {
        let mut answer = vec![0; 32];
        answer[7] = 0xFF;
        answer[10] = 2;
        answer[14] = 0xC0;
        let mut capacity = Capacity::parse(&answer).unwrap();
        assert_eq!((capacity.blocks, capacity.bytes()), (256, 256 << 9));
        assert!(capacity.unmaps_to_zeros);
        let mut page = vec![0; 64];
        page[10] = 0x20;
        page[22] = 0x10;
        capacity.take_limits(&page);
        assert_eq!(capacity.transfer_blocks_max, 0x2000);
        assert_eq!(capacity.unmap_blocks_max, 0x1000);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Capacity::parse(&[]), None);
        assert_eq!(Capacity::parse(&[0; 14]), None);
        assert_eq!(Capacity::parse(&[0; 32]), None, "blocks of no bytes");
        assert_eq!(Capacity::parse(&[0xFF; 32]), None, "2^64 blocks");
        let mut capacity = Capacity::default();
        capacity.take_limits(&[0; 3]);
        assert_eq!(capacity, Capacity::default());
    }
}
