//! The main job: a file system written through one node is read through the others.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::image::{check_ext4, compare, convert, make_ext4, make_files, qemu_io, url};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, scenario};

const IMAGE_BYTES: u64 = 256 << 20;
const FILES: u64 = 2000;
/// How soon `used_bytes` is true, as the contract says.
const USED_WITHIN: Duration = Duration::from_secs(2);
/// QEMU discards less than 2 GiB at once.
const DISCARD_GIB: u64 = 1;

#[test]
fn an_image_written_through_one_node_is_read_through_the_others() {
    scenario(DemoOptions::default(), |demo| {
        let volume = demo.file().volume("demo")?.clone();
        let urls: Vec<String> = demo
            .file()
            .nodes
            .iter()
            .map(|node| url(node.portal, &volume.target, volume.lun))
            .collect();
        let source = demo.scratch("files");
        make_files(&source, FILES, 1)?;
        let image = demo.scratch("image");
        make_ext4(&image, &source, IMAGE_BYTES)?;
        let image = image.display().to_string();
        wait_until_used(demo, |used| used == 0)?;

        convert(&image, &urls[0])?;
        for url in &urls {
            compare(&image, url)?;
        }
        wait_until_used(demo, |used| used > 0 && used <= IMAGE_BYTES + (1 << 20))?;

        // What is read back is a file system, not only the same bytes as before.
        let back = demo.scratch("back");
        std::fs::File::create(&back)?.set_len(volume.bytes)?;
        convert(&urls[2], &back.display().to_string())?;
        check_ext4(&back)?;

        for gib in (0..volume.bytes >> 30).step_by(DISCARD_GIB as usize) {
            qemu_io(&urls[1], &format!("discard {gib}G {DISCARD_GIB}G"))?;
        }
        wait_until_used(demo, |used| used == 0)?;
        let empty = demo.scratch("empty");
        std::fs::File::create(&empty)?.set_len(volume.bytes)?;
        for url in &urls {
            compare(&empty.display().to_string(), url)?;
        }
        ensure!(demo.volume("demo")?.is_whole(2), "nobody was left behind");
        Ok(())
    });
}

fn wait_until_used(demo: &Demo, expected: impl Fn(u64) -> bool) -> Result<()> {
    let waited = wait_until("used_bytes is true", USED_WITHIN, || {
        Ok(demo.volume("demo")?.used_bytes.is_some_and(&expected))
    });
    let last = demo.volume("demo")?.used_bytes;
    waited.with_context(|| format!("used_bytes is {last:?}"))?;
    Ok(())
}
