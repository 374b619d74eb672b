//! A secure demo: who is let in, by what, and what is put down of it.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, binary, scenario};
use serde_json::Value;

use crate::https;

/// Runs `holdfast` with these variables and arguments, and with no others of its own.
fn run(variables: &[(&str, &str)], arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new("timeout");
    command.arg("60").arg(binary::holdfast()?);
    for name in ["API", "TOKEN", "CA", "CREDENTIALS"] {
        command.env_remove(format!("HOLDFAST_{name}"));
    }
    command.args(arguments).envs(variables.iter().copied());
    command
        .output()
        .with_context(|| format!("run holdfast {arguments:?}"))
}

/// What a command tells that must succeed.
fn done(variables: &[(&str, &str)], arguments: &[&str]) -> Result<Value> {
    let all = [&["--json"], arguments].concat();
    let output = run(variables, &all)?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "holdfast {all:?}: {talk}");
    serde_json::from_slice(&output.stdout).with_context(|| format!("read holdfast {all:?}"))
}

/// What a command says that must fail.
fn fails(variables: &[(&str, &str)], arguments: &[&str]) -> Result<String> {
    let output = run(variables, arguments)?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(1),
        "holdfast {arguments:?}: {talk}"
    );
    Ok(talk)
}

/// What the demo says how it is reached: the authority, and the token.
fn keys(demo: &Demo) -> Result<(String, String)> {
    let file = demo.file();
    let ca = file.ca.clone().context("demo.json names the authority")?;
    let token = file.token.clone().context("demo.json has a token")?;
    Ok((ca, token))
}

fn says(talk: &str, what: &str) -> Result<()> {
    ensure!(talk.contains(what), "{what:?} is not in {talk:?}");
    Ok(())
}

fn options() -> DemoOptions {
    DemoOptions {
        secure: true,
        device_size: "2GiB",
        volumes: vec!["demo:64MiB:mirror2"],
        ..DemoOptions::default()
    }
}

#[test]
fn who_shows_nothing_is_let_in_nowhere_and_who_may_less_does_less() {
    scenario(options(), |demo| {
        let (ca, token) = keys(demo)?;
        let file = demo.file().clone();
        let apis: Vec<&str> = [file.api.as_str()]
            .into_iter()
            .chain(file.nodes.iter().map(|node| node.api.as_str()))
            .collect();
        for api in &apis {
            ensure!(api.starts_with("https://"), "{api} is no HTTPS");
            let plain = api.replace("https://", "http://");
            fails(&[], &["--api", &plain, "status"])?;
            says(&fails(&[], &["--api", api, "status"])?, "--ca")?;
            let known = [("HOLDFAST_CA", &*ca)];
            says(&fails(&known, &["--api", api, "status"])?, "HOLDFAST_TOKEN")?;
            let wrong = [known[0], ("HOLDFAST_TOKEN", "hft_nonsense")];
            let said = fails(&wrong, &["--api", api, "status"])?;
            says(&said, "nobody's")?;
            says(&said, "the line with `export`")?;
            let right = [known[0], ("HOLDFAST_TOKEN", &*token)];
            let status = done(&right, &["--api", api, "status"])?;
            ensure!(status["health"] == "healthy", "{status}");
        }
        // What the token makes holds at the nodes, too.
        let admin = [("HOLDFAST_CA", &*ca), ("HOLDFAST_TOKEN", &*token)];
        let (parent, node) = (apis[0], apis[1]);
        let made = done(
            &admin,
            &["--api", parent, "token", "create", "looks", "--for", "1h"],
        )?;
        let looks = made["secret"].as_str().context("it is told")?.to_owned();
        let viewer = [("HOLDFAST_CA", &*ca), ("HOLDFAST_TOKEN", &*looks)];
        done(&viewer, &["--api", node, "volume", "list"])?;
        let create = ["--api", node, "volume", "create", "more", "64MiB"];
        says(&fails(&viewer, &create)?, "operator")?;
        says(
            &fails(&viewer, &["--api", node, "user", "list"])?,
            "administrator",
        )?;
        done(&admin, &create)?;
        let id = made["token"]["id"]
            .as_str()
            .context("it has an id")?
            .to_owned();
        done(&admin, &["--api", node, "token", "revoke", &id])?;
        says(&fails(&viewer, &["--api", node, "status"])?, "revoked")?;
        // All of it was put down, with neither token.
        let audit = done(&admin, &["--api", node, "audit"])?;
        let entries = audit["entries"].as_array().context("a list")?;
        let found = |method: &str, path: &str, status: u64, who: &str| {
            entries.iter().any(|entry| {
                entry["method"] == method
                    && entry["path"] == path
                    && entry["status"] == status
                    && entry["from"] == "127.0.0.1"
                    && entry["who"].as_str().is_some_and(|it| it.starts_with(who))
            })
        };
        let volumes = "/api/v1/volumes";
        ensure!(found("POST", volumes, 403, "token looks ("), "{audit}");
        ensure!(found("POST", volumes, 201, "token demo.json ("), "{audit}");
        let revoked = format!("/api/v1/tokens/{id}");
        ensure!(
            found("DELETE", &revoked, 204, "token demo.json ("),
            "{audit}"
        );
        for secret in [&token, &looks] {
            for log in ["audit.log", "node.log"] {
                let text = fs::read_to_string(demo.path("n1").join(log))?;
                ensure!(!text.contains(secret.as_str()), "a token is in {log}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_machines_own_credentials_make_its_root_an_administrator() {
    scenario(options(), |demo| {
        let node = demo.file().nodes[0].api.clone();
        let credentials = demo.path("n1").join("tls").display().to_string();
        let root = [("HOLDFAST_CREDENTIALS", &*credentials)];
        let who = done(&root, &["--api", &node, "whoami"])?;
        ensure!(who["kind"] == "node" && who["name"] == "1", "{who}");
        ensure!(who["role"] == "administrator", "{who}");
        let password = demo.scratch("password");
        fs::write(&password, "correct horse battery\n")?;
        let file = password.display().to_string();
        let user = [
            "--api",
            &node,
            "user",
            "create",
            "ada",
            "--role",
            "operator",
            "--password-file",
            &file,
        ];
        let made = done(&root, &user)?;
        ensure!(
            made["role"] == "operator" && made.get("password").is_none(),
            "{made}"
        );
        says(&fails(&root, &user)?, "there is a user of that name")?;
        fs::write(&password, "short\n")?;
        let change = [
            "--api",
            &node,
            "user",
            "password",
            "ada",
            "--password-file",
            &file,
        ];
        says(&fails(&root, &change)?, "fewer than 12 letters")?;
        let list = done(&root, &["--api", &node, "user", "list"])?;
        let names: Vec<_> = list["users"]
            .as_array()
            .context("a list")?
            .iter()
            .map(|it| &it["name"])
            .collect();
        ensure!(names == ["ada", "admin"], "{list}");
        Ok(())
    });
}

#[test]
fn a_secure_demo_stays_one_with_the_same_token_and_its_nodes_tell_each_other() {
    scenario(options(), |demo| {
        let (ca, token) = keys(demo)?;
        private(&demo.directory())?;
        demo.stop()?;
        demo.start_again()?;
        ensure!(
            keys(demo)? == (ca.clone(), token.clone()),
            "it is another one"
        );
        let admin = [("HOLDFAST_CA", &*ca), ("HOLDFAST_TOKEN", &*token)];
        let victim = demo.node_names().pop().context("there are nodes")?;
        demo.kill(&victim)?;
        // Any other node knows it of the rest, whom it asks with its own certificate.
        let other = demo.file().nodes.iter().find(|node| node.name != victim);
        let api = other.context("there are others")?.api.clone();
        let begun = std::time::Instant::now();
        loop {
            let list = done(&admin, &["--api", &api, "node", "list"])?;
            let state = |name: &str| {
                let nodes = list["nodes"].as_array().into_iter().flatten();
                nodes
                    .clone()
                    .find(|node| node["name"] == name)
                    .map(|node| node["state"].clone())
            };
            let answers = |name: &str| {
                let mut nodes = list["nodes"].as_array().into_iter().flatten();
                nodes.any(|node| node["name"] == name && node["answers"] == true)
            };
            let rest = demo.node_names().into_iter().filter(|name| *name != victim);
            if state(&victim).is_some_and(|it| it != "up")
                && rest.clone().all(|name| answers(&name))
            {
                break;
            }
            ensure!(begun.elapsed().as_secs() < 20, "{list}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
}

/// Nobody else reads what proves who somebody is.
fn private(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for name in ["token", "admin-password"] {
        let mode = fs::metadata(directory.join(name))?.permissions().mode();
        ensure!(mode & 0o077 == 0, "{name} is open to others: {mode:o}");
    }
    Ok(())
}

/// All files in a directory, and in those in it.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}

/// The bytes of all of them.
fn all_bytes(directory: &Path) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for path in files(directory)? {
        all.extend(fs::read(&path)?);
    }
    Ok(all)
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

#[test]
fn the_metadata_has_no_secret_and_a_host_logs_in_with_it() {
    const HOST: &str = "iqn.2026-11.io.holdfast:sealed";
    const SECRET: &str = "nobodyistoldthis";
    scenario(options(), |demo| {
        let (ca, token) = keys(demo)?;
        let admin = [("HOLDFAST_CA", &*ca), ("HOLDFAST_TOKEN", &*token)];
        let api = demo.file().nodes[0].api.clone();
        let secret = demo.scratch("secret");
        fs::write(&secret, SECRET)?;
        let file = secret.display().to_string();
        let add = [
            "--api",
            &api,
            "initiator",
            "add",
            HOST,
            "--chap-name",
            "host",
            "--chap-secret-file",
            &file,
        ];
        done(&admin, &add)?;
        done(&admin, &["--api", &api, "volume", "allow", "demo", HOST])?;
        let bytes = all_bytes(&demo.path("metadata"))?;
        ensure!(has(&bytes, "sealed:1:"), "no secret is sealed");
        ensure!(!has(&bytes, SECRET), "the metadata has the secret");
        // Every node opens it, also after a start.
        demo.stop()?;
        demo.start_again()?;
        let volume = demo.file().volume("demo")?.clone();
        for node in demo.file().nodes.clone() {
            let inquire = |secret: &str| -> Result<bool> {
                let url = format!(
                    "iscsi://host%{secret}@{}/{}/{}",
                    node.portal, volume.target, volume.lun
                );
                let mut command = Command::new("timeout");
                command.args(["20", "iscsi-inq", "-i", HOST, &url]);
                let output = command.output().context("run iscsi-inq")?;
                Ok(output.status.success())
            };
            ensure!(inquire(SECRET)?, "{}: the secret is not taken", node.name);
            let wrong = inquire("nobodyistoldthat")?;
            ensure!(!wrong, "{}: another secret is taken", node.name);
            let log = fs::read(demo.path(&node.name).join("node.log"))?;
            ensure!(!has(&log, SECRET), "the log has the secret");
        }
        a_question_is_found_in_the_logs_of_both_nodes(demo, &admin)?;
        a_bundle_has_no_secret(demo, &admin, &[SECRET])
    });
}

/// A question to a node that another one has to answer is found by its trace.
fn a_question_is_found_in_the_logs_of_both_nodes(
    demo: &Demo,
    admin: &[(&str, &str)],
) -> Result<()> {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let [asked, answers, _] = &demo.file().nodes[..] else {
        anyhow::bail!("three nodes: {:?}", demo.file());
    };
    for node in [asked, answers] {
        let order = ["node", "log", &node.name, "--level", "debug"];
        let levels = done(admin, &[&["--api", &asked.api], &order[..]].concat())?;
        ensure!(levels["level"] == "debug", "{levels}");
    }
    let (ca, token) = keys(demo)?;
    let authority = fs::read_to_string(ca)?;
    let url = format!("{}/api/v1/nodes/{}/log", asked.api, answers.name);
    let bearer = format!("Bearer {token}");
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let fields = [
        ("authorization", bearer.as_str()),
        ("traceparent", parent.as_str()),
    ];
    let answer = https::get(&authority, &url, &fields)?;
    ensure!(answer.status == 200, "{}", answer.head);
    ensure!(answer.json()?["level"] == "debug", "{}", answer.body);
    for node in [asked, answers] {
        let log = demo.path(&node.name).join("node.log");
        let what = format!("the trace is in the log of {}", node.name);
        wait_until(&what, Duration::from_secs(10), || {
            Ok(fs::read_to_string(&log)?.contains(TRACE))
        })?;
    }
    Ok(())
}

/// Letters of a token that say only which it is.
const TOKEN_SHOWN: usize = 20;

/// What proves in a demo who somebody is, and what its private keys are made of.
fn secrets_of(demo: &Demo) -> Result<Vec<String>> {
    let mut secrets = Vec::new();
    for name in ["admin-password", "metadata-token"] {
        let secret = fs::read_to_string(demo.path(name))?;
        secrets.push(secret.trim().to_owned());
    }
    let (_, token) = keys(demo)?;
    secrets.push(token[TOKEN_SHOWN..].to_owned());
    let mut found = BTreeSet::new();
    for path in files(&demo.directory())? {
        if path.extension().is_none_or(|it| it != "key") {
            continue;
        }
        let key = fs::read_to_string(&path)?;
        let lines = key.lines().filter(|line| !line.starts_with("-----"));
        // The last one may be a few letters, which may stand anywhere.
        let lines = lines.filter(|line| line.len() >= 16);
        secrets.extend(lines.map(str::to_owned));
        found.extend(path.file_name().map(|it| it.display().to_string()));
    }
    for name in ["authority.key", "node.key", "secrets.key"] {
        ensure!(found.contains(name), "no {name} among {found:?}");
    }
    Ok(secrets)
}

/// What is given to whoever helps has none of these secrets, and none that a demo has by itself.
fn a_bundle_has_no_secret(demo: &Demo, admin: &[(&str, &str)], more: &[&str]) -> Result<()> {
    const SIGNED: &str = "nobodysignsthis";
    const PLACE: &str = "nobodypoststhere";
    let api = demo.file().nodes[0].api.clone();
    let of = |arguments: &[&str]| done(admin, &[&["--api", &*api], arguments].concat());
    let secret = demo.scratch("signed");
    fs::write(&secret, SIGNED)?;
    let secret = secret.display().to_string();
    // Nobody listens there when this is over.
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let url = format!("http://{closed}/{PLACE}");
    let hook = ["receiver", "webhook", "ops", "--url", &url];
    of(&[&hook[..], &["--secret-file", &secret]].concat())?;
    fails(admin, &["--api", &api, "receiver", "test", "ops"])?;
    let made = of(&["token", "create", "helper", "--for", "1h"])?;
    let made = made["secret"].as_str().context("it is told")?;
    let mut secrets = secrets_of(demo)?;
    secrets.push(made[TOKEN_SHOWN..].to_owned());
    secrets.extend([SIGNED, PLACE].map(str::to_owned));
    secrets.extend(more.iter().map(|it| (*it).to_owned()));

    let (file, folder) = (demo.scratch("bundle.tar.gz"), demo.scratch("bundle"));
    of(&["support-bundle", "--out", &file.display().to_string()])?;
    fs::create_dir(&folder)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(&file).arg("-C").arg(&folder);
    ensure!(unpack.status()?.success(), "{unpack:?}");
    let nodes = folder.join("holdfast-support/nodes");
    for name in demo.node_names() {
        let log = nodes.join(&name).join("node.log");
        ensure!(log.exists(), "{name} has no log in the bundle");
    }
    let audit = fs::read_to_string(nodes.join("n1/audit.log"))?;
    ensure!(audit.contains("/api/v1/receivers/ops"), "{audit}");
    let told = all_bytes(&folder)?;
    let told = String::from_utf8_lossy(&told);
    for secret in secrets {
        ensure!(!secret.is_empty(), "one secret is none");
        if let Some(place) = told.find(&secret) {
            let lines = told[..place].lines().count();
            anyhow::bail!("{secret} is in the bundle, after {lines} lines of all files");
        }
    }
    Ok(())
}
