//! What a request knows of who sent it.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use axum::routing::get;
use axum::{Extension, Router};
use holdfast_api::{Peer, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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
