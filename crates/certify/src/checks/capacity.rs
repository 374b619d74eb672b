//! How large the unit is, and what one command may ask of it.

use crate::bench::{A, Bench, ILLEGAL};
use crate::check::HostKind::{Multipath, Pacemaker, Vmware, Windows};
use crate::check::{Check, Checked, Group, Unmet, ensure, fine, warn};
use crate::command;
use crate::parse::capacity::{Capacity, parse_10};
use crate::parse::limits::{BlockLimits, Provisioning, rotation};

const GROUP: Group = Group::Capacity;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "capacity.size",
        group: GROUP,
        title: "Every path tells the same size",
        does: "READ CAPACITY (10) and (16) through every path, compared",
        clause: "SBC-3 5.15, 5.16",
        consequence: "Linux and VMware refuse to join paths of different sizes; partitions end beyond the disk",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(size(bench)),
    },
    Check {
        id: "capacity.end",
        group: GROUP,
        title: "The last block can be read, and none after it",
        does: "Reads the last block, and the one that would follow",
        clause: "SBC-3 4.5.1",
        consequence: "Backup partition tables cannot be written, or what is not there is taken for data",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(end(bench)),
    },
    Check {
        id: "capacity.limits",
        group: GROUP,
        title: "The limits of commands are sound, and keep to each other",
        does: "Reads pages B0h and B1h, and sends a READ of the greatest length that is told (at most 1 MiB)",
        clause: "SBC-3 6.5.2, 6.5.3",
        consequence: "Hosts send commands that are refused, or ones of a single block",
        required_by: &[],
        run: |bench| Box::pin(limits(bench)),
    },
    Check {
        id: "capacity.provisioning",
        group: GROUP,
        title: "READ CAPACITY (16) and pages B0h and B2h agree on thin provisioning",
        does: "Compares LBPME and LBPRZ with LBPU, LBPWS, the provisioning type, and the limits of UNMAP",
        clause: "SBC-3 4.7.3, 6.5.2, 6.5.4",
        consequence: "Windows: the disk is not taken for thin; Linux: discard is off, or is refused; VMware: no space is given back",
        required_by: &[],
        run: |bench| Box::pin(provisioning(bench)),
    },
];

/// Bytes that a host wants to move at once, at most.
const TRANSFER_BYTES: u32 = 1 << 20;

async fn size(bench: &mut Bench) -> Checked {
    let expected = bench.capacity;
    for way in bench.ways(A) {
        let nexus = bench.nexus(way);
        let data = nexus.good(command::read_capacity(bench.lun)).await?;
        let seen = Capacity::parse(&data)?;
        ensure(
            seen == expected,
            format!("{}: {expected:?}", nexus.label()),
            || format!("{seen:?}"),
        )?;
        let short = nexus.good(command::read_capacity_10(bench.lun)).await?;
        let (last, length) = parse_10(&short)?;
        // SBC-3 5.15.2: all ones, where it has no room.
        let expected_last = u32::try_from(expected.blocks - 1).unwrap_or(u32::MAX);
        ensure(
            (last, length) == (expected_last, expected.block_length),
            format!("READ CAPACITY (10) by {}: the same size", nexus.label()),
            || format!("the last block is {last}, of {length} bytes"),
        )?;
    }
    let Capacity {
        blocks,
        block_length,
        blocks_per_physical,
        lowest_aligned,
        ..
    } = expected;
    let note =
        format!("{blocks} blocks of {block_length} bytes, {blocks_per_physical} in a physical one");
    match lowest_aligned {
        0 => fine(note),
        other => warn(format!("{note}; the first aligned one is {other}")),
    }
}

async fn end(bench: &mut Bench) -> Checked {
    let length = bench.capacity.block_length;
    let last = bench.capacity.blocks - 1;
    for way in bench.ways(A) {
        let nexus = bench.nexus(way);
        nexus
            .good(command::read(bench.lun, last, 1, length))
            .await?;
        let beyond = nexus.ask(command::read(bench.lun, last, 2, length)).await?;
        beyond.refused(ILLEGAL, 0x2100)?;
    }
    fine(format!("block {last}"))
}

async fn limits(bench: &mut Bench) -> Checked {
    let page = BlockLimits::parse(&bench.optional_page((A, 0), 0xB0).await?)?;
    let max = page.transfer_max;
    ensure(
        max == 0 || page.transfer_optimal <= max,
        "OPTIMAL TRANSFER LENGTH is not above MAXIMUM TRANSFER LENGTH",
        || format!("{} and {max}", page.transfer_optimal),
    )?;
    let length = bench.capacity.block_length;
    let wanted = TRANSFER_BYTES / length;
    let count = if max == 0 { wanted } else { max.min(wanted) };
    let first = bench.stretch.first;
    let read = command::read(bench.lun, first, count, length);
    bench.nexus((A, 0)).good(read).await?;
    for way in bench.ways(A) {
        let other = BlockLimits::parse(&bench.optional_page(way, 0xB0).await?)?;
        ensure(
            other == page,
            format!("{}: the same limits", bench.nexus(way).label()),
            || format!("{other:?} and {page:?}"),
        )?;
    }
    let note = match bench.optional_page((A, 0), 0xB1).await {
        Ok(data) => match rotation(&data)? {
            1 => "does not rotate".to_owned(),
            0 => "does not say whether it rotates".to_owned(),
            rate => format!("rotates {rate} times a minute"),
        },
        Err(Unmet::NotApplicable(_)) => "no page B1h".to_owned(),
        Err(other) => return Err(other),
    };
    let note = format!(
        "{max} blocks in a command, best {}; {note}",
        page.transfer_optimal
    );
    match max > 0 && max * (length / 512) < 128 {
        true => warn(format!("commands have 64 KiB at most: {note}")),
        false => fine(note),
    }
}

async fn provisioning(bench: &mut Bench) -> Checked {
    let capacity = bench.capacity;
    let page = match bench.optional_page((A, 0), 0xB2).await {
        Ok(data) => Some(Provisioning::parse(&data)?),
        Err(Unmet::NotApplicable(_)) => None,
        Err(other) => return Err(other),
    };
    if !capacity.is_thin {
        let unmaps = page.is_some_and(|page| page.unmaps || page.kind != 0);
        ensure(
            !unmaps,
            "LBPME, as page B2h tells of a provisioning type or of UNMAP",
            || format!("LBPME is 0, and page B2h says {page:?}"),
        )?;
        return Err(Unmet::NotApplicable(
            "the unit is fully provisioned".to_owned(),
        ));
    }
    let Some(page) = page else {
        return warn("LBPME is 1, and there is no page B2h: Windows takes the disk for a full one");
    };
    ensure(
        page.unmaps || page.write_same_unmaps,
        "LBPU or LBPWS, as LBPME is 1",
        || "neither".to_owned(),
    )?;
    ensure(
        page.reads_zeros == capacity.reads_zeros,
        "LBPRZ the same in READ CAPACITY (16) and page B2h",
        || format!("{} and {}", capacity.reads_zeros, page.reads_zeros),
    )?;
    if page.unmaps {
        let limits = BlockLimits::parse(&bench.optional_page((A, 0), 0xB0).await?)?;
        ensure(
            limits.unmap_max > 0 && limits.unmap_descriptors_max > 0,
            "MAXIMUM UNMAP LBA COUNT and BLOCK DESCRIPTOR COUNT above zero, as LBPU is 1",
            || format!("{} and {}", limits.unmap_max, limits.unmap_descriptors_max),
        )?;
    }
    match page.kind {
        2 => fine(format!(
            "thin, unmapped blocks read as zeros: {}",
            page.reads_zeros
        )),
        other => warn(format!("PROVISIONING TYPE is {other}, and not 2 (thin)")),
    }
}
