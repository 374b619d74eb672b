//! Which request something is of: W3C Trace Context (<https://www.w3.org/TR/trace-context/>, level 1, and `traceresponse` of level 2).
//!
//! A request that bears a `traceparent` goes on with that trace, any other one begins a trace. Its id is a field of every line that is logged
//! while the request is handled, is in the problem that it may end with, and is handed on with every question to another node: one
//! id finds all lines, on all nodes.
//!
//! It refuses to sample, and to send anything anywhere: lines are where the traces are. Each request is one at the level `debug`, and one
//! that ends in a failure of ours at `warn` (`failures`).
//!
//! Invariants:
//! - what is no `traceparent` is ignored, as the specification says, and never fails a request;
//! - of `tracestate` nothing is understood: it is handed on as it came, or not at all where it is too long.

mod failures;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::Response;
use tracing::Instrument as _;

use self::failures::Failures;
use crate::router::shown::shown_path;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const TRACERESPONSE: HeaderName = HeaderName::from_static("traceresponse");
/// Letters of `tracestate` that are handed on: the specification wants so many at least.
const STATE_LENGTH_MAX: usize = 512;
/// Letters of a `traceparent` of version 00.
const PARENT_LENGTH: usize = 55;
/// The only version that is written, and the one that there may never be.
const VERSION: u8 = 0;
const VERSION_INVALID: u8 = 0xff;

tokio::task_local! {
    static PRESENT: TraceContext;
}

/// The trace that a request is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    state: Option<HeaderValue>,
}

impl TraceContext {
    /// That of what runs now, if it is a part of a request.
    #[must_use]
    pub fn present() -> Option<Self> {
        PRESENT.try_with(Clone::clone).ok()
    }

    /// The trace's id: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// That of a request with these headers: a step of the trace that they name, or the first one of a new trace.
    fn of(headers: &HeaderMap) -> Self {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = match (parents.next(), parents.next()) {
            (Some(parent), None) => parent.to_str().ok().and_then(read),
            // Of two it is not known which one holds.
            _ => None,
        };
        let span = random();
        let Some((trace, flags)) = parent else {
            let trace = u128::from(random()) << 64 | u128::from(random());
            return Self {
                trace,
                span,
                flags: 0,
                state: None,
            };
        };
        let mut states = headers.get_all(TRACESTATE).iter();
        let state = match (states.next(), states.next()) {
            (Some(state), None) if state.len() <= STATE_LENGTH_MAX => Some(state.clone()),
            _ => None,
        };
        Self {
            trace,
            span,
            flags,
            state,
        }
    }

    fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.to_string()).expect("hexadecimal digits may be in a header")
    }

    /// What is handed on with a question that is a part of the request.
    pub(crate) fn hand_on(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.header());
        if let Some(state) = &self.state {
            headers.insert(TRACESTATE, state.clone());
        }
    }
}

/// As a header has it.
impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace, span, flags, ..
        } = self;
        write!(
            formatter,
            "{VERSION:02x}-{trace:032x}-{span:016x}-{flags:02x}"
        )
    }
}

/// The trace of a `traceparent`, and whether it is sampled.
fn read(header: &str) -> Option<(u128, u8)> {
    let number = |digits: &str| {
        let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let is_one = digits.bytes().all(is_hex);
        is_one
            .then(|| u128::from_str_radix(digits, 16).ok())
            .flatten()
    };
    let (known, rest) = header.split_at_checked(PARENT_LENGTH)?;
    let mut parts = known.split('-');
    let [version, trace, span, flags] = [2, 32, 16, 2].map(|length| {
        let part = parts.next().filter(|part| part.len() == length);
        part.and_then(number)
    });
    let (version, trace, span, flags) = (version?, trace?, span?, flags?);
    // Later versions may have more at the end, after one more hyphen.
    let is_whole = rest.is_empty() || (version > u128::from(VERSION) && rest.starts_with('-'));
    let is_valid = version != u128::from(VERSION_INVALID) && trace != 0 && span != 0;
    // Of the flags version 00 knows the lowest bit.
    (is_whole && is_valid && parts.next().is_none()).then_some((trace, (flags & 1) as u8))
}

/// A number that no other request has: each of these hashers has keys of its own. It is never zero, and no secret.
fn random() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// Has what is begun beside a request's task be a part of the request.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let present = TraceContext::present();
    async move {
        match present {
            Some(present) => within(present, work).await,
            None => work.await,
        }
    }
}

/// Runs work as a part of a trace: its lines have the id, whatever the levels of the log are.
async fn within<F: Future>(trace: TraceContext, work: F) -> F::Output {
    let span = tracing::error_span!("request", trace_id = %trace.id());
    PRESENT.scope(trace, work).instrument(span).await
}

/// Has all requests to a router be steps of traces.
pub fn layer(router: Router) -> Router {
    let failures = Arc::new(Failures::default());
    router.layer(middleware::from_fn_with_state(failures, traced))
}

/// Makes a request a step of a trace, and says in the answer which one.
async fn traced(State(failures): State<Arc<Failures>>, request: Request, next: Next) -> Response {
    let trace = TraceContext::of(request.headers());
    let header = trace.header();
    let handled = async move {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let begun = Instant::now();
        let response = next.run(request).await;
        let took = begun.elapsed();
        if !failures.tell((&method, &uri), &response, took) {
            tracing::debug!(
                %method,
                path = shown_path(&uri),
                status = response.status().as_u16(),
                milliseconds = took.as_millis() as u64,
                "answers"
            );
        }
        response
    };
    let mut response = within(trace, handled).await;
    response.headers_mut().insert(TRACERESPONSE, header);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(headers: &[(HeaderName, &str)]) -> TraceContext {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        TraceContext::of(&map)
    }

    #[test]
    fn a_trace_goes_on_with_a_step_of_its_own() {
        let step = of(&[(TRACEPARENT, PARENT), (TRACESTATE, "a=1,b=2")]);
        assert_eq!(step.id(), "0af7651916cd43dd8448eb211c80319c");
        let header = step.to_string();
        assert!(
            header.starts_with(&PARENT[..36]) && header.ends_with("-01"),
            "{header}"
        );
        assert_ne!(header, PARENT, "the step is another one");
        assert_eq!(read(&header).map(|(trace, _)| trace), Some(step.trace));
        let mut handed = HeaderMap::new();
        step.hand_on(&mut handed);
        assert_eq!(handed[TRACESTATE], "a=1,b=2");
        assert_eq!(handed[TRACEPARENT], header.as_str());
        // A later version is read as far as it is known.
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        assert_eq!(of(&[(TRACEPARENT, &later)]).id(), step.id());
    }

    #[test]
    fn what_is_no_trace_is_ignored() {
        let upper = PARENT.to_uppercase();
        let long = format!("{PARENT}-more");
        for bad in [
            "",
            "nonsense",
            &PARENT[1..],
            &upper,
            &long,
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        ] {
            let made = of(&[(TRACEPARENT, bad), (TRACESTATE, "a=1")]);
            assert_ne!(made.id(), "0af7651916cd43dd8448eb211c80319c", "{bad}");
            assert_eq!(made.state, None, "{bad}: what goes with it goes, too");
            assert!(read(&made.to_string()).is_some(), "{made}");
        }
        let two = of(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)]);
        assert_ne!(two.id(), "0af7651916cd43dd8448eb211c80319c");
        let state = "x".repeat(STATE_LENGTH_MAX + 1);
        assert_eq!(
            of(&[(TRACEPARENT, PARENT), (TRACESTATE, &state)]).state,
            None
        );
    }

    #[tokio::test]
    async fn what_is_begun_beside_a_request_is_a_part_of_it() {
        let trace = of(&[(TRACEPARENT, PARENT)]);
        assert_eq!(TraceContext::present(), None);
        let found = within(trace.clone(), async {
            let spawned = tokio::spawn(carried(async { TraceContext::present() }));
            spawned.await.unwrap()
        });
        assert_eq!(found.await, Some(trace));
    }
}
