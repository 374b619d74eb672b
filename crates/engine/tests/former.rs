//! A process whose node is another one by now is not spoken to, whatever it has heard.

use holdfast_model::StoreId;

use crate::bench::{Bench, PEER, record_of_peer as record, store_of};

#[test]
fn a_link_to_a_process_that_was_replaced_ends_when_that_is_known() {
    let (own, other) = (store_of(PEER), StoreId(99));
    let mut bench = Bench::new(&[record(own, 1)]);
    bench.connect();
    // It was started anew, and has yet to connect.
    let (key, value) = record(own, 2);
    bench.put(&key, value);
    assert_eq!(bench.resets, 0);
    let (key, value) = record(other, 3);
    bench.put(&key, value);
    assert_eq!(bench.resets, 1);
}

#[test]
fn a_process_that_was_replaced_is_not_met_again() {
    let other = StoreId(99);
    let mut bench = Bench::new(&[record(other, 3)]);
    for resets in 1..3 {
        bench.connect();
        assert_eq!(bench.resets, resets);
    }
    // What has yet to be heard of is met.
    let mut bench = Bench::new(&[record(other, 0)]);
    bench.connect();
    assert_eq!(bench.resets, 0);
}
