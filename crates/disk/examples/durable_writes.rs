//! Measures 4 KiB random operations with each driver, alternating, and prints a table.
//!
//! usage: `durable_writes DEVICE [SECONDS] [DEPTH]`; a missing DEVICE is created as a file of 1 GiB.
//! CPU time is that of the whole process, the kernel's workers for it included.
#![allow(clippy::print_stdout, reason = "a tool talks to its caller")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_disk::{DeviceSpec, Disks, DriverChoice, Options};
use holdfast_model::{DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::{Bytes, Prng};
use rustix::time::{ClockId, clock_gettime};

const BLOCK: u64 = 4096;
const FILE_SIZE: u64 = 1 << 30;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    DurableWrite,
    PlainWrite,
    Read,
}

struct Figures {
    per_second: f64,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .expect("usage: durable_writes DEVICE [SECONDS] [DEPTH]");
    let mut number = |default: usize| {
        arguments
            .next()
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let span = Duration::from_secs(number(2) as u64);
    let depth = number(32);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    fill(&path, &runtime);
    let mut table: BTreeMap<(Kind, &str), Vec<Figures>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for kind in [Kind::DurableWrite, Kind::PlainWrite, Kind::Read] {
            for (name, driver, threads) in [
                ("ring", DriverChoice::Ring, 1),
                ("threads 16", DriverChoice::Threads, 16),
                ("threads 32", DriverChoice::Threads, 32),
            ] {
                let mut disks = open(&path, driver, threads);
                let figures = runtime.block_on(measure(&mut disks, kind, depth, span));
                table.entry((kind, name)).or_default().push(figures);
            }
        }
    }
    println!("depth {depth}, {ROUNDS} rounds of {span:?}: median (minimum to maximum)");
    for ((kind, name), figures) in &table {
        println!(
            "{kind:?} {name}: {} ops/s, {} CPU us/op, p50 {} us, p99 {} us",
            spread(figures, |f| f.per_second),
            spread(figures, |f| f.cpu_us),
            spread(figures, |f| f.p50_us),
            spread(figures, |f| f.p99_us),
        );
    }
}

fn open(path: &str, driver: DriverChoice, threads: usize) -> Disks {
    let options = Options {
        driver,
        threads,
        ..Options::default()
    };
    Disks::open(&[DeviceSpec::file(path, FILE_SIZE)], options).expect("the device opens")
}

/// Writes everything once, so that no write allocates.
fn fill(path: &str, runtime: &tokio::runtime::Runtime) {
    let mut disks = open(path, DriverChoice::RingOrThreads, 4);
    let size = disks.geometry(DiskId(0)).expect("there is one").size;
    let chunk = 1 << 20;
    for (index, offset) in (0..size / chunk).map(|index| (index, index * chunk)) {
        disks.submit(request(
            index,
            DiskOp::Write {
                offset,
                parts: vec![Bytes::from(vec![index as u8; chunk as usize])],
                durable: false,
            },
        ));
        if index % 16 == 15 {
            let mut done = Vec::new();
            while disks.outstanding() > 0 {
                runtime.block_on(disks.completions(&mut done));
            }
        }
    }
}

fn request(token: u64, op: DiskOp) -> DiskRequest {
    DiskRequest {
        token: DiskToken(token),
        disk: DiskId(0),
        op,
    }
}

async fn measure(disks: &mut Disks, kind: Kind, depth: usize, span: Duration) -> Figures {
    let blocks = disks.geometry(DiskId(0)).expect("there is one").size / BLOCK;
    let mut prng = Prng::from_seed(7);
    let payload = Bytes::from(vec![0x5A_u8; 2 * BLOCK as usize]);
    // Where a block begins in memory that direct I/O accepts as it is.
    let skip = payload.as_ptr().align_offset(512);
    let payload = payload.slice(skip..skip + BLOCK as usize);
    let mut next = || {
        let offset = prng.below(blocks) * BLOCK;
        match kind {
            Kind::Read => DiskOp::Read {
                offset,
                length: BLOCK as u32,
            },
            Kind::DurableWrite | Kind::PlainWrite => DiskOp::Write {
                offset,
                parts: vec![payload.clone()],
                durable: kind == Kind::DurableWrite,
            },
        }
    };
    let mut started = vec![Instant::now(); depth];
    let mut latencies = Vec::new();
    let mut done = Vec::new();
    let begin = Instant::now();
    let cpu_begin = cpu();
    for (token, start) in started.iter_mut().enumerate() {
        *start = Instant::now();
        disks.submit(request(token as u64, next()));
    }
    while disks.outstanding() > 0 {
        disks.completions(&mut done).await;
        let now = Instant::now();
        for completion in done.drain(..) {
            completion.result.expect("the operation succeeds");
            let token = completion.token.0 as usize;
            latencies.push(now - started[token]);
            if begin.elapsed() < span {
                started[token] = now;
                disks.submit(request(token as u64, next()));
            }
        }
    }
    let elapsed = begin.elapsed();
    let cpu = cpu() - cpu_begin;
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |percent: usize| latencies[(count - 1) * percent / 100].as_secs_f64() * 1e6;
    Figures {
        per_second: count as f64 / elapsed.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / count as f64,
        p50_us: at(50),
        p99_us: at(99),
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn spread(figures: &[Figures], value: impl Fn(&Figures) -> f64) -> String {
    let mut values: Vec<f64> = figures.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let (first, last) = (values[0], values[values.len() - 1]);
    let median = values[values.len() / 2];
    if median >= 1000.0 {
        format!("{median:.0} ({first:.0} to {last:.0})")
    } else {
        format!("{median:.1} ({first:.1} to {last:.1})")
    }
}
