//! `holdfast node log`: what a node writes into its log, and more of it for a time.

use holdfast_api::ApiClient;
use holdfast_api::documents::{LogChange, LogLevels};

use super::protection::about;
use crate::cli::LogArguments;
use crate::failure::Failure;
use crate::output::Output;

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
    output.result(&levels, || text(&name, &levels))
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
    use holdfast_api::documents::{AreaLevel, LogArea, LogLevel};

    use super::*;

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
