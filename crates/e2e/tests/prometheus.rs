//! Debian's Prometheus, and what nodes tell it: a real scrape of nodes with TLS, as the manual says, and its own tool's judgement of
//! metrics and rules.
//!
//! It is started by its path, on a port of its own: the machine's service has nothing to do with it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::{DemoOptions, cli, scenario};
use serde_json::Value;

use crate::https;

/// How long it may take until every node has been scraped.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the dashboard asks for, and this demo tells nothing of: it has no etcd, and nothing has stalled.
const ABSENT: [&str; 3] = [
    "holdfast_etcd_certificate_not_after_timestamp_seconds",
    "holdfast_metadata_member_up",
    "holdfast_volume_stalled_seconds_total",
];

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

/// The configuration in `docs/monitoring.md`, with what is this demo's in the places of its examples; it asks more often. Beside it a job
/// that shows no token.
fn configuration(token: &Path, ca: &str, targets: &[&str]) -> Result<String> {
    let written = manual("```yaml\n# prometheus.yml\n", "```")?;
    let rules = rules().join("holdfast.rules.yml");
    let targets: Vec<_> = targets.iter().map(|it| format!("{it:?}")).collect();
    let targets = targets.join(", ");
    let mut configuration = written;
    for (example, here) in [
        (
            "scrape_interval: 15s",
            "scrape_interval: 1s\n  evaluation_interval: 1s".to_owned(),
        ),
        ("- holdfast.rules.yml ", format!("- {} ", rules.display())),
        (
            "/etc/prometheus/holdfast-token ",
            format!("{} ", token.display()),
        ),
        ("/etc/prometheus/holdfast-authority.pem ", format!("{ca} ")),
        (
            "\"192.0.2.1:7461\", \"192.0.2.2:7461\", \"192.0.2.3:7461\"",
            targets.clone(),
        ),
    ] {
        ensure!(
            configuration.matches(example).count() == 1,
            "{example:?} is once in docs/monitoring.md"
        );
        configuration = configuration.replace(example, &here);
    }
    Ok(configuration
        + &format!(
            "  - {{job_name: stranger, scheme: https, tls_config: {{ca_file: {ca:?}}}, static_configs: [{{targets: [{targets}]}}]}}\n"
        ))
}

/// What stands between the first of these words in `docs/monitoring.md` and the next of the others.
fn manual(begin: &str, end: &str) -> Result<String> {
    let page = fs::read_to_string(rules().join("../monitoring.md"))?;
    let (_, rest) = page.split_once(begin).with_context(|| begin.to_owned())?;
    let (found, _) = rest.split_once(end).with_context(|| end.to_owned())?;
    Ok(found.to_owned())
}

impl Prometheus {
    fn start(directory: &Path, configuration: &str) -> Result<Self> {
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
        let escape = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        let expression: String = expression.bytes().map(escape).collect();
        let text = get(&self.address, &format!("/api/v1/query?query={expression}"))?;
        let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer["status"] == "success", "{expression}: {text}");
        let found = answer["data"]["result"].as_array().context(text)?;
        Ok(found.clone())
    }

    /// The names of all that was scraped.
    fn names(&self) -> Result<BTreeSet<String>> {
        let text = get(&self.address, "/api/v1/label/__name__/values")?;
        let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let names = answer["data"].as_array().context(text)?;
        let names = names.iter().filter_map(Value::as_str);
        Ok(names.map(str::to_owned).collect())
    }
}

/// What the dashboard asks for, with what Grafana puts in the places of its variables.
fn dashboard() -> Result<Vec<String>> {
    let text = fs::read_to_string(rules().join("holdfast-dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard["panels"].as_array().context("it has panels")?;
    let targets = panels.iter().filter_map(|it| it["targets"].as_array());
    let asked = targets.flatten().map(|target| {
        let asked = target["expr"].as_str().context("an expression")?;
        let asked = asked.replace("$job", "holdfast");
        let asked = asked.replace("$__rate_interval", "1m");
        ensure!(!asked.contains('$'), "{asked} has another variable");
        Ok(asked)
    });
    asked.collect()
}

/// The metrics of ours that an expression names.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(move |letter| !is_part(letter));
    words.filter(|word| word.starts_with("holdfast_"))
}

/// Prometheus has an answer to all that the dashboard asks, and nodes tell what that is about. A host has been there.
fn answers_the_dashboard(prometheus: &Prometheus) -> Result<()> {
    let asked = dashboard()?;
    ensure!(asked.len() > 30, "{asked:?}");
    // What joins rates with names is only judged where there are both.
    let busy = "rate(holdfast_command_duration_seconds_count[1m])";
    let begun = Instant::now();
    loop {
        let known = prometheus.names()?;
        let names = asked.iter().flat_map(|it| named(it));
        let unknown = names.filter(|it| !ABSENT.contains(it) && !known.contains(*it));
        let unknown: BTreeSet<&str> = unknown.collect();
        if unknown.is_empty() && !prometheus.ask(busy)?.is_empty() {
            break;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "no node tells {unknown:?}, or what a host did"
        );
        sleep(Duration::from_millis(200));
    }
    for expression in &asked {
        prometheus.ask(expression)?;
    }
    Ok(())
}

/// The token that `docs/monitoring.md` has made, by its command.
fn token(api: &str) -> Result<String> {
    let command = manual("credentials_file: ", "\n")?;
    let (_, command) = command.split_once("# holdfast ").context("a command")?;
    let made: Value = cli::json(api, &command.split(' ').collect::<Vec<_>>())?;
    let secret = made["secret"].as_str().context("a token")?;
    Ok(secret.to_owned())
}

#[test]
fn prometheus_takes_what_nodes_tell_by_its_token_and_has_nothing_to_object() {
    scenario(DemoOptions::default(), |demo| {
        let directory = demo.scratch("prometheus");
        fs::create_dir_all(&directory)?;
        let ca = demo.file().ca.clone().context("an authority")?;
        let token = token(demo.api())?;
        let token_file = directory.join("token");
        fs::write(&token_file, &token)?;
        let authority = fs::read_to_string(&ca)?;
        let bearer = format!("Bearer {token}");
        let shown = &[("authorization", bearer.as_str())];
        let mut targets = Vec::new();
        for node in &demo.file().nodes {
            let metrics = https::get(&authority, &format!("{}/metrics", node.api), shown)?;
            ensure!(metrics.status == 200, "{}", metrics.head);
            let said = promtool(&["check", "metrics"], &rules(), &metrics.body)?;
            ensure!(said.trim().is_empty(), "promtool: {said}");
            // It is good for that, and for nothing else.
            let status = https::get(&authority, &format!("{}/api/v1/status", node.api), shown)?;
            ensure!(status.status == 403, "{}", status.head);
            targets.push(node.api.strip_prefix("https://").context("it has TLS")?);
        }
        let count = targets.len();
        // So that there is something to tell of hosts.
        let host = Host::open(demo, "demo")?;
        host.run(host.disk().write(0, vec![7; 512].into(), 0))?;
        let configuration = configuration(&token_file, &ca, &targets)?;
        let prometheus = Prometheus::start(&directory, &configuration)?;
        let begun = Instant::now();
        loop {
            let up = prometheus
                .ask("up{job=\"holdfast\"}==1")
                .unwrap_or_default();
            let kept_out = prometheus
                .ask("up{job=\"stranger\"}==0")
                .unwrap_or_default();
            if up.len() == count && kept_out.len() == count {
                break;
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "{up:?} are scraped, {kept_out:?} are not"
            );
            sleep(Duration::from_millis(200));
        }
        for (expression, count) in [
            ("holdfast_build_info", count),
            ("holdfast_pool_bytes>0", count),
            // Six causes, each from zero on.
            ("holdfast_stall_seconds_count", 6 * count),
            ("holdfast_device_state==1", count),
            ("sum(holdfast_primaries)==1", 1),
            ("sum(holdfast_replicas_lacking)==0", 1),
            // 4 GiB, twice.
            ("sum(holdfast_provisioned_bytes)==8*2^30", 1),
            (
                "holdfast_certificate_not_after_timestamp_seconds>time()+300*86400",
                count,
            ),
            (
                "abs(holdfast_clock_timestamp_seconds-timestamp(holdfast_clock_timestamp_seconds))<5",
                count,
            ),
            ("ALERTS", 0),
        ] {
            let found = prometheus.ask(expression)?;
            ensure!(found.len() == count, "{expression}: {found:?}");
        }
        answers_the_dashboard(&prometheus)?;
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
        &[
            "test",
            "rules",
            "holdfast.rules.test.yml",
            "holdfast.rules.days.test.yml",
        ],
        &directory,
        "",
    )?;
    Ok(())
}
