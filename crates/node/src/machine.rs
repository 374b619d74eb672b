//! An operator's word that the machine on record under this node's number is gone, and that this one takes its
//! place: an empty file in the node's directory.
//!
//! Invariant: it counts for one registration, and is gone after that.

use std::path::Path;

use crate::NodeError;
use crate::directory::remove_if_there;

/// The file.
const TAKE_OVER_FILE: &str = "take-over";

/// Whether it has been said.
pub(crate) fn is_said(directory: &Path) -> Result<bool, NodeError> {
    Ok(directory.join(TAKE_OVER_FILE).try_exists()?)
}

/// This node is registered: what was said has been done.
pub(crate) fn done(directory: &Path) -> Result<(), String> {
    let path = directory.join(TAKE_OVER_FILE);
    remove_if_there(&path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_said(directory.path()).unwrap());
        done(directory.path()).unwrap();
        fs::write(directory.path().join("take-over"), "").unwrap();
        assert!(is_said(directory.path()).unwrap());
        done(directory.path()).unwrap();
        assert!(!is_said(directory.path()).unwrap());
    }
}
