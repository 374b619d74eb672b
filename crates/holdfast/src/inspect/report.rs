//! What a node's devices tell of the metadata: the report for `holdfast recover`.
//!
//! It refuses what an inspection only warns of: a report of devices that are in use, or of some of a
//! store's devices, may lack what was written last.

use std::path::Path;

use holdfast_model::report::NodeReport;

use super::damage::Damages;
use super::device::Device;
use super::progress::Progress;
use super::source::{InUse, Source};
use super::{journal, places, store, text};
use crate::failure::Failure;
use crate::output::Output;

/// Reads the devices that `paths` stand for, all of one node.
pub(crate) fn report<'a>(
    paths: impl Iterator<Item = &'a Path>,
    output: &Output,
) -> Result<NodeReport, Failure> {
    let mut devices = Vec::new();
    for path in paths {
        for place in places::devices(path)? {
            let source = Source::open(&place)?;
            let released = source.wait_for_release();
            released.map_err(|in_use| is_in_use(&source, in_use))?;
            devices.push(Device::read(source)?);
        }
    }
    let mut stores = store::group(devices);
    if stores.len() != 1 {
        return Err(
            Failure::new("these are devices of several nodes, or copies of each other")
                .hint("read each node by itself, with all of its devices"),
        );
    }
    let devices = stores.remove(0);
    let carrier = store::carrier(&devices);
    let first = &carrier.unwrap_or(&devices[0]).superblock;
    let are_all = devices.len() == usize::from(first.device_count);
    let Some(carrier) = carrier.filter(|_| are_all) else {
        return Err(Failure::new(format!(
            "node {} has {} devices, {} of them are given here",
            first.node,
            first.device_count,
            devices.len()
        ))
        .hint("name all of the node's devices, or its node.toml"));
    };
    let mut damages = Damages::default();
    let look = journal::look(carrier, &mut damages, &Progress::new(*output));
    for damage in &damages.listed {
        output.talk(&format!("warning: {}: {}", damage.path, damage.what));
    }
    let Some(look) = look else {
        return Err(
            Failure::new("the node's journal cannot be read").hint("`holdfast inspect` tells more")
        );
    };
    let mut sources = devices.iter().map(|device| &device.source);
    if let Some((source, in_use)) = sources.find_map(|it| Some((it, it.in_use()?))) {
        return Err(is_in_use(source, in_use));
    }
    let slices = look.surveyed.slices.iter();
    let slices = slices.map(|(slice, found)| (*slice, found.recovered.clone()));
    let identity = (first.cluster, first.node, first.store);
    let mut report = holdfast_engine::report(identity, first.use_counter, &slices.collect());
    report.has_hole |= look.surveyed.has_holes();
    Ok(report)
}

fn is_in_use(source: &Source, in_use: InUse) -> Failure {
    let path = source.path().display();
    Failure::new(format!("{path} is in use{}", text::by(in_use)))
        .hint("stop the node first: what is read while it runs may not be all that it knows")
}
