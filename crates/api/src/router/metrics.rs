//! The metrics, in either of the two texts that Prometheus reads: OpenMetrics for whoever asks for it, the older text format for others.
//!
//! Nodes make OpenMetrics. Prometheus itself asks for that; what else scrapes, and tools that judge metrics, read the older one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};

use super::answers::OfNode;
use crate::{Api, Problem};

/// What is told as OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What is told as the older format.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of the node behind this interface
///
/// As OpenMetrics if the header `Accept` names it, else in Prometheus' older text format.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content((String = "application/openmetrics-text"), (String = "text/plain"))),
    OfNode,
))]
pub(super) async fn metrics<A: Api>(
    State(api): State<Arc<A>>,
    headers: HeaderMap,
) -> Result<([(header::HeaderName, &'static str); 2], String), Problem> {
    let text = api.metrics().await?;
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|it| it.to_str().ok());
    let (kind, text) = if accepted.any(|it| it.contains("application/openmetrics-text")) {
        (OPEN_METRICS, text)
    } else {
        (CLASSIC, classic(&text))
    };
    // What is kept on the way is kept for those who want the same.
    let told = [(header::CONTENT_TYPE, kind), (header::VARY, "accept")];
    Ok((told, text))
}

/// The same in the older format: there a counter is called as its value is, and there is no unit, no end, and no kind for what
/// tells versions.
fn classic(text: &str) -> String {
    let types = text.lines().filter_map(|it| it.strip_prefix("# TYPE "));
    let kinds: BTreeMap<&str, &str> = types.filter_map(|it| it.split_once(' ')).collect();
    let called = |name: &str| match kinds.get(name) {
        Some(&"counter") => format!("{name}_total"),
        Some(&"info") => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let mut told = String::with_capacity(text.len());
    for line in text.lines() {
        // A string takes whatever is written.
        let _ = if let Some((name, help)) = described(line, "# HELP ") {
            writeln!(told, "# HELP {} {help}", called(name))
        } else if let Some((name, kind)) = described(line, "# TYPE ") {
            let kind = match kind {
                "info" | "stateset" => "gauge",
                "unknown" => "untyped",
                known => known,
            };
            writeln!(told, "# TYPE {} {kind}", called(name))
        } else if line.starts_with('#') {
            continue;
        } else {
            writeln!(told, "{line}")
        };
    }
    told
}

fn described<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(mark)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_calls_counters_as_their_values_are() {
        let text = "\
# HELP a_read What was read.
# TYPE a_read counter
# UNIT a_read bytes
a_read_total{by=\"x # HELP y\"} 7
# HELP a_build What runs.
# TYPE a_build info
a_build_info{version=\"1\"} 1
# HELP a_level How much.
# TYPE a_level gauge
a_level 3
# EOF
";
        let older = "\
# HELP a_read_total What was read.
# TYPE a_read_total counter
a_read_total{by=\"x # HELP y\"} 7
# HELP a_build_info What runs.
# TYPE a_build_info gauge
a_build_info{version=\"1\"} 1
# HELP a_level How much.
# TYPE a_level gauge
a_level 3
";
        assert_eq!(classic(text), older);
    }
}
