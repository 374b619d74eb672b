//! Why a command failed, and what to do about it.

use std::fmt;

use holdfast_api::client::Failure as ApiFailure;
use holdfast_api::{ClientError, Problem, ProblemKind};
use holdfast_tls::ConnectError;

/// A command has failed.
#[derive(Debug)]
pub(crate) struct Failure {
    problem: Box<Problem>,
    told: Told,
    /// What the process ends with.
    code: u8,
}

/// What it ends with where nothing else is said.
const CODE: u8 = 1;
/// What a command ends with that was asked something, where the answer is no.
const CODE_NO: u8 = 3;

/// Where a failure was told of already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    /// There is a result on stdout, or nothing can be written there.
    Stdout,
    /// What was printed says it already, beside what could be done.
    Everywhere,
}

impl Failure {
    /// The answer to what was asked is no. The result has said why.
    pub(crate) fn answer_is_no() -> Self {
        Self::new("the answer is no").exit(CODE_NO).told()
    }

    /// For a reason in words, which may end with a hint of its own, after an empty line.
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        let reason = reason.to_string();
        let (detail, hint) = match reason.split_once("\n\nhint: ") {
            Some((detail, hint)) => (detail, Some(hint)),
            None => (reason.as_str(), None),
        };
        let problem = Problem::new(ProblemKind::Other, detail);
        Self {
            problem: Box::new(Problem {
                title: "failed".into(),
                hint: hint.map(Into::into),
                ..problem
            }),
            told: Told::No,
            code: CODE,
        }
    }

    /// With another exit code.
    pub(crate) fn exit(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// What the process ends with.
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// With what to do about it.
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        Self {
            problem: Box::new(self.problem.hint(hint)),
            ..self
        }
    }

    /// As one that the command's result and its talk have told of: it only ends the process.
    pub(crate) fn told(self) -> Self {
        Self {
            told: Told::Everywhere,
            ..self
        }
    }

    /// As one that comes after the command's result: people are told, and stdout says no more.
    pub(crate) fn told_on_stdout(self) -> Self {
        Self {
            told: Told::Stdout,
            ..self
        }
    }

    /// Whether nothing more is to be said.
    pub(crate) fn is_told(&self) -> bool {
        self.told == Told::Everywhere
    }

    /// Whether stdout says no more.
    pub(crate) fn is_told_on_stdout(&self) -> bool {
        self.told != Told::No
    }

    /// The failure as a document.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.problem.detail)?;
        match &self.problem.hint {
            // What went wrong may say already what to do.
            Some(hint) if self.problem.detail.contains(&**hint) => Ok(()),
            Some(hint) => write!(formatter, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            told: Told::No,
            code: CODE,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let hint = match &error {
            ClientError::Problem(problem) => {
                return problem.clone().into();
            }
            ClientError::Unreachable(why) if why.iter().any(|(_, why)| is_trust(why)) => {
                "--ca, or HOLDFAST_CA, names the certificate of the cluster's authority: authority.pem among the credentials of each \
                 of its machines; on one of them --credentials, or HOLDFAST_CREDENTIALS, names those. For a demo, give the line with \
                 `export` that it printed: the file is tls/authority.pem in its directory"
            }
            ClientError::Unreachable(why) if why.iter().any(|(_, why)| is_in_plain(why)) => {
                "say https://, with --ca or HOLDFAST_CA; where nobody can listen on the way, or it does not matter who does, \
                 --token-over-http has the token told"
            }
            ClientError::Unreachable(_) => {
                "is the cluster running? `holdfast demo` starts one here; --api, or HOLDFAST_API, \
                 names another"
            }
            ClientError::Unknown { .. } => "look whether it was done before you repeat it",
        };
        let kind = ProblemKind::Unavailable;
        Problem::new(kind, error).hint(hint).into()
    }
}

/// Whether nobody is trusted, or somebody else.
fn is_trust(why: &ApiFailure) -> bool {
    matches!(
        why,
        ApiFailure::NoAuthority | ApiFailure::Tls(ConnectError::Untrusted)
    )
}

/// Whether a token was not told.
const fn is_in_plain(why: &ApiFailure) -> bool {
    matches!(why, ApiFailure::TokenInPlain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_told_apart() {
        let failure = Failure::new("no luck\n\nhint: try again");
        assert_eq!(&*failure.problem().detail, "no luck");
        assert_eq!(failure.problem().hint.as_deref(), Some("try again"));
        assert_eq!(failure.to_string(), "no luck\n\nhint: try again");
        assert_eq!(Failure::new("no luck").to_string(), "no luck");
        let same = Failure::new("no luck; try again").hint("try again");
        assert_eq!(same.to_string(), "no luck; try again");
        let url = "https://127.0.0.1:7460".parse().unwrap();
        let trusts_none = ClientError::Unreachable(vec![(url, ApiFailure::NoAuthority)]);
        let says = Failure::from(trusts_none).to_string();
        assert!(says.contains("whose certificate"), "{says}");
        assert!(says.contains("--ca, ") && says.contains("demo"), "{says}");
        let node = Failure::from(Problem::new(ProblemKind::NoSuchNode, "no node n9"));
        let says = "no node n9\n\nhint: `holdfast node list` tells which there are";
        assert_eq!(node.to_string(), says);
    }
}
