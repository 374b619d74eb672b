//! Which machine this is, and what an operator says of the one that was the node before: files in the node's
//! directory.
//!
//! `machine` holds a number that was drawn at random when the node was first started there. It goes with the
//! directory, not with the devices: who has lost those is the same machine still. `take-over` is empty, and made by
//! an operator: another machine that is on record is gone.
//!
//! Invariants:
//! - a machine has one number until another one has taken its place. From then on it has another one, and not even its
//!   address tells that it is the node, until it is registered again;
//! - what the operator says counts for one registration, and is gone after that, or when another machine has taken the
//!   place;
//! - a node that has its store does not fail to start for want of room for a number;
//! - that another machine has taken the place is marked without more room than the number has.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use holdfast_engine::Machine;
use holdfast_model::MachineId;

use crate::NodeError;
use crate::directory::{remove_if_there, replace_file};
use crate::run::random;

/// The file with the machine's number: 32 hexadecimal digits, and [`DISPLACED`] if that is so.
pub(crate) const MACHINE_FILE: &str = "machine";
/// What follows the number of one whose place another has taken.
const DISPLACED: &str = " displaced";
/// What an operator makes.
const TAKE_OVER_FILE: &str = "take-over";
/// More than the file can hold.
const READ_MAX: u64 = 64;

/// What tells this machine from others; its number is drawn if it has none. `has_address`: it listens at the very
/// address at which others reach the node.
///
/// # Errors
/// [`NodeError::Machine`] if the file is there and holds no number, or cannot be read.
pub(crate) fn identify(directory: &Path, has_address: bool) -> Result<Machine, NodeError> {
    let path = directory.join(MACHINE_FILE);
    let (id, is_displaced) = match read(&path)? {
        Some(found) => found,
        None => (begin(&path)?, false),
    };
    Ok(Machine {
        id,
        has_address: has_address && !is_displaced,
        takes_over: directory.join(TAKE_OVER_FILE).try_exists()?,
    })
}

/// What the file holds, if it is there.
fn read(path: &Path) -> Result<Option<(MachineId, bool)>, NodeError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(READ_MAX).read_to_string(&mut text));
    let error = match read {
        Ok(_) => match parse(text.trim_end()) {
            Some(found) => return Ok(Some(found)),
            None => io::Error::other("it does not hold 32 hexadecimal digits"),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => error,
    };
    Err(failed(path, error))
}

fn parse(text: &str) -> Option<(MachineId, bool)> {
    let digits = text.strip_suffix(DISPLACED);
    let is_displaced = digits.is_some();
    let digits = digits.unwrap_or(text);
    let is_whole = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_whole)?;
    Some((MachineId(number), is_displaced))
}

fn failed(path: &Path, source: io::Error) -> NodeError {
    let path = path.to_owned();
    NodeError::Machine { path, source }
}

fn draw() -> Result<MachineId, NodeError> {
    Ok(MachineId(u128::from_ne_bytes(random()?)))
}

/// A number that counts from now on, if there is room for it.
fn begin(path: &Path) -> Result<MachineId, NodeError> {
    let machine = draw()?;
    if let Err(error) = replace_file(path, &format!("{machine}\n")) {
        tracing::error!(
            "cannot keep which machine this is in {}: {error}; where its devices are lost, this is not known for the \
             same one",
            path.display()
        );
    }
    Ok(machine)
}

/// Another machine has taken this one's place.
pub(crate) fn displaced(directory: &Path) -> Result<(), NodeError> {
    let done = take_over_done(directory);
    let machine = draw()?;
    keep(directory, &format!("{machine}{DISPLACED}\n")).and(done)
}

/// This node is registered.
pub(crate) fn registered(directory: &Path) -> Result<(), NodeError> {
    let done = take_over_done(directory);
    match read(&directory.join(MACHINE_FILE))? {
        Some((machine, true)) => keep(directory, &format!("{machine}\n")).and(done),
        _ => done,
    }
}

/// Keeps a text that is no longer than fits where one is already: in its place if there is no room for another file. What a
/// power failure leaves of that is refused at the next start.
fn keep(directory: &Path, text: &str) -> Result<(), NodeError> {
    let path = directory.join(MACHINE_FILE);
    let kept = replace_file(&path, text).or_else(|_| overwrite(&path, text));
    kept.map_err(|error| failed(&path, error))
}

fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// What the log has of a `take-over` when the node is registered.
pub(crate) const fn take_over_words(is_used: bool) -> &'static str {
    if is_used {
        "`take-over` was used: without it this node could not have registered. The file is removed"
    } else {
        "`take-over` was not needed to register: nothing stood in the way of this node. Until it is stopped it goes on where others \
         follow another copy of the metadata, and do not go on themselves. The file is removed"
    }
}

fn take_over_done(directory: &Path) -> Result<(), NodeError> {
    let path = directory.join(TAKE_OVER_FILE);
    remove_if_there(&path).map_err(|error| failed(&path, error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn says_take_over(directory: &Path) -> bool {
        identify(directory, true).unwrap().takes_over
    }

    #[test]
    fn what_an_operator_says_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let path = directory.join("take-over");
        assert!(!says_take_over(directory));
        fs::write(&path, "").unwrap();
        assert!(says_take_over(directory));
        registered(directory).unwrap();
        assert!(!says_take_over(directory));
        // It had been said of the one that has taken its place by now.
        fs::write(&path, "").unwrap();
        displaced(directory).unwrap();
        assert!(!says_take_over(directory));
    }

    #[test]
    fn a_machine_keeps_its_number_until_another_has_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let first = identify(directory.path(), true).unwrap();
        assert_eq!(identify(directory.path(), true).unwrap(), first);
        assert!(first.has_address);
        assert!(!identify(directory.path(), false).unwrap().has_address);
        assert_ne!(identify(elsewhere.path(), true).unwrap().id, first.id);
        displaced(directory.path()).unwrap();
        let again = identify(directory.path(), true).unwrap();
        assert_ne!(again.id, first.id);
        assert!(!again.has_address, "its address tells nothing any more");
        registered(directory.path()).unwrap();
        let registered = identify(directory.path(), true).unwrap();
        assert_eq!(registered.id, again.id);
        assert!(registered.has_address);
    }

    /// No other file can be made beside it, as where the file system is full.
    #[test]
    fn the_place_is_marked_as_taken_without_room_for_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let first = identify(directory, true).unwrap();
        fs::create_dir(directory.join("machine.new")).unwrap();
        fs::write(directory.join("take-over"), "").unwrap();
        displaced(directory).unwrap();
        let again = identify(directory, true).unwrap();
        assert_ne!(again.id, first.id);
        assert!(!again.has_address && !again.takes_over);
        registered(directory).unwrap();
        let registered = identify(directory, true).unwrap();
        assert_eq!((registered.id, registered.has_address), (again.id, true));
    }

    #[test]
    fn what_is_no_number_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("machine");
        let long = "0".repeat(1 << 20);
        for text in [
            "",
            "12\n",
            &"0".repeat(33),
            &"+".repeat(32),
            " displaced",
            &long,
        ] {
            fs::write(&path, text).unwrap();
            let error = identify(directory.path(), true).unwrap_err().to_string();
            assert!(error.contains("32 hexadecimal digits"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, [0xff; 33]).unwrap();
        identify(directory.path(), true).unwrap_err();
    }

    /// A directory that cannot be written: what is there of a full one.
    #[test]
    fn a_node_starts_where_its_number_cannot_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let first = identify(&missing, true).unwrap();
        assert_ne!(identify(&missing, true).unwrap().id, first.id);
    }
}
