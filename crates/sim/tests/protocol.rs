//! Stories of the replication protocol, told on a whole cluster.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::{ClusterPlan, Fault, NodePlan};
use holdfast_sim::network::Place;
use holdfast_sim::plan::RunPlan;
use holdfast_sim::run::{Report, run_plan};
use holdfast_sim::trace::Trace;
use holdfast_sim::volumes::VolumePlan;
use holdfast_stdx::{Duration, Prng};

fn plan(prng: &mut Prng, nodes: u16, policy: Policy) -> RunPlan {
    let mut hosts: Vec<HostPlan> = (0..2).map(|_| HostPlan::draw(0, prng)).collect();
    for host in &mut hosts {
        host.resets = None;
    }
    RunPlan {
        cluster: ClusterPlan {
            nodes,
            node: NodePlan::draw(prng),
            volumes: vec![VolumePlan::new("disk", policy)],
            hosts,
        },
        load: Duration::from_secs(12),
        faults: Vec::new(),
        victim: NodeId(1),
    }
}

fn go(plan: &RunPlan, prng: &mut Prng) -> Report {
    run_plan(plan, prng, Trace::Off).unwrap_or_else(|failed| panic!("{failed:?}"))
}

/// What had arrived at any node is over when a reset is answered (the invariant `settled`), and it
/// is answered although nodes cannot be asked.
#[test]
fn resets_reach_commands_on_other_nodes_and_do_not_wait_for_ever() {
    let mut answered = 0;
    for seed in 0..6 {
        let mut prng = Prng::from_seed(seed);
        let mut plan = plan(&mut prng, 3, Policy::Mirror2);
        for host in &mut plan.cluster.hosts {
            host.resets = Some(Duration::from_millis(700));
        }
        let node = NodeId(1 + seed as u16 % 3);
        let other = NodeId(1 + (seed as u16 + 1) % 3);
        let (start, end) = (Duration::from_secs(2), Duration::from_secs(9));
        plan.faults = match seed % 3 {
            0 => vec![(start, Fault::Kill(node)), (end, Fault::Start(node))],
            1 => {
                let (one, two) = (Place::Node(node), Place::Node(other));
                vec![
                    (start, Fault::Cut(one, two)),
                    (start, Fault::Cut(two, one)),
                    (end, Fault::Mend(one, two)),
                    (end, Fault::Mend(two, one)),
                ]
            }
            _ => vec![(
                start,
                Fault::Freeze {
                    node,
                    span: Duration::from_secs(5),
                    between: false,
                },
            )],
        };
        let report = go(&plan, &mut prng);
        assert!(report.hosts.resets >= 2, "seed {seed}: {report}");
        answered += report.hosts.resets;
    }
    assert!(answered > 30, "{answered}");
}
