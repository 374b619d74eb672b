//! One run: a cluster is made, hosts are busy while things go wrong; then nothing goes wrong any
//! more, and everything must be there.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Instant, Prng};

use crate::cluster::{Cluster, Fault};
use crate::coverage::Coverage;
use crate::failure::{Failed, Failure};
use crate::host::HostCounts;
use crate::oracle;
use crate::plan::{Promise, RunPlan};
use crate::profile::Profile;
use crate::tally::Tally;
use crate::trace::{Hash, Trace};

/// How long nodes may take to be there.
const BOOT_MAX: Duration = Duration::from_secs(10);
/// How long the cluster may take to be whole again after the last fault: a replica whose journal
/// ended in a bad group may wait for a minute.
const CONVERGENCE_MAX: Duration = Duration::from_secs(100);
/// How long that may take where slices move: a node that was lost again and again rests for five minutes
/// before it leads, and what another one that is to go leads waits for that.
const SETTLED_MAX: Duration = Duration::from_secs(700);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Things that happened.
    pub steps: u64,
    /// What the hosts saw.
    pub hosts: HostCounts,
    /// What the engines told of.
    pub tally: Tally,
    /// The longest time in which no command was done while hosts were busy.
    pub stall: Duration,
    /// Entries that were committed.
    pub committed: usize,
    /// How long the cluster took to be whole after the last fault.
    pub converged_in: Duration,
    /// What was reached.
    pub coverage: Coverage,
    /// The sum of the trace, if one was made.
    pub hash: Option<Hash>,
}

/// A run in progress: for scenarios that do things by hand.
#[derive(Debug)]
pub struct Run {
    /// The cluster.
    pub cluster: Cluster,
    /// Whose devices may hold blocks that are bad.
    rotten: Option<NodeId>,
    promise: Promise,
    compares: bool,
    is_tight: bool,
}

/// Runs a seed of a profile.
///
/// # Errors
/// [`Failed`] if something happened that must not.
pub fn run(profile: Profile, seed: u64, trace: Trace) -> Result<Report, Failed> {
    let mut prng = Prng::from_seed(seed);
    let plan = RunPlan::draw(profile, &mut prng);
    run_plan(&plan, &mut prng, trace)
}

/// Runs a plan.
///
/// # Errors
/// [`Failed`] if something happened that must not.
pub fn run_plan(plan: &RunPlan, prng: &mut Prng, trace: Trace) -> Result<Report, Failed> {
    let mut run = Run::new(plan, prng, trace);
    let result = catch_unwind(AssertUnwindSafe(|| run.go(plan)));
    let result = result.unwrap_or_else(|panic| Err(Failure::Panic(said(&*panic))));
    let at = run.cluster.now();
    result.map_err(|failure| Failed { failure, at })
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "of no words".into())
}

impl Run {
    /// A cluster that is about to boot.
    #[must_use]
    pub fn new(plan: &RunPlan, prng: &mut Prng, trace: Trace) -> Self {
        let rots = |fault: &Fault| {
            matches!(
                fault,
                Fault::Rot(_) | Fault::RotPages(_) | Fault::LoseWrites(_)
            )
        };
        let rots = plan.faults.iter().any(|(_, fault)| rots(fault));
        let mut cluster = Cluster::new(plan.cluster.clone(), prng, trace);
        if plan.promise == Promise::Agreement {
            cluster.let_writes_be_late();
        }
        Self {
            cluster,
            rotten: rots.then_some(plan.victim),
            promise: plan.promise,
            compares: plan.compares,
            is_tight: plan.is_tight,
        }
    }

    fn go(&mut self, plan: &RunPlan) -> Result<Report, Failure> {
        self.boot()?;
        self.cluster.set_busy(true)?;
        for (after, fault) in &plan.faults {
            self.cluster.plan_fault(*after, *fault);
        }
        let start = self.cluster.now();
        self.cluster.run_until(start + plan.load)?;
        self.cluster.set_busy(false)?;
        self.cluster.run_until(start + plan.end())?;
        self.mend()?;
        let converged_in = self.converge()?;
        self.verify()?;
        Ok(self.report(converged_in))
    }

    /// Starts the nodes, and makes the volumes.
    ///
    /// # Errors
    /// [`Failure`] if that does not work.
    pub fn boot(&mut self) -> Result<(), Failure> {
        let cluster = &mut self.cluster;
        for node in cluster.node_ids() {
            cluster.plan_fault(Duration::from_millis(u64::from(node.0)), Fault::Start(node));
        }
        let end = cluster.now() + BOOT_MAX;
        if !cluster.run_while(end, PAUSE, |cluster| !cluster.is_registered())? {
            return Err(Failure::NotConverged("the nodes do not register".into()));
        }
        cluster.create_volumes()?;
        cluster.set_busy(false)?;
        self.wait_until_none(end, Cluster::unconverged)
    }

    /// Everything that was wrong is right.
    fn mend(&mut self) -> Result<(), Failure> {
        self.cluster.end_device_faults();
        for node in self.cluster.node_ids() {
            self.cluster.plan_fault(Duration::ZERO, Fault::Start(node));
        }
        let now = self.cluster.now();
        self.cluster.run_until(now)?;
        let end = now + BOOT_MAX;
        if self.is_tight && !self.cluster.run_while(end, PAUSE, Cluster::add_room)? {
            return Err(Failure::NotConverged("devices are not added".into()));
        }
        if !self
            .cluster
            .run_while(end, PAUSE, Cluster::call_orders_off)?
        {
            let what = "nodes are not what they are to be";
            return Err(Failure::NotConverged(what.into()));
        }
        if !self
            .cluster
            .run_while(end, PAUSE, Cluster::clear_volumes_away)?
        {
            let what = "what is left of volumes is not cleared away";
            return Err(Failure::NotConverged(what.into()));
        }
        Ok(())
    }

    /// Waits until the cluster is whole. Returns how long it took.
    ///
    /// # Errors
    /// [`Failure`] if it is not in time.
    pub fn converge(&mut self) -> Result<Duration, Failure> {
        let start = self.cluster.now();
        let most = if self.cluster.is_steered() {
            SETTLED_MAX
        } else {
            CONVERGENCE_MAX
        };
        self.wait_until_none(start + most, |cluster| {
            let devices = cluster.devices_unsettled();
            devices
                .or_else(|| cluster.unconverged())
                .or_else(|| cluster.unsettled())
        })?;
        Ok(self.cluster.now().since(start))
    }

    /// Waits until nothing is wrong any more.
    fn wait_until_none(
        &mut self,
        end: Instant,
        wrong: impl Fn(&mut Cluster) -> Option<String>,
    ) -> Result<(), Failure> {
        let cluster = &mut self.cluster;
        if cluster.run_while(end, PAUSE, |cluster| wrong(cluster).is_some())? {
            return Ok(());
        }
        let what = wrong(cluster).unwrap_or_default();
        Err(Failure::NotConverged(what))
    }

    /// Reads everything over every path, checks the history, switches everything off and compares
    /// what the devices hold.
    ///
    /// # Errors
    /// [`Failure`] if something is not as it must be.
    pub fn verify(&mut self) -> Result<(), Failure> {
        let before = self.cluster.history.attempts().len();
        self.cluster.read_everything()?;
        let end = self.cluster.now() + CONVERGENCE_MAX;
        if !self
            .cluster
            .run_while(end, PAUSE, |cluster| !cluster.is_idle())?
        {
            return Err(Failure::NotConverged(
                "the last reads are not answered".into(),
            ));
        }
        let attempts = self.cluster.history.attempts();
        match self.promise {
            Promise::All => oracle::check(attempts)?,
            Promise::Agreement => oracle::reads_agree(&attempts[before..])?,
        }
        if self.compares {
            self.cluster.compare_replicas(self.rotten)?;
        }
        Ok(())
    }

    /// What the run came to.
    #[must_use]
    pub fn report(&self, converged_in: Duration) -> Report {
        Report {
            steps: self.cluster.steps,
            hosts: self.cluster.host_counts(),
            tally: self.cluster.tally,
            coverage: self.cluster.coverage(),
            stall: self.cluster.stall,
            committed: self.cluster.commit_count(),
            converged_in,
            hash: self.cluster.trace_hash(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} steps, {} commands, {} repeated, {} resets, {} entries, {}, stall {} ms, whole after \
             {} ms",
            self.steps,
            self.hosts.done,
            self.hosts.repeated,
            self.hosts.resets,
            self.committed,
            self.tally,
            self.stall.as_millis(),
            self.converged_in.as_millis()
        )
    }
}
