//! Where passwords come from: a file, or a terminal that does not show them. Never a command line, which other users of the
//! machine see.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use holdfast_model::record::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::initiator::read_secret;
use crate::failure::Failure;
use crate::output::Output;

/// A user's new password.
///
/// # Errors
/// It cannot be read; what is typed twice is not the same; or there is neither a file nor a terminal.
pub(crate) fn new_password(
    file: Option<&Path>,
    user: &str,
    output: &Output,
) -> Result<Secret, Failure> {
    if let Some(file) = file {
        return read_secret(file, output);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(
            Failure::new("there is no terminal at which to ask for the password").hint(
                "put it into a file that only you can read, and name that: --password-file FILE",
            ),
        );
    }
    let one = typed(&format!("new password of {user} (12 letters at least): "))?;
    let again = typed("the same again: ")?;
    if one != again {
        return Err(Failure::new("the two are not the same: nothing is changed"));
    }
    Ok(Secret(one))
}

/// A line that the terminal does not show.
fn typed(question: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("ask at the terminal: {error}"));
    let mut terminal = io::stderr();
    write!(terminal, "{question}").map_err(failed)?;
    terminal.flush().map_err(failed)?;
    let hidden = Hidden::begin().map_err(failed)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    drop(hidden);
    // The line break was not shown either.
    let _ = writeln!(terminal);
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// While it lives, the terminal does not show what is typed.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // If that fails, the terminal has gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
