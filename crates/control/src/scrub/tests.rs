//! Rounds, as whoever steers and an operator see them.

use holdfast_model::record::ScrubbedRecord;
use holdfast_model::{Policy, SLICE_SIZE, SliceId};

use super::*;
use crate::lab_tests::Lab;
use crate::{Seen, VolumeSize, delete, grow};

const VOLUME: VolumeId = VolumeId(1);
const WEEK: u64 = 7 * 24 * 60 * 60;

fn lab(slices: u64) -> Lab {
    let mut lab = Lab::new(3);
    lab.volume("a", slices, Policy::Mirror2);
    lab
}

/// Passes as long as there is something to do; how many transactions that took.
fn pass(lab: &mut Lab, now: u64) -> usize {
    let mut count = 0;
    loop {
        let steps = scrub_rounds(&lab.inventory(), &Sight::default(), now);
        if steps.is_empty() {
            return count;
        }
        for step in steps {
            assert!(lab.transact(&step).succeeded);
            count += 1;
        }
    }
}

fn finish(lab: &mut Lab, index: u32, round: u64, bad: u64) {
    let slice = SliceId {
        volume: VOLUME,
        index,
    };
    let record = ScrubbedRecord {
        schema: 1,
        slice,
        round,
        findings: ScrubFindings {
            bytes_read: 100,
            bad,
            ..ScrubFindings::default()
        },
    };
    lab.put(ScrubbedRecord::key(slice), &record);
}

fn record(lab: &mut Lab) -> ScrubRecord {
    lab.inventory().scrubs[&VOLUME].record.clone()
}

#[test]
fn a_round_ends_when_every_slice_is_done_and_the_next_begins_when_it_is_due() {
    let mut lab = lab(2);
    assert_eq!(pass(&mut lab, 1000), 1);
    assert!(record(&mut lab).is_under_way());
    finish(&mut lab, 0, 1, 2);
    assert_eq!(
        pass(&mut lab, 1000 + 2 * WEEK),
        0,
        "it goes on until it is done"
    );
    let inventory = lab.inventory();
    let volume = &inventory.volumes[&VOLUME].record;
    let progress = scrub_progress(&inventory, &inventory.scrubs[&VOLUME].record, volume);
    assert_eq!((progress.done, progress.slices), (1, 2));
    assert_eq!(progress.findings.bad, 2);
    finish(&mut lab, 1, 1, 3);
    assert_eq!(pass(&mut lab, 1500), 1);
    let ended = record(&mut lab).last.expect("it has ended");
    assert_eq!(
        (ended.round, ended.began_seconds, ended.ended_seconds),
        (1, 1000, 1500)
    );
    assert_eq!((ended.findings.bytes_read, ended.findings.bad), (200, 5));
    assert_eq!(pass(&mut lab, 1000 + WEEK - 1), 0);
    assert_eq!(pass(&mut lab, 1000 + WEEK), 1);
    let second = record(&mut lab);
    assert_eq!((second.round, second.began_seconds), (2, 1000 + WEEK));
    assert_eq!(second.last, Some(ended), "the last result stays");
    assert_eq!(
        pass(&mut lab, 1000 + WEEK),
        0,
        "what was done in the first does not count"
    );
}

#[test]
fn a_round_that_ends_by_a_clock_that_is_behind_has_taken_no_time() {
    let mut lab = lab(1);
    pass(&mut lab, 1000);
    finish(&mut lab, 0, 1, 0);
    pass(&mut lab, 900);
    assert_eq!(
        record(&mut lab).last.expect("it has ended").ended_seconds,
        1000
    );
}

#[test]
fn nothing_begins_by_itself_where_that_is_switched_off() {
    let mut lab = lab(1);
    lab.settings(|settings| settings.scrub_interval_seconds = 0);
    assert_eq!(pass(&mut lab, 1000), 0);
    let name = "a".parse().expect("a good name");
    let begin = begin_scrub(&lab.inventory(), &name, 1000).expect("it is there");
    assert!(lab.transact(&begin.expect("none is under way")).succeeded);
    assert_eq!(
        begin_scrub(&lab.inventory(), &name, 2000),
        Ok(None),
        "one is under way"
    );
    finish(&mut lab, 0, 1, 0);
    assert_eq!(pass(&mut lab, 3000), 1, "it ends all the same");
    let other = "b".parse().expect("a good name");
    assert_eq!(
        begin_scrub(&lab.inventory(), &other, 1000),
        Err(PlanError::NoSuchVolume)
    );
}

#[test]
fn slices_that_a_volume_gets_meanwhile_are_part_of_the_round() {
    let mut lab = lab(1);
    pass(&mut lab, 1000);
    let name = "a".parse().expect("a good name");
    let size = VolumeSize::new(2 * SLICE_SIZE).expect("a good size");
    let seen = |_| Some(Seen::with_room(1 << 40, 1 << 40));
    let plan = grow(&lab.inventory(), seen, &name, size).expect("there is room");
    for transaction in plan.transactions {
        assert!(lab.transact(&transaction).succeeded);
    }
    finish(&mut lab, 0, 1, 0);
    assert_eq!(pass(&mut lab, 2000), 0);
    finish(&mut lab, 1, 1, 0);
    assert_eq!(pass(&mut lab, 2000), 1);
}

#[test]
fn nothing_is_left_of_a_volume_that_is_deleted_and_nothing_is_written_for_it() {
    let mut lab = lab(1);
    let begin = scrub_rounds(&lab.inventory(), &Sight::default(), 1000);
    finish(&mut lab, 0, 1, 0);
    let name = "a".parse().expect("a good name");
    let plan = delete(&lab.inventory(), &name).expect("it is there");
    for transaction in plan.transactions {
        assert!(lab.transact(&transaction).succeeded);
    }
    assert!(!lab.transact(&begin[0]).succeeded, "it came too late");
    let inventory = lab.inventory();
    assert!(inventory.scrubs.is_empty() && inventory.scrubbed.is_empty());
}

/// A new volume has nothing that could be read, and what is not said to be empty may have.
#[test]
fn a_round_of_nothing_has_ended_when_it_begins() {
    let mut lab = lab(2);
    let slices = || {
        (0..2).map(|index| SliceId {
            volume: VOLUME,
            index,
        })
    };
    let step = |lab: &mut Lab, empty: usize, now| {
        let sight = Sight {
            empty: slices().take(empty).collect(),
            ..Sight::default()
        };
        let steps = scrub_rounds(&lab.inventory(), &sight, now);
        assert_eq!(steps.len(), 1);
        assert!(lab.transact(&steps[0]).succeeded);
        record(lab)
    };
    let first = step(&mut lab, 2, 1000);
    assert!(!first.is_under_way());
    let last = first.last.expect("it has ended");
    assert_eq!((last.round, last.ended_seconds), (1, 1000));
    assert_eq!(last.findings, ScrubFindings::default());
    // The next one is due as after any other.
    let sight = Sight::default();
    assert_eq!(scrub_rounds(&lab.inventory(), &sight, 999 + WEEK), []);
    let second = step(&mut lab, 1, 1000 + WEEK);
    assert!(second.is_under_way());
    assert_eq!(second.last, Some(last));
}
