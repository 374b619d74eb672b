//! The performance history of all nodes as one.
//!
//! Invariants:
//! - what a node does not answer is not silently left out: the node is named;
//! - latencies are added up as counts by length, so that percentiles are those of all commands, and no mean of percentiles;
//! - rates are over the time in which each node measured: a node that was down for half of a step halves nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_api::documents::{
    Fill, Flow, HISTORY_STEPS_DEFAULT, HISTORY_STEPS_MAX, History, HistoryOf, HistoryPoint,
    HistoryQuery, HistorySubject, Latency, LocalFlow, LocalHistory, LocalHistoryPoint,
    LocalHistoryQuery, LocalTraffic, NodeMeasures,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_control::{Inventory, PlanError, VolumeName};
use holdfast_history::{Latencies, Span};
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;

use crate::asking::{ask_each, silent};
use crate::{Controller, clock, members, problem};

/// What is shown where nothing is said of the time: the last hour.
const SPAN_DEFAULT: u64 = 3600;

type Answered<T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>;

/// Asks the node in this process for what it has measured.
#[derive(Clone)]
pub(crate) struct AskHistory {
    history: Arc<dyn Fn(HistorySubject, LocalHistoryQuery) -> Answered<LocalHistory> + Send + Sync>,
    traffic: Arc<dyn Fn() -> Answered<LocalTraffic> + Send + Sync>,
}

impl AskHistory {
    /// What was done in the last few seconds.
    pub(crate) fn traffic(&self) -> Answered<LocalTraffic> {
        (self.traffic)()
    }
}

impl fmt::Debug for AskHistory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AskHistory").finish_non_exhaustive()
    }
}

impl Controller {
    /// With what tells the history of the node in this process, and its traffic.
    #[must_use]
    pub fn telling_history<F, T>(
        self,
        ask: impl Fn(HistorySubject, LocalHistoryQuery) -> F + Send + Sync + 'static,
        ask_traffic: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<LocalHistory, Problem>> + Send + 'static,
        T: Future<Output = Result<LocalTraffic, Problem>> + Send + 'static,
    {
        let ask = AskHistory {
            history: Arc::new(move |subject, query| Box::pin(ask(subject, query))),
            traffic: Arc::new(move || Box::pin(ask_traffic())),
        };
        Self {
            history: Some(ask),
            ..self
        }
    }

    pub(crate) async fn history_here(
        &self,
        subject: HistorySubject,
        query: LocalHistoryQuery,
    ) -> Result<LocalHistory, Problem> {
        let asked = self.history.as_ref().ok_or_else(problem::no_node)?;
        (asked.history)(subject, query).await
    }

    pub(crate) async fn history_of(
        &self,
        of: &HistoryOf,
        query: HistoryQuery,
    ) -> Result<History, Problem> {
        let span = span(query, clock::unix_seconds())?;
        // What was seen is kept no longer than it takes to know who is asked: that may take a second.
        let (subject, nodes, here) = {
            let look = self.inventory().await?;
            let inventory = &look.seen;
            let (subject, nodes) = asked(inventory, of)?;
            let nodes: Vec<NodeRecord> = nodes.into_iter().cloned().collect();
            (subject, nodes, self.registered_here(inventory))
        };
        let question = LocalHistoryQuery {
            of: subject.to_string(),
            from: span.from,
            until: span.until,
            step: span.step,
        };
        let others = nodes.iter().filter(|node| Some(node.node) != here);
        let is_asked = nodes.iter().any(|node| Some(node.node) == here);
        let here = async {
            if !is_asked {
                return None;
            }
            self.history_here(subject, question.clone()).await.ok()
        };
        let others = ask_each(others, self.connector.as_ref(), |client| {
            let question = question.clone();
            async move { client.local_history(&question).await }
        });
        let (here, others) = tokio::join!(here, others);
        let answers = others.into_iter().chain(here);
        let answers: BTreeMap<NodeId, LocalHistory> =
            answers.map(|it| (NodeId(it.node), it)).collect();
        Ok(History {
            from_ms: span.from.saturating_mul(1000),
            until_ms: span.until.saturating_mul(1000),
            step_seconds: span.step,
            points: points(span, answers.values()),
            silent: silent(nodes.iter(), |node| answers.contains_key(&node)),
        })
    }
}

/// The time that is asked for, in steps that all nodes keep.
fn span(query: HistoryQuery, now: u64) -> Result<Span, Problem> {
    let until = query.until_ms.map_or(now, |it| it.div_ceil(1000));
    let before = until.saturating_sub(SPAN_DEFAULT);
    let from = query.from_ms.map_or(before, |it| it / 1000);
    let length = until.saturating_sub(from);
    let step = match query.step_seconds {
        Some(step) => step,
        None => u32::try_from(length.div_ceil(HISTORY_STEPS_DEFAULT)).unwrap_or(u32::MAX),
    };
    let span = Span::new(from, until, step, now);
    let steps = (span.until - span.from) / u64::from(span.step);
    // One more, because the first begins before what was asked for.
    if steps > HISTORY_STEPS_MAX + 1 {
        let detail = format!("these are {steps} steps, and an answer has {HISTORY_STEPS_MAX}");
        return Err(Problem::new(ProblemKind::Invalid, detail)
            .hint("ask for a shorter time, or for longer steps"));
    }
    Ok(span)
}

/// What is asked, and who.
fn asked<'a>(
    inventory: &'a Inventory,
    of: &HistoryOf,
) -> Result<(HistorySubject, Vec<&'a NodeRecord>), Problem> {
    let volume = |name: &str| {
        let name: VolumeName = name.parse().map_err(problem::name)?;
        let found = inventory.volume(name.as_str());
        let found = found.ok_or_else(|| problem::plan(&name, PlanError::NoSuchVolume))?;
        Ok::<u64, Problem>(found.record.volume.0)
    };
    let node = |name: &str| {
        let node = members::find(inventory, name)?;
        Ok::<_, Problem>(vec![&inventory.nodes[&node]])
    };
    let all = || inventory.nodes.values().collect();
    Ok(match of {
        HistoryOf::Cluster => (HistorySubject::Node, all()),
        HistoryOf::Volume(name) => (HistorySubject::Volume(volume(name)?), all()),
        HistoryOf::Initiator(name, initiator) => {
            let subject = HistorySubject::Initiator(volume(name)?, initiator.clone());
            (subject, all())
        }
        HistoryOf::Host(name) => (HistorySubject::Host(name.clone()), all()),
        HistoryOf::Node(name) => (HistorySubject::Node, node(name)?),
        HistoryOf::Device(name, device) => (HistorySubject::Device(*device), node(name)?),
        HistoryOf::Tier(tier) => {
            let subject = HistorySubject::Tier(tier.as_str().to_owned());
            (subject, all())
        }
    })
}

/// The points of all nodes, the earliest first.
fn points<'a>(span: Span, answers: impl Iterator<Item = &'a LocalHistory>) -> Vec<HistoryPoint> {
    let mut steps = BTreeMap::<u64, Vec<&LocalHistoryPoint>>::new();
    for point in answers.flat_map(|it| &it.points) {
        // A step in which a node did not measure says nothing, nor one that nobody asked for.
        if point.seconds > 0 && span.step_of(point.at) == Some(point.at) {
            steps.entry(point.at).or_default().push(point);
        }
    }
    let points = steps.iter().map(|(at, points)| together(*at, points));
    points.collect()
}

fn together(at: u64, points: &[&LocalHistoryPoint]) -> HistoryPoint {
    let depth = |point: &&LocalHistoryPoint| {
        let flows = [&point.reads, &point.writes, &point.others];
        let total: f64 = flows.iter().map(|it| it.total_us as f64).sum();
        total / (point.seconds as f64 * 1e6)
    };
    HistoryPoint {
        at_ms: at.saturating_mul(1000),
        reads: flow(points.iter().map(|it| (it.seconds, &it.reads))),
        writes: flow(points.iter().map(|it| (it.seconds, &it.writes))),
        others: flow(points.iter().map(|it| (it.seconds, &it.others))),
        queue_depth: points.iter().map(depth).sum(),
        fill: fill(points),
        node: measures(points),
    }
}

/// Commands of several nodes, each with the seconds in which it measured, of which there are some.
pub(crate) fn flow<'a>(parts: impl Iterator<Item = (u64, &'a LocalFlow)>) -> Flow {
    let mut all = Latencies::default();
    let mut flow = Flow::default();
    for (seconds, one) in parts {
        let seconds = seconds as f64;
        let latencies = Latencies::from_steps(one.total_us, one.latencies.iter().copied());
        flow.per_second += latencies.count() as f64 / seconds;
        flow.bytes_per_second += one.bytes as f64 / seconds;
        all.merge(&latencies);
    }
    let quantile = |part| all.quantile(part).unwrap_or(0);
    flow.latency = (all.count() > 0).then(|| Latency {
        mean_us: all.total() as f64 / all.count() as f64,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
        max_us: quantile(1.0),
    });
    flow
}

fn fill(points: &[&LocalHistoryPoint]) -> Option<Fill> {
    let fills = points.iter().filter_map(|it| it.fill);
    fills.reduce(|one, other| Fill {
        used_bytes: one.used_bytes.saturating_add(other.used_bytes),
        bytes: one.bytes.saturating_add(other.bytes),
    })
}

fn measures(points: &[&LocalHistoryPoint]) -> Option<NodeMeasures> {
    let each = points
        .iter()
        .filter_map(|point| Some((point.node?, point.seconds as f64)));
    let each = each.map(|(node, seconds)| {
        let segments = node.journal.mean().max(1.0);
        NodeMeasures {
            sessions: node.sessions.mean(),
            cache_hits_per_second: node.cache_hits as f64 / seconds,
            cache_misses_per_second: node.cache_misses as f64 / seconds,
            journal_used: node.journal_used.mean() / segments,
            journal_used_max: node.journal_used.most as f64 / segments,
            synced_bytes_per_second: node.synced_bytes as f64 / seconds,
        }
    });
    each.reduce(|one, other| NodeMeasures {
        sessions: one.sessions + other.sessions,
        cache_hits_per_second: one.cache_hits_per_second + other.cache_hits_per_second,
        cache_misses_per_second: one.cache_misses_per_second + other.cache_misses_per_second,
        journal_used: one.journal_used.max(other.journal_used),
        journal_used_max: one.journal_used_max.max(other.journal_used_max),
        synced_bytes_per_second: one.synced_bytes_per_second + other.synced_bytes_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;

    fn query(from: Option<u64>, until: Option<u64>, step_seconds: Option<u32>) -> HistoryQuery {
        HistoryQuery {
            from_ms: from.map(|it| it * 1000),
            until_ms: until.map(|it| it * 1000),
            step_seconds,
        }
    }

    #[test]
    fn without_a_word_it_is_the_last_hour() {
        let span = span(query(None, None, None), NOW).expect("it makes sense");
        assert_eq!(span.step, 9);
        assert!(span.from <= NOW - 3600 && NOW <= span.until);
    }

    #[test]
    fn no_answer_is_without_bounds() {
        for (from, step) in [(NOW - 3600, 1), (NOW - 86_400, 30), (0, 3600 * 24 * 10)] {
            let span = span(query(Some(from), None, Some(step)), NOW).expect("it is short enough");
            let steps = (span.until - span.from) / u64::from(span.step);
            assert!(steps <= HISTORY_STEPS_MAX + 1, "{steps}");
        }
        let refused = span(query(Some(0), None, Some(1)), NOW).expect_err("these are too many");
        assert_eq!(refused.kind, ProblemKind::Invalid);
        for (from, until) in [(Some(u64::MAX / 1000), None), (None, Some(u64::MAX / 1000))] {
            let _ = span(query(from, until, None), NOW);
        }
    }

    fn point(seconds: u64, latencies: &[(u64, u64)]) -> LocalHistoryPoint {
        LocalHistoryPoint {
            at: NOW,
            seconds,
            reads: LocalFlow {
                bytes: 4096 * latencies.iter().map(|(_, count)| count).sum::<u64>(),
                total_us: latencies.iter().map(|(length, count)| length * count).sum(),
                latencies: latencies.to_vec(),
            },
            ..LocalHistoryPoint::default()
        }
    }

    /// A hundred slow reads at one node, a thousand fast ones at another: the 99th percentile of all is slow, and the median
    /// fast.
    #[test]
    fn percentiles_are_those_of_all_nodes_commands() {
        let of = |node, point| LocalHistory {
            node,
            points: vec![point],
        };
        let answers = [
            of(1, point(10, &[(7000, 100)])),
            of(2, point(5, &[(100, 1000)])),
            of(3, point(0, &[])),
        ];
        let span = Span::new(NOW, NOW + 10, 10, NOW + 10);
        let points = points(span, answers.iter());
        let [point] = &points[..] else {
            panic!("{points:?}");
        };
        assert_eq!(point.at_ms, NOW * 1000);
        let reads = point.reads;
        assert!((reads.per_second - 210.0).abs() < 1e-9, "{reads:?}");
        assert!((reads.bytes_per_second - 210.0 * 4096.0).abs() < 1e-6);
        let latency = reads.latency.expect("there are some");
        assert!((100..=112).contains(&latency.p50_us), "{latency:?}");
        assert!((7000..=7875).contains(&latency.p99_us), "{latency:?}");
        assert!((latency.mean_us - 800_000.0 / 1100.0).abs() < 1e-9);
        // 0.7 s of work in 10 s, and 0.1 s in 5 s.
        assert!((point.queue_depth - 0.09).abs() < 1e-9, "{point:?}");
        assert_eq!(point.writes, Flow::default());
        assert_eq!(point.fill, None);
    }
}
