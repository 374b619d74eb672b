//! SIGKILL at any moment: what was answered is there.
//!
//! The test starts itself as a process of its own, which writes and tells what was answered, and
//! kills it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use holdfast_metadata::Store;
use holdfast_metadata::suite::User;
use holdfast_model::metadata::{Revision, Selector, WatchEvent};
use holdfast_stdx::Prng;

use crate::common::{LIMITS, open};

const FOLDER: &str = "HOLDFAST_TEST_FOLDER";

/// Not a test by itself: the process that is killed. Counts "/counter/0" to "/counter/3" up, and
/// prints each number whose put was answered.
#[tokio::test]
#[ignore = "is started by the test below"]
async fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        panic!("the test below starts this one");
    };
    let store = open(Path::new(&folder));
    let counters = (0..4).map(|counter| {
        let mut user = User::new(store.session());
        async move {
            let key = format!("/counter/{counter}");
            let found = user.find(&key).await;
            let mut count = found.map_or(0, |found| number(&found.value));
            loop {
                count += 1;
                let revision = user.put(&key, &count.to_string()).await;
                let mut output = std::io::stdout().lock();
                writeln!(output, "answered {counter} {count} {}", revision.0).unwrap();
                output.flush().unwrap();
            }
        }
    });
    counters
        .collect::<tokio::task::JoinSet<()>>()
        .join_all()
        .await;
}

fn number(text: &[u8]) -> u64 {
    str::from_utf8(text).unwrap().parse().unwrap()
}

/// Runs the writer for `lifetime`, kills it, and returns the highest count answered of each counter
/// and the highest revision told.
fn run_and_kill(folder: &Path, lifetime: Duration) -> ([u64; 4], u64) {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "power::writes_until_it_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(lifetime);
        writer.kill().unwrap();
        writer.wait().unwrap()
    });
    let mut answered = [0; 4];
    let mut revision = 0;
    for line in output.lines() {
        let line = line.unwrap();
        let mut words = line
            .split(' ')
            .skip_while(|word| !word.ends_with("answered"));
        let Some(_) = words.next() else { continue };
        let mut next = || words.next()?.parse::<u64>().ok();
        // The last line may have been cut.
        let (Some(counter), Some(count), Some(at)) = (next(), next(), next()) else {
            continue;
        };
        answered[counter as usize] = answered[counter as usize].max(count);
        revision = revision.max(at);
    }
    let status = killer.join().unwrap();
    assert!(!status.success(), "the writer ends by the kill only");
    (answered, revision)
}

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut prng = Prng::from_seed(5);
    let mut highest = [0_u64; 4];
    for _ in 0..6 {
        let lifetime = Duration::from_millis(prng.between(150, 700));
        let (answered, revision) = run_and_kill(folder.path(), lifetime);
        let store = open(folder.path());
        let mut user = User::new(store.session());
        let (now, found) = user.range(Selector::Prefix("/counter/".to_owned())).await;
        assert!(now.0 >= revision, "the revision never goes back");
        for (counter, count) in answered.iter().enumerate() {
            let key = format!("/counter/{counter}");
            let stored = found.iter().find(|one| one.key == key);
            let stored_count = stored.map_or(0, |one| number(&one.value));
            // One more may have been on its way; and a round too short to answer has told nothing.
            assert!(
                stored_count >= *count,
                "{key} was {count}, and is {stored_count}"
            );
            let highest = highest[counter].max(*count);
            assert!(
                stored_count <= highest + 1,
                "{key} is what was put: {stored_count}"
            );
        }
        let from = Revision(
            (now.0 + 1)
                .saturating_sub(LIMITS.revisions_max as u64)
                .max(2),
        );
        let watch = user.watch(Selector::Prefix(String::new()), from);
        let events = user.events(watch, now).await;
        let revisions: Vec<_> = events
            .iter()
            .map(|event| match event {
                WatchEvent::Put(new) => new.mod_revision.0,
                WatchEvent::Delete { mod_revision, .. } => mod_revision.0,
            })
            .collect();
        assert_eq!(
            revisions,
            (from.0..=now.0).collect::<Vec<_>>(),
            "the history has no gap"
        );
        for (counter, one) in highest.iter_mut().enumerate() {
            let key = format!("/counter/{counter}");
            *one = found
                .iter()
                .find(|one| one.key == key)
                .map_or(0, |one| number(&one.value));
        }
        store.close().unwrap();
    }
    assert!(
        highest.iter().sum::<u64>() > 20,
        "the writers got something done: {highest:?}"
    );
}
