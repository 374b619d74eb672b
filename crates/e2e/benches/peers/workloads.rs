//! The loads that are measured, and what each must show beside which peer.

use crate::contestants::{CACHED, CEPH, DIRECT, DSYNC, DURABLE, HOLDFAST, MEDIA};
use crate::report::Figure;

/// A load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// By which it is named on the command line.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) what: &'static str,
    pub(crate) bytes: u32,
    /// Of 100.
    pub(crate) reads: u64,
    pub(crate) sequential: bool,
    pub(crate) depth: usize,
    pub(crate) aims: &'static [Aim],
}

/// What is wanted of the ratio of a figure of ours to the same of a peer's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    /// Which contestant of ours.
    pub(crate) ours: &'static str,
    pub(crate) figure: Figure,
    pub(crate) peer: &'static str,
    /// At most that, where less is better; at least that, where more is.
    pub(crate) bound: f64,
}

const fn aim(figure: Figure, peer: &'static str, bound: f64) -> Aim {
    Aim {
        ours: HOLDFAST,
        figure,
        peer,
        bound,
    }
}

/// Those that are measured only where they are named: what is read ahead shows only where little is in memory (`--cache`).
pub(crate) const ON_DEMAND: [&str; 2] = ["read-32k-1", "read-64k-1"];

/// In this order.
pub(crate) const WORKLOADS: [Workload; 11] = [
    Workload {
        name: "read-4k-1",
        what: "4 KiB random read, queue depth 1",
        bytes: 4 << 10,
        reads: 100,
        sequential: false,
        depth: 1,
        aims: &[
            aim(Figure::Median, CACHED, 1.0),
            aim(Figure::Rate, CEPH, 4.0),
        ],
    },
    Workload {
        name: "read-4k-32",
        what: "4 KiB random read, queue depth 32",
        bytes: 4 << 10,
        reads: 100,
        sequential: false,
        depth: 32,
        aims: &[
            aim(Figure::Rate, CACHED, 1.15),
            aim(Figure::ServerTime, CACHED, 0.6),
            aim(Figure::Rate, CEPH, 4.0),
        ],
    },
    Workload {
        name: "write-4k-1",
        what: "4 KiB random write, queue depth 1",
        bytes: 4 << 10,
        reads: 0,
        sequential: false,
        depth: 1,
        aims: &[
            aim(Figure::Median, DURABLE, 1.5),
            aim(Figure::Rate, CEPH, 10.0),
        ],
    },
    Workload {
        name: "write-4k-32",
        what: "4 KiB random write, queue depth 32",
        bytes: 4 << 10,
        reads: 0,
        sequential: false,
        depth: 32,
        aims: &[
            aim(Figure::Rate, DURABLE, 1.0),
            aim(Figure::ServerTime, DURABLE, 1.0),
            aim(Figure::Rate, CEPH, 10.0),
        ],
    },
    Workload {
        name: "oltp-8k-32",
        what: "8 KiB random, 80 % reads, queue depth 32",
        bytes: 8 << 10,
        reads: 80,
        sequential: false,
        depth: 32,
        aims: &[aim(Figure::Rate, DURABLE, 1.0)],
    },
    Workload {
        name: "mixed-4k-32",
        what: "4 KiB random, 70 % reads, queue depth 32",
        bytes: 4 << 10,
        reads: 70,
        sequential: false,
        depth: 32,
        aims: &[],
    },
    Workload {
        name: "mixed-64k-16",
        what: "64 KiB random, 70 % reads, queue depth 16",
        bytes: 64 << 10,
        reads: 70,
        sequential: false,
        depth: 16,
        aims: &[aim(Figure::Rate, DURABLE, 0.9)],
    },
    Workload {
        name: "read-256k-8",
        what: "256 KiB sequential read, queue depth 8",
        bytes: 256 << 10,
        reads: 100,
        sequential: true,
        depth: 8,
        aims: &[
            Aim {
                ours: MEDIA,
                ..aim(Figure::Rate, DIRECT, 0.9)
            },
            aim(Figure::Megabytes, CEPH, 1.5),
        ],
    },
    Workload {
        name: "read-32k-1",
        what: "32 KiB sequential read, queue depth 1",
        bytes: 32 << 10,
        reads: 100,
        sequential: true,
        depth: 1,
        aims: &[],
    },
    Workload {
        name: "read-64k-1",
        what: "64 KiB sequential read, queue depth 1",
        bytes: 64 << 10,
        reads: 100,
        sequential: true,
        depth: 1,
        aims: &[],
    },
    Workload {
        name: "write-256k-8",
        what: "256 KiB sequential write, queue depth 8",
        bytes: 256 << 10,
        reads: 0,
        sequential: true,
        depth: 8,
        aims: &[
            aim(Figure::Rate, DURABLE, 0.8),
            // Two copies on one disk.
            aim(Figure::Rate, DSYNC, 0.5),
            aim(Figure::Megabytes, CEPH, 1.5),
        ],
    },
];
