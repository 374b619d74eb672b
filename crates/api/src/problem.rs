//! What went wrong, as a problem document (RFC 9457); and which HTTP status that is. The only file
//! that knows.

use std::borrow::Cow;
use std::fmt;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::trace::TraceContext;

/// What kind of problem it is. The kinds are for programs, titles and details for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ProblemKind {
    /// The request cannot be understood, or asks for something that there cannot be.
    #[serde(rename = "urn:holdfast:problem:invalid")]
    Invalid,
    /// There is no volume of that name.
    #[serde(rename = "urn:holdfast:problem:no-such-volume")]
    NoSuchVolume,
    /// There is no initiator of that name.
    #[serde(rename = "urn:holdfast:problem:no-such-initiator")]
    NoSuchInitiator,
    /// There is no node of that name.
    #[serde(rename = "urn:holdfast:problem:no-such-node")]
    NoSuchNode,
    /// There is no task of that id, or not any more.
    #[serde(rename = "urn:holdfast:problem:no-such-task")]
    NoSuchTask,
    /// What is wanted of a node cannot be done, or would cost the last good copy of something.
    #[serde(rename = "urn:holdfast:problem:refused")]
    Refused,
    /// There is another volume of that name.
    #[serde(rename = "urn:holdfast:problem:volume-exists")]
    VolumeExists,
    /// Initiators have sessions with the volume's target.
    #[serde(rename = "urn:holdfast:problem:volume-in-use")]
    VolumeInUse,
    /// The volume is larger already.
    #[serde(rename = "urn:holdfast:problem:volume-shrinks")]
    VolumeShrinks,
    /// The policy needs more nodes.
    #[serde(rename = "urn:holdfast:problem:too-few-nodes")]
    TooFewNodes,
    /// The cluster has as many volumes, or slices, as it can have, or its metadata store takes no change.
    #[serde(rename = "urn:holdfast:problem:cluster-full")]
    ClusterFull,
    /// Others change the same things at the same time, again and again.
    #[serde(rename = "urn:holdfast:problem:conflict")]
    Conflict,
    /// What was to be changed is not as the request says that it is. Nothing was done.
    #[serde(rename = "urn:holdfast:problem:precondition-failed")]
    PreconditionFailed,
    /// The request's key was another request's.
    #[serde(rename = "urn:holdfast:problem:idempotency-key-reused")]
    KeyReused,
    /// It was done for this key before, and what came of it is told only once.
    #[serde(rename = "urn:holdfast:problem:already-made")]
    AlreadyMade,
    /// What is needed for an answer cannot be reached. What was asked for may or may not have been
    /// done.
    #[serde(rename = "urn:holdfast:problem:unavailable")]
    Unavailable,
    /// Too many ask for the same at the same time. Nothing was done.
    #[serde(rename = "urn:holdfast:problem:busy")]
    Busy,
    /// There is no node behind this interface.
    #[serde(rename = "urn:holdfast:problem:no-node")]
    NoNode,
    /// There is nothing at this address.
    #[serde(rename = "urn:holdfast:problem:no-such-resource")]
    NoSuchResource,
    /// What is at this address does not know this method.
    #[serde(rename = "urn:holdfast:problem:no-such-method")]
    NoSuchMethod,
    /// The request's body is too long.
    #[serde(rename = "urn:holdfast:problem:too-long")]
    TooLong,
    /// The request's body is not declared to be JSON.
    #[serde(rename = "urn:holdfast:problem:not-json")]
    NotJson,
    /// Who asks is not known: nothing was shown, or what was shown is nobody's, or holds no more.
    #[serde(rename = "urn:holdfast:problem:unauthenticated")]
    Unauthenticated,
    /// Who asks may not.
    #[serde(rename = "urn:holdfast:problem:forbidden")]
    Forbidden,
    /// Too many passwords were tried in vain. The header `Retry-After` says how many seconds to wait.
    #[serde(rename = "urn:holdfast:problem:too-many-attempts")]
    TooManyAttempts,
    /// There is no user of that name.
    #[serde(rename = "urn:holdfast:problem:no-such-user")]
    NoSuchUser,
    /// There is a user of that name already.
    #[serde(rename = "urn:holdfast:problem:user-exists")]
    UserExists,
    /// There is no token of that id.
    #[serde(rename = "urn:holdfast:problem:no-such-token")]
    NoSuchToken,
    /// There is no alarm of that id that lasts, or no kind of alarm of that code.
    #[serde(rename = "urn:holdfast:problem:no-such-alarm")]
    NoSuchAlarm,
    /// Nobody of that name is told of alarms.
    #[serde(rename = "urn:holdfast:problem:no-such-receiver")]
    NoSuchReceiver,
    /// A receiver could not be told.
    #[serde(rename = "urn:holdfast:problem:undelivered")]
    Undelivered,
    /// A mistake of this program.
    #[serde(rename = "urn:holdfast:problem:internal")]
    Internal,
    /// A kind that this version does not know.
    #[serde(other, rename = "urn:holdfast:problem:other")]
    Other,
}

impl ProblemKind {
    /// All of them.
    #[cfg(test)]
    const ALL: [Self; 33] = [
        Self::Invalid,
        Self::NoSuchVolume,
        Self::NoSuchInitiator,
        Self::NoSuchNode,
        Self::NoSuchTask,
        Self::Refused,
        Self::VolumeExists,
        Self::VolumeInUse,
        Self::VolumeShrinks,
        Self::TooFewNodes,
        Self::ClusterFull,
        Self::Conflict,
        Self::PreconditionFailed,
        Self::KeyReused,
        Self::AlreadyMade,
        Self::Unavailable,
        Self::Busy,
        Self::NoNode,
        Self::NoSuchResource,
        Self::NoSuchMethod,
        Self::TooLong,
        Self::NotJson,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::TooManyAttempts,
        Self::NoSuchUser,
        Self::UserExists,
        Self::NoSuchToken,
        Self::NoSuchAlarm,
        Self::NoSuchReceiver,
        Self::Undelivered,
        Self::Internal,
        Self::Other,
    ];

    const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::NoSuchVolume
            | Self::NoSuchInitiator
            | Self::NoSuchNode
            | Self::NoSuchTask
            | Self::NoSuchUser
            | Self::NoSuchToken
            | Self::NoSuchAlarm
            | Self::NoSuchReceiver
            | Self::NoNode
            | Self::NoSuchResource => StatusCode::NOT_FOUND,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused
            | Self::Undelivered
            | Self::VolumeExists
            | Self::UserExists
            | Self::VolumeInUse
            | Self::VolumeShrinks
            | Self::TooFewNodes
            | Self::ClusterFull
            | Self::AlreadyMade
            | Self::Conflict => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal | Self::Other => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What its name ends with.
    const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NoSuchVolume => "no-such-volume",
            Self::NoSuchInitiator => "no-such-initiator",
            Self::NoSuchNode => "no-such-node",
            Self::NoSuchTask => "no-such-task",
            Self::Refused => "refused",
            Self::VolumeExists => "volume-exists",
            Self::VolumeInUse => "volume-in-use",
            Self::VolumeShrinks => "volume-shrinks",
            Self::TooFewNodes => "too-few-nodes",
            Self::ClusterFull => "cluster-full",
            Self::Conflict => "conflict",
            Self::PreconditionFailed => "precondition-failed",
            Self::KeyReused => "idempotency-key-reused",
            Self::AlreadyMade => "already-made",
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::NoNode => "no-node",
            Self::NoSuchResource => "no-such-resource",
            Self::NoSuchMethod => "no-such-method",
            Self::TooLong => "too-long",
            Self::NotJson => "not-json",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::TooManyAttempts => "too-many-attempts",
            Self::NoSuchUser => "no-such-user",
            Self::UserExists => "user-exists",
            Self::NoSuchToken => "no-such-token",
            Self::NoSuchAlarm => "no-such-alarm",
            Self::NoSuchReceiver => "no-such-receiver",
            Self::Undelivered => "undelivered",
            Self::Internal => "internal",
            Self::Other => "other",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Invalid => "the request is not valid",
            Self::NoSuchVolume => "no such volume",
            Self::NoSuchNode => "no such node",
            Self::NoSuchTask => "no such task",
            Self::NoSuchInitiator => "no such initiator",
            Self::Refused => "refused",
            Self::VolumeExists => "the volume exists",
            Self::VolumeInUse => "the volume is in use",
            Self::VolumeShrinks => "volumes do not shrink",
            Self::TooFewNodes => "too few nodes",
            Self::ClusterFull => "the cluster is full",
            Self::Conflict => "others change the same",
            Self::PreconditionFailed => "changed meanwhile",
            Self::KeyReused => "the key is another request's",
            Self::AlreadyMade => "it was made before",
            Self::Unavailable => "not available",
            Self::Busy => "too many ask at a time",
            Self::NoNode => "no node here",
            Self::NoSuchResource => "nothing here",
            Self::NoSuchMethod => "no such method",
            Self::TooLong => "the request is too long",
            Self::NotJson => "the request is not JSON",
            Self::Unauthenticated => "who asks is not known",
            Self::Forbidden => "not allowed",
            Self::TooManyAttempts => "too many attempts",
            Self::NoSuchUser => "no such user",
            Self::UserExists => "the user exists",
            Self::NoSuchToken => "no such token",
            Self::NoSuchAlarm => "no such alarm",
            Self::NoSuchReceiver => "no such receiver",
            Self::Undelivered => "could not be told",
            Self::Internal | Self::Other => "a mistake of this program",
        }
    }

    /// What to do about it where nobody knows better: the next step, for people.
    const fn hint(self) -> &'static str {
        match self {
            Self::Invalid => {
                "correct what it names; /api/v1/openapi.json describes what is expected"
            }
            Self::NoSuchVolume => "`holdfast volume list` tells which there are",
            Self::NoSuchInitiator => "`holdfast initiator list` tells which there are",
            Self::NoSuchNode => "`holdfast node list` tells which there are",
            Self::NoSuchTask => "`holdfast tasks` tells which are under way; others have ended",
            Self::NoSuchUser => "`holdfast user list` tells which there are",
            Self::NoSuchToken => "`holdfast token list` tells which there are",
            Self::NoSuchAlarm => "`holdfast alarm list` and `holdfast alarm kinds` tell which",
            Self::NoSuchReceiver => "`holdfast receiver list` tells which there are",
            Self::Refused => "change what stands in its way, and repeat it",
            Self::VolumeExists => "choose another name, or use the volume that there is",
            Self::VolumeInUse => "end the sessions at the hosts, or do it by force",
            Self::VolumeShrinks => "make a smaller volume, and copy to it what is to stay",
            Self::TooFewNodes => "add nodes, or choose a policy that needs fewer",
            Self::ClusterFull => "remove what is not needed any more, and repeat it",
            Self::Conflict => "repeat it in a moment: nothing was done",
            Self::PreconditionFailed => "read it again, and decide by what it is now",
            Self::KeyReused => "choose another key: one is for one request and its repetitions",
            Self::AlreadyMade => "look at what was made; to make another one choose another key",
            Self::Unavailable => "look whether it was done, and repeat it, or ask another node",
            Self::Busy => "repeat it in a moment, or ask another node: nothing was done",
            Self::NoNode => "ask a node: `holdfast node list` tells where they answer",
            Self::NoSuchResource => "/api/v1/openapi.json describes what there is",
            Self::NoSuchMethod => "/api/v1/openapi.json describes which methods there are",
            Self::TooLong => "send a shorter one; /api/v1/openapi.json describes what is expected",
            Self::NotJson => "send JSON, with `Content-Type: application/json`",
            Self::Unauthenticated => {
                "people log in at the console, programs and the command line bring a token, in HOLDFAST_TOKEN. A demo prints the line \
                 with `export` that has it (it is in the file `token` in its directory); of a cluster an administrator makes one at \
                 the console, or root on one of its machines, with `--credentials`"
            }
            Self::Forbidden => "have an administrator do it, or give you a role that may",
            Self::TooManyAttempts => "wait for as long as `Retry-After` says, and try again",
            Self::UserExists => "choose another name, or change the user that there is",
            Self::Undelivered => "correct the receiver's settings, and send it a test again",
            Self::Internal => "repeat it; if it stays so report it, with the nodes' logs",
            Self::Other => "ask with a newer version, which may know what this is",
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem it is.
    #[serde(rename = "type")]
    pub kind: ProblemKind,
    /// The kind as a short word that stays what it is.
    #[serde(default)]
    pub code: Cow<'static, str>,
    /// The kind in words.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// What exactly.
    #[schema(value_type = String)]
    pub detail: Box<str>,
    /// Of which request it is: its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub instance: Option<Box<str>>,
    /// The trace of that request: with it, lines in the logs of all nodes that had to do with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub trace_id: Option<Box<str>>,
    /// The next step: what to do about it. Only a node of an earlier version leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hint: Option<Box<str>>,
    /// How many seconds to wait before it is tried again, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u16>,
}

impl Problem {
    /// A problem of that kind, with the next step of its kind.
    #[must_use]
    pub fn new(kind: ProblemKind, detail: impl fmt::Display) -> Self {
        Self {
            kind,
            code: Cow::Borrowed(kind.code()),
            title: Cow::Borrowed(kind.title()),
            status: kind.status().as_u16(),
            detail: detail.to_string().into(),
            instance: None,
            trace_id: None,
            hint: Some(kind.hint().into()),
            retry_after_seconds: None,
        }
    }

    /// With a next step that is better than that of its kind.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self {
            hint: Some(hint.to_string().into()),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.kind.status(), Json(&self)).into_response();
        let content = HeaderValue::from_static("application/problem+json");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content);
        if self.kind == ProblemKind::Unauthenticated {
            // RFC 9110, section 11.6.1.
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(Answered(self));
        response
    }
}

/// The problem that a response is made of, for whoever knows of which request it is.
#[derive(Clone)]
pub(crate) struct Answered(pub(crate) Problem);

/// Problems say of which request they are, and of which trace.
pub(crate) async fn with_instance(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    let Some(Answered(problem)) = response.extensions_mut().remove() else {
        return response;
    };
    let instance = Some(path.into_boxed_str());
    // What was said beside it, such as which methods there are, stays.
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let trace_id = TraceContext::present().map(|trace| trace.id().into_boxed_str());
    let whole = Problem {
        instance,
        trace_id,
        ..problem
    };
    let (of_whole, body) = whole.into_response().into_parts();
    // Whoever logs it knows what it is.
    head.extensions.extend(of_whole.extensions);
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that compares the one finds what another that compares the other does.
    #[test]
    fn the_code_is_the_end_of_the_type() {
        for kind in ProblemKind::ALL {
            let problem = serde_json::to_value(Problem::new(kind, "so")).unwrap();
            let name = problem["type"].as_str().unwrap().to_owned();
            let code = problem["code"].as_str().unwrap();
            assert_eq!(name, format!("urn:holdfast:problem:{code}"));
            assert_eq!(
                serde_json::from_value::<Problem>(problem).unwrap().kind,
                kind
            );
        }
    }

    #[test]
    fn every_kind_tells_the_next_step_and_a_place_that_knows_better_another_one() {
        for kind in ProblemKind::ALL {
            let problem = serde_json::to_value(Problem::new(kind, "so")).unwrap();
            let hint = problem["hint"].as_str().unwrap();
            assert!(hint.len() > 20, "{kind:?}: {hint}");
            assert!(!hint.ends_with('.'), "{kind:?}: {hint}");
            assert_ne!(hint, kind.title(), "{kind:?}");
        }
        let better = Problem::new(ProblemKind::Refused, "so").hint("look");
        assert_eq!(better.hint.as_deref(), Some("look"));
        let document: serde_json::Value = serde_json::from_str(&crate::openapi()).unwrap();
        let hint = &document["components"]["schemas"]["Problem"]["properties"]["hint"];
        let means = hint["description"].as_str().unwrap();
        assert!(means.starts_with("The next step"), "{means}");
    }

    #[test]
    fn what_versions_of_before_and_after_say_is_read() {
        let before =
            r#"{"type":"urn:holdfast:problem:conflict","title":"t","status":409,"detail":"d"}"#;
        let read: Problem = serde_json::from_str(before).unwrap();
        assert_eq!((read.kind, &*read.code), (ProblemKind::Conflict, ""));
        let after = r#"{"type":"urn:holdfast:problem:new","code":"new","title":"t","status":418,"detail":"d"}"#;
        let read: Problem = serde_json::from_str(after).unwrap();
        assert_eq!((read.kind, &*read.code), (ProblemKind::Other, "new"));
    }
}
