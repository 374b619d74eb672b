//! The six types: who may read, and who may write.

use holdfast_lab::command::ReserveType;
use holdfast_stdx::Bytes;

use super::GROUP;
use crate::answer::Answer;
use crate::bench::{A, B, Bench, C, Way};
use crate::check::HostKind::{Pacemaker, Windows};
use crate::check::{Check, Checked, FINE, Unmet, fine};
use crate::command;
use crate::reserve::SHARED;
use crate::stretch::content;

/// SPC-4 5.12.10, and SBC-3 4.17 for which commands read and write.
const CLAUSE: &str = "SPC-4 5.12.10; SBC-3 4.17";
const DOES: &str = "A and B register on every path, A reserves through one; A, B and C read and write through every path, \
     and the block is read again";

const fn kind(
    id: &'static str,
    title: &'static str,
    consequence: &'static str,
    required_by: &'static [crate::check::HostKind],
    run: crate::check::Run,
) -> Check {
    Check {
        id,
        group: GROUP,
        title,
        does: DOES,
        clause: CLAUSE,
        consequence,
        required_by,
        run,
    }
}

pub(super) const CHECKS: &[Check] = &[
    kind(
        "reservations.write-exclusive",
        "Write Exclusive: one nexus writes, all read",
        "Hosts that fence by this type do not fence",
        &[],
        |bench| Box::pin(matrix(bench, ReserveType::WriteExclusive)),
    ),
    kind(
        "reservations.exclusive-access",
        "Exclusive Access: one nexus reads and writes",
        "Hosts that fence by this type do not fence",
        &[],
        |bench| Box::pin(matrix(bench, ReserveType::ExclusiveAccess)),
    ),
    kind(
        "reservations.write-exclusive-registrants",
        "Write Exclusive - Registrants Only: who is registered writes, all read",
        "Windows: cluster validation fails, the disk cannot be a cluster disk; fence_scsi: a fenced node goes on writing",
        &[Windows, Pacemaker],
        |bench| Box::pin(matrix(bench, ReserveType::WriteExclusiveRegistrants)),
    ),
    kind(
        "reservations.exclusive-access-registrants",
        "Exclusive Access - Registrants Only: who is registered reads and writes",
        "Hosts that fence by this type do not fence",
        &[],
        |bench| Box::pin(matrix(bench, ReserveType::ExclusiveAccessRegistrants)),
    ),
    kind(
        "reservations.write-exclusive-all",
        "Write Exclusive - All Registrants: who is registered writes and holds it, all read",
        "VMware: clustered VMDKs (Windows clusters in virtual machines) cannot be on the datastore",
        &[],
        |bench| Box::pin(matrix(bench, ReserveType::WriteExclusiveAll)),
    ),
    kind(
        "reservations.exclusive-access-all",
        "Exclusive Access - All Registrants: who is registered reads, writes and holds it",
        "Hosts that fence by this type do not fence",
        &[],
        |bench| Box::pin(matrix(bench, ReserveType::ExclusiveAccessAll)),
    ),
    Check {
        id: "reservations.other-writes",
        group: GROUP,
        title: "What changes the medium otherwise is refused as a WRITE is",
        does: "WRITE (10), WRITE SAME, COMPARE AND WRITE and UNMAP by a host that is not registered, on every path",
        clause: "SBC-3 4.17, table of commands allowed",
        consequence: "A fenced host goes on changing the disk: VMware and Linux clear blocks and lock by these",
        required_by: &[Windows, Pacemaker],
        run: |bench| Box::pin(other_writes(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 16;

/// Who a nexus is to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Holder,
    Registered,
    Stranger,
}

/// Whether it may read, and whether it may write (SPC-4 5.12.10).
const fn rights(kind: ReserveType, standing: Standing) -> (bool, bool) {
    use ReserveType as Kind;
    let all_read = matches!(
        kind,
        Kind::WriteExclusive | Kind::WriteExclusiveRegistrants | Kind::WriteExclusiveAll
    );
    let admits = !matches!(kind, Kind::WriteExclusive | Kind::ExclusiveAccess);
    let is_in = match standing {
        Standing::Holder => true,
        Standing::Registered => admits,
        Standing::Stranger => false,
    };
    (is_in || all_read, is_in)
}

async fn matrix(bench: &mut Bench, kind: ReserveType) -> Checked {
    bench.needs_reservations()?;
    if bench.capabilities((A, 0)).await?.offers(kind as u8) == Some(false) {
        return Err(Unmet::NotApplicable(format!(
            "the target does not offer type {}",
            kind as u8
        )));
    }
    let mut tag = bench.tag();
    bench.write((A, 0), CHUNK, tag).await?.good()?;
    bench.register(A).await?;
    bench.register(B).await?;
    bench.reserve((A, 0), kind).await?;
    let key = match kind {
        // SPC-4 6.15.3.2: what all hold has the key zero.
        ReserveType::WriteExclusiveAll | ReserveType::ExclusiveAccessAll => 0,
        _ => bench.key(A),
    };
    bench.is_held(Some((key, kind))).await?;
    let ways = bench.ways(A).chain(bench.ways(B)).chain(bench.ways(C));
    for way in ways {
        let standing = match way {
            (A, 0) => Standing::Holder,
            (C, _) => Standing::Stranger,
            _ => Standing::Registered,
        };
        let (reads, writes) = rights(kind, standing);
        judged(&bench.read(way, CHUNK).await?, reads)?;
        let new = bench.tag();
        judged(&bench.write(way, CHUNK, new).await?, writes)?;
        if writes {
            tag = new;
        }
        bench.holds((A, 0), CHUNK, tag).await?;
    }
    bench.release((A, 0), kind).await?;
    bench.is_held(None).await?;
    FINE
}

/// GOOD for who may, RESERVATION CONFLICT for who may not.
fn judged(answer: &Answer, may: bool) -> Result<(), Unmet> {
    match may {
        true => answer.clone().good().map(drop),
        false => answer.conflict(),
    }
}

async fn other_writes(bench: &mut Bench) -> Checked {
    bench.needs_reservations()?;
    let tag = bench.tag();
    bench.write((A, 0), CHUNK, tag).await?.good()?;
    bench.register(A).await?;
    bench.reserve((A, 0), SHARED).await?;
    let mut refused = Vec::new();
    for way in bench.ways(C) {
        refused = refused_writes(bench, way, tag).await?;
        bench.holds((A, 0), CHUNK, tag).await?;
    }
    fine(refused.join(", "))
}

/// Tries every command that writes, and names those that the target knows.
async fn refused_writes(bench: &Bench, way: Way, tag: u64) -> Result<Vec<&'static str>, Unmet> {
    let (lun, length) = (bench.lun, bench.capacity.block_length as usize);
    let first = bench.stretch.chunk(CHUNK);
    let block = Bytes::from(vec![0; length]);
    let there = Bytes::from(content(tag, CHUNK)).slice(..length);
    let mut requests = vec![
        (
            "WRITE SAME",
            command::write_same(lun, first, 1, block.clone(), false),
        ),
        (
            "COMPARE AND WRITE",
            command::compare_and_write(lun, first, 1, vec![there, block.clone()]),
        ),
        ("UNMAP", command::unmap(lun, &[(first, 1)])),
    ];
    if let Ok(first) = u32::try_from(first) {
        let write = command::write_10(lun, first, 1, vec![block]);
        requests.insert(0, ("WRITE (10)", write));
    }
    let mut refused = Vec::new();
    for (name, request) in requests {
        let answer = bench.nexus(way).ask(request).await?;
        // What it does not know, it does not do.
        if !answer.is_unknown() {
            answer.conflict()?;
            refused.push(name);
        }
    }
    Ok(refused)
}
