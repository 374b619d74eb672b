//! A slice is deleted, and not everybody has heard so.

use holdfast_stdx::Duration;

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);

/// A replica drops what it has, and its primary, which has heard nothing, begins with it anew over a new link. What was kept
/// of that would stay for ever: nobody tells of the slice any more.
#[test]
fn what_is_deleted_is_begun_with_by_nobody() {
    let mut lab = Lab::new(3, 1);
    lab.write(1, 0, 1, 7);
    lab.deaf = Some(node(3));
    lab.stick_disk(3, true);
    lab.act(node(3), |replica, context| {
        replica.handle_record(context, None, true);
    });
    lab.reconnect(1, 3);
    let is_settled = |lab: &mut Lab| lab.act(node(3), |replica, _| replica.is_settled());
    assert_eq!(is_settled(&mut lab), Some(false), "it is dropping");
    lab.stick_disk(3, false);
    lab.pass(SECOND);
    assert_eq!(is_settled(&mut lab), Some(true));
    assert!(lab.contents(3).is_empty());
}
