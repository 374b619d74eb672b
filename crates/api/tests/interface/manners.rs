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
