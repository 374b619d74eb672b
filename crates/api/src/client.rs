//! A client of the interface, as the command line and the nodes use it.
//!
//! Invariants:
//! - what may change something is done once at most: it goes on to the next URL only where nothing was sent, or where
//!   what answered says that it has no such thing, or is no Holdfast; reads go on from whoever cannot answer them;
//! - a token is not sent without TLS to another machine, unless that is said;
//! - where nobody has answered, or who has was not the only one that was asked, the error says what each did.

mod access;
mod alarms;
mod connection;
mod events;
mod history;
mod identity;
mod log;
mod paths;
mod retention;
mod stalls;
mod support;
mod tasks;
mod traffic;
mod url;

use std::time::Duration;

use axum::http::{Method, Request, StatusCode, header};
use holdfast_tls::{ConnectError, Connector};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::documents::{
    Created, DeviceChange, DeviceList, Explanation, LocalCluster, LocalReport, Node, NodeChange,
    NodeDetails, NodeList, Settings, SettingsChange, Status, Volume, VolumeCreate, VolumeDelete,
    VolumeGrow, VolumeList,
};
use crate::trace::TraceContext;
use crate::{Problem, ProblemKind};

pub use self::url::{ApiUrl, UrlError};

/// How long an answer may take: a little more than a server gives itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(65);
/// How long one to a question may take: servers ask nodes for a second, and the largest volume takes some
/// more.
const READ_TIME_MAX: Duration = Duration::from_secs(15);
/// The same while there is somebody else to ask.
const READ_TIME_MAX_OF_MANY: Duration = Duration::from_secs(4);
/// Bytes in an answer at most: the largest volume has 16,384 slices.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The interface says so.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Nobody answers, at any of the URLs that were tried: why not, at each.
    #[error("cannot reach the API at {}", each(.0))]
    Unreachable(Vec<(ApiUrl, Failure)>),
    /// The request was sent, and no answer came: it may have been done, or not.
    #[error("no answer from the API at {url}: {reason}; what was asked for may have been done")]
    Unknown {
        /// Where.
        url: ApiUrl,
        /// Why not.
        reason: Failure,
    },
}

fn each(unreached: &[(ApiUrl, Failure)]) -> String {
    let each = unreached.iter();
    let each = each.map(|(url, reason)| format!("{url}: {reason}"));
    each.collect::<Vec<_>>().join("; nor at ")
}

/// Why one URL gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It took too long.
    #[error("it took too long")]
    TooSlow,
    /// The network refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is another machine, to be reached without TLS, and would be told a token.
    #[error(
        "the token would go over the network for everybody to read: the URL is http://, and of another machine"
    )]
    TokenInPlain,
    /// It is to be reached over TLS, and nobody is trusted.
    #[error("the URL is https://, and nothing says whose certificate is to be trusted")]
    NoAuthority,
    /// There is no TLS with it.
    #[error(transparent)]
    Tls(#[from] ConnectError),
    /// The connection broke, or what came is no HTTP.
    #[error("the connection broke: {0}")]
    Http(#[from] hyper::Error),
    /// What came is no answer of this interface.
    #[error("what answers is not Holdfast's API (HTTP status {0})")]
    Stranger(StatusCode),
}

/// A client of one cluster, by one URL or several.
#[derive(Clone, Debug)]
pub struct ApiClient {
    urls: Vec<ApiUrl>,
    authorization: Option<String>,
    connector: Option<Connector>,
    tells_token_in_plain: bool,
    answer_time_max: Duration,
}

/// How far an attempt got.
enum Attempt {
    /// Nothing was sent.
    NotSent(Failure),
    /// Something was.
    Sent(Failure),
}

impl ApiClient {
    /// A client that tries the URLs in turn. Panics if there are none.
    #[must_use]
    pub fn new(urls: Vec<ApiUrl>, token: Option<&str>) -> Self {
        assert!(!urls.is_empty(), "the command line has a default");
        let authorization = token.map(|token| format!("Bearer {token}"));
        Self {
            urls,
            authorization,
            connector: None,
            tells_token_in_plain: false,
            answer_time_max: ANSWER_TIME_MAX,
        }
    }

    /// With what it is to trust, and to show, where a URL is `https`.
    #[must_use]
    pub fn connecting(self, connector: Option<Connector>) -> Self {
        Self { connector, ..self }
    }

    /// Which may tell its token without TLS to other machines as well: whoever listens on the way reads it.
    #[must_use]
    pub fn telling_token_in_plain(self, tells_token_in_plain: bool) -> Self {
        Self {
            tells_token_in_plain,
            ..self
        }
    }

    /// With less patience for an answer.
    #[must_use]
    pub fn within(self, answer_time_max: Duration) -> Self {
        Self {
            answer_time_max,
            ..self
        }
    }

    /// How the cluster is.
    ///
    /// # Errors
    /// [`ClientError`]. As of all methods.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.read("/status").await
    }

    /// Why the cluster is not healthy, and what helps.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn explain(&self) -> Result<Explanation, ClientError> {
        self.read("/explain").await
    }

    /// The nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn nodes(&self) -> Result<NodeList, ClientError> {
        self.read("/nodes").await
    }

    /// A node, and what is on it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn node(&self, name: &str) -> Result<NodeDetails, ClientError> {
        self.read(&path_of("nodes", name)).await
    }

    /// Does what an operator wants of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_node(&self, name: &str, change: &NodeChange) -> Result<Node, ClientError> {
        let path = path_of("nodes", name);
        self.change(Method::PATCH, &path, Some(change), document)
            .await
    }

    /// Removes a node on which nothing is from the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_node(&self, name: &str) -> Result<(), ClientError> {
        let path = path_of("nodes", name);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }

    /// The devices of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn devices(&self, name: &str) -> Result<DeviceList, ClientError> {
        self.read(&format!("{}/devices", path_of("nodes", name)))
            .await
    }

    /// Adds a device to a node, drains one or removes one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_devices(
        &self,
        name: &str,
        change: &DeviceChange,
    ) -> Result<DeviceList, ClientError> {
        let path = format!("{}/devices", path_of("nodes", name));
        self.change(Method::POST, &path, Some(change), document)
            .await
    }

    /// The same, at the node that is asked.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_local_devices(
        &self,
        change: &DeviceChange,
    ) -> Result<DeviceList, ClientError> {
        self.change(Method::POST, "/local/devices", Some(change), document)
            .await
    }

    /// The settings.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn settings(&self) -> Result<Settings, ClientError> {
        self.read("/settings").await
    }

    /// Changes settings.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_settings(&self, change: SettingsChange) -> Result<Settings, ClientError> {
        self.change(Method::PATCH, "/settings", Some(&change), document)
            .await
    }

    /// The volumes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn volumes(&self) -> Result<VolumeList, ClientError> {
        self.read("/volumes").await
    }

    /// A volume.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn volume(&self, name: &str) -> Result<Volume, ClientError> {
        self.read(&volume_path(name)).await
    }

    /// Makes a volume.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_volume(&self, request: &VolumeCreate) -> Result<Created, ClientError> {
        let created = |answer: &Answer| {
            Some(Created {
                volume: document(answer)?,
                is_new: answer.status == StatusCode::CREATED,
            })
        };
        self.change(Method::POST, "/volumes", Some(request), created)
            .await
    }

    /// Gives a volume more bytes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn grow_volume(
        &self,
        name: &str,
        request: VolumeGrow,
    ) -> Result<Volume, ClientError> {
        self.change(Method::PATCH, &volume_path(name), Some(&request), document)
            .await
    }

    /// Begins to read all of a volume and to compare its replicas, unless that is under way.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn scrub_volume(&self, name: &str) -> Result<Volume, ClientError> {
        let path = format!("{}/scrub", volume_path(name));
        self.change(Method::POST, &path, None::<&()>, document)
            .await
    }

    /// Deletes a volume with all its data.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete_volume(&self, name: &str, how: VolumeDelete) -> Result<(), ClientError> {
        let VolumeDelete { force } = how;
        let path = format!("{}?force={force}", volume_path(name));
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }

    /// What the node at the URL knows by itself.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local(&self) -> Result<LocalReport, ClientError> {
        self.read("/local").await
    }

    /// What is known of the cluster without the metadata.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_cluster(&self) -> Result<LocalCluster, ClientError> {
        self.read("/local/cluster").await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let mut tried = Tried::default();
        for (place, url) in self.urls.iter().enumerate() {
            let patience = if place + 1 < self.urls.len() {
                READ_TIME_MAX_OF_MANY
            } else {
                READ_TIME_MAX
            };
            let patience = patience.min(self.answer_time_max);
            let asked = self.attempt(url, &Method::GET, path, Bytes::new(), patience);
            match asked.await {
                Ok(answer) => match said(&answer, document) {
                    Said::Done(document) => return Ok(document),
                    Said::Problem(problem) if is_cannot(&problem) || has_none(&problem) => {
                        tried.said.push((url.clone(), problem));
                    }
                    Said::Problem(problem) => return Err(problem.into()),
                    Said::Stranger(reason) => tried.unreached.push((url.clone(), reason)),
                },
                Err(Attempt::NotSent(reason) | Attempt::Sent(reason)) => {
                    tried.unreached.push((url.clone(), reason));
                }
            }
        }
        Err(tried.error())
    }

    /// Sends until somebody may have done it.
    async fn change<T>(
        &self,
        method: Method,
        path: &str,
        document: Option<&impl Serialize>,
        read: impl Fn(&Answer) -> Option<T>,
    ) -> Result<T, ClientError> {
        let body = document.map_or_else(Bytes::new, |document| {
            serde_json::to_vec(document)
                .expect("documents are valid JSON")
                .into()
        });
        let mut tried = Tried::default();
        for url in &self.urls {
            let patience = self.answer_time_max;
            let asked = self.attempt(url, &method, path, body.clone(), patience);
            match asked.await {
                Ok(answer) => match said(&answer, &read) {
                    Said::Done(done) => return Ok(done),
                    Said::Problem(problem) if has_none(&problem) => {
                        tried.said.push((url.clone(), problem));
                    }
                    Said::Problem(problem) => return Err(problem.into()),
                    // What stands before a Holdfast may have passed it on.
                    Said::Stranger(reason) if answer.status.is_server_error() => {
                        return Err(unknown(url, reason));
                    }
                    Said::Stranger(reason) => tried.unreached.push((url.clone(), reason)),
                },
                Err(Attempt::NotSent(reason)) => tried.unreached.push((url.clone(), reason)),
                Err(Attempt::Sent(reason)) => return Err(unknown(url, reason)),
            }
        }
        Err(tried.error())
    }

    async fn attempt(
        &self,
        url: &ApiUrl,
        method: &Method,
        path: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<Answer, Attempt> {
        let stream = self.connect(url).await.map_err(Attempt::NotSent)?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(header::HOST, format!("{}:{}", url.host, url.port))
            .header(header::ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(trace) = TraceContext::present()
            && let Some(headers) = request.headers_mut()
        {
            trace.hand_on(headers);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body)).map_err(|_| {
            let invalid = std::io::Error::from(std::io::ErrorKind::InvalidInput);
            Attempt::NotSent(invalid.into())
        })?;
        match timeout(patience, converse(stream, request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => Err(Attempt::Sent(failure)),
            Err(_) => Err(Attempt::Sent(Failure::TooSlow)),
        }
    }
}

/// A status, and a body.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

async fn converse(
    stream: Box<dyn connection::Wire>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|_| Failure::Stranger(status))?.to_bytes();
        Ok(Answer { status, body })
    };
    tokio::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}

fn volume_path(name: &str) -> String {
    path_of("volumes", name)
}

fn path_of(kind: &str, name: &str) -> String {
    format!("/{kind}/{}", escaped(name))
}

/// A name as it stands in a path or a query.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Where a piece is to go on, as the end of a query.
fn after_of(cursor: Option<&str>) -> String {
    cursor.map_or_else(String::new, |cursor| format!("&after={}", escaped(cursor)))
}

/// What an answer says.
enum Said<T> {
    Done(T),
    Problem(Problem),
    /// It is no answer of this interface.
    Stranger(Failure),
}

fn said<T>(answer: &Answer, read: impl Fn(&Answer) -> Option<T>) -> Said<T> {
    let stranger = || Said::Stranger(Failure::Stranger(answer.status));
    if answer.status.is_success() {
        return read(answer).map_or_else(stranger, Said::Done);
    }
    serde_json::from_slice(&answer.body).map_or_else(|_| stranger(), Said::Problem)
}

/// The document that an answer is to be.
fn document<T: DeserializeOwned>(answer: &Answer) -> Option<T> {
    serde_json::from_slice(&answer.body).ok()
}

/// An answer that is to have no document.
fn nothing(answer: &Answer) -> Option<()> {
    (answer.status == StatusCode::NO_CONTENT).then_some(())
}

/// Others may be able to answer.
fn is_cannot(problem: &Problem) -> bool {
    matches!(problem.kind, ProblemKind::Unavailable | ProblemKind::Busy)
}

/// Nothing was done, for want of what it was to be done with: another cluster, or another version, does not have it.
fn has_none(problem: &Problem) -> bool {
    matches!(
        problem.kind,
        ProblemKind::NoSuchVolume
            | ProblemKind::NoSuchNode
            | ProblemKind::NoSuchResource
            | ProblemKind::NoSuchMethod
    )
}

fn unknown(url: &ApiUrl, reason: Failure) -> ClientError {
    ClientError::Unknown {
        url: url.clone(),
        reason,
    }
}

/// What came of the URLs that were tried in vain.
#[derive(Default)]
struct Tried {
    said: Vec<(ApiUrl, Problem)>,
    unreached: Vec<(ApiUrl, Failure)>,
}

impl Tried {
    /// What somebody has said tells more than that others have not; what he knows more than that he does not know.
    fn error(mut self) -> ClientError {
        let knows = |(_, problem): &(ApiUrl, Problem)| !is_cannot(problem);
        let Some(last) = self.said.len().checked_sub(1) else {
            return ClientError::Unreachable(self.unreached);
        };
        let (url, mut problem) = self
            .said
            .remove(self.said.iter().position(knows).unwrap_or(last));
        let is_other = |(_, other): &&(ApiUrl, Problem)| other.detail != problem.detail;
        let others = self.said.iter().filter(is_other);
        let others = others.map(|(url, other)| format!("{url} says: {}", other.detail));
        let unreached = self.unreached.iter();
        let unreached = unreached.map(|(url, reason)| format!("{url}: {reason}"));
        let rest: Vec<String> = others.chain(unreached).collect();
        if !rest.is_empty() {
            let rest = rest.join("; ");
            problem.detail = format!("{} (says {url}; {rest})", problem.detail).into();
        }
        problem.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_part_of_paths_whatever_they_hold() {
        assert_eq!(volume_path("sql-data.01"), "/volumes/sql-data.01");
        assert_eq!(volume_path("a/b ä"), "/volumes/a%2Fb%20%C3%A4");
    }
}
