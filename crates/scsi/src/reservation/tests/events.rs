//! Resets, lost nexuses, lost power.

use holdfast_model::record::{LastChange, ReservationKind as Kind};

use super::bench::*;
use crate::reservation::{on_nexus_loss, on_power_loss, on_reset};

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

#[test]
fn power_is_lost() {
    for flags in [0, APTPL] {
        let mut world = World::new();
        assert_eq!(on_power_loss(&world.record), None);
        world.good(&a1(), &out(REGISTER, 0, 4).with(flags));
        world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::WriteExclusive));
        let before = world.record;
        let after = on_power_loss(&before).unwrap();
        assert!(after.is_sound());
        assert_eq!(after.generation, 0);
        assert_eq!(after.changes, before.changes + 1);
        assert_eq!(after.last, None::<LastChange>);
        assert_eq!(after.persists, before.persists);
        if flags == APTPL {
            assert_eq!(after.registrations, before.registrations);
            assert_eq!(after.reservation, before.reservation);
            assert_eq!(after.fence, before.fence);
        } else {
            assert_eq!(after.registrations, []);
            assert_eq!(after.reservation, None);
            assert_eq!(after.fence, before.fence.next());
        }
        assert_eq!(on_power_loss(&after), None, "once is enough");
    }
    // A RESERVE never persists.
    let mut world = World::new();
    world.good(&a1(), &out(REGISTER, 0, 4).with(APTPL));
    world.good(&a1(), &out(CLEAR, 4, 0));
    world.run_cdb(&b1(), &[0x16, 0, 0, 0, 0, 0]);
    let after = on_power_loss(&world.record).unwrap();
    assert_eq!(after.reserved, None);
    assert_eq!(after.fence, world.record.fence.next());
}
