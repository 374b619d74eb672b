//! Which lines are written: levels of parts of the node, which change while it runs and fall back by themselves.
//!
//! Invariants:
//! - a level that is not wanted costs a line that would be of it one load of memory, whatever is changed and how often;
//! - other levels than those that are configured end: after the time that was said, and after a day at most.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    AreaLevel, LOG_CHANGE_SECONDS, LOG_CHANGE_SECONDS_MAX, LogArea, LogChange, LogLevel, LogLevels,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Where the lines of a part come from.
const fn target(area: LogArea) -> &'static str {
    match area {
        LogArea::Api => "holdfast_api",
        LogArea::Controller => "holdfast_controller",
        LogArea::Disk => "holdfast_disk",
        LogArea::Etcd => "holdfast_node::etcd",
        LogArea::Metadata => "holdfast_metadata",
        LogArea::Net => "holdfast_net",
        LogArea::Node => "holdfast_node",
    }
}

/// What all of ours begin with.
const OURS: &str = "holdfast";

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chosen {
    level: LogLevel,
    areas: BTreeMap<LogArea, LogLevel>,
}

impl Chosen {
    fn targets(&self) -> Targets {
        // Of what is not ours nobody wants more than is told without being asked.
        let foreign = self.level.min(LogLevel::Info);
        let parts = self.areas.iter();
        let parts = parts.map(|(area, level)| (target(*area), filter(*level)));
        // A part of a part follows it, unless it has a level of its own.
        Targets::new()
            .with_default(filter(foreign))
            .with_target(OURS, filter(self.level))
            .with_targets(parts)
    }
}

/// Puts a filter in the place of the one before.
type Install = Box<dyn Fn(Targets) + Send + Sync>;

/// The levels of a process.
pub(super) struct Levels {
    configured: Chosen,
    changed: Mutex<Option<(Chosen, Instant)>>,
    install: Install,
}

impl fmt::Debug for Levels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Levels")
            .field("configured", &self.configured)
            .field("changed", &self.changed)
            .finish_non_exhaustive()
    }
}

/// The filter of a level that is configured.
pub(super) fn configured(level: LogLevel) -> Targets {
    let areas = BTreeMap::new();
    Chosen { level, areas }.targets()
}

impl Levels {
    pub(super) fn new(level: LogLevel, install: Install) -> Self {
        let areas = BTreeMap::new();
        Self {
            configured: Chosen { level, areas },
            changed: Mutex::new(None),
            install,
        }
    }

    /// How they are.
    pub(super) fn told(&self, now: Instant) -> LogLevels {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let (chosen, until) = match &*changed {
            Some((chosen, until)) => (chosen, Some(*until)),
            None => (&self.configured, None),
        };
        let areas = chosen.areas.iter();
        LogLevels {
            level: chosen.level,
            areas: areas
                .map(|(&area, &level)| AreaLevel { area, level })
                .collect(),
            configured: self.configured.level,
            seconds_left: until.map(|until| {
                let left = until.saturating_duration_since(now);
                left.as_secs() + u64::from(left.subsec_nanos() > 0)
            }),
        }
    }

    /// Changes them, and tells until when that holds.
    pub(super) fn change(&self, change: &LogChange, now: Instant) -> Option<Instant> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = changed.take().filter(|_| !change.reset);
        let (mut chosen, _) = before.unwrap_or_else(|| (self.configured.clone(), now));
        if let Some(level) = change.level {
            chosen.level = level;
        }
        let areas = change.areas.iter().map(|it| (it.area, it.level));
        chosen.areas.extend(areas);
        (self.install)(chosen.targets());
        if chosen == self.configured {
            return None;
        }
        let seconds = change.seconds.unwrap_or(LOG_CHANGE_SECONDS);
        let seconds = seconds.min(LOG_CHANGE_SECONDS_MAX);
        let until = now + Duration::from_secs(u64::from(seconds));
        *changed = Some((chosen, until));
        Some(until)
    }

    /// Falls back to what is configured, if it is time; else tells when that is.
    pub(super) fn fall_back(&self, now: Instant) -> Option<Instant> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let until = changed.as_ref().map(|(_, until)| *until)?;
        if now < until {
            return Some(until);
        }
        *changed = None;
        (self.install)(self.configured.targets());
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::Level;

    use super::*;

    fn levels() -> (Levels, Arc<Mutex<Targets>>) {
        let now = Arc::new(Mutex::new(configured(LogLevel::Info)));
        let installed = Arc::clone(&now);
        let install = Box::new(move |targets| *installed.lock().unwrap() = targets);
        (Levels::new(LogLevel::Info, install), now)
    }

    fn of_area(area: LogArea, level: LogLevel) -> LogChange {
        LogChange {
            areas: vec![AreaLevel { area, level }],
            seconds: Some(60),
            ..LogChange::default()
        }
    }

    #[test]
    fn a_part_is_told_more_of_and_falls_back() {
        let (levels, now) = levels();
        let writes = |target: &str, level| now.lock().unwrap().would_enable(target, &level);
        let begun = Instant::now();
        let until = levels.change(&of_area(LogArea::Net, LogLevel::Trace), begun);
        assert_eq!(until, Some(begun + Duration::from_secs(60)));
        assert!(writes("holdfast_net::peers", Level::TRACE));
        assert!(!writes("holdfast_node::reactor", Level::DEBUG));
        // A second change leaves the first one as it is, and the time begins anew.
        let later = begun + Duration::from_secs(30);
        let everything = LogChange {
            level: Some(LogLevel::Debug),
            ..of_area(LogArea::Etcd, LogLevel::Error)
        };
        levels.change(&everything, later);
        assert!(writes("holdfast_net::peers", Level::TRACE));
        assert!(writes("holdfast_node::reactor", Level::DEBUG));
        assert!(!writes("holdfast_node::etcd::supervisor", Level::WARN));
        assert!(!writes("hyper::proto", Level::DEBUG), "what is not ours");
        assert_eq!(levels.told(later).seconds_left, Some(60));
        let due = later + Duration::from_secs(60);
        let before = due.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(levels.fall_back(before), Some(due));
        assert!(writes("holdfast_net::peers", Level::TRACE));
        assert_eq!(levels.fall_back(due), None);
        assert!(!writes("holdfast_net::peers", Level::DEBUG));
        assert!(writes("holdfast_net::peers", Level::INFO));
        let told = levels.told(due);
        assert_eq!((told.level, told.seconds_left), (LogLevel::Info, None));
    }

    #[test]
    fn a_reset_is_at_once_and_nothing_holds_for_ever() {
        let (levels, now) = levels();
        let begun = Instant::now();
        let for_ever = LogChange {
            seconds: Some(u32::MAX),
            ..of_area(LogArea::Api, LogLevel::Debug)
        };
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(levels.change(&for_ever, begun), Some(begun + day));
        let reset = LogChange {
            reset: true,
            ..LogChange::default()
        };
        assert_eq!(levels.change(&reset, begun), None);
        assert_eq!(levels.told(begun).seconds_left, None);
        let now = now.lock().unwrap();
        assert!(!now.would_enable("holdfast_api::server", &Level::DEBUG));
    }
}
