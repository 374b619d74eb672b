//! Whether the metadata is reached, as the node's log has it.
//!
//! Invariants:
//! - while it is not reached, a line is told when that begins and then each minute, however many addresses are tried how
//!   often, and however often it comes and goes;
//! - that nothing can be changed is said where each address was tried in vain since there was a connection.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};

use holdfast_metadata::client::{ConnectError, Status};
use tracing::Level;

use crate::config::MetadataSource;
use crate::lasting::{Lasting, Tell, span};

/// What is said of a metadata that is full.
const FULL: &str = "etcd is full, and takes no change, until an operator makes room: compact its history, \
                    `etcdctl defrag`, `etcdctl alarm disarm` (docs/deployment.md)";

/// What is not worth a time: the next address answers.
const MOMENT: Duration = Duration::from_secs(1);

/// What was told, and of what.
#[derive(Debug)]
pub(crate) struct Reach {
    /// What an operator may look at while it is not reached.
    advice: String,
    /// All addresses, however often each is configured.
    addresses: BTreeSet<String>,
    /// Those that were tried in vain since there was a connection.
    vain: BTreeSet<String>,
    away: Lasting<Away>,
    full: Lasting<()>,
    /// Whether there ever was a connection.
    was_connected: bool,
}

/// How far it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// One address, and the others are tried next.
    One,
    /// All of them.
    All,
}

impl Reach {
    pub(crate) fn new(source: &MetadataSource) -> Self {
        let (who, configured): (_, Vec<String>) = match source {
            MetadataSource::Servers { addresses, .. } => ("a server", addresses.clone()),
            MetadataSource::Etcd(endpoints) => {
                let addresses = endpoints.iter().map(|it| it.address().to_owned());
                ("a majority of etcd's members", addresses.collect())
            }
        };
        Self {
            advice: format!(
                "see that {who} runs, and is reached from here; {}, and nothing can be changed meanwhile",
                tried(&configured)
            ),
            addresses: configured.into_iter().collect(),
            vain: BTreeSet::new(),
            away: Lasting::new(),
            full: Lasting::new(),
            was_connected: false,
        }
    }

    /// What the log is to have of a status, if anything.
    pub(crate) fn line(&mut self, now: Instant, status: &Status) -> Option<(Level, String)> {
        match status {
            Status::Connecting => None,
            Status::Connected { address, is_full } => self.connected(now, address, *is_full),
            Status::Disconnected { address, reason } => {
                let text = self.disconnected(now, address, reason)?;
                Some((Level::WARN, text))
            }
        }
    }

    fn disconnected(
        &mut self,
        now: Instant,
        address: &str,
        reason: &ConnectError,
    ) -> Option<String> {
        self.vain.insert(address.to_owned());
        let away = if self.vain.is_superset(&self.addresses) {
            Away::All
        } else {
            Away::One
        };
        let (told, reason) = (self.away.goes_on(now, away)?, causes(reason));
        let what = match told {
            Tell::News => format!("metadata: no connection to {address}: {reason}"),
            Tell::Still(time) => format!(
                "metadata: no connection for {}, {address} was tried last: {reason}",
                span(time)
            ),
        };
        let then = match away {
            Away::One => "another address is tried",
            Away::All => &self.advice,
        };
        Some(format!("{what}; {then}"))
    }

    fn connected(&mut self, now: Instant, address: &str, is_full: bool) -> Option<(Level, String)> {
        self.vain.clear();
        let away = self.away.over(now);
        if is_full {
            self.was_connected = true;
            if self.full.goes_on(now, ()).is_none() && away.is_none() {
                return None;
            }
            return Some((Level::ERROR, format!("metadata: at {address}: {FULL}")));
        }
        let was_full = self.full.over(now).is_some();
        let is_first = !std::mem::replace(&mut self.was_connected, true);
        if away.is_none() && !was_full && !is_first {
            return None;
        }
        let after = away.filter(|time| *time >= MOMENT);
        let after = after.map_or_else(String::new, |time| {
            format!(", after {} without it", span(time))
        });
        let text = format!("metadata: connected to {address}{after}");
        Some((Level::INFO, text))
    }
}

/// Which addresses are tried, of one or more.
fn tried(addresses: &[String]) -> String {
    match addresses {
        [one] => format!("{one} is tried again and again"),
        all => format!("{} are tried in turn", all.join(", ")),
    }
}

fn causes(reason: &ConnectError) -> String {
    let mut text = reason.to_string();
    let mut cause = reason.source();
    while let Some(below) = cause {
        text.push_str(&format!(": {below}"));
        cause = below.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const ADDRESSES: [&str; 3] = ["192.0.2.1:2379", "192.0.2.2:2379", "192.0.2.3:2379"];

    fn reach() -> Reach {
        let endpoints = ADDRESSES.map(|address| address.parse().unwrap());
        Reach::new(&MetadataSource::Etcd(endpoints.into()))
    }

    fn disconnected(place: usize) -> Status {
        Status::Disconnected {
            address: ADDRESSES[place].to_owned(),
            reason: Arc::new(ConnectError::TooSlow),
        }
    }

    fn connected(is_full: bool) -> Status {
        Status::Connected {
            address: ADDRESSES[1].to_owned(),
            is_full,
        }
    }

    #[test]
    fn one_address_is_not_tried_in_turn() {
        let addresses = ADDRESSES.map(str::to_owned);
        let told = tried(&addresses[..1]);
        assert_eq!(told, "192.0.2.1:2379 is tried again and again");
        let told = tried(&addresses[..2]);
        assert_eq!(told, "192.0.2.1:2379, 192.0.2.2:2379 are tried in turn");
    }

    #[test]
    fn a_metadata_that_is_not_reached_is_told_once_a_minute() {
        let mut reach = reach();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(reach.line(start, &Status::Connecting), None);
        let lines: Vec<_> = (0..300)
            .filter_map(|turn| reach.line(after(turn * 500), &disconnected(turn as usize % 3)))
            .collect();
        let [first, all, third, fourth] = &lines[..] else {
            panic!("one of the first address, three of all in two and a half minutes: {lines:#?}");
        };
        assert_eq!(first.0, Level::WARN);
        let says = "no connection to 192.0.2.1:2379: no answer in time; another address is tried";
        assert!(first.1.contains(says), "{}", first.1);
        for part in [
            "no answer in time",
            "a majority of etcd's members",
            "nothing can be changed",
            &ADDRESSES.join(", "),
        ] {
            assert!(all.1.contains(part), "{}", all.1);
        }
        assert!(third.1.contains("no connection for 1 min"), "{}", third.1);
        assert!(fourth.1.contains("no connection for 2 min"), "{}", fourth.1);
        let end = "metadata: connected to 192.0.2.2:2379, after 2 min without it";
        let end = Some((Level::INFO, end.to_owned()));
        assert_eq!(reach.line(after(150_000), &connected(false)), end);
        assert_eq!(reach.line(after(150_100), &connected(false)), None);
        // The next time is told from its beginning.
        let (_, again) = reach.line(after(191_000), &disconnected(1)).unwrap();
        assert!(again.contains("no connection to 192.0.2.2"), "{again}");
    }

    #[test]
    fn an_address_that_is_given_twice_is_one() {
        let twice = [ADDRESSES[0], ADDRESSES[1], ADDRESSES[0]];
        let endpoints = twice.map(|address| address.parse().unwrap());
        let mut reach = Reach::new(&MetadataSource::Etcd(endpoints.into()));
        let start = Instant::now();
        let (_, first) = reach.line(start, &disconnected(0)).unwrap();
        assert!(first.contains("another address is tried"), "{first}");
        let later = start + Duration::from_secs(5);
        let (_, all) = reach.line(later, &disconnected(1)).unwrap();
        assert!(all.contains("nothing can be changed"), "{all}");
    }

    /// The metadata is reached all the same.
    #[test]
    fn a_member_that_dies_takes_nothing_away() {
        let mut reach = reach();
        let start = Instant::now();
        reach.line(start, &connected(false)).unwrap();
        let (_, lost) = reach.line(start, &disconnected(1)).unwrap();
        assert!(lost.contains("another address is tried"), "{lost}");
        assert!(!lost.contains("nothing can be changed"), "{lost}");
        let back = reach.line(start + Duration::from_millis(20), &connected(false));
        assert_eq!(back.map(|it| it.0), Some(Level::INFO));
    }

    #[test]
    fn a_connection_that_comes_and_goes_has_two_lines_a_minute() {
        let mut reach = reach();
        let start = Instant::now();
        reach.line(start, &connected(false)).unwrap();
        let turns = (0..300).flat_map(|turn| {
            let now = start + Duration::from_secs(turn);
            let lost = reach.line(now, &disconnected(1));
            let back = reach.line(now + MOMENT / 2, &connected(false));
            [lost, back]
        });
        assert_eq!(turns.flatten().count(), 10, "in five minutes");
    }

    #[test]
    fn a_full_metadata_is_told_when_it_is_full_and_when_it_is_not_any_more() {
        let mut reach = reach();
        let now = Instant::now();
        let told = [false, true, true, false]
            .map(|is_full| reach.line(now, &connected(is_full)).map(|it| it.0));
        let expected = [
            Some(Level::INFO),
            Some(Level::ERROR),
            None,
            Some(Level::INFO),
        ];
        assert_eq!(told, expected);
    }
}
