//! `holdfast settings`.

use clap::{Args, Subcommand};
use holdfast_api::documents::{Settings, SettingsChange};

use super::client;
use crate::cli::{Global, Switch, byte_size, seconds};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

#[derive(Debug, Subcommand)]
pub(crate) enum SettingsCommand {
    /// Show the settings
    Show,
    /// Change settings; they are in effect at once
    Set(SettingsArguments),
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct SettingsArguments {
    /// After how long without a word from a node its replicas are rebuilt elsewhere, for example 90s,
    /// 60m or 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) repair_delay: Option<u64>,
    /// Whether slices move by themselves to even out what nodes hold and lead
    #[arg(long)]
    pub(crate) rebalance: Option<Switch>,
    /// By how many percent, from 1 to 100, hosts' commands may become slower by what nodes do in the
    /// background, for example bringing replicas up to date
    #[arg(long, value_name = "PERCENT")]
    pub(crate) background_slowdown: Option<u32>,
    /// How much a node may do in the background each second however slow hosts' commands are, for example
    /// 16MiB: it is allowed that, and reaches less where disks or the network do, or where single blocks
    /// are copied, for a piece of a page of 256 KiB counts for more than its bytes
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub(crate) background_floor: Option<u64>,
    /// After how long a volume is scrubbed again by itself, for example 7d; never with 0s
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) scrub_interval: Option<u64>,
    /// How much a node scrubs each second at most, for example 64MiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub(crate) scrub_rate: Option<u64>,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: &SettingsCommand,
) -> Result<(), Failure> {
    let client = client(global);
    let settings = match command {
        SettingsCommand::Show => client.settings().await?,
        SettingsCommand::Set(set) => {
            let change = SettingsChange {
                repair_delay_seconds: set.repair_delay,
                rebalance: set.rebalance.map(|switch| switch == Switch::On),
                background_slowdown_percent: set.background_slowdown,
                background_floor: set.background_floor,
                scrub_interval_seconds: set.scrub_interval,
                scrub_rate: set.scrub_rate,
            };
            client.change_settings(change).await?
        }
    };
    output.result(&settings, || text(&settings))?;
    Ok(())
}

fn text(settings: &Settings) -> String {
    let Settings {
        repair_delay_seconds,
        rebalance,
        background_slowdown_percent,
        background_floor,
        scrub_interval_seconds,
        scrub_rate,
        etag: _,
    } = settings;
    let interval = match scrub_interval_seconds {
        0 => "never".to_owned(),
        seconds => time(*seconds),
    };
    let rows = [
        [
            "repair-delay",
            &time(*repair_delay_seconds),
            "until the replicas of a silent node are rebuilt elsewhere",
        ],
        [
            "rebalance",
            if *rebalance { "on" } else { "off" },
            "whether slices move to even out what nodes hold",
        ],
        [
            "background-slowdown",
            &format!("{background_slowdown_percent}%"),
            "how much slower hosts' commands may become by background work",
        ],
        [
            "background-floor",
            &format!("{}/s", bytes(*background_floor)),
            "what a node may do in the background however busy hosts are",
        ],
        [
            "scrub-interval",
            &interval,
            "after which a volume is scrubbed again by itself",
        ],
        [
            "scrub-rate",
            &format!("{}/s", bytes(*scrub_rate)),
            "what a node scrubs at most",
        ],
    ];
    table(
        ["SETTING", "VALUE", "MEANING"],
        &rows.map(|row| row.map(str::to_owned)),
    )
}

/// A time as it may be given: exact, in the largest unit that makes it whole.
fn time(seconds: u64) -> String {
    let units = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m")];
    let whole = |(unit, _): &(u64, &str)| seconds > 0 && seconds.is_multiple_of(*unit);
    match units.into_iter().find(whole) {
        Some((unit, letter)) => format!("{}{letter}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_with_their_units() {
        let shown = text(&Settings {
            repair_delay_seconds: 1800,
            rebalance: false,
            background_slowdown_percent: 25,
            background_floor: 64 << 20,
            scrub_interval_seconds: 0,
            scrub_rate: 8 << 20,
            etag: None,
        });
        for line in [
            "repair-delay         30m       until",
            "rebalance            off       whether",
            "background-slowdown  25%       how",
            "background-floor     64 MiB/s  what",
            "scrub-interval       never     after",
            "scrub-rate           8 MiB/s   what",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn times_are_exact_and_read_as_they_are_shown() {
        for (seconds, shown) in [
            (0, "0s"),
            (90, "90s"),
            (3600, "1h"),
            (5400, "90m"),
            (604_800, "7d"),
        ] {
            assert_eq!(time(seconds), shown);
        }
    }
}
