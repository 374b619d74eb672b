//! Prints the reference of alarms.
#![allow(clippy::print_stdout, reason = "that is what it is for")]

fn main() {
    print!("{}", holdfast_control::alarm_reference());
}
