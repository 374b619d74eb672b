//! Whether the metadata is reached, as the node's log has it.
//!
//! Invariant: while it is not reached, a line is told when that begins and then each minute, however many addresses
//! are tried how often.

use std::error::Error;
use std::time::{Duration, Instant};

use holdfast_metadata::client::{ConnectError, Status};
use holdfast_metadata::etcd::EtcdEndpoint;
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
    away: Lasting<()>,
    /// With whom there is a connection, and whether the store is full: as it was told.
    connected: Option<(String, bool)>,
}

impl Reach {
    pub(crate) fn new(source: &MetadataSource) -> Self {
        let (who, addresses) = match source {
            MetadataSource::Servers { addresses, .. } => ("a server", addresses.join(", ")),
            MetadataSource::Etcd(endpoints) => {
                let addresses = endpoints.iter().map(EtcdEndpoint::address);
                let addresses = addresses.collect::<Vec<_>>().join(", ");
                ("a majority of etcd's members", addresses)
            }
        };
        Self {
            advice: format!(
                "see that {who} runs, and is reached from here; {addresses} are tried in turn, and nothing can be \
                 changed meanwhile"
            ),
            away: Lasting::new(),
            connected: None,
        }
    }

    /// What the log is to have of a status, if anything.
    pub(crate) fn line(&mut self, now: Instant, status: &Status) -> Option<(Level, String)> {
        match status {
            Status::Connecting => None,
            Status::Connected { address, is_full } => self.connected(now, address, *is_full),
            Status::Disconnected { address, reason } => {
                self.connected = None;
                let advice = &self.advice;
                let reason = causes(reason);
                let text = match self.away.goes_on(now, ())? {
                    Tell::News => {
                        format!("metadata: no connection to {address}: {reason}; {advice}")
                    }
                    Tell::Still(time) => format!(
                        "metadata: no connection for {}, {address} was tried last: {reason}; {advice}",
                        span(time)
                    ),
                };
                Some((Level::WARN, text))
            }
        }
    }

    fn connected(&mut self, now: Instant, address: &str, is_full: bool) -> Option<(Level, String)> {
        let away = self.away.over(now);
        let connected = Some((address.to_owned(), is_full));
        if self.connected == connected {
            return None;
        }
        self.connected = connected;
        if is_full {
            return Some((Level::ERROR, format!("metadata: at {address}: {FULL}")));
        }
        let after = away.filter(|time| *time >= MOMENT);
        let after = after.map_or_else(String::new, |time| {
            format!(", after {} without it", span(time))
        });
        let text = format!("metadata: connected to {address}{after}");
        Some((Level::INFO, text))
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
    fn a_metadata_that_is_not_reached_is_told_once_a_minute() {
        let mut reach = reach();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(reach.line(start, &Status::Connecting), None);
        let lines: Vec<_> = (0..300)
            .filter_map(|turn| reach.line(after(turn * 500), &disconnected(turn as usize % 3)))
            .collect();
        let [first, second, third] = &lines[..] else {
            panic!("three lines in two and a half minutes: {lines:#?}");
        };
        assert_eq!(first.0, Level::WARN);
        for part in [
            "no connection to 192.0.2.1:2379: no answer in time",
            "a majority of etcd's members",
            &ADDRESSES.join(", "),
        ] {
            assert!(first.1.contains(part), "{}", first.1);
        }
        assert!(second.1.contains("no connection for 1 min"), "{}", second.1);
        assert!(third.1.contains("no connection for 2 min"), "{}", third.1);
        let end = "metadata: connected to 192.0.2.2:2379, after 2 min without it";
        let end = Some((Level::INFO, end.to_owned()));
        assert_eq!(reach.line(after(150_000), &connected(false)), end);
        assert_eq!(reach.line(after(150_100), &connected(false)), None);
        // The next time is told from its beginning.
        let (_, again) = reach.line(after(151_000), &disconnected(1)).unwrap();
        assert!(again.contains("no connection to 192.0.2.2"), "{again}");
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
