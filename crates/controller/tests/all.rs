//! All tests of this crate from outside of it, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod access;
mod alarms;
mod devices;
mod event_log;
mod events;
mod gone_back;
mod identity;
mod keys;
mod looks;
mod many;
mod members;
mod paths;
mod retention;
mod support;
mod tags;
mod tasks;
mod traffic;
mod trust;
mod volumes;
mod without_metadata;
