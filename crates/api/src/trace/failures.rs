//! What the log is told of answers that say that something failed here (5xx): a line in the request's trace, by which whoever got
//! the answer finds it. A console that asks again and again gets many of them while the metadata is away.
//!
//! It refuses to tell each of them where they are many: the log has room for what happened before.
//!
//! Invariants:
//! - of one kind [`AT_ONCE`] lines are told at once, and then one in each [`PAUSE`]; what only looks takes no room from what was
//!   to change something;
//! - what was left out is counted, and the number told with the next line of its kind;
//! - kinds are few, whatever is asked: what is remembered is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;

use crate::ProblemKind;
use crate::problem::Answered;
use crate::router::shown::{shown_path, shown_text};

/// Lines of one kind that are told at once: what a person tries, and tries again.
const AT_ONCE: u32 = 8;
/// After how long there is room for one more. In a day that is some 2 MiB of each kind, of the 16 that a log has by itself.
const PAUSE: Duration = Duration::from_secs(10);

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Failures {
    told: Mutex<HashMap<Kind, Told>>,
}

/// What is told as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    /// Whether it was only to look.
    is_look: bool,
    status: StatusCode,
    problem: Option<ProblemKind>,
}

#[derive(Debug)]
struct Told {
    /// When there is room for all lines at once again.
    rested: Instant,
    left_out: u64,
}

impl Failures {
    /// Tells of the answer to a request, which took so long, if something failed and there is room for a line; whether it did.
    pub(super) fn tell(
        &self,
        (method, uri): (&Method, &Uri),
        response: &Response,
        took: Duration,
    ) -> bool {
        let status = response.status();
        if !status.is_server_error() {
            return false;
        }
        let problem = response.extensions().get::<Answered>();
        let problem = problem.map(|Answered(problem)| problem);
        let kind = Kind {
            is_look: method.is_safe(),
            status,
            problem: problem.map(|it| it.kind),
        };
        let Some(left_out) = self.room(kind, Instant::now()) else {
            return false;
        };
        tracing::warn!(
            %method,
            path = shown_path(uri),
            status = status.as_u16(),
            code = problem.map(|it| &*it.code),
            detail = problem.map(|it| shown_text(&it.detail)),
            milliseconds = took.as_millis() as u64,
            left_out = (left_out > 0).then_some(left_out),
            "answers that something failed"
        );
        true
    }

    /// Whether there is room for a line of a kind; if so, how many of it were left out since the last one.
    fn room(&self, kind: Kind, now: Instant) -> Option<u64> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = told.entry(kind).or_insert(Told {
            rested: now,
            left_out: 0,
        });
        let rested = of_kind.rested.max(now);
        if rested - now > PAUSE * (AT_ONCE - 1) {
            of_kind.left_out = of_kind.left_out.saturating_add(1);
            return None;
        }
        of_kind.rested = rested + PAUSE;
        Some(std::mem::take(&mut of_kind.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{self, Write as _};
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::middleware;
    use axum::routing::get;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use crate::Problem;
    use crate::problem::with_instance;
    use crate::trace;

    const BUSY: Kind = Kind {
        is_look: true,
        status: StatusCode::SERVICE_UNAVAILABLE,
        problem: Some(ProblemKind::Busy),
    };

    #[test]
    fn what_is_asked_again_and_again_does_not_fill_the_log() {
        let (failures, begun) = (Failures::default(), Instant::now());
        let flood = (0..1000).filter(|_| failures.room(BUSY, begun).is_some());
        assert_eq!(flood.count(), AT_ONCE as usize);
        let order = Kind {
            is_look: false,
            ..BUSY
        };
        assert_eq!(failures.room(order, begun), Some(0), "an order has its own");
        let left_out = 1000 - u64::from(AT_ONCE);
        assert_eq!(failures.room(BUSY, begun + PAUSE), Some(left_out));
        assert_eq!(failures.room(BUSY, begun + PAUSE), None);
        // It rests, and has room as at first; more does not gather.
        let later = begun + PAUSE * 1000;
        assert_eq!(failures.room(BUSY, later), Some(1));
        let flood = (0..1000).filter(|_| failures.room(BUSY, later).is_some());
        assert_eq!(flood.count(), AT_ONCE as usize - 1);
        assert_eq!(failures.told.lock().unwrap().len(), 2);
    }

    /// What a log at the level `info` has.
    #[derive(Default)]
    struct Lines {
        spans: Mutex<Vec<String>>,
        within: Mutex<Vec<u64>>,
        told: Mutex<Vec<String>>,
    }

    struct Text<'a>(&'a mut String);

    impl Visit for Text<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    struct Log(Arc<Lines>);

    impl Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut text = String::new();
            span.record(&mut Text(&mut text));
            let mut spans = self.0.spans.lock().unwrap();
            spans.push(text);
            Id::from_u64(spans.len() as u64)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut text = event.metadata().level().to_string();
            for span in &*self.0.within.lock().unwrap() {
                text.push_str(&self.0.spans.lock().unwrap()[*span as usize - 1]);
            }
            event.record(&mut Text(&mut text));
            self.0.told.lock().unwrap().push(text);
        }

        fn enter(&self, span: &Id) {
            self.0.within.lock().unwrap().push(span.into_u64());
        }

        fn exit(&self, _: &Id) {
            self.0.within.lock().unwrap().pop();
        }
    }

    #[tokio::test]
    async fn whoever_gets_an_answer_that_something_failed_finds_a_line_with_its_trace() {
        let away =
            || async { Problem::new(ProblemKind::Unavailable, "the metadata\ndoes not answer") };
        let absent = || async { Problem::new(ProblemKind::NoSuchVolume, "there is none") };
        let broken = || async { StatusCode::INTERNAL_SERVER_ERROR };
        let router = Router::new()
            .route("/away", get(away).post(away))
            .route("/absent", get(absent))
            .route("/broken", get(broken))
            .layer(middleware::from_fn(with_instance));
        let service = TowerToHyperService::new(trace::layer(router));
        let (trace, lines) = (
            "0af7651916cd43dd8448eb211c80319c",
            Arc::new(Lines::default()),
        );
        let _log = tracing::subscriber::set_default(Log(Arc::clone(&lines)));
        let paths = ["/absent", "/broken"];
        let paths = paths.into_iter().chain(std::iter::repeat_n("/away", 100));
        for path in paths {
            let request = Request::get(path)
                .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
                .body(Body::empty())
                .unwrap();
            let answer = service.call(request).await.unwrap();
            assert!(answer.headers().contains_key("traceresponse"));
        }
        let told = lines.told.lock().unwrap();
        assert_eq!(told.len(), 1 + AT_ONCE as usize, "{told:#?}");
        for line in &*told {
            assert!(line.starts_with("WARN"), "{line}");
            assert!(line.contains(&format!("trace_id={trace}")), "{line}");
        }
        assert!(
            told[0].contains("path=\"/broken\" status=500 milliseconds="),
            "{}",
            told[0]
        );
        for part in [
            "method=GET path=\"/away\" status=503",
            "code=\"unavailable\"",
            "does not answer",
        ] {
            assert!(told[1].contains(part), "{}", told[1]);
        }
        assert!(told.iter().all(|line| line.lines().count() == 1));
    }
}
