//! By what hosts know that two paths lead to one disk, and that two disks are two.

use holdfast_lab::Lun;
use holdfast_stdx::Count;

use crate::bench::{A, Bench, Way};
use crate::check::HostKind::{Multipath, Pacemaker, Vmware, Windows};
use crate::check::{Check, Checked, FINE, Group, Unmet, ensure, failed, fine, warn};
use crate::command;
use crate::parse::identification::{self, Identification};
use crate::parse::inquiry::Standard;
use crate::parse::{lists, pages};
use crate::words::{hexadecimal, printable};

const GROUP: Group = Group::Identity;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "identity.inquiry",
        group: GROUP,
        title: "Every path says that it leads to a disk of one make",
        does: "Reads standard INQUIRY data through every path, and compares it",
        clause: "SPC-4 6.4.2",
        consequence: "Hosts choose multipathing rules by vendor and product: with different ones paths are not joined",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(inquiry(bench)),
    },
    Check {
        id: "identity.pages",
        group: GROUP,
        title: "All vital product data pages that are named are there",
        does: "Reads page 00h through every path, then every page that it names",
        clause: "SPC-4 7.8.15",
        consequence: "Windows: validation of vital product data fails without page 83h; Linux: paths get no WWID",
        required_by: &[Windows, Vmware, Multipath],
        run: |bench| Box::pin(supported_pages(bench)),
    },
    Check {
        id: "identity.serial",
        group: GROUP,
        title: "The serial number is the same through every path",
        does: "Reads page 80h through every path, and compares it",
        clause: "SPC-4 7.8.17",
        consequence: "Windows: MPIO takes paths for different disks; tools find the wrong disk",
        required_by: &[Windows],
        run: |bench| Box::pin(serial(bench)),
    },
    Check {
        id: "identity.designators",
        group: GROUP,
        title: "One unique identifier is the same through every path",
        does: "Reads page 83h through every path, looks for an NAA, EUI-64 or SCSI name of the unit, and compares",
        clause: "SPC-4 7.8.6; NAA: 7.8.6.6",
        consequence: "Windows: cluster validation (vital product data, MPIO) fails; VMware: two datastores; Linux: no multipath map",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(designators(bench)),
    },
    Check {
        id: "identity.ports",
        group: GROUP,
        title: "Paths to different ports say so",
        does: "Compares relative target port identifiers and target port groups of page 83h over all paths",
        clause: "SPC-4 7.8.6.7, 7.8.6.8",
        consequence: "Hosts that go by target port groups send commands over the wrong path, or to a port that is gone",
        required_by: &[],
        run: |bench| Box::pin(ports(bench)),
    },
    Check {
        id: "identity.units",
        group: GROUP,
        title: "Other units of the target have other identifiers",
        does: "Asks REPORT LUNS, and compares the identifiers of up to 16 units",
        clause: "SPC-4 7.8.6.1, 6.33",
        consequence: "Two disks are taken for two paths of one, and data is written to the wrong one",
        required_by: &[Windows, Vmware, Pacemaker, Multipath],
        run: |bench| Box::pin(units(bench)),
    },
];

/// Other units that are asked.
const UNITS_MAX: usize = 16;

async fn inquiry(bench: &mut Bench) -> Checked {
    let mut first: Option<Standard> = None;
    for way in bench.ways(A) {
        let label = bench.nexus(way).label();
        let standard = Standard::parse(&bench.inquiry(way, None).await?)?;
        ensure(
            (standard.qualifier, standard.kind) == (0, 0),
            format!("{label}: a disk that is connected (qualifier 0, type 0)"),
            || format!("qualifier {}, type {}", standard.qualifier, standard.kind),
        )?;
        ensure(
            standard.version >= 5 && standard.queues,
            format!("{label}: SPC-3 or later, with command queuing"),
            || format!("VERSION {}, CMDQUE {}", standard.version, standard.queues),
        )?;
        match &first {
            None => first = Some(standard),
            Some(first) => ensure(
                *first == standard,
                format!("{label}: the same as through the first path"),
                || format!("{first:?} and {standard:?}"),
            )?,
        }
    }
    let Some(Standard {
        vendor, product, ..
    }) = first
    else {
        return FINE;
    };
    fine(format!("{vendor} {product}"))
}

async fn supported_pages(bench: &mut Bench) -> Checked {
    let mut all = Vec::new();
    for way in bench.ways(A) {
        let label = bench.nexus(way).label().to_owned();
        let listed = pages::supported(&bench.inquiry(way, Some(0)).await?)?;
        for needed in [0x00, 0x80, 0x83] {
            ensure(
                listed.contains(&needed),
                format!("{label}: page 00h names page {needed:02X}h"),
                || format!("it names {}", hexadecimal(&listed)),
            )?;
        }
        ensure(
            listed.is_sorted_by(|one, other| one < other),
            format!("{label}: page 00h names pages in ascending order"),
            || hexadecimal(&listed),
        )?;
        for page in &listed {
            let data = bench.inquiry(way, Some(*page)).await?;
            pages::content(&data, *page)?;
        }
        all = listed;
    }
    let all: Vec<String> = all.iter().map(|page| format!("{page:02X}h")).collect();
    fine(format!("pages {}", all.join(", ")))
}

async fn serial(bench: &mut Bench) -> Checked {
    let mut first: Option<Vec<u8>> = None;
    for way in bench.ways(A) {
        let label = bench.nexus(way).label();
        let serial = pages::serial(&bench.inquiry(way, Some(0x80)).await?)?;
        let is_printable = serial.iter().all(|byte| matches!(byte, b' '..=b'~'));
        ensure(
            is_printable && !serial.trim_ascii().is_empty(),
            format!("{label}: a serial number of printing characters"),
            || format!("{:?}", printable(&serial)),
        )?;
        let first = first.get_or_insert_with(|| serial.clone());
        ensure(
            *first == serial,
            format!("{label}: serial number {}", printable(first)),
            || printable(&serial),
        )?;
    }
    fine(printable(&first.unwrap_or_default()))
}

/// What a path says that the unit is called.
pub(super) async fn identification(bench: &Bench, way: Way) -> Result<Identification, Unmet> {
    let data = bench.inquiry(way, Some(0x83)).await?;
    Ok(Identification::parse(&data)?)
}

async fn designators(bench: &mut Bench) -> Checked {
    let mut first: Option<(u8, Vec<u8>)> = None;
    for way in bench.ways(A) {
        let label = bench.nexus(way).label();
        let parsed = identification(bench, way).await?;
        if let Some(naa) = parsed.unit(identification::NAA) {
            ensure(
                identification::is_sound_naa(naa),
                format!("{label}: an NAA of format 2, 3 or 5 with 8 bytes, or 6 with 16"),
                || hexadecimal(naa),
            )?;
        }
        let Some((kind, value)) = parsed.best() else {
            return Err(failed(
                format!("{label}: an NAA, EUI-64 or SCSI name of the unit"),
                "page 83h has none",
            ));
        };
        let (first_kind, first_value) = first.get_or_insert_with(|| (kind, value.to_vec()));
        ensure(
            (*first_kind, first_value.as_slice()) == (kind, value),
            format!("{label}: the identifier {}", hexadecimal(first_value)),
            || hexadecimal(value),
        )?;
    }
    match first {
        Some((identification::T10, _)) => {
            warn("the unit has a T10 identifier only: VMware and Windows prefer an NAA")
        }
        Some((_, value)) => fine(hexadecimal(&value)),
        None => FINE,
    }
}

async fn ports(bench: &mut Bench) -> Checked {
    let standard = Standard::parse(&bench.inquiry((A, 0), None).await?)?;
    let mut ports = Vec::new();
    for way in bench.ways(A) {
        let label = bench.nexus(way).label().to_owned();
        let parsed = identification(bench, way).await?;
        ensure(
            standard.port_groups == 0 || parsed.port_group().is_some(),
            format!("{label}: a target port group, as TPGS is not zero"),
            || "page 83h has none".to_owned(),
        )?;
        match parsed.relative_port() {
            // Without groups nothing refers to ports.
            None if standard.port_groups == 0 => {
                return warn("page 83h has no relative target port identifiers");
            }
            None | Some(0) => {
                return Err(failed(
                    format!("{label}: a relative target port identifier from 1 on"),
                    format!("{:?}", parsed.relative_port()),
                ));
            }
            Some(port) => ports.push(port),
        }
    }
    let (note, count) = (format!("ports {ports:?}"), ports.len());
    ports.sort_unstable();
    ports.dedup();
    match ports.len() == count {
        true => fine(note),
        // One port may listen at several addresses.
        false => warn(format!("several portals are one target port: {note}")),
    }
}

async fn units(bench: &mut Bench) -> Checked {
    let nexus = bench.nexus((A, 0));
    let listed = nexus
        .good(command::report_luns(bench.lun, 16 << 10))
        .await?;
    let listed = lists::luns(&listed)?;
    let own = bench.lun.to_bytes();
    ensure(
        listed.contains(&own),
        "REPORT LUNS names the unit that is checked",
        || format!("{} units, and not this one", listed.len()),
    )?;
    let this = identification(bench, (A, 0)).await?;
    let this = this.best().map(|(kind, value)| (kind, value.to_vec()));
    let others = listed.iter().filter(|other| **other != own);
    let mut compared = 0_u32;
    for other in others.take(UNITS_MAX) {
        let lun = Lun::from_bytes(*other);
        // Another unit may be one that has no such page, or is no disk.
        let answer = nexus.ask(command::inquiry(lun, Some(0x83))).await?;
        if !answer.is_good() {
            continue;
        }
        let parsed = Identification::parse(&answer.data)?;
        let same = parsed.best().map(|(kind, value)| (kind, value.to_vec())) == this;
        ensure(
            !same || this.is_none(),
            format!("unit {} has an identifier of its own", hexadecimal(other)),
            || "it has the one of the unit that is checked".to_owned(),
        )?;
        compared += 1;
    }
    match compared {
        0 => Err(Unmet::NotApplicable(
            "the target has no other unit that says who it is".to_owned(),
        )),
        count => fine(Count::of(count, "other unit").to_string()),
    }
}
