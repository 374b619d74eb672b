//! A network in a world of one's own: a switch, a machine for each node, and the hosts, which is where this
//! program itself runs. Each has an address of a private range, and one cable to the switch.
//!
//! Who reaches whom is decided by the neighbour table of each: one that is cut off from another sends its
//! frames to a hardware address that nobody has. So any direction between any two can be cut, silently, as
//! by a broken switch, and nothing is needed but iproute2.
//!
//! Invariants:
//! - it is made inside only ([`crate::world`]), where names and addresses are nobody else's;
//! - what it has made goes when it is dropped;
//! - whatever is cut, [`Network::heal`] restores.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::world;

/// The namespace of the switch.
const SWITCH: &str = "switch";
/// The cable's end at each machine.
const CABLE: &str = "eth0";
/// The last byte of the hosts' address.
const HOSTS: u8 = 100;
/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:ff:ff";
/// The last byte of the address before that of the first guest.
const GUESTS: u8 = 200;
/// What a slow cable holds back before it loses frames, and what it lets through in one go.
const SLOW_LATENCY: &str = "400ms";
const SLOW_BURST: &str = "32k";

/// One who has a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A machine with a node, counted from 0.
    Machine(usize),
    /// All hosts.
    Hosts,
}

/// The network.
#[derive(Debug)]
pub struct Network {
    machines: usize,
    /// Whether cables can be made slow: not every kernel can.
    can_slow: bool,
}

impl Network {
    /// A network with so many machines, all of which reach each other.
    ///
    /// # Errors
    /// Outside; or what `ip` says.
    pub fn new(machines: usize) -> Result<Self> {
        ensure!(world::is_inside(), "a network outside would be seen");
        // `ip` keeps names there, for everybody; here they are ours.
        world::mount_memory(Path::new("/run"), 1 << 20)?;
        let mut network = Self {
            machines,
            can_slow: false,
        };
        ip("link set lo up")?;
        ip(&format!("netns add {SWITCH}"))?;
        ip(&format!("-n {SWITCH} link add name bridge0 up type bridge"))?;
        for party in network.parties() {
            network.connect(party)?;
        }
        for from in network.parties() {
            for to in network.parties().filter(|to| *to != from) {
                network.heal(from, to)?;
            }
        }
        network.can_slow = network.slow(Party::Hosts, 1000).is_ok();
        if network.can_slow {
            network.unslow(Party::Hosts)?;
        }
        Ok(network)
    }

    fn connect(&self, party: Party) -> Result<()> {
        let (name, own) = (name(party), own(party));
        if party != Party::Hosts {
            ip(&format!("netns add {name}"))?;
            ip(&format!("{own} link set lo up"))?;
        }
        ip(&format!(
            "{own} link add name {CABLE} address {mac} type veth peer name {name} netns {SWITCH}",
            mac = hardware(party)
        ))?;
        ip(&format!("-n {SWITCH} link set {name} up master bridge0"))?;
        let address = address(party);
        ip(&format!("{own} address add {address}/24 dev {CABLE}"))?;
        ip(&format!("{own} link set {CABLE} up"))
    }

    /// Everybody who has a cable.
    pub fn parties(&self) -> impl Iterator<Item = Party> + use<> {
        (0..self.machines).map(Party::Machine).chain([Party::Hosts])
    }

    /// Whether [`slow`](Self::slow) works here.
    #[must_use]
    pub const fn can_slow(&self) -> bool {
        self.can_slow
    }

    /// A program that will run at a machine, or at the hosts.
    #[must_use]
    pub fn command(&self, party: Party, program: &Path) -> Command {
        if party == Party::Hosts {
            return Command::new(program);
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name(party)]).arg(program);
        command
    }

    /// A cable for a guest, counted from 1: the switch's end of it is a device of the kernel's that the guest's
    /// machine opens by its name, by a program that runs [at the switch](Self::command_at_switch). Nothing is cut
    /// for guests: they and machines find each other as usual.
    ///
    /// # Errors
    /// What `ip` says; there may be no `/dev/net/tun`.
    pub fn connect_guest(&self, guest: u8) -> Result<String> {
        let name = guest_name(guest);
        ip(&format!("-n {SWITCH} tuntap add dev {name} mode tap"))?;
        ip(&format!("-n {SWITCH} link set {name} up master bridge0"))?;
        Ok(name)
    }

    /// A program that will run where the switch is.
    #[must_use]
    pub fn command_at_switch(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", SWITCH]).arg(program);
        command
    }

    /// From now on nothing that `from` sends arrives at `to`.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn cut(&self, from: Party, to: Party) -> Result<()> {
        neighbour(from, to, NOBODY)
    }

    /// What `from` sends to `to` arrives again.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn heal(&self, from: Party, to: Party) -> Result<()> {
        neighbour(from, to, &hardware(to))
    }

    /// Pulls the cable out of the switch.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn unplug(&self, party: Party) -> Result<()> {
        ip(&format!("-n {SWITCH} link set {} down", name(party)))
    }

    /// Puts it in again.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn plug(&self, party: Party) -> Result<()> {
        ip(&format!("-n {SWITCH} link set {} up", name(party)))
    }

    /// From now on so many kilobits in a second pass through the cable, each way.
    ///
    /// # Errors
    /// What `tc` says: the kernel may lack it.
    pub fn slow(&self, party: Party, kilobits: u32) -> Result<()> {
        for end in ends(party) {
            tc(&format!(
                "{end} root tbf rate {kilobits}kbit burst {SLOW_BURST} latency {SLOW_LATENCY}"
            ))?;
        }
        Ok(())
    }

    /// As much as can be passes through the cable again.
    ///
    /// # Errors
    /// What `tc` says.
    pub fn unslow(&self, party: Party) -> Result<()> {
        for end in ends(party) {
            tc(&format!("{end} root noqueue"))?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // With a namespace its ends of cables go, and with them the other ends.
        for party in self.parties().filter(|party| *party != Party::Hosts) {
            let _ = ip(&format!("netns delete {}", name(party)));
        }
        let _ = ip(&format!("netns delete {SWITCH}"));
        let _ = world::run("umount", ["/run"], None);
    }
}

/// Its address.
#[must_use]
pub fn address(party: Party) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, number(party)).into()
}

/// What a guest is called, counted from 1, and its cable.
#[must_use]
pub fn guest_name(guest: u8) -> String {
    format!("g{guest}")
}

/// A guest's address.
#[must_use]
pub fn guest_address(guest: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, GUESTS + guest).into()
}

/// A guest's hardware address.
#[must_use]
pub fn guest_hardware(guest: u8) -> String {
    format!("02:00:00:00:00:{:02x}", GUESTS + guest)
}

fn number(party: Party) -> u8 {
    match party {
        Party::Machine(place) => u8::try_from(place + 1).expect("there are few machines"),
        Party::Hosts => HOSTS,
    }
}

fn name(party: Party) -> String {
    match party {
        Party::Machine(place) => format!("m{}", place + 1),
        Party::Hosts => "hosts".to_owned(),
    }
}

/// The option by which `ip` and `tc` do something there: the hosts are here.
fn own(party: Party) -> String {
    match party {
        Party::Machine(_) => format!("-n {}", name(party)),
        Party::Hosts => String::new(),
    }
}

fn hardware(party: Party) -> String {
    format!("02:00:00:00:00:{:02x}", number(party))
}

fn neighbour(from: Party, to: Party, hardware: &str) -> Result<()> {
    let (own, address) = (own(from), address(to));
    ip(&format!(
        "{own} neighbour replace {address} lladdr {hardware} nud permanent dev {CABLE}"
    ))
}

/// Both ends of a cable, as `tc` is told.
fn ends(party: Party) -> [String; 2] {
    [
        format!("{} qdisc replace dev {CABLE}", own(party)),
        format!("-n {SWITCH} qdisc replace dev {}", name(party)),
    ]
}

fn ip(arguments: &str) -> Result<()> {
    world::run("ip", arguments.split_whitespace(), None)
}

fn tc(arguments: &str) -> Result<()> {
    world::run("tc", arguments.split_whitespace(), None)
}
