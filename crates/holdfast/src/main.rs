//! The one binary: the node's daemon, the demo, and the operator's commands.
//!
//! Data goes to stdout, talk to stderr. It ends with 0 when what was asked is done, with 1 when it
//! failed, with 2 when the command line makes no sense; `certify` also where nothing could be checked;
//! `upgrade-check` and `status --check` with 3 where the answer is no.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod demo;
mod failure;
mod inspect;
mod manual;
mod output;
mod recover;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tikv_jemallocator::Jemalloc;

use crate::cli::{Cli, Command, Global, NodeCommand};
use crate::failure::Failure;
use crate::output::Output;

/// Buffers of an I/O come and go by the million, of all sizes: an allocator that gives them back to the system at once pays for each page anew.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let Cli { global, command } = command_line();
    let output = Output::new(global.json);
    match run(&global, &output, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.fail(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// What the command line says. Ends the process if that makes no sense, or asks for help.
fn command_line() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        let alone = if error.use_stderr() && !is_help {
            without_variables()
        } else {
            None
        };
        alone.unwrap_or(error).exit()
    })
}

/// Why the command line makes no sense if nothing is in the environment. What is there counts as said: the usage would name those
/// options as if the command needed them, and a command of which nothing was said would not show its help.
fn without_variables() -> Option<clap::Error> {
    let all = Cli::command().mut_args(|argument| argument.env(None::<&'static str>));
    all.try_get_matches().err()
}

fn run(global: &Global, output: &Output, command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(options) => demo::run(&options, output),
        Command::Node(node) => match node.chosen() {
            NodeCommand::Run(config) => commands::node::run(&config),
            NodeCommand::Ask(command) => {
                within_runtime(commands::node::ask(global, output, command))
            }
        },
        Command::Witness { config } => commands::node::witness(&config),
        Command::Settings { command } => {
            within_runtime(commands::settings::run(global, output, &command))
        }
        Command::Retention { command } => {
            within_runtime(commands::retention::run(global, output, command))
        }
        Command::Status { explain, check } => {
            within_runtime(commands::status::run(global, output, explain, check))
        }
        Command::Device { command } => {
            within_runtime(commands::device::run(global, output, command))
        }
        Command::Stalls(arguments) => {
            within_runtime(commands::stalls::show(global, output, &arguments))
        }
        Command::History(arguments) => {
            within_runtime(commands::history::show(global, output, &arguments))
        }
        Command::Events(arguments) => {
            within_runtime(commands::events::run(global, output, &arguments))
        }
        Command::Tasks { cancel } => {
            within_runtime(commands::tasks::run(global, output, cancel.as_deref()))
        }
        Command::Volume { command } => {
            within_runtime(commands::volume::run(global, output, command))
        }
        Command::Initiator { command } => {
            within_runtime(commands::initiator::run(global, output, command))
        }
        Command::User { command } => within_runtime(commands::user::run(global, output, command)),
        Command::Token { command } => within_runtime(commands::token::run(global, output, command)),
        Command::Alarm { command } => within_runtime(commands::alarm::run(global, output, command)),
        Command::Receiver { command } => {
            within_runtime(commands::receiver::run(global, output, command))
        }
        Command::Whoami => within_runtime(commands::audit::who(global, output)),
        Command::Audit(arguments) => {
            within_runtime(commands::audit::show(global, output, &arguments))
        }
        Command::Certify(arguments) => {
            within_runtime(commands::certify::run(global, output, arguments))
        }
        Command::Inspect(arguments) => inspect::run(&arguments, output),
        Command::Recover { command } => recover::run(output, &command),
        Command::UpgradeCheck => within_runtime(commands::upgrade_check::run(global, output)),
        Command::SupportBundle(arguments) => {
            within_runtime(commands::support::run(global, output, &arguments))
        }
        Command::Completions { shell } => manual::complete(shell, output),
        Command::Security { command } => commands::security::run(output, command),
        Command::Man(arguments) => manual::run(&arguments, output),
    }
}

/// Runs what waits for answers and for nothing else.
fn within_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Failure::new(format!("start: {error}")))?
        .block_on(work)
}
