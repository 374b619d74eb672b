//! The demo's authority, and the credentials of its nodes and of its parent.
//!
//! Invariant: what is there is kept, so that whoever trusts the demo does so after its next start, too.

use std::time::SystemTime;

use holdfast_model::ClusterId;
use holdfast_tls::{AUTHORITY_FILE, Authority, Credentials, DEMO, Subject};

use super::layout::Layout;
use crate::failure::Failure;

/// Makes what is not there yet, and gives those of the parent; none for a demo without TLS.
pub(crate) fn prepare(layout: &Layout, cluster: ClusterId) -> Result<Option<Credentials>, Failure> {
    let Some(directory) = layout.credentials() else {
        return Ok(None);
    };
    let now = SystemTime::now();
    let authority = if directory.join(AUTHORITY_FILE).exists() {
        Authority::open(&directory)
    } else {
        Authority::found(&directory, cluster, now)
    };
    let authority = authority.map_err(Failure::new)?;
    for node in layout.nodes() {
        // The size of the device is none of its names.
        let config = layout.node_config(cluster, node, 0);
        let of_node = config.credentials();
        if !of_node.join(AUTHORITY_FILE).exists() {
            let issued = authority.issue(&config.subject(), &of_node, now);
            issued.map_err(Failure::new)?;
        }
    }
    let subject = Subject {
        node: DEMO,
        name: "demo".to_owned(),
        hosts: Vec::new(),
    };
    let own = Credentials::of_node(&directory, cluster, &subject, now);
    own.map(|(credentials, _)| Some(credentials))
        .map_err(Failure::new)
}
