//! Answers with the tag of what they tell.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::IntoParams;

use super::guard::About;
use crate::documents::{
    AlarmKind, Initiator, Node, NodeDetails, Receiver, Retention, Settings, User, Volume,
};
use crate::{EntityTag, Precondition};

/// What a change may say of what it is for.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it is read by the document only")]
pub(super) struct IfMatch {
    /// What is changed has one of these entity tags, or nothing is: else 412.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// What a creation may say of itself.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it is read by the document only")]
pub(super) struct KeyHeader {
    /// Names this request: who repeats it, within a day, has nothing made a second time; another one with the same key is refused.
    #[param(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
}

/// What a question may say that it knows already.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it is read by the document only")]
pub(super) struct IfNoneMatch {
    /// Who knows what has one of these entity tags is not told it again: 304.
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// A document of which something may be changed.
pub(super) trait Changeable: Serialize {
    /// The tag of that.
    fn tag(&self) -> Option<&EntityTag>;
}

macro_rules! changeable {
    ($($document:ident: $($field:ident).*;)*) => {$(
        impl Changeable for $document {
            fn tag(&self) -> Option<&EntityTag> {
                self.$($field).*.as_ref()
            }
        }
    )*};
}

changeable! {
    Volume: etag;
    Node: etag;
    NodeDetails: node.etag;
    Settings: etag;
    Retention: etag;
    Initiator: etag;
    Receiver: etag;
    User: etag;
    AlarmKind: etag;
}

/// A document, and its tag as a header.
pub(super) struct Tagged<T>(pub(super) T);

impl<T: Changeable> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let tag = self.0.tag().cloned();
        let mut response = Json(self.0).into_response();
        if let Some(tag) = tag {
            add(&mut response, &tag);
        }
        response
    }
}

/// The answer to a change: what was set, for the log of what was done, and what there is now.
pub(super) type Set<T> = (Option<Extension<About>>, Tagged<T>);

/// The answer for somebody who may have it already: of what consists of nothing but what its tag names.
pub(super) fn unless_known(
    precondition: &Precondition,
    tag: Option<&EntityTag>,
    answer: impl IntoResponse,
) -> Response {
    let known = tag.filter(|tag| precondition.is_known(tag));
    let mut response = match known {
        Some(_) => StatusCode::NOT_MODIFIED.into_response(),
        None => answer.into_response(),
    };
    if let Some(tag) = tag {
        add(&mut response, tag);
    }
    response
}

fn add(response: &mut Response, tag: &EntityTag) {
    let value = HeaderValue::from_str(tag.as_str()).expect("a tag is of printable letters");
    response.headers_mut().insert(header::ETAG, value);
}
