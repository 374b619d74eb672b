//! What an inspection says to people.

use super::damage::Severity;
use super::document::{
    DeviceReport, JournalReport, PageReport, PartitionReport, SegmentReport, SliceReport,
    SlotCounts, Standing, StoreReport,
};
use super::source::InUse;
use super::{Section, Target, Written};
use crate::output::{bytes, table};

/// The end of "in use": by whom, if that is known.
pub(crate) fn by(in_use: InUse) -> String {
    in_use
        .process
        .map_or_else(String::new, |process| format!(" by process {process}"))
}

/// Everything that was found in a store.
pub(crate) fn write(report: &StoreReport, section: Section, target: Target<'_>) -> Written {
    writeln!(
        target,
        "store {} of node {} in cluster {}",
        report.store, report.node, report.cluster
    )?;
    writeln!(
        target,
        "  opened {}, {}, {} of the journal",
        counted(report.use_counter, "time"),
        counted(report.device_count, "device"),
        counted(report.partitions, "partition")
    )?;
    for ordinal in &report.devices_missing {
        writeln!(
            target,
            "  device {ordinal} was not given: what is on it is not known here"
        )?;
    }
    for device in &report.devices {
        write_device(device, target)?;
    }
    if section != Section::Slots
        && let Some(journal) = &report.journal
    {
        write_journal(journal, target)?;
    }
    if let Some(slices) = &report.slices {
        write_slices(slices, report.pages_uncounted, target)?;
    }
    if let Some(pages) = &report.pages {
        write_pages(pages, target)?;
    }
    write_damage(report, section, target)
}

fn write_device(device: &DeviceReport, target: Target<'_>) -> Written {
    let tier = match device.tier {
        holdfast_model::Tier::Flash => "flash",
        holdfast_model::Tier::Capacity => "capacity",
    };
    writeln!(target, "\ndevice {}: {}", device.ordinal, device.path)?;
    writeln!(
        target,
        "  {} ({} bytes), tier {tier}, sectors of {} bytes",
        bytes(device.bytes),
        device.bytes,
        device.sector
    )?;
    if device.standing != Standing::InUse {
        writeln!(target, "  {}", device.standing.text())?;
    }
    if let Some(in_use) = device.in_use {
        writeln!(target, "  in use{}: what follows may change", by(in_use))?;
    }
    let mut notes = device.superblocks.iter().map(|superblock| {
        match (
            superblock.update,
            superblock.use_counter,
            &superblock.problem,
        ) {
            (_, _, Some(problem)) => problem.clone(),
            (Some(update), Some(uses), None) => {
                format!("update {update}, opened {}", counted(uses, "time"))
            }
            _ => String::new(),
        }
    });
    let rows: Vec<_> = device
        .regions
        .iter()
        .map(|region| {
            let note = match region.name {
                "journal" => format!(
                    "{} segments of {}",
                    device.segment_count,
                    bytes(u64::from(device.segment_bytes))
                ),
                "slots" => format!(
                    "{} of 256 KiB, numbered from {}",
                    device.slot_count, device.slot_base
                ),
                name if name.starts_with("superblock") => notes.next().unwrap_or_default(),
                _ => format!("{} entries of 512 bytes", device.slot_count),
            };
            [
                region.name.to_owned(),
                region.offset.to_string(),
                region.bytes.to_string(),
                note,
            ]
        })
        .collect();
    indented(&table(["REGION", "OFFSET", "BYTES", ""], &rows), target)?;
    device
        .slots
        .map_or(Ok(()), |slots| write_slots(slots, target))
}

fn write_slots(slots: SlotCounts, target: Target<'_>) -> Written {
    writeln!(
        target,
        "  slots: {} used, {} free ({} of them never used)",
        slots.used, slots.free, slots.never_used
    )?;
    for (count, what) in [
        (slots.unknown, "entries of which no copy can be read"),
        (slots.copies_bad, "entries with one bad copy"),
        (
            slots.copies_differ,
            "entries whose copies differ, the newer counts",
        ),
    ] {
        if count > 0 {
            writeln!(target, "  {what}: {count}")?;
        }
    }
    Ok(())
}

fn write_journal(journal: &JournalReport, target: Target<'_>) -> Written {
    writeln!(target, "\njournal on {}", journal.path)?;
    let segments: Vec<String> = journal
        .segments
        .iter()
        .map(|(state, count)| format!("{count} {}", state.as_str()))
        .collect();
    writeln!(target, "  segments: {}", segments.join(", "))?;
    let rows: Vec<_> = journal.partitions.iter().map(partition).collect();
    let names = [
        "PARTITION",
        "SEGMENTS",
        "GROUPS",
        "RECORDS",
        "REDO FROM",
        "ENDS AT BYTE",
        "TAIL",
    ];
    indented(&table(names, &rows), target)?;
    if journal
        .partitions
        .iter()
        .any(|partition| partition.tail == "suspect")
    {
        writeln!(
            target,
            "  suspect: after the last group stands, or stood at a start, what looks like another, \
             torn or rotten; most likely it was never acknowledged"
        )?;
    }
    let records: Vec<String> = journal
        .records
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if !records.is_empty() {
        writeln!(target, "  records: {}", records.join(", "))?;
    }
    if let Some(segments) = &journal.every_segment {
        let rows: Vec<_> = segments.iter().map(segment).collect();
        let names = [
            "SEGMENT",
            "OFFSET",
            "STATE",
            "PARTITION",
            "START",
            "FIRST GROUP",
            "PROBLEM",
        ];
        writeln!(target)?;
        indented(&table(names, &rows), target)?;
    }
    Ok(())
}

fn partition(partition: &PartitionReport) -> [String; 7] {
    let groups = match partition.next_group {
        next if next > partition.oldest_group => {
            format!("{} to {}", partition.oldest_group, next - 1)
        }
        _ => "none".to_owned(),
    };
    let end = partition.end.map_or_else(String::new, |end| {
        format!("{} (segment {})", end.offset, end.segment)
    });
    [
        partition.partition.to_string(),
        partition.segments.len().to_string(),
        groups,
        partition.records.to_string(),
        or_dash(partition.redo_from),
        end,
        partition.tail.to_owned(),
    ]
}

fn segment(segment: &SegmentReport) -> [String; 7] {
    [
        segment.segment.to_string(),
        segment.offset.to_string(),
        segment.state.as_str().to_owned(),
        or_dash(segment.partition),
        or_dash(segment.start),
        or_dash(segment.first_group),
        segment.problem.clone().unwrap_or_default(),
    ]
}

fn write_slices(slices: &[SliceReport], uncounted: u64, target: Target<'_>) -> Written {
    writeln!(target, "\nslices")?;
    if slices.is_empty() {
        writeln!(target, "  none")?;
        return Ok(());
    }
    let rows: Vec<_> = slices.iter().map(slice).collect();
    let names = [
        "SLICE",
        "PAGES",
        "EPOCH",
        "PREPARED",
        "COMMITTED",
        "TO REDO",
        "STATE",
    ];
    indented(&table(names, &rows), target)?;
    if uncounted > 0 {
        writeln!(
            target,
            "  and {uncounted} pages of slices that are too many to be told apart"
        )?;
    }
    Ok(())
}

fn slice(report: &SliceReport) -> [String; 7] {
    let journal = report.journal.as_ref();
    let pages = match (&report.table, journal) {
        (Some(table), _) => table.pages.to_string(),
        (None, Some(journal)) => journal.pages.to_string(),
        (None, None) => String::new(),
    };
    let mut states = Vec::new();
    match journal {
        Some(journal) if journal.intact => states.push("intact".to_owned()),
        Some(_) => states.push("damaged".to_owned()),
        None if report.table.is_some_and(|table| table.left_over.is_some()) => {
            states.push("dropped".to_owned());
        }
        None => {}
    }
    if journal.is_some_and(|journal| journal.tail_suspect) {
        states.push("tail suspect".to_owned());
    }
    if let Some(table) = &report.table {
        for (count, what) in [
            (table.lost.unwrap_or(0), "pages lost"),
            (table.bad_blocks, "blocks lost"),
            (table.left_over.unwrap_or(0), "pages left over"),
            (table.superseded, "slots superseded"),
        ] {
            if count > 0 {
                states.push(format!("{count} {what}"));
            }
        }
    }
    [
        report.slice.to_string(),
        pages,
        or_dash(journal.map(|journal| journal.epoch)),
        or_dash(journal.map(|journal| journal.prepared)),
        or_dash(journal.map(|journal| journal.committed)),
        journal.map_or_else(
            || "-".to_owned(),
            |journal| {
                format!(
                    "{} changes, {} blocks",
                    journal.redo_changes, journal.redo_blocks
                )
            },
        ),
        states.join(", "),
    ]
}

fn write_pages(pages: &[PageReport], target: Target<'_>) -> Written {
    writeln!(target, "\npages")?;
    if pages.is_empty() {
        writeln!(target, "  no slot holds any")?;
        return Ok(());
    }
    let rows: Vec<_> = pages
        .iter()
        .map(|page| {
            [
                page.page.to_string(),
                page.slot.to_string(),
                page.offset.to_string(),
                format!("s{}", page.written),
                page.mask.clone(),
                page.bad.clone(),
                page.redo.clone(),
                page.path.clone(),
            ]
        })
        .collect();
    let names = [
        "PAGE", "SLOT", "OFFSET", "WRITTEN", "BLOCKS", "LOST", "TO REDO", "DEVICE",
    ];
    indented(&table(names, &rows), target)?;
    for page in pages {
        let Some(blocks) = &page.blocks else { continue };
        let rows: Vec<_> = blocks
            .iter()
            .map(|block| {
                let digits = |checksum| format!("{checksum:08x}");
                [
                    block.block.to_string(),
                    block.offset.to_string(),
                    block.state.to_owned(),
                    digits(block.checksum),
                    block.found.map_or_else(|| "unreadable".to_owned(), digits),
                ]
            })
            .collect();
        writeln!(
            target,
            "\nblocks of page {} in slot {}",
            page.page, page.slot
        )?;
        let names = ["BLOCK", "OFFSET", "STATE", "CHECKSUM", "FOUND"];
        indented(&table(names, &rows), target)?;
    }
    Ok(())
}

fn write_damage(report: &StoreReport, section: Section, target: Target<'_>) -> Written {
    if let Some(verified) = report.verified {
        writeln!(
            target,
            "\nverified: {} blocks of {} pages, {} bad, {} to be written again by the journal",
            verified.blocks, verified.pages, verified.bad_blocks, verified.redo_blocks
        )?;
    }
    if report.sound {
        let unread = match (section, report.verified) {
            (_, Some(_)) => "",
            (Section::All | Section::Slots, None) => {
                "; what is in the pages was not read, --verify does"
            }
            (Section::Superblock | Section::Journal, None) => "; only a part was looked at",
        };
        return writeln!(target, "\ndamage: none{unread}");
    }
    writeln!(target, "\ndamage")?;
    for damage in &report.damage {
        let place = match damage.offset {
            Some(offset) => format!("{} bytes {} + {}", damage.path, offset, damage.bytes),
            None => damage.path.clone(),
        };
        let severity = match damage.severity {
            Severity::Spare => "mended at the next start",
            Severity::Lost => "LOST on this node",
        };
        writeln!(target, "  {place}: {}: {severity}", damage.what)?;
    }
    if report.damage_unlisted > 0 {
        writeln!(target, "  and {} more places", report.damage_unlisted)?;
    }
    Ok(())
}

/// So many of something, by its name for one.
fn counted(count: impl Into<u64>, name: &str) -> String {
    match count.into() {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn indented(text: &str, target: Target<'_>) -> Written {
    text.lines()
        .try_for_each(|line| writeln!(target, "  {line}"))
}
