//! What is written about the commands: manual pages, a reference, what shells complete. All of it is made from the definition in
//! `cli`, which is the only place where a command or an option is described.
//!
//! Invariants:
//! - every command that help lists has a manual page, and a section of the reference;
//! - the same program makes the same bytes, wherever and whenever it is asked: no date, no width of a terminal.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use holdfast_stdx::Count;
use serde::Serialize;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::{Output, quoted};

mod markdown;

/// The section that every page has, and that the definition does not know.
const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
0 when what was asked is done, 1 when it failed, 2 when the command line makes no sense. Where a command has codes of its own, its
description says so.
";

/// What belongs to the program as a whole.
const ENVIRONMENT: &str = "\
.SH ENVIRONMENT
.TP
\\fBHOLDFAST_API\\fR
Where the cluster's API answers, as \\fB\\-\\-api\\fR.
.TP
\\fBHOLDFAST_TOKEN\\fR
What the API wants to see, if it wants something. It is no option: other users of the machine see a command line.
.SH FILES
.TP
\\fI/etc/holdfast/node.toml\\fR
What a node's start needs; \\fI/etc/holdfast/witness.toml\\fR for a witness.
.TP
\\fI/var/lib/holdfast\\fR
A node's log, its lock, and what its member of etcd keeps.
";

/// `holdfast man`.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ManArguments {
    /// The directory to write a page of section 1 for each command into; it is made if it is missing
    directory: Option<PathBuf>,
    /// Print the reference of all commands in Markdown instead
    #[arg(long)]
    markdown: bool,
}

#[derive(Serialize)]
struct Pages {
    pages: Vec<String>,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

/// Writes the manual pages, or prints the reference.
pub(crate) fn run(arguments: &ManArguments, output: &Output) -> Result<(), Failure> {
    let Some(directory) = &arguments.directory else {
        let text = markdown::reference(&definition());
        return print(text, output);
    };
    let pages = Pages {
        pages: write_pages(directory)?,
    };
    output.result(&pages, || written(&pages.pages, directory))
}

/// What people are told of pages that were written.
fn written(pages: &[String], directory: &Path) -> String {
    let count = Count::of(pages.len(), "page");
    let first = pages.first().map(|page| directory.join(page));
    // `man` takes what has no slash for the name of a page.
    let first = first.map(|page| std::path::absolute(&page).unwrap_or(page));
    let first = first.map_or_else(String::new, |page| {
        format!(
            "read one with man {}\n",
            quoted(&page.display().to_string())
        )
    });
    format!("{count} in {}\n{first}", directory.display())
}

/// Prints what a shell needs.
pub(crate) fn complete(shell: Shell, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    // Without the command `help`, which would repeat the tree of all commands.
    let mut all = Cli::command().disable_help_subcommand(true);
    clap_complete::generate(shell, &mut all, "holdfast", &mut script);
    let text = String::from_utf8(script).expect("what the definition says is UTF-8");
    print(text, output)
}

fn print(text: String, output: &Output) -> Result<(), Failure> {
    let document = Text { text };
    output.result(&document, || document.text.clone())
}

/// The definition with everything that is derived from it: names in full, options of every command.
fn definition() -> Command {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    all
}

/// The names of the pages that were written.
fn write_pages(directory: &Path) -> Result<Vec<String>, Failure> {
    let failed = |what: &str, path: &Path, error: std::io::Error| {
        Failure::new(format!("{what} {}: {error}", path.display()))
    };
    fs::create_dir_all(directory).map_err(|error| failed("make", directory, error))?;
    let mut names = Vec::new();
    for (name, page) in pages(&definition()) {
        let path = directory.join(&name);
        fs::write(&path, page).map_err(|error| failed("write", &path, error))?;
        names.push(name);
    }
    Ok(names)
}

/// The page of each command, by the name of its file.
fn pages(all: &Command) -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    each(all, &mut |command| {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let is_whole = name == all.get_name();
        // A page is called as its file: holdfast-volume-create(1).
        let man = Man::new(command.clone()).title(name).manual("Holdfast");
        let man = man.source(concat!("holdfast ", env!("CARGO_PKG_VERSION")));
        let mut page = Vec::new();
        man.render(&mut page)
            .expect("a vector takes whatever is written");
        page.extend_from_slice(EXIT_STATUS.as_bytes());
        if is_whole {
            page.extend_from_slice(ENVIRONMENT.as_bytes());
        }
        pages.push((format!("{name}.1"), page));
    });
    pages
}

/// Calls `see` for a command and all below it, as help lists them.
fn each(command: &Command, see: &mut impl FnMut(&Command)) {
    see(command);
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        each(below, see);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use super::*;

    fn commands() -> Vec<String> {
        let mut names = Vec::new();
        each(&definition(), &mut |it| {
            names.push(it.get_bin_name().unwrap_or(it.get_name()).to_owned());
        });
        names
    }

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut definition(), "holdfast", &mut script);
        String::from_utf8(script).unwrap()
    }

    #[test]
    fn every_command_has_a_page_and_a_section() {
        let commands = commands();
        assert!(commands.iter().any(|it| it == "holdfast volume create"));
        assert!(commands.len() > 40, "{commands:?}");
        let pages = pages(&definition());
        let reference = markdown::reference(&definition());
        for command in commands {
            let name = format!("{}.1", command.replace(' ', "-"));
            let page = pages.iter().find(|it| it.0 == name);
            let page = page.unwrap_or_else(|| panic!("{name} is missing"));
            let page = String::from_utf8(page.1.clone()).unwrap();
            assert!(page.contains(".SH NAME"), "{page}");
            assert!(page.contains("EXIT STATUS"), "{page}");
            let heading = format!("`{command}`\n");
            assert!(reference.contains(&heading), "{heading}");
        }
    }

    /// Pages are in packages, whose bytes are compared.
    #[test]
    fn pages_have_no_date() {
        let (first, second) = (pages(&definition()), pages(&definition()));
        assert_eq!(first, second);
        let title = String::from_utf8(first[0].1.clone()).unwrap();
        let title = title.lines().find(|it| it.starts_with(".TH")).unwrap();
        assert_eq!(title.matches("20").count(), 0, "{title}");
    }

    #[test]
    fn options_of_every_command_stand_in_the_reference_once() {
        let reference = markdown::reference(&definition());
        assert_eq!(reference.matches("- `--json`").count(), 1);
        assert_eq!(reference.matches("- `--help`").count(), 0);
        assert!(reference.contains("`--policy <POLICY>`"), "{reference}");
        assert!(!reference.contains("with-etcd"), "it is hidden");
    }

    #[test]
    fn bash_takes_its_script() {
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(path.path(), script(Shell::Bash)).unwrap();
        let parsed = Process::new("bash")
            .arg("-n")
            .arg(path.path())
            .stderr(Stdio::piped())
            .output();
        let Ok(parsed) = parsed else {
            return eprintln!("bash_takes_its_script did not run: there is no bash here");
        };
        assert!(
            parsed.status.success(),
            "{}",
            String::from_utf8_lossy(&parsed.stderr)
        );
    }

    /// It knows the commands, and completes from them: not only its syntax is right.
    #[test]
    fn bash_completes_commands_and_values() {
        let ask = |words: &str, word: usize| {
            let script = script(Shell::Bash);
            let ask = format!(
                "{script}\nCOMP_WORDS=({words}); COMP_CWORD={word}; \
                 _holdfast holdfast \"${{COMP_WORDS[{word}]}}\" \"${{COMP_WORDS[{}]}}\"; \
                 echo \"${{COMPREPLY[@]}}\"",
                word - 1
            );
            let asked = Process::new("bash").arg("-c").arg(ask).output().ok()?;
            Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
        };
        let Some(found) = ask("holdfast volume cre", 2) else {
            return eprintln!("bash_completes_commands_and_values did not run: no bash here");
        };
        assert_eq!(found, "create");
        assert_eq!(
            ask("holdfast node maintenance o", 3).as_deref(),
            Some("on off")
        );
    }

    #[test]
    fn other_shells_are_served() {
        for (shell, begins) in [
            (Shell::Zsh, "#compdef holdfast"),
            (Shell::Fish, "# Print an"),
        ] {
            let script = script(shell);
            assert!(script.starts_with(begins), "{}", &script[..80]);
            assert!(script.contains("maintenance"));
        }
    }
}
