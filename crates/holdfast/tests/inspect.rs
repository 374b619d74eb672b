//! `holdfast inspect` as people and programs call it: exit codes, one JSON value, what goes where.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::made::{FIRST_BYTES, SECOND_BYTES, save, typical};

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("inspect")
        .args(arguments)
        .output()
        .unwrap()
}

/// What it says, when it is done.
fn text(arguments: &[&str]) -> String {
    let output = inspect(arguments);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{talk}");
    assert_eq!(talk, "", "nothing is to be said beside the result");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[&["--json"], arguments].concat())).unwrap()
}

/// That it fails, with one JSON value, and what it says.
fn fails(arguments: &[&str]) -> (Value, String) {
    let output = inspect(&[&["--json"], arguments].concat());
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {talk}");
    assert!(talk.starts_with("error: "), "{talk}");
    assert!(talk.contains("\n\nhint: "), "{talk}");
    assert!(!talk.contains("panicked"), "{talk}");
    let document = serde_json::from_slice(&output.stdout).unwrap();
    (document, talk)
}

/// The configuration of a node whose directory was once `named`, with devices in it.
fn node_config(named: &Path, devices: &[&str]) -> String {
    let endpoint = |port: u16| format!("listen = \"127.0.0.1:{port}\"\n");
    let mut text = format!(
        "cluster = \"00000000000000000000000000000007\"\nnode = 1\nname = \"n1\"\ndirectory = \"{}\"\n\
         [portal]\n{}[peers]\n{}[api]\n{}[metadata]\naddresses = [\"127.0.0.1:9\"]\n",
        named.display(),
        endpoint(1),
        endpoint(2),
        endpoint(3),
    );
    for device in devices {
        let path = named.join(device);
        text.push_str(&format!("[[devices]]\npath = \"{}\"\n", path.display()));
    }
    text
}

#[test]
fn the_layout_is_printed_without_any_device() {
    let printed = text(&["layout"]);
    assert!(printed.contains("superblock (4096 bytes)"), "{printed}");
    assert!(printed.contains("page table entry (512 bytes)"));
    let document = json(&["layout"]);
    let structures = document["structures"].as_array().unwrap();
    let fields: usize = structures
        .iter()
        .map(|structure| structure["fields"].as_array().unwrap().len())
        .sum();
    assert_eq!(
        printed.lines().count(),
        1 + 2 * structures.len() + fields,
        "both say the same"
    );
    assert_eq!(structures[0]["fields"][5]["name"], "store");
    assert_eq!(structures[0]["fields"][5]["offset"], 40);
    assert_eq!(structures[0]["fields"][5]["bytes"], 16);
}

#[test]
fn a_store_is_told_to_people_and_to_programs() {
    let folder = tempfile::tempdir().unwrap();
    let devices = typical(&[FIRST_BYTES, SECOND_BYTES]).devices;
    let paths = save(&devices, folder.path());
    let [first, second] = [0, 1].map(|place: usize| paths[place].to_str().unwrap());
    let said = text(&[first, second]);
    for expected in [
        "store 00000000000000000000000000000057 of node n3",
        "opened 1 time, 2 devices, 2 partitions of the journal",
        "superblock B  1048576",
        "v1/0",
        "intact",
        "damage: none",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
    let document = json(&[first, second, "--verify", "--records", "--segments"]);
    let store = &document["stores"][0];
    assert_eq!(store["store"], "00000000000000000000000000000057");
    assert_eq!(store["sound"], true);
    assert_eq!(store["slices"].as_array().unwrap().len(), 2);
    assert_eq!(store["devices"][1]["ordinal"], 1);
    let records: usize = store["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["records"].as_array().unwrap().len())
        .sum();
    let counted: u64 = store["journal"]["records"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(records as u64, counted);
    assert_eq!(document["failed"].as_array().unwrap().len(), 0);
    // Parts of it, with options anywhere.
    let journal = json(&["journal", first]);
    assert!(journal["stores"][0]["journal"].is_object());
    assert!(journal["stores"][0]["devices"][0]["slots"].is_null());
    let slots = text(&["slots", first, second, "--slice", "1/0", "--page", "0"]);
    assert!(slots.contains("blocks of page 0"), "{slots}");
    let superblock = json(&["superblock", first]);
    assert!(superblock["stores"][0]["journal"].is_null());
    assert_eq!(fs::read(first).unwrap(), devices[0], "nothing is written");
}

#[test]
fn a_node_is_looked_at_by_its_directory_and_by_a_copy_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("n1");
    fs::create_dir(&directory).unwrap();
    save(&typical(&[FIRST_BYTES]).devices, &directory);
    let config = directory.join("node.toml");
    fs::write(&config, node_config(&directory, &["d0"])).unwrap();
    for path in [folder.path(), &directory, &config] {
        let document = json(&[path.to_str().unwrap()]);
        let stores = document["stores"].as_array().unwrap();
        assert_eq!(stores.len(), 1);
        let device = directory.join("d0");
        assert_eq!(stores[0]["devices"][0]["path"], device.to_str().unwrap());
    }
    // A copy is looked at, and not what it is a copy of.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(&config, copy.join("node.toml")).unwrap();
    fs::copy(directory.join("d0"), copy.join("d0")).unwrap();
    let document = json(&[copy.to_str().unwrap()]);
    let path = &document["stores"][0]["devices"][0]["path"];
    assert_eq!(path, copy.join("d0").to_str().unwrap());
}

#[test]
fn a_device_in_use_is_looked_at_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let paths = save(&typical(&[FIRST_BYTES]).devices, folder.path());
    let path = paths[0].to_str().unwrap();
    let held = File::open(path).unwrap();
    let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&held, lock).unwrap();
    let output = inspect(&[path, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let talk = String::from_utf8(output.stderr).unwrap();
    let holder = format!("in use by process {}", std::process::id());
    assert!(
        talk.starts_with("warning: ") && talk.contains(&holder),
        "{talk}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let in_use = &document["stores"][0]["devices"][0]["in_use"];
    assert_eq!(in_use["process"], std::process::id());
}

#[test]
fn damage_is_told_and_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut devices = typical(&[FIRST_BYTES]).devices;
    devices[0][(1 << 20) + 70] ^= 1;
    let paths = save(&devices, folder.path());
    let path = paths[0].to_str().unwrap();
    let said = text(&[path]);
    let place = format!("{path} bytes 1048576 + 4096: one of the two superblocks");
    assert!(said.contains(&place), "{said}");
    assert!(said.contains("mended at the next start"), "{said}");
    let document = json(&[path]);
    assert_eq!(document["stores"][0]["sound"], false);
    assert_eq!(document["stores"][0]["damage"][0]["offset"], 1 << 20);
}

#[test]
fn what_holds_no_store_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = vec![0; 4 << 20];
    let mut prng = holdfast_stdx::Prng::from_seed(1);
    random.fill_with(|| prng.below(256) as u8);
    let mut bad = typical(&[FIRST_BYTES]).devices.remove(0);
    bad[100] ^= 1;
    bad[(1 << 20) + 100] ^= 1;
    for (name, bytes, says) in [
        ("empty", vec![], "no superblock"),
        ("short", vec![7; 100], "no superblock"),
        ("zeros", vec![0; 4 << 20], "it is blank"),
        ("random", random, "no superblock"),
        (
            "bad",
            bad,
            "at 0: the superblock's checksum is wrong; at 1048576: ",
        ),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let (document, talk) = fails(&[path.to_str().unwrap()]);
        assert!(talk.contains(says) && talk.contains(name), "{talk}");
        let detail = document["error"]["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    }
    let directory = folder.path().to_str().unwrap();
    assert!(fails(&[directory]).1.contains("node.toml"));
    assert!(fails(&["/dev/null"]).1.contains("neither a file nor"));
    assert!(fails(&["/nonexistent"]).1.contains("No such file"));
    // What can be looked at is, beside what cannot.
    let paths = save(&typical(&[FIRST_BYTES]).devices, folder.path());
    let zeros = folder.path().join("zeros");
    let (document, _) = fails(&[zeros.to_str().unwrap(), paths[0].to_str().unwrap()]);
    assert_eq!(document["stores"].as_array().unwrap().len(), 1);
    assert_eq!(document["failed"].as_array().unwrap().len(), 1);
}
