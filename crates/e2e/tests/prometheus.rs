//! Debian's Prometheus, and what nodes tell it: a real scrape, and its own tool's judgement of metrics and rules.
//!
//! It is started by its path, on a port of its own: the machine's service has nothing to do with it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::{Demo, DemoOptions, scenario};
use serde_json::Value;

/// How long it may take until every node has been scraped.
const PATIENCE: Duration = Duration::from_secs(60);

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring")
}

/// What the tool says of this input; it ends with 0, and has nothing to object.
fn promtool(arguments: &[&str], directory: &Path, input: &str) -> Result<String> {
    let mut tool = Command::new("promtool")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start promtool (Debian's package prometheus)")?;
    let mut stdin = tool.stdin.take().context("its input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let done = tool.wait_with_output()?;
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "promtool {arguments:?}: {said}");
    Ok(said)
}

/// What is answered at a path of this address.
fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    Ok(body.to_owned())
}

/// Ends with the test.
struct Prometheus {
    process: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    fn start(demo: &Demo, targets: &[String]) -> Result<Self> {
        let directory = demo.scratch("prometheus");
        fs::create_dir_all(&directory)?;
        let targets: Vec<_> = targets.iter().map(|it| format!("{it:?}")).collect();
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{:?}]\n\
             scrape_configs:\n  - job_name: holdfast\n    static_configs: [{{targets: [{}]}}]\n",
            rules().join("holdfast.rules.yml"),
            targets.join(", ")
        );
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = fs::File::create(directory.join("log"))?;
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={port}"))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start prometheus (Debian's package prometheus)")?;
        Ok(Self {
            process,
            address: port.to_string(),
        })
    }

    /// The values that an expression has now.
    fn ask(&self, expression: &str) -> Result<Vec<Value>> {
        let text = get(&self.address, &format!("/api/v1/query?query={expression}"))?;
        let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let found = answer["data"]["result"].as_array().context(text)?;
        Ok(found.clone())
    }
}

/// Metrics are asked for by hand here, without TLS.
fn options() -> DemoOptions {
    DemoOptions {
        secure: false,
        ..DemoOptions::default()
    }
}

#[test]
fn prometheus_takes_what_nodes_tell_and_has_nothing_to_object() {
    scenario(options(), |demo| {
        let nodes = demo.file().nodes.iter();
        let apis: Vec<String> = nodes.map(|it| it.api.replace("http://", "")).collect();
        for api in &apis {
            let said = promtool(&["check", "metrics"], &rules(), &get(api, "/metrics")?)?;
            ensure!(said.trim().is_empty(), "promtool: {said}");
        }
        let prometheus = Prometheus::start(demo, &apis)?;
        let begun = Instant::now();
        loop {
            let up = prometheus.ask("up==1").unwrap_or_default();
            if up.len() == apis.len() {
                break;
            }
            ensure!(begun.elapsed() < PATIENCE, "only {up:?} are scraped");
            sleep(Duration::from_millis(200));
        }
        for (expression, count) in [
            ("holdfast_build_info", apis.len()),
            ("holdfast_pool_bytes%3E0", apis.len()),
            // Six causes, each from zero on.
            ("holdfast_stall_seconds_count", 6 * apis.len()),
            ("holdfast_device_state==1", apis.len()),
            ("sum(holdfast_primaries)==1", 1),
            ("sum(holdfast_replicas_lacking)==0", 1),
            ("ALERTS", 0),
        ] {
            let found = prometheus.ask(expression)?;
            ensure!(found.len() == count, "{expression}: {found:?}");
        }
        // As OpenMetrics, where a kind for versions is known.
        let told = get(
            &prometheus.address,
            "/api/v1/metadata?metric=holdfast_build",
        )?;
        ensure!(told.contains("\"type\":\"info\""), "{told}");
        Ok(())
    });
}

#[test]
fn the_rules_say_what_they_must_and_nothing_else() -> Result<()> {
    let directory = rules();
    promtool(&["check", "rules", "holdfast.rules.yml"], &directory, "")?;
    promtool(
        &["test", "rules", "holdfast.rules.test.yml"],
        &directory,
        "",
    )?;
    Ok(())
}
