//! How the others reach a member, which is what etcd's own data says: at which address, and whether over TLS.
//!
//! It refuses to choose that: an operator tells etcd (`etcdctl member update`), and the member listens accordingly, whatever a file
//! says. What etcd said last is noted beside its data, because only a member that runs can be asked.
//!
//! Invariants:
//! - nobody but etcd has said what is noted, or the member began so; an empty note is none;
//! - a note of another address, as of a machine that has moved, counts where nothing is said in the clear: a member that had TLS does
//!   not open its ports to everybody for want of a question;
//! - what is noted survives a loss of power before etcd is started by it;
//! - addresses are compared without their schemes; a URL that cannot be read equals nothing but itself.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdfast_metadata::etcd::EtcdMember;
use tokio::runtime::Builder;

use super::{Plan, others};
use crate::directory::{remove_if_there, replace_file};

/// The note that the others reach the member over TLS.
const NOTE_FILE: &str = "tls";
/// After its start a member is first asked: it has read its data by then.
const FIRST: Duration = Duration::from_secs(1);
/// How often it is asked after that. An operator waits for it.
const AGAIN: Duration = Duration::from_secs(10);
/// How often it is told that a member has no TLS yet: it may stay so for days.
const TELL: Duration = Duration::from_secs(3600);

/// The URL at which members reach one.
#[derive(Clone, Debug)]
pub(super) enum PeerUrl {
    /// An address, and how it is spoken to.
    At { address: String, has_tls: bool },
    /// Something else.
    Unread(String),
}

impl PeerUrl {
    pub(super) fn of(text: &str) -> Self {
        let (has_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Self::Unread(text.to_owned()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let address = match rest.parse::<SocketAddr>() {
            // One address may be written in several ways.
            Ok(address) => address.to_string(),
            Err(_) if holdfast_model::host_and_port(rest).is_some() => rest.to_ascii_lowercase(),
            Err(_) => return Self::Unread(text.to_owned()),
        };
        Self::At { address, has_tls }
    }

    /// Whether both are at one address, whichever scheme they have.
    pub(super) fn is_where(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::At { address: a, .. }, Self::At { address: b, .. })
            | (Self::Unread(a), Self::Unread(b)) => a == b,
            _ => false,
        }
    }

    pub(super) const fn has_tls(&self) -> bool {
        matches!(self, Self::At { has_tls: true, .. })
    }

    /// That of a member that is at this address.
    pub(super) fn among(member: &EtcdMember, at: &Self) -> Option<Self> {
        let mut urls = member.peer_urls.iter().map(|url| Self::of(url));
        urls.find(|url| url.is_where(at))
    }
}

impl Plan {
    /// Whether it is noted that the others reach the member over TLS.
    pub(super) fn is_noted(&self) -> bool {
        self.noted().is_some_and(|noted| {
            let is_here = noted.is_where(&PeerUrl::of(&self.url(true)));
            noted.has_tls() && (is_here || !self.permits_plain())
        })
    }

    /// Whether there is a note that the others reach a member over TLS, wherever that is.
    pub(super) fn has_note(&self) -> bool {
        self.noted().is_some_and(|noted| noted.has_tls())
    }

    fn noted(&self) -> Option<PeerUrl> {
        let text = fs::read_to_string(self.path(NOTE_FILE)).ok()?;
        Some(PeerUrl::of(text.trim_end()))
    }

    /// Notes how the others reach the member.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note(&self, has_tls: bool) -> io::Result<()> {
        let path = self.path(NOTE_FILE);
        if has_tls {
            replace_file(&path, &format!("{}\n", self.url(true)))
        } else {
            remove_if_there(&path)
        }
    }

    fn url(&self, has_tls: bool) -> String {
        let scheme = if has_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.peer)
    }

    /// Which of these the member here is: the one at its address; if that has changed, the one of its name.
    fn own_among<'a>(&self, members: &'a [EtcdMember]) -> Option<(&'a EtcdMember, PeerUrl)> {
        let at = PeerUrl::of(&self.url(true));
        let mut placed = members
            .iter()
            .filter_map(|it| Some((it, PeerUrl::among(it, &at)?)));
        placed.next().or_else(|| {
            let named = members.iter().find(|it| it.name == self.name)?;
            Some((named, PeerUrl::of(named.peer_urls.first()?)))
        })
    }
}

/// A member's way to TLS, for as long as the others reach it without.
#[derive(Debug)]
pub(super) struct Moving {
    next: Instant,
    told: Option<Instant>,
}

impl Moving {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
            told: None,
        }
    }

    /// The member was started, or found running.
    pub(super) fn started(&mut self, now: Instant) {
        self.next = now + FIRST;
    }

    /// Whether the others reach over TLS a member that runs without, and is to be started again. Asks its etcd about that now and
    /// then, which takes a second at most.
    pub(super) fn is_due(&mut self, plan: &Plan, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + AGAIN;
        if !plan.may_move() {
            return false;
        }
        let Some(members) = ask(plan) else {
            return false;
        };
        let Some((own, url)) = plan.own_among(&members) else {
            return false;
        };
        if !url.has_tls() {
            self.tell(plan, own, now);
            return false;
        }
        // With files that do not go together it would not come back.
        plan.tls.is_usable()
    }

    /// Notes that the others reach the member over TLS, before it is started again; whether that is done.
    pub(super) fn take_up(plan: &Plan) -> bool {
        match plan.note(true) {
            Ok(()) => {
                tracing::info!(
                    "etcd is started again, with TLS: the others reach it at {} now",
                    plan.url(true)
                );
                true
            }
            Err(error) => {
                tracing::error!(
                    "note in {} that etcd is reached over TLS: {error}",
                    plan.path(NOTE_FILE).display()
                );
                false
            }
        }
    }

    fn tell(&mut self, plan: &Plan, own: &EtcdMember, now: Instant) {
        if self.told.is_some_and(|at| now - at < TELL) {
            return;
        }
        self.told = Some(now);
        tracing::warn!("{}", still_plain(plan, own));
    }
}

/// What an operator is told while a member has no TLS.
fn still_plain(plan: &Plan, own: &EtcdMember) -> String {
    let permitted = if plan.permits_plain() {
        ""
    } else {
        "; until then say `plain = true` in the section [etcd] of the files of all machines: without it nodes do not speak to members \
         that have no TLS"
    };
    format!(
        "etcd's member here has no TLS yet, and whoever reaches its ports can read and change what the cluster has agreed on: the \
         others reach it without, so it listens so. When all machines run this version, one after the other gets TLS by `etcdctl \
         member update` (here: {:x} --peer-urls={}), given at another member, and by nothing else: \"TLS between \
         members of etcd\" in docs/upgrade.md{permitted}",
        own.id,
        plan.url(true)
    )
}

/// Whom the etcd knows that runs here without TLS.
fn ask(plan: &Plan) -> Option<Vec<EtcdMember>> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(others::known_in_the_clear(plan.peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_compared_by_address() {
        let is_where = |a: &str, b: &str| PeerUrl::of(a).is_where(&PeerUrl::of(b));
        for (a, b) in [
            ("http://192.0.2.1:2380", "https://192.0.2.1:2380"),
            ("http://192.0.2.1:2380/", "http://192.0.2.1:2380"),
            ("https://[2001:db8::2]:2380", "http://[2001:db8:0::2]:2380"),
            ("http://N1.example:2380", "https://n1.example:2380"),
            ("unix://n1", "unix://n1"),
            ("http://192.0.2.1", "http://192.0.2.1"),
        ] {
            assert!(is_where(a, b) && is_where(b, a), "{a} and {b}");
        }
        for (a, b) in [
            ("http://192.0.2.1:2380", "http://192.0.2.1:2379"),
            ("http://192.0.2.1:2380", "http://192.0.2.2:2380"),
            ("http://192.0.2.1", "https://192.0.2.1"),
            ("unix://192.0.2.1:2380", "http://192.0.2.1:2380"),
            ("", "http://"),
        ] {
            assert!(!is_where(a, b) && !is_where(b, a), "{a} and {b}");
        }
        assert!(PeerUrl::of("https://192.0.2.1:2380").has_tls());
        for text in ["http://192.0.2.1:2380", "https://", "unixs://n1"] {
            assert!(!PeerUrl::of(text).has_tls(), "{text}");
        }
    }
}
