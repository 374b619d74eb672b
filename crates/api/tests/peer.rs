//! What a request knows of who sent it, over TLS and without.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use axum::routing::get;
use axum::{Extension, Json, Router};
use holdfast_api::client::Failure;
use holdfast_api::documents::{Task, TaskList};
use holdfast_api::{ApiClient, ClientError, Peer, server};
use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{Acceptor, Authority, ConnectError, Connector, Credentials, Subject};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Says whom it takes a request to be from.
async fn who(Extension(peer): Extension<Peer>) -> String {
    format!("{} {:?}", peer.address, peer.node)
}

#[tokio::test]
async fn a_request_carries_the_address_that_it_came_from() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(
        listener,
        Router::new().route("/who", get(who)),
    ));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /who HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let own = stream.local_addr().unwrap();
    assert!(answer.ends_with(&format!("\r\n\r\n{own} None")), "{answer}");
}

/// An answer of the interface that says who asks.
async fn task(Extension(peer): Extension<Peer>) -> Json<TaskList> {
    let tasks = peer.node.map(|node| Task {
        id: format!("node-{node}"),
        ..example()
    });
    Json(TaskList {
        tasks: tasks.into_iter().collect(),
        next: None,
    })
}

fn example() -> Task {
    serde_json::from_str(r#"{"id":"","kind":"scrub","subject":"s"}"#).unwrap()
}

fn node(directory: &Path, number: u16) -> Credentials {
    let subject = Subject {
        node: NodeId(number),
        name: format!("n{number}"),
        hosts: Vec::new(),
    };
    let path = directory.join(format!("n{number}"));
    let authority = Authority::open(directory).unwrap();
    authority.issue(&subject, &path, SystemTime::now()).unwrap();
    Credentials::read(&path).unwrap()
}

#[tokio::test]
async fn over_tls_a_node_is_known_and_who_is_not_trusted_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, other) = (directory.path().join("a"), directory.path().join("b"));
    for path in [&ours, &other] {
        Authority::found(path, ClusterId(1), SystemTime::now()).unwrap();
    }
    let (one, two, stranger) = (node(&ours, 1), node(&ours, 2), node(&other, 3));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/tasks", get(task));
    let served = server::serve_over(listener, router, Some(Acceptor::new(&one)));
    tokio::spawn(served);
    let url = || vec![format!("https://{address}").parse().unwrap()];
    let ask = async |connector: Option<Connector>| {
        let client = ApiClient::new(url(), None).connecting(connector);
        client.tasks().await
    };
    let known = ask(Some(Connector::of_machine(&two))).await.unwrap();
    assert_eq!(known.tasks[0].id, "node-2");
    let anybody = Connector::of_authority(&ours.join("authority.pem")).unwrap();
    assert!(ask(Some(anybody)).await.unwrap().tasks.is_empty());
    let untrusted = ask(Some(Connector::of_machine(&stranger))).await;
    let Err(ClientError::Unreachable(why)) = untrusted else {
        panic!("{untrusted:?}");
    };
    assert!(matches!(why[0].1, Failure::Tls(ConnectError::Untrusted)));
    let nobody = ask(None).await;
    let Err(ClientError::Unreachable(why)) = nobody else {
        panic!("{nobody:?}");
    };
    assert!(matches!(why[0].1, Failure::NoAuthority));
    // Without TLS one is told what is wanted.
    let plain = ApiClient::new(vec![format!("http://{address}").parse().unwrap()], None);
    match plain.tasks().await {
        Err(ClientError::Problem(problem)) => {
            assert!(problem.detail.contains("speaks TLS"), "{problem}");
            assert!(problem.hint.unwrap().contains("https://"));
        }
        other => panic!("{other:?}"),
    }
}

/// A browser that has come by TLS once does so from then on, whatever it asks for.
#[tokio::test]
async fn over_tls_every_answer_says_so_to_browsers() {
    let directory = tempfile::tempdir().unwrap();
    Authority::found(directory.path(), ClusterId(1), SystemTime::now()).unwrap();
    let acceptor = Acceptor::new(&node(directory.path(), 1));
    let authority = Connector::of_authority(&directory.path().join("authority.pem")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/tasks", get(task));
    tokio::spawn(server::serve_over(listener, router, Some(acceptor)));
    for path in ["/api/v1/tasks", "/api/v1/nothing", "/"] {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = authority.connect("127.0.0.1", stream).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let says = "\r\nstrict-transport-security: max-age=2592000\r\n";
        assert!(answer.contains(says), "{path}: {answer}");
    }
    // Who has not is told where it is, and no more.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    for says in ["cache-control: no-store", "x-content-type-options: nosniff"] {
        assert!(answer.contains(&format!("\r\n{says}\r\n")), "{answer}");
    }
    assert!(!answer.contains("strict-transport-security"), "{answer}");
}

/// Who connects and says nothing keeps nobody out for longer than a handshake may take.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_ends() {
    let directory = tempfile::tempdir().unwrap();
    Authority::found(directory.path(), ClusterId(1), SystemTime::now()).unwrap();
    let acceptor = Acceptor::new(&node(directory.path(), 1));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve_over(listener, Router::new(), Some(acceptor)));
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "it is hung up");
}

/// More than fit.
const CROWD: usize = server::CONNECTIONS_MAX + 10;

/// So many connect from there, and say nothing.
async fn crowd(from: &str, to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut strangers = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        strangers.push(socket.connect(to).await.unwrap());
    }
    strangers
}

const WHO: &str = "GET /api/v1/tasks HTTP/1.1\r\nhost: a\r\n\r\n";

/// Asks over a connection that stays, and is answered with what has this in it.
async fn asks(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), wanted: &str) {
    stream.write_all(WHO.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains(wanted) {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
}

/// As nodes wait for each other at most: less than a handshake that does not come may take.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(5), work)
        .await
        .expect("nobody waits until strangers have gone")
}

/// One host takes all places, from the very address at which nodes are, and a node asks all the same.
#[tokio::test]
async fn over_tls_strangers_keep_no_node_out_and_end_none_of_its_connections() {
    let directory = tempfile::tempdir().unwrap();
    Authority::found(directory.path(), ClusterId(1), SystemTime::now()).unwrap();
    let (one, two) = (node(directory.path(), 1), node(directory.path(), 2));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/tasks", get(task));
    tokio::spawn(server::serve_over(
        listener,
        router,
        Some(Acceptor::new(&one)),
    ));
    let connector = Connector::of_machine(&two);
    let stream = TcpStream::connect(address).await.unwrap();
    let mut earlier = connector.connect("127.0.0.1", stream).await.unwrap();
    asks(&mut earlier, "node-2").await;
    let strangers = crowd("127.0.0.1", address, CROWD).await;
    let url = || vec![format!("https://{address}").parse().unwrap()];
    let asked = soon(async {
        let client = ApiClient::new(url(), None).connecting(Some(connector.clone()));
        client.tasks().await.unwrap()
    });
    assert_eq!(asked.await.tasks[0].id, "node-2");
    // Those of many addresses do not either.
    drop(strangers);
    let mut strangers = Vec::new();
    for number in 0..CROWD {
        strangers.extend(crowd(&format!("127.0.0.{}", 2 + number), address, 1).await);
    }
    soon(asks(&mut earlier, "node-2")).await;
    let asked = soon(async {
        let client = ApiClient::new(url(), None).connecting(Some(connector.clone()));
        client.tasks().await.unwrap()
    });
    assert_eq!(asked.await.tasks[0].id, "node-2");
    let gone = soon(strangers[0].read(&mut [0; 16])).await;
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
}

/// Nobody can show there who he is, and one host keeps others out no more than with it.
#[tokio::test]
async fn without_tls_one_host_keeps_nobody_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/tasks", get(task));
    tokio::spawn(server::serve(listener, router));
    let mut earlier = TcpStream::connect(address).await.unwrap();
    asks(&mut earlier, "tasks").await;
    let mut strangers = crowd("127.0.0.2", address, CROWD).await;
    let url = vec![format!("http://{address}").parse().unwrap()];
    let client = ApiClient::new(url, None);
    assert!(soon(client.tasks()).await.unwrap().tasks.is_empty());
    soon(asks(&mut earlier, "tasks")).await;
    let gone = soon(strangers[0].read(&mut [0; 16])).await;
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
}

/// What a demo has at once, all of it from one address: nodes that ask each other, a browser's connections, the command line.
#[tokio::test]
async fn one_address_is_enough_for_a_demo_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/tasks", get(task));
    tokio::spawn(server::serve(listener, router));
    let mut streams = crowd("127.0.0.1", address, 40).await;
    for _ in 0..2 {
        for stream in &mut streams {
            soon(asks(stream, "tasks")).await;
        }
    }
}
