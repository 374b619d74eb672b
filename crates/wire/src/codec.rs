//! Little-endian writing and checked reading of a message's body.

use alloc::vec::Vec;

use holdfast_model::metadata::Revision;
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, CommandId, ENTRY_BYTES_MAX, Epoch, Fence, Incarnation,
    Sequence, SliceId, StoreId, VolumeId,
};
use holdfast_stdx::Instant;

use crate::{FRAME_HEADER_BYTES, WireError};

/// Blocks that a message is about at most, but for those to be cleared: what an entry holds. Commands
/// are cut into parts of that, copies and repairs are smaller.
pub(crate) const BLOCKS_MAX: usize = ENTRY_BYTES_MAX / BLOCK_SIZE;

/// Epochs, sequences and incarnations at most: they begin at zero and are counted one by one, so none
/// gets anywhere near. Beyond the last one there would be no next.
pub(crate) const COUNTER_MAX: u64 = 1 << 62;

/// Appends fields to a body, behind room for the header.
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

/// Takes fields from a body; every read says whether the bytes were there.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// Most messages take no more, with their header: then a frame's first part is made in one piece of memory.
const FIRST_BYTES: usize = 256;

impl Writer {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(FIRST_BYTES);
        bytes.resize(FRAME_HEADER_BYTES, 0);
        Self { bytes }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn slice(&mut self, slice: SliceId) {
        self.u64(slice.volume.0);
        self.u32(slice.index);
    }

    pub(crate) fn command(&mut self, command: CommandId) {
        self.u16(command.node);
        self.u64(command.incarnation.0);
        self.u64(command.number);
    }

    pub(crate) fn range(&mut self, range: BlockRange) {
        self.u32(range.start());
        self.u32(range.count());
    }

    pub(crate) fn instant(&mut self, instant: Instant) {
        self.u64(instant.as_nanos());
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The body must end here: bytes that nobody reads are a mistake of the sender.
    pub(crate) fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::Malformed)
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(WireError::Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.take(N)?;
        Ok(bytes
            .try_into()
            .expect("take gives exactly the bytes asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, WireError> {
        self.array().map(u128::from_le_bytes)
    }

    /// A count of items that take `item_bytes` each: refused unless that many bytes are left.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, WireError> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_bytes) > self.rest.len() {
            return Err(WireError::Malformed);
        }
        Ok(count)
    }

    pub(crate) fn slice(&mut self) -> Result<SliceId, WireError> {
        Ok(SliceId {
            volume: VolumeId(self.u64()?),
            index: self.u32()?,
        })
    }

    /// A number that is counted up one by one.
    fn counter(&mut self) -> Result<u64, WireError> {
        let counter = self.u64()?;
        if counter > COUNTER_MAX {
            return Err(WireError::Malformed);
        }
        Ok(counter)
    }

    pub(crate) fn epoch(&mut self) -> Result<Epoch, WireError> {
        self.counter().map(Epoch)
    }

    pub(crate) fn sequence(&mut self) -> Result<Sequence, WireError> {
        self.counter().map(Sequence)
    }

    pub(crate) fn fence(&mut self) -> Result<Fence, WireError> {
        self.counter().map(Fence)
    }

    pub(crate) fn revision(&mut self) -> Result<Revision, WireError> {
        self.counter().map(Revision)
    }

    pub(crate) fn incarnation(&mut self) -> Result<Incarnation, WireError> {
        self.counter().map(Incarnation)
    }

    pub(crate) fn store(&mut self) -> Result<StoreId, WireError> {
        self.u128().map(StoreId)
    }

    pub(crate) fn command(&mut self) -> Result<CommandId, WireError> {
        Ok(CommandId {
            node: self.u16()?,
            incarnation: self.incarnation()?,
            number: self.u64()?,
        })
    }

    pub(crate) fn range(&mut self) -> Result<BlockRange, WireError> {
        let (start, count) = (self.u32()?, self.u32()?);
        BlockRange::checked(start, count).ok_or(WireError::Malformed)
    }

    /// A range of at most [`BLOCKS_MAX`] blocks.
    pub(crate) fn part(&mut self) -> Result<BlockRange, WireError> {
        let range = self.range()?;
        if range.count() as usize > BLOCKS_MAX {
            return Err(WireError::Malformed);
        }
        Ok(range)
    }

    pub(crate) fn block(&mut self) -> Result<BlockIndex, WireError> {
        Ok(BlockIndex(self.u32()?))
    }

    pub(crate) fn instant(&mut self) -> Result<Instant, WireError> {
        self.u64().map(Instant::from_nanos)
    }
}
