//! Memory that direct I/O accepts, kept for reuse.
//!
//! Invariants:
//! - a buffer begins at a multiple of [`ALIGNMENT`] and is always initialised: a new one is zeroed,
//!   a reused one holds what was in it;
//! - memory that lies idle never exceeds what the shelf was made for.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Where buffers begin, and what their lengths are multiples of: no device asks for more than its
/// logical sector, and none is supported whose sector is larger.
pub(crate) const ALIGNMENT: usize = 4096;
/// Buffers up to this are kept for reuse; larger ones are rare (formatting, recovery).
const REUSED_BYTES_MAX: usize = 1 << 20;
/// One shelf for each power of two from the alignment to the largest reused length.
const CLASS_COUNT: usize = (REUSED_BYTES_MAX / ALIGNMENT).ilog2() as usize + 1;

/// Hands out buffers and takes them back. Clones share their memory.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    idle: Arc<Mutex<Idle>>,
}

#[derive(Debug)]
struct Idle {
    by_class: [Vec<Memory>; CLASS_COUNT],
    bytes: usize,
    bytes_max: usize,
}

impl Shelf {
    /// An empty shelf that keeps at most `idle_bytes_max`.
    pub(crate) fn new(idle_bytes_max: usize) -> Self {
        let idle = Idle {
            by_class: std::array::from_fn(|_| Vec::new()),
            bytes: 0,
            bytes_max: idle_bytes_max,
        };
        Self {
            idle: Arc::new(Mutex::new(idle)),
        }
    }

    /// A buffer of at least `length` bytes, which must be more than zero. Its contents are
    /// initialised and otherwise arbitrary.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        assert!(length > 0, "nothing needs no buffer");
        let capacity = capacity_for(length);
        let reused = class_of(capacity).and_then(|class| {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = idle.by_class[class].pop()?;
            idle.bytes -= memory.capacity;
            Some(memory)
        });
        Buffer {
            memory: Some(reused.unwrap_or_else(|| Memory::new(capacity))),
            shelf: self.clone(),
        }
    }

    /// Keeps the memory, or lets it go if enough lies idle.
    fn put_back(&self, memory: Memory) {
        let Some(class) = class_of(memory.capacity) else {
            return;
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.bytes + memory.capacity <= idle.bytes_max {
            idle.bytes += memory.capacity;
            idle.by_class[class].push(memory);
        }
    }

    #[cfg(test)]
    fn idle_bytes(&self) -> usize {
        self.idle.lock().expect("no test panics with it").bytes
    }
}

/// Bytes that a buffer for `length` bytes really takes.
pub(crate) fn capacity_for(length: usize) -> usize {
    if length <= REUSED_BYTES_MAX {
        length.next_power_of_two().max(ALIGNMENT)
    } else {
        length.next_multiple_of(ALIGNMENT)
    }
}

fn class_of(capacity: usize) -> Option<usize> {
    let reused = capacity <= REUSED_BYTES_MAX;
    reused.then(|| (capacity / ALIGNMENT).ilog2() as usize)
}

/// Aligned, initialised memory that goes back to its shelf when dropped.
pub(crate) struct Buffer {
    /// Taken only by `drop`.
    memory: Option<Memory>,
    shelf: Shelf,
}

impl Buffer {
    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("only drop takes the memory")
    }

    /// Where the buffer begins, for the kernel to read or write.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.memory().pointer.as_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let memory = self.memory();
        // SAFETY: `pointer` is valid for `capacity` initialised bytes (Memory's invariant), which
        // `self` owns and lends shared for the life of the borrow.
        unsafe { std::slice::from_raw_parts(memory.pointer.as_ptr(), memory.capacity) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory = self.memory();
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(memory.pointer.as_ptr(), memory.capacity) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.shelf.put_back(memory);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({})", self.memory().capacity)
    }
}

/// The first bytes of a buffer, as the owner behind a `Bytes`.
pub(crate) struct Filled {
    pub(crate) buffer: Buffer,
    pub(crate) length: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// An allocation of `capacity` initialised bytes at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
struct Memory {
    pointer: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a Memory is the only owner of its allocation, like a Box<[u8]>; it has no thread affinity.
unsafe impl Send for Memory {}
// SAFETY: shared access through a Memory only reads plain bytes.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero (`layout` asserts it).
        let pointer = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(pointer) else {
            handle_alloc_error(layout);
        };
        Self { pointer, capacity }
    }

    fn layout(capacity: usize) -> Layout {
        assert!(capacity > 0, "an allocation is not empty");
        Layout::from_size_align(capacity, ALIGNMENT).expect("a buffer is far below isize::MAX")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the allocator with this very layout, and nobody else owns
        // it.
        unsafe { dealloc(self.pointer.as_ptr(), Self::layout(self.capacity)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_initialised_and_reused() {
        let shelf = Shelf::new(1 << 20);
        let mut buffer = shelf.take(5000);
        assert_eq!(buffer.len(), 8192);
        assert_eq!(buffer.pointer() as usize % ALIGNMENT, 0);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer[0] = 7;
        let place = buffer.pointer();
        drop(buffer);
        assert_eq!(shelf.idle_bytes(), 8192);
        let again = shelf.take(8192);
        assert_eq!((again.pointer(), again[0]), (place, 7));
        assert_eq!(shelf.idle_bytes(), 0);
    }

    #[test]
    fn idle_memory_is_bounded() {
        let shelf = Shelf::new(3 * ALIGNMENT);
        let buffers: Vec<Buffer> = (0..5).map(|_| shelf.take(1)).collect();
        drop(buffers);
        assert_eq!(shelf.idle_bytes(), 3 * ALIGNMENT);
        drop(shelf.take(REUSED_BYTES_MAX + 1));
        assert_eq!(shelf.idle_bytes(), 3 * ALIGNMENT);
    }

    #[test]
    fn a_buffer_outlives_its_shelf() {
        let shelf = Shelf::new(ALIGNMENT);
        let mut buffer = shelf.take(ALIGNMENT);
        drop(shelf);
        buffer.fill(1);
        let filled = Filled { buffer, length: 3 };
        assert_eq!(filled.as_ref(), [1, 1, 1]);
    }
}
