//! From the paths on the command line to devices: a device is itself, a node's directory or its
//! node.toml stands for all of the node's devices, a demo's directory for those of all its nodes.
//!
//! Which devices have left and which came later, the node's directory says, as it does to a start of the node.
//!
//! Invariant: what lies in a copy of a node's directory is taken from the copy, although the
//! configuration names the original; where no configuration tells the two apart, it is refused.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_node::config::NodeConfig;
use holdfast_node::{DEVICES_FILE, device_paths, noted_device_paths};

use crate::failure::Failure;

/// The configuration in a node's directory.
const CONFIG_FILE: &str = "node.toml";
/// Directories of nodes that are looked at in a directory that is not itself one.
const NODES_MAX: usize = 64;

/// The devices that `path` stands for.
pub(crate) fn devices(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = fs::metadata(path).map_err(|error| {
        Failure::new(format!("look at {}: {error}", path.display()))
            .hint("name a node's device, its directory, or its node.toml")
    })?;
    if found.is_dir() {
        let config = path.join(CONFIG_FILE);
        if config.is_file() {
            return of_node(&config);
        }
        let nodes = nodes_in(path);
        if nodes.is_empty() {
            return of_directory(path);
        }
        let mut devices = Vec::new();
        for config in nodes {
            devices.extend(of_node(&config)?);
        }
        return Ok(devices);
    }
    if found.is_file()
        && path
            .extension()
            .is_some_and(|extension| extension == "toml")
    {
        return of_node(path);
    }
    Ok(vec![path.to_owned()])
}

/// The configurations of the nodes whose directories are in `directory`, in the order of names.
fn nodes_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut configs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join(CONFIG_FILE)))
        .filter(|config| config.is_file())
        .take(NODES_MAX)
        .collect();
    configs.sort();
    configs
}

/// The devices of the node whose configuration is elsewhere, as far as its directory knows them.
fn of_directory(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let devices = noted_device_paths(directory, Path::exists);
    if devices.is_empty() {
        let path = directory.display();
        let what = format!(
            "{path} is a directory without {CONFIG_FILE}, and no node has noted its devices in it"
        );
        return Err(Failure::new(what).hint("name the node's node.toml, or all of its devices"));
    }
    for device in &devices {
        if let Some(other) = copy_of(device, directory) {
            return Err(Failure::new(format!(
                "{} may be a copy: the device {} that it names is not the {} in it",
                directory.display(),
                device.display(),
                other.display()
            ))
            .hint("name the devices that you mean themselves"));
        }
    }
    Ok(devices)
}

/// What is in `directory` as a device is in some other one, if anything.
fn copy_of(device: &Path, directory: &Path) -> Option<PathBuf> {
    let original = fs::canonicalize(device).ok();
    let mut inside = device.components();
    while inside.next().is_some() && !inside.as_path().as_os_str().is_empty() {
        let here = directory.join(inside.as_path());
        let there = fs::canonicalize(&here).ok();
        if there.is_some() {
            return (there != original).then_some(here);
        }
    }
    None
}

fn of_node(config: &Path) -> Result<Vec<PathBuf>, Failure> {
    let node = NodeConfig::read(config).map_err(|error| {
        Failure::new(error).hint("name the node's devices themselves, or mend its configuration")
    })?;
    // A configuration is in the node's directory or a copy of it, or elsewhere.
    let beside = config.parent().unwrap_or(Path::new("."));
    let directory = if beside.join(DEVICES_FILE).exists() {
        beside
    } else {
        &node.directory
    };
    let place = |device: &Path| place(&node.directory, beside, device);
    let devices = device_paths(&node, directory, |device| place(device).exists());
    Ok(devices.iter().map(|device| place(device)).collect())
}

/// Where a device is that the configuration calls `device`, in a directory that it calls `named`
/// and that was found at `found`.
fn place(named: &Path, found: &Path, device: &Path) -> PathBuf {
    let copied = device.strip_prefix(named).map(|inside| found.join(inside));
    match copied {
        Ok(copied) if copied.exists() => copied,
        _ => device.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_node::DEVICES_FILE;

    use super::*;

    #[test]
    fn a_copy_of_a_directory_stands_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path();
        fs::write(copy.join("device"), "").unwrap();
        let named = Path::new("/var/lib/holdfast/n1");
        assert_eq!(
            place(named, copy, &named.join("device")),
            copy.join("device")
        );
        assert_eq!(place(named, copy, &named.join("d2")), named.join("d2"));
        let elsewhere = Path::new("/dev/disk/by-id/x");
        assert_eq!(place(named, copy, elsewhere), elsewhere);
    }

    #[test]
    fn devices_that_came_later_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("n1");
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&node).unwrap();
        for path in [&node.join("d0"), &node.join("d1"), &elsewhere] {
            fs::write(path, "").unwrap();
        }
        let named = |name: &str| format!("path = \"/var/lib/holdfast/n1/{name}\"");
        let text = format!(
            "cluster = \"00000000000000000000000000000001\"\nnode = 1\nname = \"n1\"\n\
             directory = \"/var/lib/holdfast/n1\"\n\
             [metadata]\naddresses = [\"127.0.0.1:1\"]\n\
             [peers]\nlisten = \"127.0.0.1:2\"\n[portal]\nlisten = \"127.0.0.1:3\"\n\
             [api]\nlisten = \"127.0.0.1:4\"\n\
             [[devices]]\n{}\n[[devices]]\n{}\n",
            named("d0"),
            named("old")
        );
        fs::write(node.join(CONFIG_FILE), text).unwrap();
        let noted = format!(
            "removed = [\"/var/lib/holdfast/n1/old\"]\n\
             [[devices]]\n{}\ntier = \"flash\"\n[[devices]]\n{}\ntier = \"flash\"\n\
             [[devices]]\npath = {elsewhere:?}\ntier = \"capacity\"\n",
            named("d0"),
            named("d1")
        );
        fs::write(node.join(DEVICES_FILE), noted).unwrap();
        let found = devices(&node).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, [node.join("d0"), node.join("d1"), elsewhere]);
    }

    #[test]
    fn a_configuration_elsewhere_finds_what_the_directory_says() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("n1");
        let etc = folder.path().join("etc");
        for made in [&node, &etc] {
            fs::create_dir(made).unwrap();
        }
        // The first has gone, or is blank: it was replaced.
        let [old, new] = ["old", "new"].map(|name| node.join(name));
        fs::write(&new, "").unwrap();
        let text = format!(
            "cluster = \"00000000000000000000000000000001\"\nnode = 1\nname = \"n1\"\n\
             directory = {node:?}\n\
             [metadata]\naddresses = [\"127.0.0.1:1\"]\n\
             [peers]\nlisten = \"127.0.0.1:2\"\n[portal]\nlisten = \"127.0.0.1:3\"\n\
             [api]\nlisten = \"127.0.0.1:4\"\n\
             [[devices]]\npath = {old:?}\n"
        );
        let config = etc.join(CONFIG_FILE);
        fs::write(&config, text).unwrap();
        let noted = format!(
            "removed = [{old:?}]\n[[devices]]\npath = {new:?}\ntier = \"flash\"\n\
             [numbers.1]\npath = {new:?}\ntier = \"flash\"\n"
        );
        fs::write(node.join(DEVICES_FILE), &noted).unwrap();
        for named in [&config, &etc, &node] {
            let found = devices(named).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found, std::slice::from_ref(&new), "{}", named.display());
        }
        // A copy without a configuration is not taken for the original.
        let copy = folder.path().join("copy");
        fs::create_dir(&copy).unwrap();
        for (name, content) in [(DEVICES_FILE, noted.as_str()), ("new", "")] {
            fs::write(copy.join(name), content).unwrap();
        }
        let error = devices(&copy).unwrap_err().to_string();
        assert!(error.contains("may be a copy"), "{error}");
        assert!(error.contains("hint: name the devices"), "{error}");
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = devices(folder.path()).unwrap_err().to_string();
        assert!(error.contains("without node.toml"), "{error}");
        assert!(error.contains("hint: "), "{error}");
        let wrong = folder.path().join("node.toml");
        fs::write(&wrong, "nonsense").unwrap();
        for path in [folder.path(), &wrong] {
            let error = devices(path).unwrap_err().to_string();
            assert!(
                error.contains("node.toml") && error.contains("hint: "),
                "{error}"
            );
        }
        let other = folder.path().join("device");
        fs::write(&other, "").unwrap();
        assert_eq!(devices(&other).unwrap(), [other]);
        assert!(devices(Path::new("/nonexistent")).is_err());
    }
}
