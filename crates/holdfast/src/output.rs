//! What people and programs read: data on stdout, talk on stderr.
//!
//! Invariants:
//! - with `--json` exactly one JSON value goes to stdout, whether the command succeeds or fails (none
//!   for a command line that makes no sense);
//! - nothing depends on colour.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Where a command's results go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

/// What a command says on stdout if it fails.
#[derive(Serialize)]
struct FailureDocument<'a> {
    error: &'a holdfast_api::Problem,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether results are documents, not texts for people.
    pub(crate) const fn is_for_programs(self) -> bool {
        self.json
    }

    /// The command's result: the document for programs, or the text for people.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written.
    pub(crate) fn result(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.json { to_json(document) } else { text() };
        written(to_stdout(&text))
    }

    /// A result that is the same for people and for programs.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written.
    #[allow(clippy::unused_self, reason = "data belongs to a command's output")]
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
        written(to_stdout(text))
    }

    /// The same for a result that may be larger than memory: both are written as they are made.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written.
    pub(crate) fn document(
        self,
        document: &impl Serialize,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut stdout = io::BufWriter::new(io::stdout().lock());
        let done = if self.json {
            serde_json::to_writer(&mut stdout, document)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(stdout))
        } else {
            text(&mut stdout)
        };
        written(done.and_then(|()| stdout.flush()))
    }

    /// The command has failed.
    pub(crate) fn fail(self, failure: &Failure) {
        if failure.is_told() {
            return;
        }
        if self.json && !failure.is_told_on_stdout() {
            // Where it cannot be written, stderr tells still.
            let _ = to_stdout(&to_json(&FailureDocument {
                error: failure.problem(),
            }));
        }
        let text = failure.to_string();
        self.talk(&format!("error: {text}"));
        self.talk_of_chapters(&text);
    }

    /// Says where the chapters are that a text names, if it names one: not everybody has the sources.
    pub(crate) fn talk_of_chapters(self, text: &str) {
        if names_chapters(text) {
            self.talk(CHAPTERS);
        }
    }

    /// Something that people should know meanwhile.
    #[allow(clippy::unused_self, reason = "talk belongs to a command's output")]
    pub(crate) fn talk(self, text: &str) {
        // Without a terminal there is nobody to talk to.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Where chapters are.
const CHAPTERS: &str = "\ndocs/... is below the address of each node's API, as in https://192.0.2.1:7461/docs/deployment.md, and in \
                        /usr/share/doc/holdfast where the package is installed";

/// A path, as a shell takes it for nothing else.
pub(crate) fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', "'\\''"))
}

/// Whether a text names a chapter of the book, as in `docs/deployment.md`.
fn names_chapters(text: &str) -> bool {
    let named = text.split("docs/").skip(1);
    let mut names = named.map(|rest| rest.split_once(".md").map_or("", |(name, _)| name));
    names.any(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents are valid JSON") + "\n"
}

fn to_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn written(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        // A reader that has gone, as `head` does, has what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("write to stdout: {error}")).told_on_stdout())
        }
        _ => Ok(()),
    }
}

/// Columns, as wide as they have to be; the first row is their names.
pub(crate) fn table<const N: usize>(names: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = names.map(|name| name.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: [&str; N]| {
        let mut padded = String::new();
        for (width, cell) in widths.iter().zip(cells) {
            padded.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    };
    line(names);
    for row in rows {
        line(std::array::from_fn(|column| row[column].as_str()));
    }
    text
}

/// A number of bytes as people read it: three digits are enough.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1 << 10 {
        return format!("{count} B");
    }
    let place = (count.ilog2() / 10 - 1) as usize;
    let value = count as f64 / f64::from(1_u32 << 10).powi(place as i32 + 1);
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} {}", UNITS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [
            ["n1".to_owned(), "up".to_owned()],
            ["longer".to_owned(), String::new()],
        ];
        assert_eq!(
            table(["node", "state"], &rows),
            "node    state\nn1      up\nlonger\n"
        );
    }

    #[test]
    fn chapters_are_known_by_their_names() {
        assert!(names_chapters("\"Backup\" in docs/deployment.md."));
        assert!(names_chapters("(docs/reference/findings.md)"));
        assert!(!names_chapters("its docs/ are not there, and a.md is"));
        assert!(!names_chapters("no luck"));
    }

    #[test]
    fn sizes_are_short() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (262_144, "256 KiB"),
            (4 << 30, "4 GiB"),
            ((4 << 30) + (1 << 20), "4 GiB"),
            (5 << 29, "2.5 GiB"),
            (100 << 20, "100 MiB"),
            (64 << 40, "64 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
