//! Replicas that come back, are interrupted, and come back again.

use holdfast_model::BLOCK_SIZE;
use holdfast_stdx::{Duration, Prng};

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);
const BLOCK: u64 = BLOCK_SIZE as u64;
/// A replica that is slow as it joins rests before it is taken again.
const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_fast_sync_that_is_interrupted_goes_on_where_it_was() {
    let mut lab = Lab::apart(2, 40);
    lab.let_copies(2, Some(30));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    assert_eq!(lab.copied_bytes(), 30 * BLOCK);
    lab.disconnect(node(1), node(2));
    lab.pass(SECOND);
    lab.write(1, 3 * 64, 1, 99);
    lab.connect(node(1), node(2));
    lab.join_fully(2);
    assert_eq!(lab.copied_bytes(), 41 * BLOCK, "the rest, and what changed");
}

/// Hosts come first, at either end.
#[test]
fn copies_wait_for_their_turn() {
    for busy in 1..=2 {
        let mut lab = Lab::apart(2, 40);
        let hold = |lab: &mut Lab, is_held| {
            let state = lab.nodes.get_mut(&node(busy)).expect("it exists");
            state.world.is_held = is_held;
        };
        hold(&mut lab, true);
        lab.start(2);
        lab.pass(LONG);
        assert!(!lab.is_in_sync(2) && lab.copied_bytes() == 0, "node {busy}");
        hold(&mut lab, false);
        lab.look_again(busy);
        lab.join_fully(2);
        assert_eq!(lab.copied_bytes(), 40 * BLOCK);
    }
}

#[test]
fn a_joining_replica_that_restarts_goes_on_where_it_was() {
    let mut lab = Lab::apart(2, 40);
    lab.let_copies(2, Some(30));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    // It is sent these as entries, and keeps them.
    lab.write(1, 35 * 64, 1, 77);
    lab.write(1, 2 * 64, 1, 78);
    lab.kill(2);
    lab.pass(SECOND);
    lab.start(2);
    lab.join_fully(2);
    assert!(
        lab.copied_bytes() <= 42 * BLOCK,
        "{}",
        lab.copied_bytes() / BLOCK
    );
}

/// The group at the journal's end may be torn, and never have been durable; or it has rotted, and held copies
/// that the primary does not count as lacking any more.
#[test]
fn copies_in_a_bad_end_of_the_journal_are_made_again() {
    let mut lab = Lab::apart(2, 40);
    lab.let_copies(2, Some(30));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    lab.kill(2);
    lab.spoil_end(2);
    lab.pass(SECOND);
    lab.start(2);
    lab.join_fully(2);
}

#[test]
fn a_full_sync_that_is_interrupted_goes_on_where_it_was() {
    let mut lab = Lab::apart(2, 0);
    lab.replace_disks(2);
    for page in 0..40 {
        lab.write(1, page * 64, 1, 5);
    }
    lab.let_copies(2, Some(30));
    lab.start(2);
    lab.pass(Duration::from_millis(500));
    assert_eq!(lab.copied_bytes(), 30 * BLOCK);
    lab.kill(2);
    lab.pass(SECOND);
    // What it has meanwhile is not there any more.
    lab.clear(1, 0, 64 * 20);
    lab.write(1, 39 * 64, 1, 6);
    lab.start(2);
    lab.join_fully(2);
    // The rest, and the cleared blocks: the range is copied whole, as zeros.
    let copied = lab.copied_bytes() / BLOCK;
    assert!((40..=30 + 10 + 20 * 64).contains(&copied), "{copied}");
    assert_eq!(lab.contents(2).len(), 20);
}

/// What the source cannot read is bad at the copy too, which must have room to say so: the page may
/// have nothing else in it.
#[test]
fn a_source_with_bad_blocks_is_copied_with_them() {
    let mut lab = Lab::apart(2, 0);
    lab.replace_disks(2);
    for page in 0..4 {
        lab.write(1, page * 64, 2, 5);
    }
    let source = lab.nodes.get_mut(&node(1)).expect("it exists");
    source.world.bad.extend([64, 128, 129]);
    lab.start(2);
    lab.pass_until(LONG, "node 2 is in sync", |lab| lab.is_in_sync(2));
    assert_eq!(lab.nodes[&node(1)].world.bad, lab.nodes[&node(2)].world.bad);
    // Whoever writes them anew has them again, everywhere.
    lab.write(1, 64, 1, 6);
    lab.write(1, 128, 2, 7);
    lab.tell_committed();
    for number in [1, 2] {
        let world = &lab.nodes[&node(number)].world;
        assert!(world.bad.is_empty());
        assert_eq!(world.contents()[&64], 6);
        assert_eq!(world.contents()[&129], 7);
    }
}

/// Who is told to begin an epoch before it hears of the record marks what a replica lacks that is
/// left out, before it forgets those changes that all others have for good.
#[test]
fn a_mark_is_made_before_the_changes_are_forgotten_that_it_is_of() {
    let mut lab = Lab::new(3, 1);
    for page in 0..40 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.deaf = Some(node(2));
    lab.kill(3);
    // With this the two others know the last write to be committed, durably, and node 3 does not.
    lab.clear(1, 0, 1);
    lab.pass(SECOND);
    assert!(!lab.is_in_sync(3));
    lab.deaf = None;
    lab.kill(1);
    lab.pass(3 * SECOND);
    assert!(lab.leads(2));
    lab.start(3);
    lab.pass_until(LONG, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(2), lab.contents(3));
    assert!(
        lab.copied_bytes() <= 2 * BLOCK,
        "{}",
        lab.copied_bytes() / BLOCK
    );
}

#[test]
fn another_change_of_configuration_does_not_begin_a_sync_anew() {
    let mut lab = Lab::new(3, 1);
    lab.kill(3);
    lab.pass(SECOND);
    for page in 0..40 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.let_copies(3, Some(30));
    lab.start(3);
    lab.pass(Duration::from_millis(400));
    lab.kill(2);
    lab.let_copies(3, None);
    lab.pass(SECOND);
    assert!(lab.is_in_sync(3));
    assert_eq!(lab.contents(1), lab.contents(3));
    // Copies that were under way are made again.
    assert!(
        lab.copied_bytes() <= 44 * BLOCK,
        "{}",
        lab.copied_bytes() / BLOCK
    );
}

/// Whoever feeds a replica knows what it has copied to it, and nobody else does. If another one has
/// let it begin with nothing meanwhile, that knowledge is worth nothing.
#[test]
fn what_was_copied_before_a_replica_began_anew_does_not_count() {
    let mut lab = Lab::new(3, 1);
    lab.kill(3);
    lab.pass(SECOND);
    lab.replace_disks(3);
    for page in 0..40 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.let_copies(3, Some(30));
    lab.start(3);
    lab.pass(Duration::from_millis(500));
    assert_eq!(lab.copied_bytes(), 30 * BLOCK);
    // The first primary is cut off, and the second begins anew.
    lab.disconnect(node(1), node(3));
    lab.disconnect(node(1), node(2));
    lab.nodes
        .get_mut(&node(1))
        .expect("it exists")
        .world
        .metadata_away = true;
    lab.let_copies(3, Some(5));
    lab.pass(3 * SECOND);
    assert!(lab.leads(2));
    lab.nodes
        .get_mut(&node(1))
        .expect("it exists")
        .world
        .metadata_away = false;
    lab.tell_record(1);
    lab.connect(node(1), node(2));
    lab.pass_until(5 * SECOND, "node 1 is back", |lab| lab.is_in_sync(1));
    lab.disconnect(node(2), node(3));
    lab.kill(2);
    lab.pass(3 * SECOND);
    assert!(lab.leads(1));
    lab.let_copies(3, None);
    lab.connect(node(1), node(3));
    lab.pass_until(LONG, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(1), lab.contents(3));
}

#[test]
fn a_joining_replica_that_does_not_keep_up_is_cut_off_and_carried_on() {
    let mut lab = Lab::apart(2, 10);
    lab.let_copies(2, Some(5));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    lab.lost = |message| matches!(message, holdfast_wire::Message::Prepared(_));
    for round in 0..40u32 {
        for block in 0..128 {
            lab.begin_write(1, 64 * 100 + block, 1, 1 + round as u8);
        }
        lab.settle();
    }
    lab.pass(Duration::from_millis(20));
    assert!(!lab.is_in_sync(2));
    let membership = lab.membership(2);
    assert!(
        matches!(
            membership,
            holdfast_model::record::Membership::Absent { .. }
        ),
        "{membership:?}"
    );
    lab.lost = |_| false;
    lab.join_fully(2);
}

/// Whatever happens to whom, the replicas end with the same blocks.
#[test]
fn nothing_is_lost_whatever_interrupts() {
    for seed in 0..60 {
        let mut prng = Prng::from_seed(seed);
        let nodes = prng.between(2, 4) as u16;
        let mut lab = Lab::new(nodes, 1);
        for step in 0..60 {
            disturb(&mut lab, &mut prng, nodes);
            let span = Duration::from_millis(prng.below(700));
            lab.pass(span);
            assert!(lab.record.in_sync().count() > 0, "seed {seed} step {step}");
        }
        for one in 1..=nodes {
            lab.let_copies(one, None);
            if lab.nodes[&node(one)].replica.is_none() {
                lab.start(one);
            }
        }
        for one in 1..=nodes {
            for other in one + 1..=nodes {
                lab.connect_if_apart(one, other);
            }
        }
        let what = format!("seed {seed}: all are in sync");
        let whole =
            |lab: &Lab| lab.leader().is_some() && (1..=nodes).all(|number| lab.is_in_sync(number));
        lab.pass_until(Duration::from_secs(400), &what, whole);
        lab.pass(Duration::from_millis(200));
        let leader = lab.leader().expect("it was just there");
        for number in 1..=nodes {
            assert_eq!(lab.contents(number), lab.contents(leader), "seed {seed}");
        }
    }
}

fn disturb(lab: &mut Lab, prng: &mut Prng, nodes: u16) {
    let number = prng.between(1, nodes.into()) as u16;
    let other = prng.between(1, nodes.into()) as u16;
    let runs = lab.nodes[&node(number)].replica.is_some();
    match prng.below(12) {
        0..=5 => {
            let Some(leader) = lab.leader() else { return };
            for _ in 0..prng.between(1, 12) {
                let page = prng.below(20) as u32;
                let block = page * 64 + prng.below(3) as u32;
                if prng.chance(1, 5) {
                    lab.clear(leader, block, prng.between(1, 64) as u32);
                } else {
                    lab.write(leader, block, 1, prng.between(1, 255) as u8);
                }
            }
        }
        6 | 7 if runs && !lab.is_last(number) => lab.kill(number),
        6..=8 if !runs => lab.start(number),
        9 => lab.let_copies(number, Some(prng.below(12) as u32)),
        10 => lab.let_copies(number, None),
        11 if number != other => {
            if prng.chance(1, 2) {
                lab.disconnect(node(number), node(other));
            } else {
                lab.connect_if_apart(number, other);
            }
        }
        _ => {
            let spare = !lab.is_in_sync(number) && !runs;
            if spare && prng.chance(1, 2) {
                lab.replace_disks(number);
            }
        }
    }
    lab.settle();
}

/// Two replicas that hold a page of four blocks in each of 40 pages; the second is off, and in every
/// fourth page one block has changed since. The first has forgotten which: it has started anew.
fn forgotten() -> Lab {
    let mut lab = Lab::new(2, 1);
    for page in 0..40 {
        lab.write(1, page * 64, 4, 1 + page as u8);
    }
    // With this both know of all that it is committed, durably.
    lab.clear(1, 64 * 1000, 1);
    lab.pass(SECOND);
    lab.kill(2);
    lab.pass(SECOND);
    for page in (0..40).step_by(4) {
        lab.write(1, page * 64 + 2, 1, 99);
    }
    lab.pass(SECOND);
    lab.kill(1);
    lab.start(1);
    lab.pass_until(10 * SECOND, "node 1 leads", |lab| lab.leads(1));
    lab
}

/// Digests of a page: one for each block that has data, and a byte for those that have none.
const DIGESTS: u64 = 64 + 4 * 16;

#[test]
fn what_a_replica_lacks_is_found_although_its_primary_has_forgotten() {
    let mut lab = forgotten();
    lab.start(2);
    lab.join_fully(2);
    assert_eq!(lab.copied_bytes(), 10 * (BLOCK + DIGESTS));
}

#[test]
fn pages_that_are_gone_go_although_their_primary_has_forgotten() {
    let mut lab = Lab::new(2, 1);
    for page in 0..40 {
        lab.write(1, page * 64, 4, 1 + page as u8);
    }
    // With this both know of all that it is committed, durably.
    lab.clear(1, 64 * 1000, 1);
    lab.pass(SECOND);
    lab.kill(2);
    lab.pass(SECOND);
    lab.clear(1, 64 * 8, 64 * 4);
    // This page is there again, with other blocks.
    lab.write(1, 64 * 9 + 30, 1, 7);
    lab.pass(SECOND);
    lab.kill(1);
    lab.start(1);
    lab.pass_until(10 * SECOND, "node 1 leads", |lab| lab.leads(1));
    lab.start(2);
    lab.join_fully(2);
    assert_eq!(lab.copied_bytes(), BLOCK + DIGESTS);
}

#[test]
fn a_comparison_that_is_interrupted_goes_on_where_it_was() {
    let mut lab = forgotten();
    lab.let_copies(2, Some(6));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    // It is sent these as entries, and what is lost of them is found missing.
    lab.write(1, 64, 1, 77);
    lab.write(1, 8 * 64 + 1, 1, 78);
    lab.kill(2);
    lab.pass(SECOND);
    lab.start(2);
    lab.join_fully(2);
    let copied = lab.copied_bytes();
    // Two entries, and what was on its way when it broke.
    let more = 2 * BLOCK + 4 * DIGESTS;
    assert!(copied <= 10 * (BLOCK + DIGESTS) + more, "{copied}");
}

/// A page that turned out to be the same counts as written when that was found: its replica can tell
/// what a third one lacks, although it has forgotten everything itself.
#[test]
fn who_was_compared_knows_later_what_others_lack() {
    let mut lab = Lab::new(3, 1);
    // After each write another one: with that it is known to be committed, durably.
    let known = |lab: &mut Lab| {
        lab.clear(1, 64 * 1000, 1);
        lab.pass(SECOND);
    };
    lab.write(1, 0, 1, 1);
    known(&mut lab);
    lab.kill(2);
    lab.pass(SECOND);
    lab.write(1, 0, 1, 2);
    known(&mut lab);
    // Node 3 has the second version, and the first is what comes back.
    lab.kill(3);
    lab.pass(SECOND);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    lab.kill(1);
    lab.start(1);
    lab.pass_until(10 * SECOND, "node 1 leads", |lab| lab.leads(1));
    lab.start(2);
    lab.pass_until(LONG, "node 2 is in sync", |lab| lab.is_in_sync(2));
    lab.kill(1);
    lab.pass_until(10 * SECOND, "node 2 leads", |lab| lab.leads(2));
    lab.kill(2);
    lab.start(2);
    lab.pass_until(10 * SECOND, "node 2 leads again", |lab| lab.leads(2));
    lab.start(3);
    lab.pass_until(LONG, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(2), lab.contents(3));
    assert_eq!(lab.contents(3)[&0], 1);
}

/// Who speaks only the first version of the protocol is not asked what it does not know.
#[test]
fn a_replica_of_an_older_version_is_brought_everything() {
    let mut lab = forgotten();
    for number in [1, 2] {
        lab.nodes.get_mut(&node(number)).expect("it exists").version = 1;
    }
    lab.start(2);
    lab.join_fully(2);
    assert_eq!(lab.copied_bytes(), 40 * 4 * BLOCK);
}

/// A node without room would have its slice change twice for every look at it: the record, and everybody who
/// follows it, must not notice more of it than a few changes a minute.
#[test]
fn a_sync_that_finds_no_room_rests_and_goes_on_where_it_was() {
    let minute = Duration::from_secs(60);
    let mut lab = Lab::apart(2, 40);
    let set_room = |lab: &mut Lab, room| {
        let state = lab.nodes.get_mut(&node(2)).expect("it exists");
        state.world.room = room;
    };
    set_room(&mut lab, Some(30));
    lab.start(2);
    let before = lab.record.epoch.0;
    lab.pass(minute);
    let changes = lab.record.epoch.0 - before;
    assert!((2..=10).contains(&changes), "{changes} changes in a minute");
    lab.pass(minute * 10);
    let changes = lab.record.epoch.0 - before - changes;
    assert!(
        (2..=22).contains(&changes),
        "{changes} changes in ten minutes"
    );
    assert!(!lab.is_in_sync(2));
    let copied = lab.copied_bytes() / BLOCK;
    assert_eq!(lab.contents(2).len(), 30, "what it has it keeps");

    // A little more room is not worth an attempt before its time.
    let before = lab.record.epoch.0;
    set_room(&mut lab, None);
    let enough = Duration::from_secs(6);
    lab.pass_until(enough, "node 2 is in sync", |lab| lab.is_in_sync(2));
    lab.join_fully(2);
    assert_eq!(lab.record.epoch.0 - before, 2);
    let copied = lab.copied_bytes() / BLOCK - copied;
    assert!(copied <= 10, "{copied} more: it goes on where it was");
}

/// What is written meanwhile needs room as well as what is copied.
#[test]
fn a_joining_replica_without_room_for_what_is_written_rests() {
    let mut lab = Lab::apart(2, 40);
    let state = lab.nodes.get_mut(&node(2)).expect("it exists");
    state.world.room = Some(10);
    lab.let_copies(2, Some(10));
    lab.start(2);
    let before = lab.record.epoch.0;
    for page in 0..120 {
        lab.pass(Duration::from_millis(500));
        lab.write(1, (40 + page) * 64, 1, 7);
    }
    let changes = lab.record.epoch.0 - before;
    assert!((2..=10).contains(&changes), "{changes} changes in a minute");
    let state = lab.nodes.get_mut(&node(2)).expect("it exists");
    state.world.room = None;
    lab.join_fully(2);
}
