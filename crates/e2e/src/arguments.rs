//! What a bench is told on the command line: options, each with a value.
//!
//! Invariants:
//! - cargo's own `--bench` is none of them.

use anyhow::{Context, Result, ensure};

/// The options that this process was given, in order, each with its value.
///
/// # Errors
/// One has none.
pub fn options() -> Result<Vec<(String, String)>> {
    pairs(std::env::args().skip(1))
}

fn pairs(arguments: impl Iterator<Item = String>) -> Result<Vec<(String, String)>> {
    let mut arguments = arguments.filter(|it| it != "--bench");
    let mut pairs = Vec::new();
    while let Some(option) = arguments.next() {
        let value = arguments.next();
        let value = value.with_context(|| format!("{option} needs a value"))?;
        pairs.push((option, value));
    }
    Ok(pairs)
}

/// The value of an option that is a number, from 1 to `most`.
///
/// # Errors
/// It is none.
pub fn number(option: &str, value: &str, most: u32) -> Result<u32> {
    let number: u32 = value
        .parse()
        .with_context(|| format!("{option} is a number, not {value}"))?;
    ensure!((1..=most).contains(&number), "{option} is 1 to {most}");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_values() {
        let words = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            pairs(words.into_iter())
        };
        let pair = |option: &str, value: &str| (option.to_owned(), value.to_owned());
        assert_eq!(
            words("--bench --rounds 2 --with x --with y --bench").unwrap(),
            [
                pair("--rounds", "2"),
                pair("--with", "x"),
                pair("--with", "y")
            ]
        );
        assert!(words("--rounds").is_err());
        assert!(words("--rounds 2 --json").is_err());
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(number("--rounds", "1", 5).unwrap(), 1);
        assert_eq!(number("--rounds", "5", 5).unwrap(), 5);
        for wrong in ["0", "6", "-1", "x", ""] {
            assert!(number("--rounds", wrong, 5).is_err(), "{wrong}");
        }
    }
}
