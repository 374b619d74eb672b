//! Resets, and lost nexuses.
use super::bench::*;
use crate::reservation::{on_nexus_loss, on_reset};

#[test]
fn an_old_reserve_ends_with_a_reset_and_with_its_nexus() {
    let mut world = World::new();
    world.run_cdb(&a1(), &[0x16, 0, 0, 0, 0, 0]);
    let record = &world.record;
    assert_eq!(on_nexus_loss(record, &a2()), None);
    assert_eq!(on_nexus_loss(record, &b1()), None);
    for after in [on_reset(record), on_nexus_loss(record, &a1())] {
        let after = after.unwrap();
        assert_eq!(after.reserved, None);
        assert_eq!(after.changes, record.changes + 1);
        assert_eq!(after.fence, record.fence, "nobody lost anything");
        assert_eq!(after.last, None);
        assert_eq!(on_reset(&after), None);
    }
}

#[test]
fn what_is_persistent_outlives_them() {
    for kind in KINDS {
        let mut world = World::registered(&[(a1(), 4)]);
        world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
        assert_eq!(on_reset(&world.record), None);
        assert_eq!(on_nexus_loss(&world.record, &a1()), None);
    }
}
