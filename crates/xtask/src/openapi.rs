//! The REST interface's document in the repository: whether it is the one that is served.
//!
//! It is kept so that a change of the interface is seen by whoever reads the change, and so that
//! other tools find it without running anything.
//!
//! Invariant: only [`write()`] changes it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::made::Program;

/// Where the document is kept.
pub(crate) const KEPT: &str = "openapi/v1.json";

/// Fails if the document in the repository is not the one that the code makes.
pub(crate) fn check(root: &Path) -> Result<()> {
    let made = generate(root)?;
    let kept = fs::read_to_string(root.join(KEPT)).with_context(|| format!("read {KEPT}"))?;
    match difference(&kept, &made) {
        None => Ok(()),
        Some(difference) => bail!("{KEPT}: {difference}; `cargo xtask fix` writes it anew"),
    }
}

/// Writes the document that the code makes, if it is another.
pub(crate) fn write(root: &Path) -> Result<()> {
    let made = generate(root)?;
    let path = root.join(KEPT);
    if fs::read_to_string(&path).is_ok_and(|kept| kept == made) {
        return Ok(());
    }
    fs::write(&path, made).with_context(|| format!("write {KEPT}"))
}

fn generate(root: &Path) -> Result<String> {
    Program::Example("openapi").print(root, &[])
}

/// Where the two begin to differ, in words.
pub(crate) fn difference(kept: &str, made: &str) -> Option<String> {
    if kept == made {
        return None;
    }
    let mut lines = kept.lines().zip(made.lines()).zip(1..);
    let found = lines.find(|((kept, made), _)| kept != made);
    Some(match found {
        Some(((kept, made), line)) => format!(
            "line {line} is {:?}, the code makes {:?}",
            kept.trim(),
            made.trim()
        ),
        None => format!(
            "it has {} lines, the code makes {}",
            kept.lines().count(),
            made.lines().count()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_with_its_place() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let found = difference("a\n  b\n", "a\n  c\n").expect("they differ");
        assert!(
            found.contains("line 2 is \"b\", the code makes \"c\""),
            "{found}"
        );
        let found = difference("a\n", "a\nb\n").expect("they differ");
        assert!(found.contains("1 lines, the code makes 2"), "{found}");
        assert!(difference("a", "a\n").is_some());
    }
}
