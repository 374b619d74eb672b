//! `holdfast inspect`: what a node's devices hold, read without the node.
//!
//! It refuses to change anything. What it says of the journal is what the node's own recovery finds;
//! what cannot be read is named with its place, and the rest is looked at all the same.
//!
//! Invariants:
//! - memory is bounded, whatever a device holds and however large it is;
//! - no bytes on a device end this with anything but a report or an error.

mod damage;
mod device;
mod document;
mod journal;
mod pages;
mod places;
mod progress;
mod records;
mod report;
mod source;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::error::ErrorKind;
use holdfast_format::{FORMAT_VERSION, layout};
use holdfast_model::{PAGES_PER_SLICE, PageIndex, SliceId, VolumeId};
use serde::Serialize;

use crate::cli::usage;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) use self::report::report;

use self::device::Device;
use self::document::{FailedPath, LayoutDocument, StoreReport};
use self::progress::Progress;
use self::records::Records;
use self::source::Source;
use self::store::StoreLook;

/// What to look at.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "holdfast inspect [superblock|journal|slots] <PATH>... [OPTIONS]\n       \
                      holdfast inspect layout",
    after_help = "Nothing is written, and a device that is in use is looked at with a warning. \
                  The exit code is 0 also if there is damage: the last lines, or \"sound\" in the \
                  JSON value, tell."
)]
pub(crate) struct InspectArguments {
    /// Devices: files or block devices, or copies of them. A node's node.toml, or the directory of a
    /// node that has run, stands for all of the node's devices. Before them may stand what to look
    /// at, if not at everything; layout alone prints the sizes and offsets of all structures
    #[arg(required = true, value_name = "PATH")]
    words: Vec<PathBuf>,
    /// Where the pages of this slice are, for example v1/0
    #[arg(long, value_parser = slice)]
    slice: Option<SliceId>,
    /// This page of the slice only, with its blocks
    #[arg(long, value_name = "NUMBER", requires = "slice",
          value_parser = clap::value_parser!(u32).range(..i64::from(PAGES_PER_SLICE)))]
    page: Option<u32>,
    /// Every segment of the journal
    #[arg(long)]
    segments: bool,
    /// Every record in the journal; with --slice, those of the slice
    #[arg(long)]
    records: bool,
    /// Read all pages and hold their blocks against their checksums
    #[arg(long)]
    verify: bool,
}

/// Which part of a store is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    All,
    Superblock,
    Journal,
    Slots,
}

impl Section {
    fn named(word: &Path) -> Option<Self> {
        match word.to_str() {
            Some("superblock") => Some(Self::Superblock),
            Some("journal") => Some(Self::Journal),
            Some("slots") => Some(Self::Slots),
            _ => None,
        }
    }

    fn has_journal(self) -> bool {
        self != Self::Superblock
    }

    fn has_table(self) -> bool {
        matches!(self, Self::All | Self::Slots)
    }
}

/// What is asked for, all of it decided.
#[derive(Clone, Debug)]
struct Options {
    section: Section,
    paths: Vec<PathBuf>,
    slice: Option<SliceId>,
    page: Option<PageIndex>,
    segments: bool,
    records: bool,
    verify: bool,
}

/// What an inspection says to programs.
#[derive(Serialize)]
struct Document<'a> {
    stores: Vec<StoreDocument<'a>>,
    failed: &'a [FailedPath],
}

#[derive(Serialize)]
struct StoreDocument<'a> {
    #[serde(flatten)]
    report: &'a StoreReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Records<'a>>,
}

pub(crate) fn run(arguments: &InspectArguments, output: &Output) -> Result<(), Failure> {
    if arguments.words == [Path::new("layout")] {
        return print_layout(output);
    }
    let options = decide(arguments);
    let (stores, failed) = look(&options, output);
    if stores.is_empty() && failed.len() == 1 {
        return Err(failed
            .into_iter()
            .map(|failed| failed.problem.into())
            .next()
            .expect("one"));
    }
    let document = Document {
        stores: stores
            .iter()
            .map(|store| StoreDocument {
                report: &store.report,
                records: records(store, &options),
            })
            .collect(),
        failed: &failed,
    };
    output.document(&document, |target| {
        for (store, place) in stores.iter().zip(0..) {
            if place > 0 {
                writeln!(target)?;
            }
            text::write(&store.report, options.section, target)?;
            if let Some(records) = records(store, &options) {
                records.write(target)?;
            }
        }
        Ok(())
    })?;
    match failed.into_iter().next() {
        None => miss(&stores, options.slice, output),
        Some(failed) => Err(Failure::from(failed.problem).told()),
    }
}

/// The slice that is asked for has to be somewhere; where something is missing or damaged, perhaps there.
fn miss(stores: &[StoreLook], wanted: Option<SliceId>, output: &Output) -> Result<(), Failure> {
    let Some(slice) = wanted.filter(|slice| !stores.iter().any(|store| store.report.shows(*slice)))
    else {
        return Ok(());
    };
    if !stores.iter().all(|store| store.report.shows_all()) {
        output.talk(&format!(
            "nothing that can be read here is of slice {slice}"
        ));
        return Ok(());
    }
    let failure = Failure::new(format!("there is nothing of slice {slice} here")).hint(
        "without --slice every slice is shown; `holdfast volume show` tells a volume's number",
    );
    Err(failure.told_on_stdout())
}

fn print_layout(output: &Output) -> Result<(), Failure> {
    let document = LayoutDocument {
        format_version: FORMAT_VERSION,
        structures: layout::structures().into_iter().map(Into::into).collect(),
    };
    output.result(&document, layout::layout)
}

/// What is asked for; ends the process if that makes no sense.
fn decide(arguments: &InspectArguments) -> Options {
    let mut paths = arguments.words.clone();
    let first = paths.first().expect("a path is required");
    let conflict = |what: &str| usage(Some("inspect"), ErrorKind::ArgumentConflict, what);
    if first == Path::new("layout") {
        conflict("layout goes with no PATH: `holdfast inspect superblock PATH` shows the regions");
    }
    let section = Section::named(first);
    if section.is_some() {
        paths.remove(0);
    }
    if paths.is_empty() {
        usage(
            Some("inspect"),
            ErrorKind::MissingRequiredArgument,
            "no PATH is given",
        );
    }
    let section = section.unwrap_or(Section::All);
    if !section.has_journal() && (arguments.records || arguments.segments) {
        conflict("--records and --segments look at the journal, not at the superblock");
    }
    if !section.has_table() && (arguments.verify || arguments.page.is_some()) {
        conflict("--verify and --page look at slots: name no part, or slots");
    }
    if section == Section::Superblock && arguments.slice.is_some() {
        conflict("--slice looks at slots and the journal, not at the superblock");
    }
    Options {
        section,
        paths,
        slice: arguments.slice,
        page: arguments.page.map(PageIndex),
        segments: arguments.segments,
        records: arguments.records,
        verify: arguments.verify,
    }
}

fn look(options: &Options, output: &Output) -> (Vec<StoreLook>, Vec<FailedPath>) {
    let mut failed = Vec::new();
    let mut fail = |path: &Path, failure: &Failure| {
        failed.push(FailedPath {
            path: path.display().to_string(),
            problem: failure.problem().clone(),
        });
    };
    let mut devices: Vec<Device> = Vec::new();
    for path in &options.paths {
        let places = match places::devices(path) {
            Ok(places) => places,
            Err(failure) => {
                fail(path, &failure);
                continue;
            }
        };
        for place in places {
            match Source::open(&place).and_then(Device::read) {
                Ok(device) => devices.push(device),
                Err(failure) => fail(&place, &failure),
            }
        }
    }
    if failed.len() > 1 || !devices.is_empty() {
        for failed in &failed {
            let failure = Failure::from(failed.problem.clone());
            output.talk(&format!("error: {failure}\n"));
        }
    }
    let progress = Progress::new(*output);
    let stores = store::group(devices)
        .into_iter()
        .map(|devices| {
            for device in &devices {
                warn_of_use(device, output);
            }
            let look = StoreLook::look(devices, options, &progress);
            look.warn_of_later_use(output);
            look
        })
        .collect();
    (stores, failed)
}

fn warn_of_use(device: &Device, output: &Output) {
    if let Some(in_use) = device.in_use {
        output.talk(&format!(
            "warning: {} is in use{}: what is read changes meanwhile, and may look damaged \
             without being so; for certainty stop the node, or look at a copy",
            device.source.path().display(),
            text::by(in_use)
        ));
    }
}

fn records<'a>(store: &'a StoreLook, options: &Options) -> Option<Records<'a>> {
    let (device, chains) = store.journal()?;
    options.records.then_some(Records {
        device,
        chains,
        slice: options.slice,
    })
}

/// A slice as it is written everywhere: the volume's number and the slice's, with or without "v".
fn slice(text: &str) -> Result<SliceId, String> {
    let numbers = text.strip_prefix('v').unwrap_or(text).split_once('/');
    let parsed = numbers.and_then(|(volume, index)| {
        Some(SliceId {
            volume: VolumeId(volume.parse().ok()?),
            index: index.parse().ok()?,
        })
    });
    parsed.ok_or_else(|| "a slice is VOLUME/INDEX, for example v1/0".to_owned())
}

/// Where text for people goes.
type Target<'a> = &'a mut dyn Write;
type Written = io::Result<()>;
