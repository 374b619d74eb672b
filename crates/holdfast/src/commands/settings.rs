//! `holdfast settings`.

use holdfast_api::documents::{Settings, SettingsChange};

use super::client;
use crate::cli::{Global, SettingsCommand, Switch};
use crate::failure::Failure;
use crate::output::Output;

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
    } = settings;
    let rebalance = if *rebalance { "on" } else { "off" };
    format!(
        "repair-delay  {repair_delay_seconds}s  until the replicas of a silent node are rebuilt \
         elsewhere\nrebalance     {rebalance}  whether slices move to even out what nodes hold\n"
    )
}
