//! `holdfast stalls`.

use holdfast_api::documents::{STALLS_MAX, Stall, StallList, StallQuery};

use jiff::Timestamp;

use super::client;
use super::pieces::{self, milliseconds_ago};
use crate::cli::{Global, StallArguments};
use crate::failure::Failure;
use crate::output::{Output, table};

const NAMES: [&str; 7] = [
    "BEGAN (UTC)",
    "LENGTH",
    "VOLUME",
    "PORTAL",
    "CAUSE",
    "NODE",
    "SLICE",
];

pub(crate) async fn show(
    global: &Global,
    output: &Output,
    arguments: &StallArguments,
) -> Result<(), Failure> {
    let since_ms = arguments.since.map_or(0, milliseconds_ago);
    let volume = arguments.volume.as_ref().map(|name| name.as_str());
    let client = client(global);
    let list: StallList = pieces::read(arguments.limit, async |missing, after| {
        let query = StallQuery {
            limit: missing.min(STALLS_MAX),
            since_ms,
            initiators: arguments.initiators,
            after,
        };
        Ok(client.stalls(volume, query).await?)
    })
    .await?;
    output.result(&list, || text(&list, arguments.initiators))?;
    for node in &list.silent {
        output.talk(&format!(
            "warning: node {node} does not answer: what it keeps is not shown"
        ));
    }
    Ok(())
}

fn text(list: &StallList, initiators: bool) -> String {
    if list.stalls.is_empty() {
        return "no stalls are known\n".to_owned();
    }
    let rows: Vec<_> = list.stalls.iter().map(row).collect();
    if initiators {
        let initiators = list.stalls.iter().map(initiator);
        let rows = rows.into_iter().zip(initiators);
        let rows: Vec<_> = rows.map(|(row, last)| with(row, last)).collect();
        table(with(NAMES, "INITIATOR"), &rows)
    } else {
        table(NAMES, &rows)
    }
}

/// A row with one more cell.
fn with<T>(row: [T; 7], last: T) -> [T; 8] {
    let [began, length, volume, portal, cause, node, slice] = row;
    [began, length, volume, portal, cause, node, slice, last]
}

fn row(stall: &Stall) -> [String; 7] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        utc(stall.began_ms),
        length(stall),
        stall.volume.clone(),
        stall.portal.clone(),
        stall.cause.words().to_owned(),
        known(stall.node.clone()),
        known(stall.slice.map(|slice| slice.to_string())),
    ]
}

fn initiator(stall: &Stall) -> String {
    let initiator = stall.initiator.clone();
    initiator.unwrap_or_else(|| "(all)".to_owned())
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

/// A time as people read it, to the millisecond; what no calendar has stays a number.
pub(super) fn utc(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok();
    let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
    match time {
        Some(time) => time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        None => milliseconds.to_string(),
    }
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
            (u64::MAX, "18446744073709551615"),
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
            ..StallList::default()
        };
        let shown = text(&list, false);
        assert!(
            shown.contains(
                "2026-11-22 18:15:30.123  0.734 s         demo    n2      a node did not answer  n1    -\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("0.734 s, lasts"), "{shown}");
        let shown = text(&list, true);
        assert!(shown.contains("iqn.2026-11.example:host\n") && shown.contains("(all)\n"));
        assert!(text(&StallList::default(), false).contains("no stalls"));
    }
}
