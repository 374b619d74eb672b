//! Which machine this is, and what an operator says of the one that was the node before: files in the node's
//! directory.
//!
//! `machine` holds a number that was drawn at random when the node was first started there. It goes with the
//! directory, not with the devices: who has lost those is the same machine still. `take-over` is empty, and made by
//! an operator: another machine that is on record is gone.
//!
//! Invariants:
//! - a machine has one number until another one has taken its place, and another one after that;
//! - what the operator says counts for one registration, and is gone after that.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use holdfast_model::MachineId;

use crate::NodeError;
use crate::directory::{remove_if_there, replace_file};
use crate::run::random;

/// The file with the machine's number: 32 hexadecimal digits, and the end of the line.
const MACHINE_FILE: &str = "machine";
/// What an operator makes.
const TAKE_OVER_FILE: &str = "take-over";
/// More than the file can hold.
const READ_MAX: u64 = 64;

/// This machine's number, which is drawn if it has none.
///
/// # Errors
/// [`NodeError::Machine`] if the file holds none, or cannot be read or made.
pub(crate) fn identify(directory: &Path) -> Result<MachineId, NodeError> {
    let path = directory.join(MACHINE_FILE);
    let found = match File::open(&path) {
        Ok(file) => read(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return draw(path),
        Err(error) => Err(error),
    };
    found.map_err(|source| NodeError::Machine { path, source })
}

fn read(file: File) -> io::Result<MachineId> {
    let mut text = String::new();
    file.take(READ_MAX).read_to_string(&mut text)?;
    let digits = text.trim_end();
    let is_whole = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_whole);
    let number =
        number.ok_or_else(|| io::Error::other("it does not hold 32 hexadecimal digits"))?;
    Ok(MachineId(number))
}

fn draw(path: PathBuf) -> Result<MachineId, NodeError> {
    let machine = MachineId(u128::from_ne_bytes(random()?));
    match replace_file(&path, &format!("{machine}\n")) {
        Ok(()) => Ok(machine),
        Err(source) => Err(NodeError::Machine { path, source }),
    }
}

/// Another machine has taken this one's place: it is another one from now on.
pub(crate) fn displaced(directory: &Path) -> Result<(), String> {
    remove(&directory.join(MACHINE_FILE))
}

/// Whether an operator says that another machine that is on record is gone, and that this one takes its place.
pub(crate) fn takes_over(directory: &Path) -> Result<bool, NodeError> {
    Ok(directory.join(TAKE_OVER_FILE).try_exists()?)
}

/// This node is registered: what an operator said of the former one has been done.
pub(crate) fn registered(directory: &Path) -> Result<(), String> {
    remove(&directory.join(TAKE_OVER_FILE))
}

fn remove(path: &Path) -> Result<(), String> {
    remove_if_there(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_an_operator_says_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!takes_over(directory.path()).unwrap());
        registered(directory.path()).unwrap();
        fs::write(directory.path().join("take-over"), "").unwrap();
        assert!(takes_over(directory.path()).unwrap());
        registered(directory.path()).unwrap();
        assert!(!takes_over(directory.path()).unwrap());
    }

    #[test]
    fn a_machine_keeps_its_number_until_another_has_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let first = identify(directory.path()).unwrap();
        assert_eq!(identify(directory.path()).unwrap(), first);
        assert_ne!(identify(elsewhere.path()).unwrap(), first);
        displaced(directory.path()).unwrap();
        assert_ne!(identify(directory.path()).unwrap(), first);
    }

    #[test]
    fn what_is_no_number_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("machine");
        for text in [
            "",
            "12\n",
            &"0".repeat(33),
            &"+".repeat(32),
            &"0".repeat(1 << 20),
        ] {
            fs::write(&path, text).unwrap();
            let error = identify(directory.path()).unwrap_err().to_string();
            assert!(error.contains("32 hexadecimal digits"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, [0xff; 33]).unwrap();
        identify(directory.path()).unwrap_err();
    }
}
