//! A demo over TLS: who trusts its authority is answered, others are told why not, and nodes know each other.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli::{self, FAILED};
use holdfast_e2e::demo::{DemoOptions, scenario};
use holdfast_e2e::process::wait_until;
use serde_json::Value;

/// How soon a node that was started again answers.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn whoever_trusts_the_authority_is_answered_and_others_are_told_why_not() {
    let options = DemoOptions {
        secure: true,
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let (api, node) = (demo.file().api.clone(), demo.file().nodes[1].api.clone());
        ensure!(api.starts_with("https://"), "{api}");
        ensure!(node.starts_with("https://"), "{node}");
        let ca = demo
            .file()
            .ca
            .clone()
            .context("demo.json names the authority")?;
        let own = demo.path("n1").join("tls").display().to_string();
        let trusting = |url: &str, arguments: &[&str]| -> Result<Value> {
            let all = [&["--json", "--api", url, "--credentials", &own], arguments].concat();
            Ok(serde_json::from_slice(&cli::done(&all)?)?)
        };
        let up = |url: &str| -> Result<usize> {
            let nodes = trusting(url, &["node", "list"])?;
            let nodes = nodes["nodes"].as_array().context("a list")?.clone();
            Ok(nodes.iter().filter(|it| it["state"] == "up").count())
        };
        // The parent asks the nodes, and a node the others, by their certificates.
        ensure!(up(&api)? == 3, "the parent is answered by all nodes");
        ensure!(up(&node)? == 3, "a node is answered by all others");

        let said = cli::fails_for_nobody(FAILED, &["--api", &api, "status"])?;
        ensure!(said.contains("HOLDFAST_CA"), "{said}");
        let other = demo.scratch("other").display().to_string();
        let cluster = "00000000000000000000000000000007";
        cli::done(&[
            "security",
            "found",
            "--directory",
            &other,
            "--cluster",
            cluster,
        ])?;
        let wrong = format!("{other}/authority.pem");
        let said = cli::fails_for_nobody(FAILED, &["--api", &api, "--ca", &wrong, "status"])?;
        ensure!(said.contains("not of the authority"), "{said}");
        let plain = api.replace("https://", "http://");
        let said = cli::fails_for_nobody(FAILED, &["--api", &plain, "status"])?;
        ensure!(said.contains("speaks TLS"), "{said}");

        // Nothing of what is asked is answered without TLS, not a byte.
        let mut stream = TcpStream::connect(plain.replace("http://", ""))?;
        stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nhost: a\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        ensure!(!answer.contains("volumes"), "{answer}");

        // A node's credentials are as good as the authority's certificate, and only its owner can read their keys.
        cli::done(&["--api", &api, "--credentials", &own, "status"])?;
        let shown: Value = serde_json::from_slice(&cli::done(&[
            "--json",
            "security",
            "show",
            "--directory",
            &own,
        ])?)?;
        ensure!(shown["node"]["node"] == 1, "{shown}");

        // A node that is started again, without its own certificate, makes another, and is believed.
        demo.kill("n2")?;
        fs::remove_file(demo.path("n2").join("tls/node.pem"))?;
        demo.start_node("n2")?;
        wait_until("n2 answers the others", PATIENCE, || {
            Ok(up(&api).is_ok_and(|up| up == 3))
        })?;

        // The next demo on the directory is the same for whoever trusts this one.
        demo.stop()?;
        demo.start_again()?;
        ensure!(
            demo.file().ca.as_deref() == Some(ca.as_str()),
            "another authority"
        );
        ensure!(up(&api)? == 3, "not all nodes are up");
        Ok(())
    });
}
