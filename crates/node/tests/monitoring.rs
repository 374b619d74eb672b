//! The alert rules and the dashboard in `docs/monitoring`: what they ask for is there, and what they say is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use holdfast_node::metrics_reference::series;

/// What the rules must and must not say.
const CASES: [&str; 2] = [
    "monitoring/holdfast.rules.test.yml",
    "monitoring/holdfast.rules.days.test.yml",
];

fn read(path: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let path = docs.join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metrics of ours that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let ours = words.filter(|word| word.starts_with("holdfast_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn what_rules_and_dashboard_ask_for_is_exposed() {
    let exposed = series();
    for path in [
        "monitoring/holdfast.rules.yml",
        CASES[0],
        CASES[1],
        "monitoring/holdfast-dashboard.json",
        "deployment.md",
    ] {
        let named = named(&read(path));
        assert!(named.len() > 5, "{path}: {named:?}");
        let unknown: Vec<_> = named.difference(&exposed).collect();
        assert!(
            unknown.is_empty(),
            "{path}: no node exposes {unknown:?}, but {exposed:?}"
        );
    }
}

#[test]
fn the_dashboard_is_json_with_something_in_each_panel() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("monitoring/holdfast-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let panels = panels.iter().filter(|panel| panel["type"] != "row");
    let panels: Vec<_> = panels.collect();
    assert!(panels.len() > 10);
    for panel in panels {
        let asked = panel["targets"].as_array().unwrap();
        assert!(!asked.is_empty(), "{panel}");
        assert!(
            !panel["description"].as_str().unwrap().is_empty(),
            "{panel}"
        );
        for target in asked {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("$job"), "of one cluster: {expression}");
        }
    }
}

/// What lines of YAML say under this key, in their order.
fn values(text: &str, key: &str) -> Vec<String> {
    let value = |line: &str| {
        let line = line.trim().trim_start_matches("- ");
        line.strip_prefix(key).map(|it| it.trim().to_owned())
    };
    text.lines().filter_map(value).collect()
}

/// `promtool` looks whether they hold: `crates/e2e/tests/prometheus.rs`.
#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let alerts = values(&read("monitoring/holdfast.rules.yml"), "alert:");
    assert!(alerts.len() > 20);
    let (mut fires, mut is_quiet) = (BTreeSet::new(), BTreeSet::new());
    for path in CASES {
        let cases = read(path);
        let names = values(&cases, "alertname:");
        let expected = values(&cases, "exp_alerts:");
        assert_eq!(names.len(), expected.len(), "{path}");
        for (name, expected) in names.into_iter().zip(expected) {
            if expected == "[]" {
                is_quiet.insert(name);
            } else {
                fires.insert(name);
            }
        }
    }
    let alerts: BTreeSet<String> = alerts.into_iter().collect();
    assert_eq!(fires, alerts, "those that fire, and all");
    assert_eq!(is_quiet, alerts, "those that do not, and all");
}

/// Whoever is woken up by an alert finds what it means, and what to do.
#[test]
fn every_alert_is_explained_where_it_says() {
    let (rules, words) = (read("monitoring/holdfast.rules.yml"), read("monitoring.md"));
    let (alerts, places) = (values(&rules, "alert:"), values(&rules, "runbook:"));
    assert_eq!(alerts.len(), places.len());
    assert!(alerts.len() > 20);
    let headings = words.lines().filter_map(|line| line.strip_prefix("### "));
    let headings: BTreeSet<String> = headings.map(str::to_ascii_lowercase).collect();
    for (alert, place) in alerts.iter().zip(&places) {
        assert!(words.contains(alert.as_str()), "{alert} is not explained");
        let heading = place.strip_prefix("docs/monitoring.md#").unwrap();
        assert!(headings.contains(heading), "{alert}: {place} is no place");
    }
}
