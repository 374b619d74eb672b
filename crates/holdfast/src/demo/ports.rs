//! Ports that are to be used, and who else uses them.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use holdfast_node::ports::{Listening, who_listens};
use holdfast_node::predecessor::Holder;
use tokio::time::Instant;

use super::layout::Use;
use crate::failure::Failure;

/// How often a port is tried that a process holds which is ending.
const LINGER_POLL: Duration = Duration::from_millis(50);

/// Listens.
pub(crate) async fn listen(used: &Use) -> Result<tokio::net::TcpListener, Failure> {
    let listener = bind(used).await?;
    listener
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpListener::from_std(listener))
        .map_err(|error| Failure::new(format!("listen on {}: {error}", used.address)))
}

/// Whether another process may listen.
pub(crate) async fn check(used: &Use) -> Result<(), Failure> {
    bind(used).await.map(drop)
}

async fn bind(used: &Use) -> Result<TcpListener, Failure> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(used.address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let listening = who_listens(used.address);
                let holder = Holder::from(listening.map(|it| it.pid));
                if begun.elapsed() >= holder.patience() {
                    return Err(taken(used));
                }
            }
            Err(error) => {
                let what = &used.what;
                return Err(Failure::new(format!(
                    "listen on {} for {what}: {error}",
                    used.address
                ))
                .hint(format!("choose another port with {}", used.option)));
            }
        }
        tokio::time::sleep(LINGER_POLL).await;
    }
}

fn taken(used: &Use) -> Failure {
    let listening = who_listens(used.address);
    let command = listening.as_ref().and_then(|listening| {
        let line = fs::read(format!("/proc/{}/cmdline", listening.pid));
        line.ok()
    });
    told(used, listening.as_ref(), &command.unwrap_or_default())
}

/// What is told of a port that another process has, and of that process' command line, as the system has it.
fn told(used: &Use, listening: Option<&Listening>, command: &[u8]) -> Failure {
    let Use {
        address,
        what,
        option,
    } = used;
    let holder = listening.map_or_else(
        || "another process, perhaps of another user".to_owned(),
        |listening| format!("process {} ({})", listening.pid, listening.name),
    );
    let mut what = format!("port {} for {what} is in use by {holder}", address.port());
    // Nobody has to have named it.
    let mut hint = format!("choose other ports with {option}, from which this one is counted, or ");
    match listening.and_then(|it| Of::named(&it.name, command).map(|of| (it.pid, of))) {
        None => hint.push_str("stop that process"),
        Some((pid, Of::Demo)) => {
            what.push_str(", which is most likely another demo");
            hint.push_str(&format!(
                "stop that demo with `kill {pid}`; beside it this one needs --dir, --portal-port and --api-port"
            ));
        }
        Some((_, Of::Node)) => {
            what.push_str(", which is a node of Holdfast, perhaps of another demo");
            hint.push_str("stop what it belongs to");
        }
    }
    Failure::new(what).hint(hint)
}

/// What of Holdfast a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Demo,
    Node,
}

impl Of {
    /// By a process' name, and its command line: words that each end with a zero, the program's first.
    fn named(name: &str, command: &[u8]) -> Option<Self> {
        let mut words = command.split(|byte| *byte == 0).skip(1);
        let of = words.find_map(|word| match word {
            b"demo" => Some(Self::Demo),
            b"node" => Some(Self::Node),
            _ => None,
        });
        of.filter(|_| name == "holdfast")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less than is waited for anybody.
    const LIVING_PATIENCE: Duration = Duration::from_secs(2);

    #[test]
    fn another_demo_is_told_as_that_with_how_to_stop_it() {
        let used = Use {
            address: ([127, 0, 0, 1], 7560).into(),
            what: "the metadata".to_owned(),
            option: "--api-port",
        };
        let told = |name: &str, command: &[u8]| {
            let name = name.to_owned();
            let listening = Listening { pid: 12, name };
            told(&used, Some(&listening), command).to_string()
        };
        let demo = told(
            "holdfast",
            b"/usr/bin/holdfast\0--json\0demo\0--dir\0node\0",
        );
        let expected = "port 7560 for the metadata is in use by process 12 (holdfast), which is most likely another demo\n\n\
                        hint: choose other ports with --api-port, from which this one is counted, or stop that demo with \
                        `kill 12`; beside it this one needs --dir, --portal-port and --api-port";
        assert_eq!(demo, expected);
        // To end it alone would be no help.
        let node = told(
            "holdfast",
            b"holdfast\0node\0--config\0/demo/n1/node.toml\0",
        );
        assert!(
            node.contains("perhaps of another demo") && !node.contains("kill"),
            "{node}"
        );
        for (name, command) in [("nginx", &b"nginx\0demo\0"[..]), ("holdfast", &b""[..])] {
            let other = told(name, command);
            assert!(other.ends_with("or stop that process"), "{other}");
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_told_with_its_holder_and_the_option() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let used = Use {
            address: holder.local_addr().unwrap(),
            what: "the portal of node n1".to_owned(),
            option: "--portal-port",
        };
        let begun = Instant::now();
        let failure = check(&used).await.unwrap_err().to_string();
        assert!(
            begun.elapsed() < LIVING_PATIENCE,
            "a holder that lives is not waited for"
        );
        assert!(failure.contains(&format!("in use by process {}", std::process::id())));
        assert!(failure.contains("the portal of node n1"), "{failure}");
        assert!(
            failure.contains("hint: choose other ports with --portal-port"),
            "{failure}"
        );
        drop(holder);
        let listener = listen(&used).await.expect("nobody has it any more");
        assert_eq!(listener.local_addr().unwrap(), used.address);
    }
}
