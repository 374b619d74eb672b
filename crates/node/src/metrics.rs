//! What a node tells Prometheus, in OpenMetrics' text.
//!
//! A metric is counted where it happens, or taken from the node's report when it is asked for; a new one
//! is a field here, registered once. Units are bytes and seconds. Labels have few values: a volume is
//! called as logs call it.
//!
//! Invariants:
//! - whoever counts never waits: counters are atomic, or belong to the services' thread;
//! - whoever asks is told all of one report, whoever else asks meanwhile;
//! - however many names hosts or peers make up, labels have a bounded number of values.

mod devices;
mod labels;
mod links;
mod members;
pub mod reference;
mod stalls;
mod traffic;
mod vitals;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::documents::{LocalMetadata, LocalReport};
use holdfast_model::VolumeId;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use devices::Devices;
use labels::{ConditionLabel, MemberLabel, ReasonLabel, VolumeName};
use links::Links;
pub(crate) use stalls::Stalls;
pub(crate) use traffic::Traffic;
use vitals::Vital;

type Total = Counter<u64, AtomicU64>;
type Seconds = Counter<f64, AtomicU64>;
type Level = Gauge<i64, AtomicI64>;

/// All metrics of a node.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Held while a text is made: what is told of the report is set for it, and some of it forgotten before.
    telling: Arc<Mutex<()>>,
    stalls: Stalls,
    traffic: Traffic,
    volumes_stalled: Level,
    volumes_unserved: Level,
    volume_names: Family<VolumeName, Level>,
    replicas_waiting: Family<ConditionLabel, Level>,
    open: Level,
    pool: Level,
    pool_used: Level,
    bad_blocks: Level,
    devices: Devices,
    member_up: Family<MemberLabel, Level>,
    registered: Level,
    metadata_followed: Level,
    metadata_believed: Level,
    sessions: Level,
    primaries: Level,
    replicas_lacking: Level,
    sync_left: Level,
    background_rate: Level,
    scrub_read: Total,
    scrub_bad: Total,
    scrub_differing: Total,
    scrub_unmended: Total,
    mended_blocks: Family<ReasonLabel, Total>,
    table_copies_mended: Total,
    journal_scrubs: Total,
    journal_scrub_read: Total,
    journal_bad: Total,
    journal_mended: Total,
    links: Links,
    vital: Vital,
    cache_hits: Total,
    cache_misses: Total,
    ahead_used: Total,
    ahead_unused: Total,
}

impl Metrics {
    /// The metrics of a node, all zero.
    #[must_use]
    pub fn new(node: &str) -> Self {
        let mut registry = Registry::with_prefix("holdfast");
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("node", node.to_owned()),
        ]);
        registry.register("build", "What runs here", build);
        let mut metrics = Self {
            registry: Arc::default(),
            telling: Arc::default(),
            stalls: Stalls::default(),
            traffic: Traffic::default(),
            volumes_stalled: Level::default(),
            volumes_unserved: Level::default(),
            volume_names: Family::default(),
            replicas_waiting: Family::default(),
            open: Level::default(),
            pool: Level::default(),
            pool_used: Level::default(),
            bad_blocks: Level::default(),
            devices: Devices::default(),
            member_up: Family::default(),
            registered: Level::default(),
            metadata_followed: Level::default(),
            metadata_believed: Level::default(),
            sessions: Level::default(),
            primaries: Level::default(),
            replicas_lacking: Level::default(),
            sync_left: Level::default(),
            background_rate: Level::default(),
            scrub_read: Total::default(),
            scrub_bad: Total::default(),
            scrub_differing: Total::default(),
            scrub_unmended: Total::default(),
            mended_blocks: Family::default(),
            table_copies_mended: Total::default(),
            journal_scrubs: Total::default(),
            journal_scrub_read: Total::default(),
            journal_bad: Total::default(),
            journal_mended: Total::default(),
            links: Links::default(),
            vital: Vital::default(),
            cache_hits: Total::default(),
            cache_misses: Total::default(),
            ahead_used: Total::default(),
            ahead_unused: Total::default(),
        };
        metrics.traffic.register(&mut registry);
        metrics.links.register(&mut registry);
        metrics.vital.register(&mut registry);
        metrics.stalls.register(&mut registry);
        metrics.register_counters(&mut registry);
        metrics.register_levels(&mut registry);
        metrics.register_served(&mut registry);
        metrics.devices.register(&mut registry);
        metrics.register_standing(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        let bytes = [
            (
                "scrub_read",
                "What scrubs of slices that are served from here have read, of all replicas",
                &self.scrub_read,
            ),
            (
                "journal_scrub_read",
                "What was read of the journal because scrubs began",
                &self.journal_scrub_read,
            ),
        ];
        register_all(registry, Some(&Unit::Bytes), bytes);
        let blocks = [
            (
                "scrub_bad_blocks",
                "Blocks of 4 KiB that they found unreadable, or with a wrong checksum",
                &self.scrub_bad,
            ),
            (
                "scrub_differing_blocks",
                "Blocks of 4 KiB that they found sound, and not as the other replicas have them",
                &self.scrub_differing,
            ),
            (
                "scrub_unmended_blocks",
                "Blocks of 4 KiB among these that could not be put right",
                &self.scrub_unmended,
            ),
            (
                "table_copies_mended",
                "Copies of entries of the page table that scrubs found bad, and that were written again",
                &self.table_copies_mended,
            ),
            (
                "journal_scrubs",
                "Times that all of the journal was read because scrubs began",
                &self.journal_scrubs,
            ),
            (
                "journal_bad_segments",
                "Segments of the journal that were found unreadable somewhere, or not as they had been written",
                &self.journal_bad,
            ),
            (
                "journal_mended_segments",
                "Those of them of which all that matters was written again",
                &self.journal_mended,
            ),
        ];
        register_all(registry, None, blocks);
        self.register_cache(registry);
        registry.register(
            "mended_blocks",
            "Blocks of 4 KiB here that were put right with what other replicas have: bad when somebody read them (read), known \
             to be bad, as after a scrub (known), or sound and not as the others have them (differing)",
            self.mended_blocks.clone(),
        );
    }

    /// What memory spares the devices.
    fn register_cache(&self, registry: &mut Registry) {
        let blocks = [
            (
                "cache_hit_blocks",
                "Blocks of 4 KiB that were in memory when they were asked for, because they had been read before",
                &self.cache_hits,
            ),
            (
                "cache_missed_blocks",
                "Blocks of 4 KiB that were not in memory when they were asked for, nor on their way there",
                &self.cache_misses,
            ),
            (
                "ahead_used_blocks",
                "Blocks of 4 KiB that had been read ahead when they were asked for, or were about to be",
                &self.ahead_used,
            ),
            (
                "ahead_unused_blocks",
                "Blocks of 4 KiB that were read ahead, and that nobody asked for before they went",
                &self.ahead_unused,
            ),
        ];
        register_all(registry, None, blocks);
    }

    /// How the node stands with the metadata.
    fn register_standing(&self, registry: &mut Registry) {
        let levels = [
            (
                "registered",
                "Whether this node has registered since it started, and nothing stands in its way since",
                &self.registered,
            ),
            (
                "metadata_followed",
                "Whether this node reaches the metadata, and believes it",
                &self.metadata_followed,
            ),
            (
                "metadata_believed",
                "0 if the metadata answers this node, which believes nothing of it",
                &self.metadata_believed,
            ),
        ];
        register_all(registry, None, levels);
        registry.register(
            "metadata_member_up",
            "Whether a member of etcd, of those that it lists itself, answers this node and has a leader; before it has said \
             who they are, an endpoint in this node's file",
            self.member_up.clone(),
        );
    }

    fn register_levels(&self, registry: &mut Registry) {
        let levels = [
            (
                "volumes_stalled",
                "Volumes that are stalled at this portal now",
                &self.volumes_stalled,
            ),
            (
                "volumes_unserved",
                "Volumes, of those that this node knows, with a slice of which this portal reaches no primary that takes reads and writes",
                &self.volumes_unserved,
            ),
            (
                "open",
                "Whether the devices are open, and none has failed",
                &self.open,
            ),
            (
                "bad_blocks",
                "Blocks of 4 KiB that are known to be bad here",
                &self.bad_blocks,
            ),
            (
                "sessions",
                "Sessions of initiators at this portal",
                &self.sessions,
            ),
            (
                "primaries",
                "Slices that are served from here",
                &self.primaries,
            ),
            (
                "replicas_lacking",
                "Replicas on other nodes, of slices that are served from here, that are not in sync",
                &self.replicas_lacking,
            ),
        ];
        register_all(registry, None, levels);
        let bytes = [
            ("pool", "The room on the devices", &self.pool),
            (
                "pool_used",
                "What of it is taken, or promised",
                &self.pool_used,
            ),
            (
                "sync_left",
                "What those replicas lack that are being brought up to date from here",
                &self.sync_left,
            ),
            (
                "background_rate",
                "What background work is held to in a second; 0 while it is held to nothing",
                &self.background_rate,
            ),
        ];
        register_all(registry, Some(&Unit::Bytes), bytes);
    }

    /// What is served, beside its numbers.
    fn register_served(&self, registry: &mut Registry) {
        registry.register(
            "volume_info",
            "What a volume is called that this node knows: always 1. Other metrics say only which volume: its name may be another one's \
             later",
            self.volume_names.clone(),
        );
        registry.register(
            "replicas_waiting",
            "Replicas here that serve nobody, by what each does: one that asks, begins or doubts waits for a \
             replica of its last epoch",
            self.replicas_waiting.clone(),
        );
    }

    /// What hosts and devices do.
    pub(crate) const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Links between nodes.
    pub(crate) const fn links(&self) -> &Links {
        &self.links
    }

    /// Stalls at this portal.
    pub(crate) const fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// What is served, and what replicas that serve nobody do.
    fn tell_served(&self, report: &LocalReport) {
        let unserved = report.volumes.iter().filter(|it| !it.serving).count();
        self.volumes_unserved.set(level(unserved as u64));
        self.volume_names.clear();
        let volumes = report.volumes.iter();
        for (volume, name) in volumes.filter_map(|it| Some((it.volume, it.name.clone()?))) {
            let volume = VolumeId(volume).to_string();
            let named = VolumeName { volume, name };
            self.volume_names.get_or_create(&named).set(1);
        }
        let lacking = report.slices.iter().map(|it| it.lacking.len() as u64);
        self.replicas_lacking.set(level(lacking.sum()));
        let joining = report.slices.iter().flat_map(|it| &it.joining);
        let left = joining.map(|it| it.bytes_total.saturating_sub(it.bytes_done));
        self.sync_left.set(level(left.sum()));
        self.replicas_waiting.clear();
        let conditions = report.slices.iter();
        for condition in conditions.filter_map(|it| it.condition.as_ref()) {
            let condition = condition.what.as_str();
            let waiting = self
                .replicas_waiting
                .get_or_create(&ConditionLabel { condition });
            waiting.inc();
        }
    }

    /// All of them, as of this report of the node.
    #[must_use]
    pub fn text(&self, report: &LocalReport) -> String {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = report.volumes.iter().map(|it| u64::from(it.sessions));
        let bad_blocks = report.slices.iter().map(|it| it.bad_blocks);
        let primaries = report.slices.iter().filter(|it| it.serving).count();
        let volumes_stalled = report.stalled.iter().filter(|it| it.initiator.is_none());
        self.volumes_stalled
            .set(level(volumes_stalled.count() as u64));
        self.open.set(i64::from(report.open));
        let is_registered = report.incarnation > 0 && report.rejected.is_none();
        self.registered.set(i64::from(is_registered));
        let metadata = report.metadata;
        let is_followed = metadata == LocalMetadata::Followed;
        self.metadata_followed.set(i64::from(is_followed));
        let is_believed = metadata != LocalMetadata::Behind;
        self.metadata_believed.set(i64::from(is_believed));
        self.pool.set(level(report.room.bytes));
        self.pool_used.set(level(report.room.used_bytes));
        self.bad_blocks.set(level(bad_blocks.sum()));
        self.sessions.set(level(sessions.sum()));
        self.primaries.set(level(primaries as u64));
        self.traffic.keep(report);
        self.links.keep();
        self.vital.tell(report);
        self.tell_served(report);
        self.devices.tell(report);
        self.tell_members(report);
        let rate = report.background_rate.unwrap_or(0);
        self.background_rate.set(level(rate));
        let (found, journal) = (&report.scrubbed, &report.journal_scrubs);
        for (total, count) in [
            (&self.scrub_read, found.bytes_read),
            (&self.scrub_bad, found.bad_blocks),
            (&self.scrub_differing, found.differing_blocks),
            (&self.scrub_unmended, found.unmended_blocks),
            (&self.table_copies_mended, report.table_copies_mended),
            (&self.journal_scrubs, journal.rounds),
            (&self.journal_scrub_read, journal.bytes_read),
            (&self.journal_bad, journal.bad_segments),
            (&self.journal_mended, journal.mended_segments),
            (&self.cache_hits, report.cache.hits),
            (&self.cache_misses, report.cache.misses),
            (&self.ahead_used, report.cache.ahead_used),
            (&self.ahead_unused, report.cache.ahead_unused),
        ] {
            total.inner().store(count, Ordering::Relaxed);
        }
        let mended = report.mended;
        for (reason, count) in [
            ("read", mended.read),
            ("known", mended.known),
            ("differing", mended.differing),
        ] {
            let total = self.mended_blocks.get_or_create(&ReasonLabel { reason });
            total.inner().store(count, Ordering::Relaxed);
        }
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes whatever is written");
        text
    }
}

fn level(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Registers metrics of one kind and unit, each with its name and what it is.
fn register_all<M: Metric + Clone, const N: usize>(
    registry: &mut Registry,
    unit: Option<&Unit>,
    metrics: [(&str, &str, &M); N],
) {
    for (name, help, metric) in metrics {
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit.clone(), metric.clone()),
            None => registry.register(name, help, metric.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
