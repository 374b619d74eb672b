//! What holds for all of the interface: headers of answers, and what becomes of the headers of requests.

use super::*;

#[tokio::test]
async fn every_answer_is_strict_with_browsers() {
    let (url, _) = start(Remembering::default()).await;
    for (what, body, keeping) in [
        ("GET /api/v1/settings", "", "no-store"),
        ("GET /api/v1/volumes/demo", "", "no-store"),
        ("GET /api/v1/nothing", "", "no-store"),
        ("DELETE /api/v1/volumes", "", "no-store"),
        ("POST /api/v1/volumes", "[]", "no-store"),
        ("GET /api/v1/events", "", "no-store"),
        ("GET /api", "", "no-store"),
        ("GET /metrics", "", "no-store"),
        // It is the same for everybody, and has a tag.
        ("GET /api/v1/openapi.json", "", "no-cache"),
    ] {
        let answer = send(&url, what, "accept: */*", body).await;
        for says in [
            "x-content-type-options: nosniff",
            "content-security-policy: default-src 'none'; frame-ancestors 'none'",
            &format!("cache-control: {keeping}"),
        ] {
            let times = answer.matches(&format!("\r\n{says}\r\n")).count();
            assert_eq!(times, 1, "{what}: {says}: {answer}");
        }
        assert_eq!(answer.matches("\r\ncache-control: ").count(), 1, "{answer}");
        // There is no TLS here, and a browser must not be told to use it.
        assert!(!answer.contains("strict-transport-security"), "{answer}");
    }
    let elsewhere = send(&url, "GET /apidemic", "accept: */*", "").await;
    assert!(elsewhere.contains("\r\nx-content-type-options: nosniff\r\n"));
    assert!(!elsewhere.contains("\r\ncache-control: "), "{elsewhere}");
}

/// Who sends such a header counts on it: what would be done without a look at it is not done.
#[tokio::test]
async fn no_change_passes_over_a_header_that_it_hangs_on() {
    let (url, api) = start(Remembering::default()).await;
    let key = ("idempotency-key: k", "Idempotency-Key");
    let tag = ("if-match: \"0-1\"", "If-Match");
    let nonsense = ("if-match: nonsense", "If-Match");
    let absent = ("if-none-match: *", "If-None-Match");
    let drain = "{\"action\":\"drain\",\"device\":0}";
    for (what, (header, name), body) in [
        ("POST /api/v1/volumes/demo/scrub", key, ""),
        ("POST /api/v1/nodes/n1/devices", key, drain),
        ("POST /api/v1/alarms/1/acknowledge", key, "{}"),
        ("POST /api/v1/receivers/mail/test", key, ""),
        ("POST /api/v1/session", key, "{}"),
        ("PATCH /api/v1/settings", key, "{}"),
        ("PUT /api/v1/initiators/iqn.a:b", key, "{}"),
        ("DELETE /api/v1/volumes/demo", key, ""),
        ("PATCH /api/v1/nodes/n1/log", tag, "{\"level\":\"debug\"}"),
        ("PATCH /api/v1/local/log", nonsense, "{\"level\":\"debug\"}"),
        ("POST /api/v1/alarms/1/acknowledge", tag, "{}"),
        ("DELETE /api/v1/tokens/7", tag, ""),
        ("DELETE /api/v1/tasks/scrub-1", tag, ""),
        (
            "POST /api/v1/volumes",
            absent,
            "{\"name\":\"demo\",\"bytes\":4096,\"policy\":\"none\"}",
        ),
    ] {
        let refused = send(&url, what, header, body).await;
        assert!(refused.starts_with("HTTP/1.1 400"), "{what}: {refused}");
        let says = format!("nothing here looks at {name}: it was not done");
        assert!(refused.contains(&says), "{what}: {refused}");
        assert!(refused.contains("\"hint\":\"leave it out"), "{refused}");
    }
    assert_eq!(*api.asked.lock().unwrap(), Vec::<String>::new());
    // What only reads does nothing that could hang on it, and what is not there is told as such.
    let read = send(&url, "GET /api/v1/settings", tag.0, "").await;
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    let none = send(&url, "POST /api/v1/settings", key.0, "{}").await;
    assert!(none.starts_with("HTTP/1.1 405"), "{none}");
}
