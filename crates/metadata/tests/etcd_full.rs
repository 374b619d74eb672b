//! An etcd that has reached its quota: what is told of it, and what goes on.

use std::time::Duration;

use holdfast_metadata::client::Status;
use holdfast_metadata::suite::User;
use holdfast_metadata::suite::user::put;
use holdfast_model::metadata::{MetadataAnswer, MetadataError, MetadataRequest, Transaction};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::common::CLUSTER;
use crate::common::etcd::{Cluster, Release};

/// Long enough for anything that happens at all, on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);
/// What etcd may take, and what each change adds to it.
const QUOTA: &str = "--quota-backend-bytes=3145728";
const VALUE_BYTES: usize = 128 << 10;
/// More than fit.
const CHANGES_MAX: usize = 100;

async fn wait_until_full(status: &mut watch::Receiver<Status>, wanted: bool) {
    let is =
        |status: &Status| matches!(status, Status::Connected { is_full, .. } if *is_full == wanted);
    timeout(SOON, status.wait_for(is)).await.unwrap().unwrap();
}

async fn change(user: &mut User, value: &str) -> Result<(), MetadataError> {
    let transaction = Transaction {
        success: vec![put("/filler", value)],
        ..Transaction::default()
    };
    user.transact(transaction).await.map(drop)
}

/// Changes until that is refused.
async fn fill(user: &mut User) -> MetadataError {
    let value = "v".repeat(VALUE_BYTES);
    for _ in 0..CHANGES_MAX {
        match change(user, &value).await {
            // A busy machine.
            Ok(()) | Err(MetadataError::Unavailable) => {}
            Err(error) => return error,
        }
    }
    panic!("etcd is never full");
}

#[tokio::test]
async fn an_etcd_that_is_full_says_so_until_room_was_made() {
    for release in [Release::Packaged, Release::Built] {
        let cluster = Cluster::start_with(release, 3, &[QUOTA]);
        // One that asks for nothing hears it as well.
        let idle = cluster.client(CLUSTER, &[1, 2, 0]);
        let client = cluster.client(CLUSTER, &[0, 1, 2]);
        let mut told = [client.status.clone(), idle.status.clone()];
        let mut user = User::new(client.session);
        for status in &mut told {
            wait_until_full(status, false).await;
        }
        assert_eq!(fill(&mut user).await, MetadataError::Full);
        for status in &mut told {
            wait_until_full(status, true).await;
        }
        // Nothing is taken that needs room, however little; reads go on, over the same connection.
        assert_eq!(change(&mut user, "").await, Err(MetadataError::Full));
        let grant = MetadataRequest::Grant {
            time_to_live: Duration::from_secs(10),
        };
        let granted = user.ask(grant).await;
        assert_eq!(granted, MetadataAnswer::Failed(MetadataError::Full));
        let kept = user.find("/filler").await.expect("it is there");
        assert_eq!(kept.value.len(), VALUE_BYTES);
        assert!(!told[0].has_changed().unwrap(), "it is told once");
        cluster.make_room();
        for status in &mut told {
            wait_until_full(status, false).await;
        }
        assert_eq!(change(&mut user, "new").await, Ok(()));
    }
}
