//! The daemon as a process: start, serve, stop, be killed, and refuse what it must.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Bench, CONFIG_VARIABLE, LocalApi, Node};
use holdfast_api::Door;
use holdfast_api::documents::{AwaitedCause, Detached};
use holdfast_model::Policy;
use holdfast_node::config::NodeConfig;
use holdfast_node::{directory, run};
use rustix::process::Signal;

/// No test: what a child process of the others runs.
#[test]
fn a_node() -> ExitCode {
    let Some(path) = std::env::var_os(CONFIG_VARIABLE) else {
        return ExitCode::SUCCESS;
    };
    let config = NodeConfig::read(Path::new(&path)).unwrap();
    match run(&config, |parts| (LocalApi(parts), Door::Open)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn it_starts_registers_stops_and_starts_again() {
    let bench = Bench::new();
    let config = bench.config(1);
    let mut node = bench.start(&config, 0);
    assert_eq!(directory::holder(&config.directory), Some(node.id()));
    let nodes = bench.inventory().nodes;
    let first = &nodes[&config.node];
    assert_eq!(first.portal, config.portal.listen.to_string());
    assert_eq!(first.peer, config.peers.listen.to_string());
    assert_eq!(first.api, format!("http://{}", config.api.listen));
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    assert_eq!(directory::holder(&config.directory), None);
    let log = node.logged();
    assert!(
        log.contains("starts as n1") && log.contains("stopped"),
        "{log}"
    );

    // Killed, the next start has the same store, and is a later one.
    let mut node = bench.start(&config, first.incarnation.0);
    node.signal(Signal::KILL);
    assert!(!node.ended().success());
    let second = bench.inventory().nodes[&config.node].clone();
    assert_eq!(second.store, first.store);
    let node = bench.start(&config, second.incarnation.0);
    let report = bench.report(&config).unwrap();
    assert!(report.incarnation > second.incarnation.0);
    assert_eq!((report.node, report.process), (1, node.id()));
}

#[test]
fn three_nodes_serve_a_mirrored_volume_and_lose_one() {
    let bench = Bench::new();
    let configs = [1, 2, 3].map(|node| bench.config(node));
    let mut nodes = configs.each_ref().map(|config| bench.start(config, 0));
    bench.create_volume("demo", 64 << 20, Policy::Mirror2);
    for config in &configs {
        bench.wait_serving(config, 1);
    }
    let volume = |bench: &Bench| {
        let inventory = bench.inventory();
        inventory.slices.values().next().unwrap().clone()
    };
    let before = volume(&bench);
    let lost = usize::from(before.primary.0) - 1;
    nodes[lost].signal(Signal::KILL);
    nodes[lost].ended();
    bench.wait_for("another primary", || {
        let now = volume(&bench);
        (now.epoch > before.epoch && now.primary != before.primary).then_some(())
    });
    for (place, config) in configs.iter().enumerate() {
        if place != lost {
            bench.wait_serving(config, 1);
        }
    }
    let back = bench.inventory().nodes[&configs[lost].node].incarnation.0;
    let _node = bench.start(&configs[lost], back);
    bench.wait_for("the lost node to be in sync again", || {
        (volume(&bench).in_sync().count() == 2).then_some(())
    });
    bench.wait_serving(&configs[lost], 1);
}

#[test]
fn a_clean_stop_and_start_changes_no_epoch() {
    let bench = Bench::new();
    let configs = [1, 2].map(|node| bench.config(node));
    let mut nodes = configs.each_ref().map(|config| bench.start(config, 0));
    bench.create_volume("demo", 64 << 20, Policy::Mirror2);
    for config in &configs {
        bench.wait_serving(config, 1);
    }
    let slice = |bench: &Bench| bench.inventory().slices.values().next().unwrap().clone();
    let before = slice(&bench);
    // Who leads hears of it first, and leads on until the other has heard of it as well.
    let leads = usize::from(before.primary.0) - 1;
    nodes[leads].signal(Signal::INT);
    sleep(Duration::from_millis(100));
    nodes[1 - leads].signal(Signal::INT);
    for node in &mut nodes {
        assert!(node.ended().success(), "{}", node.logged());
    }
    let _nodes = configs.each_ref().map(|config| bench.start(config, 1));
    for config in &configs {
        bench.wait_serving(config, 1);
    }
    assert_eq!(slice(&bench).epoch, before.epoch);
}

#[test]
fn a_second_one_in_its_directory_is_told_who_is_there() {
    let bench = Bench::new();
    let config = bench.config(1);
    let node = bench.start(&config, 0);
    let error = run(&config, |parts| (LocalApi(parts), Door::Open))
        .unwrap_err()
        .to_string();
    let expected = format!("is in use by process {}", node.id());
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_taken_port_is_named_with_its_key_and_its_holder() {
    let bench = Bench::new();
    let config = bench.config(1);
    for (key, address) in [
        ("peers.listen", config.peers.listen),
        ("portal.listen", config.portal.listen),
        ("api.listen", config.api.listen),
    ] {
        let _taken = TcpListener::bind(address).unwrap();
        let mut node = Node::spawn(bench.folder.path(), &config);
        assert!(!node.ended().success());
        let log = node.logged();
        let holder = format!("process {}", std::process::id());
        for expected in [key, &address.to_string(), &holder] {
            assert!(log.contains(expected), "{expected} in {log}");
        }
    }
}

#[test]
fn devices_that_cannot_be_used_are_named() {
    let bench = Bench::new();
    let good = bench.config(1);
    let refused = |config: &NodeConfig, expected: &str| {
        let mut node = Node::spawn(bench.folder.path(), config);
        assert!(!node.ended().success());
        let log = node.logged();
        assert!(log.contains(expected), "{expected} in {log}");
        let device = config.devices[0].path.display().to_string();
        assert!(log.contains(&device), "{device} in {log}");
    };
    let mut small = good.clone();
    small.devices[0].file_bytes = Some(16 << 20);
    refused(&small, "are needed");
    fs::remove_file(&small.devices[0].path).unwrap();
    let mut missing = good.clone();
    missing.devices[0].file_bytes = None;
    refused(&missing, "does not exist");

    let mut node = bench.start(&good, 0);
    let mut other = bench.config(2);
    other.devices = good.devices.clone();
    refused(&other, "in use");
    node.signal(Signal::TERM);
    node.ended();
    refused(&other, "belongs to");
    fs::write(&good.devices[0].path, vec![0xA5; 64 << 20]).unwrap();
    refused(&good, "holds");
}

/// Its process goes on meanwhile, and what it runs beside itself; and a file that had data is not replaced by an empty one.
#[test]
fn it_waits_for_its_only_device_and_never_makes_it_anew() {
    let bench = Bench::new();
    let config = bench.config(1);
    let mut node = bench.start(&config, 0);
    let noted = config.directory.join(holdfast_node::DEVICES_FILE);
    bench.wait_for("its device to be noted", || noted.exists().then_some(()));
    let device = &config.devices[0].path;
    let aside = device.with_extension("aside");
    fs::rename(device, &aside).unwrap();
    bench.wait_for("it to say that its device was taken away", || {
        let report = bench.report(&config)?;
        assert!(report.open, "it goes on");
        report.devices.first()?.detached
    });
    let log = node.logged();
    assert_eq!(log.matches("was taken away while it is in use").count(), 1);
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    let before = bench.inventory().nodes[&config.node].clone();

    let mut node = Node::spawn(bench.folder.path(), &config);
    bench.wait_for("it to say that it needs the device", || {
        let report = bench.report(&config)?;
        (report.awaited_cause == Some(AwaitedCause::Needed)).then(|| {
            assert_eq!(report.awaited_device, Some(device.display().to_string()));
            assert!(!report.open);
        })
    });
    assert!(!device.exists());
    // So it does at once when it is started again.
    node.signal(Signal::TERM);
    assert!(node.ended().success(), "{}", node.logged());
    let node = Node::spawn(bench.folder.path(), &config);
    let cause = bench.wait_for("it to say what it waits for", || {
        let report = bench.report(&config)?;
        report.awaited_cause.filter(|_| report.process == node.id())
    });
    assert_eq!(cause, AwaitedCause::Needed, "it remembers");
    fs::rename(&aside, device).unwrap();
    let back = bench.wait_for("it to open its device", || {
        let record = bench.inventory().nodes[&config.node].clone();
        (record.incarnation > before.incarnation).then_some(record)
    });
    assert_eq!(back.store, before.store);
}

/// Of what is behind the new end nobody knows: it is neither used nor formatted.
#[test]
fn it_tells_that_its_device_is_cut_short_and_waits_until_it_is_as_it_was() {
    let bench = Bench::new();
    let config = bench.config(1);
    let mut node = bench.start(&config, 0);
    let noted = config.directory.join(holdfast_node::DEVICES_FILE);
    bench.wait_for("its device to be noted", || noted.exists().then_some(()));
    let device = &config.devices[0].path;
    let file = fs::File::options().write(true).open(device).unwrap();
    let bytes = file.metadata().unwrap().len();
    let copy = device.with_extension("copy");
    let keep = || fs::copy(device, &copy).unwrap();
    keep();
    file.set_len(bytes / 2).unwrap();
    let detached = bench.wait_for("it to say that its device was cut short", || {
        let report = bench.report(&config)?;
        assert!(report.open, "it goes on");
        report.devices.first()?.detached
    });
    assert_eq!(detached, Detached::CutShort);
    let log = node.logged();
    assert_eq!(log.matches("was cut short while it is in use").count(), 1);
    file.set_len(bytes).unwrap();
    bench.wait_for("it to say that it is over", || {
        let report = bench.report(&config)?;
        report.devices.first()?.detached.is_none().then_some(())
    });
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    keep();
    let before = bench.inventory().nodes[&config.node].clone();

    // A part of its superblocks, and too little for one.
    for bytes in [8192, 0] {
        file.set_len(bytes).unwrap();
        let mut node = Node::spawn(bench.folder.path(), &config);
        bench.wait_for("it to wait for its device", || {
            let report = bench.report(&config)?;
            report.awaited_cause.filter(|_| !report.open)
        });
        let cause = bench.report(&config).unwrap().awaited_cause;
        assert_eq!(cause, Some(AwaitedCause::CutShort));
        let log = node.logged();
        let words = format!("was cut short: it has {bytes} bytes, and had");
        assert!(log.contains(&words), "{log}");
        assert_eq!(fs::metadata(device).unwrap().len(), bytes);
        if bytes > 0 {
            node.signal(Signal::TERM);
            assert!(node.ended().success(), "{}", node.logged());
            continue;
        }
        fs::write(device, fs::read(&copy).unwrap()).unwrap();
        let back = bench.wait_for("it to open its device", || {
            let record = bench.inventory().nodes[&config.node].clone();
            (record.incarnation > before.incarnation).then_some(record)
        });
        assert_eq!(back.store, before.store);
    }
}

#[test]
fn it_stops_while_the_metadata_is_away() {
    let bench = Bench::new();
    let mut config = bench.config(1);
    // Nobody is there.
    config.metadata.addresses = vec!["127.0.0.1:9".into()];
    let mut node = Node::spawn(bench.folder.path(), &config);
    bench.wait_for("a complaint", || {
        node.logged()
            .contains("no connection to 127.0.0.1:9: cannot connect: Connection refused")
            .then_some(())
    });
    node.signal(Signal::TERM);
    assert!(node.ended().success(), "{}", node.logged());
}
