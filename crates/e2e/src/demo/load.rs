//! Loads on a demo's volumes that are measured, at the node that leads their first slice.
//!
//! Invariant: a volume is filled before anything is measured on it, and not scrubbed meanwhile.

use std::time::Duration;

use anyhow::Result;
use holdfast_lab::bench::BenchConfig;
use holdfast_lab::{IscsiName, Lun};

use super::Demo;
use crate::process::wait_until;

/// How long a new volume may take to have all its copies, and to be scrubbed while it is empty.
const PATIENCE: Duration = Duration::from_secs(60);

impl Demo {
    /// Waits until a new volume is as it will stay.
    ///
    /// # Errors
    /// That takes too long.
    pub fn wait_until_settled(&self, volume: &str) -> Result<()> {
        self.wait_until_whole(volume, PATIENCE)?;
        // A new volume is scrubbed at once: while it is empty, and not while it is filled and measured.
        wait_until("the new volume is scrubbed", PATIENCE, || {
            Ok(self.volume(volume)?.scrub.last.is_some())
        })?;
        Ok(())
    }

    /// Reads of 4 KiB one after the other from all of a volume, for no time: what a load says of itself is put in their place.
    ///
    /// # Errors
    /// There is no such volume, or nobody leads it.
    pub fn bench_config(&self, volume: &str, host: &str) -> Result<BenchConfig> {
        let node = self.primary(volume)?;
        let portal = self.file.node(&node)?.portal;
        let volume = self.file.volume(volume)?;
        Ok(BenchConfig {
            initiator: IscsiName::parse(host)?,
            target: IscsiName::parse(&volume.target)?,
            lun: Lun::from_number(volume.lun),
            counts_data: true,
            portals: vec![portal],
            sessions: 1,
            depth: 1,
            command_bytes: 4 << 10,
            block_length: 512,
            reads_percent: 100,
            region_bytes: volume.bytes,
            sequential: false,
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            seed: 1,
        })
    }
}
