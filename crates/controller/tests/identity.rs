//! Users, tokens and sessions over an embedded store, through two processes.

#[path = "../../oidc/tests/support/issuer.rs"]
#[allow(dead_code, reason = "the tests of the protocol ask more of it")]
mod issuer;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::documents::{
    AuditEntry, AuditQuery, PasswordChange, SessionCreate, TokenCreate, UserChange, UserCreate,
};
use holdfast_api::{
    BroughtBack, Conditional, EntityTag, IdempotencyKey, Identities, Keyed, LoginFault,
    Precondition, ProblemKind, Shown,
};
use holdfast_controller::{AUDIT_FILE, Accounts, AuditLog, Controller};
use holdfast_identity::{CREATIONS_KEY, Caller, CreationsRecord, Role, Scope};
use holdfast_metadata::suite::User as MetadataUser;
use holdfast_metadata::{Embedded, Store as _};
use holdfast_model::metadata::{Operation, OperationResult, Selector};
use holdfast_model::record::{Record, Secret};
use holdfast_oidc::{Provider, Settings, TicketKey};
use tokio::task::JoinSet;

use crate::support::away::session;
use crate::support::{CLUSTER, Node, controller, open};
use issuer::{CLIENT, Issuer, SECRET, fields, visit};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const PASSWORD: &str = "correct horse battery";
/// Longer than what is known of the metadata is believed without asking.
const STALE: Duration = Duration::from_millis(1100);

fn over(controller: Controller, folder: &Path, name: &str) -> Accounts {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let log = AuditLog::open(&folder.join(AUDIT_FILE)).unwrap();
    Accounts::new(controller, name, log)
}

async fn accounts(store: &Embedded, folder: &Path, name: &str) -> Accounts {
    over(controller(store).await, folder, name)
}

fn user(name: &str, role: Role) -> Keyed<UserCreate> {
    Keyed::from(UserCreate {
        name: name.to_owned(),
        role,
        password: Secret(PASSWORD.to_owned()),
    })
}

fn login(name: &str, password: &str) -> SessionCreate {
    SessionCreate {
        name: name.to_owned(),
        password: Secret(password.to_owned()),
    }
}

fn token(role: Role) -> Keyed<TokenCreate> {
    Keyed::from(TokenCreate {
        name: "script".to_owned(),
        role,
        scope: Scope::Everything,
        lifetime_seconds: 3600,
    })
}

fn keyed<T>(wanted: Keyed<T>, key: &str) -> Keyed<T> {
    let key = Some(IdempotencyKey::new(key).unwrap());
    Keyed { key, ..wanted }
}

#[tokio::test]
async fn a_login_holds_at_every_node_until_it_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    let made = here
        .create_user(user("ada", Role::Administrator))
        .await
        .unwrap()
        .user;
    assert_eq!(
        (&*made.name, made.role, made.sessions),
        ("ada", Role::Administrator, 0)
    );
    let again = here
        .create_user(user("ada", Role::Viewer))
        .await
        .unwrap_err();
    assert_eq!(again.kind, ProblemKind::UserExists);
    for (name, password) in [
        ("ada", "correct horse batterz"),
        ("eve", PASSWORD),
        ("../x", PASSWORD),
    ] {
        let wrong = here
            .log_in(login(name, password), HERE)
            .await
            .err()
            .unwrap();
        assert_eq!(wrong.kind, ProblemKind::Unauthenticated);
        assert!(
            !wrong.detail.contains(name),
            "whether there is such a user is not told"
        );
    }
    let began = here.log_in(login("ada", PASSWORD), HERE).await.unwrap();
    for at in [&here, &there] {
        let caller = at.who(Shown::Session(&began.secret)).await.unwrap();
        assert_eq!(caller, began.caller);
        let other = at.who(Shown::Token(&began.secret)).await.unwrap_err();
        assert_eq!(other.kind, ProblemKind::Unauthenticated);
    }
    assert_eq!(there.users().await.unwrap()[0].sessions, 1);
    let holdfast_identity::Who::User(_, id) = &began.caller.who else {
        panic!("a user logged in");
    };
    there.log_out(id).await.unwrap();
    let ended = there.who(Shown::Session(&began.secret)).await.unwrap_err();
    assert_eq!(ended.kind, ProblemKind::Unauthenticated);
    tokio::time::sleep(STALE).await;
    assert!(here.who(Shown::Session(&began.secret)).await.is_err());
}

#[tokio::test]
async fn what_an_administrator_changes_is_in_effect() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    here.create_user(user("ada", Role::Administrator))
        .await
        .unwrap();
    here.create_user(user("bob", Role::Viewer)).await.unwrap();
    let bob = here.log_in(login("bob", PASSWORD), HERE).await.unwrap();
    let role = UserChange {
        role: Some(Role::Operator),
        ..UserChange::default()
    };
    assert_eq!(
        here.change_user("bob", role.into()).await.unwrap().role,
        Role::Operator
    );
    assert_eq!(
        here.who(Shown::Session(&bob.secret)).await.unwrap().role,
        Role::Operator
    );
    let disable = UserChange {
        disabled: Some(true),
        ..UserChange::default()
    };
    here.change_user("bob", disable.clone().into())
        .await
        .unwrap();
    assert!(here.who(Shown::Session(&bob.secret)).await.is_err());
    assert!(here.log_in(login("bob", PASSWORD), HERE).await.is_err());
    let last = here.change_user("ada", disable.into()).await.unwrap_err();
    assert_eq!(last.kind, ProblemKind::Refused);
    assert_eq!(
        here.remove_user("ada", Precondition::default())
            .await
            .unwrap_err()
            .kind,
        ProblemKind::Refused
    );
    here.remove_user("bob", Precondition::default())
        .await
        .unwrap();
    assert_eq!(
        here.remove_user("bob", Precondition::default())
            .await
            .unwrap_err()
            .kind,
        ProblemKind::NoSuchUser
    );
    let short = here
        .create_user(Keyed::from(UserCreate {
            password: Secret("short".to_owned()),
            ..user("eve", Role::Viewer).request
        }))
        .await;
    assert_eq!(short.unwrap_err().kind, ProblemKind::Invalid);
    let odd = here
        .create_user(user("Eve", Role::Viewer))
        .await
        .unwrap_err();
    assert_eq!(odd.kind, ProblemKind::Invalid);
}

#[tokio::test]
async fn a_new_password_ends_all_other_logins() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    here.create_user(user("ada", Role::Administrator))
        .await
        .unwrap();
    let one = here.log_in(login("ada", PASSWORD), HERE).await.unwrap();
    let other = here.log_in(login("ada", PASSWORD), HERE).await.unwrap();
    let holdfast_identity::Who::User(name, id) = &one.caller.who else {
        panic!("a user logged in");
    };
    let change = |current: &str| PasswordChange {
        current: Secret(current.to_owned()),
        new: Secret("staple battery horse".to_owned()),
    };
    let wrong = here
        .change_password((name, id), change("wrong"), HERE)
        .await
        .unwrap_err();
    assert_eq!(wrong.kind, ProblemKind::Forbidden);
    here.change_password((name, id), change(PASSWORD), HERE)
        .await
        .unwrap();
    assert!(here.who(Shown::Session(&one.secret)).await.is_ok());
    assert!(here.who(Shown::Session(&other.secret)).await.is_err());
    assert!(here.log_in(login("ada", PASSWORD), HERE).await.is_err());
    here.log_in(login("ada", "staple battery horse"), HERE)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_token_is_told_once_and_holds_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    let root = Caller::node(1);
    let made = here
        .create_token(token(Role::Operator), &root)
        .await
        .unwrap();
    let caller = there.who(Shown::Token(&made.secret.0)).await.unwrap();
    assert_eq!(
        (caller.role, caller.scope),
        (Role::Operator, Scope::Everything)
    );
    assert_eq!(
        here.tokens().await.unwrap(),
        std::slice::from_ref(&made.token)
    );
    let more = here
        .create_token(token(Role::Administrator), &caller)
        .await
        .unwrap_err();
    assert_eq!(more.kind, ProblemKind::Forbidden);
    for forged in [
        made.secret.0.replace(|it: char| it.is_ascii_digit(), "a"),
        "hft_".to_owned(),
        String::new(),
    ] {
        let forged = here.who(Shown::Token(&forged)).await.unwrap_err();
        assert_eq!(forged.kind, ProblemKind::Unauthenticated);
    }
    here.revoke_token(&made.token.id).await.unwrap();
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_err());
    tokio::time::sleep(STALE).await;
    assert!(there.who(Shown::Token(&made.secret.0)).await.is_err());
}

#[tokio::test]
async fn what_was_just_made_through_another_node_is_known_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    for _ in 0..3 {
        // It has just asked the metadata.
        assert!(there.who(Shown::Token("hft_none")).await.is_err());
        let root = Caller::node(1);
        let made = here.create_token(token(Role::Viewer), &root).await;
        let secret = made.unwrap().secret.0;
        assert!(there.who(Shown::Token(&secret)).await.is_ok());
    }
}

#[tokio::test]
async fn those_who_try_passwords_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    here.create_user(user("ada", Role::Administrator))
        .await
        .unwrap();
    let mut kinds = Vec::new();
    for _ in 0..8 {
        let wrong = here
            .log_in(login("ada", "wrong password"), HERE)
            .await
            .err()
            .unwrap();
        kinds.push(wrong.kind);
        if wrong.kind == ProblemKind::TooManyAttempts {
            let seconds = wrong.retry_after_seconds.unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
        }
    }
    assert_eq!(
        kinds
            .iter()
            .filter(|it| **it == ProblemKind::Unauthenticated)
            .count(),
        5
    );
    // From elsewhere it does: nobody is kept out by others' tries.
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8));
    here.log_in(login("ada", PASSWORD), elsewhere)
        .await
        .unwrap();
    // Not even the right one helps before the time has passed, else it could be tried for.
    let right = here
        .log_in(login("ada", PASSWORD), HERE)
        .await
        .err()
        .unwrap();
    assert_eq!(right.kind, ProblemKind::TooManyAttempts);
}

/// Who goes on while he has to wait is seen in the log of what was done, and does not fill it.
#[tokio::test]
async fn of_logins_that_were_not_tried_one_of_each_address_is_put_down_in_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    tokio::time::pause();
    let from = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let noted = |last| here.may_note_untried(from(last));
    let told: Vec<_> = (0..100).map(|_| noted(1)).collect();
    assert_eq!((told[0], told[99]), (Some(0), None));
    assert_eq!(told.iter().flatten().count(), 1);
    assert_eq!(noted(2), Some(99), "what was left out is told");
    let of_others = (3..=200).filter_map(noted).count();
    assert!(of_others < 16, "{of_others}");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(noted(1), Some(198 - of_others as u64));
}

#[tokio::test]
async fn who_was_known_is_known_while_the_metadata_is_away_and_nobody_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let elsewhere = accounts(&store, folder.path(), "n1").await;
    let made = elsewhere
        .create_token(token(Role::Viewer), &Caller::node(1))
        .await
        .unwrap();
    let (known, away) = session(&store);
    let here = over(Controller::new(CLUSTER, known, None), folder.path(), "n2");
    let (unknown, away_too) = session(&store);
    let fresh = over(Controller::new(CLUSTER, unknown, None), folder.path(), "n3");
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_ok());
    let requests = away.store.lock().unwrap().take();
    away_too.store.lock().unwrap().take();
    tokio::time::sleep(STALE).await;
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_ok());
    let other = here.who(Shown::Token("hft_nonsense")).await.unwrap_err();
    assert_eq!(other.kind, ProblemKind::Unauthenticated);
    // One that has just started lets nobody in.
    let unknown = fresh.who(Shown::Token(&made.secret.0)).await.unwrap_err();
    assert_eq!(unknown.kind, ProblemKind::Unavailable);
    let unmade = here
        .create_token(token(Role::Viewer), &Caller::node(1))
        .await
        .unwrap_err();
    assert_eq!(unmade.kind, ProblemKind::Unavailable);
    // For five minutes, not for ever: who was revoked elsewhere might go on here.
    let pass = async |seconds| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    pass(290).await;
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_ok());
    pass(10).await;
    for _ in 0..2 {
        let late = here.who(Shown::Token(&made.secret.0)).await.unwrap_err();
        assert_eq!(late.kind, ProblemKind::Unavailable);
        let hint = late.hint.unwrap();
        assert!(hint.contains("--credentials"), "{hint}");
    }
    let late = here.log_in(login("ada", PASSWORD), HERE).await;
    assert_eq!(late.err().unwrap().kind, ProblemKind::Unavailable);
    // It answers again.
    *away.store.lock().unwrap() = requests.clone();
    pass(1).await;
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_ok());
    away.store.lock().unwrap().take();
    // What was revoked meanwhile is revoked when it is back.
    elsewhere.revoke_token(&made.token.id).await.unwrap();
    *away.store.lock().unwrap() = requests;
    tokio::time::sleep(STALE).await;
    assert!(here.who(Shown::Token(&made.secret.0)).await.is_err());
}

#[tokio::test]
async fn what_was_done_is_told_with_whoever_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let _node = Node::start(2, &store).await;
    for at_ms in [1, 3, 2] {
        here.note(AuditEntry {
            at_ms,
            who: "user ada".to_owned(),
            ..AuditEntry::default()
        });
    }
    let told = here
        .audit(AuditQuery {
            limit: 2,
            ..AuditQuery::default()
        })
        .await
        .unwrap();
    // That node has no log: its door is open.
    assert_eq!(told.silent, ["n2"]);
    let told: Vec<_> = told
        .entries
        .iter()
        .map(|it| (it.at_ms, &*it.node))
        .collect();
    assert_eq!(told, [(3, "n1"), (2, "n1")]);
}

#[tokio::test]
async fn what_was_done_in_one_moment_is_told_once_each_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let note = |at_ms, path: &str| {
        here.note(AuditEntry {
            at_ms,
            path: path.to_owned(),
            ..AuditEntry::default()
        });
    };
    for path in ["a", "b", "c", "d", "e"] {
        note(7, path);
    }
    let (mut told, mut after) = (Vec::new(), None);
    loop {
        let query = AuditQuery {
            limit: 2,
            after,
            ..AuditQuery::default()
        };
        let piece = here.audit(query).await.unwrap();
        told.extend(piece.entries.into_iter().map(|it| it.path));
        // What is done meanwhile is before what is told now.
        note(7, "f");
        note(8, "g");
        after = piece.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(told, ["e", "d", "c", "b", "a"]);
}

#[tokio::test]
async fn many_changes_at_the_same_time_are_all_made() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    let root = Caller::node(1);
    let make = |at: &'static str| {
        let accounts = if at == "n1" { &here } else { &there };
        accounts.create_token(token(Role::Viewer), &root)
    };
    let made = tokio::join!(make("n1"), make("n2"), make("n1"), make("n2"));
    for made in [made.0, made.1, made.2, made.3] {
        made.unwrap();
    }
    assert_eq!(here.tokens().await.unwrap().len(), 4);
}

/// Where browsers come back to.
const EXTERNAL: &str = "https://storage.example";

fn provider(issuer: &Issuer) -> Option<Arc<Provider>> {
    let settings = Settings {
        name: "Test".to_owned(),
        issuer: issuer.url.clone(),
        client_id: CLIENT.to_owned(),
        client_secret: Some(Secret(SECRET.to_owned())),
        authority: None,
        scopes: vec!["openid".to_owned()],
        username_claim: "preferred_username".to_owned(),
        roles_claim: "groups".to_owned(),
        roles: [(Role::Operator, vec!["staff".to_owned()])].into(),
        external_url: EXTERNAL.to_owned(),
    };
    let key = TicketKey::derive(b"the cluster's");
    Some(Arc::new(Provider::new(settings, key).unwrap()))
}

/// What a browser comes back with that was sent away there.
async fn away(accounts: &Accounts) -> BroughtBack {
    let sent = accounts.send_away().await.ok().unwrap();
    let back = tokio::task::spawn_blocking(move || visit(&sent.location));
    let back = back.await.unwrap();
    let mut back = fields(back.split_once('?').unwrap().1);
    BroughtBack {
        ticket: Some(sent.ticket),
        state: back.remove("state"),
        code: back.remove("code"),
        error: back.remove("error"),
        issuer: back.remove("iss"),
    }
}

#[tokio::test]
async fn who_logs_in_at_a_provider_is_no_user_and_takes_none_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let issuer = Issuer::start(&format!("{EXTERNAL}/api/v1/login/oidc/callback"), false);
    let here = accounts(&store, folder.path(), "n1").await;
    let here = here.trusting(provider(&issuer));
    let there = accounts(&store, folder.path(), "n2").await;
    let there = there.trusting(provider(&issuer));
    here.create_user(user("ada", Role::Administrator))
        .await
        .unwrap();
    let local = here.log_in(login("ada", PASSWORD), HERE).await.unwrap();
    let url = here.login_methods().oidc.unwrap().url;
    assert_eq!(url, "https://storage.example/api/v1/login/oidc");
    // It begins at one node and ends at another; whoever is called like a user is somebody else.
    let came = there.come_back(away(&here).await, HERE).await.ok().unwrap();
    assert_eq!(came.caller.who.to_string(), "user oidc:ada (f7c2-ada)");
    assert_eq!(came.caller.role, Role::Operator);
    for at in [&here, &there] {
        let caller = at.who(Shown::Session(&came.secret)).await.unwrap();
        assert_eq!(caller, came.caller);
    }
    let users = here.users().await.unwrap();
    let told: Vec<_> = users
        .iter()
        .map(|it| (&*it.name, it.role, it.sessions, it.subject.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("ada", Role::Administrator, 1, None),
            ("oidc:ada", Role::Operator, 1, Some("f7c2-ada"))
        ]
    );
    // Nothing of it can be changed here, and it makes no token that outlives it by years.
    let change = UserChange {
        role: Some(Role::Viewer),
        ..UserChange::default()
    };
    let refused = here
        .change_user("oidc:ada", change.into())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Refused);
    let days = |days: u64| {
        Keyed::from(TokenCreate {
            lifetime_seconds: days * 86_400,
            ..token(Role::Operator).request
        })
    };
    let long = here.create_token(days(91), &came.caller).await.unwrap_err();
    assert_eq!(long.kind, ProblemKind::Invalid);
    assert!(long.detail.contains("90 days"), "{}", long.detail);
    let made = here.create_token(days(90), &came.caller).await.unwrap();
    assert_eq!(made.token.created_by, "user oidc:ada (f7c2-ada)");
    let more = here
        .create_token(token(Role::Administrator), &came.caller)
        .await;
    assert_eq!(more.unwrap_err().kind, ProblemKind::Forbidden);
    // An administrator ends the logins of that one, and of nobody else, and only of whom he has seen.
    let [tag_here, tag_there] = [0, 1].map(|place| users[place].etag.clone().unwrap());
    let other = Precondition::still(&tag_here);
    let stale = there.remove_user("oidc:ada", other).await.unwrap_err();
    assert_eq!(stale.kind, ProblemKind::PreconditionFailed);
    let seen = Precondition::still(&tag_there);
    there.remove_user("oidc:ada", seen).await.unwrap();
    assert!(there.who(Shown::Session(&came.secret)).await.is_err());
    let token = Shown::Token(&made.secret.0);
    assert!(there.who(token).await.is_err());
    tokio::time::sleep(STALE).await;
    assert!(here.who(Shown::Session(&came.secret)).await.is_err());
    assert!(here.who(Shown::Session(&local.secret)).await.is_ok());
    let gone = here
        .remove_user("oidc:ada", Precondition::default())
        .await
        .unwrap_err();
    assert_eq!(gone.kind, ProblemKind::NoSuchUser);
    // And so does whoever logs out.
    let came = here.come_back(away(&there).await, HERE).await.ok().unwrap();
    let holdfast_identity::Who::External(_, id) = &came.caller.who else {
        panic!("somebody came back");
    };
    here.log_out(id).await.unwrap();
    assert!(here.who(Shown::Session(&came.secret)).await.is_err());
}

#[tokio::test]
async fn a_login_at_a_provider_that_fails_is_told_by_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let issuer = Issuer::start(&format!("{EXTERNAL}/api/v1/login/oidc/callback"), false);
    let here = accounts(&store, folder.path(), "n1").await;
    let none = here.send_away().await.err().unwrap();
    assert_eq!(none.fault, LoginFault::NoProvider);
    let here = here.trusting(provider(&issuer));
    let refused = async |back| here.come_back(back, HERE).await.err().unwrap();
    let back = BroughtBack {
        ticket: None,
        ..away(&here).await
    };
    assert_eq!(refused(back).await.fault, LoginFault::Unknown);
    issuer.behave(|it| {
        let groups = serde_json::json!(["guests"]);
        it.claims.insert("groups".to_owned(), groups);
    });
    let found = refused(away(&here).await).await;
    assert_eq!(found.fault, LoginFault::NoRole);
    assert_eq!(found.who.as_deref(), Some("user oidc:ada (f7c2-ada)"));
    issuer.behave(|it| it.algorithm = Some("none"));
    let found = refused(away(&here).await).await;
    assert_eq!((found.fault, found.who), (LoginFault::Untrusted, None));
    issuer.behave(|it| it.error = Some("access_denied"));
    assert_eq!(refused(away(&here).await).await.fault, LoginFault::Denied);
    issuer.behave(|it| {
        it.error = None;
        it.answers.insert("/token", (500, Vec::new()));
    });
    assert_eq!(refused(away(&here).await).await.fault, LoginFault::Provider);
    assert!(here.users().await.unwrap().is_empty());
}

#[tokio::test]
async fn who_fails_at_a_provider_over_and_over_waits_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let issuer = Issuer::start(&format!("{EXTERNAL}/api/v1/login/oidc/callback"), false);
    let here = accounts(&store, folder.path(), "n1").await;
    let here = here.trusting(provider(&issuer));
    // What is nothing of ours costs nobody anything, and does not count.
    for _ in 0..30 {
        let nothing = here.come_back(BroughtBack::default(), HERE).await;
        assert_eq!(nothing.err().unwrap().fault, LoginFault::Unknown);
    }
    let made_up = async |from| {
        let sent = here.send_away().await.ok().unwrap();
        let (_, query) = sent.location.split_once('?').unwrap();
        let back = BroughtBack {
            ticket: Some(sent.ticket),
            state: fields(query).remove("state"),
            code: Some("guessed".to_owned()),
            issuer: Some(issuer.url.clone()),
            error: None,
        };
        here.come_back(back, from).await.err().unwrap().fault
    };
    for _ in 0..20 {
        assert_eq!(made_up(HERE).await, LoginFault::Untrusted);
    }
    assert_eq!(made_up(HERE).await, LoginFault::Busy);
    assert_eq!(
        issuer.asked("/token"),
        20,
        "nobody is asked for one who waits"
    );
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8));
    let came = here.come_back(away(&here).await, elsewhere).await;
    assert_eq!(came.ok().unwrap().caller.role, Role::Operator);
    // Nor does anybody there wait with a password.
    here.create_user(user("ada", Role::Administrator))
        .await
        .unwrap();
    here.log_in(login("ada", PASSWORD), HERE).await.unwrap();
}

#[tokio::test]
async fn what_the_provider_is_to_blame_for_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let issuer = Issuer::start(&format!("{EXTERNAL}/api/v1/login/oidc/callback"), false);
    let here = accounts(&store, folder.path(), "n1").await;
    let here = here.trusting(provider(&issuer));
    let fails = async |count: usize| {
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(here.come_back(away(&here).await, HERE).await.err().unwrap());
        }
        found
    };
    // It lets nobody in by itself, or somebody has no role: both more often than guesses may be.
    issuer.behave(|it| it.error = Some("temporarily_unavailable"));
    let denied = fails(25).await;
    assert!(denied.iter().all(|it| it.fault == LoginFault::Denied));
    issuer.behave(|it| {
        it.error = None;
        let groups = serde_json::json!(["guests"]);
        it.claims.insert("groups".to_owned(), groups);
    });
    let no_role = fails(25).await;
    assert!(no_role.iter().all(|it| it.fault == LoginFault::NoRole));
    // Nor does that fill the log of what was done.
    let told = no_role.iter().filter(|it| it.who.is_some()).count();
    assert_eq!(told, 20);
    // What it has to be asked for is paced besides.
    issuer.behave(|it| {
        it.claims.clear();
        it.answers.insert("/token", (502, Vec::new()));
    });
    let down = fails(25).await;
    let of = |fault| down.iter().filter(|it| it.fault == fault).count();
    assert!(of(LoginFault::Provider) >= 16);
    assert_eq!(of(LoginFault::Provider) + of(LoginFault::Busy), 25);
    // A second after it is well again at most, somebody is let in from the same address.
    issuer.behave(|it| it.answers.clear());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let came = here.come_back(away(&here).await, HERE).await.ok().unwrap();
    assert_eq!(came.caller.role, Role::Operator);
}

#[tokio::test]
async fn a_login_at_a_provider_counts_where_that_provider_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let back = format!("{EXTERNAL}/api/v1/login/oidc/callback");
    let (issuer, another) = (Issuer::start(&back, false), Issuer::start(&back, false));
    let here = accounts(&store, folder.path(), "n1").await;
    let here = here.trusting(provider(&issuer));
    let came = here.come_back(away(&here).await, HERE).await.ok().unwrap();
    assert!(here.who(Shown::Session(&came.secret)).await.is_ok());
    // Its section was taken out of the file, or names another one by now.
    for now in [None, provider(&another)] {
        let there = accounts(&store, folder.path(), "n2").await.trusting(now);
        let refused = there.who(Shown::Session(&came.secret)).await.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Unauthenticated);
    }
}

/// As a script that has lost an answer, and asks another node.
#[tokio::test]
async fn a_user_that_was_made_for_a_key_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    here.create_user(user("root", Role::Administrator))
        .await
        .unwrap();
    let wanted = || keyed(user("ada", Role::Viewer), "k");
    let made = here.create_user(wanted()).await.unwrap();
    assert!(made.is_new);
    let again = there.create_user(wanted()).await.unwrap();
    assert_eq!((again.user, again.is_new), (made.user, false));
    let reused = async |other: Keyed<UserCreate>| {
        let refused = there.create_user(other).await.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::KeyReused, "{refused}");
        assert!(refused.hint.is_some());
    };
    reused(keyed(user("ada", Role::Operator), "k")).await;
    reused(keyed(user("bob", Role::Viewer), "k")).await;
    let mut other = wanted();
    other.request.password = Secret("another password".to_owned());
    reused(other).await;
    let same_name = there.create_user(keyed(user("ada", Role::Viewer), "l"));
    assert_eq!(same_name.await.unwrap_err().kind, ProblemKind::UserExists);
    // It has another role since: that is no other wish.
    let role = UserChange {
        role: Some(Role::Operator),
        ..UserChange::default()
    };
    here.change_user("ada", role.into()).await.unwrap();
    let found = there.create_user(wanted()).await.unwrap();
    assert_eq!(found.user.role, Role::Operator);
    // Who was removed, or is another one of that name, is not what the key has made.
    here.remove_user("ada", Precondition::default())
        .await
        .unwrap();
    for _ in 0..2 {
        let gone = there.create_user(wanted()).await.unwrap_err();
        assert_eq!(gone.kind, ProblemKind::NoSuchUser, "{gone}");
        assert!(gone.hint.unwrap().contains("another key"));
        let _ = here.create_user(user("ada", Role::Viewer)).await;
    }
    let kept = on_record(&store).await;
    assert!(
        !kept.contains("password") && !kept.contains(PASSWORD),
        "{kept}"
    );
}

#[tokio::test]
async fn a_token_that_was_made_for_a_key_is_not_told_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let there = accounts(&store, folder.path(), "n2").await;
    let root = Caller::node(1);
    let wanted = || keyed(token(Role::Operator), "k");
    let made = here.create_token(wanted(), &root).await.unwrap();
    let refused = there.create_token(wanted(), &root).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.status),
        (ProblemKind::AlreadyMade, 409)
    );
    assert!(refused.detail.contains(&made.token.id), "{refused}");
    let hint = refused.hint.unwrap();
    assert!(
        hint.contains(&format!("holdfast token revoke {}", made.token.id)),
        "{hint}"
    );
    let other = there
        .create_token(keyed(token(Role::Viewer), "k"), &root)
        .await;
    assert_eq!(other.unwrap_err().kind, ProblemKind::KeyReused);
    let user = there
        .create_user(keyed(user("ada", Role::Viewer), "k"))
        .await;
    assert_eq!(user.unwrap_err().kind, ProblemKind::KeyReused);
    assert_eq!(here.tokens().await.unwrap().len(), 1);
    // What the key made is gone: it is not made once more by a request that was on its way for long.
    here.revoke_token(&made.token.id).await.unwrap();
    let gone = there.create_token(wanted(), &root).await.unwrap_err();
    assert_eq!(gone.kind, ProblemKind::NoSuchToken, "{gone}");
    assert!(here.tokens().await.unwrap().is_empty());
    let (_, secret) = made.secret.0.split_at(4 + made.token.id.len());
    let kept = on_record(&store).await;
    assert!(
        kept.contains(&made.token.id) && !kept.contains(secret),
        "{kept}"
    );
}

/// Of many that come at the same time one makes it.
#[tokio::test]
async fn of_tokens_for_a_key_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let nodes = [
        Arc::new(accounts(&store, folder.path(), "n1").await),
        Arc::new(accounts(&store, folder.path(), "n2").await),
    ];
    let mut asked = JoinSet::new();
    for number in 0..8 {
        let node = Arc::clone(&nodes[number % 2]);
        asked.spawn(async move {
            let wanted = keyed(token(Role::Operator), "k");
            node.create_token(wanted, &Caller::node(1)).await
        });
    }
    let mut made = 0;
    for answer in asked.join_all().await {
        match answer {
            Ok(_) => made += 1,
            Err(problem) => assert_eq!(problem.kind, ProblemKind::AlreadyMade, "{problem}"),
        }
    }
    assert_eq!((made, nodes[0].tokens().await.unwrap().len()), (1, 1));
}

/// What the metadata keeps of keys.
async fn on_record(store: &Embedded) -> String {
    let range = Operation::Range(Selector::Key(CREATIONS_KEY.into()));
    let answer = MetadataUser::new(store.session()).perform(range).await;
    let (_, OperationResult::Range(found)) = answer else {
        panic!("a range is answered by one");
    };
    let record = CreationsRecord::decode(&found[0].value).unwrap();
    String::from_utf8(record.encode().to_vec()).unwrap()
}

/// What an administrator decides by what was seen of a user is done of that, and not of what others have made of it.
#[tokio::test]
async fn a_user_is_changed_by_one_of_those_who_have_seen_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = accounts(&store, folder.path(), "n1").await;
    let ada = here.create_user(user("ada", Role::Administrator));
    let ada = ada.await.unwrap().user.etag;
    let made = here.create_user(user("bob", Role::Viewer)).await.unwrap();
    let made = made.user.etag.unwrap();
    let role = |role, tag: &EntityTag| Conditional {
        request: UserChange {
            role: Some(role),
            ..UserChange::default()
        },
        precondition: Precondition::still(tag),
    };
    let mut changes = JoinSet::new();
    for writer in 0..6 {
        let node = accounts(&store, folder.path(), &format!("w{writer}")).await;
        let change = role(Role::Operator, &made);
        changes.spawn(async move { node.change_user("bob", change).await });
    }
    let ended = changes.join_all().await;
    let done: Vec<_> = ended.iter().filter_map(|it| it.as_ref().ok()).collect();
    assert_eq!(done.len(), 1, "{ended:?}");
    for problem in ended.iter().filter_map(|it| it.as_ref().err()) {
        assert_eq!(problem.kind, ProblemKind::PreconditionFailed);
    }
    // A login changes nothing of a user, and nothing of one is another one's.
    here.log_in(login("bob", PASSWORD), HERE).await.unwrap();
    let users = here.users().await.unwrap();
    assert_eq!(users[0].etag, ada);
    assert_eq!((&users[1].etag, users[1].sessions), (&done[0].etag, 1));
    let operator = done[0].etag.clone().unwrap();
    let password = Conditional {
        request: UserChange {
            password: Some(Secret("another password".to_owned())),
            ..UserChange::default()
        },
        precondition: Precondition::still(&operator),
    };
    let changed = here.change_user("bob", password).await.unwrap();
    let changed = changed.etag.unwrap();
    for seen in [&made, &operator] {
        let stale = here.remove_user("bob", Precondition::still(seen)).await;
        assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
        let stale = here.change_user("bob", role(Role::Viewer, seen)).await;
        assert_eq!(stale.unwrap_err().kind, ProblemKind::PreconditionFailed);
    }
    // Nobody's is told as such.
    let nobody = here.change_user("eve", role(Role::Viewer, &made)).await;
    assert_eq!(nobody.unwrap_err().kind, ProblemKind::NoSuchUser);
    let seen = Precondition::still(&changed);
    here.remove_user("bob", seen.clone()).await.unwrap();
    let gone = here.remove_user("bob", seen).await.unwrap_err();
    assert_eq!(gone.kind, ProblemKind::NoSuchUser);
}

/// To hash takes a processor for long, and so it is done for a few at a time: who asks for what a key says already waits for none.
#[tokio::test]
async fn a_key_that_was_used_before_is_looked_up_before_anything_is_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"));
    let here = Arc::new(accounts(&store, folder.path(), "n1").await);
    here.create_user(keyed(user("ada", Role::Administrator), "k"))
        .await
        .unwrap();
    let mut asked = JoinSet::new();
    for _ in 0..64 {
        let here = Arc::clone(&here);
        asked.spawn(async move {
            let other = keyed(user("bob", Role::Viewer), "k");
            here.create_user(other).await.unwrap_err().kind
        });
    }
    let kinds = asked.join_all().await;
    assert_eq!(kinds, [ProblemKind::KeyReused; 64]);
}
