//! Checks of the journal in use: what has rotted there is still in memory, and is written again.
//!
//! The owner has a round begin, and says when each piece of it may be read: nobody waits for it. Segments with a bad place are
//! trimmed out of turn, with all before them: as with every trim, what still matters is written again at the
//! chain's end before (`trim`). When that has been told by a durable group, no recovery reads the bad place any more.
//!
//! Invariant: where the journal has no room for that, it waits, and nothing else waits for it.

use holdfast_model::DiskCompletion;

use crate::event::{Output, StoreEvent};
use crate::machine::Core;
use crate::requests::Urgency;

impl Core {
    /// Reads the next piece, if a round is under way.
    pub(crate) fn check_piece(&mut self) {
        if let Some(request) = self.journal.next_check_request() {
            self.requests.push(request, Urgency::Background);
        }
    }

    /// Takes the end of a request.
    ///
    /// # Errors
    /// If the journal's device has failed.
    pub(crate) fn handle_check(
        &mut self,
        completion: DiskCompletion,
        out: &mut Output,
    ) -> Result<(), ()> {
        let found = self.journal.take_checked(completion);
        if let Some(rotten) = found.map_err(|_| ())? {
            out.events.push_back(StoreEvent::JournalRotten(rotten));
        }
        // Where blocks cannot be read the others of the piece are, one by one.
        if let Some(request) = self.journal.rest_of_check_piece() {
            self.requests.push(request, Urgency::Background);
        }
        Ok(())
    }

    /// Has segments that had a bad place get blank headers.
    pub(crate) fn go_on_blanking(&mut self) {
        if let Some(request) = self.journal.next_blank_request() {
            self.requests.push(request, Urgency::Background);
        }
    }

    /// Whether what is in the way of a rotten segment's trim may be written again although that makes little room: if
    /// what is kept for what makes room is left, whatever it is.
    pub(crate) fn may_mend(&self, partition: u16) -> bool {
        let mut others = self.partitions.iter();
        let segment_bytes = 2 * self.journal.record_data_max() as u64;
        let kept = 2 * self.partitions.len() as u64 * segment_bytes;
        let live = self.partitions[usize::from(partition)].live_bytes;
        let free = u64::from(self.journal.free_segments()) * segment_bytes;
        self.journal.is_rotten(partition)
            && others.all(|other| other.carrying == 0)
            && kept + live <= free
    }
}
