//! With which statuses routes may answer beside what was asked for, as the OpenAPI document lists them.
//!
//! Invariants:
//! - whatever a route answers is listed at it; `default`, which version 1 has said from the beginning, stays beside it.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

/// What a status means wherever it is answered.
fn meaning(status: &str) -> &'static str {
    match status {
        "400" => "The request is not valid",
        "401" => "Who asks is not known",
        "403" => "Who asks may not",
        "429" => "Too many passwords were tried in vain",
        "404" => "There is no such thing",
        "409" => "It cannot be done as things are",
        "412" => "It is not as the request says that it is, and was not changed",
        "422" => "The key is another request's",
        "413" => "The request's body is too long",
        "415" => "The request's body is not declared to be JSON",
        "500" => "A mistake of the server",
        "503" => "What is needed for an answer cannot be reached, or too many ask",
        _ => "What went wrong",
    }
}

fn problem(status: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(meaning(status))
        .content("application/problem+json", content)
        .build()
}

/// What every route may answer.
const ALWAYS: [&str; 5] = ["401", "403", "500", "503", "default"];

fn responses(statuses: &[&str]) -> BTreeMap<String, RefOr<Response>> {
    let all = statuses.iter().chain(&ALWAYS);
    all.map(|status| ((*status).to_owned(), RefOr::T(problem(status))))
        .collect()
}

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident: $($status:literal)*;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                responses(&[$($status),*])
            }
        }
    )*};
}

answers! {
    /// Where there is nothing to be named, and nothing to be chosen.
    OfAll: ;
    /// Where something is chosen by a query.
    OfQuery: "400";
    /// Of one thing, by its name.
    OfOne: "400" "404" "409";
    /// Of the node that is asked.
    OfNode: "400" "404";
    /// Of a change without a document.
    OfOrder: "400" "404" "409";
    /// Of a change by a document.
    OfChange: "400" "404" "409" "413" "415";
    /// Where a password is shown.
    OfLogin: "400" "409" "413" "415" "429";
    /// Where a browser is sent on.
    OfSending: "400" "404" "409";
    /// Of a creation, which may bear a key.
    OfCreation: "400" "404" "409" "413" "415" "422";
    /// The same, of what has a tag.
    OfTaggedChange: "400" "404" "409" "412" "413" "415";
    /// Of the removal of what has a tag.
    OfRemoval: "400" "404" "409" "412";
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// Programs know by the list what may come, and a change of it shows in the document.
    #[test]
    fn every_route_lists_what_it_may_answer() {
        let document: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let (mut seen, mut changes) = (0, 0);
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                for status in super::ALWAYS {
                    assert!(responses.contains_key(status), "{method} {path}: {status}");
                }
                if path.contains('{') {
                    assert!(responses.contains_key("404"), "{method} {path}");
                }
                // What a change bears may be what nothing looks at.
                if method != "get" {
                    assert!(responses.contains_key("400"), "{method} {path}");
                    changes += 1;
                }
                if operation.get("requestBody").is_some() {
                    assert!(responses.contains_key("415"), "{method} {path}");
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "the document has routes");
        assert!(changes > 15, "the document has changes");
    }
}
