//! The hosts in the cluster: what they want is done, what happens to them is told.

use holdfast_engine::ConnectionId;
use holdfast_model::CommandId;
use holdfast_stdx::Bytes;

use super::{Cluster, Happening, HostWord};
use crate::content::TEMPLATE;
use crate::failure::Failure;
use crate::history::{Asked, History, News, Sectors};
use crate::host::{Act, Acts, Host};
use crate::network::Place;
use crate::volumes::volume_id;

impl Cluster {
    /// A host's time has come.
    pub(super) fn host_acts(&mut self, host: usize) -> Result<(), Failure> {
        self.hosts[host].timer = None;
        let now = self.now;
        self.with_host(host, |host, history, acts| host.act(now, history, acts))
    }

    pub(super) fn host_receives(
        &mut self,
        host: usize,
        path: usize,
        connection: ConnectionId,
        bytes: Bytes,
    ) -> Result<(), Failure> {
        let now = self.now;
        self.with_host(host, |host, history, acts| {
            host.received(now, path, connection, bytes, history, acts);
        })
    }

    pub(super) fn host_loses(
        &mut self,
        host: usize,
        path: usize,
        connection: ConnectionId,
    ) -> Result<(), Failure> {
        let now = self.now;
        self.line(Place::Host(host as u16), format_args!("loses path {path}"));
        self.with_host(host, |host, history, acts| {
            host.lost(now, path, connection, history, acts);
        })
    }

    /// Lets a host act, and does what it then wants.
    pub(crate) fn with_host(
        &mut self,
        host: usize,
        act: impl FnOnce(&mut Host, &mut History, &mut Acts),
    ) -> Result<(), Failure> {
        let mut acts = Acts::default();
        act(&mut self.hosts[host], &mut self.history, &mut acts);
        self.note_stall(host);
        loop {
            if let Some(what) = acts.complaint.take() {
                return Err(Failure::Host { host, what });
            }
            self.note_news();
            if acts.acts.is_empty() {
                break;
            }
            let now = self.now;
            for wanted in std::mem::take(&mut acts.acts) {
                match wanted {
                    Act::Connect { path, node } => {
                        let connection = self.connect(host, path, node);
                        let place = Place::Host(host as u16);
                        self.line(place, format_args!("connects to {node}: {connection:?}"));
                        let history = &mut self.history;
                        self.hosts[host].connected(now, path, connection, history, &mut acts);
                    }
                    Act::Send(connection, parts) => self.host_sends(connection, parts),
                    Act::ResetSent => {
                        self.line(Place::Host(host as u16), format_args!("resets the unit"));
                        let writes = self.writes_under_way(host);
                        self.invariants.reset_sent(host, writes);
                    }
                    Act::ResetDone => {
                        self.line(Place::Host(host as u16), format_args!("has reset the unit"));
                        self.invariants.reset_done(host);
                    }
                    Act::Registers
                    | Act::Registered { .. }
                    | Act::Takes { .. }
                    | Act::Taken { .. }
                    | Act::NotTaken { .. }
                    | Act::Clears => self.rival_acts(host, &wanted),
                    Act::Close(connection) => {
                        let place = Place::Host(host as u16);
                        self.line(place, format_args!("closes {connection:?}"));
                        self.host_closes(connection);
                    }
                }
            }
        }
        self.set_host_timer(host);
        Ok(())
    }

    /// A host takes its volume from another one, or loses it.
    fn rival_acts(&mut self, host: usize, act: &Act) {
        let now = self.now;
        let volume = self.plan.hosts[host].volume;
        self.line(Place::Host(host as u16), format_args!("{act:?}"));
        let rights = &mut self.invariants.rights;
        match *act {
            Act::Registers => rights.registers(host, volume),
            Act::Registered { in_doubt } => rights.registered(now, host, volume, in_doubt),
            Act::Takes { of } => rights.takes(now, host, volume, of),
            Act::Taken { of, reserved } => {
                if rights.taken(host, volume, reserved) {
                    self.history.fence(of);
                    self.hosts[host].counts.taken += 1;
                }
            }
            Act::NotTaken { in_doubt } => rights.not_taken(now, host, volume, in_doubt),
            Act::Clears => {
                rights.ends(volume);
                for host in 0..self.plan.hosts.len() {
                    if self.plan.hosts[host].volume == volume {
                        self.history.unfence(host);
                    }
                }
            }
            _ => unreachable!("rivals do nothing else"),
        }
    }

    /// Tells of what has happened to the hosts' commands.
    fn note_news(&mut self) {
        for news in self.history.take_news() {
            let (News::Sent(number) | News::Done(number) | News::GivenUp(number)) = news;
            let attempt = self.history.attempt(number);
            let (host, path, asked) = (attempt.host as u16, attempt.path, attempt.asked);
            let Sectors { first, count, .. } = attempt.sectors;
            let word = match news {
                News::Sent(_) => "sends",
                News::Done(_) => "has done",
                News::GivenUp(_) => "gives up",
            };
            if !matches!(news, News::GivenUp(_)) {
                self.host_words.push(HostWord {
                    at: self.now,
                    host: attempt.host,
                    path,
                    done: matches!(news, News::Done(_)),
                });
            }
            let number = number.0;
            self.line(
                Place::Host(host),
                format_args!("{word} {number} over path {path}: {asked} {first}+{count}"),
            );
            // What others copy is written over and over.
            if let (News::Done(_), Asked::Write(value)) = (news, asked)
                && value != TEMPLATE
            {
                self.invariants.write_done(value);
            }
        }
    }

    /// Notes for how long no host's command was done.
    fn note_stall(&mut self, host: usize) {
        let Host {
            last_done, busy, ..
        } = self.hosts[host];
        if last_done > self.last_done {
            if busy {
                self.stall = self.stall.max(last_done.since(self.last_done));
            }
            self.last_done = last_done;
        }
    }

    /// Every write of a host's volume that is with any process.
    fn writes_under_way(&self, host: usize) -> Vec<CommandId> {
        let volume = volume_id(self.plan.hosts[host].volume);
        let running = self.nodes.values().filter_map(|node| node.process.as_ref());
        let writes = running.flat_map(|process| process.engine.writes_under_way(volume));
        writes.collect()
    }

    fn set_host_timer(&mut self, host: usize) {
        let now = self.now;
        let state = &mut self.hosts[host];
        let wake = state.next_timeout().map(|due| due.max(now));
        if state.timer.map(|(due, _)| due) == wake {
            return;
        }
        if let Some((_, appointment)) = state.timer.take() {
            self.schedule.cancel(appointment);
        }
        state.timer = wake.map(|due| (due, self.schedule.at(due, Happening::Host(host))));
    }
}
