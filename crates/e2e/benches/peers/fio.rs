//! Load by fio: on a file itself, with nobody in between, and on what does not speak iSCSI.
//!
//! It refuses to run without fio: the error says what to install.
//!
//! Invariants:
//! - fio ends with this process, whatever becomes of that;
//! - all commands of a run count, and nothing but what was asked for is there to be counted.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::process::processor_time_of_children;
use serde_json::Value;

use crate::ceph::Ceph;
use crate::report::Measured;

/// A load, as [`BenchConfig`](holdfast_lab::bench::BenchConfig) has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) bytes: u32,
    pub(crate) reads: u64,
    pub(crate) sequential: bool,
    pub(crate) depth: usize,
    pub(crate) seed: u64,
    /// Without one, each place once.
    pub(crate) duration: Option<Duration>,
}

/// What fio is told of a place, whatever the load.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    arguments: Vec<String>,
    /// The configuration of Ceph's cluster.
    ceph: Option<PathBuf>,
}

impl Place {
    /// A file of so many bytes, past the system's memory. `durable`: with each write on stable storage before it ends.
    pub(crate) fn file(path: &std::path::Path, bytes: u64, durable: bool) -> Self {
        let mut arguments = vec![
            "--ioengine=libaio".to_owned(),
            "--direct=1".to_owned(),
            format!("--filename={}", path.display()),
            format!("--size={bytes}"),
        ];
        if durable {
            arguments.push("--sync=dsync".to_owned());
        }
        Self {
            arguments,
            ceph: None,
        }
    }

    /// An image of Ceph's.
    pub(crate) fn ceph(ceph: &Ceph) -> Self {
        Self {
            arguments: Ceph::fio_arguments(),
            ceph: Some(ceph.configuration()),
        }
    }

    /// Runs a load.
    ///
    /// # Errors
    /// fio is missing, fails, or tells something else than it is known to.
    pub(crate) fn run(&self, load: Load) -> Result<Measured> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "fio"])
            .args(["--name=load", "--thread", "--norandommap"])
            .args(["--output-format=json", "--unified_rw_reporting=mixed"])
            // From when a command is given to fio's engine until its end, as the other load counts.
            .args(["--lat_percentiles=1", "--percentile_list=50:99:99.9"])
            .args(&self.arguments)
            .args(load.arguments());
        if let Some(configuration) = &self.ceph {
            command.env("CEPH_CONF", configuration);
        }
        let before = processor_time_of_children(std::process::id())?;
        let output = command.output().context("start setpriv")?;
        let client_time = processor_time_of_children(std::process::id())?.saturating_sub(before);
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "fio (Debian's package; `make setup-bench` installs it) ended with {}: {said}",
            output.status
        );
        let measured = understood(&output.stdout)
            .with_context(|| format!("understand what fio told, and said: {said}"))?;
        Ok(Measured {
            client_time,
            ..measured
        })
    }
}

impl Load {
    fn arguments(&self) -> Vec<String> {
        let kind = match (self.sequential, self.reads) {
            (true, 100) => "read",
            (true, 0) => "write",
            (true, _) => "rw",
            (false, 100) => "randread",
            (false, 0) => "randwrite",
            (false, _) => "randrw",
        };
        let mut arguments = vec![
            format!("--rw={kind}"),
            format!("--bs={}", self.bytes),
            format!("--iodepth={}", self.depth),
            format!("--randseed={}", self.seed),
        ];
        if !matches!(self.reads, 0 | 100) {
            arguments.push(format!("--rwmixread={}", self.reads));
        }
        if let Some(duration) = self.duration {
            let seconds = duration.as_secs();
            arguments.extend(["--time_based".to_owned(), format!("--runtime={seconds}")]);
        }
        arguments
    }
}

/// Takes what is wanted of fio's JSON; it may say something else before. What it tells of processors is that of its own thread, and
/// not of those that Ceph's library has.
fn understood(output: &[u8]) -> Result<Measured> {
    let start = output.iter().position(|byte| *byte == b'{');
    let told: Value = serde_json::from_slice(&output[start.context("fio prints JSON")?..])?;
    let job = &told["jobs"][0];
    ensure!(job["error"] == 0, "fio found an error: {job:#}");
    let all = &job["mixed"];
    let number = |value: &Value, what: &str| {
        let number = value[what].as_f64();
        number.with_context(|| format!("fio tells {what}"))
    };
    let latency = |percent: &str| -> Result<Duration> {
        let nanoseconds = number(&all["lat_ns"]["percentile"], percent)?;
        Ok(Duration::from_nanos(nanoseconds as u64))
    };
    let commands = all["total_ios"].as_u64();
    let commands = commands.context("fio tells how many commands there were")?;
    ensure!(commands > 0, "fio did nothing");
    Ok(Measured {
        commands,
        per_second: number(all, "iops")?,
        bytes_per_second: number(all, "bw_bytes")?,
        median: latency("50.000000")?,
        p99: latency("99.000000")?,
        p999: latency("99.900000")?,
        server_time: None,
        client_time: Duration::ZERO,
    })
}
