//! Two guests with PostgreSQL on one shared volume, one of them active: the other one takes over, keeps the first
//! out by persistent reservations as Pacemaker's `fence_scsi` does (a key for each host on each path, WRITE
//! EXCLUSIVE – REGISTRANTS ONLY, PREEMPT AND ABORT), and goes on with everything that was committed.
//!
//! It refuses to be a cluster manager: nothing decides here that a host is lost, so what is measured begins with the
//! decision.
//!
//! The first time the active guest stands still, and wakes up when all is over: what it writes then must be refused.
//! The second time it is switched off. At the end `fence_scsi` itself keeps a host out.

use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::image::Image;
use super::initiator::{self, Disk, Map, Settings};
use super::machine::Guest;
use super::steps::Steps;
use super::tgt;
use crate::machines::Machines;
use crate::network::{Network, guest_address};

/// Bytes of the volume, and of the file system at its beginning. Behind that is a block by which it is known when a
/// host can write.
const VOLUME_BYTES: u64 = 2 << 30;
const FILE_SYSTEM_MIB: u64 = 1024;
const BLOCK_BYTES: u64 = 4096;
const BLOCK: u64 = (FILE_SYSTEM_MIB << 20) / BLOCK_BYTES;
/// Rows that the client adds one after another, each a transaction: more than it gets done.
const ROWS: usize = 20_000;
/// How long it does so before the active guest is lost.
const BEFORE: Duration = Duration::from_secs(15);
/// How long a database may take to be made, or to recover: an emulated processor is slow.
const DATABASE_PATIENCE: Duration = Duration::from_secs(300);
/// How long a late write may take to be refused.
const LATE_PATIENCE: Duration = Duration::from_secs(120);
/// The script that sets PostgreSQL's surroundings in a guest.
const SURROUNDINGS: &str = "\
    bin=$(echo /usr/lib/postgresql/*/bin)\n\
    data=/srv/data\n\
    as() { runuser -u postgres -- \"$@\"; }\n\
    sql() { as $bin/psql --no-psqlrc -h /run/postgres -d postgres -tAqc \"$1\"; }\n";
/// How a host that is lost is kept out, in sg_persist's words.
const PREEMPT: &str = "--preempt-abort";
/// Where PostgreSQL has its socket and its log, which are the guest's own.
const RUN: &str = "/run/postgres";
/// The rest of its configuration is as it comes.
const CONFIGURATION: &str = "\
listen_addresses = '*'
unix_socket_directories = '/run/postgres'
shared_buffers = 32MB
logging_collector = off
";

/// What both hosts share.
#[derive(Debug)]
struct Storage {
    target: String,
    portal: SocketAddr,
    paths: usize,
    /// [`PREEMPT`], or what the target has in its place.
    preempt: &'static str,
}

/// The scenario on a volume of a cluster of three nodes.
///
/// # Errors
/// A step failed.
pub fn run(machines: &mut Machines, image: &Image) -> Result<()> {
    let volume = "shared";
    machines.wait_for_nodes(0, 3)?;
    let api = machines.api(0);
    let target = super::multipath::make_volume(&api, volume, "2GiB")?;
    machines.wait_until_whole(0, volume, super::multipath::COPIES)?;
    let portals = machines.portals();
    let storage = Storage {
        target,
        portal: portals[0],
        paths: portals.len(),
        preempt: PREEMPT,
    };
    take(machines.network()?, image, machines.scratch(), &storage)
}

/// The same on tgt, for comparison.
///
/// # Errors
/// A step failed.
pub fn run_on_tgt(image: &Image) -> Result<()> {
    let storage = Storage {
        target: tgt::TARGET.to_owned(),
        portal: tgt::portal(0),
        paths: 1,
        // It has no PREEMPT AND ABORT (1.0.85): what it had begun of the lost host's commands may still be done.
        preempt: "--preempt",
    };
    tgt::on_tgt(VOLUME_BYTES, 1, |network, scratch| {
        take(network, image, scratch, &storage)
    })
}

fn take(network: &Network, image: &Image, scratch: &Path, storage: &Storage) -> Result<()> {
    let mut steps = Steps::default();
    let result = pair(network, image, scratch, storage, &mut steps);
    let finished = steps.finish();
    result.and(finished)
}

fn pair(
    network: &Network,
    image: &Image,
    scratch: &Path,
    storage: &Storage,
    steps: &mut Steps,
) -> Result<()> {
    network.connect_guest(1)?;
    network.connect_guest(2)?;
    let begin = |number| Guest::begin(network, image, number, scratch);
    let (mut first, mut second) = (begin(1)?, begin(2)?);
    first.wait_until_ready()?;
    second.wait_until_ready()?;
    let mut one = Member::join(first, storage)?;
    let mut two = Member::join(second, storage)?;
    const STOP: &str = "the steps after this one need it";
    let made = steps.take("the first host is active", || one.begin());
    made.context(STOP)?;
    steps
        .take("the second host is registered", || two.register())
        .context(STOP)?;
    let rows = steps.take("the active host is frozen, the other takes over", || {
        let rows = load(&mut two, &one)?;
        let lost = Instant::now();
        one.guest.freeze()?;
        let told = two.take_over(&one, lost, rows)?;
        Ok((rows, told))
    });
    one.guest.thaw()?;
    let rows = rows.context(STOP)?;
    steps.take("late writes of the first are refused", || {
        one.write_late(&mut two, rows)
    });
    drop(one);
    let mut one = Member::join(Guest::start(network, image, 1, scratch)?, storage)?;
    steps
        .take("the first host is back, and registered", || one.register())
        .context(STOP)?;
    let over = steps.take(
        "the active host is switched off, the other takes over",
        || {
            let rows = load(&mut one, &two)?;
            let lost = Instant::now();
            two.guest.kill()?;
            let told = one.take_over(&two, lost, rows)?;
            Ok(((), told))
        },
    );
    over.context(STOP)?;
    drop(two);
    let mut two = Member::join(Guest::start(network, image, 2, scratch)?, storage)?;
    steps.take("fence_scsi", || fence(&mut one, &mut two));
    Ok(())
}

/// The agent that Pacemaker calls: it lets both hosts in, and then keeps the second one out.
fn fence(one: &mut Member, two: &mut Member) -> Result<((), String)> {
    let device = one.map.device();
    let agent = |action: &str, of: &Member| {
        let key = of.key();
        let key = key.trim_start_matches("0x");
        format!("fence_scsi --action={action} --key={key} --devices={device}")
    };
    let (let_in, let_in_too) = (agent("on", one), agent("on", two));
    one.guest.run(&let_in)?;
    two.guest.run(&let_in_too)?;
    one.write_block()?;
    two.write_block()?;
    if one.preempt != PREEMPT {
        return Ok((
            (),
            "both are let in; the target has not what keeps one out".to_owned(),
        ));
    }
    let keep_out = agent("off", two);
    let begun = Instant::now();
    one.guest.run(&keep_out)?;
    let took = begun.elapsed();
    let put_block = two.put_block();
    let late = two.guest.ask(&put_block, LATE_PATIENCE)?;
    ensure!(late.code != 0, "who is kept out has written");
    one.write_block()?;
    ensure!(
        one.read_block()? == one.key(),
        "the block is another host's"
    );
    Ok((
        (),
        format!("both are let in; one is kept out after {took:.1?}"),
    ))
}

/// The client in one host adds rows at the other one for a while. Gives how many it was told are committed when
/// that host is about to be lost.
fn load(client: &mut Member, server: &Member) -> Result<usize> {
    let address = guest_address(server.guest.number());
    let script = format!(
        "{SURROUNDINGS}\
         row() {{ seq {ROWS} | sed 's/.*/insert into row values (&);/'; }}\n\
         row | as $bin/psql --no-psqlrc -h {address} -d postgres -v ON_ERROR_STOP=1"
    );
    // What earlier ones have added is in the way of none of these.
    client.guest.run(&format!(
        "{SURROUNDINGS}as $bin/psql --no-psqlrc -h {address} -d postgres -qc 'truncate row'"
    ))?;
    client.guest.start_job("client", &script)?;
    sleep(BEFORE);
    let committed = client.committed()?;
    ensure!(committed > 0, "no row was committed before the loss");
    Ok(committed)
}

/// A host of the pair.
struct Member {
    guest: Guest,
    map: Map,
    disks: Vec<Disk>,
    preempt: &'static str,
}

impl Member {
    /// A guest that has logged in.
    fn join(mut guest: Guest, storage: &Storage) -> Result<Self> {
        // One path is enough for a map here, so that both kinds of storage are used in the same way.
        let more = "defaults {\n\tfind_multipaths greedy\n}\n";
        initiator::set_up(&mut guest, Settings::Recommended, more)?;
        guest.run(&format!("install -d -o postgres -g postgres {RUN}"))?;
        initiator::discover(&mut guest, storage.portal)?;
        initiator::log_in(&mut guest, &storage.target)?;
        let map = initiator::one_map(&mut guest, storage.paths)?;
        let disks = initiator::disks(&mut guest, &storage.target)?;
        Ok(Self {
            guest,
            map,
            disks,
            preempt: storage.preempt,
        })
    }

    fn key(&self) -> String {
        format!("0x5eed000{}", self.guest.number())
    }

    /// Registers the host's key on each path, whatever was registered there.
    fn register(&mut self) -> Result<((), String)> {
        let key = self.key();
        for disk in &self.disks {
            self.guest.run(&format!(
                "sg_persist --no-inquiry --out --register-ignore --param-sark={key} /dev/{}",
                disk.device
            ))?;
        }
        Ok(((), format!("{key} on {} paths", self.disks.len())))
    }

    /// Registers, reserves, and makes a database.
    fn begin(&mut self) -> Result<((), String)> {
        self.register()?;
        let (key, path, device) = (self.key(), &self.disks[0].device, self.map.device());
        self.guest.run(&format!(
            "sg_persist --no-inquiry --out --reserve --param-rk={key} --prout-type=5 /dev/{path}"
        ))?;
        let blocks = BLOCK;
        self.guest.run_for(
            &format!(
                "set -e\n{SURROUNDINGS}\
                 mkfs.ext4 -q -F -b {BLOCK_BYTES} {device} {blocks}\n\
                 mount {device} /srv\n\
                 install -d -o postgres -g postgres -m 700 $data\n\
                 as $bin/initdb --no-sync --auth=trust --locale=C --encoding=UTF8 -D $data >{RUN}/initdb.log\n\
                 cat >>$data/postgresql.conf <<'end'\n{CONFIGURATION}end\n\
                 echo 'host all all 10.77.0.0/24 trust' >>$data/pg_hba.conf\n\
                 sync\n\
                 as $bin/pg_ctl -D $data -l {RUN}/postgres.log -w -t 120 start\n\
                 sql 'create table row (number integer primary key)'"
            ),
            DATABASE_PATIENCE,
        )?;
        self.write_block()?;
        Ok(((), format!("{key} holds the reservation, PostgreSQL runs")))
    }

    /// Writes the block behind the file system, with this host's key.
    fn write_block(&mut self) -> Result<()> {
        let script = self.put_block();
        self.guest.run(&script).map(drop)
    }

    fn put_block(&self) -> String {
        let (key, device) = (self.key(), self.map.device());
        format!(
            "printf '%-{BLOCK_BYTES}s' {key} >{RUN}/block\n\
             dd if={RUN}/block of={device} bs={BLOCK_BYTES} seek={BLOCK} count=1 oflag=direct conv=notrunc \
             status=none\n"
        )
    }

    /// Whose key the block behind the file system has.
    fn read_block(&mut self) -> Result<String> {
        let device = self.map.device();
        let told = self.guest.run(&format!(
            "dd if={device} bs={BLOCK_BYTES} skip={BLOCK} count=1 iflag=direct status=none"
        ))?;
        Ok(told.trim().to_owned())
    }

    /// Rows that the client was told are committed.
    fn committed(&mut self) -> Result<usize> {
        let told = self
            .guest
            .run("grep -c '^INSERT 0 1$' /run/jobs/client.output || true")?;
        told.trim().parse().context("count the rows")
    }

    /// Takes over from a host that was lost at `lost`, when `rows` rows were known to be committed.
    fn take_over(&mut self, other: &Self, lost: Instant, rows: usize) -> Result<String> {
        let (key, victim) = (self.key(), other.key());
        let (path, device) = (&self.disks[0].device, self.map.device());
        let (put_block, preempt) = (self.put_block(), self.preempt);
        let told = self.guest.run_for(
            &format!(
                "set -e\n{SURROUNDINGS}\
                 begun=${{EPOCHREALTIME/.}}\n\
                 mark() {{ echo \"$1 $(( (${{EPOCHREALTIME/.}} - begun) / 1000 ))\"; }}\n\
                 sg_persist --no-inquiry --out {preempt} --param-rk={key} --param-sark={victim} \
                 --prout-type=5 /dev/{path}\n\
                 mark 'preempted'\n\
                 {put_block}\
                 mark 'first write'\n\
                 mount {device} /srv\n\
                 mark 'mounted'\n\
                 rm -f $data/postmaster.pid\n\
                 as $bin/pg_ctl -D $data -l {RUN}/postgres.log -w -t 240 start >/dev/null\n\
                 mark 'PostgreSQL serves'\n\
                 sql 'insert into row values (-1)'\n\
                 mark 'first commit'\n"
            ),
            DATABASE_PATIENCE,
        )?;
        let whole = lost.elapsed();
        // What the client was told just before the loss counts too.
        self.guest.run("pkill -x psql; true")?;
        let committed = self.committed()?;
        ensure!(committed >= rows, "{committed} rows were {rows} before");
        self.check_rows(committed)?;
        self.guest.run(&format!(
            "{SURROUNDINGS}sql 'delete from row where number < 0'"
        ))?;
        let marks: Vec<String> = told.lines().map(|line| format!("{line} ms")).collect();
        ensure!(marks.len() == 5, "{told} should be five marks");
        Ok(format!(
            "{}; {whole:.2?} from the loss until this was known here; {committed} rows were committed, and are there",
            marks.join(", ")
        ))
    }

    /// Everything that the client was told is committed is there, and of the rest at most what it waited for.
    fn check_rows(&mut self, committed: usize) -> Result<()> {
        let told = self.guest.run(&format!(
            "{SURROUNDINGS}\
             sql 'select count(*) from row where number between 1 and {committed}'\n\
             sql 'select count(*) from row where number > {committed}'"
        ))?;
        let counts: Vec<usize> = told.lines().filter_map(|line| line.parse().ok()).collect();
        let [there, more] = counts[..] else {
            bail!("{told} should be two counts");
        };
        ensure!(
            there == committed,
            "{committed} rows were committed, {there} are there"
        );
        ensure!(more <= 1, "{more} rows are there that nobody was told of");
        Ok(())
    }

    /// This host wakes up, and others are active: neither it nor its database writes anything any more.
    fn write_late(&mut self, active: &mut Self, rows: usize) -> Result<((), String)> {
        let put_block = self.put_block();
        let late = self.guest.ask(&put_block, LATE_PATIENCE)?;
        ensure!(late.code != 0, "a late write to the volume was not refused");
        let insert = format!("{SURROUNDINGS}sql 'insert into row values (-2)'");
        let inserted = self.guest.ask(&insert, LATE_PATIENCE)?;
        ensure!(inserted.code != 0, "a late transaction was committed");
        let conflicts = self
            .guest
            .run("dmesg | grep -c 'reservation conflict' || true")?;
        let block = active.read_block()?;
        ensure!(block == active.key(), "the block has {block:?}");
        let told = active.guest.run(&format!(
            "{SURROUNDINGS}sql 'select count(*) from row where number = -2'\n\
             sql 'select count(*) from row'"
        ))?;
        let counts: Vec<usize> = told.lines().filter_map(|line| line.parse().ok()).collect();
        let [late_rows, all] = counts[..] else {
            bail!("{told} should be two counts");
        };
        ensure!(late_rows == 0, "a late row is there");
        ensure!(all >= rows, "{rows} rows were there, now {all}");
        active.write_block()?;
        active.guest.run(&format!("{SURROUNDINGS}sql checkpoint"))?;
        let last = |answer: &str| answer.trim().lines().last().unwrap_or_default().to_owned();
        Ok((
            (),
            format!(
                "{:?}, {:?}; the kernel told of {} conflicts",
                last(&late.output),
                last(&inserted.output),
                conflicts.trim()
            ),
        ))
    }
}
