//! Alarms and who is told, as the client asks for them.

use axum::http::Method;

use super::{ApiClient, ClientError, document, nothing, path_of};
use crate::documents::{
    Alarm, AlarmAcknowledge, AlarmChoice, AlarmKind, AlarmKindChange, AlarmKindList, AlarmList,
    Receiver, ReceiverList, ReceiverPut,
};

impl ApiClient {
    /// The alarms.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn alarms(&self, which: AlarmChoice) -> Result<AlarmList, ClientError> {
        let which = match which {
            AlarmChoice::Raised => "raised",
            AlarmChoice::Cleared => "cleared",
            AlarmChoice::All => "all",
        };
        self.read(&format!("/alarms?state={which}")).await
    }

    /// Takes note of an alarm.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn acknowledge_alarm(
        &self,
        id: u64,
        request: &AlarmAcknowledge,
    ) -> Result<Alarm, ClientError> {
        let path = format!("/alarms/{id}/acknowledge");
        self.change(Method::POST, &path, Some(request), document)
            .await
    }

    /// The kinds of alarms, and when they are raised.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn alarm_kinds(&self) -> Result<AlarmKindList, ClientError> {
        self.read("/alarm-kinds").await
    }

    /// Changes when alarms of a kind are raised.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_alarm_kind(
        &self,
        kind: &str,
        change: &AlarmKindChange,
    ) -> Result<AlarmKind, ClientError> {
        let path = path_of("alarm-kinds", kind);
        self.change(Method::PATCH, &path, Some(change), document)
            .await
    }

    /// Has alarms of a kind raised as if nobody had changed that.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn reset_alarm_kind(&self, kind: &str) -> Result<AlarmKind, ClientError> {
        let path = path_of("alarm-kinds", kind);
        self.change(Method::DELETE, &path, None::<&()>, document)
            .await
    }

    /// Those who are told of alarms.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn receivers(&self) -> Result<ReceiverList, ClientError> {
        self.read("/receivers").await
    }

    /// Has somebody told of alarms.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put_receiver(
        &self,
        name: &str,
        request: &ReceiverPut,
    ) -> Result<Receiver, ClientError> {
        let path = path_of("receivers", name);
        self.change(Method::PUT, &path, Some(request), document)
            .await
    }

    /// Has somebody told of alarms no more.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_receiver(&self, name: &str) -> Result<(), ClientError> {
        let path = path_of("receivers", name);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }

    /// Tells a receiver of an alarm that is none, now.
    ///
    /// # Errors
    /// [`ClientError`]; what went wrong.
    pub async fn test_receiver(&self, name: &str) -> Result<(), ClientError> {
        let path = format!("{}/test", path_of("receivers", name));
        self.change(Method::POST, &path, None::<&()>, nothing).await
    }
}
