//! Why a node does not start, or stops.

use std::io;
use std::path::PathBuf;

use holdfast_disk::{OpenErrorReason, StartError};
use holdfast_engine::OpenFailure;
use holdfast_net::BindError;
use holdfast_store::OpenError;
use holdfast_tls::CredentialsError;

use crate::config::{ConfigError, Invalid};
use crate::directory::ClaimError;
use crate::etcd::EtcdStartError;
use crate::limits::LimitError;
use crate::ports::{Listening, who_listens};
use crate::predecessor::Holder;

/// Why a node does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its configuration makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Its directory cannot be had.
    #[error(transparent)]
    Directory(#[from] ClaimError),
    /// It has no credentials.
    #[error(
        "there are no credentials in {}, and without them a node does not start\n\n\
         hint: `holdfast security found --config FILE`, with this node's file, makes the cluster's authority there, once, on one of \
         its machines; `holdfast security issue` makes the credentials of the others from it; a node that is to do without TLS \
         says so: off = true in the section [security] of its file", directory.display()
    )]
    NoCredentials {
        /// Where they are to be.
        directory: PathBuf,
    },
    /// A witness has none.
    #[error(
        "there are no credentials in {}, and without them a witness does not start\n\n\
         hint: `holdfast security issue --config FILE --witness WITNESS_FILE --out DIR` makes them on the machine of a node; copy them \
         here; where the nodes have no TLS, say so in this machine's file as in theirs: off = true in the section [security]", directory.display()
    )]
    NoWitnessCredentials {
        /// Where they are to be.
        directory: PathBuf,
    },
    /// Its credentials cannot be used.
    #[error("security: {0}")]
    Credentials(CredentialsError),
    /// It cannot log.
    #[error("write {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The operating system does not let it have what it needs.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// It cannot listen where it should.
    #[error("{key}: {source}{}", describe(taken_by.as_ref()))]
    Listen {
        /// The key of the configuration that names the address.
        key: &'static str,
        /// What the operating system says.
        source: BindError,
        /// Who has the port.
        taken_by: Option<Listening>,
    },
    /// Its etcd cannot be started.
    #[error(transparent)]
    Etcd(#[from] EtcdStartError),
    /// A device cannot be used.
    #[error("devices: {0}")]
    Devices(#[from] StartError),
    /// What is on the devices cannot be used.
    #[error("devices{}: {failure}", place(device.as_ref()))]
    Store {
        /// The device, if it is about one.
        device: Option<PathBuf>,
        /// Why not.
        failure: OpenFailure,
    },
    /// A device failed when the store was last opened.
    #[error(
        "{} failed when it was last opened\n\n\
         hint: the kernel's log says how (`dmesg`); the next start tries it again", path.display()
    )]
    Unusable {
        /// The device.
        path: PathBuf,
    },
    /// A device that came later is not there, and what is there holds no store.
    #[error(
        "{} is one of this node's devices, and is not there\n\n\
         hint: a node that needs it waits for it; to have a new store on what is there, remove devices.toml from the \
         node's directory", path.display()
    )]
    NotThere {
        /// The device.
        path: PathBuf,
    },
    /// What is configured holds no store, and this device, which is not configured any more, was one of the node's.
    #[error(
        "there is nothing of this node on {given}, and {}, which was one of its devices, is not in its configuration\n\n\
         hint: write its path into the configuration again, or the one under which it is to be found now; if what was on it \
         is given up, and the node is to begin with blank devices, remove devices.toml from its directory", path.display()
    )]
    NotGiven {
        /// The device.
        path: PathBuf,
        /// What is configured.
        given: String,
    },
    /// A device is shorter than it was.
    #[error(
        "{} {how}\n\n\
         hint: make it as long as it was, with what was in it, from its newest copy: a node that needs it waits for that; \
         else put another in its place with `holdfast device replace` where the node runs without it, or give the node blank \
         devices, and it is filled by others", path.display()
    )]
    CutShort {
        /// The device.
        path: PathBuf,
        /// How long it is, and was, in words.
        how: String,
    },
    /// A device has failed, and the others can be used.
    #[error(
        "{} has failed, and counts no more: start again, and the node goes on without it\n\n\
         hint: `holdfast device replace` puts another in its place", path.display()
    )]
    DeviceLost {
        /// The device.
        path: PathBuf,
    },
    /// A device has failed without which the node can do nothing.
    #[error(
        "{} has failed, and the node can do nothing without it: its journal is there\n\n\
         hint: the kernel's log says how (`dmesg`); the next start tries it again, and waits for it where it is \
         not there; if it is dead, give the node blank devices, and it is filled by others", path.display()
    )]
    NeededDeviceFailed {
        /// The device.
        path: PathBuf,
    },
    /// Which machine this is cannot be found out.
    #[error(
        "{}: {source}\n\n\
         hint: what is in this node's directory says which machine this is; what is damaged there may be removed: if \
         the node's devices are lost too, its log says then how this machine takes the node's place", path.display()
    )]
    Machine {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another machine became this node.
    #[error(
        "another machine has taken this node's place, with other devices\n\n\
         hint: its address is in this node's log; if that was a mistake, stop it, and start this one again, which \
         says how it gets its place back; if this machine is to stay as another node, give it another number and \
         name, and blank devices"
    )]
    Displaced,
    /// The operating system gives no thread, no descriptor.
    #[error("start: {0}")]
    Resources(#[from] io::Error),
    /// It did not stop cleanly in time, or was told twice.
    #[error("stopped before everything was handed over: others take over when its leases end")]
    Hurried,
}

impl NodeError {
    /// An address cannot be listened on; looks for who does.
    pub(crate) fn listen(key: &'static str, source: BindError) -> Self {
        let taken_by = source
            .is_taken()
            .then(|| who_listens(source.address))
            .flatten();
        Self::Listen {
            key,
            source,
            taken_by,
        }
    }
}

impl NodeError {
    /// Whether a device of the node's has failed, or is not there: then another start of it goes on without that, or
    /// waits for it.
    pub(crate) fn is_of_a_device(&self) -> bool {
        match self {
            Self::DeviceLost { .. }
            | Self::NeededDeviceFailed { .. }
            | Self::NotThere { .. }
            | Self::CutShort { .. }
            | Self::Unusable { .. } => true,
            Self::Store { failure, .. } => {
                matches!(failure, OpenFailure::Store(OpenError::DeviceFailed { .. }))
            }
            Self::Devices(StartError::Open(about)) => {
                matches!(about.reason, OpenErrorReason::Os { .. })
            }
            _ => false,
        }
    }

    /// Who has the port, if that is what is wrong.
    pub(crate) fn holder_of_port(&self) -> Option<Holder> {
        match self {
            Self::Listen {
                source, taken_by, ..
            } if source.is_taken() => Some(taken_by.as_ref().map(|it| it.pid).into()),
            _ => None,
        }
    }
}

fn describe(taken_by: Option<&Listening>) -> String {
    taken_by.map_or_else(String::new, |Listening { pid, name }| {
        format!(" (process {pid}, {name}, has it)")
    })
}

fn place(device: Option<&PathBuf>) -> String {
    device.map_or_else(String::new, |path| format!(": {}", path.display()))
}

#[cfg(test)]
mod tests {
    use holdfast_disk::OpenError as DiskOpenError;
    use holdfast_model::DiskId;

    use super::*;

    /// What runs beside the node goes on until the next start where that is about a device, and there is to be one.
    #[test]
    fn whether_it_is_about_a_device_is_told() {
        let path = || PathBuf::from("/dev/sdb");
        let devices = |reason| {
            NodeError::Devices(StartError::Open(DiskOpenError {
                path: path(),
                reason,
            }))
        };
        let store = |failure| NodeError::Store {
            device: Some(path()),
            failure: OpenFailure::Store(failure),
        };
        let (errno, action) = (5, "read");
        for (error, is_of_a_device) in [
            (NodeError::DeviceLost { path: path() }, true),
            (NodeError::NeededDeviceFailed { path: path() }, true),
            (NodeError::NotThere { path: path() }, true),
            (
                NodeError::NotGiven {
                    path: path(),
                    given: "/dev/sdc".to_owned(),
                },
                false,
            ),
            (store(OpenError::DeviceFailed { disk: DiskId(0) }), true),
            (devices(OpenErrorReason::Os { action, errno }), true),
            // An error in the file.
            (devices(OpenErrorReason::Missing), false),
            (devices(OpenErrorReason::Permission), false),
            (store(OpenError::NoFlashDevice), false),
            (NodeError::Displaced, false),
            (NodeError::Hurried, false),
        ] {
            assert_eq!(error.is_of_a_device(), is_of_a_device, "{error}");
        }
    }
}
