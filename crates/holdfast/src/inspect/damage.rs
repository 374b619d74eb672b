//! What is wrong, and where.
//!
//! Invariant: however much is wrong, what is kept of it is bounded, and it is said how much more
//! there is.

use std::path::Path;

use serde::Serialize;

/// Places that are listed; more are counted.
const LISTED_MAX: usize = 1000;

/// How far back a neighbour is looked for: two copies of a table are read side by side.
const RECENT: usize = 4;

/// What follows from a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// There is another copy on the device: the next start of the node mends it.
    Spare,
    /// What was here is lost on this node; other replicas have to give it.
    Lost,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Damage {
    /// The device.
    pub(crate) path: String,
    /// Where it begins on the device, if it has a place.
    pub(crate) offset: Option<u64>,
    /// How far it goes.
    pub(crate) bytes: u64,
    pub(crate) severity: Severity,
    pub(crate) what: String,
}

/// Everything that is wrong with a store.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    pub(crate) listed: Vec<Damage>,
    /// How many places are not listed.
    pub(crate) unlisted: u64,
}

impl Damages {
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Something is wrong with `bytes` bytes from `offset` of the device at `path`. What touches
    /// one of the last of the same kind becomes one with it.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        (offset, bytes): (u64, u64),
        severity: Severity,
        what: &str,
    ) {
        let path = path.display().to_string();
        let touches = |last: &&mut Damage| {
            last.offset
                .is_some_and(|begin| begin + last.bytes == offset)
                && (last.severity, last.what.as_str(), &last.path) == (severity, what, &path)
        };
        let mut recent = self.listed.iter_mut().rev().take(RECENT);
        if let Some(last) = recent.find(touches) {
            last.bytes += bytes;
            return;
        }
        self.push(Damage {
            path,
            offset: Some(offset),
            bytes,
            severity,
            what: what.to_owned(),
        });
    }

    /// Something is wrong that has no place on a device.
    pub(crate) fn add_somewhere(&mut self, path: &Path, severity: Severity, what: String) {
        self.push(Damage {
            path: path.display().to_string(),
            offset: None,
            bytes: 0,
            severity,
            what,
        });
    }

    fn push(&mut self, damage: Damage) {
        if self.listed.len() < LISTED_MAX {
            self.listed.push(damage);
        } else {
            self.unlisted += 1;
        }
    }
}

/// One of something, or several in a row, by its name for one.
pub(crate) fn span(name: &str, first: u64, last: u64) -> String {
    if first == last {
        format!("{name} {first}")
    } else {
        format!("{name}s {first} to {last}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_and_the_list_is_bounded() {
        let mut damages = Damages::default();
        let path = Path::new("d");
        damages.add(path, (4096, 512), Severity::Spare, "bad");
        damages.add(path, (4608, 512), Severity::Spare, "bad");
        damages.add(path, (5120, 512), Severity::Lost, "bad");
        damages.add(path, (5632, 512), Severity::Lost, "worse");
        damages.add(Path::new("e"), (6144, 512), Severity::Lost, "worse");
        assert_eq!(damages.listed.len(), 4);
        assert_eq!(damages.listed[0].bytes, 1024);
        for number in 0..2000 {
            damages.add(path, (number << 20, 512), Severity::Lost, "bad");
        }
        assert_eq!(damages.listed.len(), LISTED_MAX);
        assert_eq!(damages.unlisted, 2004 - LISTED_MAX as u64);
    }
}
