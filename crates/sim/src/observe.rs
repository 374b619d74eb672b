//! What is seen of a cluster from outside: whether it is whole, and how it got there.

use std::collections::BTreeSet;

use holdfast_engine::{Astray, Condition, DeviceStatus, MendedBlocks, ReplicaView, Stall};
use holdfast_model::record::{
    AccessRecord, IntentRecord, Membership, Record, ScrubFindings, ScrubRecord, SliceRecord,
    WishRecord,
};
use holdfast_model::{NodeId, SliceId};
use holdfast_stdx::Duration;

use crate::boot;
use crate::cluster::{Cluster, HostWord, SeenStall};
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::history::History;
use crate::host::HostCounts;
use crate::tally::Tally;
use crate::trace::Hash;

impl Cluster {
    /// The nodes.
    #[must_use]
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// Whether every node is registered.
    pub(crate) fn is_registered(&mut self) -> bool {
        let Some(inventory) = self.inventory() else {
            return false;
        };
        let ready = |node: &crate::cluster::Node| {
            let process = node.process.as_ref();
            process.is_some_and(|process| process.engine.status().registered)
        };
        self.nodes
            .values()
            .all(|node| inventory.nodes.contains_key(&node.id) && ready(node))
    }

    /// Makes the volumes.
    pub(crate) fn create_volumes(&mut self) -> Result<(), Failure> {
        self.save_metadata();
        self.begin_to_steer()?;
        for volume in self.plan.volumes.clone() {
            self.change_metadata(|machine, out| boot::create_volume(machine, &volume, out))?;
        }
        Ok(())
    }

    /// A volume grows while it is in use; its hosts use what is new as soon as nodes let them.
    pub(crate) fn grow(&mut self, volume: usize) -> Result<(), Failure> {
        let before = self.plan.volumes[volume].clone();
        let mut after = before.clone();
        if !after.grow() {
            return Ok(());
        }
        let opened = self.nodes.values().filter(|node| {
            let process = node.process.as_ref();
            process.is_some_and(|process| process.identity.is_some())
        });
        let up: BTreeSet<NodeId> = opened.map(|node| node.id).collect();
        let mut done = false;
        self.change_metadata(|machine, out| {
            done = boot::grow_volume(machine, &before, after.bytes, |it| up.contains(&it), out);
        })?;
        if !done {
            return Ok(());
        }
        for host in &mut self.hosts {
            if self.plan.hosts[host.index].volume == volume {
                host.focus(after.clone());
            }
        }
        self.plan.volumes[volume] = after;
        Ok(())
    }

    /// Deletes the volumes.
    ///
    /// # Errors
    /// [`Failure`] if that is against an invariant.
    pub fn delete_volumes(&mut self) -> Result<(), Failure> {
        for volume in self.plan.volumes.clone() {
            self.change_metadata(|machine, out| boot::delete_volume(machine, &volume, out))?;
        }
        Ok(())
    }

    /// The control plane wants a slice to be somewhere.
    ///
    /// # Errors
    /// [`Failure`] if that is against an invariant.
    pub fn wish(&mut self, wish: &WishRecord) -> Result<(), Failure> {
        let (key, value) = (WishRecord::key(wish.slice), wish.encode());
        self.change_metadata(|machine, out| boot::put(machine, key, value, out))
    }

    /// Somebody is given or loses rights to a volume.
    ///
    /// # Errors
    /// [`Failure`] if that is against an invariant.
    pub fn set_access(&mut self, record: &AccessRecord) -> Result<(), Failure> {
        let (key, value) = (AccessRecord::key(record.volume), record.encode());
        self.change_metadata(|machine, out| boot::put(machine, key, value, out))
    }

    /// From now on nobody may have copied what was permitted by an older access to a volume than this one: whoever leads anything has
    /// heard of that.
    pub fn rights_are_over(&mut self, record: &AccessRecord) {
        let copies = &mut self.invariants.copies;
        copies.rights_are_over(record.volume, record.fence);
    }

    /// How often a part of a copy was refused because of that.
    #[must_use]
    pub fn copies_refused(&self) -> u64 {
        self.invariants.copies.refused()
    }

    /// Parts of copies that a node was asked to do by others, and has not answered.
    #[must_use]
    pub fn copies_under_way(&self, node: NodeId) -> usize {
        self.invariants.copies.under_way(node)
    }

    /// All volumes are to be scrubbed, however far the last scrub is. Tells the round.
    ///
    /// # Errors
    /// [`Failure`] if that is against an invariant.
    pub fn scrub(&mut self) -> Result<u64, Failure> {
        self.scrubs += 1;
        let round = self.scrubs;
        let inventory = self.inventory();
        let volumes = inventory.iter().flat_map(|it| it.volumes.keys().copied());
        for volume in volumes.collect::<BTreeSet<_>>() {
            let record = ScrubRecord {
                schema: 1,
                volume,
                round,
                began_seconds: 0,
                last: None,
            };
            let (key, value) = (ScrubRecord::key(volume), record.encode());
            self.change_metadata(|machine, out| boot::put(machine, key, value, out))?;
        }
        Ok(round)
    }

    /// How many blocks of a node were put right since its start.
    #[must_use]
    pub fn mended(&self, node: NodeId) -> MendedBlocks {
        let process = self.nodes[&node].process.as_ref();
        process.map_or_else(MendedBlocks::default, |process| {
            process.engine.status().mended
        })
    }

    /// How many copies of entries of its page table a node has found to be bad since its start.
    #[must_use]
    pub fn bad_copies(&self, node: NodeId) -> u64 {
        let process = self.nodes[&node].process.as_ref();
        process.map_or(0, |process| process.engine.status().usage.bad_copies)
    }

    /// Rounds that a node has read its journal since its start, segments of it that were bad, and of these those that do
    /// not matter any more.
    #[must_use]
    pub fn journal_scrubs(&self, node: NodeId) -> (u64, u64, u64) {
        let process = self.nodes[&node].process.as_ref();
        let usage = process.map(|process| process.engine.status().usage);
        let journal = usage.unwrap_or_default().journal;
        (journal.rounds, journal.rotten, journal.mended)
    }

    /// What was found in slices that are done with a round.
    #[must_use]
    pub fn scrubbed(&mut self, round: u64) -> Vec<ScrubFindings> {
        let inventory = self.inventory();
        let scrubbed = inventory.iter().flat_map(|it| it.scrubbed.values());
        let done = scrubbed.filter(|scrubbed| scrubbed.round >= round);
        done.map(|scrubbed| scrubbed.findings).collect()
    }

    /// The operator wants something of a node.
    ///
    /// # Errors
    /// [`Failure`] if that is against an invariant.
    pub fn intend(&mut self, intent: &IntentRecord) -> Result<(), Failure> {
        let (key, value) = (IntentRecord::key(intent.node), intent.encode());
        self.change_metadata(|machine, out| boot::put(machine, key, value, out))
    }

    /// Hosts begin new commands, or do not any more.
    ///
    /// # Errors
    /// [`Failure`] if a host does something that it should not.
    pub fn set_busy(&mut self, busy: bool) -> Result<(), Failure> {
        self.last_done = self.now;
        self.busy = busy;
        for host in 0..self.hosts.len() {
            self.hosts[host].busy = busy;
            let now = self.now;
            self.with_host(host, |host, history, acts| host.act(now, history, acts))?;
        }
        Ok(())
    }

    /// A host writes the template to its volume, for others to copy.
    ///
    /// # Errors
    /// [`Failure`] if it is treated badly.
    pub fn write_template(&mut self, host: usize) -> Result<(), Failure> {
        let now = self.now;
        self.with_host(host, |host, history, acts| {
            host.want_template(now);
            host.act(now, history, acts);
        })
    }

    /// Every host uses these places of its volume from now on: runs of blocks, each its first and
    /// how many. They are among those that are looked at in the end.
    pub fn focus(&mut self, areas: &[(u64, u64)]) {
        for host in &mut self.hosts {
            let mut plan = self.plan.volumes[self.plan.hosts[host.index].volume].clone();
            plan.areas = areas.to_vec();
            plan.large_area = None;
            host.focus(plan);
        }
    }

    /// Whether no host waits for anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // Nobody answers those whose volume is deleted.
        let mut hosts = self.hosts.iter().filter(|host| !host.is_of_gone());
        hosts.all(crate::host::Host::is_idle)
    }

    /// What the hosts saw, all together.
    #[must_use]
    pub fn host_counts(&self) -> HostCounts {
        let mut sum = HostCounts::default();
        for host in &self.hosts {
            sum.done += host.counts.done;
            sum.repeated += host.counts.repeated;
            sum.copies += host.counts.copies;
            sum.copies_aborted += host.counts.copies_aborted;
            sum.copy_longest = sum.copy_longest.max(host.counts.copy_longest);
            sum.medium_errors += host.counts.medium_errors;
            sum.no_space += host.counts.no_space;
            sum.resets += host.counts.resets;
            sum.resets_refused += host.counts.resets_refused;
            sum.attentions += host.counts.attentions;
            sum.put_off += host.counts.put_off;
            sum.beyond_end += host.counts.beyond_end;
            sum.no_target += host.counts.no_target;
            sum.other_volume += host.counts.other_volume;
            sum.conflicts += host.counts.conflicts;
            sum.taken += host.counts.taken;
        }
        sum
    }

    /// From now on nobody is to blame for a write that lands after its time.
    pub(crate) fn let_writes_be_late(&mut self) {
        self.invariants.let_writes_be_late();
    }

    /// What was reached.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.watch.coverage.clone();
        let counts = self.host_counts();
        for (point, count) in [
            ("done", counts.done),
            ("told something else first", counts.attentions),
            ("later", counts.put_off),
            ("medium error", counts.medium_errors),
            ("no room", counts.no_space),
            ("repeated over another path", counts.repeated),
            ("reset done", counts.resets),
            ("reset refused", counts.resets_refused),
            ("waits for growth", counts.beyond_end),
            ("no such target", counts.no_target),
            ("another volume", counts.other_volume),
            ("reservation conflict", counts.conflicts),
            ("fenced another off", counts.taken),
        ] {
            coverage.add("host", point, count);
        }
        coverage.reach("nodes", &self.plan.nodes.to_string());
        coverage.reach("volumes", &self.planned_volumes().to_string());
        for volume in &self.plan.volumes {
            coverage.reach("policy", volume.policy.as_str());
        }
        coverage
    }

    /// Whether a node's process runs.
    #[must_use]
    pub fn is_running(&self, node: NodeId) -> bool {
        self.nodes[&node].process.is_some()
    }

    /// Bytes that were copied to joining replicas since the nodes that run now were started.
    #[must_use]
    pub fn bytes_moved(&self) -> u64 {
        let engines = self.nodes.values().filter_map(|node| node.process.as_ref());
        engines
            .map(|process| process.engine.status().bytes_moved)
            .sum()
    }

    /// Blocks that a node, if it runs, knows to be bad.
    #[must_use]
    pub fn bad_blocks(&self, node: NodeId) -> u64 {
        let process = self.nodes[&node].process.iter();
        let replicas = process.flat_map(|process| process.engine.status().replicas);
        replicas.map(|replica| replica.bad_blocks).sum()
    }

    /// The nodes to which a node, if it runs, has links.
    #[must_use]
    pub fn links(&self, node: NodeId) -> Vec<NodeId> {
        let process = self.nodes[&node].process.iter();
        process
            .flat_map(|process| process.engine.status().peers)
            .collect()
    }

    /// Sessions of hosts at a node's portal, if it runs.
    #[must_use]
    pub fn sessions(&self, node: NodeId) -> u32 {
        let process = self.nodes[&node].process.iter();
        let volumes = process.flat_map(|process| process.engine.status().volumes);
        volumes.map(|volume| volume.sessions).sum()
    }

    /// Pages that a node's store holds, if it runs.
    #[must_use]
    pub fn pages_used(&self, node: NodeId) -> u64 {
        let process = self.nodes[&node].process.as_ref();
        process.map_or(0, |process| process.engine.status().usage.pages_used)
    }

    /// What a node, if it runs, says of its replica of a slice.
    #[must_use]
    pub fn condition(&self, node: NodeId, slice: SliceId) -> Option<Condition> {
        let process = self.nodes[&node].process.as_ref()?;
        let replicas = process.engine.status().replicas.into_iter();
        let mut replicas = replicas.filter(|replica| replica.slice == slice);
        replicas.next().map(|replica| replica.condition)
    }

    /// The devices that a node's store has, if it runs.
    #[must_use]
    pub fn devices(&self, node: NodeId) -> Vec<DeviceStatus> {
        let process = self.nodes[&node].process.iter();
        process
            .flat_map(|process| process.engine.status().devices)
            .collect()
    }

    /// What hosts asked and were told.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What this node does is not held against the invariants; or what every node does is.
    pub fn leave_out(&mut self, node: Option<NodeId>) {
        self.invariants.leave_out(node);
    }

    /// Why a node does not follow the metadata, if it runs and does not.
    #[must_use]
    pub fn astray(&self, node: NodeId) -> Option<Astray> {
        let process = self.nodes[&node].process.as_ref();
        process.and_then(|process| process.engine.status().astray)
    }

    /// What the engines told of.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The stalls that engines told of, in their order.
    #[must_use]
    pub fn stalls(&self) -> &[SeenStall] {
        &self.stalls
    }

    /// The volumes of which no command is done at a node's portal though some wait.
    #[must_use]
    pub fn stalled(&self, node: NodeId) -> Vec<Stall> {
        let process = self.nodes[&node].process.iter();
        process
            .flat_map(|process| process.engine.status().stalled)
            .collect()
    }

    /// When hosts sent commands, and when they heard that they are done, in that order.
    #[must_use]
    pub fn host_words(&self) -> &[HostWord] {
        &self.host_words
    }

    /// The longest time in which no command was done, from now on.
    pub fn watch_stall(&mut self) {
        self.stall = Duration::ZERO;
        self.last_done = self.now;
    }

    /// The longest time in which no command was done while hosts were busy, the time since the last
    /// one included.
    #[must_use]
    pub fn stall(&self) -> Duration {
        self.stall.max(self.now.since(self.last_done))
    }

    /// The sum of the trace.
    #[must_use]
    pub fn trace_hash(&self) -> Option<Hash> {
        self.trace.hash()
    }

    /// The replicas of a node that runs.
    #[must_use]
    pub fn views(&self, node: NodeId) -> Vec<ReplicaView> {
        let node = &self.nodes[&node];
        let now = node.clock.shows(self.now);
        let process = node.process.iter();
        process
            .flat_map(|process| process.engine.views(now))
            .collect()
    }

    /// The slices' records.
    #[must_use]
    pub fn records(&self) -> Vec<SliceRecord> {
        self.slices().cloned().collect()
    }

    /// What is not yet as it should be; `None` if everything is.
    pub(crate) fn unconverged(&mut self) -> Option<String> {
        if let Some(node) = self.with_gap() {
            return Some(format!("{node} has not heard all from the metadata"));
        }
        for node in self.node_ids() {
            if let Some(what) = self.strayed(node) {
                return Some(what);
            }
        }
        for record in self.slices() {
            if let Some(what) = self.slice_unconverged(record) {
                return Some(format!("slice {}: {what}; {record:?}", record.slice));
            }
        }
        let mut nodes = self.node_ids();
        nodes.retain(|node| self.is_told_of(*node));
        if let Some(what) = self.left_of_volumes() {
            return Some(what);
        }
        if let Some(node) = self.misinformed(&nodes) {
            return Some(format!("{node} does not go by what the metadata holds"));
        }
        for host in &self.hosts {
            if host.is_of_gone() {
                if let Some(node) = host.unrefused(&nodes) {
                    let host = host.index;
                    let what = format!("{node} has not told h{host} that its volume is gone");
                    return Some(what);
                }
                continue;
            }
            if host.paths_up() < nodes.len() {
                return Some(format!("host h{} has not all its paths", host.index));
            }
            if !host.busy && !host.is_idle() {
                return Some(format!(
                    "host h{} waits since {:?}",
                    host.index,
                    host.oldest()
                ));
            }
        }
        None
    }

    /// Whether a slice's record names the replica that a node's devices hold.
    pub(crate) fn is_named(&self, node: NodeId, slice: SliceId) -> bool {
        let record = self.slices().find(|record| record.slice == slice);
        let replica = record.and_then(|record| record.replica(node));
        replica.is_some_and(|replica| replica.store == self.nodes[&node].store)
    }

    /// What a node has that no record names.
    fn strayed(&self, node: NodeId) -> Option<String> {
        let mut views = self.views(node).into_iter();
        if let Some(stray) = views.find(|view| !self.is_named(node, view.slice)) {
            return Some(format!(
                "{node} has a replica that no record names: {stray:?}"
            ));
        }
        let status = self.nodes[&node].process.as_ref()?.engine.status();
        if status.notes_going > 0 {
            return Some(format!("{node} has notes of what is gone"));
        }
        let named: u64 = status.replicas.iter().map(|replica| replica.pages).sum();
        let used = status.usage.pages_used;
        (used > named).then(|| format!("{node} has {used} pages, and {named} are of replicas"))
    }

    /// One of these nodes that goes by other records than those that there are.
    fn misinformed(&mut self, nodes: &[NodeId]) -> Option<NodeId> {
        let inventory = self.inventory()?;
        let is_misinformed = |node: &&NodeId| {
            let Some(process) = &self.nodes[*node].process else {
                return false;
            };
            let engine = &process.engine;
            let volumes = inventory.volumes.values().map(|volume| &volume.record);
            !engine.slice_records().eq(inventory.slices.values())
                || !engine.volume_records().eq(volumes)
                || *engine.settings() != inventory.settings.record
        };
        nodes.iter().find(is_misinformed).copied()
    }

    fn slice_unconverged(&self, record: &SliceRecord) -> Option<String> {
        let whole = record
            .replicas
            .iter()
            .all(|replica| replica.membership == Membership::InSync);
        if !whole {
            return Some("not every replica is in sync".into());
        }
        for replica in &record.replicas {
            let views = self.views(replica.node);
            let view = views.iter().find(|view| view.slice == record.slice);
            let Some(view) = view else {
                return Some(format!("{} has no replica", replica.node));
            };
            if view.in_sync != Some(record.epoch) {
                return Some(format!("{} has not begun: {view:?}", replica.node));
            }
            let leads = view.leads == Some(record.epoch);
            if leads != (replica.node == record.primary) {
                return Some(format!("who leads is not who should: {view:?}"));
            }
            if view.committed != view.prepared.1 {
                return Some(format!(
                    "{} has uncommitted entries: {view:?}",
                    replica.node
                ));
            }
        }
        None
    }

    /// Every host reads everything over every path.
    pub(crate) fn read_everything(&mut self) -> Result<(), Failure> {
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_of_gone() {
                continue;
            }
            let volume = self.plan.hosts[host].volume;
            let areas = self.plan.volumes[volume].everything(volume);
            let now = self.now;
            self.with_host(host, |host, history, acts| {
                for path in 0..host.path_count() {
                    for sectors in &areas {
                        host.want_read(now, path, *sectors);
                    }
                }
                host.act(now, history, acts);
            })?;
        }
        Ok(())
    }
}
