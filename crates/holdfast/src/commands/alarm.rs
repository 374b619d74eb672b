//! `holdfast alarm`.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::documents::{
    Alarm, AlarmAcknowledge, AlarmChoice, AlarmKind, AlarmKindChange, AlarmUnit,
};
use holdfast_control::says_well;

use super::client;
use super::stalls::utc;
use crate::cli::{Global, age};
use crate::failure::Failure;
use crate::output::{Output, table};

#[derive(Debug, Subcommand)]
pub(crate) enum AlarmCommand {
    /// List the alarms that are raised, critical ones first
    List {
        /// Those that are over, too
        #[arg(long)]
        all: bool,
    },
    /// Show an alarm: what it means, and what to do
    Show {
        /// Its number in the list
        id: u64,
    },
    /// Take note of an alarm: others see that somebody knows
    Acknowledge {
        /// Its number in the list
        id: u64,
        /// What there is to say, for example a ticket's number
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// List the kinds of alarms, and when they are raised
    Kinds,
    /// Change when alarms of a kind are raised, or put them off
    Set(SetArguments),
}

#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The kind, as the list of kinds calls it
    kind: String,
    /// The value that raises one, in the kind's unit
    #[arg(long, value_name = "VALUE")]
    set: Option<u64>,
    /// The value that is to be passed before it is over
    #[arg(long, value_name = "VALUE")]
    clear: Option<u64>,
    /// For how long either has to be so, for example 30s or 10m; a day at most
    #[arg(long, value_name = "SPAN", value_parser = age)]
    hold: Option<Duration>,
    /// Raise none from now on
    #[arg(long, conflicts_with = "on")]
    off: bool,
    /// Raise them again
    #[arg(long)]
    on: bool,
    /// As if nobody had changed anything
    #[arg(long, conflicts_with_all = ["set", "clear", "hold", "off", "on"])]
    default: bool,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: AlarmCommand,
) -> Result<(), Failure> {
    let client = client(global);
    match command {
        AlarmCommand::List { all } => {
            let which = if all {
                AlarmChoice::All
            } else {
                AlarmChoice::Raised
            };
            let list = client.alarms(which).await?;
            output.result(&list, || listed(&list.alarms))?;
            if !list.alarms.is_empty() {
                output
                    .talk("note: `holdfast alarm show ALARM` tells what one means, and what to do");
            }
            Ok(())
        }
        AlarmCommand::Show { id } => {
            let list = client.alarms(AlarmChoice::All).await?;
            let found = list.alarms.into_iter().find(|it| it.id == id);
            let alarm = found.ok_or_else(|| {
                Failure::new(format!("there is no alarm {id}, or none that is kept"))
                    .hint("`holdfast alarm list --all` tells which there are")
            })?;
            output.result(&alarm, || shown(&alarm))?;
            output.talk_of_chapters(&alarm.action);
            Ok(())
        }
        AlarmCommand::Acknowledge { id, note } => {
            let alarm = client
                .acknowledge_alarm(id, &AlarmAcknowledge { note })
                .await?;
            output.result(&alarm, || shown(&alarm))
        }
        AlarmCommand::Kinds => {
            let list = client.alarm_kinds().await?;
            output.result(&list, || kinds(&list.kinds))
        }
        AlarmCommand::Set(arguments) => {
            let kind = if arguments.default {
                client.reset_alarm_kind(&arguments.kind).await?
            } else {
                let change = change(&arguments)?;
                client.change_alarm_kind(&arguments.kind, &change).await?
            };
            output.result(&kind, || kinds(std::slice::from_ref(&kind)))
        }
    }
}

fn change(arguments: &SetArguments) -> Result<AlarmKindChange, Failure> {
    let change = AlarmKindChange {
        off: (arguments.off || arguments.on).then_some(arguments.off),
        set: arguments.set,
        clear: arguments.clear,
        hold_seconds: arguments.hold.map(|it| it.as_secs()),
    };
    if change == AlarmKindChange::default() {
        return Err(Failure::new("nothing is to be changed").hint(
            "say what: --set, --clear, --hold, --off, --on or --default; `holdfast alarm kinds` shows what is so",
        ));
    }
    Ok(change)
}

fn listed(alarms: &[Alarm]) -> String {
    if alarms.is_empty() {
        return "no alarm is raised\n".to_owned();
    }
    let rows: Vec<_> = alarms
        .iter()
        .map(|alarm| {
            let mut state = match (alarm.cleared_ms, &alarm.acknowledged) {
                (Some(at), _) => format!("over {}", utc(at)),
                (None, Some(it)) => format!("known to {}", it.by),
                (None, None) => "raised".to_owned(),
            };
            if alarm.cleared_ms.is_none() && says_well(&alarm.detail) {
                state.push_str(", well again");
            }
            [
                alarm.id.to_string(),
                alarm.severity.as_str().to_owned(),
                alarm.kind.clone(),
                alarm.subject.clone(),
                utc(alarm.raised_ms),
                state,
            ]
        })
        .collect();
    table(
        ["ALARM", "SEVERITY", "KIND", "ABOUT", "SINCE (UTC)", "STATE"],
        &rows,
    )
}

fn shown(alarm: &Alarm) -> String {
    let mut text = format!(
        "alarm {}: {} ({}, {})\n{}: {}\nsince {}\n",
        alarm.id,
        alarm.title,
        alarm.kind,
        alarm.severity.as_str(),
        alarm.subject,
        alarm.detail,
        utc(alarm.raised_ms)
    );
    if let Some(at) = alarm.cleared_ms {
        text.push_str(&format!("over since {}\n", utc(at)));
    }
    if let Some(it) = &alarm.acknowledged {
        text.push_str(&format!("known to {} since {}", it.by, utc(it.at_ms)));
        if !it.note.is_empty() {
            text.push_str(&format!(": {}", it.note));
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "{}\nWhat to do: {}\n",
        alarm.meaning, alarm.action
    ));
    text
}

/// A value with its unit.
fn quantity(value: u64, unit: AlarmUnit) -> String {
    match unit {
        AlarmUnit::State => "-".to_owned(),
        AlarmUnit::Percent => format!("{value} %"),
        AlarmUnit::Milliseconds => format!("{value} ms"),
        AlarmUnit::Seconds => format!("{value} s"),
        AlarmUnit::Days => format!("{value} d"),
        AlarmUnit::Other => value.to_string(),
    }
}

fn kinds(kinds: &[AlarmKind]) -> String {
    let rows: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let state = match (kind.off, kind.threshold == kind.default_threshold) {
                (true, _) => "off",
                (false, true) => "default",
                (false, false) => "changed",
            };
            [
                kind.kind.clone(),
                kind.severity.as_str().to_owned(),
                quantity(kind.threshold.set, kind.unit),
                quantity(kind.threshold.clear, kind.unit),
                format!("{} s", kind.threshold.hold_seconds),
                state.to_owned(),
                kind.title.clone(),
            ]
        })
        .collect();
    table(
        ["KIND", "SEVERITY", "SET", "CLEAR", "HOLD", "IS", "TITLE"],
        &rows,
    )
}
