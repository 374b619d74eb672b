//! Who may ask for what: every route against nobody, every role, and every scope.

use std::net::{IpAddr, SocketAddr};

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use holdfast_api::documents::{
    AuditEntry, AuditList, AuditQuery, LocalAudit, LoginMethods, LoginProvider, PasswordChange,
    SessionCreate, Token, TokenCreate, TokenCreated, User, UserChange, UserCreate,
};
use holdfast_api::{
    Answer, BroughtBack, Door, IdempotencyKey, Identities, LoggedIn, LoginAnswer, LoginFault,
    LoginRefused, Peer, SentAway, Shown, UserMade,
};
use holdfast_identity::{Caller, ExternalUser, Role, Scope, UserName, Who};
use holdfast_model::ClusterId;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::*;

/// Tokens are named after what their holders may; the only session is `hfs_ada`, an administrator's.
#[derive(Default)]
struct Known {
    noted: Mutex<Vec<AuditEntry>>,
    /// What is nobody's any more, or may less: instead of what its name says.
    changed: Mutex<Option<Result<Role, ProblemKind>>>,
    puts_nothing_down: Mutex<bool>,
    /// Logins that were not tried: each other one is put down.
    untried: Mutex<u64>,
    /// The keys of creations.
    keys: Mutex<Vec<String>>,
}

impl Known {
    fn heard(&self, key: &Option<IdempotencyKey>) {
        let key = key.iter().map(|key| key.as_str().to_owned());
        self.keys.lock().unwrap().extend(key);
    }
}

fn refuse<T>(kind: ProblemKind) -> Answer<'static, T> {
    Box::pin(async move { Err(Problem::new(kind, "so")) })
}

fn user() -> User {
    User {
        name: "bob".to_owned(),
        role: Role::Viewer,
        disabled: false,
        created_ms: 1,
        password_changed_ms: 1,
        issuer: None,
        subject: None,
        sessions: 0,
        etag: Some(tag()),
    }
}

fn ada() -> Caller {
    Caller {
        who: Who::User("ada".parse().unwrap(), "s".to_owned()),
        ..Caller::node(0)
    }
}

impl Identities for Known {
    fn cluster(&self) -> ClusterId {
        ClusterId(0x0123_abcd << 96)
    }

    fn may_change(&self) -> Result<(), Problem> {
        if *self.puts_nothing_down.lock().unwrap() {
            return Err(Problem::new(ProblemKind::Unavailable, "no log"));
        }
        Ok(())
    }

    fn may_note_untried(&self, from: IpAddr) -> Option<u64> {
        assert_eq!(from, IpAddr::from([192, 0, 2, 7]));
        let mut untried = self.untried.lock().unwrap();
        *untried += 1;
        (*untried % 2 == 1).then_some(*untried / 2)
    }

    fn who<'a>(&'a self, shown: Shown<'a>) -> Answer<'a, Caller> {
        let token = |text: &str| {
            let (role, scope) = text.split_once('-')?;
            Some(Caller {
                who: Who::Token("7".to_owned(), text.parse().ok()?),
                role: role.parse().ok()?,
                scope: scope.parse().ok()?,
                expires_ms: None,
            })
        };
        let caller = match shown {
            Shown::Token("unknowable") => return refuse(ProblemKind::Unavailable),
            Shown::Token("never known") => return Box::pin(std::future::pending()),
            Shown::Token(text) => token(text),
            Shown::Session("hfs_ada") => Some(ada()),
            Shown::Session(_) => None,
        };
        let changed = *self.changed.lock().unwrap();
        match (caller, changed) {
            (Some(_), Some(Err(kind))) => refuse(kind),
            (Some(caller), Some(Ok(role))) => {
                Box::pin(async move { Ok(Caller { role, ..caller }) })
            }
            (Some(caller), None) => Box::pin(async move { Ok(caller) }),
            (None, _) => refuse(ProblemKind::Unauthenticated),
        }
    }

    fn log_in(&self, request: SessionCreate, _: IpAddr) -> Answer<'_, LoggedIn> {
        match (&*request.name, &*request.password.0) {
            ("ada", "right") => Box::pin(async {
                Ok(LoggedIn {
                    caller: ada(),
                    secret: "hfs_ada".to_owned(),
                })
            }),
            ("ada", "again") => Box::pin(async {
                Err(Problem {
                    retry_after_seconds: Some(7),
                    ..Problem::new(ProblemKind::TooManyAttempts, "wait")
                })
            }),
            _ => refuse(ProblemKind::Unauthenticated),
        }
    }

    fn login_methods(&self) -> LoginMethods {
        LoginMethods {
            password: true,
            oidc: Some(LoginProvider {
                name: "Test".to_owned(),
                url: "https://here/api/v1/login/oidc".to_owned(),
            }),
        }
    }

    fn send_away(&self) -> LoginAnswer<'_, SentAway> {
        Box::pin(async {
            Ok(SentAway {
                location: "https://id.example/auth?state=s".to_owned(),
                ticket: "sealed".to_owned(),
            })
        })
    }

    fn come_back(&self, back: BroughtBack, _: IpAddr) -> LoginAnswer<'_, LoggedIn> {
        Box::pin(async move {
            let has = |text: &Option<String>, wanted: &str| text.as_deref() == Some(wanted);
            if !has(&back.ticket, "sealed") || !has(&back.state, "s") {
                return Err(LoginFault::Unknown.into());
            }
            let user = ExternalUser::new("https://id.example", "7", "ada").unwrap();
            let who = Who::External(user, "s".to_owned());
            if !has(&back.code, "c") || back.error.is_some() || back.issuer.is_some() {
                let (fault, who) = (LoginFault::NoRole, Some(who.to_string()));
                return Err(LoginRefused { fault, who });
            }
            Ok(LoggedIn {
                caller: Caller {
                    who,
                    role: Role::Viewer,
                    scope: Scope::Everything,
                    expires_ms: Some(9),
                },
                secret: "hfs_ada".to_owned(),
            })
        })
    }

    fn log_out<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn change_password<'a>(
        &'a self,
        _: (&'a UserName, &'a str),
        _: PasswordChange,
        _: IpAddr,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn users(&self) -> Answer<'_, Vec<User>> {
        Box::pin(async { Ok(vec![user()]) })
    }

    fn create_user(&self, wanted: Keyed<UserCreate>) -> Answer<'_, UserMade> {
        let is_new = wanted.key.is_none();
        self.heard(&wanted.key);
        Box::pin(async move {
            Ok(UserMade {
                user: user(),
                is_new,
            })
        })
    }

    fn change_user<'a>(&'a self, _: &'a str, change: Conditional<UserChange>) -> Answer<'a, User> {
        Box::pin(async move {
            change.precondition.holds(user().etag.as_ref())?;
            Ok(user())
        })
    }

    fn remove_user<'a>(&'a self, _: &'a str, precondition: Precondition) -> Answer<'a, ()> {
        Box::pin(async move {
            precondition.holds(user().etag.as_ref())?;
            Err(Problem::new(ProblemKind::NoSuchUser, "so"))
        })
    }

    fn tokens(&self) -> Answer<'_, Vec<Token>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn create_token<'a>(
        &'a self,
        wanted: Keyed<TokenCreate>,
        maker: &'a Caller,
    ) -> Answer<'a, TokenCreated> {
        self.heard(&wanted.key);
        let created_by = maker.who.to_string();
        Box::pin(async {
            Ok(TokenCreated {
                token: Token {
                    id: "00".to_owned(),
                    name: "t".to_owned(),
                    role: Role::Viewer,
                    scope: Scope::Everything,
                    created_by,
                    created_ms: 1,
                    expires_ms: 2,
                },
                secret: Secret("hft_x".to_owned()),
            })
        })
    }

    fn revoke_token<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        refuse(ProblemKind::NoSuchToken)
    }

    fn note(&self, entry: AuditEntry) {
        self.noted.lock().unwrap().push(entry);
    }

    fn audit(&self, _: AuditQuery) -> Answer<'_, AuditList> {
        Box::pin(async { Ok(AuditList::default()) })
    }

    fn local_audit(&self, _: AuditQuery) -> Answer<'_, LocalAudit> {
        Box::pin(async { Ok(LocalAudit::default()) })
    }
}

/// An interface with a guard, for requests from `192.0.2.7` that bring a node's certificate, or not.
async fn guarded(node: Option<u16>) -> (ApiUrl, Arc<Remembering>, Arc<Known>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (api, known) = (Arc::new(Remembering::default()), Arc::new(Known::default()));
    let address = SocketAddr::from(([192, 0, 2, 7], 7));
    let router = router(api.clone(), Door::Guarded(known.clone()));
    let router = router.layer(Extension(Peer { address, node }));
    tokio::spawn(server::serve(listener, router));
    (url.parse().unwrap(), api, known)
}

/// The status of an answer, and all of it.
async fn ask(url: &ApiUrl, what: &str, headers: &str, body: &str) -> (u16, String) {
    let json = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let length = body.len();
    let request = format!(
        "{what} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}{json}Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = raw(url, &request).await;
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Every method of every route, with something in the place of names. The stream of events ends here after what was missed.
fn routes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{tier}", "flash").replace("{device}", "0");
            let path = path.replace(['{', '}'], "");
            routes.push((method.to_uppercase(), path));
        }
    }
    routes
}

/// How everything is asked is no secret.
const OPENAPI: &str = "/api/v1/openapi.json";

/// The stream of events: an answer that goes on, unless it is refused.
const EVENTS: &str = "/api/v1/events";

/// What an operator may change, and nothing else.
const OPERATORS: [&str; 12] = [
    "DELETE /api/v1/initiators/name",
    "DELETE /api/v1/tasks/id",
    "DELETE /api/v1/volumes/name",
    "PATCH /api/v1/nodes/name",
    "PATCH /api/v1/volumes/name",
    "PATCH /api/v1/volumes/name/access",
    "POST /api/v1/alarms/id/acknowledge",
    "POST /api/v1/local/devices",
    "POST /api/v1/nodes/name/devices",
    "POST /api/v1/volumes",
    "POST /api/v1/volumes/name/scrub",
    "PUT /api/v1/initiators/name",
];

#[tokio::test]
async fn nobody_gets_past_without_showing_who_he_is() {
    let (url, api, known) = guarded(None).await;
    let routes = routes();
    assert!(routes.len() > 40, "{}", routes.len());
    assert!(routes.contains(&("GET".to_owned(), EVENTS.to_owned())));
    for (method, path) in &routes {
        if path.starts_with("/api/v1/login") || path == OPENAPI {
            continue;
        }
        let shown = [
            String::new(),
            bearer("nonsense"),
            "Authorization: Basic YTpi\r\n".to_owned(),
            "Cookie: __Host-holdfast-0123abcd=hfs_other\r\nSec-Fetch-Site: same-origin\r\n"
                .to_owned(),
        ];
        for shown in shown {
            let (status, answer) = ask(&url, &format!("{method} {path}"), &shown, "").await;
            let is_login = (method.as_str(), path.as_str()) == ("POST", "/api/v1/session");
            let expected = if is_login { 415 } else { 401 };
            assert_eq!(status, expected, "{method} {path}: {answer}");
            if !is_login {
                assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
                assert!(answer.contains(r#""code":"unauthenticated""#), "{answer}");
                assert!(
                    answer.contains(&format!(r#""instance":"{path}""#)),
                    "{answer}"
                );
            }
        }
        let (status, _) = ask(&url, &format!("{method} {path}"), &bearer("unknowable"), "").await;
        assert!(status == 503 || status == 415, "{method} {path}");
    }
    assert_eq!(*api.asked.lock().unwrap(), Vec::<String>::new());
    let (status, _) = ask(&url, "GET /api/v1/openapi.json", "", "").await;
    assert_eq!(status, 200, "how it is asked is no secret");
    let (status, _) = ask(&url, "GET /api/v1/nowhere", "", "").await;
    assert_eq!(status, 404);
    for method in ["TRACE", "OPTIONS"] {
        let (status, _) = ask(&url, &format!("{method} /api/v1/status"), "", "").await;
        assert_eq!(status, 405, "{method} is known to nothing here");
    }
    // Whoever reaches a port could push everything else out of the log.
    assert!(known.noted.lock().unwrap().is_empty());
}

/// Whoever is told so finds it in the log, by the trace.
#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_answered_within_its_trace() {
    let door = Door::Guarded(Arc::new(Known::default()));
    let router = router(Arc::new(Remembering::default()), door);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = Request::get("/api/v1/status")
        .header("authorization", "Bearer never known")
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-00"))
        .body(Body::empty())
        .unwrap();
    let answer = TowerToHyperService::new(router).call(request).await;
    let (head, body) = answer.unwrap().into_parts();
    assert_eq!(head.status.as_u16(), 503);
    let said = head.headers["traceresponse"].to_str().unwrap();
    assert!(said.contains(trace), "{said}");
    let body = axum::body::to_bytes(body, 4096).await.unwrap();
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    assert!(problem.detail.contains("took too long"), "{problem}");
    assert_eq!(problem.trace_id.as_deref(), Some(trace));
    assert_eq!(problem.instance.as_deref(), Some("/api/v1/status"));
}

#[tokio::test]
async fn a_lesser_role_or_another_scope_is_refused_everywhere() {
    let (url, api, known) = guarded(None).await;
    let (mut refused, mut operators) = ([0; 5], Vec::new());
    let shown = [
        "viewer-everything",
        "operator-everything",
        "administrator-everything",
        "operator-volumes",
        "administrator-metrics",
    ];
    for (method, path) in routes() {
        let is_open = path.starts_with("/api/v1/login") || path == OPENAPI;
        if path.starts_with("/api/v1/session") || is_open {
            continue;
        }
        let what = format!("{method} {path}");
        let changes = method != "GET";
        let secret = [
            "/users",
            "/tokens",
            "/audit",
            "/support",
            "/receivers",
            "/events/state",
        ]
        .iter()
        .any(|it| path.contains(it));
        for (place, token) in shown.iter().enumerate() {
            let before = api.asked.lock().unwrap().len();
            let (status, answer) = ask(&url, &what, &bearer(token), "").await;
            assert_ne!(status, 401, "{what}: {answer}");
            if status == 403 {
                refused[place] += 1;
                assert_eq!(api.asked.lock().unwrap().len(), before, "{what} was done");
                let noted = known.noted.lock().unwrap();
                let last = noted.last().unwrap();
                assert_eq!((&*last.path, last.status), (&*path, 403));
                assert_eq!(last.code.as_deref(), Some("forbidden"));
                assert_eq!(last.who, format!("token {token} (7)"));
                assert_eq!(last.from, "192.0.2.7");
            }
            match place {
                0 => assert_eq!(status == 403, changes || secret, "{what}"),
                1 if changes && status != 403 => operators.push(what.clone()),
                1 if !changes => assert_eq!(status == 403, secret, "{what}"),
                2 => assert_ne!(status, 403, "{what}"),
                3 => {
                    let is_of_volumes =
                        ["/api/v1/volumes", "/api/v1/initiators", "/api/v1/traffic"]
                            .iter()
                            .any(|it| path.starts_with(it));
                    assert_eq!(status == 403, !is_of_volumes, "{what}");
                }
                // Prometheus reads the metrics, and nothing else, whatever its role.
                4 => assert_eq!(status == 403, path != "/metrics", "{what}"),
                _ => {}
            }
        }
    }
    assert_eq!(refused[2], 0);
    assert!(refused[1] > 0 && refused[1] < refused[0], "{refused:?}");
    operators.sort();
    assert_eq!(operators, OPERATORS);
    let metrics = bearer("viewer-metrics");
    assert_eq!(ask(&url, "GET /metrics", &metrics, "").await.0, 200);
    assert_eq!(ask(&url, "GET /api/v1/status", &metrics, "").await.0, 403);
    // Who it is is told to everybody who is somebody.
    let (status, answer) = ask(&url, "GET /api/v1/session", &metrics, "").await;
    assert_eq!(status, 200);
    assert!(answer.ends_with(r#"{"kind":"token","name":"viewer-metrics","role":"viewer","scope":"metrics","expires_ms":null}"#), "{answer}");
}

#[tokio::test]
async fn changes_are_put_down_and_looks_are_not() {
    let (url, _, known) = guarded(None).await;
    let operator = bearer("operator-everything");
    assert_eq!(ask(&url, "GET /api/v1/volumes", &operator, "").await.0, 200);
    let volume = r#"{"name":"demo","bytes":4096,"policy":"mirror2"}"#;
    assert_eq!(
        ask(&url, "POST /api/v1/volumes", &operator, volume).await.0,
        201
    );
    assert_eq!(
        ask(&url, "DELETE /api/v1/volumes/x?force=true", &operator, "")
            .await
            .0,
        204
    );
    let (status, _) = ask(&url, "POST /api/v1/volumes", &operator, "{}").await;
    assert_eq!(status, 400);
    let noted = known.noted.lock().unwrap();
    let told: Vec<_> = noted
        .iter()
        .map(|it| (&*it.method, &*it.path, it.status, it.code.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("POST", "/api/v1/volumes", 201, None),
            ("DELETE", "/api/v1/volumes/x?force=true", 204, None),
            ("POST", "/api/v1/volumes", 400, Some("invalid")),
        ]
    );
    assert!(
        noted
            .iter()
            .all(|it| it.who == "token operator-everything (7)" && it.at_ms > 0)
    );
}

/// So that the lines that nodes have logged meanwhile are found by it.
#[tokio::test]
async fn what_is_put_down_says_of_which_trace_it_is() {
    let (url, _, known) = guarded(None).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\n");
    for (what, role, status) in [
        ("DELETE /api/v1/volumes/x", "operator-everything", 204),
        ("DELETE /api/v1/volumes/x", "viewer-everything", 403),
    ] {
        let headers = format!("{}{parent}", bearer(role));
        assert_eq!(ask(&url, what, &headers, "").await.0, status);
    }
    let login = r#"{"name":"ada","password":"wrong"}"#;
    ask(&url, "POST /api/v1/session", &parent, login).await;
    {
        let noted = known.noted.lock().unwrap();
        let traces: Vec<_> = noted.iter().map(|it| it.trace_id.as_deref()).collect();
        assert_eq!(traces, [Some(trace); 3]);
    }
    // One that begins here is the one that the answer names.
    let operator = bearer("operator-everything");
    let (_, answer) = ask(&url, "DELETE /api/v1/volumes/x", &operator, "").await;
    let noted = known.noted.lock().unwrap();
    let begun = noted[3].trace_id.as_deref().unwrap();
    let named = format!("traceresponse: 00-{begun}-");
    assert!(begun.len() == 32 && answer.contains(&named), "{answer}");
}

/// Somebody goes on while he has to wait: that is seen, and what was done is not pushed out by it.
#[tokio::test]
async fn of_logins_that_are_not_tried_some_are_put_down_and_how_many_there_were() {
    let (url, _, known) = guarded(None).await;
    let again = r#"{"name":"ada","password":"again"}"#;
    for _ in 0..4 {
        let (status, answer) = ask(&url, "POST /api/v1/session", "", again).await;
        assert_eq!(status, 429);
        assert!(!answer.contains("put down"), "{answer}");
    }
    let noted = known.noted.lock().unwrap();
    let told: Vec<_> = noted
        .iter()
        .map(|it| (&*it.who, it.status, it.about.as_deref()))
        .collect();
    let more = "others that were not tried since the last that is put down: 1";
    assert_eq!(
        told,
        [("user ada", 429, None), ("user ada", 429, Some(more))]
    );
    assert_eq!(noted[0].code.as_deref(), Some("too-many-attempts"));
}

#[tokio::test]
async fn a_login_gives_a_cookie_that_only_our_own_pages_can_use_for_changes() {
    let (url, api, known) = guarded(None).await;
    let wrong = r#"{"name":"ada","password":"wrong"}"#;
    let (status, _) = ask(&url, "POST /api/v1/session", "", wrong).await;
    assert_eq!(status, 401);
    let again = r#"{"name":"ada","password":"again"}"#;
    let (status, answer) = ask(&url, "POST /api/v1/session", "", again).await;
    assert_eq!(status, 429);
    assert!(answer.contains("retry-after: 7\r\n"), "{answer}");
    let right = r#"{"name":"ada","password":"right"}"#;
    let (status, answer) = ask(&url, "POST /api/v1/session", "", right).await;
    assert_eq!(status, 200);
    let cookie = "set-cookie: __Host-holdfast-0123abcd=hfs_ada; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict\r\n";
    assert!(answer.contains(cookie), "{answer}");
    let cookie = "Cookie: a=b; __Host-holdfast-0123abcd=hfs_ada\r\n";
    assert_eq!(ask(&url, "GET /api/v1/volumes", cookie, "").await.0, 200);
    let asked = api.asked.lock().unwrap().len();
    for site in [
        "",
        "Sec-Fetch-Site: cross-site\r\n",
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
    ] {
        let headers = format!("{cookie}{site}");
        assert_eq!(
            ask(&url, "DELETE /api/v1/volumes/x", &headers, "").await.0,
            403,
            "{site}"
        );
    }
    assert_eq!(api.asked.lock().unwrap().len(), asked);
    let ours = format!("{cookie}Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(
        ask(&url, "DELETE /api/v1/volumes/x", &ours, "").await.0,
        204
    );
    let (status, answer) = ask(&url, "DELETE /api/v1/session", &ours, "").await;
    assert_eq!(status, 204);
    assert!(
        answer.contains("__Host-holdfast-0123abcd=; Path=/; Max-Age=0"),
        "{answer}"
    );
    // A form of another site has no JSON.
    let (status, _) = {
        let request = format!(
            "POST /api/v1/session HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{right}",
            right.len()
        );
        let answer = raw(&url, &request).await;
        (
            answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap(),
            (),
        )
    };
    assert_eq!(status, 415);
    let noted = known.noted.lock().unwrap();
    let who: Vec<_> = noted
        .iter()
        .take(4)
        .map(|it| (&*it.who, it.status))
        .collect();
    let of = |status| ("user ada", status);
    assert_eq!(who, [of(401), of(429), of(200), of(204)]);
    for entry in noted.iter() {
        let text = serde_json::to_string(entry).unwrap();
        assert!(!text.contains("hfs_") && !text.contains("right"), "{text}");
    }
}

#[tokio::test]
async fn a_node_needs_no_token_and_one_that_is_shown_counts() {
    let (url, _, known) = guarded(Some(2)).await;
    assert_eq!(ask(&url, "GET /api/v1/local/audit", "", "").await.0, 200);
    assert_eq!(ask(&url, "DELETE /api/v1/volumes/x", "", "").await.0, 204);
    assert_eq!(known.noted.lock().unwrap()[0].who, "node 2");
    let viewer = bearer("viewer-everything");
    assert_eq!(
        ask(&url, "DELETE /api/v1/volumes/x", &viewer, "").await.0,
        403
    );
    // A browser that shows a node's certificate does so for every site's pages.
    for (page, expected) in [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: https://elsewhere.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: https://here\r\n", 204),
        ("Sec-Fetch-Site: same-origin\r\n", 204),
    ] {
        let (status, _) = ask(&url, "DELETE /api/v1/volumes/x", page, "").await;
        assert_eq!(status, expected, "{page}");
        let (status, _) = ask(&url, "GET /api/v1/volumes", page, "").await;
        assert_eq!(status, 200, "{page}");
    }
}

#[tokio::test]
async fn what_was_made_is_put_down_by_its_name_and_no_secret_of_it() {
    let (url, _, known) = guarded(None).await;
    let all = bearer("administrator-everything");
    let volume = r#"{"name":"db","bytes":4096,"policy":"mirror2"}"#;
    let token = r#"{"name":"t","role":"viewer","lifetime_seconds":60}"#;
    let user = r#"{"name":"ada","role":"operator","password":"correct horse battery"}"#;
    let device = r#"{"order":"add","path":"/dev/sdb","replaces":3}"#;
    let is_made = [
        (
            "POST /api/v1/volumes",
            r#"{"name":"demo","bytes":4096,"policy":"mirror2"}"#,
            Some("volume demo: bytes=4096, policy=mirror2"),
        ),
        // There was one like it: nothing was set.
        (
            "POST /api/v1/volumes",
            volume,
            Some("volume db (was there already: nothing was changed)"),
        ),
        ("POST /api/v1/users", user, Some("user bob: role=viewer")),
        (
            "POST /api/v1/tokens",
            token,
            Some("token t (00): role=viewer, scope=everything"),
        ),
        (
            "POST /api/v1/local/devices",
            device,
            Some("add device /dev/sdb for device 3"),
        ),
        // The path says which, or nothing was made: what was asked for may be a secret in the wrong place.
        ("POST /api/v1/volumes/db/scrub", "", None),
        ("POST /api/v1/nodes/n1/devices", device, None),
        ("POST /api/v1/users", r#"{"name":"hunter2"}"#, None),
    ];
    for (what, body, about) in is_made {
        let (status, answer) = ask(&url, what, &all, body).await;
        let noted = known.noted.lock().unwrap();
        let last = noted.last().unwrap();
        assert_eq!(format!("{} {}", last.method, last.path), what);
        assert_eq!(last.status, status, "{answer}");
        assert_eq!(last.about.as_deref(), about, "{what}: {answer}");
    }
    // The repetition of a request has changed nothing.
    let again = format!("{all}Idempotency-Key: k\r\n");
    ask(&url, "POST /api/v1/users", &again, user).await;
    let last = known.noted.lock().unwrap().last().unwrap().about.clone();
    let nothing = "user bob (was there already: nothing was changed)";
    assert_eq!(last.as_deref(), Some(nothing));
    let noted = serde_json::to_string(&*known.noted.lock().unwrap()).unwrap();
    for secret in ["hft_x", "correct horse", "hunter2"] {
        assert!(!noted.contains(secret), "{noted}");
    }
}

/// Who looks into the log sees what was set, and not only that something was.
#[tokio::test]
async fn what_was_set_is_put_down_and_no_secret_of_it() {
    let (url, _, known) = guarded(None).await;
    let all = bearer("administrator-everything");
    let user = r#"{"role":"operator","password":"correct horse battery"}"#;
    let host = r#"{"chap":{"name":"host","secret":"correct horse"}}"#;
    for (what, body, about) in [
        (
            "PATCH /api/v1/settings",
            r#"{"repair_delay_seconds":45,"rebalance":false}"#,
            Some("rebalance=false, repair_delay_seconds=45"),
        ),
        (
            "PATCH /api/v1/retention",
            r#"{"audit_mib":64}"#,
            Some("audit_mib=64"),
        ),
        (
            "PATCH /api/v1/volumes/db",
            r#"{"bytes":8192}"#,
            Some("bytes=8192"),
        ),
        (
            "PATCH /api/v1/volumes/db/access",
            r#"{"allow":"iqn.a:b"}"#,
            Some("allow=iqn.a:b"),
        ),
        (
            "PATCH /api/v1/users/bob",
            user,
            Some("password=(removed), role=operator"),
        ),
        (
            "PATCH /api/v1/nodes/n1",
            r#"{"order":"maintenance-on"}"#,
            Some("order=maintenance-on"),
        ),
        (
            "PUT /api/v1/initiators/iqn.a:b",
            host,
            Some("chap.name=host, chap.secret=(removed)"),
        ),
        // Nothing was set, or it was not done.
        ("PATCH /api/v1/settings", "{}", None),
        ("PATCH /api/v1/alarm-kinds/none", r#"{"off":true}"#, None),
    ] {
        let (_, answer) = ask(&url, what, &all, body).await;
        let noted = known.noted.lock().unwrap();
        let last = noted.last().unwrap();
        assert_eq!(format!("{} {}", last.method, last.path), what);
        assert_eq!(last.about.as_deref(), about, "{what}: {answer}");
    }
    let noted = serde_json::to_string(&*known.noted.lock().unwrap()).unwrap();
    assert!(!noted.contains("correct"), "{noted}");
}

#[tokio::test]
async fn nothing_is_changed_that_cannot_be_put_down() {
    let (url, api, known) = guarded(None).await;
    *known.puts_nothing_down.lock().unwrap() = true;
    let admin = bearer("administrator-everything");
    let (status, answer) = ask(&url, "DELETE /api/v1/volumes/x", &admin, "").await;
    assert_eq!(status, 503, "{answer}");
    assert_eq!(*api.asked.lock().unwrap(), Vec::<String>::new());
    // It is tried to put down that it was refused: that tells when it can be again.
    assert_eq!(known.noted.lock().unwrap()[0].status, 503);
    assert_eq!(ask(&url, "GET /api/v1/volumes", &admin, "").await.0, 200);
    let right = r#"{"name":"ada","password":"right"}"#;
    assert_eq!(ask(&url, "POST /api/v1/session", "", right).await.0, 200);
    let (url, _, known) = guarded(Some(2)).await;
    *known.puts_nothing_down.lock().unwrap() = true;
    assert_eq!(ask(&url, "DELETE /api/v1/volumes/x", "", "").await.0, 204);
}

#[tokio::test]
async fn with_an_open_door_everybody_may_everything_and_there_are_no_users() {
    let (url, _) = start(Remembering::default()).await;
    let (status, answer) = ask(&url, "GET /api/v1/session", "", "").await;
    assert_eq!(status, 200);
    assert!(answer.contains(r#""kind":"anybody""#), "{answer}");
    for what in [
        "GET /api/v1/users",
        "GET /api/v1/tokens",
        "GET /api/v1/audit",
        "DELETE /api/v1/session",
    ] {
        let (status, answer) = ask(&url, what, "", "").await;
        assert_eq!(status, 409, "{what}");
        assert!(answer.contains("security is off"), "{answer}");
    }
}

#[tokio::test]
async fn a_change_is_put_down_whether_or_not_somebody_waits_for_its_answer() {
    let (url, _, known) = guarded(None).await;
    let address = url.to_string().replace("http://", "");
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Its body does not come whole.
    let request = "POST /api/v1/users HTTP/1.1\r\nHost: here\r\n\
        Authorization: Bearer administrator-everything\r\n\
        Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stream);
    for _ in 0..500 {
        if !known.noted.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let noted = known.noted.lock().unwrap();
    let told: Vec<_> = noted.iter().map(|it| (&*it.path, &*it.who)).collect();
    let who = "token administrator-everything (7)";
    assert_eq!(told, [("/api/v1/users", who)]);
    assert!(noted[0].trace_id.is_some());
}

/// Whoever reaches the port connects as often as he likes, from where the console of somebody is, too.
#[tokio::test]
async fn a_stream_of_events_of_somebody_who_is_known_goes_on_whoever_else_connects() {
    let (url, api, known) = guarded(None).await;
    *api.tellers.lock().unwrap() = Some(Vec::new());
    let address = url.to_string().replace("http://", "");
    let begin = async |headers: &str| {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: here\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let read = async |stream: &mut TcpStream, wanted: &str| {
        let mut told = String::new();
        while !told.contains(wanted) {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "{told}");
            told.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
    };
    let mut events = begin(&bearer("viewer-everything")).await;
    read(&mut events, "data: ").await;
    let mut refused = begin(&bearer("nonsense")).await;
    read(&mut refused, "401").await;
    let mut strangers = Vec::new();
    for _ in 0..server::CONNECTIONS_MAX + 10 {
        strangers.push(TcpStream::connect(&address).await.unwrap());
    }
    // Connections are taken in the order in which they came.
    let viewer = bearer("viewer-everything");
    let asked = ask(&url, "GET /api/v1/volumes", &viewer, "");
    let (status, _) = tokio::time::timeout(Duration::from_secs(5), asked)
        .await
        .expect("nobody waits for strangers to go");
    assert_eq!(status, 200);
    let teller = api.tellers.lock().unwrap().as_ref().unwrap()[0].clone();
    assert!(teller.tell(&Arc::new(Event {
        id: "a-2".to_owned(),
        at_ms: 2,
        kind: EventKind::NodeLost,
        severity: EventSeverity::Warning,
        subject: "node n2".to_owned(),
        detail: "down".to_owned(),
        not_before_ms: None,
    })));
    read(&mut events, "node n2").await;
    // Who has shown nothing that is known has gone, and the first of the strangers.
    for gone in [&mut refused, &mut strangers[0]] {
        let mut bytes = [0; 1024];
        let read = gone.read(&mut bytes);
        let read = tokio::time::timeout(Duration::from_secs(5), read).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    }
    // So does the stream of one that is known no more.
    *known.changed.lock().unwrap() = Some(Err(ProblemKind::Unauthenticated));
    let ended = read(&mut events, "0\r\n\r\n");
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "it is over");
}

/// Consoles ask on over their connections while the metadata is away.
#[tokio::test]
async fn who_cannot_be_known_for_now_does_not_give_way_to_strangers() {
    let (url, _, known) = guarded(None).await;
    let address = url.to_string().replace("http://", "");
    let mut caller = TcpStream::connect(&address).await.unwrap();
    let mut ask = async |status: &str| {
        let request = format!(
            "GET /api/v1/volumes HTTP/1.1\r\nHost: here\r\n{}\r\n",
            bearer("viewer-everything")
        );
        caller.write_all(request.as_bytes()).await.unwrap();
        let mut told = String::new();
        // Every document ends so, and none has it before.
        while !told.ends_with('}') {
            let mut bytes = [0; 4096];
            let count = caller.read(&mut bytes).await.unwrap();
            assert!(count > 0, "{told}");
            told.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{told}");
    };
    ask("200").await;
    *known.changed.lock().unwrap() = Some(Err(ProblemKind::Unavailable));
    ask("503").await;
    let mut strangers = Vec::new();
    for _ in 0..server::CONNECTIONS_MAX + 10 {
        strangers.push(TcpStream::connect(&address).await.unwrap());
    }
    // Connections are taken in the order in which they came.
    let mut told = [0; 16];
    let gone = strangers[0].read(&mut told);
    let gone = tokio::time::timeout(Duration::from_secs(5), gone).await;
    assert!(matches!(gone, Ok(Ok(0) | Err(_))), "{gone:?}");
    *known.changed.lock().unwrap() = None;
    ask("200").await;
}

#[tokio::test]
async fn a_stream_of_events_ends_with_what_was_shown_for_it() {
    for why in [ProblemKind::Unauthenticated, ProblemKind::Unavailable] {
        let (url, api, known) = guarded(None).await;
        *api.tellers.lock().unwrap() = Some(Vec::new());
        let address = url.to_string().replace("http://", "");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /api/v1/events HTTP/1.1\r\nHost: here\r\n\
            Connection: close\r\nCookie: __Host-holdfast-0123abcd=hfs_ada\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut told = Vec::new();
        // It is asked about at least once, and goes on.
        let ended = stream.read_to_end(&mut told);
        let early = tokio::time::timeout(Duration::from_secs(3), ended).await;
        assert!(early.is_err(), "{}", String::from_utf8_lossy(&told));
        *known.changed.lock().unwrap() = Some(Err(why));
        let ended = stream.read_to_end(&mut told);
        let ended = tokio::time::timeout(Duration::from_secs(4), ended).await;
        ended.expect("it has ended").unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.ends_with("0\r\n\r\n"), "it is whole: {told}");
        assert!(api.tellers.lock().unwrap().as_ref().unwrap()[0].is_over());
    }
}

#[tokio::test]
async fn a_browser_is_sent_to_the_provider_and_comes_back_with_what_it_was_given() {
    let (url, _, known) = guarded(None).await;
    let (status, answer) = ask(&url, "GET /api/v1/login", "", "").await;
    assert_eq!(status, 200);
    let methods =
        r#"{"password":true,"oidc":{"name":"Test","url":"https://here/api/v1/login/oidc"}}"#;
    assert!(answer.ends_with(methods), "{answer}");
    let (status, answer) = ask(&url, "GET /api/v1/login/oidc", "", "").await;
    assert_eq!(status, 303);
    for field in [
        "location: https://id.example/auth?state=s\r\n",
        "set-cookie: __Host-holdfast-login-0123abcd=sealed; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax\r\n",
        "cache-control: no-store\r\n",
        "referrer-policy: no-referrer\r\n",
    ] {
        assert!(answer.contains(field), "{answer}");
    }
    let back = "GET /api/v1/login/oidc/callback?code=c&state=s&session_state=x";
    let ticket = "Cookie: __Host-holdfast-0123abcd=old; __Host-holdfast-login-0123abcd=sealed\r\n";
    let (status, answer) = ask(&url, back, ticket, "").await;
    assert_eq!(status, 303);
    for field in [
        "location: /\r\n",
        "set-cookie: __Host-holdfast-0123abcd=hfs_ada; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict\r\n",
        "set-cookie: __Host-holdfast-login-0123abcd=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax\r\n",
        "referrer-policy: no-referrer\r\n",
    ] {
        assert!(answer.contains(field), "{answer}");
    }
    // Nothing of what a provider says is repeated to a browser, and what nobody is known for is not put down.
    for (query, shown, word) in [
        ("code=c&state=s", "", "again"),
        ("code=c&state=other", ticket, "again"),
        ("state=s&state=s", ticket, "again"),
        ("state=s&error=%3Cb%3E", ticket, "no-role"),
    ] {
        let back = format!("GET /api/v1/login/oidc/callback?{query}");
        let (status, answer) = ask(&url, &back, shown, "").await;
        assert_eq!(status, 303, "{query}");
        assert!(answer.contains(&format!("location: /?login={word}\r\n")));
        assert!(
            !answer.contains("hfs_") && !answer.contains("<b>"),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        // What is not of the login that is under way does not end it.
        assert_eq!(answer.contains("Max-Age=0"), word != "again", "{answer}");
    }
    let noted = known.noted.lock().unwrap();
    let told: Vec<_> = noted
        .iter()
        .map(|it| (&*it.who, &*it.path, it.status, it.code.as_deref()))
        .collect();
    let (who, path) = ("user oidc:ada (7)", "/api/v1/login/oidc/callback");
    assert_eq!(
        told,
        [(who, path, 303, None), (who, path, 403, Some("no-role"))]
    );
}

#[tokio::test]
async fn users_have_a_tag_and_changes_hold_for_it() {
    let (url, _, _) = guarded(None).await;
    let shown = bearer("administrator-everything");
    for (what, body, done) in [
        ("PATCH /api/v1/users/bob", r#"{"role":"operator"}"#, 200),
        ("DELETE /api/v1/users/bob", "", 404),
    ] {
        for (tag, expected) in [("\"0-0\"", 412), ("\"0-1\"", done), ("0-1", 400)] {
            let headers = format!("{shown}If-Match: {tag}\r\n");
            let (status, answer) = ask(&url, what, &headers, body).await;
            assert_eq!(status, expected, "{what} {tag}: {answer}");
        }
    }
    let (_, answer) = ask(&url, "GET /api/v1/users/bob", &shown, "").await;
    assert!(answer.contains("\r\netag: \"0-1\"\r\n"), "{answer}");
}

#[tokio::test]
async fn users_and_tokens_may_be_made_with_a_key() {
    let (url, _, known) = guarded(None).await;
    let shown = bearer("administrator-everything");
    for (what, body) in [
        (
            "POST /api/v1/users",
            r#"{"name":"bob","role":"viewer","password":"correct horse"}"#,
        ),
        (
            "POST /api/v1/tokens",
            r#"{"name":"t","role":"viewer","scope":"everything","lifetime_seconds":3600}"#,
        ),
    ] {
        let headers = format!("{shown}Idempotency-Key: \"k-1\"\r\n");
        let (status, answer) = ask(&url, what, &headers, body).await;
        assert_eq!(status, 201, "{what}: {answer}");
        assert_eq!(std::mem::take(&mut *known.keys.lock().unwrap()), ["k-1"]);
        let headers = format!("{shown}Idempotency-Key: a b\r\n");
        let (status, answer) = ask(&url, what, &headers, body).await;
        assert_eq!(status, 400, "{what}: {answer}");
        assert!(known.keys.lock().unwrap().is_empty());
    }
}
