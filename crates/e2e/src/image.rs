//! Images of real file systems, and the tools that move them.
//!
//! Needs e2fsprogs and qemu-utils with qemu-block-extra; without them, tests fail and say so.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// An iSCSI volume as QEMU and libiscsi name it.
#[must_use]
pub fn url(portal: SocketAddr, target: &str, lun: u16) -> String {
    format!("iscsi://{portal}/{target}/{lun}")
}

/// Makes `directory` and fills it with `count` files of many sizes, some alike, some empty, in
/// directories; what they hold follows from `seed`.
///
/// # Errors
/// What the operating system says.
pub fn make_files(directory: &Path, count: u64, seed: u64) -> Result<()> {
    for index in 0..count {
        let folder = directory.join(format!("d{}", index % 17));
        fs::create_dir_all(&folder)?;
        let length = (index * 7919 % 97) * (index % 13) * 97;
        let mut state = seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        fs::write(folder.join(format!("f{index}")), bytes)?;
    }
    Ok(())
}

/// Makes an ext4 image of `bytes` bytes that holds what is in `source`.
///
/// # Errors
/// mke2fs fails, or is not there.
pub fn make_ext4(image: &Path, source: &Path, bytes: u64) -> Result<()> {
    fs::File::create(image)?.set_len(bytes)?;
    let mut command = tool("mke2fs");
    command
        .args(["-q", "-F", "-t", "ext4", "-d"])
        .arg(source)
        .arg(image);
    succeed(&mut command)?;
    check_ext4(image)
}

/// Checks a file system image.
///
/// # Errors
/// Something is wrong with it.
pub fn check_ext4(image: &Path) -> Result<()> {
    succeed(tool("e2fsck").args(["-f", "-n"]).arg(image))?;
    Ok(())
}

/// `qemu-img convert` of a raw image or volume onto another that is there already.
///
/// # Errors
/// qemu-img fails, or is not there.
pub fn convert(source: &str, target: &str) -> Result<()> {
    let mut command = tool("qemu-img");
    command.args(["convert", "-n", "-f", "raw", "-O", "raw", source, target]);
    succeed(&mut command)?;
    Ok(())
}

/// `qemu-img compare`: whether two raw images or volumes hold the same. What one is longer must be
/// zeros.
///
/// # Errors
/// They differ; or qemu-img fails, or is not there.
pub fn compare(one: &str, other: &str) -> Result<()> {
    let mut command = tool("qemu-img");
    command.args(["compare", "-f", "raw", "-F", "raw", one, other]);
    succeed(&mut command)?;
    Ok(())
}

/// `qemu-io`: one command on a raw volume.
///
/// # Errors
/// qemu-io fails, or is not there.
pub fn qemu_io(volume: &str, command: &str) -> Result<()> {
    let output = succeed(tool("qemu-io").args(["-f", "raw", "-c", command, volume]))?;
    // qemu-io tells of failed commands on stdout, and ends as if nothing were wrong.
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(!said.contains("failed"), "qemu-io {command}: {said}");
    Ok(())
}

/// Debian keeps file system tools where only an administrator's shell looks.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

fn succeed(command: &mut Command) -> Result<Output> {
    let output = command
        .output()
        .with_context(|| format!("start {command:?} (`make test` installs what tests need)"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_file_system_and_differs_from_another() {
        let directory = tempfile::tempdir().unwrap();
        let mut images = Vec::new();
        for seed in [1, 2] {
            let files = directory.path().join(format!("files{seed}"));
            make_files(&files, 200, seed).unwrap();
            let image = directory.path().join(format!("image{seed}"));
            make_ext4(&image, &files, 32 << 20).unwrap();
            images.push(image.display().to_string());
        }
        let copy = directory.path().join("copy").display().to_string();
        fs::File::create(&copy).unwrap().set_len(64 << 20).unwrap();
        convert(&images[0], &copy).unwrap();
        compare(&images[0], &copy).unwrap();
        let error = compare(&images[0], &images[1]).unwrap_err();
        assert!(error.to_string().contains("mismatch"), "{error}");
        qemu_io(&copy, "write -P 0xff 0 64k").unwrap();
        assert!(compare(&images[0], &copy).is_err());
        assert!(check_ext4(Path::new(&copy)).is_err());
        assert!(qemu_io(&copy, "read 1G 64k").is_err());
    }
}
