//! A device that is added: what it gets, and when it becomes one of the store's.
//!
//! It refuses to write to a device that holds anything.

use holdfast_format::{DeviceList, DeviceState, JournalMark, ListedDevice, Superblock};
use holdfast_pages::PagesDevice;

use super::{Step, Task, set_state};
use crate::config::DeviceGeometry;
use crate::event::Output;
use crate::machine::Core;
use crate::order::DeviceOrder;
use crate::refusals::may_join;

impl Core {
    /// What is on the device that is to be added is known.
    pub(super) fn candidate_read(&mut self, out: &mut Output) {
        let under_way = self.devices.under_way.as_ref();
        let under_way = under_way.expect("an order is under way");
        let task = under_way.ordered.task;
        let (
            Task::Order(DeviceOrder::Add {
                geometry,
                id,
                replaces,
                journal_room,
            }),
            Step::Read(copies),
        ) = (task, &under_way.step)
        else {
            unreachable!("a device is being added");
        };
        let (_, first) = &self.devices.members[0];
        let layout = self.plan_joining(&geometry, replaces, journal_room);
        let layout = layout.expect("it was checked before");
        let list = &first.list;
        let ordinal = list.next_ordinal;
        let joining = Superblock {
            update: 1,
            ordinal,
            device_id: id.max(1),
            device_count: 0,
            list: DeviceList::NONE,
            places: false,
            claimed: false,
            tier: geometry.tier,
            sector: geometry.sector,
            device_bytes: geometry.bytes,
            slot_base: list.next_slot,
            layout,
            ..first.clone()
        };
        if let Err(refused) = may_join(&geometry, copies, first, &joining) {
            return self.refuse(refused, out);
        }
        let under_way = self.devices.under_way.as_mut();
        let under_way = under_way.expect("it was just there");
        under_way.ordinal = ordinal;
        under_way.member = Some((geometry, joining));
        self.write_joining(0);
    }

    /// The device is marked as one that is being added: now the list gets it.
    pub(super) fn let_join(&mut self) {
        let under_way = self.devices.under_way.as_mut();
        let under_way = under_way.expect("an order is under way");
        let Task::Order(DeviceOrder::Add { replaces, .. }) = under_way.ordered.task else {
            unreachable!("a device is being added");
        };
        let (geometry, superblock) = under_way.member.take().expect("a device is being added");
        let listed = ListedDevice {
            id: superblock.device_id,
            ordinal: superblock.ordinal,
            slot_base: superblock.slot_base,
            slot_count: superblock.layout.slot_count,
            state: DeviceState::InUse,
            absent: None,
            journal: match superblock.layout.segment_count {
                0 => JournalMark::None,
                _ => JournalMark::Room,
            },
        };
        self.devices.members.push((geometry, superblock));
        self.pages_gain(&geometry, &listed);
        self.devices.change_list(|list| {
            list.devices.push(listed);
            list.next_ordinal = listed.ordinal + 1;
            list.next_slot = listed.slot_base + listed.slot_count;
            if let Some(old) = replaces {
                set_state(list, old, DeviceState::Leaving);
            }
        });
        self.look();
    }

    /// The page store knows the device, and gives out none of its slots yet.
    fn pages_gain(&mut self, geometry: &DeviceGeometry, listed: &ListedDevice) {
        let (_, superblock) = self.devices.members.last().expect("it was just added");
        self.pages.add_device(PagesDevice {
            disk: geometry.disk,
            layout: superblock.layout,
            slot_base: listed.slot_base,
            tier: superblock.tier,
            is_drained: true,
        });
    }
}
