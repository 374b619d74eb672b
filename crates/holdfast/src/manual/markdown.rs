//! The reference of all commands in Markdown: a section for each, with what it takes.
//!
//! Invariant: what a terminal would be told is told in the same words; nothing is wrapped.

use std::fmt::Write;

use clap::{Arg, Command};

use super::each;

/// What stands before the first command.
const BEGINNING: &str = "\
# Commands

<!-- Made from the program's definition: `cargo xtask fix` writes it anew, the gate's step `reference` compares. -->

Data goes to stdout, talk to stderr. A command ends with 0 when what was asked is done, with 1 when it failed, with 2 when the command
line makes no sense; a command that has codes of its own says so. `holdfast man DIRECTORY` writes the same as manual pages, `holdfast completions SHELL` prints what a
shell needs to complete them.

`HOLDFAST_API` is where the API answers, as `--api`; `HOLDFAST_TOKEN` what it wants to see, if it wants something.
";

/// The whole reference.
pub(super) fn reference(all: &Command) -> String {
    let mut text = BEGINNING.to_owned();
    text.push_str("\nEvery command takes:\n\n");
    for global in all.get_arguments().filter(|it| it.is_global_set()) {
        text.push_str(&argument(global));
    }
    each(all, &mut |command| text.push_str(&section(command)));
    text
}

fn section(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let depth = name.matches(' ').count().min(2);
    let mut text = format!("\n{} `{name}`\n", "#".repeat(depth + 2));
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        let _ = write!(text, "\n{}\n", sentence(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let lines: Vec<_> = usage.lines().map(str::trim).collect();
    let _ = write!(text, "\n```text\n{}\n```\n", lines.join("\n"));
    let own = command.get_arguments();
    let own = own.filter(|it| !it.is_global_set() && !it.is_hide_set() && !is_help(it));
    let arguments: String = own.map(argument).collect();
    if !arguments.is_empty() {
        let _ = write!(text, "\n{arguments}");
    }
    text
}

/// Those two that the parser adds by itself.
fn is_help(argument: &Arg) -> bool {
    ["help", "version"].contains(&argument.get_id().as_str())
}

/// One line of a list.
fn argument(argument: &Arg) -> String {
    let mut text = format!("- `{}`", shape(argument));
    let help = argument.get_long_help().or(argument.get_help());
    if let Some(help) = help {
        let help = help.to_string();
        let paragraphs: Vec<_> = help.split("\n\n").map(joined).collect();
        let _ = write!(text, ": {}", paragraphs.join(". "));
    }
    let mut notes = Vec::new();
    let values = argument.get_possible_values();
    let values = values.iter().filter(|it| !it.is_hide_set());
    let values: Vec<_> = values.map(|it| format!("`{}`", it.get_name())).collect();
    if !values.is_empty() && argument.get_action().takes_values() {
        notes.push(format!("one of {}", values.join(", ")));
    }
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .map(|it| format!("`{}`", it.to_string_lossy()))
        .collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        notes.push(format!("default: {}", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!("environment: `{}`", variable.to_string_lossy()));
    }
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join("; "));
    }
    text.push('\n');
    text
}

/// How it is written: `--limit <LIMIT>`, `<NAME>`, `[VOLUME]`.
fn shape(argument: &Arg) -> String {
    let shape = argument.to_string();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {shape}"),
        _ => shape,
    }
}

/// What help says ends without a full stop; a paragraph has one.
fn sentence(about: &str) -> String {
    let paragraphs = about.split("\n\n").map(|paragraph| {
        let text = joined(paragraph);
        if text.ends_with(['.', ':', '`']) && !text.ends_with("etc.") {
            text
        } else {
            text + "."
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn joined(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
