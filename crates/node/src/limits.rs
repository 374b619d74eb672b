//! What the operating system lets this process have, looked at before anything needs it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are open besides connections: devices, logs, libraries, some to spare.
const FILES_BESIDES: u64 = 256;
/// Locked memory below which kernels before 5.12 refuse an io_uring of ours.
const LOCKED_BYTES_MIN: u64 = 8 << 20;

/// The process may not have what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too few open files.
    #[error(
        "this process may open {allowed} files, but needs {needed}\n\n\
         hint: raise the limit with `ulimit -n {needed}`, or LimitNOFILE={needed} in the service"
    )]
    OpenFiles {
        /// The hard limit.
        allowed: u64,
        /// What is needed.
        needed: u64,
    },
}

/// Raises the limit of open files to what `connections` need, and looks at that of locked memory.
///
/// # Errors
/// [`LimitError`] if the limit is too low and may not be raised.
pub fn prepare(connections: usize) -> Result<(), LimitError> {
    let needed = connections as u64 + FILES_BESIDES;
    let allowed = raise(Resource::Nofile, needed);
    if allowed < needed {
        return Err(LimitError::OpenFiles { allowed, needed });
    }
    let locked = raise(Resource::Memlock, LOCKED_BYTES_MIN);
    if locked < LOCKED_BYTES_MIN {
        tracing::warn!(
            "this process may lock {locked} bytes of memory: a kernel before 5.12 may refuse \
             io_uring, and disks are driven by threads then; LimitMEMLOCK={LOCKED_BYTES_MIN} \
             in the service, or `ulimit -l`, mends it"
        );
    }
    Ok(())
}

/// Raises the soft limit to `needed` if the hard one lets it, and tells what holds then.
fn raise(resource: Resource, needed: u64) -> u64 {
    let limit = getrlimit(resource);
    let soft = limit.current.unwrap_or(u64::MAX);
    if soft >= needed {
        return soft;
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(needed.min(hard)),
        maximum: limit.maximum,
    };
    match setrlimit(resource, raised) {
        Ok(()) => needed.min(hard),
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_told_with_a_way_out() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let Some(hard) = hard else {
            return;
        };
        let connections = usize::try_from(hard).unwrap();
        let error = prepare(connections).unwrap_err();
        let needed = hard + FILES_BESIDES;
        assert_eq!(
            error,
            LimitError::OpenFiles {
                allowed: hard,
                needed
            }
        );
        assert!(error.to_string().contains(&format!("ulimit -n {needed}")));
    }

    #[test]
    fn what_can_be_had_is_taken() {
        assert_eq!(prepare(64), Ok(()));
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(limit >= 64 + FILES_BESIDES);
    }
}
