//! What a demo is to be, from what it is told now and was told at its first start.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use holdfast_control::VolumeSize;
use holdfast_model::{ByteSize, Policy};
use holdfast_store::{FormatConfig, device_bytes_min};

use super::DemoOptions;
use super::claim::Marker;
use super::layout::{Layout, MetadataKind, NODES_MAX};
use crate::cli::{VolumeSpec, usage};
use crate::failure::Failure;

/// Nodes of a first start, unless it is told.
const NODES_DEFAULT: u16 = 3;
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
    for (place, volume) in options.volumes.iter().enumerate() {
        if options.volumes[..place]
            .iter()
            .any(|other| other.name == volume.name)
        {
            invalid(&format!("volume {} is named twice", volume.name));
        }
        // Without a number of nodes, a demo that is there already may have enough.
        let nodes = options.nodes.unwrap_or(NODES_MAX);
        if let Err(what) = check_policy(volume, nodes) {
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

/// Whether so many nodes are enough.
fn check_policy(volume: &VolumeSpec, nodes: u16) -> Result<(), String> {
    let VolumeSpec { name, policy, .. } = volume;
    if policy.copies() <= usize::from(nodes) {
        return Ok(());
    }
    let fits = Policy::ALL
        .into_iter()
        .rev()
        .find(|policy| policy.copies() <= usize::from(nodes));
    let fits = fits.expect("one node is enough for no protection");
    Err(format!(
        "volume {name}: policy {policy} needs {} nodes, and there are {nodes}\n\n\
         hint: --nodes {} makes more; --volume {name}:{}:{fits} needs fewer",
        policy.copies(),
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
        (None, None) => NODES_DEFAULT,
    };
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
    let invalid = |what: &str| usage(Some("demo"), ErrorKind::ValueValidation, what);
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
        if let Err(what) = check_policy(volume, nodes) {
            invalid(&what);
        }
    }
    let layout = Layout::new(directory, nodes, portal, api);
    let layout = layout.keeping(metadata, options.etcd.clone());
    let layout = layout.caching(options.cache.0);
    Ok(Settings {
        layout,
        device_bytes,
        volumes,
    })
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
        assert_eq!(check_policy(&volume, 2), Ok(()));
        let what = check_policy(&volume, 1).unwrap_err();
        assert!(
            what.contains("mirror2 needs 2 nodes, and there are 1"),
            "{what}"
        );
        assert!(what.contains("--volume demo:4GiB:none"), "{what}");
    }
}
