//! Programs that are run to their end.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs it, with the output that it was given.
///
/// # Errors
/// It cannot be started, or ends with a failure.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_is_not_there_is_an_error() {
        assert!(succeed(&mut Command::new("true")).is_ok());
        let failed = succeed(&mut Command::new("false")).unwrap_err();
        assert!(failed.to_string().contains("ended with"), "{failed}");
        let missing = succeed(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(missing.to_string().starts_with("start "), "{missing}");
    }
}
