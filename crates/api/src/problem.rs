//! What went wrong, as a problem document (RFC 9457); and which HTTP status that is. The only file
//! that knows.

use std::borrow::Cow;
use std::fmt;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of problem it is. The kinds are for programs, titles and details for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// A mistake of this program.
    #[serde(rename = "urn:holdfast:problem:internal")]
    Internal,
    /// A kind that this version does not know.
    #[serde(other, rename = "urn:holdfast:problem:other")]
    Other,
}

impl ProblemKind {
    const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::NoSuchVolume
            | Self::NoSuchInitiator
            | Self::NoSuchNode
            | Self::NoNode
            | Self::NoSuchResource => StatusCode::NOT_FOUND,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused
            | Self::VolumeExists
            | Self::VolumeInUse
            | Self::VolumeShrinks
            | Self::TooFewNodes
            | Self::ClusterFull
            | Self::Conflict => StatusCode::CONFLICT,
            Self::Unavailable | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal | Self::Other => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Invalid => "the request is not valid",
            Self::NoSuchVolume => "no such volume",
            Self::NoSuchNode => "no such node",
            Self::NoSuchInitiator => "no such initiator",
            Self::Refused => "refused",
            Self::VolumeExists => "the volume exists",
            Self::VolumeInUse => "the volume is in use",
            Self::VolumeShrinks => "volumes do not shrink",
            Self::TooFewNodes => "too few nodes",
            Self::ClusterFull => "the cluster is full",
            Self::Conflict => "others change the same",
            Self::Unavailable => "not available",
            Self::Busy => "too many ask at a time",
            Self::NoNode => "no node here",
            Self::NoSuchResource => "nothing here",
            Self::NoSuchMethod => "no such method",
            Self::TooLong => "the request is too long",
            Self::NotJson => "the request is not JSON",
            Self::Internal | Self::Other => "a mistake of this program",
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem it is.
    #[serde(rename = "type")]
    pub kind: ProblemKind,
    /// The kind in words.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// What exactly.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of that kind.
    #[must_use]
    pub fn new(kind: ProblemKind, detail: impl fmt::Display) -> Self {
        Self {
            kind,
            title: Cow::Borrowed(kind.title()),
            status: kind.status().as_u16(),
            detail: detail.to_string(),
            hint: None,
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self {
            hint: Some(hint.to_string()),
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
        let mut response = (self.kind.status(), Json(self)).into_response();
        let content = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, content);
        response
    }
}
