//! Pages of two and three replicas.

use holdfast_model::Sequence;

use super::*;

const ME: NodeId = NodeId(1);
const A: NodeId = NodeId(2);
const B: NodeId = NodeId(3);

/// A page of zeros but for these blocks: 0 is zeros, 255 is bad.
fn told(written: u64, blocks: &[(usize, u8)]) -> Told {
    let mut digests = alloc::vec![BlockDigest::Zero; BLOCKS_PER_PAGE as usize];
    for (block, what) in blocks {
        digests[*block] = match what {
            0 => BlockDigest::Zero,
            255 => BlockDigest::Bad,
            other => BlockDigest::Data([*other; 16]),
        };
    }
    Told {
        as_of: Sequence(50),
        written: (written > 0).then_some(Sequence(written)),
        digests,
    }
}

fn check(own: Told, theirs: &[(NodeId, Told)]) -> Check {
    let mut check = Check::new(ME, PageIndex(0), PageIndex(0));
    check.begin(1, Epoch(1));
    for (node, told) in theirs {
        check.ask(*node);
        assert!(!check.is_complete());
        check.tell(*node, told.clone());
    }
    check.read_here(own, Contents::new());
    assert!(check.is_complete());
    check
}

fn unchanged(_: Sequence) -> u64 {
    0
}

#[test]
fn what_is_the_same_everywhere_is_clean() {
    let page = || told(9, &[(0, 7), (63, 8)]);
    let mut check = check(page(), &[(A, page()), (B, page())]);
    let verdict = check.judge(|_| u64::MAX);
    assert!(verdict.is_final() && verdict.corrections.is_empty());
    let findings = check.findings(&verdict);
    assert_eq!(findings.bytes_read, 6 * 4096);
    let clean = ScrubFindings {
        bytes_read: 6 * 4096,
        ..ScrubFindings::default()
    };
    assert_eq!(findings, clean);
}

#[test]
fn bad_blocks_are_counted_wherever_they_are_until_they_are_mended() {
    let good = || told(9, &[(0, 7)]);
    let mut check = check(told(9, &[(0, 255)]), &[(A, told(9, &[(0, 7), (5, 255)]))]);
    let verdict = check.judge(unchanged);
    assert_eq!((verdict.bad_here, verdict.wrong), (1, 2));
    assert!(verdict.corrections.is_empty(), "mending does that");
    assert_eq!(check.findings(&verdict).unmended, 2);
    check.begin(2, Epoch(1));
    check.tell(A, good());
    check.read_here(good(), Contents::new());
    let verdict = check.judge(unchanged);
    assert!(verdict.is_final());
    let findings = check.findings(&verdict);
    assert_eq!((findings.bad, findings.unmended), (2, 0));
}

#[test]
fn the_majority_is_right() {
    let (one, other) = (told(9, &[(3, 7)]), told(9, &[(3, 8)]));
    let mut two_here = check(one.clone(), &[(A, one.clone()), (B, other.clone())]);
    let verdict = two_here.judge(unchanged);
    let there = Correction::There { node: B, blocks: 8 };
    assert_eq!(verdict.corrections, [there]);
    assert_eq!(two_here.findings(&verdict).doubtful, 0);
    let mut two_there = check(one, &[(A, other.clone()), (B, other)]);
    let verdict = two_there.judge(unchanged);
    let here = Correction::Here { from: A, blocks: 8 };
    assert_eq!(verdict.corrections, [here]);
    let findings = two_there.findings(&verdict);
    assert_eq!((findings.differing, findings.doubtful), (1, 0));
}

#[test]
fn of_two_the_one_that_was_written_later_is_right() {
    let mut here = check(told(8, &[(3, 7)]), &[(A, told(9, &[(3, 8)]))]);
    let verdict = here.judge(unchanged);
    assert_eq!(
        verdict.corrections,
        [Correction::Here { from: A, blocks: 8 }]
    );
    assert_eq!(here.findings(&verdict).doubtful, 0);
    let mut there = check(told(9, &[(3, 7)]), &[(A, told(8, &[(3, 8)]))]);
    let verdict = there.judge(unchanged);
    assert_eq!(
        verdict.corrections,
        [Correction::There { node: A, blocks: 8 }]
    );
}

#[test]
fn where_nothing_tells_data_is_right_then_the_primary_and_that_is_doubtful() {
    for written in [0, 9] {
        let mut both = check(
            told(written, &[(3, 7), (4, 6)]),
            &[(A, told(written, &[(3, 8)]))],
        );
        let verdict = both.judge(unchanged);
        let there = Correction::There {
            node: A,
            blocks: 0b11000,
        };
        assert_eq!(verdict.corrections, [there]);
        assert_eq!(both.findings(&verdict).doubtful, 2);
    }
    // A page that is not there has not been written at any time.
    let mut nothing_here = check(told(0, &[]), &[(A, told(9, &[(3, 8)]))]);
    let verdict = nothing_here.judge(unchanged);
    assert_eq!(
        verdict.corrections,
        [Correction::Here { from: A, blocks: 8 }]
    );
    assert_eq!(nothing_here.findings(&verdict).doubtful, 1);
}

#[test]
fn what_may_have_changed_meanwhile_does_not_differ() {
    let mut own = told(9, &[(3, 7), (4, 7)]);
    own.as_of = Sequence(52);
    let mut check = check(own, &[(A, told(9, &[(3, 8), (4, 8)]))]);
    let verdict = check.judge(|sequence| {
        assert_eq!(sequence, Sequence(50), "the earlier of the two moments");
        1 << 3
    });
    assert_eq!(
        verdict.corrections,
        [Correction::There {
            node: A,
            blocks: 16
        }]
    );
    let findings = check.findings(&verdict);
    assert_eq!((findings.differing, findings.skipped), (1, 1));
}

#[test]
fn who_cannot_tell_is_skipped() {
    let mut check = Check::new(ME, PageIndex(0), PageIndex(0));
    check.begin(1, Epoch(1));
    check.ask(A);
    check.ask(B);
    check.read_here(told(9, &[(0, 7), (1, 7)]), Contents::new());
    check.tell(
        A,
        Told {
            digests: Vec::new(),
            ..told(9, &[])
        },
    );
    assert!(!check.is_complete());
    check.give_up_silent();
    let verdict = check.judge(unchanged);
    assert!(!verdict.is_final());
    assert_eq!(check.findings(&verdict).skipped, 4);
}

#[test]
fn who_does_not_know_the_question_is_not_asked_again() {
    let mut check = Check::new(ME, PageIndex(0), PageIndex(0));
    check.begin(1, Epoch(1));
    check.leave_out(A);
    check.read_here(told(9, &[(0, 7)]), Contents::new());
    assert!(check.is_complete());
    let verdict = check.judge(unchanged);
    assert!(verdict.is_final());
    assert_eq!(check.findings(&verdict).skipped, 1);
}
