//! How long a node whose devices are full takes from its start until it serves hosts.
//!
//! `cargo bench -p holdfast-e2e --bench start -- [OPTION]...`:
//!
//! - `--rounds N`: starts that are measured, 3 unless told otherwise;
//! - `--slices N`: slices on the node, 256 unless told otherwise: 1 TiB;
//! - `--json FILE`: every figure of every start.
//!
//! A demo of three nodes gets a volume that has so many slices on each, and is stopped. The device of the first node is filled by
//! `cargo bench -p holdfast-store --bench start`: each page of each slice has an entry in the table that says that its blocks are zeros,
//! and lies in a hole of the sparse file. That takes 4.1 GiB of the file system for 1 TiB. On the other nodes the same blocks are
//! nothing, which is zeros as well.
//!
//! Then the node is killed, others take over what it led, and it is started again by its command. Measured is when a host first gets a
//! block by its portal, read from a medium: of the node that leads the slice then, which may be another one; and when all copies of the
//! volume are in sync again, from when on this one has its share of the reads. Memory is all that the process has more than it had
//! while it had no pages. docs/performance.md says what was found; nothing is judged here but the aims.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::arguments::Arguments;
use holdfast_e2e::figures::{Aim, Bound, rounded, say};
use holdfast_e2e::process::processor_time;
use holdfast_e2e::{Demo, DemoOptions, figures, scenario};
use holdfast_lab::{IscsiName, Isid, Lun, Session, SessionConfig, SessionKind, command};
use holdfast_model::{ByteSize, PAGES_PER_SLICE, SLICE_SIZE};
use holdfast_stdx::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::timeout;

const NODES: u64 = 3;
const COPIES: u64 = 2;
const NODE: &str = "n1";
const VOLUME: &str = "big";
const HOST: &str = "iqn.2026-11.io.holdfast.e2e:start";
const ROUNDS_MAX: u32 = 100;
/// 16 TiB.
const SLICES_MAX: u32 = 4096;
/// What a device needs beside slots, at most: journal, and page table.
const DEVICE_ROOM: u64 = 24 << 30;
/// A volume that large may take longer than others to be there.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a killed node is missed: its slices have other primaries by then.
const AWAY: Duration = Duration::from_secs(5);
/// Between two attempts of the host.
const ATTEMPT: Duration = Duration::from_millis(10);
const READ_MAX: Duration = Duration::from_secs(1);
const LOGICAL_BLOCK: u32 = 512;
const BLOCK: u32 = 4 << 10;
/// From its start until a host is served.
const SECONDS_MAX: f64 = 10.0;
/// Of memory for a page.
const PAGE_BYTES_MAX: f64 = 64.0;

/// What was found of one start.
struct Start {
    served: Duration,
    whole: Duration,
    processors: Duration,
    /// Bytes for a page.
    memory: f64,
    memory_most: f64,
}

fn main() -> Result<()> {
    let mut arguments = Arguments::of_process();
    let rounds = arguments.number("--rounds", 3, ROUNDS_MAX)?;
    let slices = arguments.number("--slices", 256, SLICES_MAX)?;
    let json = arguments.json();
    arguments.end()?;
    // Each slice is on as many nodes as it has copies, and nodes have as many of them.
    let bytes = (u64::from(slices) * NODES / COPIES) * SLICE_SIZE;
    let volume = format!("{VOLUME}:{}:mirror{COPIES}", ByteSize(bytes));
    let device = u64::from(slices) * SLICE_SIZE / 100 * 105 + DEVICE_ROOM;
    let options = DemoOptions {
        volumes: vec![volume.leak()],
        device_size: ByteSize(device.next_multiple_of(1 << 20))
            .to_string()
            .leak(),
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let starts = measure(demo, rounds)?;
        tell(&starts, slices, json.as_deref())
    });
    Ok(())
}

fn measure(demo: &mut Demo, rounds: u32) -> Result<Vec<Start>> {
    demo.wait_until_whole(VOLUME, PATIENCE)?;
    let (empty, _) = demo.memory(NODE)?;
    demo.stop()?;
    fill(&demo.device(NODE))?;
    demo.start_again()?;
    demo.wait_until_whole(VOLUME, PATIENCE)?;
    let mut starts = Vec::new();
    for _ in 0..rounds {
        demo.kill(NODE)?;
        sleep(AWAY);
        starts.push(start(demo, empty)?);
    }
    Ok(starts)
}

/// Fills a device of a node that is off.
fn fill(device: &Path) -> Result<()> {
    // This bench is TARGET/PROFILE/deps/NAME-HASH.
    let bench = std::env::current_exe()?;
    let target = bench
        .ancestors()
        .nth(3)
        .context("find the build directory")?;
    let filled = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "--locked", "-p", "holdfast-store"])
        .args(["--bench", "start", "--target-dir"])
        .arg(target)
        .arg("--")
        .arg(device)
        .arg("--fill")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("start cargo")?;
    let errors = String::from_utf8_lossy(&filled.stderr);
    ensure!(
        filled.status.success(),
        "fill {}: {errors}",
        device.display()
    );
    say(String::from_utf8_lossy(&filled.stdout).trim_end())
}

/// Starts the node, and waits until it serves and has everything.
fn start(demo: &mut Demo, empty: u64) -> Result<Start> {
    let host = Host::of(demo)?;
    let begun = Instant::now();
    let reading = host.read_until_it_is_there();
    demo.start_node(NODE)?;
    let read = reading.join().expect("the host does not panic")?;
    demo.wait_until_whole(VOLUME, PATIENCE)?;
    let whole = begun.elapsed();
    let processors = processor_time(demo.pid(NODE)?)?;
    let (resident, most) = demo.memory(NODE)?;
    let volume = demo.volume(VOLUME)?;
    let here = volume.slices.iter();
    let here = here.filter(|slice| slice.in_sync.iter().any(|node| node == NODE));
    let pages = here.count() as f64 * f64::from(PAGES_PER_SLICE);
    let a_page = |bytes: u64| bytes.saturating_sub(empty) as f64 / pages;
    Ok(Start {
        served: read - begun,
        whole,
        processors,
        memory: a_page(resident),
        memory_most: a_page(most),
    })
}

/// Who reads a block by the node's portal.
struct Host {
    portal: SocketAddr,
    target: IscsiName,
    lun: Lun,
    /// The logical block at which the last slice begins that the node has.
    place: u64,
}

impl Host {
    fn of(demo: &Demo) -> Result<Self> {
        let volume = demo.file().volume(VOLUME)?;
        let shown = demo.volume(VOLUME)?;
        // What it led is led by others by now, and it is no part of what is in sync.
        let slice = shown
            .slices
            .iter()
            .rfind(|slice| slice.in_sync.len() < COPIES as usize);
        let slice = slice.context("the node is missed in some slice")?;
        Ok(Self {
            portal: demo.file().node(NODE)?.portal,
            target: IscsiName::parse(&volume.target)?,
            lun: Lun::from_number(volume.lun),
            place: slice.index * SLICE_SIZE / u64::from(LOGICAL_BLOCK),
        })
    }

    /// Tries until it has got its block: when that was.
    fn read_until_it_is_there(self) -> JoinHandle<Result<Instant>> {
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                let read = runtime.block_on(async { timeout(READ_MAX, self.read()).await });
                let at = Instant::now();
                if let Ok(Some(read)) = read {
                    let length: usize = read.iter().map(Bytes::len).sum();
                    ensure!(length == BLOCK as usize, "a block has {BLOCK} bytes");
                    let is_zero = read.iter().all(|part| part.iter().all(|byte| *byte == 0));
                    ensure!(is_zero, "nothing was written");
                    return Ok(at);
                }
                sleep(ATTEMPT);
            }
            bail!("no host is served within {PATIENCE:?}")
        })
    }

    /// A session, and one block by it; none if there is no session yet, or nobody has the block.
    async fn read(&self) -> Option<Vec<Bytes>> {
        let name = IscsiName::parse(HOST).expect("it is one");
        let kind = SessionKind::Normal(self.target.clone());
        let isid = Isid([0x80, 0, 0, 1, 0, 0]);
        let config = SessionConfig::new(self.portal, name, isid, kind);
        let session = Session::connect(config).await.ok()?;
        // The first answers of a new session may be unit attentions.
        for _ in 0..8 {
            let count = BLOCK / LOGICAL_BLOCK;
            let read = command::read_from_medium(self.lun, self.place, count, LOGICAL_BLOCK);
            let completion = session.execute(read).await.ok()?;
            if completion.status == 0 {
                session.log_out().await;
                return Some(completion.data_in);
            }
        }
        None
    }
}

fn tell(starts: &[Start], slices: u32, json: Option<&Path>) -> Result<()> {
    say("serves after, s  all in sync after, s  processors, s  bytes a page  at most")?;
    for it in starts {
        say(&format!(
            "{:>15.2}  {:>20.2}  {:>13.2}  {:>12.1}  {:>7.1}",
            it.served.as_secs_f64(),
            it.whole.as_secs_f64(),
            it.processors.as_secs_f64(),
            it.memory,
            it.memory_most,
        ))?;
    }
    let most = |figure: fn(&Start) -> f64| starts.iter().map(figure).fold(0.0, f64::max);
    let aims = [
        Aim {
            what: "seconds until hosts are served".to_owned(),
            bound: Bound::AtMost(SECONDS_MAX),
            ratio: most(|it| it.served.as_secs_f64()),
        },
        Aim {
            what: "bytes of memory for a page".to_owned(),
            bound: Bound::AtMost(PAGE_BYTES_MAX),
            ratio: most(|it| it.memory),
        },
    ];
    for aim in &aims {
        say(&aim.to_string())?;
    }
    let Some(path) = json else {
        return Ok(());
    };
    let mut results: Vec<Value> = starts.iter().map(Start::json).collect();
    results.extend(aims.iter().map(Aim::json));
    figures::write(path, "start", &json!({ "slices": slices }), &results)
}

impl Start {
    fn json(&self) -> Value {
        json!({
            "served_seconds": rounded(self.served.as_secs_f64()),
            "whole_seconds": rounded(self.whole.as_secs_f64()),
            "processor_seconds": rounded(self.processors.as_secs_f64()),
            "page_bytes": rounded(self.memory),
            "page_bytes_most": rounded(self.memory_most),
        })
    }
}
