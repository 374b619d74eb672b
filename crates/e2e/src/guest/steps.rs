//! What a scenario does, one step after another: each tells on its own what came of it, and one that fails
//! does not keep the next from being tried.
//!
//! Invariants:
//! - a step that failed fails the scenario at its end, whatever came after.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// The steps that were taken so far.
#[derive(Debug, Default)]
pub struct Steps {
    failed: Vec<String>,
    taken: usize,
}

impl Steps {
    /// Takes a step: what it saw, in a few words, or why it failed, is told at once. `None` if it failed.
    pub fn take<T>(&mut self, name: &str, step: impl FnOnce() -> Result<(T, String)>) -> Option<T> {
        self.taken += 1;
        let begun = Instant::now();
        let result = step();
        let took = begun.elapsed();
        match result {
            Ok((value, saw)) => {
                say("ok", name, took, &saw);
                Some(value)
            }
            Err(error) => {
                say("FAILED", name, took, &format!("{error:?}"));
                self.failed.push(name.to_owned());
                None
            }
        }
    }

    /// The end of the scenario.
    ///
    /// # Errors
    /// A step failed, or there was none.
    pub fn finish(self) -> Result<()> {
        ensure!(self.taken > 0, "no step was taken");
        ensure!(
            self.failed.is_empty(),
            "{} of {} steps failed: {}",
            self.failed.len(),
            self.taken,
            self.failed.join("; ")
        );
        Ok(())
    }
}

fn say(what: &str, name: &str, took: Duration, saw: &str) {
    // What takes several lines stands out from what comes next.
    let saw = saw.trim().replace('\n', "\n        ");
    // Whoever has stopped to listen does not stop the run.
    let _ = writeln!(
        io::stdout(),
        "{what:6} {:6.1} s  {name}: {saw}",
        took.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_step_that_failed_is_not_forgotten() {
        let mut steps = Steps::default();
        assert_eq!(steps.take("first", || Ok((1, String::new()))), Some(1));
        assert_eq!(
            steps.take::<()>("one that fails on purpose", || bail!("as it should")),
            None
        );
        assert_eq!(steps.take("third", || Ok((3, String::new()))), Some(3));
        let told = steps.finish().unwrap_err().to_string();
        assert_eq!(told, "1 of 3 steps failed: one that fails on purpose");
        assert!(Steps::default().finish().is_err());
    }
}
