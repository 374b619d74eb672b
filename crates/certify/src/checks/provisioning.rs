//! Space that is given back.

use holdfast_stdx::Bytes;

use crate::bench::{A, B, Bench, ILLEGAL};
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, failed, fine, warn};
use crate::command;
use crate::parse::limits::{BlockLimits, Provisioning};
use crate::parse::lists::{self, Extent};
use crate::stretch::CHUNK_BYTES;

const GROUP: Group = Group::Provisioning;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "provisioning.unmap",
        group: GROUP,
        title: "UNMAP clears what it names, and nothing beside it",
        does: "Writes blocks, unmaps those in the middle, in one range and in two, and reads all through another path",
        clause: "SBC-3 4.7.4.4, 5.28",
        consequence: "Windows: the HLK's thin provisioning test fails; space is not given back, or data beside it is lost",
        required_by: &[],
        run: |bench| Box::pin(unmap(bench)),
    },
    Check {
        id: "provisioning.write-same",
        group: GROUP,
        title: "WRITE SAME fills, and with UNMAP clears",
        does: "WRITE SAME (16) of a pattern, and of zeros with UNMAP; reads through another path",
        clause: "SBC-3 5.42",
        consequence: "VMware zeroes new disks by it (VAAI block zero), Linux discards by it: both write zeros themselves instead",
        required_by: &[],
        run: |bench| Box::pin(write_same(bench)),
    },
    Check {
        id: "provisioning.lba-status",
        group: GROUP,
        title: "GET LBA STATUS tells what takes space",
        does: "Asks of blocks that were written, and of the same unmapped; and of one beyond the end",
        clause: "SBC-3 5.4",
        consequence: "Windows: the HLK's thin provisioning test fails, and slabs are not consolidated",
        required_by: &[],
        run: |bench| Box::pin(lba_status(bench)),
    },
    Check {
        id: "provisioning.threshold",
        group: GROUP,
        title: "A unit with thresholds tells how much space there is",
        does: "LOG SENSE of the Logical Block Provisioning page, where page B2h tells of thresholds",
        clause: "SBC-3 4.7.3.8, 6.3.4, 6.5.4",
        consequence: "Windows: no warning before the pool is full, and the HLK's threshold test fails",
        required_by: &[],
        run: |bench| Box::pin(threshold(bench)),
    },
];

/// Chunks that this file writes to: whole units of allocation, wherever they lie.
const CHUNK: u64 = 512;
const CHUNKS: u64 = 512;

/// What the unit says about thin provisioning, where it is thin.
async fn thin(bench: &Bench) -> Result<Provisioning, Unmet> {
    if !bench.capacity.is_thin {
        return Err(Unmet::NotApplicable(
            "the unit is fully provisioned".to_owned(),
        ));
    }
    match bench.optional_page((A, 0), 0xB2).await {
        Ok(data) => Ok(Provisioning::parse(&data)?),
        Err(Unmet::NotApplicable(reason)) => Err(Unmet::NotApplicable(reason)),
        Err(other) => Err(other),
    }
}

/// Blocks from chunk `first` on, as a range of UNMAP.
fn range(bench: &Bench, first: u64, chunks: u64) -> (u64, u32) {
    let count = chunks * u64::from(bench.stretch.chunk_blocks());
    (bench.stretch.chunk(first), count as u32)
}

async fn unmap(bench: &mut Bench) -> Checked {
    let page = thin(bench).await?;
    if !page.unmaps {
        return Err(Unmet::NotApplicable("LBPU is 0".to_owned()));
    }
    let limits = BlockLimits::parse(&bench.optional_page((A, 0), 0xB0).await?)?;
    let mut tags = Vec::new();
    for chunk in CHUNK..CHUNK + 8 {
        let tag = bench.tag();
        bench.write((A, 0), chunk, tag).await?.good()?;
        tags.push(tag);
    }
    let one = range(bench, CHUNK + 1, 2);
    let two = [range(bench, CHUNK + 4, 1), range(bench, CHUNK + 6, 1)];
    let nexus = bench.nexus((A, 0));
    nexus.good(command::unmap(bench.lun, &[one])).await?;
    if limits.unmap_descriptors_max == 1 {
        for range in two {
            nexus.good(command::unmap(bench.lun, &[range])).await?;
        }
    } else {
        nexus.good(command::unmap(bench.lun, &two)).await?;
    }
    let way = (B, bench.last_path());
    for (chunk, tag) in (CHUNK..).zip(tags) {
        let is_unmapped = matches!(chunk - CHUNK, 1 | 2 | 4 | 6);
        match is_unmapped {
            false => bench.holds(way, chunk, tag).await?,
            true if page.reads_zeros => bench.holds(way, chunk, 0).await?,
            // Anything may be read then, but it has to be readable (SBC-3 4.7.4.4.1).
            true => drop(bench.read(way, chunk).await?.good()?),
        }
    }
    // No ranges are no error (SBC-3 5.28.2).
    bench
        .nexus(way)
        .good(command::unmap(bench.lun, &[]))
        .await?;
    match page.reads_zeros {
        true => fine(format!("granularity {} blocks", limits.unmap_granularity)),
        false => warn(
            "LBPRZ is 0: unmapped blocks need not read as zeros, and hosts write zeros themselves",
        ),
    }
}

async fn write_same(bench: &mut Bench) -> Checked {
    let length = bench.capacity.block_length as usize;
    let (first, count) = range(bench, CHUNK + 16, 4);
    let nexus = bench.nexus((A, 0));
    let pattern = Bytes::from(vec![0xA5; length]);
    let fill = command::write_same(bench.lun, first, count, pattern, false);
    let answer = nexus.ask(fill).await?;
    Bench::unknown(&answer, "WRITE SAME (16)")?;
    answer.good()?;
    let way = (B, bench.last_path());
    let expect = async |byte: u8| {
        for chunk in CHUNK + 16..CHUNK + 20 {
            let data = bench.read(way, chunk).await?.good()?;
            let is_so = data.len() == CHUNK_BYTES as usize && data.iter().all(|it| *it == byte);
            ensure(
                is_so,
                format!("blocks full of {byte:02X}h after WRITE SAME"),
                || "something else".to_owned(),
            )?;
        }
        Ok::<(), Unmet>(())
    };
    expect(0xA5).await?;
    let unmaps = match thin(bench).await {
        Ok(page) => page.write_same_unmaps && page.reads_zeros,
        Err(Unmet::NotApplicable(_)) => false,
        Err(other) => return Err(other),
    };
    let zeros = Bytes::from(vec![0; length]);
    let clear = command::write_same(bench.lun, first, count, zeros, unmaps);
    nexus.good(clear).await?;
    expect(0).await?;
    match unmaps {
        true => fine("with UNMAP"),
        false => fine("without UNMAP, as the unit is not thin or LBPWS is 0"),
    }
}

/// The extents that tell of blocks from `first` on.
async fn extents(bench: &Bench, first: u64) -> Result<Vec<Extent>, Unmet> {
    let request = command::lba_status(bench.lun, first, 512);
    let answer = bench.nexus((A, 0)).ask(request).await?;
    Bench::unknown(&answer, "GET LBA STATUS")?;
    let extents = lists::lba_status(&answer.good()?)?;
    let mut next = first;
    for extent in &extents {
        ensure(
            extent.first == next && extent.count > 0,
            format!("GET LBA STATUS from block {first}: extents without a gap from there on"),
            || format!("{extents:?}"),
        )?;
        next += u64::from(extent.count);
    }
    Ok(extents)
}

async fn lba_status(bench: &mut Bench) -> Checked {
    thin(bench).await?;
    let (first, count) = range(bench, CHUNK, CHUNKS);
    // Full, so that whatever the unit of allocation is, one of them lies in it.
    let pattern = Bytes::from(vec![0x5A; bench.capacity.block_length as usize]);
    for part in 0..16 {
        let (first, count) = range(bench, CHUNK + part * CHUNKS / 16, CHUNKS / 16);
        let fill = command::write_same(bench.lun, first, count, pattern.clone(), false);
        bench.nexus((A, 0)).good(fill).await?;
    }
    let written = extents(bench, first).await?;
    let mapped = written.first().is_some_and(|extent| extent.status == 0);
    ensure(
        mapped,
        "blocks that were written are mapped (status 0)",
        || format!("{written:?}"),
    )?;
    bench
        .nexus((A, 0))
        .good(command::unmap(bench.lun, &[(first, count)]))
        .await?;
    let unmapped = extents(bench, first).await?;
    let beyond = command::lba_status(bench.lun, bench.capacity.blocks, 512);
    let refused = bench.nexus((A, 0)).ask(beyond).await?;
    refused.refused(ILLEGAL, 0x2100)?;
    let of_space = |extent: &&Extent| extent.status != 0;
    match unmapped.iter().find(of_space) {
        Some(_) => FINE,
        // SBC-3 4.7.4.4.1: UNMAP is a hint. Who asks for space back gets none.
        None => warn(format!(
            "2 MiB that were unmapped are all mapped still: {unmapped:?}"
        )),
    }
}

async fn threshold(bench: &mut Bench) -> Checked {
    let page = thin(bench).await?;
    if page.threshold_exponent == 0 {
        return Err(Unmet::NotApplicable(
            "the unit has no thresholds (THRESHOLD EXPONENT is 0)".to_owned(),
        ));
    }
    let set = (u64::from(bench.capacity.block_length))
        .checked_shl(u32::from(page.threshold_exponent))
        .ok_or_else(|| {
            failed(
                "a THRESHOLD EXPONENT below 64",
                page.threshold_exponent.to_string(),
            )
        })?;
    for way in bench.ways(A) {
        let log = bench
            .nexus(way)
            .good(command::log_sense(bench.lun, 0x0C, 512));
        let parameters = lists::log_parameters(&log.await?, 0x0C)?;
        let count = |code: u16| {
            let found = parameters.iter().find(|(known, _)| *known == code);
            let value = found.and_then(|(_, value)| value.first_chunk().copied());
            value.map(u32::from_be_bytes)
        };
        // Available and used LBA mapping resource counts.
        let (Some(available), Some(used)) = (count(1), count(2)) else {
            return Err(failed(
                "parameters 1 (available) and 2 (used) in log page 0Ch",
                format!("{parameters:?}"),
            ));
        };
        if way.1 == bench.last_path() {
            let mebibytes = |sets: u32| u64::from(sets).saturating_mul(set) >> 20;
            return fine(format!(
                "{} MiB available, {} MiB used, counted in {set} bytes",
                mebibytes(available),
                mebibytes(used)
            ));
        }
    }
    FINE
}
