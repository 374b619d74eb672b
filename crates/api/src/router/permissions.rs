//! What somebody must be to ask for something: one row for each method of each route.
//!
//! Invariants:
//! - what has no row is for administrators;
//! - a row stands for something that the OpenAPI document has, and the other way round.

use axum::http::Method;
use holdfast_identity::{Area, Permission, Role};

/// Who may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Everybody, and without showing who he is.
    Nothing,
    /// Who has shown who he is, by whatever role.
    Anyone,
    /// Who has this role at least, where it is.
    Permission(Permission),
}

const fn row(
    method: &'static str,
    path: &'static str,
    role: Role,
    area: Area,
) -> (&'static str, &'static str, Need) {
    (method, path, Need::Permission(Permission { role, area }))
}

use Area::{Cluster, Metrics, Volumes};
use Role::{Administrator, Operator, Viewer};

const TABLE: &[(&str, &str, Need)] = &[
    ("GET", "/api/v1/openapi.json", Need::Nothing),
    ("POST", "/api/v1/session", Need::Nothing),
    ("GET", "/api/v1/session", Need::Anyone),
    ("DELETE", "/api/v1/session", Need::Anyone),
    ("PUT", "/api/v1/session/password", Need::Anyone),
    row("GET", "/api/v1/status", Viewer, Cluster),
    row("GET", "/api/v1/explain", Viewer, Cluster),
    row("GET", "/api/v1/nodes", Viewer, Cluster),
    row("GET", "/api/v1/nodes/{name}", Viewer, Cluster),
    row("PATCH", "/api/v1/nodes/{name}", Operator, Cluster),
    row("DELETE", "/api/v1/nodes/{name}", Administrator, Cluster),
    row("GET", "/api/v1/nodes/{name}/devices", Viewer, Cluster),
    row("POST", "/api/v1/nodes/{name}/devices", Operator, Cluster),
    row("GET", "/api/v1/settings", Viewer, Cluster),
    row("PATCH", "/api/v1/settings", Administrator, Cluster),
    row("GET", "/api/v1/retention", Viewer, Cluster),
    row("PATCH", "/api/v1/retention", Administrator, Cluster),
    row("GET", "/api/v1/local/retention", Viewer, Cluster),
    row("GET", "/api/v1/volumes", Viewer, Volumes),
    row("POST", "/api/v1/volumes", Operator, Volumes),
    row("GET", "/api/v1/volumes/{name}", Viewer, Volumes),
    row("PATCH", "/api/v1/volumes/{name}", Operator, Volumes),
    row("DELETE", "/api/v1/volumes/{name}", Operator, Volumes),
    row("POST", "/api/v1/volumes/{name}/scrub", Operator, Volumes),
    row("PATCH", "/api/v1/volumes/{name}/access", Operator, Volumes),
    row("GET", "/api/v1/volumes/{name}/stalls", Viewer, Volumes),
    row("GET", "/api/v1/volumes/{name}/history", Viewer, Volumes),
    row(
        "GET",
        "/api/v1/volumes/{name}/initiators/{initiator}/history",
        Viewer,
        Volumes,
    ),
    row("GET", "/api/v1/initiators", Viewer, Volumes),
    row("GET", "/api/v1/initiators/{name}", Viewer, Volumes),
    row("PUT", "/api/v1/initiators/{name}", Operator, Volumes),
    row("DELETE", "/api/v1/initiators/{name}", Operator, Volumes),
    row("GET", "/api/v1/events", Viewer, Cluster),
    row("GET", "/api/v1/events/log", Viewer, Cluster),
    row("GET", "/api/v1/local/events", Viewer, Cluster),
    row("GET", "/api/v1/local/events/state", Administrator, Cluster),
    row("GET", "/api/v1/tasks", Viewer, Cluster),
    row("GET", "/api/v1/tasks/{id}", Viewer, Cluster),
    row("DELETE", "/api/v1/tasks/{id}", Operator, Cluster),
    row("GET", "/api/v1/stalls", Viewer, Cluster),
    row("GET", "/api/v1/history", Viewer, Cluster),
    row("GET", "/api/v1/nodes/{name}/history", Viewer, Cluster),
    row(
        "GET",
        "/api/v1/nodes/{name}/devices/{device}/history",
        Viewer,
        Cluster,
    ),
    row("GET", "/api/v1/tiers/{tier}/history", Viewer, Cluster),
    row("GET", "/api/v1/local", Viewer, Cluster),
    row("GET", "/api/v1/local/cluster", Viewer, Cluster),
    row("POST", "/api/v1/local/devices", Operator, Cluster),
    row("GET", "/api/v1/local/stalls", Viewer, Cluster),
    row("GET", "/api/v1/local/history", Viewer, Cluster),
    row("GET", "/api/v1/local/audit", Administrator, Cluster),
    row("GET", "/api/v1/users", Administrator, Cluster),
    row("POST", "/api/v1/users", Administrator, Cluster),
    row("GET", "/api/v1/users/{name}", Administrator, Cluster),
    row("PATCH", "/api/v1/users/{name}", Administrator, Cluster),
    row("DELETE", "/api/v1/users/{name}", Administrator, Cluster),
    row("GET", "/api/v1/tokens", Administrator, Cluster),
    row("POST", "/api/v1/tokens", Administrator, Cluster),
    row("DELETE", "/api/v1/tokens/{id}", Administrator, Cluster),
    row("GET", "/api/v1/audit", Administrator, Cluster),
    row("GET", "/api/v1/nodes/{name}/log", Viewer, Cluster),
    row("PATCH", "/api/v1/nodes/{name}/log", Administrator, Cluster),
    row("GET", "/api/v1/local/log", Viewer, Cluster),
    row("PATCH", "/api/v1/local/log", Administrator, Cluster),
    row(
        "GET",
        "/api/v1/nodes/{name}/support",
        Administrator,
        Cluster,
    ),
    row("GET", "/api/v1/local/support", Administrator, Cluster),
    row("GET", "/api/v1/sessions", Viewer, Volumes),
    row("GET", "/api/v1/volumes/{name}/sessions", Viewer, Volumes),
    row(
        "GET",
        "/api/v1/volumes/{name}/reservations",
        Viewer,
        Volumes,
    ),
    row("GET", "/api/v1/initiators/{name}/sessions", Viewer, Volumes),
    row("GET", "/api/v1/initiators/{name}/history", Viewer, Volumes),
    row("GET", "/api/v1/local/sessions", Viewer, Cluster),
    row("GET", "/api/v1/traffic", Viewer, Volumes),
    row("GET", "/api/v1/local/traffic", Viewer, Cluster),
    row("GET", "/api/v1/alarms", Viewer, Cluster),
    row("POST", "/api/v1/alarms/{id}/acknowledge", Operator, Cluster),
    row("GET", "/api/v1/alarm-kinds", Viewer, Cluster),
    row(
        "PATCH",
        "/api/v1/alarm-kinds/{kind}",
        Administrator,
        Cluster,
    ),
    row(
        "DELETE",
        "/api/v1/alarm-kinds/{kind}",
        Administrator,
        Cluster,
    ),
    row("GET", "/api/v1/receivers", Administrator, Cluster),
    row("PUT", "/api/v1/receivers/{name}", Administrator, Cluster),
    row("DELETE", "/api/v1/receivers/{name}", Administrator, Cluster),
    row(
        "POST",
        "/api/v1/receivers/{name}/test",
        Administrator,
        Cluster,
    ),
    row("GET", "/metrics", Viewer, Metrics),
    ("GET", "/api/v1/login", Need::Nothing),
    ("GET", "/api/v1/login/oidc", Need::Nothing),
    ("GET", "/api/v1/login/oidc/callback", Need::Nothing),
];

/// What it takes to ask for a route by a method. HEAD is GET without its body.
pub(super) fn needed(method: &Method, path: &str) -> Need {
    let method = if *method == Method::HEAD {
        Method::GET.as_str()
    } else {
        method.as_str()
    };
    let found = TABLE.iter().find(|row| (row.0, row.1) == (method, path));
    found.map_or(
        Need::Permission(Permission {
            role: Administrator,
            area: Cluster,
        }),
        |row| row.2,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_method_of_every_route_has_a_row_and_no_row_is_left_over() {
        let document: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let mut there = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                there.insert((method.to_uppercase(), path.clone()));
            }
        }
        let rows = TABLE.iter().map(|row| (row.0.to_owned(), row.1.to_owned()));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
        assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), there);
    }

    #[test]
    fn what_has_no_row_is_for_administrators() {
        for (method, path) in [(Method::GET, "/api/v1/new"), (Method::PUT, "/metrics")] {
            let Need::Permission(permission) = needed(&method, path) else {
                panic!("{path} is open");
            };
            assert_eq!(permission.role, Administrator);
        }
        assert_eq!(
            needed(&Method::HEAD, "/api/v1/status"),
            needed(&Method::GET, "/api/v1/status")
        );
    }

    /// A viewer changes nothing.
    #[test]
    fn a_viewer_only_looks() {
        for (method, path, need) in TABLE {
            if let Need::Permission(permission) = need
                && permission.role == Viewer
            {
                assert_eq!(*method, "GET", "{path}");
            }
        }
    }
}
