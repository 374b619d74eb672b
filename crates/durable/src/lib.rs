//! Files that are there whole or not at all, also after a loss of power.
//!
//! Of a file system nothing is assumed but what POSIX says: what was written is on the medium when the file was synchronized, and
//! what became of a name when its directory was. So each change of a name has its file synchronized before it, and its directory
//! behind it.
//!
//! It refuses to know what is in the files, and to be used where a wait for the medium would keep I/O waiting.
//!
//! Invariants:
//! - at each moment, and after a loss of power at it, a name has the former content or the new one;
//! - what was done when a call has returned is so after a loss of power, too;
//! - nothing is written through a link that somebody has put where a new file is made.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the name of a file has behind it before it is the file.
const NEW: &str = ".new";

/// Puts a file with this content in the place of the one of this name, if there is one. It may be used by those whom `mode` says, as
/// far as the process's mask lets them.
///
/// # Errors
/// It cannot be written. Then the former one is there, or the new one where only its directory could not be synchronized.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = beside(path, NEW);
    write(&new, content, mode)?;
    fs::rename(&new, path)?;
    sync_parent(path)
}

/// Makes a file that must not be there yet.
///
/// # Errors
/// It cannot be written; [`io::ErrorKind::AlreadyExists`] if it is there. Then nothing of it is.
pub fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // A name of its own: two processes that make the same file do not write into the same one before.
    let new = beside(path, &format!("{NEW}-{}", std::process::id()));
    // Unlike a rename it does not replace what is there.
    let made = write(&new, content, mode).and_then(|()| fs::hard_link(&new, path));
    // Whatever came of it, it is not wanted any more.
    let removed = fs::remove_file(&new);
    made.and(removed)?;
    sync_parent(path)
}

/// Gives a file another name, in the place of the one that has it.
///
/// # Errors
/// It cannot be moved, above all if it is not there.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_parent(to)?;
    if from.parent() == to.parent() {
        return Ok(());
    }
    sync_parent(from)
}

/// Removes a file for good, if there is one.
///
/// # Errors
/// It is there, and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_parent(path),
    }
}

/// What has become of a file's name is so after a loss of power, too.
///
/// # Errors
/// Its directory cannot be opened, or not be synchronized.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a file that is on the medium then, in the place of what an earlier try has left.
fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// The same name with something behind it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or(OsStr::new(""));
    let mut name = name.to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// The names in a folder, and what is in them.
    fn all(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut found: Vec<_> = entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        // Left by a try that was cut short, open for everybody and longer.
        fs::write(folder.path().join("a.pem.new"), "half of something").unwrap();
        replace(&path, b"one", 0o600).unwrap();
        assert_eq!(all(folder.path()), [file("a.pem", "one")]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        replace(&path, b"two", 0o640).unwrap();
        assert_eq!(all(folder.path()), [file("a.pem", "two")]);
        assert_eq!(mode(&path) & !0o640, 0);
        // What cannot be made leaves what was there.
        fs::create_dir(folder.path().join("a.pem.new")).unwrap();
        replace(&path, b"three", 0o600).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("other"));
        fs::write(&other, "other").unwrap();
        symlink(&other, folder.path().join("a.new")).unwrap();
        replace(&path, b"one", 0o600).unwrap();
        assert_eq!(
            all(folder.path()),
            [file("a", "one"), file("other", "other")]
        );
    }

    #[test]
    fn what_is_there_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        create(&path, b"one", 0o600).unwrap();
        let error = create(&path, b"two", 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(all(folder.path()), [file("a.key", "one")]);
        create(&folder.path().join("none").join("a"), b"", 0o600).unwrap_err();
    }

    #[test]
    fn files_are_moved_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        rename(&path("a"), &path("b")).unwrap();
        assert_eq!(all(folder.path()), [file("b", "a")]);
        let error = rename(&path("a"), &path("b")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        remove(&path("b")).unwrap();
        remove(&path("b")).unwrap();
        assert_eq!(all(folder.path()), []);
        // A name without a folder is one of this folder.
        sync_parent(Path::new("Cargo.toml")).unwrap();
    }
}
