//! What a guest boots: Debian's kernel, and an ext4 image of Debian packages that `mmdebstrap` installs from
//! where apt of this machine takes its own.
//!
//! Everything is in `guest` in the build directory, and is made anew when the list of packages is another one. The
//! scripts of `crates/e2e/guest` are not in it: they come with the initial file system of each run.
//!
//! Invariants:
//! - an image is whole or is made anew: the list that it was made of is written last;
//! - guests only read it, and several may at the same time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::agent;
use super::initramfs::Initramfs;
use crate::revision;

/// What is installed beside what every Debian has. The kernel comes without an initial file system of its own.
const PACKAGES: [&str; 17] = [
    "linux-image-amd64",
    "busybox-static",
    "mount",
    "udev",
    "kmod",
    "procps",
    "iproute2",
    "iputils-ping",
    "open-iscsi",
    "multipath-tools",
    "sg3-utils",
    "fio",
    "e2fsprogs",
    "python3",
    "fence-agents",
    "postgresql",
    "postgresql-client",
];
/// What no guest has the machine for, or that nobody reads there.
const LEFT_OUT: [&str; 16] = [
    "/lib/modules/*/kernel/sound/*",
    "/lib/modules/*/kernel/drivers/gpu/*",
    "/lib/modules/*/kernel/drivers/media/*",
    "/lib/modules/*/kernel/drivers/staging/*",
    "/lib/modules/*/kernel/drivers/infiniband/*",
    "/lib/modules/*/kernel/drivers/iio/*",
    "/lib/modules/*/kernel/drivers/hid/*",
    "/lib/modules/*/kernel/drivers/input/*",
    "/lib/modules/*/kernel/drivers/net/wireless/*",
    "/lib/modules/*/kernel/drivers/net/ethernet/*",
    "/usr/lib/udev/hwdb.d/*",
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    // Descriptions of a cloud's interfaces, for fence agents that are for it.
    "/usr/lib/python3/dist-packages/botocore/data/*",
    "/usr/lib/python3/dist-packages/googleapiclient/discovery_cache/documents/*",
];
/// What the initial file system loads; what these need comes with them. ext4 asks for its checksum by name only.
const DRIVERS: [&str; 5] = [
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "overlay",
];
/// Bytes of the image, a sparse file: some 700 MB are used.
const IMAGE_BYTES: u64 = 2 << 30;
/// What an image was made of; without it there is none.
const LIST: &str = "packages";
/// Where apt's sources are.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
/// The scripts of every guest, by where they are in it.
const SCRIPTS: [(&str, &str); 3] = [
    ("init", include_str!("../../guest/initramfs.sh")),
    ("guest/start", include_str!("../../guest/start.sh")),
    ("guest/agent", agent::SCRIPT),
];
/// Directories of the initial file system.
const DIRECTORIES: [&str; 9] = [
    "bin", "dev", "drivers", "guest", "lower", "proc", "root", "sys", "upper",
];

/// What QEMU is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial file system, with the scripts of this program.
    pub initramfs: PathBuf,
    /// The image of the root file system, which is only read.
    pub root: PathBuf,
}

/// The image, which is made unless there is one of these packages. It takes root, apt's sources and some minutes.
///
/// # Errors
/// A tool is missing (`make setup-guest`) or fails.
pub fn build() -> Result<Image> {
    let place = revision::build_directory()?.join("guest");
    let list = format!("{PACKAGES:#?}\n{LEFT_OUT:#?}\n{DRIVERS:#?}\n");
    if fs::read_to_string(place.join(LIST)).ok().as_ref() != Some(&list) {
        make(&place).context("make the image of guests")?;
        fs::write(place.join(LIST), list)?;
    }
    let image = Image {
        kernel: place.join("kernel"),
        initramfs: place.join("initramfs"),
        root: place.join("root.ext4"),
    };
    fs::write(&image.initramfs, initramfs(&place)?)?;
    Ok(image)
}

fn make(place: &Path) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    let drivers = place.join("drivers");
    fs::create_dir_all(&drivers)?;
    let tree = place.join("tree");
    install(place, &tree)?;
    let kernel = only_entry(&tree.join("boot"), "vmlinuz-")?;
    fs::copy(kernel, place.join("kernel"))?;
    fs::copy(tree.join("bin/busybox"), place.join("busybox"))?;
    let modules = only_entry(&tree.join("lib/modules"), "")?;
    let table = fs::read_to_string(modules.join("modules.dep"))?;
    for (index, module) in in_order(&table, &DRIVERS)?.iter().enumerate() {
        // Their order is that of their names.
        fs::copy(
            modules.join(module),
            drivers.join(format!("{index:02}-{}", stem(module))),
        )?;
    }
    let root = place.join("root.ext4");
    File::create(&root)?.set_len(IMAGE_BYTES)?;
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"]);
    succeed(command.arg(&tree).arg(&root))?;
    fs::remove_dir_all(&tree)?;
    Ok(())
}

/// Installs the packages in `tree`.
fn install(place: &Path, tree: &Path) -> Result<()> {
    let sources = sources()?;
    ensure!(
        !sources.is_empty(),
        "apt has no sources here: {SOURCES:?} are empty"
    );
    let log = place.join("mmdebstrap.log");
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--mode=root", "--variant=essential"])
        .arg(format!("--include={}", PACKAGES.join(",")))
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")))
        // Of whatever suite the sources are.
        .arg("")
        .arg(tree)
        .args(sources)
        // So the kernel's package makes no initial file system.
        .env("INITRD", "No")
        .stdout(File::create(&log)?)
        .stderr(File::options().append(true).open(&log)?);
    let status = command
        .status()
        .context("start mmdebstrap (`make setup-guest` installs it)")?;
    ensure!(
        status.success(),
        "mmdebstrap ended with {status}: {}",
        log.display()
    );
    Ok(())
}

/// The files of apt's sources, as apt finds them.
fn sources() -> Result<Vec<PathBuf>> {
    let [file, directory] = SOURCES.map(PathBuf::from);
    let mut found = BTreeSet::new();
    if fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
        found.insert(file);
    }
    if directory.is_dir() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let is_source = |end: &OsStr| end == "list" || end == "sources";
            if path.extension().is_some_and(is_source) {
                found.insert(path);
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn initramfs(place: &Path) -> Result<Vec<u8>> {
    let mut archive = Initramfs::default();
    for directory in DIRECTORIES {
        archive.directory(directory)?;
    }
    archive.file("bin/busybox", &fs::read(place.join("busybox"))?)?;
    for (name, script) in SCRIPTS {
        archive.file(name, script.as_bytes())?;
    }
    let mut drivers = Vec::new();
    for entry in fs::read_dir(place.join("drivers"))? {
        let name = entry?.file_name().into_string();
        drivers.push(name.ok().context("a driver's name is text")?);
    }
    drivers.sort_unstable();
    for driver in &drivers {
        let bytes = fs::read(place.join("drivers").join(driver))?;
        archive.file(&format!("drivers/{driver}"), &bytes)?;
    }
    archive.file("modules", drivers.join("\n").as_bytes())?;
    archive.finish()
}

/// The modules of these names and what they need, each after what it needs, by the kernel's table of dependencies.
fn in_order(table: &str, names: &[&str]) -> Result<Vec<String>> {
    fn add(table: &str, path: &str, order: &mut Vec<String>) -> Result<()> {
        if order.iter().any(|known| known == path) {
            return Ok(());
        }
        let mut lines = table.lines().filter_map(|line| line.split_once(':'));
        let line = lines.find(|(module, _)| *module == path);
        let (_, needed) = line.with_context(|| format!("find {path} in modules.dep"))?;
        for needed in needed.split_whitespace() {
            add(table, needed, order)?;
        }
        order.push(path.to_owned());
        Ok(())
    }
    let mut order = Vec::new();
    for name in names {
        let mut paths = table.lines().filter_map(|line| line.split_once(':'));
        let path = paths.find(|(path, _)| stem(path).split('.').next() == Some(name));
        let (path, _) = path.with_context(|| format!("the kernel has no module {name}"))?;
        add(table, path, &mut order)?;
    }
    Ok(order)
}

/// The last part of a path with slashes.
fn stem(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn only_entry(directory: &Path, prefix: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([only]) => Ok(only),
        Err(found) => bail!("{found:?} should be one, in {}", directory.display()),
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("start {command:?} (`make setup-guest`)"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended in {said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_come_after_what_they_need() {
        let table = "k/a/top.ko: k/b/middle.ko k/c/low.ko\nk/b/middle.ko: k/c/low.ko\nk/c/low.ko:\n\
                     k/d/topping.ko.xz:\n";
        let order = in_order(table, &["topping", "top"]).unwrap();
        let expected = [
            "k/d/topping.ko.xz",
            "k/c/low.ko",
            "k/b/middle.ko",
            "k/a/top.ko",
        ];
        assert_eq!(order, expected);
        assert!(in_order(table, &["to"]).is_err());
        assert!(in_order("k/a.ko: k/b.ko\n", &["a"]).is_err());
    }
}
