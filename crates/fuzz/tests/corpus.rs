//! What was found before, and what real hosts say, once more.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use holdfast_fuzz::{TARGETS, Target};

/// Files of one target's corpus, and bytes of all together: they are kept beside the code.
const FILES_MAX: usize = 500;
const BYTES_MAX: u64 = 3 << 19;

#[test]
fn what_is_kept_is_there_and_small() {
    let mut bytes = 0;
    for target in TARGETS {
        let files = fs::read_dir(target.corpus()).unwrap();
        let sizes: Vec<u64> = files
            .map(|it| it.unwrap().metadata().unwrap().len())
            .collect();
        assert!(!sizes.is_empty(), "{} has a corpus", target.name);
        assert!(
            sizes.len() <= FILES_MAX,
            "{}: {} files",
            target.name,
            sizes.len()
        );
        bytes += sizes.iter().sum::<u64>();
    }
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

fn replay(name: &str) {
    let target = Target::find(name).unwrap();
    for seed in (target.seeds)() {
        (target.run)(&seed);
    }
    let files = fs::read_dir(target.corpus()).unwrap();
    let mut paths: Vec<_> = files.map(|it| it.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let input = fs::read(&path).unwrap();
        if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
            panic!("cargo run -p holdfast-fuzz -- {name} {}", path.display());
        }
    }
}

macro_rules! replay {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )+

        #[test]
        fn every_target_is_replayed() {
            let named = [$(stringify!($name)),+];
            let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, named);
        }
    };
}

replay!(pdu negotiation cdb reservation connection initiator wire);
