//! The command line's contract, as far as it can be held against the binary without a cluster: exit
//! codes, what goes where, errors that say what to do.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

fn holdfast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(arguments)
        .env_remove("HOLDFAST_API")
        .env_remove("HOLDFAST_TOKEN")
        .env_remove("HOLDFAST_CA")
        .env_remove("HOLDFAST_CREDENTIALS")
        .output()
        .unwrap()
}

fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A command that is understood and fails: it says why, and what to do.
fn fails(arguments: &[&str]) -> String {
    let output = holdfast(arguments);
    let talk = talk(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {talk}");
    assert!(
        talk.starts_with("error: ") || talk.contains("\nerror: "),
        "{talk}"
    );
    assert!(!talk.contains("panicked"), "{talk}");
    talk
}

/// A port where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    for line in [
        "",
        "nonsense",
        "--nonsense status",
        "node",
        "node --json",
        "node --config /a/node.toml list",
        "volume",
        "volume create",
        "volume create demo",
        "volume create Demo 4GiB",
        "volume create demo 4GB",
        "volume create demo 5000",
        "volume create demo 4GiB --policy raid7",
        "volume grow demo",
        "volume show",
        "volume show Demo",
        "volume delete demo/x",
        "status --api 127.0.0.1:7460",
        "demo --nodes 0",
        "demo --nodes 8",
        "demo --volume demo",
        "demo --volume demo:4GiB:mirror5",
        "demo --volume a:1GiB:none --volume a:2GiB:none",
        "demo --nodes 1 --volume a:1GiB:mirror2",
        "demo --nodes 3 --volume a:1GiB:mirror4",
        "demo --nodes-per-machine 0",
        "demo --nodes-per-machine 8",
        "demo --nodes 5 --nodes-per-machine 2",
        "demo --nodes 4 --nodes-per-machine 2 --volume a:1GiB:mirror3",
        "demo --nodes-per-machine 4",
        "demo --nodes-per-machine 3 --volume a:1GiB:mirror3",
        "demo --portal-port 7460",
        "demo --api-port 65500",
        "demo --device-size much",
        "node drain",
        "node maintenance n1",
        "node maintenance perhaps n1",
        "settings set",
        "settings set --repair-delay soon",
        "recover",
        "recover read",
        "recover plan",
        "recover write n1.json",
        "recover write --metadata /nowhere",
        "recover plan --replace n1.json",
        "inspect",
        "inspect slots",
        "inspect layout d0",
        "inspect superblock d0 --records",
        "inspect superblock d0 --slice v1/0",
        "inspect journal d0 --verify",
        "inspect d0 --page 3",
        "inspect d0 --slice v1",
        "inspect d0 --slice v1/0 --page 16384",
    ] {
        let arguments: Vec<_> = line.split_whitespace().collect();
        let output = holdfast(&arguments);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", talk(&output));
        assert!(output.stdout.is_empty(), "{line}");
        assert!(!output.stderr.is_empty(), "{line}");
    }
}

/// What is in the environment is not what a command needs.
#[test]
fn usage_is_the_same_whatever_is_in_the_environment() {
    for line in [
        "",
        "man",
        "completions",
        "settings set",
        "volume",
        "volume create demo",
    ] {
        let arguments: Vec<_> = line.split_whitespace().collect();
        let plain = holdfast(&arguments);
        let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(&arguments)
            .env("HOLDFAST_API", "https://192.0.2.1:7461")
            .env("HOLDFAST_CA", "authority.pem")
            .env("HOLDFAST_CREDENTIALS", "tls")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        let usage = |output: &Output| {
            let talk = talk(output);
            let usage = talk.lines().find(|line| line.starts_with("Usage: "));
            usage.map(str::to_owned)
        };
        assert!(usage(&plain).is_some(), "{line}: {}", talk(&plain));
        assert_eq!(usage(&output), usage(&plain), "{line}");
    }
}

#[test]
fn who_names_no_shell_is_told_which_there_are() {
    let output = holdfast(&["completions"]);
    assert_eq!(output.status.code(), Some(2));
    for shell in ["bash", "zsh", "fish"] {
        assert!(talk(&output).contains(shell), "{}", talk(&output));
    }
}

/// People are told what was written, programs as before.
#[test]
fn manual_pages_that_were_written_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("pages");
    let directory = directory.to_str().unwrap();
    let output = holdfast(&["man", directory]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(" pages in "), "{said}");
    assert!(
        said.contains(&format!("man '{directory}/holdfast.1'")),
        "{said}"
    );
    let output = holdfast(&["--json", "man", directory]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["pages"].as_array().unwrap().len() > 40);
}

#[test]
fn help_is_no_error() {
    for line in [
        "--help",
        "--version",
        "node --help",
        "volume create --help",
        "help demo",
    ] {
        let arguments: Vec<_> = line.split(' ').collect();
        let output = holdfast(&arguments);
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn without_a_cluster_it_is_said_how_to_get_one() {
    let api = nobody();
    for command in [
        &["status"][..],
        &["node", "list"],
        &["node", "show", "n1"],
        &["node", "add", "n1"],
        &["node", "drain", "n1"],
        &["node", "maintenance", "on", "n1"],
        &["node", "remove", "n1"],
        &["settings", "show"],
        &["settings", "set", "--repair-delay", "5m"],
        &["volume", "list"],
        &["volume", "show", "demo"],
        &["volume", "delete", "demo", "--yes"],
        &["volume", "create", "demo", "4GiB"],
        &["volume", "grow", "demo", "4GiB"],
    ] {
        let talk = fails(&[command, &["--api", &api]].concat());
        assert!(talk.contains(&api), "{talk}");
        assert!(talk.contains("\n\nhint: is the cluster running?"), "{talk}");
        let output = holdfast(&[&["--json", "--api", &api], command].concat());
        assert_eq!(output.status.code(), Some(1));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            document["error"]["detail"].as_str().unwrap().contains(&api),
            "{document}"
        );
    }
}

/// Nobody is asked before: there is no terminal.
#[test]
fn a_volume_is_deleted_without_a_terminal_only_by_those_who_say_so() {
    let api = nobody();
    let delete = ["--api", &api, "volume", "delete", "demo"];
    for force in [&[][..], &["--force"]] {
        let told = fails(&[&delete[..], force].concat());
        assert!(told.contains("volume demo is not deleted"), "{told}");
        assert!(
            told.contains("`holdfast volume delete demo --yes`"),
            "{told}"
        );
        assert!(!told.contains(&api), "nobody was asked: {told}");
    }
    let output = holdfast(&[&["--json"], &delete[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let detail = document["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("is not deleted"), "{detail}");
}

#[test]
fn the_variables_are_heard() {
    let api = nobody();
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("status")
        .env("HOLDFAST_API", format!("{},{api}", nobody()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains(&api), "{}", talk(&output));
}

/// What is in the environment for those who ask an API is no matter of a node, or of who looks into
/// devices; an empty variable is none.
#[test]
fn the_variables_bother_nobody_else() {
    let with = |variable: &str, value: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command
            .args(arguments)
            .env(variable, value)
            .output()
            .unwrap()
    };
    for value in ["", "https://elsewhere:1", "no URL"] {
        let output = with("HOLDFAST_API", value, &["inspect", "layout", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{value}: {}", talk(&output));
        let output = with("HOLDFAST_API", value, &["node", "--config", "/nowhere"]);
        assert_eq!(output.status.code(), Some(1), "{value}: {}", talk(&output));
    }
    let output = with("HOLDFAST_API", "no URL", &["status"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let output = with("HOLDFAST_TOKEN", "two\nlines", &["status"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(
        talk(&output).contains("HOLDFAST_TOKEN"),
        "{}",
        talk(&output)
    );
}

#[test]
fn a_token_is_not_told_to_another_machine_without_tls() {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["--api", "http://192.0.2.1:7460", "status"])
        .env_remove("HOLDFAST_CA")
        .env_remove("HOLDFAST_CREDENTIALS")
        .env("HOLDFAST_TOKEN", "hft_x")
        .output()
        .unwrap();
    let talk = talk(&output);
    assert_eq!(output.status.code(), Some(1), "{talk}");
    assert!(talk.contains("--token-over-http"), "{talk}");
    assert!(!talk.contains("hft_x"), "{talk}");
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["inspect", "layout"])
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("write to stdout"),
        "{}",
        talk(&output)
    );
}

#[test]
fn a_configuration_with_errors_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.toml");
    let file = path.to_str().unwrap();
    assert!(fails(&["node", "--config", file]).contains(file));
    std::fs::write(
        &path,
        "cluster = \"00000000000000000000000000000007\"\nnode = 1\nnaem = \"n1\"\n",
    )
    .unwrap();
    let talk = fails(&["node", "--config", file]);
    assert!(
        talk.contains(file) && talk.contains("line 3") && talk.contains("naem"),
        "{talk}"
    );
}

/// The configuration of a node with one device, that reaches no metadata.
fn node_config(folder: &Path, device: &Path) -> String {
    let endpoint = "listen = \"127.0.0.1:0\"\nadvertise = \"127.0.0.1:9\"\n";
    format!(
        "cluster = \"00000000000000000000000000000007\"\nnode = 1\nname = \"n1\"\ndirectory = \"{}\"\n\
         [portal]\n{endpoint}[peers]\n{endpoint}[api]\n{endpoint}\
         [metadata]\naddresses = [\"127.0.0.1:9\"]\n[security]\noff = true\n[[devices]]\npath = \"{}\"\n",
        folder.display(),
        device.display()
    )
}

#[test]
fn a_device_that_cannot_be_used_is_told_by_its_path_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("small");
    let config = folder.path().join("node.toml");
    std::fs::write(&config, node_config(folder.path(), &device)).unwrap();
    for (contents, says) in [
        (vec![0; 1 << 20], "has 1048576 bytes, at least"),
        (vec![0; 8 << 20], "has 8388608 bytes, at least"),
        (vec![7; 1 << 20], "both superblocks are bad"),
        (vec![7; 8 << 20], "both superblocks are bad"),
    ] {
        std::fs::write(&device, &contents).unwrap();
        let talk = fails(&["node", "--config", config.to_str().unwrap()]);
        let expected = format!("error: devices: {}: the device ", device.display());
        assert!(talk.contains(&expected), "{talk}");
        assert!(talk.contains(says) && talk.contains("\n\nhint: "), "{talk}");
        assert!(!talk.contains("DiskId"), "{talk}");
        assert_eq!(std::fs::read(&device).unwrap(), contents);
    }
}

#[test]
fn a_node_without_credentials_does_not_start_and_says_how_to_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("small");
    std::fs::write(&device, [7; 16]).unwrap();
    let text = node_config(folder.path(), &device).replace("off = true", "");
    let config = folder.path().join("node.toml");
    std::fs::write(&config, &text).unwrap();
    let config = config.to_str().unwrap();
    let talk = fails(&["node", "--config", config]);
    let place = folder.path().join("tls").display().to_string();
    assert!(
        talk.contains(&format!("no credentials in {place}")),
        "{talk}"
    );
    assert!(talk.contains("holdfast security found --config"), "{talk}");
    assert!(talk.contains("off = true"), "{talk}");
    let found = ["security", "found", "--config", config];
    let output = holdfast(&found);
    assert_eq!(output.status.code(), Some(0), "{}", self::talk(&output));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("none yet"), "{shown}");
    assert!(fails(&found).contains("is there already"));
    // With them, it gets as far as its device.
    let talk = fails(&["node", "--config", config]);
    assert!(talk.contains("error: devices: "), "{talk}");
    let shown = json(&["security", "show", "--config", config]);
    assert_eq!(shown["cluster"], "00000000000000000000000000000007");
    assert_eq!(shown["node"]["node"], 1);
    // Another machine's, by its file or by what is told.
    let other = folder.path().join("other.toml");
    std::fs::write(&other, text.replace("node = 1", "node = 2")).unwrap();
    let (other, out) = (other.to_str().unwrap(), folder.path().join("of-2"));
    let out = out.to_str().unwrap();
    let issue = ["security", "issue", "--config", config, "--out", out];
    let of_file = [&issue[..], &["--for", other]].concat();
    let shown = json(&of_file);
    assert_eq!(shown["node"]["node"], 2);
    assert!(fails(&of_file).contains("is there already"));
    let out = folder.path().join("of-3").display().to_string();
    let told = ["--node", "3", "--name", "n3", "--address", "192.0.2.3"];
    let shown = json(&[&issue[..5], &[&out], &told].concat());
    let names = shown["node"]["names"].as_array().unwrap();
    assert!(names.contains(&"192.0.2.3".into()), "{shown}");
    // Whoever has another node's does not get by with them.
    std::fs::write(config, text.replace("node = 1", "node = 4")).unwrap();
    let talk = fails(&["node", "--config", config]);
    assert!(talk.contains("not of") && talk.contains("hint: "), "{talk}");
}

/// Earlier versions were content with it, and warned.
#[test]
fn a_file_with_an_etcd_without_tls_is_refused_by_the_node_and_read_by_whatever_does_not_speak_to_it()
 {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("small");
    let text = node_config(folder.path(), &device).replace("off = true", "");
    let text = text.replace(
        "addresses = [\"127.0.0.1:9\"]",
        "etcd = [\"192.0.2.7:2379\"]",
    );
    let config = folder.path().join("node.toml");
    std::fs::write(&config, &text).unwrap();
    let config = config.to_str().unwrap();
    let talk = fails(&["node", "--config", config]);
    assert!(
        talk.contains("metadata.etcd: 192.0.2.7:2379 has no TLS"),
        "{talk}"
    );
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "nothing is changed");
    let output = holdfast(&["security", "found", "--config", config]);
    assert_eq!(output.status.code(), Some(0), "{}", self::talk(&output));
    let shown = json(&["security", "show", "--config", config]);
    assert_eq!(shown["cluster"], "00000000000000000000000000000007");
    let talk = fails(&["inspect", config]);
    assert!(
        talk.contains("small") && !talk.contains("has no TLS"),
        "{talk}"
    );
}

/// A command that succeeds, and its document.
fn json(arguments: &[&str]) -> serde_json::Value {
    let output = holdfast(&[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Three runs of ports of which nobody listens on the first, so that the demo gets past them.
fn free_ports() -> (String, String) {
    let portal = 17_000 + (std::process::id() % 500) as u16 * 2;
    (portal.to_string(), (portal + 8_000).to_string())
}

#[test]
fn a_directory_that_is_no_demos_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("precious"), "").unwrap();
    let dir = folder.path().to_str().unwrap();
    for arguments in [
        &["demo", "--dir", dir][..],
        &["demo", "--fresh", "--dir", dir],
    ] {
        let talk = fails(arguments);
        assert!(
            talk.contains(dir) && talk.contains("hint: name another with --dir"),
            "{talk}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A directory that was looked at, and no more: the next start decides anew.
fn assert_nothing_is_begun(dir: &str) {
    let entries = std::fs::read_dir(dir).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".holdfast-demo.lock"]);
}

#[test]
fn a_taken_port_is_told_with_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let (portal, api) = free_ports();
    let held = TcpListener::bind(format!("127.0.0.1:{api}")).unwrap();
    let arguments = [
        "demo",
        "--dir",
        dir,
        "--portal-port",
        &portal,
        "--api-port",
        &api,
    ];
    let talk = fails(&arguments);
    assert!(
        talk.contains(&format!("port {api} for the API is in use by process")),
        "{talk}"
    );
    assert!(talk.contains(&std::process::id().to_string()), "{talk}");
    assert!(talk.contains("--api-port"), "{talk}");
    drop(held);
    let node = (portal.parse::<u16>().unwrap() + 1).to_string();
    let _held = TcpListener::bind(format!("127.0.0.1:{node}")).unwrap();
    let talk = fails(&arguments);
    assert!(
        talk.contains(&format!("port {node} for the portal of node n2")),
        "{talk}"
    );
    assert!(talk.contains("--portal-port"), "{talk}");
    assert_nothing_is_begun(dir);
    let new = folder.path().join("new");
    let mut elsewhere = arguments;
    elsewhere[2] = new.to_str().unwrap();
    fails(&elsewhere);
    assert!(!new.exists(), "it was made for nothing");
}

#[test]
fn a_device_that_is_too_small_is_told_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let out = holdfast(&["demo", "--dir", dir, "--device-size", "1MiB"]);
    assert_eq!(out.status.code(), Some(2));
    let talk = String::from_utf8(out.stderr).unwrap();
    assert!(
        talk.contains("--device-size 1MiB: a device needs at least"),
        "{talk}"
    );
    assert!(talk.contains("Usage: holdfast demo"), "{talk}");
    assert_nothing_is_begun(dir);
}

#[test]
fn what_was_first_told_holds() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let (portal, api) = free_ports();
    let portal = (portal.parse::<u16>().unwrap() + 1_100).to_string();
    let _held = TcpListener::bind(format!("127.0.0.1:{portal}")).unwrap();
    let api = (api.parse::<u16>().unwrap() + 1_200).to_string();
    let start = [
        "demo",
        "--dir",
        dir,
        "--portal-port",
        &portal,
        "--api-port",
        &api,
    ];
    // Begun, and not gone far.
    let marker = format!(
        r#"{{"schema":1,"cluster":"{:032x}","nodes":4,"device_bytes":{}}}"#,
        7,
        2_u64 << 30
    );
    std::fs::write(folder.path().join(".holdfast-demo"), marker).unwrap();
    // A node has been there, and the metadata that it belongs to is not there any more.
    let node = folder.path().join("n1");
    std::fs::create_dir_all(&node).unwrap();
    std::fs::write(node.join("node.toml"), "").unwrap();
    let metadata = folder.path().join("metadata");
    let talk = fails(&start);
    assert!(
        talk.contains("metadata is gone") && talk.contains("--fresh"),
        "{talk}"
    );
    assert!(!metadata.exists(), "nothing is founded in its place");
    std::fs::remove_dir_all(&node).unwrap();
    let talk = fails(&[&start[..], &["--nodes", "3"]].concat());
    assert!(
        talk.contains("has 4 nodes") && talk.contains("--fresh --nodes 3"),
        "{talk}"
    );
    let talk = fails(&[&start[..], &["--nodes-per-machine", "2"]].concat());
    assert!(
        talk.contains("has 1 node on each machine")
            && talk.contains("--fresh --nodes-per-machine 2"),
        "{talk}"
    );
    let talk = fails(&[&start[..], &["--device-size", "3GiB"]].concat());
    assert!(
        talk.contains("devices of 2GiB") && talk.contains("--fresh"),
        "{talk}"
    );
    let talk = fails(
        &[
            &start[..],
            &["--fresh", "--nodes", "1", "--volume", "a:1GiB:none"],
        ]
        .concat(),
    );
    assert!(
        talk.contains("the portal of node n1"),
        "--fresh begins anew: {talk}"
    );
    assert!(
        folder.path().join(".holdfast-demo").exists(),
        "nothing is erased"
    );
}

#[test]
fn what_is_no_report_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n1.json");
    let file = path.to_str().unwrap();
    let metadata = folder.path().join("metadata");
    let to = metadata.to_str().unwrap();
    for (contents, says) in [
        (&b""[..], "it is no report, or not all of one"),
        (b"{\"holdfast_recover_report\":1", "not all of one"),
        (b"{\"holdfast_recover_report\":2}", "format 2"),
        (
            b"{\"holdfast_recover_report\":1}",
            "no report of this version",
        ),
        (&[0xFF; 4096], "it is no report"),
        (&[b'['; 4096], "it is no report"),
    ] {
        std::fs::write(&path, contents).unwrap();
        for arguments in [
            &["recover", "plan", file][..],
            &["recover", "write", "--metadata", to, file],
        ] {
            let talk = fails(arguments);
            assert!(talk.contains(file) && talk.contains(says), "{talk}");
            assert!(talk.contains("hint: write it anew"), "{talk}");
        }
    }
    let talk = fails(&["recover", "plan", "/nowhere/n1.json"]);
    assert!(talk.contains("/nowhere/n1.json"), "{talk}");
    let talk = fails(&["recover", "read", file]);
    assert!(talk.contains("holds no store"), "{talk}");
    assert!(!metadata.exists());
}
