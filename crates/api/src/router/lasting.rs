//! Answers that go on, such as the stream of events: they end when who asked for them may have them no more.
//!
//! Invariants:
//! - an answer whose length was known when it began is left alone: it is there already, and does not go on;
//! - any other ends within [`ASKED_EVERY`], and what the question takes, of when whoever gets it was logged out, removed,
//!   disabled, or has a role that does not do, or when none of that can be known;
//! - it ends as one that is over: who asks again is told why not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use holdfast_identity::Caller;
use hyper::body::{Frame, SizeHint};

use super::permissions::Need;
use crate::identities::{Identities, Shown};

/// How often it is asked whether that one still may: what is known is a second old besides.
pub(super) const ASKED_EVERY: Duration = Duration::from_secs(2);

/// What somebody has shown, to be shown again.
pub(super) enum Proven {
    Token(String),
    Session(String),
}

impl From<Shown<'_>> for Proven {
    fn from(shown: Shown<'_>) -> Self {
        match shown {
            Shown::Token(token) => Self::Token(token.to_owned()),
            Shown::Session(session) => Self::Session(session.to_owned()),
        }
    }
}

impl Proven {
    const fn as_shown(&self) -> Shown<'_> {
        match self {
            Self::Token(token) => Shown::Token(token.as_str()),
            Self::Session(session) => Shown::Session(session.as_str()),
        }
    }
}

/// The answer, ended when it has to be. Who has shown nothing that ends gets it as it is.
pub(super) fn while_allowed(
    response: Response,
    identities: &Arc<dyn Identities>,
    shown: Option<Proven>,
    need: Need,
) -> Response {
    let Some(shown) = shown else {
        return response;
    };
    response.map(|body| {
        if body.size_hint().exact().is_some() {
            return body;
        }
        let over = Box::pin(over(Arc::clone(identities), shown, need));
        Body::new(Lasting { body, over })
    })
}

/// Comes back when that one may no more.
async fn over(identities: Arc<dyn Identities>, shown: Proven, need: Need) {
    loop {
        tokio::time::sleep(ASKED_EVERY).await;
        let caller = identities.who(shown.as_shown()).await;
        if !caller.is_ok_and(|caller| may(&caller, need)) {
            return;
        }
    }
}

fn may(caller: &Caller, need: Need) -> bool {
    match need {
        Need::Permission(permission) => caller.may(permission),
        Need::Nothing | Need::Anyone => true,
    }
}

struct Lasting {
    body: Body,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().poll(context).is_ready() {
            // Nothing of it is asked for again, and whoever makes it is told so.
            self.body = Body::empty();
            self.over = Box::pin(std::future::pending());
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_identity::{Area, Permission, Role};

    use super::*;

    #[test]
    fn a_lesser_role_does_not_do_any_more() {
        let need = Need::Permission(Permission {
            role: Role::Operator,
            area: Area::Cluster,
        });
        let of = |role| Caller {
            role,
            ..Caller::node(1)
        };
        assert!(may(&of(Role::Operator), need));
        assert!(!may(&of(Role::Viewer), need));
        assert!(may(&of(Role::Viewer), Need::Anyone));
    }
}
