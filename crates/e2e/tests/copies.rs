//! A host has a volume copied to another one, through each node in turn, and moves none of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::demo_file::{DemoNode, DemoVolume};
use holdfast_e2e::image::{compare, convert, make_ext4, make_files, qemu_io, url};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::command::{self, CopyPlace};
use holdfast_lab::{Completion, IscsiName, Isid, Lun, Session, SessionConfig, SessionKind};
use tokio::runtime::{Builder, Runtime};

const INITIATOR: &str = "iqn.2026-11.io.holdfast.e2e:copier";
const VOLUMES: [&str; 2] = ["one:512MiB:mirror2", "two:512MiB:mirror2"];
const VOLUME_BYTES: u64 = 512 << 20;
const IMAGE_BYTES: u64 = 256 << 20;
const FILES: u64 = 500;
const BLOCK: u32 = 512;
/// As much as hosts have copied by one command: 16 MiB.
const BLOCKS: u16 = 32 << 10;
/// What a unit may have to tell whoever is new.
const ATTENTIONS_MAX: usize = 8;
/// How soon `used_bytes` is true, as the contract says.
const USED_WITHIN: Duration = Duration::from_secs(2);

#[test]
fn a_volume_is_copied_by_whichever_node_is_asked() {
    let options = DemoOptions {
        volumes: VOLUMES.to_vec(),
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let (one, two) = (volume(demo, "one")?, volume(demo, "two")?);
        let nodes = demo.file().nodes.clone();
        let files = demo.scratch("files");
        make_files(&files, FILES, 7)?;
        let image = demo.scratch("image");
        make_ext4(&image, &files, IMAGE_BYTES)?;
        let image = image.display().to_string();
        convert(&image, &url(nodes[0].portal, &one.target, one.lun))?;

        for (index, node) in nodes.iter().enumerate() {
            let took = copy(&runtime, node, &one, &two)?;
            let other = &nodes[(index + 1) % nodes.len()];
            compare(&image, &url(other.portal, &two.target, two.lun))?;
            // What is empty there takes no space here.
            wait_until_used(demo, |used, of_one| used > 0 && used <= of_one + (1 << 20))?;
            let megabytes = VOLUME_BYTES >> 20;
            println!("{megabytes} MiB through {} in {took:?}", node.name);
            let discard = format!("discard 0 {VOLUME_BYTES}");
            qemu_io(&url(other.portal, &two.target, two.lun), &discard)?;
            wait_until_used(demo, |used, _| used == 0)?;
        }
        Ok(())
    });
}

fn volume(demo: &Demo, name: &str) -> Result<DemoVolume> {
    Ok(demo.file().volume(name)?.clone())
}

/// Has all of a volume copied, by commands to a node one after the other. Says how long that took.
fn copy(
    runtime: &Runtime,
    node: &DemoNode,
    from: &DemoVolume,
    to: &DemoVolume,
) -> Result<Duration> {
    runtime.block_on(async {
        let source = log_in(node, from).await?;
        let places = [
            identify(&source, from).await?,
            identify(&log_in(node, to).await?, to).await?,
        ];
        let start = Instant::now();
        for first in (0..VOLUME_BYTES / u64::from(BLOCK)).step_by(BLOCKS.into()) {
            let [from_there, to_there] = places.map(|naa| CopyPlace { naa, first });
            let lun = Lun::from_number(from.lun);
            let request = command::extended_copy(lun, from_there, to_there, BLOCKS, BLOCK);
            let done = source.execute(request).await?;
            ensure!(done.status == 0, "blocks from {first} on: {done:?}");
        }
        let took = start.elapsed();
        source.log_out().await;
        Ok(took)
    })
}

/// A session in which whatever is told to whoever is new has been told.
async fn log_in(node: &DemoNode, volume: &DemoVolume) -> Result<Session> {
    let kind = SessionKind::Normal(IscsiName::parse(&volume.target)?);
    let isid = Isid([0x80, 0, 0, 0, 0, 1]);
    let config = SessionConfig::new(node.portal, IscsiName::parse(INITIATOR)?, isid, kind);
    let session = Session::connect(config).await?;
    let ready = command::test_unit_ready(Lun::from_number(volume.lun));
    for _ in 0..ATTENTIONS_MAX {
        if session.execute(ready.clone()).await?.status == 0 {
            return Ok(session);
        }
    }
    bail!("the unit is not ready")
}

/// The NAA identifier: the first designator of page 83h.
async fn identify(session: &Session, volume: &DemoVolume) -> Result<[u8; 16]> {
    let request = command::inquiry(Lun::from_number(volume.lun), Some(0x83));
    let Completion { data_in, .. } = session.execute(request).await?;
    let page = data_in.concat();
    let naa = page.get(8..24).context("the page has a designator")?;
    Ok(naa.try_into()?)
}

/// Waits until it is so of what the second volume, and the first, take.
fn wait_until_used(demo: &Demo, expected: impl Fn(u64, u64) -> bool) -> Result<()> {
    let used = |name| {
        let used = demo.volume(name)?.used_bytes;
        used.with_context(|| format!("it is known what {name} takes"))
    };
    let waited = wait_until("used_bytes is true", USED_WITHIN, || {
        Ok(expected(used("two")?, used("one")?))
    });
    waited.with_context(|| format!("{:?} and {:?} bytes", used("one"), used("two")))?;
    Ok(())
}
