//! From a seed and a profile to what goes wrong and when.
//!
//! Every seed draws its own mix: how large the cluster is, what it keeps, which kinds of faults there
//! are at all, and how often each happens ("swarm testing": Groce et al., 2012: runs that leave
//! something out go where runs with everything seldom come).
//!
//! Invariants:
//! - everything that goes wrong is mended by the end of the plan: nodes run, ways are passable;
//! - data stays recoverable: devices lose what they hold only while another in-sync replica of each of
//!   their slices exists; where they rot, nothing happens to the other nodes.

mod devices;
mod episodes;
mod guests;
mod headers;
mod journals;
mod mix;
mod operators;
mod rivals;
mod settings;
mod shape;
mod sites;
mod tight;

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Prng};

use self::mix::Mix;
use crate::cluster::{ClusterPlan, Fault};
use crate::profile::Profile;

/// What a run does.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The cluster.
    pub cluster: ClusterPlan,
    /// How long hosts are busy.
    pub load: Duration,
    /// What goes wrong, and is mended, and when after the load has begun.
    pub faults: Vec<(Duration, Fault)>,
    /// The node whose devices may lose what they hold.
    pub victim: NodeId,
    /// What is promised, and so what is checked.
    pub promise: Promise,
    /// Whether what the devices hold is compared in the end.
    pub compares: bool,
    /// Whether devices have too little room, until everything is mended.
    pub is_tight: bool,
}

/// What a cluster promises under what goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// Everything.
    #[default]
    All,
    /// That it agrees, comes back whole, and returns nothing that was not written: but reads may be of
    /// a moment ago, and a write may land after its time (`docs/simulation.md`, Beyond what is assumed).
    Agreement,
}

/// From when to when something is wrong.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: Duration,
    end: Duration,
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Calm,
    Rough,
    Storm,
    /// Devices of one node rot; the others have a good time, or data might be lost.
    Rot,
    /// A backup of the metadata is brought back, and no node starts while it is there.
    Backup,
    /// Devices of one node say that something is on stable storage when it is not.
    Lies,
    /// Machines stand still, and their clocks with them.
    Standstill,
}

impl RunPlan {
    /// The plan of a seed.
    pub fn draw(profile: Profile, prng: &mut Prng) -> Self {
        let (cluster, load) = shape::draw(profile, prng);
        let victim = NodeId(prng.between(1, cluster.nodes.into()) as u16);
        let mut plan = Self {
            cluster,
            load,
            faults: Vec::new(),
            victim,
            promise: Promise::All,
            compares: true,
            is_tight: false,
        };
        let weather = match profile {
            Profile::Beyond => *prng.choose(&[Weather::Lies, Weather::Standstill]),
            Profile::Short | Profile::Long => *prng.choose(&[
                Weather::Calm,
                Weather::Rough,
                Weather::Rough,
                Weather::Rough,
                Weather::Rough,
                Weather::Rough,
                Weather::Storm,
                Weather::Storm,
                Weather::Storm,
                Weather::Rot,
                Weather::Rot,
                Weather::Backup,
            ]),
        };
        plan.add_weather(profile, weather, prng);
        // Opening every node's devices once more costs as much as a quarter of a short run. Where devices
        // have lost something it is worth it.
        let dear = profile == Profile::Short && !plan.faults.iter().any(|(_, it)| it.loses_data());
        plan.compares = !dear || prng.chance(1, COMPARED_ONE_IN);
        let own = prng.clone().next_u64() ^ DEVICES;
        plan.add_devices(profile, weather, &mut Prng::from_seed(own));
        let own = own ^ DEVICES ^ HANGING_READS;
        plan.add_hanging_reads(profile, weather, &mut Prng::from_seed(own));
        let own = own ^ HANGING_READS ^ SETTINGS;
        plan.add_settings(profile, weather, &mut Prng::from_seed(own));
        let own = own ^ SETTINGS ^ SITES;
        plan.add_sites(weather, &mut Prng::from_seed(own));
        let own = own ^ SITES ^ TIGHT;
        plan.add_tight_devices(weather, &mut Prng::from_seed(own));
        let own = own ^ TIGHT ^ SCRUBS;
        plan.add_scrub_interval(profile, weather, &mut Prng::from_seed(own));
        let own = own ^ SCRUBS ^ GUESTS;
        plan.add_guests(profile, weather, &mut Prng::from_seed(own));
        let own = own ^ GUESTS ^ HEADERS;
        plan.add_lost_headers(weather, &mut Prng::from_seed(own));
        let own = own ^ HEADERS ^ RIVALS;
        plan.add_rivals(weather, &mut Prng::from_seed(own));
        plan
    }

    fn add_weather(&mut self, profile: Profile, weather: Weather, prng: &mut Prng) {
        let mut mix = Mix::draw(prng);
        match weather {
            Weather::Rot => mix.leave_out_all_but_moves(),
            Weather::Backup => mix.leave_out_starts(),
            _ => {}
        }
        // What has one copy, and moves or grows onto devices that rot, is lost when those before let it go.
        let copies = self.cluster.volumes.iter().map(|it| it.policy.copies());
        let copies_min = copies.min().unwrap_or(0);
        let may_be_lost = weather == Weather::Rot && copies_min == 1;
        // A node alone has nowhere to go. Where devices lie less can be promised of what they are asked.
        let unsteered =
            self.cluster.nodes == 1 || weather == Weather::Lies || may_be_lost || prng.chance(2, 5);
        if unsteered {
            mix.leave_out_steering();
        }
        if mix.is_steered() {
            self.steer(prng);
        }
        let episodes = match weather {
            Weather::Calm => prng.between(0, 1),
            Weather::Rough => prng.between(1, 3),
            Weather::Storm => prng.between(4, 9),
            Weather::Rot => {
                self.add_rot(prng);
                prng.between(0, 3)
            }
            Weather::Backup => {
                self.add_backup(prng);
                prng.between(0, 2)
            }
            Weather::Lies => {
                self.add_lies(prng);
                0
            }
            Weather::Standstill => {
                self.promise = Promise::Agreement;
                self.add_standstills(prng);
                prng.between(0, 3)
            }
        };
        // As many in each second of a long run as in a short one would be a storm without end.
        let episodes = match profile {
            Profile::Long => episodes * LONG_TIMES,
            Profile::Short | Profile::Beyond => episodes,
        };
        for _ in 0..episodes {
            self.add_episode(&mix, prng);
        }
        if weather != Weather::Backup && !may_be_lost && prng.chance(1, 4) {
            self.add_growth(weather, copies_min, prng);
        }
        if prng.chance(1, 3) {
            self.add_scrubs(prng);
        }
    }

    /// When everything is mended.
    #[must_use]
    pub fn end(&self) -> Duration {
        let last = self
            .faults
            .iter()
            .map(|(when, _)| *when)
            .max()
            .unwrap_or_default();
        self.load.max(last)
    }
}

/// Of the short runs whose devices keep what they hold, one in so many has them compared in the end.
const COMPARED_ONE_IN: u64 = 4;
/// What makes the stream of numbers for devices another one than the rest of the run goes on with.
const DEVICES: u64 = 0x0DE7_1CE5;
/// The same for devices whose reads hang.
const HANGING_READS: u64 = 0x4EAD_5000;
/// The same for settings that change.
const SETTINGS: u64 = 0x5E77_1265;
/// The same for where nodes stand.
const SITES: u64 = 0x0051_7E50;
/// The same for devices that are small.
const TIGHT: u64 = 0x0071_6847;
/// The same for scrubs that begin by themselves.
const SCRUBS: u64 = 0x005C_4BB5;
/// The same for volumes that come and go.
const GUESTS: u64 = 0x006C_E500;
/// The same for segments of journals that lack their headers.
const HEADERS: u64 = 0x004E_ADE4;
/// The same for hosts that take their volume from each other.
const RIVALS: u64 = 0x0041_7A15;
/// Episodes of a long run for each that a short one has.
const LONG_TIMES: u64 = 6;
