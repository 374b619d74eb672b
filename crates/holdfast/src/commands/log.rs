//! `holdfast node log`: at which level a node writes into its log, and another one for a time. It reads no log.

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    AreaLevel, LOG_CHANGE_SECONDS_MAX, LogArea, LogChange, LogLevel, LogLevels,
};

use super::protection::about;
use crate::failure::Failure;
use crate::output::Output;

/// What is to be in a log.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArguments {
    /// The node's name
    name: String,
    /// The level: error, warn, info, debug or trace
    #[arg(long, value_parser = log_level)]
    level: Option<LogLevel>,
    /// That of one part of the node, of api, controller, disk, etcd, metadata, net and node; may be given several times
    #[arg(long = "area", value_name = "AREA=LEVEL", value_parser = area_level)]
    areas: Vec<AreaLevel>,
    /// For how long, such as 30s, 10m or 2h: a day at most [default: 10m]
    #[arg(long = "for", value_name = "TIME", value_parser = log_seconds)]
    seconds: Option<u32>,
    /// Fall back to what is configured, now
    #[arg(long)]
    reset: bool,
}

fn log_level(text: &str) -> Result<LogLevel, String> {
    let mut levels = LogLevel::ALL.into_iter();
    let level = levels.find(|level| level.as_str() == text);
    level.ok_or_else(|| "a level is error, warn, info, debug or trace".to_owned())
}

fn area_level(text: &str) -> Result<AreaLevel, String> {
    let (area, level) = text
        .split_once('=')
        .ok_or_else(|| "it is AREA=LEVEL, for example net=debug".to_owned())?;
    let mut areas = LogArea::ALL.into_iter();
    let area = areas.find(|known| known.as_str() == area).ok_or_else(|| {
        let names = LogArea::ALL.map(LogArea::as_str).join(", ");
        format!("an area is one of {names}")
    })?;
    let level = log_level(level)?;
    Ok(AreaLevel { area, level })
}

fn log_seconds(text: &str) -> Result<u32, String> {
    let error = || "a time is 1s to 24h, for example 10m".to_owned();
    let number = text.trim_end_matches(['s', 'm', 'h']);
    let unit = match &text[number.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => return Err(error()),
    };
    let seconds = number
        .parse::<u32>()
        .ok()
        .and_then(|it| it.checked_mul(unit));
    let seconds = seconds.filter(|it| (1..=LOG_CHANGE_SECONDS_MAX).contains(it));
    seconds.ok_or_else(error)
}

/// Shows the levels, or changes them.
pub(super) async fn run(
    client: &ApiClient,
    output: &Output,
    arguments: LogArguments,
) -> Result<(), Failure> {
    let LogArguments {
        name,
        level,
        areas,
        seconds,
        reset,
    } = arguments;
    let is_change = level.is_some() || !areas.is_empty() || reset;
    if !is_change && seconds.is_some() {
        return Err(
            Failure::new("--for says for how long, and nothing says what")
                .hint("say --level or --area as well"),
        );
    }
    let levels = if is_change {
        let change = LogChange {
            level,
            areas,
            seconds,
            reset,
        };
        client.change_node_log(&name, &change).await?
    } else {
        client.node_log(&name).await?
    };
    output.result(&levels, || text(&name, &levels))?;
    output.talk(
        "note: its log is node.log in its directory, on its machine; `holdfast support-bundle` fetches the end of it",
    );
    Ok(())
}

fn text(name: &str, levels: &LogLevels) -> String {
    let mut text = format!("node {name} logs at level {}", levels.level.as_str());
    for it in &levels.areas {
        text.push_str(&format!(", {} at {}", it.area.as_str(), it.level.as_str()));
    }
    text.push_str(&match levels.seconds_left {
        Some(left) => format!(
            "; falls back to {} in {}\n",
            levels.configured.as_str(),
            about(left)
        ),
        None => ", as it is configured\n".to_owned(),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_or_refused() {
        assert_eq!(log_seconds("10m"), Ok(600));
        assert_eq!((log_seconds("1s"), log_seconds("24h")), (Ok(1), Ok(86_400)));
        for bad in ["", "10", "0s", "25h", "-1s", "1d", "5ms", "99999999h"] {
            assert!(log_seconds(bad).is_err(), "{bad}");
        }
        let net = AreaLevel {
            area: LogArea::Net,
            level: LogLevel::Trace,
        };
        assert_eq!(area_level("net=trace"), Ok(net));
        for bad in ["net", "net=loud", "nothing=info", "=", "net="] {
            assert!(area_level(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn it_is_told_when_a_change_ends() {
        let mut levels = LogLevels::default();
        assert_eq!(
            text("n1", &levels),
            "node n1 logs at level info, as it is configured\n"
        );
        levels.areas.push(AreaLevel {
            area: LogArea::Net,
            level: LogLevel::Trace,
        });
        levels.seconds_left = Some(600);
        assert_eq!(
            text("n1", &levels),
            "node n1 logs at level info, net at trace; falls back to info in about 10 min\n"
        );
    }
}
