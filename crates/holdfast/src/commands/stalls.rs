//! `holdfast stalls`.

use std::time::{Duration, SystemTime};

use holdfast_api::documents::{Stall, StallList, StallQuery};

use super::client;
use crate::cli::{Global, StallArguments};
use crate::failure::Failure;
use crate::output::{Output, table};

pub(crate) async fn show(
    global: &Global,
    output: &Output,
    arguments: &StallArguments,
) -> Result<(), Failure> {
    let since = arguments.since.map_or(0, milliseconds_ago);
    let query = StallQuery {
        limit: arguments.limit,
        since_ms: since,
        initiators: arguments.initiators,
    };
    let volume = arguments.volume.as_ref();
    let list = client(global)
        .stalls(volume.map(|name| name.as_str()), query)
        .await?;
    output.result(&list, || text(&list, arguments.initiators))?;
    for node in &list.silent {
        output.talk(&format!(
            "warning: node {node} does not answer: what it keeps is not shown"
        ));
    }
    Ok(())
}

fn milliseconds_ago(span: Duration) -> u64 {
    let then = SystemTime::now().checked_sub(span);
    let then = then.and_then(|then| then.duration_since(SystemTime::UNIX_EPOCH).ok());
    then.map_or(0, |then| {
        u64::try_from(then.as_millis()).unwrap_or(u64::MAX)
    })
}

fn text(list: &StallList, initiators: bool) -> String {
    if list.stalls.is_empty() {
        return "no stalls are known\n".to_owned();
    }
    if initiators {
        let rows: Vec<_> = list.stalls.iter().map(row_of_initiator).collect();
        return table(
            [
                "BEGAN (UTC)",
                "LENGTH",
                "VOLUME",
                "PORTAL",
                "CAUSE",
                "NODE",
                "SLICE",
                "INITIATOR",
            ],
            &rows,
        );
    }
    let rows: Vec<_> = list.stalls.iter().map(row).collect();
    table(
        [
            "BEGAN (UTC)",
            "LENGTH",
            "VOLUME",
            "PORTAL",
            "CAUSE",
            "NODE",
            "SLICE",
        ],
        &rows,
    )
}

fn row(stall: &Stall) -> [String; 7] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        utc(stall.began_ms),
        length(stall),
        stall.volume.clone(),
        stall.portal.clone(),
        stall.cause.as_str().to_owned(),
        known(stall.node.clone()),
        known(stall.slice.map(|slice| slice.to_string())),
    ]
}

fn row_of_initiator(stall: &Stall) -> [String; 8] {
    let [began, length, volume, portal, cause, node, slice] = row(stall);
    let initiator = stall.initiator.clone();
    let initiator = initiator.unwrap_or_else(|| "(all)".to_owned());
    [began, length, volume, portal, cause, node, slice, initiator]
}

/// How long, and how it ended if that was not as it should.
fn length(stall: &Stall) -> String {
    let Stall {
        length_ms, lasting, ..
    } = stall;
    let (seconds, rest) = (length_ms / 1000, length_ms % 1000);
    let end = match (lasting, stall.served) {
        (true, _) => ", lasts",
        (false, true) => "",
        (false, false) => ", given up",
    };
    format!("{seconds}.{rest:03} s{end}")
}

/// A time as people read it, to the millisecond.
fn utc(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:03}")
}

/// The Gregorian date of a day counted from 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        let century = year.is_multiple_of(100);
        year.is_multiple_of(if century { 400 } else { 4 })
    };
    // 400 years have 146097 days: the loop is short whatever the day.
    let mut year = 1970 + days / 146_097 * 400;
    let mut rest = days % 146_097;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::StallCause;

    use super::*;

    #[test]
    fn times_are_told_as_the_calendar_has_them() {
        for (milliseconds, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (1_709_251_199_999, "2024-02-29 23:59:59.999"),
            (1_795_371_330_123, "2026-11-22 18:15:30.123"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
        ] {
            assert_eq!(utc(milliseconds), text);
        }
    }

    #[test]
    fn a_stall_is_a_line() {
        let stall = Stall {
            began_ms: 1_795_371_330_123,
            length_ms: 734,
            lasting: false,
            portal: "n2".to_owned(),
            volume: "demo".to_owned(),
            initiator: None,
            cause: StallCause::NodeLost,
            node: Some("n1".to_owned()),
            slice: None,
            waiting_max: 4,
            served: true,
        };
        let lasting = Stall {
            lasting: true,
            initiator: Some("iqn.2026-11.example:host".to_owned()),
            ..stall.clone()
        };
        let list = StallList {
            stalls: vec![lasting, stall],
            silent: Vec::new(),
        };
        let shown = text(&list, false);
        assert!(
            shown.contains(
                "2026-11-22 18:15:30.123  0.734 s         demo    n2      node-lost  n1    -\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("0.734 s, lasts"), "{shown}");
        let shown = text(&list, true);
        assert!(shown.contains("iqn.2026-11.example:host\n") && shown.contains("(all)\n"));
        assert!(text(&StallList::default(), false).contains("no stalls"));
    }
}
