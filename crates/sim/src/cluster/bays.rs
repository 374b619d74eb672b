//! Where a node's devices are: in their places, taken out, or dead.
//!
//! Invariants:
//! - a process is given the devices that are in their places when it starts, and others only by order;
//! - a process asks nothing of a device that it was not given, or has let go.

use holdfast_model::DiskId;

/// Whether a device can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    There,
    /// Somebody has taken it out, and puts it back.
    Pulled,
    /// Nobody will ever read anything of it.
    Dead,
}

/// A place for a device.
#[derive(Clone, Copy, Debug, Default)]
struct Bay {
    place: Place,
    /// The process that runs may ask it for something.
    is_open: bool,
    /// It failed while the store was opened: the next start does without it.
    is_left_out: bool,
    /// It is there again, and the process was started without it.
    has_returned: bool,
    /// Its writes are to fail as soon as all that is on it is elsewhere.
    is_doomed: bool,
}

/// The places for a node's devices, in the order of their disks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bays(Vec<Bay>);

impl Bays {
    /// So many devices, all there.
    pub(super) fn full(count: usize) -> Self {
        Self(vec![Bay::default(); count])
    }

    /// One more, that is there.
    pub(super) fn add(&mut self) {
        self.0.push(Bay::default());
    }

    /// Whether all devices are there, and nothing is wrong with any.
    pub(super) fn are_full(&self) -> bool {
        let is_sound = |bay: &Bay| bay.place == Place::There && !bay.is_doomed && !bay.is_left_out;
        self.0.iter().all(is_sound)
    }

    /// Whether the next process is given a device.
    pub(super) fn is_given(&self, disk: DiskId) -> bool {
        let bay = self.bay(disk);
        bay.place == Place::There && !bay.is_left_out
    }

    /// Whether the next process is given every device that the node has.
    pub(super) fn are_all_given(&self) -> bool {
        self.disks().all(|disk| self.is_given(disk))
    }

    /// A process starts.
    pub(super) fn open_given(&mut self) {
        for bay in &mut self.0 {
            bay.has_returned = std::mem::take(&mut bay.is_left_out);
            bay.is_open = bay.place == Place::There && !bay.has_returned;
        }
    }

    /// The process has ended: nothing is wrong with any device any more.
    pub(super) fn close(&mut self) {
        for bay in &mut self.0 {
            bay.is_open = false;
            bay.is_doomed = false;
        }
    }

    /// Whether the process may ask a device for something.
    pub(super) fn is_open(&self, disk: DiskId) -> bool {
        self.bay(disk).is_open
    }

    /// The process is given a device, or lets it go.
    pub(super) fn set_open(&mut self, disk: DiskId, is_open: bool) {
        self.bay_mut(disk).is_open = is_open;
    }

    /// Devices that are there, and that the process does not use.
    pub(super) fn spare(&self) -> impl Iterator<Item = DiskId> {
        let is_spare = |disk: &DiskId| self.is_there(*disk) && !self.is_open(*disk);
        self.disks().filter(is_spare)
    }

    /// Devices that are there.
    pub(super) fn there(&self) -> impl Iterator<Item = DiskId> {
        self.disks().filter(|disk| self.is_there(*disk))
    }

    fn is_there(&self, disk: DiskId) -> bool {
        self.bay(disk).place == Place::There
    }

    /// Somebody takes a device out.
    pub(super) fn pull(&mut self, disk: DiskId) {
        self.bay_mut(disk).place = Place::Pulled;
    }

    /// Those that were taken out are put back. Says whether there were any.
    pub(super) fn put_back(&mut self) -> bool {
        let pulled = self.0.iter_mut().filter(|it| it.place == Place::Pulled);
        let returned = pulled.map(|bay| {
            bay.place = Place::There;
            bay.has_returned = true;
        });
        returned.count() > 0
    }

    /// Whether there are devices that the process was started without.
    pub(super) fn have_returned(&self) -> bool {
        self.0.iter().any(|bay| bay.has_returned)
    }

    /// Those that were taken out are dead, but for what the journal needs: without that the node would be
    /// another one. Says whether there were any.
    pub(super) fn discard(&mut self, is_needed: impl Fn(DiskId) -> bool) -> bool {
        let bays = (0..).map(DiskId).zip(&mut self.0);
        let pulled = bays.filter(|(disk, it)| it.place == Place::Pulled && !is_needed(*disk));
        pulled.map(|(_, bay)| bay.place = Place::Dead).count() > 0
    }

    /// A device will never be there again.
    pub(super) fn bury(&mut self, disk: DiskId) {
        self.bay_mut(disk).place = Place::Dead;
    }

    /// The next start does without a device.
    pub(super) fn leave_out(&mut self, disk: DiskId) {
        self.bay_mut(disk).is_left_out = true;
    }

    /// A device is to fail.
    pub(super) fn doom(&mut self, disk: DiskId) {
        self.bay_mut(disk).is_doomed = true;
    }

    /// Devices that are to fail.
    pub(super) fn doomed(&self) -> impl Iterator<Item = DiskId> {
        self.disks().filter(|disk| self.bay(*disk).is_doomed)
    }

    /// They fail, or are not to any more.
    pub(super) fn end_doom(&mut self) {
        self.0.iter_mut().for_each(|bay| bay.is_doomed = false);
    }

    fn disks(&self) -> impl Iterator<Item = DiskId> + use<> {
        (0..self.0.len() as u16).map(DiskId)
    }

    fn bay(&self, disk: DiskId) -> &Bay {
        &self.0[usize::from(disk.0)]
    }

    fn bay_mut(&mut self, disk: DiskId) -> &mut Bay {
        &mut self.0[usize::from(disk.0)]
    }
}
