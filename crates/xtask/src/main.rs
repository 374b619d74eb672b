//! The gate: one command that says whether a change may land.
//!
//! `ci` only reads (the build directory aside) and stops at the first step that fails; `fix` may
//! write; `tidy` checks the house rules that compilers do not know.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool talks to its caller"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod bench;
mod bite;
mod book;
mod cargo;
mod ci;
mod console;
mod demo;
mod etcd;
mod fuzz;
mod licences;
mod made;
mod metadata;
mod openapi;
mod package;
mod process;
mod reference;
mod schemathesis;
mod seeds;
mod suites;
mod tidy;

const USAGE: &str = "\
usage: cargo xtask <command>

  ci [STEP]...   run the whole gate, or only the named steps; never writes
  ci --list      list the steps of the gate
  tidy           check the house rules
  licences       check the licences of all dependencies
  console        build the web console, unless it is built
  etcd           build the etcd that the tests need, unless it is built
  book           build the documents as a book into target/book
  package [--try [PACKAGE]]
                 make the Debian package; with --try look what it does in a
                 clean Debian, as root
  bite [--seeds N] [BUG]...
                 put known mistakes into a copy of the code, one at a time, and
                 see that the simulator finds each within N seeds
  fuzz [--seconds N] [--jobs N] [--keep] [TARGET]...
                 look for inputs that break something, for N seconds each; --keep
                 writes the fewest that reach everything to crates/fuzz/corpus
  fuzz bite [BUG]...
                 put known mistakes into a copy of the code, one at a time, and
                 see that the fuzzer finds each
  bench [OPTION]...
                 measure Holdfast and its peers in turn on this machine;
                 docs/hacking.md has the options
  seeds [--profile NAME] [--count N] [--jobs N]
                 run the seeds that come after those in the record of runs, and
                 print the line to add there
  schemathesis   start a demo, and see that it answers as its OpenAPI document
                 says, whatever it is asked
  fix            format the code, write the OpenAPI document and the
                 reference anew";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci", "--list"] => {
            ci::list();
            Ok(())
        }
        ["ci", steps @ ..] => ci::run(&root(), steps),
        ["bite", words @ ..] => bite::run(&root(), words),
        ["fuzz", words @ ..] => fuzz::run(&root(), words),
        ["bench", words @ ..] => bench::run(&root(), words),
        ["seeds", words @ ..] => seeds::run(&root(), words),
        ["tidy"] => tidy::run(&root()),
        ["book"] => book::build(&root()),
        ["package", words @ ..] => package::run(&root(), words),
        ["licences"] => licences::run(&root()),
        ["console"] => console::build(&root()),
        ["etcd"] => etcd::build(&root()),
        ["schemathesis"] => schemathesis::run(&root()),
        ["fix"] => ci::fix(&root()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root: where this crate was built from.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/ of the repository")
        .to_path_buf()
}
