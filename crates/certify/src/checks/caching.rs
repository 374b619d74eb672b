//! What is acknowledged, and where it is then.

use holdfast_stdx::Bytes;

use crate::bench::{A, B, Bench};
use crate::check::HostKind::{Multipath, Vmware, Windows};
use crate::check::{Check, Checked, Group, Unmet, ensure, fine, warn};
use crate::command;
use crate::parse::lists;
use crate::stretch::content;

const GROUP: Group = Group::Caching;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "caching.mode",
        group: GROUP,
        title: "The unit says whether it caches writes, and that it may be written",
        does: "MODE SENSE (10) of the Caching page through every path",
        clause: "SBC-3 6.4.5, 6.4.1",
        consequence: "Hosts take it for a disk without a cache, and never flush it; a write protected disk is no cluster disk",
        required_by: &[Windows],
        run: |bench| Box::pin(mode(bench)),
    },
    Check {
        id: "caching.synchronize",
        group: GROUP,
        title: "SYNCHRONIZE CACHE is done",
        does: "SYNCHRONIZE CACHE (10) and (16) of everything, through every path",
        clause: "SBC-3 5.22, 5.23",
        consequence: "File systems and databases fail at their first flush",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(synchronize(bench)),
    },
    Check {
        id: "caching.fua",
        group: GROUP,
        title: "Reads and writes with FUA are done, where they are offered",
        does: "WRITE (16) and READ (16) with FUA through every path",
        clause: "SBC-3 5.13, 5.39; DPOFUA: 6.4.1",
        consequence: "Windows and SQL Server write their logs by it: the logs fail",
        required_by: &[Windows],
        run: |bench| Box::pin(force_unit_access(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 1048;

async fn caching(bench: &Bench, path: usize) -> Result<lists::Caching, Unmet> {
    let request = command::mode_sense(bench.lun, 0x08, 0, 255);
    Ok(lists::caching(
        &bench.nexus((A, path)).good(request).await?,
    )?)
}

async fn mode(bench: &mut Bench) -> Checked {
    let first = caching(bench, 0).await?;
    for path in 0..bench.paths.len() {
        let other = caching(bench, path).await?;
        ensure(
            other == first,
            format!("the same through {}", bench.paths[path].portal),
            || format!("{other:?} and {first:?}"),
        )?;
    }
    ensure(
        !first.is_write_protected,
        "a unit that is not write protected (WP 0)",
        || "WP 1".to_owned(),
    )?;
    match first.caches_writes {
        false => fine("WCE 0: what is acknowledged is on stable storage"),
        true => warn(
            "WCE 1: what is acknowledged may be lost until it was flushed; hosts have to, and do",
        ),
    }
}

async fn synchronize(bench: &mut Bench) -> Checked {
    for way in bench.ways(A) {
        bench.write(way, CHUNK, bench.tag()).await?.good()?;
        let nexus = bench.nexus(way);
        nexus.good(command::synchronize_cache_10(bench.lun)).await?;
        let long = nexus.ask(command::synchronize_cache(bench.lun)).await?;
        // The long one is optional (SBC-3 5.1).
        if !long.is_unknown() {
            long.good()?;
        }
    }
    fine("")
}

async fn force_unit_access(bench: &mut Bench) -> Checked {
    if !caching(bench, 0).await?.knows_fua {
        return warn("DPOFUA is 0: hosts flush the whole cache instead");
    }
    let stretch = &bench.stretch;
    let (first, count) = (stretch.chunk(CHUNK), stretch.chunk_blocks());
    let length = stretch.block_length;
    for way in bench.ways(A) {
        let tag = bench.tag();
        stretch.note_written();
        let data = vec![Bytes::from(content(tag, CHUNK))];
        let write = command::write(bench.lun, first, count, data, true);
        bench.nexus(way).good(write).await?;
        let read = command::read_from_medium(bench.lun, first, count, length);
        let data = bench.nexus((B, bench.last_path())).good(read).await?;
        ensure(
            data == content(tag, CHUNK),
            "what was written with FUA, read with FUA",
            || "something else".to_owned(),
        )?;
    }
    fine("")
}
