//! Who is told what when a record was not seen for a while. (What each action tells is tested with
//! it.)

use holdfast_model::record::{AccessRecord, ReservationKind as Kind};

use super::bench::*;
use crate::reservation::attentions;
use crate::{AdditionalSense, UnitAttention as Attention};

/// What `nexus` is told if it was served by `before`, and everything since was missed.
fn told(before: &AccessRecord, world: &World, name: &str) -> Option<Attention> {
    attentions(before, &world.record, &nexus(name, 1))
}

#[test]
fn nothing_is_told_of_nothing() {
    let world = World::registered(&[(a1(), 4), (b1(), 5)]);
    assert_eq!(told(&world.record, &world, "b"), None);
    let before = AccessRecord::open(world.record.volume);
    assert_eq!(told(&before, &world, "a"), None);
    assert_eq!(told(&before, &world, "b"), None);
}

#[test]
fn preempted_and_then_something_else() {
    let mut world = World::registered(&[(a1(), 4), (b1(), 5), (c1(), 6)]);
    world.good(
        &a1(),
        &out(RESERVE, 4, 0).of(Kind::WriteExclusiveRegistrantsOnly),
    );
    let before = world.record.clone();
    world.good(
        &b1(),
        &out(PREEMPT, 5, 4).of(Kind::WriteExclusiveRegistrantsOnly),
    );
    world.good(&c1(), &out(REGISTER, 6, 7));
    assert_eq!(
        told(&before, &world, "a"),
        Some(Attention::RegistrationsPreempted)
    );
    assert_eq!(told(&before, &world, "b"), None);
    assert_eq!(told(&before, &world, "c"), None);
    // The reservation changed hands, and then went.
    world.good(
        &b1(),
        &out(RELEASE, 5, 0).of(Kind::WriteExclusiveRegistrantsOnly),
    );
    assert_eq!(
        told(&before, &world, "c"),
        Some(Attention::ReservationsReleased)
    );
    assert_eq!(told(&before, &world, "b"), None);
}

#[test]
fn cleared_and_registered_anew() {
    let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
    let before = world.record.clone();
    world.good(&a1(), &out(CLEAR, 4, 0));
    world.good(&a1(), &out(REGISTER, 0, 4));
    assert_eq!(
        told(&before, &world, "b"),
        Some(Attention::RegistrationsPreempted)
    );
    world.good(&b1(), &out(REGISTER, 0, 5));
    assert_eq!(told(&before, &world, "b"), None, "it has seen that itself");
    assert_eq!(told(&before, &world, "a"), None);
}

#[test]
fn another_port_of_the_same_initiator_port() {
    let mut world = World::new();
    world.good(&a1(), &out(REGISTER, 0, 4).with(ALL_TG_PT));
    world.good(&b1(), &out(REGISTER, 0, 5));
    let kind = Kind::ExclusiveAccessRegistrantsOnly;
    world.good(&a2(), &out(RESERVE, 4, 0).of(kind));
    world.good(&a1(), &out(REGISTER, 4, 0).with(ALL_TG_PT));
    assert_eq!(world.told(&a2()), None);
    assert_eq!(world.told(&b1()), Some(Attention::ReservationsReleased));
    // PREEMPT is another matter: it is the key that is meant.
    world.good(&a1(), &out(REGISTER, 0, 4).with(ALL_TG_PT));
    world.good(&a1(), &out(PREEMPT, 4, 4));
    assert_eq!(world.told(&a2()), Some(Attention::RegistrationsPreempted));
    assert_eq!(world.told(&a1()), None);
}

#[test]
fn as_sense_data() {
    for (attention, additional) in [
        (Attention::ReservationsPreempted, 0x2A03),
        (Attention::ReservationsReleased, 0x2A04),
        (Attention::RegistrationsPreempted, 0x2A05),
    ] {
        let sense = attention.sense();
        assert_eq!(sense.key, crate::SenseKey::UnitAttention);
        assert_eq!(sense.additional, AdditionalSense(additional));
    }
}
