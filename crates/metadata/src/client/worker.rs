//! The client's task: keeps a connection, and the ledger with it.

use holdfast_model::metadata::{MetadataRequest, MetadataToken};
use holdfast_stdx::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use super::ledger::{Ledger, Told};
use super::way::{Connect, Connection, Heard};
use super::{ConnectError, Status};

/// How often the server is asked for a sign of life.
const PING_INTERVAL: Duration = Duration::from_millis(500);
/// After so many intervals without any sign the connection is given up. Counted in intervals, not
/// in time: a process that was stopped for a while first looks at what has come meanwhile.
const SILENT_INTERVALS_MAX: u32 = 6;
/// The pauses between attempts to connect: the first is short, because a store that was started
/// again is back in moments; the longest keeps a cluster's return from waiting for us.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The session is over: nobody asks any more, or nobody listens.
struct Ended;

struct Worker<C> {
    connector: C,
    addresses: Vec<String>,
    ledger: Ledger,
    waiting: mpsc::Receiver<(MetadataToken, MetadataRequest)>,
    told: mpsc::Sender<Told>,
    status: watch::Sender<Status>,
}

pub(super) async fn run<C: Connect>(
    connector: C,
    addresses: Vec<String>,
    waiting: mpsc::Receiver<(MetadataToken, MetadataRequest)>,
    told: mpsc::Sender<Told>,
    status: watch::Sender<Status>,
) {
    let mut worker = Worker {
        connector,
        addresses,
        ledger: Ledger::new(C::IN_ORDER),
        waiting,
        told,
        status,
    };
    let Err(Ended) = worker.work().await;
}

impl<C: Connect> Worker<C> {
    async fn work(&mut self) -> Result<std::convert::Infallible, Ended> {
        let mut pause = PAUSE_MIN;
        for attempt in 0.. {
            let address = self.addresses[attempt % self.addresses.len()].clone();
            let connector = self.connector.clone();
            let opened = self.meanwhile(connector.open(&address)).await?;
            let reason = match opened {
                Ok(connection) => {
                    pause = PAUSE_MIN;
                    self.status.send_replace(Status::Connected {
                        address: address.clone(),
                        is_full: false,
                    });
                    let ended = self.ledger.connect(Instant::now(), connection.origin());
                    self.tell(ended).await?;
                    let reason = self.converse(connection).await?;
                    let unknown = self.ledger.disconnect();
                    self.tell(unknown).await?;
                    reason
                }
                Err(reason) => reason,
            };
            self.status.send_replace(Status::Disconnected {
                address,
                reason: reason.into(),
            });
            self.meanwhile(tokio::time::sleep(pause)).await?;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        unreachable!("attempts do not run out")
    }

    /// Takes requests, and answers those that waited for too long, until `future` is done.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(future);
        loop {
            let expiry = self.ledger.next_expiry();
            tokio::select! {
                done = &mut future => return Ok(done),
                asked = self.waiting.recv() => self.asked(asked).await?,
                () = at(expiry) => self.expire().await?,
            }
        }
    }

    /// Speaks with the server until that ends; tells why.
    async fn converse(&mut self, mut connection: C::Connection) -> Result<ConnectError, Ended> {
        let mut silent_intervals = 0;
        let mut ping = tokio::time::interval(PING_INTERVAL);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(frame) = self.ledger.next_frame(Instant::now()) {
                connection.send(frame);
            }
            let expiry = self.ledger.next_expiry();
            tokio::select! {
                heard = connection.receive() => match heard {
                    Ok(Heard::Answer((token, answer))) => {
                        silent_intervals = 0;
                        let told = self.ledger.answered(Instant::now(), token, answer);
                        self.tell(told).await?;
                    }
                    // No sign of life: it comes from one member's memory.
                    Ok(Heard::Full(is_full)) => self.fill(is_full),
                    Err(reason) => return Ok(reason),
                },
                asked = self.waiting.recv() => self.asked(asked).await?,
                () = at(expiry) => self.expire().await?,
                _ = ping.tick() => {
                    silent_intervals += 1;
                    if silent_intervals > SILENT_INTERVALS_MAX {
                        return Ok(ConnectError::TooSlow);
                    }
                    self.ledger.ping();
                }
            }
        }
    }

    /// Tells whether the store is full, when that changes.
    fn fill(&self, now: bool) {
        self.status.send_if_modified(|status| match status {
            Status::Connected { is_full, .. } => std::mem::replace(is_full, now) != now,
            _ => false,
        });
    }

    async fn asked(
        &mut self,
        asked: Option<(MetadataToken, MetadataRequest)>,
    ) -> Result<(), Ended> {
        let (token, request) = asked.ok_or(Ended)?;
        let told = self.ledger.ask(Instant::now(), token, request);
        self.tell(told).await
    }

    async fn expire(&mut self) -> Result<(), Ended> {
        let late = self.ledger.expire(Instant::now());
        self.tell(late).await
    }

    /// Waits for a reader that is behind: the server's own limits end the connection if that takes
    /// too long, and the watches go on where they were.
    async fn tell(&self, told: impl IntoIterator<Item = Told>) -> Result<(), Ended> {
        for one in told {
            self.told.send(one).await.map_err(|_| Ended)?;
        }
        Ok(())
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
