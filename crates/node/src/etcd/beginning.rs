//! How a member of etcd begins that has no data: with the others as a new etcd, or in one that there is.
//!
//! It refuses to change who the members are. One that ran before and has lost its data may have voted, and
//! agreed to what only it and another one knew: under its old number it could undo that. Whether it
//! may be replaced, an operator knows, who sees that nothing else runs in its name.
//!
//! Invariants:
//! - a new etcd begins only where every member of the list was seen to have agreed to nothing, or where an
//!   operator says so of those that are silent: then there is no other etcd, and was none that could
//!   go on;
//! - what one member knows by itself, without a leader, lets nobody join.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use holdfast_metadata::etcd::EtcdMember;

use super::reached::PeerUrl;

/// With what etcd is started. It heeds that only while it has no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// With all members of the list, of which none has run.
    New,
    /// In an etcd that there is.
    Joining {
        /// Its members, as etcd wants them told.
        initial: String,
        /// Whether they are to reach this one over TLS.
        has_tls: bool,
    },
}

/// What was heard of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing.
    Silent,
    /// It answers without TLS, and is not to be asked so. What it has is not known.
    WithoutTls,
    /// It answers over TLS, which this one has not. What it has is not known.
    OverTls,
    /// It has no data, and waits as well.
    Empty,
    /// The same, with another list of members, or for another cluster.
    OtherList,
    /// It runs, and has no leader, or not yet: whom it knows as members.
    Leaderless(Vec<EtcdMember>),
    /// It runs, and says who all have agreed that the members are.
    Agreed(Vec<EtcdMember>),
}

/// Another member, and what was heard of it.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) name: String,
    pub(super) client: SocketAddr,
    /// Whether it answered over TLS.
    pub(super) has_tls: bool,
    pub(super) heard: Heard,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) name: String,
    /// The URL by which the others are to know it.
    pub(super) peer: String,
    /// Where all members of the list are, this one among them.
    pub(super) listed: Vec<PeerUrl>,
    /// Where its data would be.
    pub(super) data: PathBuf,
    /// The file by which an operator says that silent members have nothing.
    pub(super) consent: PathBuf,
    /// Whether it is there.
    pub(super) consented: bool,
    /// What `etcdctl` has to be told beside endpoints that have TLS.
    pub(super) etcdctl: String,
}

/// Why a member does not begin yet. Its text is for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    text: String,
    /// Whether it lasts until an operator has done something.
    pub(super) wants_operator: bool,
    /// Whether there is an etcd: then no new one begins.
    pub(super) has_etcd: bool,
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Decides by what was heard.
pub(super) fn decide(own: &Own, others: &[Other]) -> Result<Beginning, Wait> {
    let agreed = others.iter().find_map(Other::agreed);
    if let Some(members) = agreed {
        let orders = Orders::to(others, own);
        return match own.among(members) {
            None => Err(no_member(own, &orders, members)),
            Some((member, _)) if member.has_run() => Err(lost(own, &orders, member)),
            Some((member, url)) if url.has_tls() && !own.has_tls() => {
                Err(lacks_tls(own, &orders, member))
            }
            Some((_, url)) => Ok(Beginning::Joining {
                initial: initial(own, members),
                has_tls: url.has_tls(),
            }),
        };
    }
    let has_data = |other: &&Other| match &other.heard {
        Heard::Leaderless(members) => members.iter().any(EtcdMember::has_run),
        _ => false,
    };
    if let Some(other) = others.iter().find(has_data) {
        return Err(leaderless(own, other));
    }
    let plain = names(others, |heard| *heard == Heard::WithoutTls);
    if !plain.is_empty() {
        return Err(without_tls(own, &plain));
    }
    let secure = names(others, |heard| *heard == Heard::OverTls);
    if !secure.is_empty() {
        return Err(lacks_credentials(own, &secure));
    }
    let strange = names(others, |heard| match heard {
        Heard::OtherList => true,
        // Nothing has been agreed there; where this is a member, and by the same URL, it can begin with them.
        Heard::Leaderless(members) => !members.iter().any(|it| it.peer_urls.contains(&own.peer)),
        _ => false,
    });
    if !strange.is_empty() {
        return Err(other_list(own, &strange));
    }
    let silent = names(others, |heard| *heard == Heard::Silent);
    if silent.is_empty() || own.consented {
        return Ok(Beginning::New);
    }
    Err(unheard(own, &silent))
}

impl Other {
    /// Whom all have agreed upon, as this one says.
    fn agreed(&self) -> Option<&Vec<EtcdMember>> {
        match &self.heard {
            Heard::Agreed(members) => Some(members),
            _ => None,
        }
    }
}

impl Own {
    /// Where the others reach this one by that entry, if it is this one's. They may do so with or without TLS.
    fn url_in(&self, member: &EtcdMember) -> Option<PeerUrl> {
        PeerUrl::among(member, &PeerUrl::of(&self.peer))
    }

    /// Which of these this one is; rather one that has run, if it is several.
    fn among<'a>(&self, members: &'a [EtcdMember]) -> Option<(&'a EtcdMember, PeerUrl)> {
        let found = members.iter().filter_map(|it| Some((it, self.url_in(it)?)));
        found.max_by_key(|(member, _)| member.has_run())
    }

    /// Whether the list has it, with or without TLS.
    fn lists(&self, member: &EtcdMember) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|url| PeerUrl::among(member, url).is_some())
    }

    /// Whether it is to be reached over TLS.
    fn has_tls(&self) -> bool {
        PeerUrl::of(&self.peer).has_tls()
    }

    /// Those that the others reach without TLS, while this one is to have it.
    fn still_plain(&self, members: &[EtcdMember]) -> Vec<String> {
        if !self.has_tls() {
            return Vec::new();
        }
        let is_plain = |it: &&EtcdMember| {
            let mut urls = it.peer_urls.iter();
            urls.any(|url| !PeerUrl::of(url).has_tls())
        };
        let found = members.iter().filter(is_plain);
        found.map(described).collect()
    }
}

/// The members as etcd wants them told: it compares the URLs, and wants some name for each.
fn initial(own: &Own, members: &[EtcdMember]) -> String {
    let pairs = members.iter().flat_map(|member| {
        let name = if own.url_in(member).is_some() {
            own.name.clone()
        } else if member.name.is_empty() {
            format!("unnamed-{:x}", member.id)
        } else {
            member.name.clone()
        };
        let urls = member.peer_urls.iter();
        urls.map(move |url| format!("{name}={url}"))
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// The commands by which an operator changes who the members are. They are told to all members that answer: the
/// others may be gone for good.
struct Orders {
    /// With what `etcdctl` needs to reach them.
    endpoints: String,
}

impl Orders {
    fn to(others: &[Other], own: &Own) -> Self {
        let living = || others.iter().filter(|other| other.agreed().is_some());
        // `etcdctl` speaks to all endpoints as it does to the first: those of one kind only.
        let has_tls = living().any(|other| other.has_tls);
        let scheme = if has_tls { "https" } else { "http" };
        let endpoints = living().filter(|other| other.has_tls == has_tls);
        let endpoints = endpoints.map(|other| format!("{scheme}://{}", other.client));
        let endpoints = endpoints.collect::<Vec<_>>().join(",");
        let credentials = if has_tls { own.etcdctl.as_str() } else { "" };
        Self {
            endpoints: endpoints + credentials,
        }
    }

    fn list(&self) -> String {
        format!("etcdctl --endpoints {} member list", self.endpoints)
    }

    fn remove(&self, member: &EtcdMember) -> String {
        let (endpoints, id) = (&self.endpoints, member.id);
        format!("etcdctl --endpoints {endpoints} member remove {id:x}")
    }

    fn update(&self, own: &Own, member: &EtcdMember) -> String {
        let (endpoints, id, peer) = (&self.endpoints, member.id, &own.peer);
        format!("etcdctl --endpoints {endpoints} member update {id:x} --peer-urls={peer}")
    }

    fn add(&self, own: &Own) -> String {
        format!(
            "etcdctl --endpoints {} member add {} --peer-urls={}",
            self.endpoints, own.name, own.peer
        )
    }
}

fn lacks_tls(own: &Own, orders: &Orders, member: &EtcdMember) -> Wait {
    let text = format!(
        "etcd's member {name} is to be reached over TLS by the others, and this machine has none: give it credentials, and take \
         `off = true` out of the section [security] of its file, if it is there (docs/security.md); or, if the cluster does \
         without TLS, tell the others so, by this command, on any machine:\n{update}",
        name = own.name,
        update = orders.update(own, member),
    );
    Wait {
        text,
        wants_operator: true,
        has_etcd: true,
    }
}

fn lost(own: &Own, orders: &Orders, member: &EtcdMember) -> Wait {
    let text = format!(
        "etcd's member {name} has run before, and its data is not in {data}. Bring the data back; or, if it is \
         lost and nothing else runs as {name}, have the others forget it and take it in anew, by these two \
         commands, on any machine; it is started when they are done:\n{remove}\n{add}",
        name = own.name,
        data = own.data.display(),
        remove = orders.remove(member),
        add = orders.add(own),
    );
    Wait {
        text,
        wants_operator: true,
        has_etcd: true,
    }
}

/// What is to be done after the commands.
const AFTERWARDS: &str = "Then see that etcd.members is the same in the configuration of all machines: each reads it at \
                          its start. A node takes the place of the former one where an empty file `take-over` is \
                          in its `directory` when it starts (\"A machine that is replaced\" in docs/deployment.md)";

/// The etcd that there is does not know this member. Where it knows one that the list does not have, a machine that
/// is gone for good may be that: etcd takes nobody in beside a member that does not answer, so that one goes first.
fn no_member(own: &Own, orders: &Orders, members: &[EtcdMember]) -> Wait {
    let (name, peer, add) = (&own.name, &own.peer, orders.add(own));
    let intro = format!("there is an etcd, and {name} with {peer} is none of its members");
    let unlisted = members.iter().filter(|member| !own.lists(member));
    let unlisted: Vec<&EtcdMember> = unlisted.collect();
    let text = if unlisted.is_empty() {
        format!(
            "{intro}. This command takes it in, on any machine; it is started when that is done:\n{add}"
        )
    } else {
        let who = unlisted.iter().map(|member| described(member));
        let who = who.collect::<Vec<_>>().join(" and ");
        let remove = unlisted.iter().map(|member| orders.remove(member) + "\n");
        format!(
            "{intro}; {who} is one, and is not in etcd.members here. If that machine runs, correct etcd.members or \
             this machine's name. If it is gone for good and this machine takes its place, give these commands, in \
             this order, on any machine; etcd is started here when they are done:\n{list}\n{remove}{add}\n{AFTERWARDS}",
            list = orders.list(),
            remove = remove.collect::<String>(),
        )
    };
    let plain = own.still_plain(members);
    let text = if plain.is_empty() {
        text
    } else {
        // Which is no reason to remove one.
        let who = plain.join(" and ");
        format!(
            "{text}\nThe others reach {who} without TLS still: \"TLS between members of etcd\" in docs/upgrade.md"
        )
    };
    Wait {
        text,
        wants_operator: true,
        has_etcd: true,
    }
}

/// A member as `etcdctl member list` shows it. One that was added and never ran has no name.
fn described(member: &EtcdMember) -> String {
    let (id, name, urls) = (member.id, &member.name, member.peer_urls.join(", "));
    let name = if name.is_empty() {
        "one without a name"
    } else {
        name
    };
    format!("{name} with {urls} (member {id:x})")
}

fn leaderless(own: &Own, other: &Other) -> Wait {
    let text = format!(
        "etcd's member {} has no data, and must not begin anew: {} has, and no leader. Start the other members; \
         if too few are left, the metadata has to be made again (\"When the metadata is lost for good\" in \
         docs/deployment.md)",
        own.name, other.name,
    );
    Wait {
        text,
        wants_operator: false,
        has_etcd: true,
    }
}

fn without_tls(own: &Own, plain: &str) -> Wait {
    let text = format!(
        "etcd's member {} has no data, and what answers at {plain} has no TLS: whether there is an etcd, it is not asked. \
         Until all members have TLS, say `plain = true` in the section [etcd] of this machine's file (\"TLS between \
         members of etcd\" in docs/upgrade.md); where a cluster begins, all machines have credentials, or all say `off = true` in [security]",
        own.name,
    );
    Wait {
        text,
        wants_operator: true,
        has_etcd: false,
    }
}

fn lacks_credentials(own: &Own, secure: &str) -> Wait {
    let text = format!(
        "etcd's member {} has no data, and what answers at {secure} has TLS, which this machine has not: whether there is an etcd, it \
         cannot be asked. Give this machine credentials (\"The authority\" in docs/security.md), and take `off = true` in [security] out \
         of its file; where a cluster is to begin without TLS, all machines say `off = true`",
        own.name,
    );
    Wait {
        text,
        wants_operator: true,
        has_etcd: false,
    }
}

fn other_list(own: &Own, strange: &str) -> Wait {
    let text = format!(
        "etcd's member {} has no data, and {strange} has another list of members, or another cluster: \
         etcd.members, the ports and cluster must be the same on all machines",
        own.name,
    );
    Wait {
        text,
        wants_operator: true,
        has_etcd: false,
    }
}

fn unheard(own: &Own, silent: &str) -> Wait {
    let text = format!(
        "etcd's member {} has no data, and waits for {silent}: a new etcd begins when all of its members are \
         there and have none. If {silent} cannot come, and no member has data any more: touch {}",
        own.name,
        own.consent.display(),
    );
    Wait {
        text,
        wants_operator: false,
        has_etcd: false,
    }
}

fn names(others: &[Other], wanted: impl Fn(&Heard) -> bool) -> String {
    let found = others.iter().filter(|other| wanted(&other.heard));
    let names: Vec<&str> = found.map(|other| other.name.as_str()).collect();
    names.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: &[&str] = &[];
    const RAN: &[&str] = &["http://client"];

    fn url(place: u64) -> String {
        format!("http://192.0.2.{place}:2380")
    }

    fn member(id: u64, name: &str, place: u64, client_urls: &[&str]) -> EtcdMember {
        EtcdMember {
            id,
            name: name.to_owned(),
            peer_urls: vec![url(place)],
            client_urls: client_urls.iter().map(|&url| url.to_owned()).collect(),
            is_learner: false,
        }
    }

    /// The etcd of three, with the third as it is said.
    fn three(third: EtcdMember) -> Vec<EtcdMember> {
        vec![member(0xa, "n1", 1, RAN), member(0xb, "n2", 2, RAN), third]
    }

    fn blank() -> Vec<EtcdMember> {
        (1..=3)
            .map(|place| member(place, &format!("n{place}"), place, NEVER))
            .collect()
    }

    fn own() -> Own {
        Own {
            name: "n3".to_owned(),
            peer: "http://192.0.2.3:2380".to_owned(),
            listed: (1..=3).map(|place| PeerUrl::of(&url(place))).collect(),
            data: "/d/etcd/data".into(),
            consent: "/d/etcd/new".into(),
            consented: false,
            etcdctl: " --cacert CA".to_owned(),
        }
    }

    /// One that is to have TLS.
    fn secure() -> Own {
        Own {
            peer: "https://192.0.2.3:2380".to_owned(),
            ..own()
        }
    }

    /// A member that the others reach over TLS.
    fn over_tls(mut member: EtcdMember) -> EtcdMember {
        for url in &mut member.peer_urls {
            *url = url.replace("http://", "https://");
        }
        member
    }

    fn asked(own: &Own, first: Heard, second: Heard) -> Result<Beginning, Wait> {
        let other = |place: u8, heard| Other {
            name: format!("n{place}"),
            client: SocketAddr::from(([192, 0, 2, place], 2379)),
            has_tls: false,
            heard,
        };
        decide(own, &[other(1, first), other(2, second)])
    }

    fn waits(first: Heard, second: Heard) -> Wait {
        asked(&own(), first, second).unwrap_err()
    }

    #[test]
    fn a_new_etcd_begins_only_where_nobody_has_anything() {
        let new = Ok(Beginning::New);
        assert_eq!(asked(&own(), Heard::Empty, Heard::Empty), new);
        // The others have begun already, or one has.
        let begun = || Heard::Leaderless(blank());
        assert_eq!(asked(&own(), begun(), begun()), new);
        assert_eq!(asked(&own(), Heard::Empty, begun()), new);
        // Alone there is nobody to ask.
        assert_eq!(decide(&own(), &[]), new);
        for (first, second, says) in [
            (Heard::Silent, Heard::Silent, "waits for n1 and n2"),
            (Heard::Empty, Heard::Silent, "waits for n2"),
            (Heard::Silent, begun(), "waits for n1"),
            (Heard::Empty, Heard::OtherList, "n2 has another list"),
        ] {
            let wait = waits(first, second);
            assert!(wait.to_string().contains(says), "{wait}");
        }
    }

    #[test]
    fn an_operator_may_say_that_silent_members_have_nothing() {
        let own = Own {
            consented: true,
            ..own()
        };
        let new = Ok(Beginning::New);
        assert_eq!(asked(&own, Heard::Empty, Heard::Silent), new);
        assert_eq!(asked(&own, Heard::Silent, Heard::Silent), new);
        // Not of those that say otherwise.
        let stale = Heard::Leaderless(three(member(0xc, "n3", 3, NEVER)));
        assert!(asked(&own, Heard::Silent, stale).is_err());
        assert!(asked(&own, Heard::Silent, Heard::OtherList).is_err());
    }

    #[test]
    fn what_is_listed_and_never_ran_joins() {
        // It was added; or the others have begun without it.
        for name in ["", "n3"] {
            let listed = Heard::Agreed(three(member(0xc, name, 3, NEVER)));
            let list = "n1=http://192.0.2.1:2380,n2=http://192.0.2.2:2380,n3=http://192.0.2.3:2380";
            let joining = Ok(Beginning::Joining {
                initial: list.to_owned(),
                has_tls: false,
            });
            assert_eq!(asked(&own(), Heard::Silent, listed.clone()), joining);
            // As the others were told, whatever it is to have.
            assert_eq!(asked(&secure(), Heard::Silent, listed), joining);
        }
        let listed = Heard::Agreed(three(over_tls(member(0xc, "", 3, NEVER))));
        let Ok(Beginning::Joining { initial, has_tls }) = asked(&secure(), Heard::Silent, listed)
        else {
            panic!("it joins");
        };
        assert!(
            has_tls && initial.ends_with(",n3=https://192.0.2.3:2380"),
            "{initial}"
        );
        // Where it cannot be reached so, etcd would refuse to start, and nobody knew why.
        let listed = Heard::Agreed(three(over_tls(member(0xc, "", 3, NEVER))));
        let wait = asked(&own(), Heard::Silent, listed).unwrap_err();
        let text = wait.to_string();
        let update = "member update c --peer-urls=http://192.0.2.3:2380";
        assert!(wait.wants_operator && text.ends_with(update), "{text}");
        // Another one that was added has no name yet.
        let mut members = three(member(0xc, "", 3, NEVER));
        members[1].name.clear();
        let joins = asked(&own(), Heard::Silent, Heard::Agreed(members));
        let Ok(Beginning::Joining { initial: list, .. }) = joins else {
            panic!("it joins");
        };
        assert!(list.contains("unnamed-b=http://192.0.2.2:2380,"), "{list}");
    }

    /// While members get TLS one after the other, their URLs have either scheme: that makes nobody a stranger.
    #[test]
    fn nobody_is_removed_because_it_has_tls_or_has_none_yet() {
        for (own, has_tls) in [(own(), [false, false]), (secure(), [true, true])]
            .into_iter()
            .chain([(own(), [true, true]), (secure(), [false, false])])
            .chain([(own(), [true, false]), (secure(), [true, false])])
        {
            let others = || {
                let of = |id, name, place, has_tls: bool| {
                    let member = member(id, name, place, RAN);
                    if has_tls { over_tls(member) } else { member }
                };
                vec![of(0xa, "n1", 1, has_tls[0]), of(0xb, "n2", 2, has_tls[1])]
            };
            let is_to_have = own.peer.starts_with("https://");
            // Its own was removed: it is taken in, and nobody else goes.
            let wait = asked(&own, Heard::Agreed(others()), Heard::Silent).unwrap_err();
            let text = wait.to_string();
            assert!(!text.contains("member remove"), "{text}");
            assert!(
                text.contains(&format!("--peer-urls={}", own.peer)),
                "{text}"
            );
            let tells = text.contains("n2 with http://192.0.2.2:2380 (member b) without TLS still");
            assert_eq!(tells, is_to_have && !has_tls[1], "{text}");
            // It is there, reached in either way: it is the only one that goes, and comes back as it is to be.
            for lost in [
                member(0xc, "n3", 3, RAN),
                over_tls(member(0xc, "n3", 3, RAN)),
            ] {
                let mut members = others();
                members.push(lost);
                let wait = asked(&own, Heard::Agreed(members), Heard::Silent).unwrap_err();
                let text = wait.to_string();
                assert_eq!(text.matches("member remove").count(), 1, "{text}");
                assert!(text.contains("member remove c\n"), "{text}");
            }
            // The machine that it replaces had another address.
            let mut members = others();
            members.push(member(0xc, "n3", 9, RAN));
            let wait = asked(&own, Heard::Agreed(members), Heard::Silent).unwrap_err();
            let text = wait.to_string();
            assert_eq!(text.matches("member remove").count(), 1, "{text}");
            assert!(text.contains("member remove c\n"), "{text}");
        }
    }

    #[test]
    fn commands_are_for_members_that_etcdctl_reaches_together() {
        let asked = |has_tls: [bool; 2]| {
            let agreed = Heard::Agreed(three(member(0xcafe, "n3", 3, RAN)));
            let others = [1, 2].map(|place: u8| Other {
                name: format!("n{place}"),
                client: SocketAddr::from(([192, 0, 2, place], 2379)),
                has_tls: has_tls[usize::from(place) - 1],
                heard: agreed.clone(),
            });
            decide(&secure(), &others).unwrap_err().to_string()
        };
        for (has_tls, to) in [
            (
                [true, true],
                "https://192.0.2.1:2379,https://192.0.2.2:2379 --cacert CA member",
            ),
            ([false, true], "https://192.0.2.2:2379 --cacert CA member"),
            (
                [false, false],
                "http://192.0.2.1:2379,http://192.0.2.2:2379 member",
            ),
        ] {
            let text = asked(has_tls);
            assert!(
                text.contains(&format!("\netcdctl --endpoints {to} remove")),
                "{text}"
            );
        }
    }

    /// It is there, and may have data: no `touch` makes it nobody.
    #[test]
    fn one_that_answers_without_tls_is_not_silent() {
        for consented in [false, true] {
            let own = Own {
                consented,
                ..secure()
            };
            let wait = asked(&own, Heard::WithoutTls, Heard::Silent).unwrap_err();
            let text = wait.to_string();
            assert!(
                wait.wants_operator && text.contains("at n1 has no TLS"),
                "{text}"
            );
            assert!(
                text.contains("plain = true") && !text.contains("touch"),
                "{text}"
            );
        }
        // One that has agreed with the others decides.
        let listed = Heard::Agreed(three(member(0xc, "", 3, NEVER)));
        assert!(asked(&secure(), Heard::WithoutTls, listed).is_ok());
        // Who begins with the same members by other URLs begins another etcd.
        let wait = asked(&secure(), Heard::Empty, Heard::Leaderless(blank())).unwrap_err();
        assert!(wait.to_string().contains("another list"), "{wait}");
    }

    /// It may have data, and a machine that cannot ask it makes no other etcd beside it.
    #[test]
    fn one_that_answers_over_tls_is_not_silent_to_a_machine_without() {
        for consented in [false, true] {
            let own = Own { consented, ..own() };
            for other in [Heard::Silent, Heard::Empty] {
                let wait = asked(&own, Heard::OverTls, other).unwrap_err();
                let text = wait.to_string();
                assert!(wait.wants_operator && !wait.has_etcd, "{text}");
                assert!(text.contains("at n1 has TLS, which"), "{text}");
                assert!(
                    text.contains("off = true") && !text.contains("touch"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn one_that_ran_is_replaced_by_an_operator_only() {
        let ran = Heard::Agreed(three(member(0xcafe, "n3", 3, RAN)));
        let wait = waits(Heard::Silent, ran);
        assert!(wait.wants_operator);
        let text = wait.to_string();
        let commands: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            commands,
            [
                "etcdctl --endpoints http://192.0.2.2:2379 member remove cafe",
                "etcdctl --endpoints http://192.0.2.2:2379 member add n3 \
                 --peer-urls=http://192.0.2.3:2380",
            ]
        );
        // One that was removed waits until it is added.
        let two = three(member(0, "", 3, NEVER))[..2].to_vec();
        let wait = waits(Heard::Agreed(two), Heard::Silent);
        assert!(wait.wants_operator);
        let text = wait.to_string();
        assert!(
            text.contains("192.0.2.1:2379 member add n3 --peer-urls="),
            "{text}"
        );
        assert!(
            !text.contains("member remove"),
            "nobody else is gone: {text}"
        );
    }

    /// etcd takes nobody in while a member that is gone for good is on its list: that one is removed first, by
    /// members that live.
    #[test]
    fn a_member_at_another_address_takes_the_place_of_one_that_is_gone() {
        let agreed = || Heard::Agreed(three(member(0xcafe, "n3", 9, RAN)));
        let wait = waits(agreed(), agreed());
        assert!(wait.wants_operator);
        let text = wait.to_string();
        let commands: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("etcdctl "))
            .collect();
        let to = "etcdctl --endpoints http://192.0.2.1:2379,http://192.0.2.2:2379 member";
        let expected = [
            "list",
            "remove cafe",
            "add n3 --peer-urls=http://192.0.2.3:2380",
        ];
        assert_eq!(commands, expected.map(|what| format!("{to} {what}")));
        for part in [
            "n3 with http://192.0.2.9:2380",
            "gone for good",
            "etcd.members",
            "`take-over`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // One that was added, and never ran, has no name; it blocks the others all the same.
        let agreed = Heard::Agreed(three(member(0xcafe, "", 9, NEVER)));
        let text = waits(Heard::Silent, agreed).to_string();
        assert!(
            text.contains("192.0.2.2:2379 member remove cafe\n"),
            "{text}"
        );
        assert!(
            text.contains("one without a name with http://192.0.2.9:2380"),
            "{text}"
        );
    }

    /// What a member without a leader knows may be old: that this one never ran, too.
    #[test]
    fn without_a_leader_nobody_joins() {
        for third in [
            member(0xc, "n3", 3, RAN),
            member(0xc, "n3", 3, NEVER),
            member(0xc, "", 3, NEVER),
        ] {
            let wait = waits(Heard::Empty, Heard::Leaderless(three(third)));
            assert!(wait.to_string().contains("no leader"), "{wait}");
        }
    }
}
