//! The driver that looks for new inputs: libFuzzer, for the target that the environment names.
#![no_main]

use std::sync::LazyLock;

use holdfast_fuzz::Target;
use libfuzzer_sys::fuzz_target;

/// The variable that names the target: one program for all of them is built once.
const TARGET: &str = "HOLDFAST_FUZZ_TARGET";

static CHOSEN: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET).unwrap_or_default();
    Target::find(&name).unwrap_or_else(|| panic!("{TARGET} names no target: {name:?}"))
});

fuzz_target!(|bytes: &[u8]| (CHOSEN.run)(bytes));
