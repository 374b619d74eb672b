//! What nobody should send: garbage, half PDUs, absurd lengths, wrong negotiation. Nodes survive it
//! in bounded memory and go on serving.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use holdfast_e2e::demo::NODE_MEMORY_MAX;
use holdfast_e2e::host::Host;
use holdfast_e2e::raw::{
    HEADER, RawSession, Refused, connect, login_header, login_with, try_login,
};
use holdfast_e2e::{DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;

/// Longest that a portal may keep a connection that sends nonsense.
const PATIENCE: Duration = Duration::from_secs(40);

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
            serves(*portal, &target)?;
            for seed in 0..50 {
                send(connect(*portal)?, &garbage(seed))?;
                serves(*portal, &target)?;
            }
            for bytes in nonsense(&target) {
                send(connect(*portal)?, &bytes)?;
                serves(*portal, &target)?;
            }
            for (bytes, port) in nonsense_in_a_session().iter().zip(0..) {
                let session = log_in(*portal, &target, port)?;
                send(session.into_stream(), bytes)?;
                serves(*portal, &target)?;
            }
            hold_half_open(*portal)?;
            serves(*portal, &target)?;
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

/// Logins that are none: each is refused with the status that says why (RFC 7143 11.13.5), by a
/// portal that takes right ones before and after.
#[test]
fn wrong_logins_are_refused() {
    scenario(DemoOptions::default(), |demo| {
        let target = demo.file().volume("demo")?.target.clone();
        let portals: Vec<SocketAddr> = demo.file().nodes.iter().map(|node| node.portal).collect();
        let normal = format!("SessionType=Normal\0TargetName={target}\0");
        let wrong = [
            // There is no such target; its name is none.
            (
                "InitiatorName=iqn.a:b\0SessionType=Normal\0TargetName=iqn.a:none\0".to_owned(),
                [2, 3],
            ),
            (
                "InitiatorName=iqn.a:b\0SessionType=Normal\0TargetName=?\0".to_owned(),
                [2, 3],
            ),
            // Something is missing: who asks, what is asked for.
            (normal.clone(), [2, 7]),
            (
                "InitiatorName=iqn.a:b\0SessionType=Normal\0".to_owned(),
                [2, 7],
            ),
            // A kind of session that there is none of.
            (
                "InitiatorName=iqn.a:b\0SessionType=Neither\0".to_owned(),
                [2, 9],
            ),
            // A text that is none, and a key twice.
            ("InitiatorName".to_owned(), [2, 0]),
            (
                format!("InitiatorName=iqn.a:b\0{normal}MaxConnections=1\0MaxConnections=1\0"),
                [2, 0],
            ),
        ];
        for portal in portals {
            for (text, status) in &wrong {
                serves(portal, &target)?;
                let answer = try_login(portal, &login_with(text))?;
                ensure!(
                    answer.as_ref().err() == Some(&Refused(*status)),
                    "{text:?} is answered with {answer:?}"
                );
                serves(portal, &target)?;
            }
        }
        Ok(())
    });
}

fn log_in(portal: SocketAddr, target: &str, port: u16) -> Result<RawSession> {
    RawSession::open(portal, target, port)?
        .map_err(|refused| anyhow::anyhow!("a right login is refused: {refused:?}"))
}

/// A portal takes a right login and reads a block.
fn serves(portal: SocketAddr, target: &str) -> Result<()> {
    const PORT: u16 = 0x7FFF;
    let block = log_in(portal, target, PORT)?.read_block()?;
    ensure!(block.len() == 512, "a block has 512 bytes");
    Ok(())
}

/// Sends bytes and then the end, and reads whatever comes until the portal closes.
fn send(mut stream: TcpStream, bytes: &[u8]) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
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
        let _ = stream.write_all(&login_header(0, 0)[..count]);
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

fn nonsense(target: &str) -> Vec<Vec<u8>> {
    let mut all = vec![
        // The longest segment there is, and none of it.
        login_header(0, 0xFF_FFFF),
        login_header(255, 0xFF_FFFF),
        // The same with some of it.
        [login_header(255, 0xFF_FFFF), vec![0; 100_000]].concat(),
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
        let mut bytes = login_header(0, 0);
        bytes[0] = opcode;
        all.push(bytes);
    }
    // Half a header.
    all.push(login_header(0, 0)[..20].to_vec());
    all
}

/// What makes no sense in a session either: every operation code, garbage, lengths, parts of PDUs.
fn nonsense_in_a_session() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..50).map(garbage).collect();
    for opcode in 0..=0xFF {
        let mut bytes = vec![0; HEADER];
        bytes[0] = opcode;
        bytes[1] = 0x80;
        all.push(bytes.clone());
        // With all that there is to set, and the longest lengths.
        bytes[1..].fill(0xFF);
        all.push(bytes.clone());
        bytes.resize(100_000, 0xFF);
        all.push(bytes);
    }
    // A command that takes back what it says, and Data-Out that belongs to nothing.
    let mut command = vec![0; HEADER];
    command[0] = 0x01;
    command[1] = 0xE1;
    command[20..24].fill(0xFF);
    command[27] = 1;
    all.push(command.clone());
    command[0] = 0x05;
    all.push(command[..30].to_vec());
    all.push(command);
    all
}
