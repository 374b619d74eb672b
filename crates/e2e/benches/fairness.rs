//! What a volume with one command at a time notices of another one with 256, and of a scrub: its latencies beside them, held
//! against those that it has alone, a moment before.
//!
//! `cargo bench -p holdfast-e2e --bench fairness -- [OPTION]...`:
//!
//! - `--rounds N`: measurements of each pair, 3 unless told otherwise;
//! - `--seconds N`: how long each measurement takes, 5 unless told otherwise;
//! - `--json FILE`: every figure of every measurement.
//!
//! Both volumes are led by the same node, and all load goes there. Loads share the machine with the nodes: where processors are few,
//! a part of what is seen is the wait for one. How much that is, an *echo* shows: two threads of this bench that send each other what
//! a read and its answer are long, over loopback, and do nothing else. Nothing is judged here but the aim.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::arguments::Repeated;
use holdfast_e2e::figures::{Aim, Bound, micros, say};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, figures, scenario};
use holdfast_lab::bench::{self, BenchConfig, BenchReport};
use holdfast_lab::meter::Latencies;
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// More than nodes: two of them are led by the same one.
const VOLUMES: [(&str, &str); 4] = [
    ("a", "a:2GiB:mirror2"),
    ("b", "b:2GiB:mirror2"),
    ("c", "c:2GiB:mirror2"),
    ("d", "d:2GiB:mirror2"),
];
/// Enough for all of two of them.
const CACHE: &str = "5GiB";
const QUIET_HOST: &str = "iqn.2026-11.io.holdfast.e2e:quiet";
const LOUD_HOST: &str = "iqn.2026-11.io.holdfast.e2e:loud";
/// 256 commands, in sessions none of which has more than its command window.
const LOUD_SESSIONS: usize = 8;
const LOUD_DEPTH: usize = 32;
const COMMAND_BYTES: u32 = 4 << 10;
/// A PDU's header, and that with a command's data.
const HEADER_BYTES: usize = 48;
const ANSWER_BYTES: usize = HEADER_BYTES + COMMAND_BYTES as usize;
/// Of a command while a volume is filled, and while it is read through: what nodes keep in memory.
const FILL_BYTES: u32 = 256 << 10;
const SWEEP_BYTES: u32 = 32 << 10;
/// For how long the load beside runs before what is measured, and after it.
const MARGIN: Duration = Duration::from_secs(1);
/// Of the quiet volume's p99: beside the other one, by alone.
const RATIO_MAX: f64 = 3.0;
const PATIENCE: Duration = Duration::from_secs(60);
/// A scrub takes its time where there is a load.
const SCRUB_PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let options = Repeated::of_process(5)?;
    let demo = DemoOptions {
        cache: Some(CACHE),
        volumes: VOLUMES.map(|(_, volume)| volume).into(),
        ..DemoOptions::default()
    };
    scenario(demo, |demo| measure(demo, &options));
    Ok(())
}

/// What has its latencies measured.
#[derive(Clone, Copy, Debug)]
enum Quiet {
    /// A load on the quiet volume, of so many reads of 100.
    Load(u64),
    /// No volume: what the machine alone makes of whoever waits for somebody else.
    Echo,
}

/// What goes on beside it.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// A load on the other volume, of so many reads of 100.
    Load(u64),
    /// A scrub of the quiet volume itself.
    Scrub,
}

/// What is measured, what goes on beside it, and both in words.
const PAIRS: [(Quiet, Beside, &str); 8] = [
    (Quiet::Load(100), Beside::Load(100), "reads beside reads"),
    (Quiet::Load(100), Beside::Load(0), "reads beside writes"),
    (Quiet::Load(100), Beside::Scrub, "reads beside a scrub"),
    (Quiet::Load(0), Beside::Load(100), "writes beside reads"),
    (Quiet::Load(0), Beside::Load(0), "writes beside writes"),
    (Quiet::Load(0), Beside::Scrub, "writes beside a scrub"),
    (Quiet::Echo, Beside::Load(100), "an echo beside reads"),
    (Quiet::Echo, Beside::Load(0), "an echo beside writes"),
];

/// Two volumes that a node leads.
struct Place<'a> {
    demo: &'a Demo,
    node: String,
    quiet: &'static str,
    loud: &'static str,
}

fn measure(demo: &Demo, options: &Repeated) -> Result<()> {
    let place = Place::find(demo)?;
    for volume in [place.quiet, place.loud] {
        place.fill(volume)?;
    }
    say(&format!(
        "{} and {} are led by {}; microseconds of commands of 4 KiB at queue depth 1",
        place.quiet, place.loud, place.node
    ))?;
    say(
        "                          alone: p50      p99    p99.9   beside: p50      p99    p99.9   p99 ratio  beside/s",
    )?;
    let mut results = Vec::new();
    for (quiet, beside, what) in PAIRS {
        let mut ratios = Vec::new();
        for round in 0..options.rounds {
            let alone = place.quietly(quiet, options.span, round)?;
            let (with, per_second) = place.beside(beside, quiet, options.span, round)?;
            ensure!(
                demo.primary(place.quiet)? == place.node && demo.primary(place.loud)? == place.node,
                "the volumes were not led by {} all the time",
                place.node
            );
            let ratio = micros(with.percentile(99.0)) / micros(alone.percentile(99.0));
            ratios.push(ratio);
            say(&line(what, &alone, &with, ratio, per_second))?;
            results.push(json!({
                "pair": what,
                "alone": figures::latencies(&alone),
                "beside": figures::latencies(&with),
                "ratio": figures::rounded(ratio),
                "beside_iops": per_second.map(figures::rounded),
            }));
        }
        if matches!(quiet, Quiet::Echo) {
            continue;
        }
        ratios.sort_by(f64::total_cmp);
        let aim = Aim {
            what: format!("p99 of {what} / alone"),
            bound: Bound::AtMost(RATIO_MAX),
            ratio: ratios[ratios.len() / 2],
        };
        say(&format!("  {aim}"))?;
        results.push(aim.json());
    }
    if let Some(path) = &options.json {
        let head = json!({ "rounds": options.rounds, "seconds": options.span.as_secs() });
        figures::write(path, "fairness", &head, &results)?;
    }
    Ok(())
}

impl<'a> Place<'a> {
    fn find(demo: &'a Demo) -> Result<Self> {
        let mut led: Vec<(String, &'static str)> = Vec::new();
        for (volume, _) in VOLUMES {
            demo.wait_until_settled(volume)?;
            let node = demo.primary(volume)?;
            if let Some((_, quiet)) = led.iter().find(|(leader, _)| *leader == node) {
                return Ok(Self {
                    demo,
                    node,
                    quiet,
                    loud: volume,
                });
            }
            led.push((node, volume));
        }
        bail!("of {} volumes no two are led by one node", VOLUMES.len())
    }

    fn fill(&self, volume: &str) -> Result<()> {
        let fill = BenchConfig {
            sessions: 1,
            depth: 8,
            command_bytes: FILL_BYTES,
            reads_percent: 0,
            ..self.config(volume, LOUD_HOST)?
        };
        let read = BenchConfig {
            command_bytes: SWEEP_BYTES,
            reads_percent: 100,
            ..fill.clone()
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        for config in [fill, read] {
            let swept = runtime.block_on(bench::sweep(config));
            swept.with_context(|| format!("fill {volume}"))?;
        }
        Ok(())
    }

    /// Everything but how much.
    fn config(&self, volume: &str, host: &str) -> Result<BenchConfig> {
        Ok(BenchConfig {
            command_bytes: COMMAND_BYTES,
            warm_up: MARGIN,
            ..self.demo.bench_config(volume, host)?
        })
    }

    fn quietly(&self, quiet: Quiet, span: Duration, round: u32) -> Result<Latencies> {
        match quiet {
            Quiet::Load(reads) => self.quiet_load(reads, span, round),
            Quiet::Echo => echo(span).context("the echo"),
        }
    }

    fn quiet_load(&self, reads: u64, span: Duration, round: u32) -> Result<Latencies> {
        let config = BenchConfig {
            reads_percent: reads,
            duration: span,
            seed: u64::from(round) + 1,
            ..self.config(self.quiet, QUIET_HOST)?
        };
        let report = load(config).context("the quiet volume's load")?;
        ensure!(report.latencies().count() > 0, "the quiet volume stands");
        Ok(report.latencies())
    }

    /// The latencies of what is quiet beside something, and how many commands in a second a load did beside it.
    fn beside(
        &self,
        beside: Beside,
        quiet: Quiet,
        span: Duration,
        round: u32,
    ) -> Result<(Latencies, Option<f64>)> {
        let loud_reads = match beside {
            Beside::Load(loud_reads) => loud_reads,
            Beside::Scrub => {
                self.begin_scrub()?;
                let quiet = self.quietly(quiet, span, round)?;
                ensure!(self.is_scrubbed()?, "the scrub had ended: fewer --seconds");
                return Ok((quiet, None));
            }
        };
        let loud = BenchConfig {
            sessions: LOUD_SESSIONS,
            depth: LOUD_DEPTH,
            reads_percent: loud_reads,
            duration: MARGIN + span + MARGIN,
            seed: u64::from(round) + 1001,
            ..self.config(self.loud, LOUD_HOST)?
        };
        // A thread of its own: else the quiet one would wait for what the loud one does with its answers.
        thread::scope(|scope| {
            let loud = scope.spawn(|| load(loud));
            thread::sleep(MARGIN);
            let quiet = self.quietly(quiet, span, round)?;
            let loud = loud.join().expect("a load does not panic");
            let loud = loud.context("the loud volume's load")?;
            Ok((quiet, Some(loud.commands_per_second())))
        })
    }

    /// Has the quiet volume scrubbed from the beginning, when nothing is left of a scrub before.
    fn begin_scrub(&self) -> Result<()> {
        wait_until("no scrub runs", SCRUB_PATIENCE, || Ok(!self.is_scrubbed()?))?;
        let api = self.demo.api();
        cli::done(&["--api", api, "volume", "scrub", self.quiet])?;
        wait_until("the scrub runs", PATIENCE, || self.is_scrubbed()).map(|_| ())
    }

    fn is_scrubbed(&self) -> Result<bool> {
        let shown: Value = cli::json(self.demo.api(), &["volume", "show", self.quiet])?;
        Ok(!shown["scrub"]["running"].is_null())
    }
}

fn load(config: BenchConfig) -> Result<BenchReport> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(bench::run(config))?)
}

/// Latencies of a thread that sends another one what a read is long, and gets what its answer is long.
fn echo(span: Duration) -> Result<Latencies> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let answers = thread::spawn(move || -> io::Result<()> {
        let (mut request, answer) = ([0; HEADER_BYTES], [0; ANSWER_BYTES]);
        while server.read(&mut request[..1])? > 0 {
            server.read_exact(&mut request[1..])?;
            server.write_all(&answer)?;
        }
        Ok(())
    });
    let (request, mut answer) = ([0; HEADER_BYTES], [0; ANSWER_BYTES]);
    let mut latencies = Latencies::default();
    let begin = Instant::now();
    let mut sent = begin;
    while sent - begin < span {
        client.write_all(&request)?;
        client.read_exact(&mut answer)?;
        let answered = Instant::now();
        latencies.record(answered - sent);
        sent = answered;
    }
    drop(client);
    answers.join().expect("the echo does not panic")?;
    Ok(latencies)
}

fn line(
    what: &str,
    alone: &Latencies,
    with: &Latencies,
    ratio: f64,
    per_second: Option<f64>,
) -> String {
    let columns = |latencies: &Latencies| {
        let [p50, p99, p999] =
            [50.0, 99.0, 99.9].map(|percent| micros(latencies.percentile(percent)));
        format!("{p50:>8.0} {p99:>8.0} {p999:>8.0}")
    };
    let (alone, with) = (columns(alone), columns(with));
    let per_second = per_second.map_or_else(String::new, |it| format!("{it:.0}"));
    format!("{what:<24}     {alone}      {with} {ratio:>11.2} {per_second:>9}")
}
