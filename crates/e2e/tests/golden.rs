//! What earlier versions wrote is taken over: every golden image is looked into, served, written to, and
//! served again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli::FAILED;
use holdfast_e2e::golden::{Image, Sheet};
use holdfast_e2e::host::Host;
use holdfast_e2e::{Demo, cli, demo};
use holdfast_format::{FORMAT_VERSION, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use holdfast_stdx::crc32c;
use serde_json::Value;

/// How long nodes may take to be in sync with what they missed.
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// Any will do: what is on the device is refused before it is looked whose it is.
const CLUSTER: &str = "5eed0000000000000000000000000009";
/// Sectors of a block.
const BLOCK: u64 = 8;

fn looked_into(device: &Path) -> Result<Value> {
    let path = device.to_str().context("a path in UTF-8")?;
    let output = cli::run(&["--json", "inspect", "--verify", path])?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "inspect {path}: {talk}");
    let found: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(found["stores"][0]["sound"] == true, "{found}");
    ensure!(found["failed"] == serde_json::json!([]), "{found}");
    Ok(found)
}

/// What `inspect` finds is sound, on each node, and something of every kind is there.
#[test]
fn what_earlier_versions_wrote_is_looked_into() -> Result<()> {
    for image in Image::all()? {
        let folder = tempfile::tempdir()?;
        image.unpack(folder.path())?;
        let mut kinds = Vec::new();
        for node in 1..=image.manifest.nodes {
            let device = folder.path().join(format!("n{node}/device"));
            let found = looked_into(&device)?;
            let store = &found["stores"][0];
            ensure!(store["verified"]["blocks"].as_u64() > Some(0), "{store}");
            let slices = store["slices"].as_array().context("slices")?;
            let redo = slices
                .iter()
                .filter_map(|slice| slice["journal"]["redo_changes"].as_u64());
            ensure!(redo.sum::<u64>() > 0, "all of it is in pages: {store}");
            let records = store["journal"]["records"].as_object();
            kinds.extend(records.context("records")?.keys().cloned());
            let device = device.to_str().context("a path in UTF-8")?;
            let report = cli::run(&["recover", "read", device])?;
            ensure!(report.status.success(), "recover read {device}");
        }
        for kind in ["entry", "install", "begin epoch", "mended", "drop slice"] {
            ensure!(kinds.iter().any(|it| it == kind), "{kind} is in no journal");
        }
    }
    Ok(())
}

/// One superblock of a version that nobody knows yet: every command refuses the device, says what to do, and
/// changes nothing.
#[test]
fn a_device_of_a_newer_version_is_refused() -> Result<()> {
    let image = Image::all()?.into_iter().next().context("an image")?;
    let folder = tempfile::tempdir()?;
    image.unpack(folder.path())?;
    let device = folder.path().join("n1/device");
    let file = File::options().read(true).write(true).open(&device)?;
    for offset in SUPERBLOCK_OFFSETS {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, offset)?;
        bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        bytes[12..16].fill(0);
        let checksum = crc32c(&bytes).to_le_bytes();
        bytes[12..16].copy_from_slice(&checksum);
        file.write_all_at(&bytes, offset)?;
    }
    let before = fs::metadata(&device)?.modified()?;
    let device = device.to_str().context("a path in UTF-8")?;
    let directory = folder.path().join("node").display().to_string();
    let config = folder.path().join("node.toml");
    let text = format!(
        "cluster = \"{CLUSTER}\"\nnode = 1\nname = \"n1\"\ndirectory = \"{directory}\"\n\
         portal.listen = \"127.0.0.1:0\"\nportal.advertise = \"127.0.0.1:1\"\n\
         peers.listen = \"127.0.0.1:0\"\npeers.advertise = \"127.0.0.1:1\"\n\
         api.listen = \"127.0.0.1:0\"\napi.advertise = \"127.0.0.1:1\"\n\
         metadata.addresses = [\"127.0.0.1:1\"]\nsecurity.off = true\n[[devices]]\npath = \"{device}\"\n"
    );
    fs::write(&config, text)?;
    let config = config.to_str().context("a path in UTF-8")?;
    for command in [
        &["inspect", device][..],
        &["recover", "read", device],
        &["node", "--config", config],
    ] {
        let talk = cli::fails(FAILED, command)?;
        let version = format!("format version {}", FORMAT_VERSION + 1);
        ensure!(talk.contains(&version), "{command:?}: {talk}");
        ensure!(talk.contains("newer program"), "{command:?}: {talk}");
    }
    ensure!(
        fs::metadata(device)?.modified()? == before,
        "it was changed"
    );
    Ok(())
}

#[test]
fn what_the_first_version_wrote_is_served() -> Result<()> {
    serve("5d5608c")
}

#[test]
fn what_format_version_2_began_with_is_served() -> Result<()> {
    serve("0d054c7")
}

/// One node's journal was moved to another device, which makes its superblock one of version 4.
#[test]
fn what_format_version_4_began_with_is_served() -> Result<()> {
    let commit = "11b60fb";
    let folder = tempfile::tempdir()?;
    find(commit)?.unpack(folder.path())?;
    let mut versions = Vec::new();
    for node in 1..=3 {
        let device = File::open(folder.path().join(format!("n{node}/device")))?;
        let mut version = [0; 4];
        device.read_exact_at(&mut version, SUPERBLOCK_OFFSETS[0] + 8)?;
        versions.push(u32::from_le_bytes(version));
    }
    versions.sort_unstable();
    ensure!(versions == [2, 2, 4], "versions {versions:?}");
    serve(commit)
}

fn find(commit: &str) -> Result<Image> {
    let mut images = Image::all()?.into_iter();
    let image = images.find(|image| image.manifest.commit.starts_with(commit));
    image.with_context(|| format!("find the image of {commit}"))
}

/// Images are named by the commits that wrote them.
fn serve(commit: &str) -> Result<()> {
    let image = find(commit)?;
    let mut sheets: Vec<Sheet> = image
        .manifest
        .volumes
        .iter()
        .map(|volume| Sheet::new(volume.bytes, &volume.stretches))
        .collect();
    demo::scenario_on(
        image.options(),
        |directory| image.unpack(directory),
        |demo| {
            verify(demo, &image, &sheets)?;
            for (volume, sheet) in image.manifest.volumes.iter().zip(&mut sheets) {
                let host = Host::open(demo, &volume.name)?;
                // A page that is new, some blocks of one that is there, and a part of a block.
                sheet.write(&host, 15 * 512, 512)?;
                sheet.write(&host, 2 * BLOCK, 3 * BLOCK)?;
                sheet.write(&host, 4 * 512 + 3, 2)?;
                sheet.unmap(&host, 14 * 512 + 8 * BLOCK, BLOCK)?;
            }
            verify(demo, &image, &sheets)?;
            demo.stop()?;
            for node in 1..=image.manifest.nodes {
                looked_into(&demo.path(format!("n{node}/device")))?;
            }
            demo.start_again()?;
            verify(demo, &image, &sheets)?;
            each_copy(demo, &image, &sheets)
        },
    );
    Ok(())
}

/// Every block of every volume, through every path, when every copy is there.
fn verify(demo: &Demo, image: &Image, sheets: &[Sheet]) -> Result<()> {
    for (volume, sheet) in image.manifest.volumes.iter().zip(sheets) {
        demo.wait_until_whole(&volume.name, SYNC_PATIENCE)?;
        let host = Host::open(demo, &volume.name)?;
        sheet.verify(&host).context(volume.name.clone())?;
    }
    Ok(())
}

/// Without each node in turn: every copy is read.
fn each_copy(demo: &mut Demo, image: &Image, sheets: &[Sheet]) -> Result<()> {
    let names = demo.node_names();
    for (place, node) in names.iter().enumerate() {
        let hosts = image.manifest.volumes.iter().zip(sheets);
        let mut mirrored = Vec::new();
        for (volume, sheet) in hosts.filter(|(volume, _)| volume.policy != "none") {
            mirrored.push((Host::open(demo, &volume.name)?, sheet));
        }
        demo.kill(node)?;
        let others: Vec<usize> = (0..names.len()).filter(|other| *other != place).collect();
        for (host, sheet) in &mirrored {
            sheet.verify_through(host, &others)?;
        }
        demo.start_node(node)?;
        for volume in &image.manifest.volumes {
            demo.wait_until_whole(&volume.name, SYNC_PATIENCE)?;
        }
    }
    Ok(())
}
