//! How large a cluster is, what it keeps, and who uses it.

use holdfast_model::Policy;
use holdfast_stdx::{Duration, Prng};

use crate::cluster::{ClusterPlan, NodePlan};
use crate::host::HostPlan;
use crate::profile::Profile;
use crate::volumes::VolumePlan;

/// How many nodes: two and the metadata elsewhere, as with a witness, up to seven.
const NODES_SHORT: &[u16] = &[
    1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 7,
];
const NODES_LONG: &[u16] = &[2, 3, 3, 4, 4, 5, 5, 7];
/// A node alone has nothing to agree on; more than these have more to do than a minute's run can wait for.
const NODES_BEYOND: &[u16] = &[2, 3, 3, 3, 4, 5];

/// Half of the largest clusters are of one node less; this makes the stream of numbers another one than the run goes on with.
const SIX: u64 = 0x0000_5169;

/// A cluster, and how long its hosts are busy.
pub(super) fn draw(profile: Profile, prng: &mut Prng) -> (ClusterPlan, Duration) {
    let nodes = *prng.choose(match profile {
        Profile::Short => NODES_SHORT,
        Profile::Long => NODES_LONG,
        Profile::Beyond => NODES_BEYOND,
    });
    // Of a stream of its own: what smaller clusters do is what it was before there were any of six.
    let own = prng.clone().next_u64() ^ SIX;
    let is_six = nodes == 7 && Prng::from_seed(own).chance(1, 2);
    let nodes = if is_six { 6 } else { nodes };
    let volumes_max = match profile {
        Profile::Long => 3,
        Profile::Short | Profile::Beyond => 1 + u64::from(prng.chance(1, 6)),
    };
    let hosts_max = match profile {
        Profile::Long => 4,
        Profile::Short | Profile::Beyond => 2,
    };
    let load_ms = match profile {
        Profile::Long => prng.between(30_000, 120_000),
        Profile::Short | Profile::Beyond => prng.between(1_000, 3_600),
    };
    let crowded = prng.chance(1, 5);
    let volumes = (0..prng.between(1, volumes_max))
        .map(|number| draw_volume(number, nodes, profile, crowded, prng))
        .collect::<Vec<_>>();
    // Every volume has a host, or nobody would notice what becomes of it.
    let hosts = prng.between(1, hosts_max).max(volumes.len() as u64);
    let hosts = (0..hosts)
        .map(|number| HostPlan::draw(number as usize % volumes.len(), crowded, prng))
        .collect();
    let cluster = ClusterPlan {
        nodes,
        node: NodePlan::draw(prng),
        volumes,
        hosts,
        guests: Vec::new(),
        controller: None,
        probes: profile == Profile::Long,
    };
    (cluster, Duration::from_millis(load_ms))
}

fn draw_volume(
    number: u64,
    nodes: u16,
    profile: Profile,
    crowded: bool,
    prng: &mut Prng,
) -> VolumePlan {
    // What has one copy has nothing to fall back on when its device lies.
    let least = match profile {
        Profile::Beyond => 2,
        Profile::Short | Profile::Long => 1,
    };
    let policies: Vec<Policy> = [
        Policy::None,
        Policy::Mirror2,
        Policy::Mirror2,
        Policy::Mirror2,
        Policy::Mirror3,
        Policy::Mirror3,
        Policy::Mirror4,
    ]
    .into_iter()
    .filter(|policy| (least..=usize::from(nodes)).contains(&policy.copies()))
    .collect();
    let mut volume = VolumePlan::new(&format!("disk{number}"), *prng.choose(&policies));
    if crowded {
        volume.crowd();
    } else if prng.chance(1, 4) {
        volume.add_large_area();
    }
    volume
}
