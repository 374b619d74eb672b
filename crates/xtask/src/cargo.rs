//! Cargo, started by a program that cargo has started.
//!
//! Invariant: what cargo told this program of its own package is not passed on. Build scripts (that of *ring*, on which half of the
//! workspace stands) ask to run again when such a variable is another, and everything above them is compiled once more: by turns,
//! whenever cargo is started from here and from a shell.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::succeed;

/// What cargo tells a program of its package begins so.
const OF_THE_PACKAGE: [&str; 4] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
];

/// Cargo, as it would be started from a shell.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_the_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
///
/// # Errors
/// It ends with a failure.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    succeed(command().args(arguments).current_dir(root))
}

fn is_of_the_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OF_THE_PACKAGE.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(run(&crate::root(), &["no-such-subcommand"]).is_err());
    }

    #[test]
    fn where_things_are_is_passed_on_and_nothing_of_this_package() {
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
        ] {
            assert!(is_of_the_package(OsStr::new(name)), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_INCREMENTAL",
            "PATH",
        ] {
            assert!(!is_of_the_package(OsStr::new(name)), "{name}");
        }
    }
}
