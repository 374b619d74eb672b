//! Prints the reference of alarms.

fn main() {
    print!("{}", holdfast_control::alarm_reference());
}
