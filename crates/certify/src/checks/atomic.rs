//! COMPARE AND WRITE: locks in a block (VMware's ATS).

use holdfast_lab::SenseKey;
use holdfast_stdx::Bytes;
use tokio::task::JoinSet;

use crate::bench::{A, B, Bench, HOSTS};
use crate::check::HostKind::Vmware;
use crate::check::{Check, Checked, Group, Unmet, ensure, failed, fine};
use crate::command;
use crate::nexus::Nexus;

const GROUP: Group = Group::Atomic;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "atomic.compare-and-write",
        group: GROUP,
        title: "COMPARE AND WRITE writes exactly if what is there is what was expected",
        does: "COMPARE AND WRITE of one block that fits and of one that does not, through every path",
        clause: "SBC-3 5.2",
        consequence: "VMware: no ATS locks: VMFS reserves the whole disk instead, and hosts hinder each other",
        required_by: &[],
        run: |bench| Box::pin(compare(bench)),
    },
    Check {
        id: "atomic.contention",
        group: GROUP,
        title: "Of hosts that compare at the same moment, one writes",
        does: "All hosts count a number in one block up by COMPARE AND WRITE, each through all paths",
        clause: "SBC-3 5.2, 4.23",
        consequence: "VMware: two hosts hold one lock, and the datastore is damaged",
        required_by: &[Vmware],
        run: |bench| Box::pin(contention(bench)),
    },
];

/// Chunks that this file writes to.
const CHUNK: u64 = 1040;
/// How often each of the hosts counts up on each path.
const COUNTS: u64 = 10;
/// Attempts at that: as often as all others may come first, and then some.
const ATTEMPTS_MAX: u64 = 10_000;
/// MISCOMPARE DURING VERIFY OPERATION.
const MISCOMPARE: u16 = 0x1D00;

/// The first logical block of a chunk with a number in it.
fn block(length: u32, number: u64) -> Bytes {
    let mut block = vec![0; length as usize];
    block[..8].copy_from_slice(&number.to_be_bytes());
    block.into()
}

/// Whether the target knows COMPARE AND WRITE; zero of no blocks changes nothing.
async fn needs_compare(bench: &Bench) -> Result<(), Unmet> {
    let request = command::compare_and_write(bench.lun, bench.stretch.chunk(CHUNK), 0, Vec::new());
    let answer = bench.nexus((A, 0)).ask(request).await?;
    Bench::unknown(&answer, "COMPARE AND WRITE")
}

async fn compare(bench: &mut Bench) -> Checked {
    needs_compare(bench).await?;
    let (lun, length) = (bench.lun, bench.capacity.block_length);
    let first = bench.stretch.chunk(CHUNK);
    bench.write((A, 0), CHUNK, 0).await?.good()?;
    for (number, way) in (0..).zip(bench.ways(A)) {
        let nexus = bench.nexus(way);
        let fits = vec![block(length, number), block(length, number + 1)];
        nexus
            .good(command::compare_and_write(lun, first, 1, fits))
            .await?;
        let misfit = vec![block(length, number), block(length, u64::MAX)];
        let answer = nexus
            .ask(command::compare_and_write(lun, first, 1, misfit))
            .await?;
        answer.refused(SenseKey::Miscompare, MISCOMPARE)?;
        // The offset of the first byte that differs (SBC-3 5.2): in the last byte of the number.
        let place = answer.sense.and_then(|sense| sense.information);
        ensure(
            place.is_none_or(|place| place == 7),
            "INFORMATION 7: the first byte that differs",
            || format!("INFORMATION {place:?}"),
        )?;
        let reader = (B, bench.last_path());
        let read = bench
            .nexus(reader)
            .good(command::read(lun, first, 1, length));
        ensure(
            read.await? == block(length, number + 1),
            "the block as the COMPARE AND WRITE that fitted left it",
            || "something else".to_owned(),
        )?;
    }
    fine("VMware's ATS")
}

/// Counts the number up, and says how often somebody else came first.
async fn count(
    nexus: Nexus,
    (lun, first, length): (holdfast_lab::Lun, u64, u32),
) -> Result<u64, Unmet> {
    let mut misses = 0;
    for _ in 0..COUNTS {
        loop {
            let data = nexus.good(command::read(lun, first, 1, length)).await?;
            let number = data.first_chunk().copied().map_or(0, u64::from_be_bytes);
            let blocks = vec![Bytes::from(data), block(length, number + 1)];
            let answer = nexus
                .ask(command::compare_and_write(lun, first, 1, blocks))
                .await?;
            if answer.is_good() {
                break;
            }
            answer.refused(SenseKey::Miscompare, MISCOMPARE)?;
            misses += 1;
            if misses > ATTEMPTS_MAX {
                return Err(failed(
                    "a host that gets its turn",
                    "none after 10000 attempts",
                ));
            }
        }
    }
    Ok(misses)
}

async fn contention(bench: &mut Bench) -> Checked {
    needs_compare(bench).await?;
    let length = bench.capacity.block_length;
    let first = bench.stretch.chunk(CHUNK);
    bench.write((A, 0), CHUNK, 0).await?.good()?;
    let mut hosts = JoinSet::new();
    for nexus in bench.all() {
        hosts.spawn(count(nexus.clone(), (bench.lun, first, length)));
    }
    let mut misses = 0;
    while let Some(ended) = hosts.join_next().await {
        misses += ended.map_err(|error| Unmet::NotRun(error.to_string()))??;
    }
    let expected = COUNTS * (HOSTS * bench.paths.len()) as u64;
    for way in bench.ways(B) {
        let read = bench
            .nexus(way)
            .good(command::read(bench.lun, first, 1, length));
        let data = read.await?;
        let number = data.first_chunk().copied().map(u64::from_be_bytes);
        ensure(
            number == Some(expected),
            format!("the number {expected}, as often as it was counted up"),
            || format!("{number:?}"),
        )?;
    }
    fine(format!(
        "{expected} times, {misses} times somebody else was first"
    ))
}
