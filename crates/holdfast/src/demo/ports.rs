//! Ports that are to be used, and who else uses them.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use holdfast_node::ports::who_listens;
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
    let Use {
        address,
        what,
        option,
    } = used;
    let holder = who_listens(*address).map_or_else(
        || "another process, perhaps of another user".to_owned(),
        |listening| format!("process {} ({})", listening.pid, listening.name),
    );
    Failure::new(format!(
        "port {} for {what} is in use by {holder}",
        address.port()
    ))
    .hint(format!(
        "choose other ports with {option}, or stop that process"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less than is waited for anybody.
    const LIVING_PATIENCE: Duration = Duration::from_secs(2);

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
