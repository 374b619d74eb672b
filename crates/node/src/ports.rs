//! Who listens on a port of this machine: for messages to people, who else would have to search.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// `st` of a socket that listens, in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Its number.
    pub pid: u32,
    /// Its name, as the system tells it.
    pub name: String,
}

/// Who listens on the address's port; `None` if the system does not say.
#[must_use]
pub fn who_listens(address: SocketAddr) -> Option<Listening> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let socket = tables.iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        find_socket(&table, address.port())
    })?;
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        has_socket(&entry.path(), &socket).then(|| Listening {
            pid,
            name: fs::read_to_string(entry.path().join("comm"))
                .unwrap_or_default()
                .trim()
                .to_owned(),
        })
    })
}

/// The number of the socket that listens on `port`.
fn find_socket(table: &str, port: u16) -> Option<String> {
    let port = format!("{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let local = words.get(1)?.rsplit_once(':')?.1;
        let socket = words.get(9)?;
        (local == port && *words.get(3)? == LISTENING).then(|| format!("socket:[{socket}]"))
    })
}

fn has_socket(process: &Path, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(who_listens(address).unwrap().pid, std::process::id());
        drop(listener);
        assert_eq!(who_listens(address), None);
    }

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st\n\
             0: 0100007F:1D1E 0100007F:0CBC 01 00000000:00000000 00:00000000 00000000 0 0 41 1\n\
             1: 0100007F:1D1E 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 42 1\n";
        assert_eq!(find_socket(table, 0x1D1E), Some("socket:[42]".into()));
        assert_eq!(find_socket(table, 0x0CBC), None);
        assert_eq!(find_socket("nonsense\nmore\n", 1), None);
    }
}
