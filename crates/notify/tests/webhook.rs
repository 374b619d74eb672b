//! Webhooks, against a server in the test: what arrives, and what is made of all that may be answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use holdfast_notify::{
    ALARMS_MAX, Change, Message, Receiver, SIGNATURE_FIELD, Secret, Stage, TlsFailure, Undelivered,
    Webhook, deliver, deliver_if, deliver_within,
};
use ring::hmac;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::support::{Authority, PATIENCE, Wire, huge, message, one, serve, told};

/// A request as it came.
struct Taken {
    line: String,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Taken {
    fn document(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn take(stream: &mut dyn Wire) -> Taken {
    let mut bytes = Vec::new();
    let end = loop {
        stream.read_buf(&mut bytes).await.unwrap();
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (line, rest) = head.split_once("\r\n").unwrap();
    let fields = rest
        .split("\r\n")
        .map(|field| field.split_once(": ").unwrap());
    let fields: BTreeMap<_, _> = fields
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let mut body = bytes.split_off(end + 4);
    let length: usize = fields["content-length"].parse().unwrap();
    while body.len() < length {
        stream.read_buf(&mut body).await.unwrap();
    }
    assert_eq!(body.len(), length);
    let line = line.to_owned();
    Taken { line, fields, body }
}

/// Takes a request, and answers with some bytes.
async fn answer(bytes: impl Into<Vec<u8>>) -> (u16, JoinHandle<Taken>) {
    let bytes = bytes.into();
    serve(async move |mut stream| {
        let taken = take(&mut stream).await;
        stream.write_all(&bytes).await.unwrap();
        taken
    })
    .await
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n")
}

fn webhook(port: u16) -> Webhook {
    Webhook {
        url: format!("http://127.0.0.1:{port}/hooks/token?a=b"),
        secret: None,
        authority: None,
    }
}

async fn send(port: u16, message: &Message) -> Result<(), Undelivered> {
    deliver(&Receiver::Webhook(webhook(port)), message).await
}

#[tokio::test]
async fn a_message_arrives_as_documented() {
    let (port, server) = answer(status("204 No Content")).await;
    let alarms = vec![
        told("node-lost", "node n2", Change::Raised),
        told("device-lost", "device n1/sdb", Change::Cleared),
    ];
    send(port, &message(alarms)).await.unwrap();
    let taken = server.await.unwrap();
    assert_eq!(taken.line, "POST /hooks/token?a=b HTTP/1.1");
    assert_eq!(taken.fields["host"], format!("127.0.0.1:{port}"));
    assert_eq!(taken.fields["content-type"], "application/json");
    let agent = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
    assert_eq!(taken.fields["user-agent"], agent);
    assert!(!taken.fields.contains_key(SIGNATURE_FIELD));
    let document = taken.document();
    assert_eq!(document["version"], 1);
    assert_eq!(document["cluster"]["id"], "0123abcd");
    assert_eq!(document["cluster"]["name"], "prod");
    assert_eq!(
        document["text"],
        "[Holdfast prod] CRITICAL 2 alarms: 1 raised, 1 cleared"
    );
    assert_eq!(document["sent_at_ms"], 1_795_000_012_345_u64);
    assert_eq!(document["more"], 0);
    let alarms = document["alarms"].as_array().unwrap();
    assert_eq!(alarms.len(), 2);
    assert_eq!(alarms[0]["id"], "node-lost/node n2");
    assert_eq!(alarms[0]["code"], "node-lost");
    assert_eq!(alarms[0]["severity"], "critical");
    assert_eq!(alarms[0]["change"], "raised");
    assert_eq!(alarms[0]["subject"], "node n2");
    assert_eq!(alarms[0]["cleared_ms"], Value::Null);
    assert_eq!(alarms[1]["change"], "cleared");
    assert_eq!(alarms[1]["cleared_ms"], 1_795_000_060_000_u64);
    let detail = alarms[1]["detail"].as_str().unwrap();
    assert!(
        detail.ends_with("Its rôle: \"primary\" of 7 slices."),
        "{detail}"
    );
}

#[tokio::test]
async fn what_is_called_off_is_not_sent() {
    let (port, server) = serve(async move |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        bytes
    })
    .await;
    let receiver = Receiver::Webhook(webhook(port));
    let failed = deliver_if(&receiver, &one(), &|| false).await.unwrap_err();
    assert!(matches!(failed, Undelivered::CalledOff), "{failed}");
    assert_eq!(server.await.unwrap(), b"");
    let (port, server) = answer(status("204 No Content")).await;
    let receiver = Receiver::Webhook(webhook(port));
    deliver_if(&receiver, &one(), &|| true).await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_signature_verifies_and_only_what_was_sent_does() {
    let (port, server) = answer(status("200 OK")).await;
    let secret = Some(Secret::new("s3cret".to_owned()));
    let signed = Webhook {
        secret,
        ..webhook(port)
    };
    deliver(&Receiver::Webhook(signed), &one()).await.unwrap();
    let taken = server.await.unwrap();
    let (time, signature) = taken.fields[SIGNATURE_FIELD].split_once(',').unwrap();
    let time = time.strip_prefix("t=").unwrap();
    let signature = signature.strip_prefix("v1=").unwrap();
    let signature: Vec<u8> = signature
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect();
    let verifies = |secret: &str, body: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signed = [time.as_bytes(), b".", body].concat();
        hmac::verify(&key, &signed, &signature).is_ok()
    };
    assert!(verifies("s3cret", &taken.body));
    assert!(!verifies("other", &taken.body));
    assert!(!verifies("s3cret", &[taken.body.as_slice(), b" "].concat()));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(now.abs_diff(time.parse().unwrap()) < 60);
}

#[tokio::test]
async fn refusals_say_whether_another_try_helps() {
    for (line, is_permanent) in [
        ("400 Bad Request", true),
        ("404 Not Found", true),
        ("408 Request Timeout", false),
        ("429 Too Many Requests", false),
        ("500 Internal Server Error", false),
        ("503 Service Unavailable", false),
    ] {
        let (port, server) = answer(format!(
            "HTTP/1.1 {line}\r\nContent-Length: 17\r\n\r\nno\r\nthank\x1b[1m you"
        ))
        .await;
        let refused = send(port, &one()).await.unwrap_err();
        server.await.unwrap();
        assert_eq!(refused.is_permanent(), is_permanent, "{line}");
        let status = &line[..3];
        let expected = format!(
            "http://127.0.0.1:{port} answered with HTTP status {status}: \"no  thank [1m you\""
        );
        assert_eq!(refused.to_string(), expected);
    }
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let (elsewhere, other) = answer(status("200 OK")).await;
    let (port, server) = answer(format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
    ))
    .await;
    let refused = send(port, &one()).await.unwrap_err();
    server.await.unwrap();
    assert!(
        matches!(refused, Undelivered::Status { status: 307, .. }),
        "{refused}"
    );
    assert!(refused.is_permanent());
    assert!(!other.is_finished());
    other.abort();
}

#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let (port, server) = serve(async |mut stream| {
        take(&mut stream).await;
        let head = b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
        let mut sent = 0_usize;
        // As long as somebody reads: what is in buffers between is some megabytes.
        while stream.write_all(chunk.as_bytes()).await.is_ok() && sent < 1 << 30 {
            sent += chunk.len();
        }
        sent
    })
    .await;
    let refused = send(port, &one()).await.unwrap_err();
    assert!(
        matches!(refused, Undelivered::Status { status: 500, .. }),
        "{refused}"
    );
    assert!(refused.to_string().len() < 1000, "{refused}");
    assert!(server.await.unwrap() < 1 << 25);
}

#[tokio::test]
async fn a_head_without_end_is_cut() {
    let (port, server) = serve(async |mut stream| {
        take(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await.unwrap();
        let more = [b'x'; 1024];
        let mut sent = 0_usize;
        while stream.write_all(&more).await.is_ok() && sent < 1 << 30 {
            sent += more.len();
        }
        sent
    })
    .await;
    let refused = send(port, &one()).await.unwrap_err();
    assert!(matches!(refused, Undelivered::Stranger { .. }), "{refused}");
    assert!(server.await.unwrap() < 1 << 25);
}

#[tokio::test]
async fn a_body_that_never_comes_does_not_hide_the_status() {
    let (port, server) = serve(async |mut stream| {
        take(&mut stream).await;
        let head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nno";
        stream.write_all(head).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    })
    .await;
    let refused = send(port, &one()).await.unwrap_err();
    assert!(refused.to_string().ends_with("404: \"no\""), "{refused}");
    server.await.unwrap();
}

#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    let (port, server) = serve(async |mut stream| {
        take(&mut stream).await;
        let _ = stream.read(&mut [0]).await;
    })
    .await;
    let began = Instant::now();
    let receiver = Receiver::Webhook(webhook(port));
    let slow = deliver_within(&receiver, &one(), PATIENCE).await;
    let slow = slow.unwrap_err();
    let stage = Stage::Answer;
    assert!(
        matches!(slow, Undelivered::TooSlow { stage: it, .. } if it == stage),
        "{slow}"
    );
    assert!(!slow.is_permanent());
    assert!(began.elapsed() < PATIENCE + Duration::from_secs(2));
    server.await.unwrap();
}

#[tokio::test]
async fn who_does_not_listen_or_speaks_something_else_is_named() {
    let (port, server) = serve(async |stream| drop(stream)).await;
    let broken = send(port, &one()).await.unwrap_err();
    assert!(matches!(broken, Undelivered::Broken { .. }), "{broken}");
    assert!(!broken.is_permanent());
    server.await.unwrap();
    let refused = send(port, &one()).await.unwrap_err();
    assert!(
        matches!(refused, Undelivered::Unreachable { .. }),
        "{refused}"
    );
    assert!(!refused.is_permanent());
    let (port, server) = answer("220 mail.example ESMTP\r\n").await;
    let stranger = send(port, &one()).await.unwrap_err();
    server.await.unwrap();
    assert_eq!(
        stranger.to_string(),
        format!("what answers at 127.0.0.1:{port} does not speak HTTP")
    );
}

/// Sends over TLS to who shows something; what came of it, and whether anything of the request arrived.
async fn send_secure(
    acceptor: TlsAcceptor,
    host: &str,
    authority: Option<String>,
) -> (Result<(), Undelivered>, bool) {
    let (port, server) = serve(async move |stream| {
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return false;
        };
        take(&mut stream).await;
        stream.write_all(status("200 OK").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        true
    })
    .await;
    let url = format!("https://{host}:{port}/");
    let receiver = Receiver::Webhook(Webhook {
        url,
        authority,
        ..webhook(port)
    });
    let done = deliver(&receiver, &one()).await;
    (done, server.await.unwrap())
}

#[tokio::test]
async fn tls_is_with_who_is_trusted_and_no_other() {
    let ours = Authority::new();
    let pem = || Some(ours.pem.clone());
    for host in ["127.0.0.1", "localhost"] {
        let (done, has_arrived) = send_secure(ours.acceptor(host, 9), host, pem()).await;
        done.unwrap();
        assert!(has_arrived);
    }
    let others = Authority::new();
    let shown = others.acceptor("127.0.0.1", 9);
    let (untrusted, has_arrived) = send_secure(shown, "127.0.0.1", pem()).await;
    let untrusted = untrusted.unwrap_err();
    let failure = |undelivered| match undelivered {
        Undelivered::Tls { failure, .. } => failure,
        other => panic!("{other}"),
    };
    assert!(matches!(failure(untrusted), TlsFailure::Untrusted));
    assert!(!has_arrived);
    let (unknown, _) = send_secure(ours.acceptor("127.0.0.1", 9), "127.0.0.1", None).await;
    assert!(matches!(
        failure(unknown.unwrap_err()),
        TlsFailure::Untrusted
    ));
    let (expired, _) = send_secure(ours.acceptor("127.0.0.1", -9), "127.0.0.1", pem()).await;
    assert!(matches!(failure(expired.unwrap_err()), TlsFailure::Expired));
    let (other, has_arrived) =
        send_secure(ours.acceptor("hooks.example", 9), "127.0.0.1", pem()).await;
    assert!(matches!(failure(other.unwrap_err()), TlsFailure::OtherName));
    assert!(!has_arrived);
}

#[tokio::test]
async fn tls_with_who_does_not_speak_it_fails() {
    let (port, server) = serve(async |mut stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let url = format!("https://127.0.0.1:{port}/");
    let receiver = Receiver::Webhook(Webhook {
        url,
        ..webhook(port)
    });
    let plain = deliver(&receiver, &one()).await.unwrap_err();
    let is_plain = matches!(
        &plain,
        Undelivered::Tls {
            failure: TlsFailure::Plain,
            ..
        }
    );
    assert!(is_plain, "{plain}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_storm_is_one_message_of_bounded_size() {
    let (port, server) = answer(status("200 OK")).await;
    send(port, &huge()).await.unwrap();
    let taken = server.await.unwrap();
    assert!(taken.body.len() < 100_000, "{}", taken.body.len());
    let document = taken.document();
    assert_eq!(document["alarms"].as_array().unwrap().len(), ALARMS_MAX);
    assert_eq!(document["more"], 200 - ALARMS_MAX);
}

#[tokio::test]
async fn what_is_no_receiver_is_refused_before_anything_is_sent() {
    let url = "https://user:password@127.0.0.1/".to_owned();
    let receiver = Receiver::Webhook(Webhook { url, ..webhook(1) });
    let refused = deliver(&receiver, &one()).await.unwrap_err();
    assert!(matches!(refused, Undelivered::Receiver(_)), "{refused}");
    assert!(refused.is_permanent());
    assert!(!refused.to_string().contains("password@"), "{refused}");
}
