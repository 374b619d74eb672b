//! The stall ledger of real processes: what the portals tell of a node's death is what a load saw.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::{LoadConfig, PathChoice};
use serde::Deserialize;

/// A load counts from answer to answer on all its paths, a portal from its own last answer until its
/// next: they differ by what the machine needs to wake everybody up. Processes that wait for a
/// processor make more of it.
const TOLERANCE: Duration = Duration::from_millis(250);
/// How long nothing may happen for: machines that are busy with other things stall by themselves.
const ORDINARY: Duration = Duration::from_millis(500);
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
const AFTERWARDS: Duration = Duration::from_secs(5);

/// What `holdfast stalls` tells, as its contract says.
#[derive(Debug, Deserialize)]
struct Stalls {
    stalls: Vec<Stall>,
    silent: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Stall {
    began_ms: u64,
    length_ms: u64,
    lasting: bool,
    portal: String,
    volume: String,
    initiator: Option<String>,
    cause: String,
    node: Option<String>,
}

impl Stall {
    fn length(&self) -> Duration {
        Duration::from_millis(self.length_ms)
    }
}

fn stalls(demo: &Demo, arguments: &[&str]) -> Result<Stalls> {
    let all = [&["stalls", "demo"], arguments].concat();
    cli::json(&demo.file().api, &all)
}

fn now_ms() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

fn load(host: &Host) -> HostLoad<'_> {
    let config = LoadConfig {
        depth: 12,
        paths: PathChoice::Own,
        ..LoadConfig::default()
    };
    host.load(host.ledger(1), config)
}

/// Those that began after `from`, at portals of other nodes than `but`.
fn since(demo: &Demo, from: u64, but: &str) -> Result<Vec<Stall>> {
    let Stalls { mut stalls, .. } = stalls(demo, &[])?;
    stalls.retain(|stall| stall.began_ms + ORDINARY.as_millis() as u64 >= from);
    stalls.retain(|stall| stall.portal != but);
    Ok(stalls)
}

/// Metrics are asked for by hand here, without TLS.
fn options() -> DemoOptions {
    DemoOptions {
        secure: false,
        ..DemoOptions::default()
    }
}

#[test]
fn a_killed_primary_is_in_the_ledger_for_as_long_as_the_load_stood_still() {
    scenario(options(), |demo| {
        let host = Host::open(demo, "demo")?;
        let quiet = stalls(demo, &[])?;
        ensure!(quiet.stalls.is_empty(), "nobody has used it: {quiet:?}");
        let load = load(&host);
        load.wait_for(500)?;
        let ordinary = stalls(demo, &[])?;
        let long = ordinary.stalls.iter().find(|it| it.length() > ORDINARY);
        ensure!(long.is_none(), "nothing has happened yet: {long:?}");
        load.restart_stalls();
        let (primary, from) = (demo.primary("demo")?, now_ms()?);
        demo.kill(&primary)?;
        sleep(AFTERWARDS);
        let seen = load.report().longest_stall;
        let told = since(demo, from, &primary)?;
        // The commands of the portal that died wait for longer than those of the others.
        let longest = told.iter().max_by_key(|stall| stall.length_ms);
        let longest = longest
            .with_context(|| format!("nobody told of {seen:?}"))?
            .clone();
        ensure!(longest.cause == "node-lost", "{longest:?}");
        ensure!(longest.node.as_ref() == Some(&primary), "{longest:?}");
        ensure!(!longest.lasting && longest.initiator.is_none() && longest.volume == "demo");
        ensure!(
            longest.length().abs_diff(seen) < TOLERANCE,
            "the load saw {seen:?}, the ledger says {longest:?}"
        );
        let each = stalls(demo, &["--initiators"])?;
        ensure!(
            each.stalls.iter().any(|it| it.initiator.is_some()),
            "{each:?}"
        );
        ensure!(each.silent == [primary.as_str()], "{each:?}");
        shows_in_metrics(demo, &longest)?;
        demo.start_node(&primary)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        survives_a_restart(demo, &longest)?;
        host.wait_for_all_paths()?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

#[test]
fn a_frozen_secondary_is_in_the_ledger_too() {
    scenario(options(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = load(&host);
        load.wait_for(300)?;
        let secondary = demo.secondary("demo")?;
        let from = now_ms()?;
        demo.freeze(&secondary)?;
        sleep(AFTERWARDS);
        demo.thaw(&secondary)?;
        let told = since(demo, from, &secondary)?;
        let longest = told.iter().max_by_key(|stall| stall.length_ms);
        let longest = longest.context("nobody told of it")?;
        ensure!(longest.cause == "node-lost", "{longest:?}");
        ensure!(longest.node.as_ref() == Some(&secondary), "{longest:?}");
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        host.wait_for_all_paths()?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

/// The portal's own node counts it, for Prometheus.
fn shows_in_metrics(demo: &Demo, stall: &Stall) -> Result<()> {
    let mut nodes = demo.file().nodes.iter();
    let node = nodes.find(|node| node.name == stall.portal);
    let address = node
        .context("the portal's node")?
        .api
        .replace("http://", "");
    let mut stream = TcpStream::connect(&address)?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let count = "holdfast_stall_seconds_count{cause=\"node-lost\"} ";
    let counted = text.lines().find_map(|line| line.strip_prefix(count));
    let counted: u64 = counted
        .with_context(|| format!("no {count} in:\n{text}"))?
        .parse()?;
    ensure!(counted > 0, "it was not counted:\n{text}");
    ensure!(text.contains("holdfast_open 1"), "it serves:\n{text}");
    Ok(())
}

/// A node that is started anew knows what it knew.
fn survives_a_restart(demo: &mut Demo, stall: &Stall) -> Result<()> {
    demo.kill(&stall.portal)?;
    demo.start_node(&stall.portal)?;
    demo.wait_until_whole("demo", SYNC_PATIENCE)?;
    let known = stalls(demo, &["--limit", "1000"])?.stalls;
    let is_it = |it: &&Stall| it.began_ms == stall.began_ms && it.portal == stall.portal;
    ensure!(
        known.iter().any(|it| is_it(&it)),
        "{stall:?} is not in {known:?}"
    );
    Ok(())
}
