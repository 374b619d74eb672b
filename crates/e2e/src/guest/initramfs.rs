//! An initial file system in memory as Linux wants it: a `cpio` archive in its "new ASCII" form
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel).
//!
//! It refuses to be complete: there are directories and files of root's, and nothing else.
//!
//! Invariants:
//! - an archive depends on what is put into it only, not on clocks or file systems.

use anyhow::{Context, Result};

/// Of a directory, and of a file that may be run.
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
/// The name that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive that is being made.
#[derive(Debug, Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initramfs {
    /// Adds a directory, after the one that it is in.
    ///
    /// # Errors
    /// The name is too long to be one.
    pub fn directory(&mut self, name: &str) -> Result<()> {
        self.entry(name, DIRECTORY, &[])
    }

    /// Adds a file that everybody may run.
    ///
    /// # Errors
    /// It has 4 GiB or more.
    pub fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.entry(name, FILE, bytes)
    }

    /// The archive.
    ///
    /// # Errors
    /// None.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(END, 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(bytes.len()).context("the file is too long")?;
        let name_size = u32::try_from(name.len() + 1).context("the name is too long")?;
        // Inode, mode, owner, group, links, time, size, device and special device by two numbers each,
        // length of the name with its zero, and a checksum that this form has not.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(bytes);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_bytes_of_the_form() {
        let mut archive = Initramfs::default();
        archive.directory("bin").unwrap();
        archive.file("bin/x", b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        let expected = [
            "070701000000010000",
            "41ED",
            "0000000000000000000000010000000000000000",
            "00000000000000000000000000000000",
            "0000000400000000",
            "bin\0\0\0",
            "070701000000020000",
            "81ED",
            "0000000000000000000000010000000000000005",
            "00000000000000000000000000000000",
            "0000000600000000",
            "bin/x\0hello\0\0\0",
            "070701000000030000",
            "0000",
            "0000000000000000000000010000000000000000",
            "00000000000000000000000000000000",
            "0000000B00000000",
            "TRAILER!!!\0\0\0\0",
        ]
        .concat();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
