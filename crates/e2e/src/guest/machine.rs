//! One guest: its processor, its cable, its console, and commands to it.
//!
//! Invariants:
//! - when a [`Guest`] is dropped its machine is gone;
//! - a command that is not answered fails; the end of the console is told with it.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::agent::{Agent, Answer};
use super::image::Image;
use crate::network::{self, Network};
use crate::process::{signal, wait_until};

/// How long a guest may take to begin; some 15 seconds are usual, beside builds more.
const BOOT_PATIENCE: Duration = Duration::from_secs(240);
/// How long a command may take that says nothing else.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Mebibytes of memory that a guest has.
const MEMORY_MIB: u32 = 768;
/// What the kernel is told. Nothing that it does against attacks is of use here, and all of it is slow.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 \
                            random.trust_cpu=on no_timer_check audit=0";
/// The port that the guest finds by this name.
const AGENT_PORT: &str = "holdfast.agent";
/// Lines of the console that are told when something has failed.
const CONSOLE_LINES: usize = 30;
/// Where a guest keeps what its jobs print, and their exit codes.
const JOBS: &str = "/run/jobs";

/// A guest that runs.
#[derive(Debug)]
pub struct Guest {
    number: u8,
    machine: Child,
    agent: Option<Agent>,
    directory: PathBuf,
    boot: Duration,
}

impl Guest {
    /// Starts guest `number`, counted from 1, which [has its cable](Network::connect_guest), and waits until it
    /// takes commands. What belongs to it is in a directory of its own in `scratch`.
    ///
    /// # Errors
    /// QEMU is missing (`make setup-guest`), or the guest does not begin.
    pub fn start(network: &Network, image: &Image, number: u8, scratch: &Path) -> Result<Self> {
        let mut guest = Self::begin(network, image, number, scratch)?;
        guest.wait_until_ready()?;
        Ok(guest)
    }

    /// Starts a guest, and does not wait for it.
    ///
    /// # Errors
    /// QEMU is missing.
    pub fn begin(network: &Network, image: &Image, number: u8, scratch: &Path) -> Result<Self> {
        let directory = scratch.join(network::guest_name(number));
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir(&directory)?;
        let log = File::create(directory.join("qemu.log"))?;
        let mut command = network.command_at_switch(Path::new("qemu-system-x86_64"));
        command
            .args(arguments(image, number, &directory))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        Ok(Self {
            number,
            machine: command.spawn().context("start a guest's machine")?,
            agent: None,
            directory,
            boot: Duration::ZERO,
        })
    }

    /// Waits until a guest that was begun takes commands.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        let socket = self.directory.join("agent");
        let mut stream = None;
        wait_until("the guest's machine runs", PATIENCE, || {
            if let Some(status) = self.machine.try_wait()? {
                let said = fs::read_to_string(self.directory.join("qemu.log"));
                bail!("QEMU ended with {status}: {}", said.unwrap_or_default());
            }
            stream = UnixStream::connect(&socket).ok();
            Ok(stream.is_some())
        })?;
        let stream = stream.context("it was connected")?;
        let agent = Agent::connect(stream, BOOT_PATIENCE);
        self.agent = Some(agent.with_context(|| self.console())?);
        self.boot = begun.elapsed();
        Ok(())
    }

    /// How long it took to take commands.
    #[must_use]
    pub const fn boot(&self) -> Duration {
        self.boot
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> String {
        network::guest_name(self.number)
    }

    /// Runs a script of bash that must succeed, and gives what it prints.
    ///
    /// # Errors
    /// It fails, or takes longer than [`PATIENCE`].
    pub fn run(&mut self, script: &str) -> Result<String> {
        self.run_for(script, PATIENCE)
    }

    /// The same for one that may take so long.
    ///
    /// # Errors
    /// It fails, or takes longer.
    pub fn run_for(&mut self, script: &str, patience: Duration) -> Result<String> {
        let answer = self.ask(script, patience)?;
        let (code, said) = (answer.code, answer.output.trim());
        ensure!(
            code == 0,
            "{} ended `{script}` with {code}: {said}",
            self.name()
        );
        Ok(answer.output)
    }

    /// Runs a script that may fail.
    ///
    /// # Errors
    /// The guest does not answer.
    pub fn ask(&mut self, script: &str, patience: Duration) -> Result<Answer> {
        let agent = self.agent.as_mut().context("the guest takes commands")?;
        let answer = agent.run(script, patience);
        answer.with_context(|| format!("run `{script}`; {}", self.console()))
    }

    /// Writes a file, and the directories that it is in.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, path: &str, text: &str) -> Result<()> {
        /// Not a line of any file that is written.
        const END: &str = "the-end-of-the-file";
        ensure!(!text.lines().any(|line| line == END), "{path} has {END}");
        let text = text.trim_end_matches('\n');
        let script =
            format!("mkdir -p \"$(dirname {path})\" && cat >{path} <<'{END}'\n{text}\n{END}\n");
        self.run(&script).map(drop)
    }

    /// Starts a script that goes on beside other commands, as the job of this name.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_job(&mut self, name: &str, script: &str) -> Result<()> {
        let path = format!("{JOBS}/{name}");
        self.write(&format!("{path}.script"), script)?;
        let start = format!(
            "rm -f {path}.code\n\
             setsid bash -c 'bash {path}.script >{path}.output 2>&1; echo $? >{path}.new; \
             mv {path}.new {path}.code' </dev/null >/dev/null 2>&1 &"
        );
        self.run(&start).map(drop)
    }

    /// What came of a job, if it has ended.
    ///
    /// # Errors
    /// The guest does not answer.
    pub fn job(&mut self, name: &str) -> Result<Option<Answer>> {
        let path = format!("{JOBS}/{name}");
        let script = format!("test ! -e {path}.code || cat {path}.code {path}.output");
        let told = self.run(&script)?;
        let Some((code, output)) = told.split_once('\n') else {
            return Ok(None);
        };
        let code = code.parse().context("read a job's code")?;
        let output = output.to_owned();
        Ok(Some(Answer { code, output }))
    }

    /// Waits until a job has ended, and gives what came of it.
    ///
    /// # Errors
    /// It does not end within `patience`.
    pub fn wait_for_job(&mut self, name: &str, patience: Duration) -> Result<Answer> {
        /// Each look is work for a slow processor.
        const LOOK: Duration = Duration::from_secs(1);
        let begun = Instant::now();
        loop {
            if let Some(answer) = self.job(name)? {
                return Ok(answer);
            }
            ensure!(begun.elapsed() < patience, "job {name} goes on and on");
            std::thread::sleep(LOOK);
        }
    }

    /// Its machine stands still, as one that is paused or migrated. No command before it is thawed.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self) -> Result<()> {
        signal(self.machine.id(), &self.directory, Signal::STOP)
    }

    /// Its machine goes on.
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw(&self) -> Result<()> {
        signal(self.machine.id(), &self.directory, Signal::CONT)
    }

    /// Its machine is switched off.
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(&mut self) -> Result<()> {
        ensure!(self.machine.try_wait()?.is_none(), "it has ended already");
        self.agent = None;
        self.machine.kill()?;
        self.machine.wait()?;
        Ok(())
    }

    /// The end of what its console shows.
    #[must_use]
    pub fn console(&self) -> String {
        let text = fs::read(self.directory.join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let end = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
        format!("console of {}:\n{}", self.name(), end.join("\n"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

/// What QEMU is told: a processor without hardware virtualisation, and nothing that is not used.
fn arguments(image: &Image, number: u8, directory: &Path) -> Vec<String> {
    let name = network::guest_name(number);
    let address = network::guest_address(number);
    let kernel = format!("{COMMAND_LINE} guest.name={name} guest.address={address}/24");
    let path = |path: &Path| path.display().to_string();
    let in_directory = |file: &str| path(&directory.join(file));
    let memory = MEMORY_MIB.to_string();
    let drive = format!(
        "if=none,id=root,format=raw,readonly=on,file.locking=off,file={}",
        path(&image.root)
    );
    let net = format!("tap,id=cable,ifname={name},script=no,downscript=no");
    let card = format!(
        "virtio-net-pci,netdev=cable,romfile=,mac={}",
        network::guest_hardware(number)
    );
    let chardev = format!(
        "socket,id=agent,server=on,wait=off,path={}",
        in_directory("agent")
    );
    let pairs = [
        ("-machine", "q35,accel=tcg".to_owned()),
        ("-cpu", "max,la57=off".to_owned()),
        ("-smp", "1".to_owned()),
        ("-m", memory),
        ("-display", "none".to_owned()),
        ("-serial", format!("file:{}", in_directory("console"))),
        ("-kernel", path(&image.kernel)),
        ("-initrd", path(&image.initramfs)),
        ("-append", kernel),
        ("-drive", drive),
        ("-device", "virtio-blk-pci,drive=root".to_owned()),
        ("-netdev", net),
        ("-device", card),
        ("-device", "virtio-rng-pci".to_owned()),
        ("-chardev", chardev),
        ("-device", "virtio-serial-pci".to_owned()),
        (
            "-device",
            format!("virtserialport,chardev=agent,name={AGENT_PORT}"),
        ),
    ];
    let pairs = pairs
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned);
    flags.into_iter().chain(pairs).collect()
}
