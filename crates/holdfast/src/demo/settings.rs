//! What a demo is to be, from what it is told now and was told at its first start.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use holdfast_control::VolumeSize;
use holdfast_model::{ByteSize, Policy};
use holdfast_stdx::Count;
use holdfast_store::{FormatConfig, device_bytes_min};

use super::DemoOptions;
use super::claim::Marker;
use super::layout::{Layout, MetadataKind, NODES_MAX};
use crate::cli::{VolumeSpec, usage};
use crate::failure::Failure;

/// Machines of a first start, unless it is told how many nodes.
const MACHINES_DEFAULT: u16 = 3;
/// The volume of a first start, unless it is told.
const VOLUME_DEFAULT: &str = "demo:4GiB:mirror2";
/// The size of each node's device, unless it is told at the first start.
const DEVICE_SIZE_DEFAULT: ByteSize = ByteSize(16 << 30);

/// What is to be started, all of it decided.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) layout: Layout,
    pub(crate) device_bytes: u64,
    pub(crate) volumes: Vec<VolumeSpec>,
}

/// Ends the process if the options make no sense by themselves.
pub(crate) fn check(options: &DemoOptions) {
    let invalid = |what: &str| usage(Some("demo"), ErrorKind::ValueValidation, what);
    if let (Some(nodes), Some(each)) = (options.nodes, options.nodes_per_machine)
        && let Err(what) = check_machines(nodes, each)
    {
        invalid(&what);
    }
    for (place, volume) in options.volumes.iter().enumerate() {
        if options.volumes[..place]
            .iter()
            .any(|other| other.name == volume.name)
        {
            invalid(&format!("volume {} is named twice", volume.name));
        }
        // Without a number of nodes, a demo that is there already may have enough; and as many on a machine as were told then.
        let nodes = options.nodes.unwrap_or(NODES_MAX);
        if let Err(what) = check_policy(volume, nodes, options.nodes_per_machine.unwrap_or(1)) {
            invalid(&what);
        }
    }
    if options.etcd.is_some() && options.metadata == Some(MetadataKind::Embedded) {
        invalid("--etcd names a program that --metadata embedded does not need");
    }
    let most = options.nodes.unwrap_or(1);
    let metadata = options.metadata.unwrap_or_default();
    if let Err(what) = Layout::check_ports(options.portal_port, options.api_port, most, metadata) {
        invalid(&what);
    }
}

/// Whether nodes are as many on each machine.
fn check_machines(nodes: u16, each: u16) -> Result<(), String> {
    if nodes > NODES_MAX {
        return Err(format!(
            "--nodes-per-machine {each}: {nodes} nodes on {} are more than {NODES_MAX}\n\n\
             hint: --nodes {} has fewer machines",
            Count::of(nodes / each, "machine"),
            NODES_MAX / each * each
        ));
    }
    if nodes.is_multiple_of(each) {
        return Ok(());
    }
    let fewer = nodes / each * each;
    let more = fewer + each;
    let those = [fewer, more].into_iter();
    let those = those.filter(|it| (1..=NODES_MAX).contains(it));
    let those: Vec<String> = those.map(|it| format!("--nodes {it}")).collect();
    Err(format!(
        "--nodes {nodes}: machines of {each} nodes each cannot have so many\n\nhint: {} fits",
        those.join(" or ")
    ))
}

/// Whether so many nodes are enough, with so many on each machine.
fn check_policy(volume: &VolumeSpec, nodes: u16, each: u16) -> Result<(), String> {
    let VolumeSpec { name, policy, .. } = volume;
    let machines = nodes / each;
    if policy.copies() <= usize::from(machines) {
        return Ok(());
    }
    let fits = Policy::ALL
        .into_iter()
        .rev()
        .find(|policy| policy.copies() <= usize::from(machines));
    let fits = fits.expect("one machine is enough for no protection");
    let wanted = policy.copies() * usize::from(each);
    let more = if wanted <= usize::from(NODES_MAX) {
        format!("--nodes {wanted} makes more; ")
    } else {
        String::new()
    };
    let (what, there) = match each {
        1 => ("nodes", nodes.to_string()),
        _ => ("machines", format!("{machines}, of {each} nodes each")),
    };
    Err(format!(
        "volume {name}: policy {policy} needs {} {what}, and there are {there}\n\n\
         hint: {more}--volume {name}:{}:{fits} needs fewer",
        policy.copies(),
        ByteSize(volume.size.bytes()),
    ))
}

pub(crate) fn volume_default() -> VolumeSpec {
    let spec: VolumeSpec = VOLUME_DEFAULT.parse().expect("the default is a volume");
    assert!(
        VolumeSize::new(spec.size.bytes()).is_ok(),
        "the default has a size"
    );
    spec
}

/// What is to be started, from what was told now and at the first start.
pub(crate) fn settle(
    options: &DemoOptions,
    directory: &Path,
    kept: Option<&Marker>,
) -> Result<Settings, Failure> {
    let invalid = |what: &str| usage(Some("demo"), ErrorKind::ValueValidation, what);
    let each = settle_nodes_per_machine(options, directory, kept)?;
    let nodes = match (options.nodes, kept) {
        (Some(nodes), Some(kept)) if nodes < kept.nodes => {
            return Err(Failure::new(format!(
                "the demo in {} has {} nodes, and nodes cannot be taken away",
                directory.display(),
                kept.nodes
            ))
            .hint(format!(
                "leave --nodes out, or begin anew with --fresh --nodes {nodes}"
            )));
        }
        (Some(nodes), _) => nodes,
        (None, Some(kept)) => kept.nodes,
        (None, None) => MACHINES_DEFAULT * each,
    };
    if let Err(what) = check_machines(nodes, each) {
        invalid(&what);
    }
    let device_bytes = match (options.device_size, kept) {
        (Some(ByteSize(bytes)), Some(kept)) if bytes != kept.device_bytes => {
            return Err(Failure::new(format!(
                "the demo in {} has devices of {}, and their size cannot be changed",
                directory.display(),
                ByteSize(kept.device_bytes)
            ))
            .hint("leave --device-size out, or begin anew with --fresh"));
        }
        (Some(ByteSize(bytes)), _) => bytes,
        (None, Some(kept)) => kept.device_bytes,
        (None, None) => DEVICE_SIZE_DEFAULT.0,
    };
    let metadata = settle_metadata(options, directory, kept)?;
    let (portal, api) = (options.portal_port, options.api_port);
    if let Err(what) = Layout::check_ports(portal, api, nodes, metadata) {
        invalid(&what);
    }
    let bytes_min = device_bytes_min(&FormatConfig::default());
    if device_bytes < bytes_min {
        invalid(&format!(
            "--device-size {}: a device needs at least {}",
            ByteSize(device_bytes),
            ByteSize(bytes_min)
        ));
    }
    let mut volumes = options.volumes.clone();
    if volumes.is_empty() && kept.is_none() {
        volumes.push(volume_default());
    }
    for volume in &volumes {
        if let Err(what) = check_policy(volume, nodes, each) {
            invalid(&what);
        }
    }
    let layout = Layout::new(directory, nodes, portal, api).grouping(each);
    let layout = layout.keeping(metadata, options.etcd.clone());
    let layout = layout.caching(options.cache.0).insecure(options.insecure);
    Ok(Settings {
        layout,
        device_bytes,
        volumes,
    })
}

/// How many nodes are on each machine.
fn settle_nodes_per_machine(
    options: &DemoOptions,
    directory: &Path,
    kept: Option<&Marker>,
) -> Result<u16, Failure> {
    match (options.nodes_per_machine, kept) {
        // It would be another machine for most nodes, and others for all that they hold.
        (Some(each), Some(kept)) if each != kept.nodes_per_machine => Err(Failure::new(format!(
            "the demo in {} has {} on each machine, and that cannot be changed",
            directory.display(),
            Count::of(kept.nodes_per_machine, "node")
        ))
        .hint(format!(
            "leave --nodes-per-machine out, or begin anew with --fresh --nodes-per-machine {each}"
        ))),
        (Some(each), _) => Ok(each),
        (None, Some(kept)) => Ok(kept.nodes_per_machine),
        (None, None) => Ok(1),
    }
}

/// What keeps the metadata.
fn settle_metadata(
    options: &DemoOptions,
    directory: &Path,
    kept: Option<&Marker>,
) -> Result<MetadataKind, Failure> {
    let metadata = match (options.metadata, kept) {
        (Some(wanted), Some(kept)) if wanted != kept.metadata => {
            return Err(Failure::new(format!(
                "the demo in {} has its metadata in the store {}, and that cannot be changed",
                directory.display(),
                kept.metadata
            ))
            .hint(format!(
                "leave --metadata out, or begin anew with --fresh --metadata {wanted}"
            )));
        }
        (Some(wanted), _) => wanted,
        (None, Some(kept)) => kept.metadata,
        (None, None) => MetadataKind::default(),
    };
    match &options.etcd {
        Some(program) if metadata == MetadataKind::Embedded => Err(Failure::new(format!(
            "--etcd {}: the demo keeps its metadata by itself",
            program.display()
        ))
        .hint("--metadata etcd has an etcd keep it")),
        Some(program) if program.is_relative() => Err(Failure::new(format!(
            "--etcd {}: is not an absolute path",
            program.display()
        ))),
        _ => Ok(metadata),
    }
}

pub(crate) fn default_directory() -> Result<PathBuf, Failure> {
    let absolute = |variable: &str| {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("holdfast/demo"))
        .ok_or_else(|| {
            Failure::new("neither XDG_STATE_HOME nor HOME says where the state is to be kept")
                .hint("name a directory with --dir")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_needs_more_nodes_is_told_with_a_way_out() {
        let volume = volume_default();
        assert_eq!(check_policy(&volume, 2, 1), Ok(()));
        let what = check_policy(&volume, 1, 1).unwrap_err();
        assert!(
            what.contains("mirror2 needs 2 nodes, and there are 1"),
            "{what}"
        );
        assert!(what.contains("--nodes 2 makes more"), "{what}");
        assert!(what.contains("--volume demo:4GiB:none"), "{what}");
    }

    #[test]
    fn copies_need_machines_and_not_nodes() {
        let volume = volume_default();
        assert_eq!(check_policy(&volume, 4, 2), Ok(()));
        let what = check_policy(&volume, 2, 2).unwrap_err();
        let told = "mirror2 needs 2 machines, and there are 1, of 2 nodes each";
        assert!(what.contains(told), "{what}");
        assert!(what.contains("--nodes 4 makes more"), "{what}");
        // There is no demo of eight nodes.
        let what = check_policy(&volume, 4, 4).unwrap_err();
        assert!(!what.contains("makes more"), "{what}");
        assert!(what.contains("--volume demo:4GiB:none"), "{what}");
    }

    #[test]
    fn machines_have_as_many_nodes_each() {
        for (nodes, each) in [(7, 1), (6, 2), (6, 3), (7, 7)] {
            assert_eq!(check_machines(nodes, each), Ok(()));
        }
        for (nodes, each, hint) in [
            (5, 2, "--nodes 4 or --nodes 6 fits"),
            (1, 2, "hint: --nodes 2 fits"),
            (7, 3, "hint: --nodes 6 fits"),
            (9, 3, "--nodes 6 has fewer machines"),
            (12, 4, "--nodes 4 has fewer machines"),
        ] {
            let what = check_machines(nodes, each).unwrap_err();
            assert!(what.contains(hint), "{what}");
        }
    }
}
