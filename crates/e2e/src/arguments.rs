//! What a bench is told on the command line: options, each with a value, or `--help`.
//!
//! Invariants:
//! - cargo's own `--bench` is none of them;
//! - what nobody asks for is refused, with the names of all that was asked for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The options that this process was given, until they are asked for.
#[derive(Debug)]
pub struct Arguments {
    given: Vec<(String, Option<String>)>,
    known: Vec<&'static str>,
}

impl Arguments {
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(std::env::args().skip(1))
    }

    fn of(arguments: impl Iterator<Item = String>) -> Self {
        let mut arguments = arguments.filter(|it| it != "--bench");
        let mut given = Vec::new();
        while let Some(option) = arguments.next() {
            let value = if option == HELP {
                None
            } else {
                arguments.next()
            };
            given.push((option, value));
        }
        Self {
            given,
            known: Vec::new(),
        }
    }

    /// All values of an option, in order.
    pub fn all(&mut self, option: &'static str) -> Vec<String> {
        self.known.push(option);
        let is_it =
            |(name, value): &mut (String, Option<String>)| name == option && value.is_some();
        let those = self.given.extract_if(.., is_it);
        those.filter_map(|(_, value)| value).collect()
    }

    /// The last value of an option, if it was given.
    pub fn text(&mut self, option: &'static str) -> Option<String> {
        self.all(option).pop()
    }

    /// The value of an option that is a number, from 1 to `most`; without it, `default`.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&mut self, option: &'static str, default: u32, most: u32) -> Result<u32> {
        let Some(value) = self.text(option) else {
            return Ok(default);
        };
        let number: u32 = value
            .parse()
            .with_context(|| format!("{option} is a number, not {value}"))?;
        ensure!((1..=most).contains(&number), "{option} is 1 to {most}");
        Ok(number)
    }

    /// `--seconds`, as [`number`](Self::number).
    ///
    /// # Errors
    /// It is none.
    pub fn seconds(&mut self, default: u32, most: u32) -> Result<Duration> {
        let seconds = self.number("--seconds", default, most)?;
        Ok(Duration::from_secs(seconds.into()))
    }

    /// `--json`: where the figures are to be written.
    pub fn json(&mut self) -> Option<PathBuf> {
        self.text("--json").map(PathBuf::from)
    }

    /// Everything has been asked for.
    ///
    /// # Errors
    /// Something else was given, or an option without its value, or help was asked for: each is told which options there are.
    pub fn end(self) -> Result<()> {
        let Some((option, _)) = self.given.first() else {
            return Ok(());
        };
        let known = self.known.join(", ");
        match option.as_str() {
            HELP => bail!(
                "the options, each with a value: {known}; docs/hacking.md says what they mean"
            ),
            option if self.known.contains(&option) => bail!("{option} needs a value"),
            option => bail!("there is no {option}: {known}"),
        }
    }
}

const HELP: &str = "--help";
const ROUNDS: u32 = 3;
const ROUNDS_MAX: u32 = 100;
const SECONDS_MAX: u32 = 120;

/// What a bench is told that measures the same things again and again.
#[derive(Debug)]
pub struct Repeated {
    /// `--rounds`: measurements of each, from 1 to 100; 3 unless told otherwise.
    pub rounds: u32,
    /// `--seconds`: how long each takes, from 1 to 120.
    pub span: Duration,
    /// `--json`: where the figures are to be written.
    pub json: Option<PathBuf>,
}

impl Repeated {
    /// What this process was told; `seconds` unless it was told how long.
    ///
    /// # Errors
    /// It is none of what there is.
    pub fn of_process(seconds: u32) -> Result<Self> {
        let mut arguments = Arguments::of_process();
        let told = Self {
            rounds: arguments.number("--rounds", ROUNDS, ROUNDS_MAX)?,
            span: arguments.seconds(seconds, SECONDS_MAX)?,
            json: arguments.json(),
        };
        arguments.end()?;
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Arguments {
        Arguments::of(text.split(' ').map(str::to_owned))
    }

    #[test]
    fn options_have_values() {
        let mut arguments =
            words("--bench --rounds 2 --with x --seconds 3 --with y --json z --bench");
        assert_eq!(arguments.number("--rounds", 1, 5).unwrap(), 2);
        assert_eq!(arguments.seconds(1, 5).unwrap(), Duration::from_secs(3));
        assert_eq!(arguments.all("--with"), ["x", "y"]);
        assert_eq!(arguments.json(), Some(PathBuf::from("z")));
        arguments.end().unwrap();
        for text in ["--json", "--rounds 2 --json"] {
            let mut arguments = words(text);
            arguments.number("--rounds", 1, 5).unwrap();
            assert_eq!(arguments.json(), None);
            let refused = arguments.end().unwrap_err().to_string();
            assert_eq!(refused, "--json needs a value");
        }
    }

    #[test]
    fn what_was_not_given_is_as_usual() {
        let mut arguments = words("--bench");
        assert_eq!(arguments.number("--rounds", 3, 5).unwrap(), 3);
        assert_eq!(arguments.text("--size"), None);
        assert_eq!(arguments.json(), None);
        arguments.end().unwrap();
    }

    #[test]
    fn what_nobody_asks_for_is_refused() {
        let mut arguments = words("--rounds 2 --more x");
        arguments.number("--rounds", 1, 5).unwrap();
        arguments.json();
        let refused = arguments.end().unwrap_err().to_string();
        assert_eq!(refused, "there is no --more: --rounds, --json");
    }

    #[test]
    fn help_tells_which_options_there_are() {
        for text in ["--help", "--help --rounds 2", "--rounds 2 --help"] {
            let mut arguments = words(text);
            arguments.number("--rounds", 1, 5).unwrap();
            arguments.json();
            let told = arguments.end().unwrap_err().to_string();
            assert!(told.contains("--rounds, --json"), "{told}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        let number = |value: &str| {
            let mut arguments = words(&format!("--rounds {value}"));
            arguments.number("--rounds", 3, 5)
        };
        assert_eq!(number("1").unwrap(), 1);
        assert_eq!(number("5").unwrap(), 5);
        for wrong in ["0", "6", "-1", "x", ""] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
