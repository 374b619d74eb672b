//! Resets and aborts.

use std::time::Duration;

use crate::bench::{A, Bench, C};
use crate::check::HostKind::{Multipath, Vmware, Windows};
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, fine};
use crate::nexus::Nexus;
use crate::stretch::tag_of;
use crate::words;

const GROUP: Group = Group::Tasks;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "tasks.reset",
        group: GROUP,
        title: "LOGICAL UNIT RESET is done, and every nexus is told once",
        does: "C resets the unit; the unit attentions of every path of every host",
        clause: "SAM-5 5.14, 6.3.3; RFC 7143 11.5",
        consequence: "Hosts whose commands hang cannot free themselves; VMware resets units to break locks",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(reset(bench)),
    },
    Check {
        id: "tasks.abort",
        group: GROUP,
        title: "ABORT TASK ends one command, and the session goes on",
        does: "Writes that are aborted a moment after they were sent; the blocks, and the session, afterwards",
        clause: "SAM-5 7.2; RFC 7143 11.5, 11.6",
        consequence: "Each command that times out costs the host its session",
        required_by: &[Windows, Multipath],
        run: |bench| Box::pin(abort(bench)),
    },
    Check {
        id: "tasks.new-nexus",
        group: GROUP,
        title: "A session that comes back is told so once",
        does: "A's connection is cut and made again on every path; the unit attentions after it",
        clause: "SAM-5 5.14, 6.3.2",
        consequence: "A host goes on after what may have been a restart, or is told without end",
        required_by: &[],
        run: |bench| Box::pin(new_nexus(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 160;
/// Aborts that are tried: most commands are faster.
const ABORTS: u64 = 24;
/// Responses of RFC 7143 11.6.1: done, and "task does not exist", which is one that was answered.
const DONE: u8 = 0;
const NO_TASK: u8 = 1;

/// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED and the like.
const fn is_reset(code: u16) -> bool {
    code >> 8 == 0x29
}

async fn reset(bench: &mut Bench) -> Checked {
    let response = bench.nexus((C, 0)).reset().await?;
    ensure(
        response == DONE,
        "response 0 (function complete) to LOGICAL UNIT RESET",
        || format!("response {response}"),
    )?;
    let mut all = Vec::new();
    for nexus in bench.all() {
        let told = nexus.attentions().await?;
        let resets = told.iter().filter(|code| is_reset(**code)).count();
        let is_sender = nexus.label() == bench.nexus((C, 0)).label();
        // SAM-5 6.3.3 has the sender told as well; not every target does it.
        ensure(
            resets == 1 || is_sender && resets == 0,
            format!("{} is told of the reset once", nexus.label()),
            || words::attentions(&told),
        )?;
        is_told_no_more(nexus).await?;
        all = told;
    }
    fine(words::attentions(&all))
}

/// Whoever was told of a reset is told once.
async fn is_told_no_more(nexus: &Nexus) -> Result<(), Unmet> {
    let again = nexus.attentions().await?;
    ensure(
        !again.iter().any(|code| is_reset(*code)),
        format!("{} is not told again", nexus.label()),
        || words::attentions(&again),
    )
}

async fn abort(bench: &mut Bench) -> Checked {
    let (mut aborted, mut answered) = (0, 0);
    for number in 0..ABORTS {
        let way = (A, number as usize % bench.paths.len());
        let chunk = CHUNK + number;
        let (before, tag) = (bench.tag(), bench.tag());
        bench.write(way, chunk, before).await?.good()?;
        let request = bench.write_request(chunk, tag);
        // At once, and after some milliseconds.
        let after = Duration::from_millis(number / 4);
        match bench.nexus(way).abort_midway(request, after).await? {
            None => answered += 1,
            Some(DONE | NO_TASK) => aborted += 1,
            Some(response) => ensure(false, "response 0 or 1 to ABORT TASK", || {
                format!("response {response}")
            })?,
        }
        let data = bench.read(way, chunk).await?.good()?;
        let seen = tag_of(&data, chunk);
        ensure(
            seen == Some(before) || seen == Some(tag),
            "the block as it was before the write, or after it",
            || "something else".to_owned(),
        )?;
    }
    fine(format!("{aborted} aborted, {answered} were faster"))
}

async fn new_nexus(bench: &mut Bench) -> Checked {
    for way in bench.ways(A) {
        bench.nexus(way).cut().await;
        bench.reconnect(Duration::from_secs(15)).await?;
        let nexus = bench.nexus(way);
        let told = nexus.attentions().await?;
        let resets = told.iter().filter(|code| is_reset(**code)).count();
        ensure(
            resets <= 1,
            format!("{} is told at most once", nexus.label()),
            || words::attentions(&told),
        )?;
        is_told_no_more(nexus).await?;
    }
    FINE
}
