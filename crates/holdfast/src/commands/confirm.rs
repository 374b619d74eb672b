//! Whether somebody means it, asked at a terminal.
//!
//! Invariants:
//! - what loses data is done only where its name was typed, or `--yes` said;
//! - where there is nobody to ask, nothing is asked, and nothing done.

use std::io::{self, BufRead, IsTerminal, Write};

use holdfast_api::documents::Volume;
use holdfast_api::{ApiClient, ClientError, ProblemKind};
use holdfast_control::VolumeName;

use crate::failure::Failure;
use crate::output::{Output, bytes};

/// That a volume is to be deleted.
///
/// # Errors
/// Nobody says so, or there is nobody to ask.
pub(crate) async fn deletion(
    client: &ApiClient,
    output: &Output,
    name: &VolumeName,
) -> Result<(), Failure> {
    let is_attended = io::stdin().is_terminal() && io::stderr().is_terminal();
    let can_ask = is_attended && !output.is_for_programs();
    let volume = match client.volume(name.as_str()).await {
        Err(ClientError::Problem(problem))
            if !can_ask && problem.kind == ProblemKind::NoSuchVolume =>
        {
            return Err(ClientError::Problem(problem).into());
        }
        _ if !can_ask => return Err(unattended(name)),
        Ok(volume) => Some(volume),
        // A part of it may be left in metadata that is damaged.
        Err(ClientError::Problem(problem)) if problem.kind == ProblemKind::NoSuchVolume => None,
        Err(error) => return Err(error.into()),
    };
    let question = question(name, volume.as_ref());
    asked(name, &question, &mut io::stdin().lock(), &mut io::stderr())
}

fn question(name: &VolumeName, volume: Option<&Volume>) -> String {
    let what = match volume {
        Some(volume) => format!("delete volume {name} ({})?", bytes(volume.bytes)),
        None => format!(
            "there is no volume {name}, or it is damaged: delete what may be left of one that was called so?"
        ),
    };
    format!("{what} type its name to confirm: ")
}

/// Asks, and takes nothing but the name for a yes.
fn asked(
    name: &VolumeName,
    question: &str,
    answers: &mut impl BufRead,
    terminal: &mut impl Write,
) -> Result<(), Failure> {
    let mut answer = String::new();
    let read = write!(terminal, "{question}")
        .and_then(|()| terminal.flush())
        .and_then(|()| answers.read_line(&mut answer));
    match read {
        Ok(_) if answer.trim() == name.as_str() => Ok(()),
        Ok(_) => Err(Failure::new(format!(
            "that is not its name: volume {name} is not deleted"
        ))),
        Err(error) => Err(Failure::new(format!("ask at the terminal: {error}"))),
    }
}

fn unattended(name: &VolumeName) -> Failure {
    let what = format!(
        "volume {name} is not deleted: all its data would be lost, and there is no terminal at which to ask"
    );
    Failure::new(what).hint(format!(
        "`holdfast volume delete {name} --yes` does not ask"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> VolumeName {
        "data".parse().unwrap()
    }

    #[test]
    fn nothing_but_its_name_is_a_yes() {
        let answered = |answer: &str| {
            let mut terminal = Vec::new();
            let done = asked(&name(), "sure? ", &mut answer.as_bytes(), &mut terminal);
            assert_eq!(terminal, b"sure? ");
            done.map_err(|failure| failure.to_string())
        };
        assert_eq!(answered("data\n"), Ok(()));
        for other in ["", "\n", "y\n", "yes\n", "Data\n", "data2\n"] {
            let said = answered(other).unwrap_err();
            assert!(said.contains("volume data is not deleted"), "{said}");
        }
    }

    #[test]
    fn it_is_asked_by_name_and_size() {
        let asks = question(&name(), None);
        assert!(
            asks.starts_with("there is no volume data, or it is damaged: delete what"),
            "{asks}"
        );
        let said = unattended(&name()).to_string();
        assert!(
            said.contains("`holdfast volume delete data --yes`"),
            "{said}"
        );
    }
}
