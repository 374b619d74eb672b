//! The page about the REST interface: each operation and each document, as the interface's OpenAPI document has them.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// What stands before the first operation.
const BEGINNING: &str = "\
# The REST interface

<!-- Made from openapi/v1.json: `cargo xtask fix` writes it anew, the gate's step `reference` compares. -->

Every node answers at the address `api.listen` of its file; `/api/v1/openapi.json` is what this page is made from, for programs. Bodies are JSON.
What goes wrong is told as a problem (RFC 9457, `application/problem+json`): `type` is one of the [kinds below](#problems) and stays what it is, `detail` says what happened, `hint` what
to do. Fields that a client does not know are to be ignored: later versions have more.

";

/// The whole page.
pub(super) fn page(document: &Value) -> Result<String> {
    let mut text = BEGINNING.to_owned();
    let paths = object(&document["paths"]).context("the document has no paths")?;
    text.push_str("## Operations\n");
    for (path, operations) in paths {
        let operations = object(operations).context("a path has no operations")?;
        for (method, operation) in operations {
            text.push_str(&told(path, method, operation));
        }
    }
    let schemas = &document["components"]["schemas"];
    let schemas = object(schemas).context("the document has no schemas")?;
    text.push_str("\n## Problems\n\n");
    let kinds = schemas.get("ProblemKind").map(choices);
    let kinds = kinds.context("the document has no kinds of problems")?;
    for kind in kinds {
        let _ = writeln!(text, "- {kind}");
    }
    text.push_str("\n## Documents\n");
    for (name, schema) in schemas.iter().filter(|it| it.0 != "ProblemKind") {
        text.push_str(&described(name, schema));
    }
    Ok(text)
}

fn told(path: &str, method: &str, operation: &Value) -> String {
    let summary = operation["summary"].as_str().unwrap_or_default();
    let mut text = format!(
        "\n### `{} {path}`\n\n{summary}.\n",
        method.to_ascii_uppercase()
    );
    if let Some(more) = operation["description"].as_str() {
        let _ = write!(text, "\n{}\n", joined(more));
    }
    let mut lines = String::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let place = parameter["in"].as_str().unwrap_or_default();
        let about = parameter["description"].as_str().map(joined);
        let about = about.map(|it| format!(": {it}")).unwrap_or_default();
        let _ = writeln!(lines, "- `{name}` (in the {place}){about}");
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let _ = writeln!(lines, "- takes {}", kind_of(body));
    }
    let responses = object(&operation["responses"]);
    for (status, response) in responses.into_iter().flatten() {
        let content = object(&response["content"]);
        let schema = content.and_then(|it| it.values().next());
        let schema = schema.map(|it| kind_of(&it["schema"]));
        let about = response["description"].as_str().map(joined);
        let parts: Vec<_> = [schema, about.filter(|it| !it.is_empty())]
            .into_iter()
            .flatten()
            .collect();
        let status = match status.as_str() {
            "default" => "else".to_owned(),
            number => format!("`{number}`"),
        };
        let _ = writeln!(lines, "- {status}: {}", parts.join(". "));
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n{lines}");
    }
    text
}

fn described(name: &str, schema: &Value) -> String {
    let mut text = format!("\n### {name}\n");
    if let Some(about) = schema["description"].as_str() {
        let _ = write!(text, "\n{}\n", joined(about));
    }
    let choices = choices(schema);
    if !choices.is_empty() {
        let _ = write!(text, "\nOne of {}.\n", choices.join(", "));
    }
    let properties = object(&schema["properties"]);
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
    let mut rows = String::new();
    for (name, property) in properties.into_iter().flatten() {
        let about = property["description"].as_str().map(joined);
        let mark = if is_required(name) { "" } else { ", optional" };
        let about = about.unwrap_or_default().replace('|', "\\|");
        let _ = writeln!(rows, "| `{name}` | {}{mark} | {about} |", kind_of(property));
    }
    if !rows.is_empty() {
        let _ = write!(text, "\n| field | type | |\n|---|---|---|\n{rows}");
    }
    text
}

/// The values that a word may have.
fn choices(schema: &Value) -> Vec<String> {
    let values = schema["enum"].as_array().into_iter().flatten();
    let values = values.filter_map(Value::as_str);
    values.map(|it| format!("`{it}`")).collect()
}

/// What a schema is called in a sentence.
fn kind_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return match name {
            "ProblemKind" => "[a kind](#problems)".to_owned(),
            _ => format!("[{name}](#{})", name.to_ascii_lowercase()),
        };
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(kinds) = schema[several].as_array() {
            let kinds: Vec<_> = kinds.iter().map(kind_of).collect();
            return kinds.join(" or ");
        }
    }
    let named = |name: &str| match name {
        "array" => format!("list of {}", kind_of(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            Value::Null => "object".to_owned(),
            values => format!("object of {}", kind_of(values)),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).map(named);
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

fn joined(paragraphs: &str) -> String {
    paragraphs.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_and_documents_are_told() {
        let document = json!({
            "paths": {"/api/v1/volumes/{name}": {"delete": {
                "summary": "Delete a volume",
                "parameters": [{"name": "force", "in": "query", "description": "Also in use"}],
                "responses": {
                    "204": {"description": "It is gone"},
                    "default": {"content": {"application/problem+json": {
                        "schema": {"$ref": "#/components/schemas/Problem"}}}}
                }
            }}},
            "components": {"schemas": {
                "ProblemKind": {"enum": ["urn:holdfast:problem:busy"]},
                "Problem": {
                    "description": "What\nwent wrong",
                    "required": ["type"],
                    "properties": {
                        "type": {"$ref": "#/components/schemas/ProblemKind"},
                        "hint": {"type": ["string", "null"], "description": "What to do"},
                        "nodes": {"type": "array", "items": {"type": "integer"}}
                    }
                }
            }}
        });
        let page = page(&document).unwrap();
        for line in [
            "### `DELETE /api/v1/volumes/{name}`",
            "Delete a volume.",
            "- `force` (in the query): Also in use",
            "- `204`: It is gone",
            "- else: [Problem](#problem)",
            "- `urn:holdfast:problem:busy`",
            "What went wrong",
            "| `type` | [a kind](#problems) |  |",
            "| `hint` | string or null, optional | What to do |",
            "| `nodes` | list of integer, optional |  |",
        ] {
            assert!(page.lines().any(|it| it == line), "{line} in:\n{page}");
        }
        assert!(super::page(&json!({})).is_err());
    }
}
