//! The store's face: it only dispatches.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use holdfast_format::Install;
use holdfast_model::{
    BlockRange, Change, ChangedPage, DiskCompletion, Entry, Epoch, PAGES_PER_SLICE, PageIndex,
    Sequence, SliceId,
};
use holdfast_stdx::{Bytes, Instant};

use crate::config::{DeviceGeometry, StoreConfig, StoreIdentity};
use crate::event::{
    Expected, InstallRefused, NoSpace, OpenError, Output, ReadRequest, StoreToken, Usage,
};
use crate::machine::Core;
use crate::opener::{Opener, Progress};
use crate::order::{DeviceOrder, DeviceStatus};
use crate::superblocks;

#[derive(Debug)]
enum Phase {
    Opening(Box<Opener>),
    Open(Box<Core>),
    Failed,
}

/// A node's store.
///
/// Until the event `Opened` it takes nothing but completions; to call anything else before is the
/// caller's mistake and panics. After `DeviceFailed` calls do nothing, and questions are answered
/// from memory. Every method that takes `out` leaves requests and events there.
#[derive(Debug)]
pub struct Store {
    phase: Phase,
}

impl Store {
    /// Makes a new store on blank devices and opens it. `use_id` is drawn at random for that. Ends with
    /// `Opened` or `OpenFailed`.
    #[must_use]
    pub fn create(
        _now: Instant,
        config: StoreConfig,
        devices: &[DeviceGeometry],
        identity: StoreIdentity,
        use_id: u64,
        out: &mut Output,
    ) -> Self {
        let expected = Expected::default();
        Self::begin(Opener::start(
            config,
            devices,
            Some(identity),
            expected,
            use_id,
            out,
        ))
    }

    /// Whether a store can be made on these devices, if they are blank. Nothing is read for that.
    ///
    /// # Errors
    /// [`OpenError`] with which [`create`](Self::create) would end.
    pub fn may_create(
        config: &StoreConfig,
        devices: &[DeviceGeometry],
        identity: &StoreIdentity,
    ) -> Result<(), OpenError> {
        superblocks::check(config, devices, true)?;
        superblocks::plan(&config.format, identity, devices, 0).map(drop)
    }

    /// Opens a store. `use_id` is drawn at random for that. Ends with `Opened` or `OpenFailed`.
    #[must_use]
    pub fn open(
        _now: Instant,
        config: StoreConfig,
        devices: &[DeviceGeometry],
        expected: Expected,
        use_id: u64,
        out: &mut Output,
    ) -> Self {
        Self::begin(Opener::start(config, devices, None, expected, use_id, out))
    }

    fn begin(progress: Progress) -> Self {
        Self {
            phase: progress.into(),
        }
    }

    /// Takes the end of a request that was left in `out`.
    pub fn handle_disk(&mut self, now: Instant, completion: DiskCompletion, out: &mut Output) {
        self.phase = match core::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::Opening(opener) => opener.handle(now, completion, out).into(),
            Phase::Open(mut core) => {
                if core.failed {
                    core.handle_loss(completion, out);
                } else {
                    core.handle_disk(now, completion, out);
                }
                Phase::Open(core)
            }
            Phase::Failed => Phase::Failed,
        };
    }

    /// Does what [`next_timeout`](Self::next_timeout) was for.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Output) {
        if let Phase::Open(core) = &mut self.phase {
            core.maintain(now, out);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; ask again after every call.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Open(core) if !core.failed => core.next_timeout(),
            _ => None,
        }
    }

    /// Appends the slice's next entry: its sequence is the one after the prepared one, its epoch
    /// not below that one's. `committed` is how far the slice is known to be committed. Ends with
    /// `Durable`.
    ///
    /// Panics if room for its data was not [`reserve`](Self::reserve)d, if it is out of order, or
    /// if it carries more than half a segment.
    pub fn append(
        &mut self,
        now: Instant,
        slice: SliceId,
        entry: Entry,
        committed: Sequence,
        token: StoreToken,
        out: &mut Output,
    ) {
        self.act(now, out, |core| {
            core.append(now, slice, entry, committed, token);
        });
    }

    /// An epoch begins: entries above `after`, which is between the committed and the prepared
    /// point, are void, for recovery too. The next entry is the one after `after`. Ends with
    /// `Durable`; tokens of void entries come all the same.
    pub fn begin_epoch(
        &mut self,
        now: Instant,
        slice: SliceId,
        epoch: Epoch,
        after: Sequence,
        token: StoreToken,
        out: &mut Output,
    ) {
        self.act(now, out, |core| {
            core.begin_epoch(now, slice, epoch, after, token);
        });
    }

    /// The slice's log begins anew after `at`, at or above the committed point: entries above the
    /// committed point are void, `at` counts as prepared and committed. For a replica that gets
    /// what is at or below `at` as copies. Ends with `Durable`.
    pub fn restart_log(
        &mut self,
        now: Instant,
        slice: SliceId,
        at: (Epoch, Sequence),
        token: StoreToken,
        out: &mut Output,
    ) {
        self.act(now, out, |core| core.restart_log(now, slice, at, token));
    }

    /// Keeps the replica's own state, at most 16 KiB; the latest one is recovered. Ends with
    /// `Durable`.
    pub fn put_state(
        &mut self,
        now: Instant,
        slice: SliceId,
        state: Bytes,
        token: StoreToken,
        out: &mut Output,
    ) {
        self.act(now, out, |core| core.put_state(now, slice, state, token));
    }

    /// Installs a copy (a write or a clear) of what blocks were as of a sequence. Blocks for which
    /// the store has something newer stay as they are. Ends with `Durable`.
    ///
    /// Panics if room for data was not [`reserve`](Self::reserve)d.
    ///
    /// # Errors
    /// [`InstallRefused`] says when to try again, and with what. Nothing was changed.
    pub fn install(
        &mut self,
        now: Instant,
        slice: SliceId,
        change: Change,
        as_of: Sequence,
        token: StoreToken,
        out: &mut Output,
    ) -> Result<(), InstallRefused> {
        assert!(change.range().is_some(), "a copy has blocks");
        let install = Install::Change(change);
        self.try_act(now, out, |core| {
            core.install(now, slice, &install, as_of, token)
        })
    }

    /// Like [`install`](Self::install), for blocks that are bad where they come from: they are bad
    /// here too, whatever was in them. Needs room as data does.
    ///
    /// # Errors
    /// [`InstallRefused`] says when to try again. Nothing was changed.
    pub fn install_bad(
        &mut self,
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        as_of: Sequence,
        token: StoreToken,
        out: &mut Output,
    ) -> Result<(), InstallRefused> {
        let install = Install::Bad(range);
        self.try_act(now, out, |core| {
            core.install(now, slice, &install, as_of, token)
        })
    }

    /// What holes in the journal, those that were found when the store was opened, had lost of the
    /// slice is there again, from peers: the next recovery finds it intact, unless there are others
    /// then. Ends with `Durable`.
    pub fn mend(&mut self, now: Instant, slice: SliceId, token: StoreToken, out: &mut Output) {
        self.act(now, out, |core| core.mend(now, slice, token));
    }

    /// Forgets the slice and frees its pages. Ends with `Durable`; until then the slice must not be
    /// used, after that it is as if it had never been.
    pub fn drop_slice(
        &mut self,
        now: Instant,
        slice: SliceId,
        token: StoreToken,
        out: &mut Output,
    ) {
        self.act(now, out, |core| core.drop_slice(now, slice, token));
    }

    /// The slice is known to be committed up to here, at most to the prepared point. Kept in
    /// memory; it goes into the journal with the slice's next record, or alone after a while.
    pub fn set_committed(&mut self, now: Instant, slice: SliceId, committed: Sequence) {
        if let Some(core) = self.core_mut() {
            core.set_committed(now, slice, committed);
        }
    }

    /// The newest entry, durable or not, with its epoch.
    #[must_use]
    pub fn prepared(&self, slice: SliceId) -> (Epoch, Sequence) {
        self.core()
            .slice(slice)
            .map_or((Epoch::ZERO, Sequence::ZERO), |slice| slice.prepared)
    }

    /// The committed point as far as it is known.
    #[must_use]
    pub fn committed(&self, slice: SliceId) -> Sequence {
        self.core()
            .slice(slice)
            .map_or(Sequence::ZERO, |slice| slice.committed.1)
    }

    /// The committed point that recovery is certain to find.
    #[must_use]
    pub fn stable(&self, slice: SliceId) -> Sequence {
        self.core()
            .slice(slice)
            .map_or(Sequence::ZERO, |slice| slice.stable.1)
    }

    /// The entries above `sequence`, in order: complete if that is at or above the stable point.
    pub fn entries_above(
        &self,
        slice: SliceId,
        sequence: Sequence,
    ) -> impl Iterator<Item = &Entry> {
        let core = self.core();
        core.slice(slice)
            .into_iter()
            .flat_map(move |slice| slice.log.range(sequence.next()..))
            .filter_map(|(_, item)| core.items[*item].entry())
    }

    /// Reads at most 16 MiB. Ends with `ReadDone`.
    pub fn read(
        &mut self,
        now: Instant,
        request: ReadRequest,
        token: StoreToken,
        out: &mut Output,
    ) {
        if let Some(core) = self.core_mut() {
            core.read(now, request, token, out);
            core.requests.release(&mut out.requests);
        }
    }

    /// Reads both copies of a page's entry of the page table from the media: one that is bad is written again,
    /// and counted ([`Usage::bad_copies`]). Nothing is told.
    pub fn check_entry(&mut self, slice: SliceId, page: PageIndex, out: &mut Output) {
        if let Some(core) = self.core_mut() {
            core.check_entry(slice, page);
            core.requests.release(&mut out.requests);
        }
    }

    /// Has the journal read from its device, as far as it is durable now, unless that is under way: what has rotted is told
    /// (`JournalRotten`), and written again elsewhere. Each piece waits for [`check_piece`](Self::check_piece).
    pub fn check_journal(&mut self) {
        if let Some(core) = self.core_mut() {
            core.journal.begin_check();
        }
    }

    /// Whether the journal is being read for that.
    #[must_use]
    pub fn is_checking_journal(&self) -> bool {
        self.core().journal.is_checking()
    }

    /// Bytes of the next piece of it, if that waits.
    #[must_use]
    pub fn check_waits(&self) -> Option<u64> {
        let core = match &self.phase {
            Phase::Open(core) if !core.failed && core.awaited.is_none() => core,
            _ => return None,
        };
        core.journal.next_check_bytes().map(u64::from)
    }

    /// Lets it be read.
    pub fn check_piece(&mut self, out: &mut Output) {
        if let Some(core) = self.core_mut() {
            core.check_piece();
            core.requests.release(&mut out.requests);
        }
    }

    /// Whether an entry that is prepared and not known to be committed touches the range.
    #[must_use]
    pub fn is_dirty(&self, slice: SliceId, range: BlockRange) -> bool {
        self.core().is_dirty(slice, range)
    }

    /// The pages that have committed blocks, in order, with one bit for each block that is not
    /// zeros (bad ones count as not zeros).
    pub fn allocated(&self, slice: SliceId) -> impl Iterator<Item = (PageIndex, u64)> {
        let all = PageIndex(0)..=PageIndex(PAGES_PER_SLICE - 1);
        self.allocated_in(slice, all)
    }

    /// The same, of a part of the slice. Panics if its end is before its beginning.
    pub fn allocated_in(
        &self,
        slice: SliceId,
        part: RangeInclusive<PageIndex>,
    ) -> impl Iterator<Item = (PageIndex, u64)> {
        self.core().allocated(slice, part).into_iter()
    }

    /// The blocks of a page that may have changed above `sequence`, one bit each; entries that are not
    /// known to be committed count.
    #[must_use]
    pub fn page_changed_above(&self, slice: SliceId, page: PageIndex, sequence: Sequence) -> u64 {
        self.core().page_changed_above(slice, page, sequence)
    }

    /// The last change to a page, if every change to it is in its place on the medium, and the page is
    /// there.
    #[must_use]
    pub fn written(&self, slice: SliceId, page: PageIndex) -> Option<Sequence> {
        self.core().settled_at(slice, page)
    }

    /// The pages that are there and of which blocks may have changed above `sequence`, in order:
    /// whoever has everything up to that lacks nothing else, but that pages are gone.
    #[must_use]
    pub fn changed_above(&self, slice: SliceId, sequence: Sequence) -> Vec<ChangedPage> {
        self.core().changed_above(slice, sequence)
    }

    /// The pages that have committed blocks which are known to be bad, with one bit for each: found
    /// so when the store was opened or when they were read, and not written since.
    #[must_use]
    pub fn bad_blocks(&self, slice: SliceId) -> BTreeMap<PageIndex, u64> {
        self.core().bad_blocks(slice)
    }

    /// How many pages have committed blocks.
    #[must_use]
    pub fn allocated_pages(&self, slice: SliceId) -> u64 {
        self.core().allocated_pages(slice)
    }

    /// Makes sure that there is room for data in the range, until it has come and been destaged, or
    /// for 8 seconds. To reserve again is free while it holds.
    ///
    /// # Errors
    /// [`NoSpace`] if there is not; nothing more is reserved then.
    pub fn reserve(&mut self, slice: SliceId, range: BlockRange) -> Result<(), NoSpace> {
        self.core_mut()
            .map_or(Ok(()), |core| core.reserve(slice, range))
    }

    /// Gives back what is reserved for the slice and not needed by entries that are there.
    pub fn release_reservations(&mut self, slice: SliceId) {
        if let Some(core) = self.core_mut() {
            core.release_reservations(slice);
        }
    }

    /// Whether a round of destage could begin, and waits for [`destage`](Self::destage).
    #[must_use]
    pub fn destage_waits(&self) -> bool {
        match &self.phase {
            Phase::Open(core) => core.destage.waits && !core.failed && core.awaited.is_none(),
            _ => false,
        }
    }

    /// Lets it begin. Gives its pages, and their bytes of data.
    pub fn destage(&mut self, now: Instant, out: &mut Output) -> (u64, u64) {
        self.core_mut()
            .map_or((0, 0), |core| core.destage(now, out))
    }

    /// Whether new writes should hold off: much is waiting to be destaged. What is appended all the
    /// same waits inside.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.core().is_congested()
    }

    /// When the oldest call was made whose `Durable` has not come.
    #[must_use]
    pub fn oldest_unfinished_append(&self) -> Option<Instant> {
        self.core().oldest_unfinished_append()
    }

    /// How full the store is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.core().usage()
    }

    /// Adds a device, drains one or removes one. Orders are carried out one after the other. Ends with
    /// `DeviceOrdered`: once every device has the new list of devices; pages of a drained device move
    /// afterwards, and [`devices`](Self::devices) tells how many are left.
    pub fn order_device(
        &mut self,
        now: Instant,
        order: DeviceOrder,
        token: StoreToken,
        out: &mut Output,
    ) {
        if let Some(core) = self.core_mut() {
            core.order(order, token, out);
            core.maintain(now, out);
        }
    }

    /// The devices that the store has, in the order of their numbers.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceStatus> {
        self.core().device_statuses()
    }

    /// The slices that exist.
    #[must_use]
    pub fn slices(&self) -> Vec<SliceId> {
        let slices = self.core().slices.iter();
        slices
            .filter(|(_, slice)| !slice.dropping)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether the store is open and no device has failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&self.phase, Phase::Open(core) if !core.failed && core.awaited.is_none())
    }

    fn core(&self) -> &Core {
        match &self.phase {
            Phase::Open(core) => core,
            Phase::Opening(_) | Phase::Failed => panic!("the store is asked before it is open"),
        }
    }

    /// The open store; nothing once a device has failed.
    fn core_mut(&mut self) -> Option<&mut Core> {
        match &mut self.phase {
            Phase::Open(core) if core.failed => None,
            Phase::Open(core) => {
                assert!(core.awaited.is_none(), "the store is used once it is open");
                Some(core)
            }
            Phase::Opening(_) | Phase::Failed => panic!("the store is used before it is open"),
        }
    }

    fn act(&mut self, now: Instant, out: &mut Output, action: impl FnOnce(&mut Core)) {
        if let Some(core) = self.core_mut() {
            action(core);
            core.maintain(now, out);
        }
    }

    fn try_act<E>(
        &mut self,
        now: Instant,
        out: &mut Output,
        action: impl FnOnce(&mut Core) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.core_mut() {
            None => Ok(()),
            Some(core) => {
                let result = action(core);
                core.maintain(now, out);
                result
            }
        }
    }
}

impl From<Progress> for Phase {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Opening(opener) => Self::Opening(opener),
            Progress::Open(core) => Self::Open(core),
            Progress::Failed => Self::Failed,
        }
    }
}
