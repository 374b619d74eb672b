//! A login at a provider of identities, at a real node over TLS: from the button to the log of what was done.

#[path = "../../oidc/tests/support/issuer.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests of the protocol ask more of it"
)]
mod issuer;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::{Demo, DemoOptions, binary, scenario};
use serde_json::{Value, json};

use crate::https::{self, Answer};
use issuer::{CLIENT, Issuer, SECRET};

/// What somebody with these cookies is told.
fn get(authority: &str, url: &str, cookies: &str) -> Result<Answer> {
    https::get(authority, url, &[("cookie", cookies)])
}

/// The session's cookie: behind what it begins with there is the cluster's name, and of that of a login a word.
fn session_of(answer: &Answer) -> Result<&str> {
    let mut names = (0..16).map(|digit| format!("__Host-holdfast-{digit:x}"));
    let found = names.find_map(|name| answer.field("set-cookie", &name).ok());
    found.with_context(|| format!("no session in {}", answer.head))
}

/// Has a node trust the provider.
fn configure(demo: &mut Demo, node: &str, issuer: &Issuer) -> Result<()> {
    let (secret, ca) = (demo.scratch("client-secret"), demo.scratch("provider.pem"));
    fs::write(&secret, format!("{SECRET}\n"))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    fs::write(&ca, issuer.authority.as_ref().context("it speaks TLS")?)?;
    let path = demo.path(node).join("node.toml");
    let text = fs::read_to_string(&path)?;
    let section = format!(
        "\n[oidc]\nname = \"Staff\"\nissuer = \"{}\"\nclient_id = \"{CLIENT}\"\nclient_secret_file = {secret:?}\n\
         ca = {ca:?}\nroles = {{ administrator = [\"storage-admins\"] }}\n",
        issuer.url
    );
    fs::write(&path, text + &section)?;
    demo.stop_node(node)?;
    demo.start_node(node)?;
    Ok(())
}

/// From the button to where the provider sends the browser back to, and what it has to bring there.
fn away(ours: &str, api: &str, issuer: &Issuer) -> Result<(String, String)> {
    let begun = get(ours, &format!("{api}/api/v1/login/oidc"), "")?;
    ensure!(begun.status == 303, "{}", begun.head);
    let ticket = begun.field("set-cookie", "__Host-holdfast-login-")?;
    let theirs = issuer.authority.as_ref().context("it speaks TLS")?;
    let sent = get(theirs, begun.field("location", "https://localhost")?, "")?;
    ensure!(sent.status == 302, "{}: {}", sent.head, sent.body);
    Ok((sent.field("location", api)?.to_owned(), ticket.to_owned()))
}

fn holdfast(demo: &Demo, arguments: &[&str]) -> Result<Value> {
    let file = demo.file();
    let mut command = Command::new("timeout");
    command.arg("60").arg(binary::holdfast()?);
    command.env_remove("HOLDFAST_CREDENTIALS");
    command.env("HOLDFAST_CA", file.ca.as_ref().context("an authority")?);
    command.env("HOLDFAST_TOKEN", file.token.as_ref().context("a token")?);
    command.args(["--json", "--api", &file.nodes[0].api]);
    let output = command.args(arguments).output()?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "holdfast {arguments:?}: {talk}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
fn who_logs_in_at_a_provider_is_let_in_by_nodes_that_name_it() {
    let options = DemoOptions {
        secure: true,
        device_size: "2GiB",
        volumes: Vec::new(),
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let ours = fs::read_to_string(demo.file().ca.as_ref().context("an authority")?)?;
        let apis: Vec<String> = demo.file().nodes.iter().map(|it| it.api.clone()).collect();
        let (api, other) = (&apis[0], &apis[1]);
        let name = demo.file().nodes[0].name.clone();
        let issuer = Issuer::start(&format!("{api}/api/v1/login/oidc/callback"), true);
        let methods = format!("{api}/api/v1/login");
        let before = get(&ours, &methods, "")?.json()?;
        ensure!(before == json!({"password": true}), "{before}");
        ensure!(get(&ours, &format!("{methods}/oidc"), "")?.status == 404);
        configure(demo, &name, &issuer)?;
        let after = get(&ours, &methods, "")?.json()?;
        let url = format!("{api}/api/v1/login/oidc");
        ensure!(
            after["oidc"] == json!({"name": "Staff", "url": url}),
            "{after}"
        );
        // Who has no role is known, and not let in.
        issuer.behave(|it| {
            it.claims.insert("groups".to_owned(), json!(["guests"]));
        });
        let (back, ticket) = away(&ours, api, &issuer)?;
        let refused = get(&ours, &back, &ticket)?;
        ensure!(refused.field("location", "/")? == "/?login=no-role");
        ensure!(session_of(&refused).is_err(), "{}", refused.head);
        issuer.behave(|it| it.claims.clear());
        // What was brought back is good for the browser that was sent away, and once.
        let (back, ticket) = away(&ours, api, &issuer)?;
        let stolen = get(&ours, &back, "")?;
        ensure!(stolen.field("location", "/")? == "/?login=again");
        let came = get(&ours, &back, &ticket)?;
        ensure!(came.field("location", "/")? == "/", "{}", came.head);
        let session = session_of(&came)?.to_owned();
        let again = get(&ours, &back, &ticket)?;
        ensure!(again.field("location", "/")? == "/?login=again");
        let who = get(&ours, &format!("{api}/api/v1/session"), &session)?.json()?;
        ensure!(who["name"] == "oidc:ada" && who["kind"] == "user", "{who}");
        ensure!(who["role"] == "administrator", "{who}");
        ensure!(who["issuer"] == issuer.url, "{who}");
        // A node whose file does not name the provider knows nobody of it.
        let there = get(&ours, &format!("{other}/api/v1/session"), &session)?;
        ensure!(there.status == 401, "{}", there.body);
        let users = holdfast(demo, &["user", "list"])?.to_string();
        ensure!(
            users.contains("\"oidc:ada\"") && users.contains("f7c2-ada"),
            "{users}"
        );
        // Of what was done it is put down by whom, and not what proves it.
        let audit = holdfast(demo, &["audit"])?;
        let entries = audit["entries"].as_array().context("a list")?;
        let has = |status: u64| {
            entries.iter().any(|entry| {
                entry["who"] == "user oidc:ada (f7c2-ada)"
                    && entry["path"] == "/api/v1/login/oidc/callback"
                    && entry["status"] == status
            })
        };
        ensure!(has(303) && has(403), "{audit}");
        let (_, secret) = session.split_once('=').context("a cookie")?;
        for log in ["audit.log", "node.log"] {
            let text = fs::read_to_string(demo.path(&name).join(log))?;
            for told in ["code-1", "code-2", secret, SECRET] {
                ensure!(!text.contains(told), "{told} is in {log}");
            }
        }
        // An administrator ends it.
        holdfast(demo, &["user", "remove", "oidc:ada"])?;
        let ended = get(&ours, &format!("{api}/api/v1/session"), &session)?;
        ensure!(ended.status == 401, "{}", ended.body);
        Ok(())
    });
}
