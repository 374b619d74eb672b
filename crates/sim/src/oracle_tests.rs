use super::*;

fn attempt(sent: Order, asked: Asked, first: u64, count: u64, ended: Ended) -> Attempt {
    let sectors = Sectors {
        volume: 0,
        first,
        count,
    };
    Attempt {
        host: 0,
        path: 0,
        sectors,
        asked,
        sent,
        ended,
        fenced: None,
    }
}

fn write(sent: Order, value: Value, ended: Ended) -> Attempt {
    attempt(sent, Asked::Write(value), 0, 8, ended)
}

fn read(sent: Order, done: Order, value: Value) -> Attempt {
    attempt(sent, Asked::Read, 0, 8, Ended::Done(done, vec![value; 8]))
}

fn done(order: Order) -> Ended {
    Ended::Done(order, Vec::new())
}

fn holds(attempts: &[Attempt]) -> bool {
    check(attempts).is_ok()
}

#[test]
fn what_is_acknowledged_is_read() {
    assert!(holds(&[write(1, 7, done(2)), read(3, 4, 7)]));
    assert!(!holds(&[write(1, 7, done(2)), read(3, 4, 0)]), "lost");
    assert!(holds(&[write(1, 7, done(4)), read(2, 3, 0)]), "not yet");
    assert!(holds(&[write(1, 7, done(5)), read(2, 3, 7)]), "already");
    assert!(!holds(&[read(1, 2, 9)]), "from nowhere");
}

#[test]
fn what_was_read_is_not_unread() {
    let open = write(1, 7, Ended::No);
    assert!(holds(&[
        open.clone(),
        read(2, 3, 0),
        read(4, 5, 7),
        read(6, 7, 7)
    ]));
    assert!(!holds(&[open, read(2, 3, 7), read(4, 5, 0)]));
}

fn fenced(attempt: Attempt, order: Order) -> Attempt {
    Attempt {
        fenced: Some(order),
        ..attempt
    }
}

#[test]
fn what_was_fenced_off_was_there_before_or_never_is() {
    let open = fenced(write(1, 7, Ended::No), 3);
    assert!(holds(&[open.clone(), read(4, 5, 0), read(6, 7, 0)]));
    assert!(holds(&[open.clone(), read(4, 5, 7)]));
    assert!(
        !holds(&[open, read(4, 5, 0), read(6, 7, 7)]),
        "it lands later"
    );
    let late = fenced(write(1, 7, done(8)), 3);
    assert!(!holds(&[late.clone(), read(4, 5, 0)]), "it was done");
    assert!(holds(&[late, read(4, 5, 7)]));
    // Sent without the right.
    let forbidden = |ended| fenced(write(4, 7, ended), 3);
    assert!(holds(&[forbidden(Ended::No), read(5, 6, 0)]));
    assert!(!holds(&[forbidden(Ended::GivenUp(6)), read(7, 8, 7)]));
    assert!(!holds(&[forbidden(done(5))]), "acknowledged");
}

#[test]
fn what_was_given_up_and_repeated_never_lands_later() {
    let given_up = write(1, 7, Ended::GivenUp(3));
    let repeated = write(4, 7, done(5));
    let other = write(6, 8, done(7));
    let history = [given_up.clone(), repeated, other];
    let with = |last: Attempt| [history.to_vec(), vec![last]].concat();
    assert!(holds(&with(read(8, 9, 8))));
    assert!(!holds(&with(read(8, 9, 7))), "it landed late");
    assert!(
        holds(&[given_up.clone(), read(4, 5, 7)]),
        "it landed in time"
    );
    assert!(holds(&[given_up, read(4, 5, 0)]), "it never landed");
}

#[test]
fn a_block_is_of_one_moment() {
    let first = attempt(1, Asked::Write(7), 0, 4, done(2));
    let second = attempt(3, Asked::Write(8), 4, 4, done(4));
    let both = |low: Value, high: Value| {
        let values = [vec![low; 4], vec![high; 4]].concat();
        let read = attempt(5, Asked::Read, 0, 8, Ended::Done(6, values));
        holds(&[first.clone(), second.clone(), read])
    };
    assert!(both(7, 8));
    assert!(!both(0, 8));
    assert!(!both(7, 0));
    let whole = write(1, 7, done(4));
    let torn = attempt(
        2,
        Asked::Read,
        0,
        8,
        Ended::Done(3, [vec![7; 4], vec![0; 4]].concat()),
    );
    assert!(!holds(&[whole, torn]), "half a write");
}

#[test]
fn blocks_have_no_order_among_themselves() {
    let both = attempt(1, Asked::Write(7), 0, 16, done(9));
    let low = attempt(2, Asked::Read, 0, 8, Ended::Done(3, vec![7; 8]));
    let high = attempt(4, Asked::Read, 8, 8, Ended::Done(5, vec![0; 8]));
    assert!(holds(&[both, low, high]));
}

#[test]
fn many_reads_at_once_need_no_search() {
    let mut history = vec![write(1, 7, done(100)), write(2, 8, done(101))];
    for number in 0..40 {
        let value = [0, 7, 8][number as usize % 3];
        history.push(read(3 + number, 50 + number, value));
    }
    assert!(holds(&history));
    history.push(read(102, 103, 9));
    assert!(!holds(&history));
}
