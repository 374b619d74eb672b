//! What the tests of the disk drivers share: both drivers, and a way to wait for completions.
#![allow(unreachable_pub, reason = "shared by the tests")]
#![allow(clippy::print_stdout, reason = "tests say what they could not do")]

use std::time::Duration;

use holdfast_disk::{DeviceSpec, Disks, Driver, DriverChoice, Options};
use holdfast_model::{DiskCompletion, DiskError, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::Bytes;

/// Longer than any operation here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options for each driver: tests run over all of them.
pub fn drivers() -> Vec<Options> {
    let with = |driver| Options {
        driver,
        ..Options::default()
    };
    let mut drivers = vec![with(DriverChoice::Threads)];
    match Disks::open(&[], with(DriverChoice::Ring)) {
        Ok(disks) => {
            assert_eq!(disks.driver(), Driver::Ring);
            drivers.push(with(DriverChoice::Ring));
        }
        Err(error) => println!("io_uring is refused here, only threads are tested: {error}"),
    }
    drivers
}

/// Runs a test in the runtime that nodes use, once for each driver.
pub fn for_each_driver(test: impl AsyncFn(Options)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    for options in drivers() {
        println!("driver: {:?}", options.driver);
        runtime.block_on(test(options));
    }
}

/// Some disks with a count of tokens.
pub struct Harness {
    pub disks: Disks,
    next: u64,
}

impl Harness {
    pub fn open(specs: &[DeviceSpec], options: Options) -> Self {
        Self {
            disks: Disks::open(specs, options).expect("the devices open"),
            next: 1,
        }
    }

    /// Submits an operation on the first disk.
    pub fn submit(&mut self, op: DiskOp) -> DiskToken {
        let token = DiskToken(self.next);
        self.next += 1;
        self.disks.submit(DiskRequest {
            token,
            disk: DiskId(0),
            op,
        });
        token
    }

    /// Everything that is outstanding.
    pub async fn finish(&mut self) -> Vec<DiskCompletion> {
        let mut done = Vec::new();
        while self.disks.outstanding() > 0 {
            tokio::time::timeout(PATIENCE, self.disks.completions(&mut done))
                .await
                .expect("operations end");
        }
        done
    }

    /// Does one operation.
    pub async fn run(&mut self, op: DiskOp) -> Result<Bytes, DiskError> {
        let token = self.submit(op);
        let mut done = self.finish().await;
        assert_eq!(done.len(), 1, "one request, one completion");
        let completion = done.remove(0);
        assert_eq!(completion.token, token);
        completion.result
    }

    pub async fn read(&mut self, offset: u64, length: u32) -> Bytes {
        self.run(DiskOp::Read { offset, length })
            .await
            .expect("the read succeeds")
    }
}

/// A durable write of one part.
pub fn write(offset: u64, bytes: Vec<u8>) -> DiskOp {
    DiskOp::Write {
        offset,
        parts: vec![Bytes::from(bytes)],
        durable: true,
    }
}

/// `length` bytes that differ by position and seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    holdfast_stdx::Prng::from_seed(seed).fill(&mut bytes);
    bytes
}
