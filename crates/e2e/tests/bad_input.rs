//! What nobody should send: garbage, half PDUs, absurd lengths, wrong negotiation. Nodes survive it
//! in bounded memory and go on serving.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::demo::NODE_MEMORY_MAX;
use holdfast_e2e::host::Host;
use holdfast_e2e::{DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;
use holdfast_lab::{Isid, Session, SessionConfig};

/// Longest that a portal may keep a connection that sends nonsense.
const PATIENCE: Duration = Duration::from_secs(40);
/// Bytes of a PDU's header.
const HEADER: usize = 48;

#[test]
fn nodes_survive_nonsense() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let config = LoadConfig {
            depth: 6,
            ..LoadConfig::default()
        };
        let load = host.load(host.ledger(1), config);
        let pids: Vec<u32> = demo.file().nodes.iter().map(|node| node.pid).collect();
        let portals: Vec<SocketAddr> = demo.file().nodes.iter().map(|node| node.portal).collect();
        let target = demo.file().volume("demo")?.target.clone();
        for portal in &portals {
            for seed in 0..50 {
                send(*portal, &garbage(seed))?;
            }
            for bytes in nonsense(&target) {
                send(*portal, &bytes)?;
            }
            hold_half_open(*portal)?;
            load.wait_for(20)?;
        }
        for (node, pid) in demo.node_names().iter().zip(&pids) {
            ensure!(demo.pid(node)? == *pid, "{node} has died");
            ensure!(demo.is_running(node)?, "{node} has died");
            let (_, most) = demo.memory(node)?;
            ensure!(most <= NODE_MEMORY_MAX, "{node} has taken {most} bytes");
        }
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

/// Logins that are none: each is refused with a status or closed, and none is answered as if it
/// were right.
#[test]
fn wrong_logins_are_refused() {
    scenario(DemoOptions::default(), |demo| {
        let portal = demo.file().nodes[0].portal;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let initiator = holdfast_lab::IscsiName::parse("iqn.2026-11.io.holdfast.e2e:wrong")?;
        let unknown = holdfast_lab::IscsiName::parse("iqn.2026-11.io.holdfast:none")?;
        let kind = holdfast_lab::SessionKind::Normal(unknown);
        let config = SessionConfig::new(portal, initiator, Isid([0x80, 0, 0, 9, 0, 0]), kind);
        let refused = runtime.block_on(Session::connect(config));
        ensure!(refused.is_err(), "a target that is not there was found");
        Ok(())
    });
}

fn connect(portal: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(portal).context("connect to a portal")?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Sends bytes and then the end, and reads whatever comes until the portal closes.
fn send(portal: SocketAddr, bytes: &[u8]) -> Result<()> {
    let mut stream = connect(portal)?;
    // The portal may close before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let start = Instant::now();
    let mut answer = [0; 4096];
    let mut total = 0;
    loop {
        match stream.read(&mut answer) {
            Ok(0) => break,
            Ok(count) => total += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // A reset is an end too.
            Err(_) => break,
        }
        ensure!(total < 1 << 20, "nonsense was answered with a flood");
        ensure!(
            start.elapsed() < PATIENCE,
            "a connection that sends nonsense is kept: {:02x?}",
            &bytes[..bytes.len().min(HEADER)]
        );
    }
    Ok(())
}

/// Connections that say nothing, or half of something, do not keep others out.
fn hold_half_open(portal: SocketAddr) -> Result<()> {
    let mut held = Vec::new();
    for count in 0..HEADER {
        let mut stream = connect(portal)?;
        let _ = stream.write_all(&login(0, 0)[..count]);
        held.push(stream);
    }
    Ok(())
}

fn garbage(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let length = 1 + (seed * 131) % 5000;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// The header of a login request with these lengths (RFC 7143 11.12).
fn login(additional_words: u8, data: u32) -> Vec<u8> {
    let mut header = vec![0; HEADER];
    header[0] = 0x43;
    header[1] = 0x87;
    header[4] = additional_words;
    header[5..8].copy_from_slice(&data.to_be_bytes()[1..]);
    header[8] = 0x80;
    header
}

fn login_with(text: &str) -> Vec<u8> {
    let mut bytes = login(0, text.len() as u32);
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nonsense(target: &str) -> Vec<Vec<u8>> {
    let mut all = vec![
        // The longest segment there is, and none of it.
        login(0, 0xFF_FFFF),
        login(255, 0xFF_FFFF),
        // The same with some of it.
        [login(255, 0xFF_FFFF), vec![0; 100_000]].concat(),
        // A text without an end, without a separator, without a key.
        login_with("InitiatorName"),
        login_with("=\0=\0=\0"),
        login_with(&"a=b\0".repeat(2000)),
        login_with("InitiatorName=iqn.a:b\0SessionType=Neither\0"),
        login_with("InitiatorName=\0SessionType=Discovery\0"),
        login_with("InitiatorName=iqn.a:b\0InitiatorName=iqn.a:c\0SessionType=Discovery\0"),
        login_with("SessionType=Normal\0"),
        login_with("InitiatorName=iqn.a:b\0TargetName=iqn.a:none\0SessionType=Normal\0"),
    ];
    for wrong in [
        "HeaderDigest=MD5",
        "MaxRecvDataSegmentLength=0",
        "MaxRecvDataSegmentLength=99999999999999999999",
        "MaxBurstLength=-1",
        "FirstBurstLength=0x",
        "InitialR2T=Perhaps",
        "MaxConnections=0",
        "ErrorRecoveryLevel=3",
        "AuthMethod=Guess",
    ] {
        let names = format!("InitiatorName=iqn.a:b\0TargetName={target}\0SessionType=Normal\0");
        all.push(login_with(&format!("{names}{wrong}\0")));
    }
    // Every operation code before a login.
    for opcode in 0..=0xFF {
        let mut bytes = login(0, 0);
        bytes[0] = opcode;
        all.push(bytes);
    }
    // Half a header.
    all.push(login(0, 0)[..20].to_vec());
    all
}
