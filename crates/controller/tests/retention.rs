//! What is to be kept is set once for all nodes, which follow it while they run, and each says what it has.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    AuditEntry, KeptHistory, KeptResolution, LocalReport, LocalSupport, Retention, RetentionChange,
};
use holdfast_api::{
    Api, Conditional, Door, EntityTag, Identities, Precondition, Problem, ProblemKind, router,
    server,
};
use holdfast_controller::{
    AUDIT_FILE, Accounts, AuditLog, Controller, EVENTS_FILE, EventLog, REPORT_TIME_MAX,
};
use holdfast_metadata::{Embedded, Store as _};
use holdfast_model::StoreId;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{CLUSTER, controller, open, register};

/// How long a node may take to follow: a question each five seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node's process, as far as the control plane is concerned.
struct Process {
    controller: Controller,
    audit: AuditLog,
    folder: PathBuf,
    _report: watch::Sender<LocalReport>,
}

impl Process {
    async fn start(number: u16, store: &Embedded, folder: &Path) -> Self {
        let folder = folder.join(format!("n{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        let (report, told) = watch::channel(LocalReport {
            node: number,
            name: format!("n{number}"),
            incarnation: 1,
            store: StoreId(number.into()).to_string(),
            open: true,
            metadata: holdfast_api::documents::LocalMetadata::Followed,
            ..LocalReport::default()
        });
        let audit = AuditLog::open(&folder.join(AUDIT_FILE)).unwrap();
        let controller = Controller::new(CLUSTER, store.session(), Some(told))
            .putting_down(EventLog::open(&folder.join(EVENTS_FILE)).unwrap())
            .auditing(Some(audit.clone()))
            .keeping_history(move || async move { history(number) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = router(Arc::new(controller.clone()), Door::Open);
        tokio::spawn(server::serve(listener, routes));
        drop(controller.retain());
        register(number, address, store).await;
        Self {
            controller,
            audit,
            folder,
            _report: report,
        }
    }

    async fn told(&self) -> Retention {
        self.controller.retention().await.unwrap()
    }
}

/// That of the second node does not answer.
fn history(number: u16) -> Result<KeptHistory, Problem> {
    if number == 2 {
        return Err(Problem::new(ProblemKind::Busy, "not now"));
    }
    Ok(KeptHistory {
        bytes: 7,
        bytes_max: 512 << 20,
        resolutions: vec![KeptResolution::default()],
    })
}

fn change(audit_mib: u32, still: Option<&EntityTag>) -> Conditional<RetentionChange> {
    Conditional {
        request: RetentionChange {
            audit_mib: Some(audit_mib),
            events_mib: None,
        },
        precondition: still.map(Precondition::still).unwrap_or_default(),
    }
}

#[tokio::test]
async fn what_is_set_is_followed_by_all_nodes_and_what_they_have_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let first = Process::start(1, &store, folder.path()).await;
    let second = Process::start(2, &store, folder.path()).await;
    // One that answers nobody.
    let away: SocketAddr = "127.0.0.1:1".parse().unwrap();
    register(3, away, &store).await;
    let accounts = Accounts::new(first.controller.clone(), "n1", first.audit.clone());
    accounts.note(AuditEntry {
        at_ms: 5000,
        ..AuditEntry::default()
    });
    let deadline = Instant::now() + PATIENCE;
    while first.folder.join(AUDIT_FILE).metadata().unwrap().len() == 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = second.told().await;
    assert_eq!((told.audit_mib, told.events_mib), (32, 16));
    assert_eq!(told.silent, ["n3"]);
    let names: Vec<&str> = told.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["n1", "n2"]);
    let of_first = told.nodes[0].kept.audit.unwrap();
    assert!(of_first.bytes > 0, "{of_first:?}");
    assert_eq!(
        (of_first.bytes_max, of_first.oldest_ms),
        (32 << 20, Some(5000))
    );
    let kept = told.nodes[0].kept.clone();
    assert_eq!(kept.events.unwrap().bytes_max, 16 << 20);
    assert_eq!(kept.history, history(1).ok());
    let kept = &told.nodes[1].kept;
    assert_eq!(kept.audit.unwrap().oldest_ms, None);
    assert_eq!(kept.history, None);
    let set = first
        .controller
        .change_retention(change(64, told.etag.as_ref()))
        .await
        .unwrap();
    assert_eq!((set.audit_mib, set.events_mib), (64, 16));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let nodes = first.told().await.nodes;
        if nodes.iter().all(|node| {
            let audit = node.kept.audit.map(|audit| audit.bytes_max);
            audit == Some(64 << 20)
        }) {
            break;
        }
        assert!(Instant::now() < deadline, "{nodes:?}");
        tokio::time::sleep(REPORT_TIME_MAX / 10).await;
    }
}

#[tokio::test]
async fn one_of_those_who_have_seen_the_same_changes_it_and_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let first = controller(&store).await;
    let seen = first.retention().await.unwrap().etag.unwrap();
    let mut changes = JoinSet::new();
    for writer in 0..8 {
        let controller = Controller::new(CLUSTER, store.session(), None);
        let change = change(40 + writer, Some(&seen));
        changes.spawn(async move { controller.change_retention(change).await });
    }
    let ended = changes.join_all().await;
    let done: Vec<_> = ended.iter().filter_map(|it| it.as_ref().ok()).collect();
    assert_eq!(done.len(), 1, "{ended:?}");
    for problem in ended.iter().filter_map(|it| it.as_ref().err()) {
        assert_eq!(problem.kind, ProblemKind::PreconditionFailed);
    }
    assert_eq!(first.retention().await.unwrap(), *done[0]);
    for (mib, is_taken) in [(1, false), (2, true), (128, true), (129, false)] {
        let set = first.change_retention(change(mib, None)).await;
        match set {
            Ok(set) => assert!(is_taken && set.audit_mib == mib, "{mib}"),
            Err(problem) => {
                assert!(!is_taken, "{mib}");
                assert_eq!(problem.kind, ProblemKind::Invalid);
            }
        }
    }
    assert_eq!(first.retention().await.unwrap().audit_mib, 128);
    let no_node = first.local_retention().await.unwrap_err();
    assert_eq!(no_node.kind, ProblemKind::NoNode);
}

/// A demo has an address of its own, through which something is done, and no node behind it.
#[tokio::test]
async fn what_a_demo_keeps_of_what_was_done_through_it_is_told_beside_its_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    controller(&store).await;
    let first = Process::start(1, &store, folder.path()).await;
    let audit = AuditLog::open(&folder.path().join(AUDIT_FILE)).unwrap();
    let bare = Controller::new(CLUSTER, store.session(), None).auditing(Some(audit));
    assert!(bare.local_retention().await.is_err());
    assert!(bare.local_support().await.is_err());
    let demo = bare.fronting("demo", || LocalSupport {
        audit: "an entry".to_owned(),
        ..LocalSupport::default()
    });
    let told = demo.retention().await.unwrap();
    let names: Vec<_> = told
        .nodes
        .iter()
        .map(|it| (it.kept.node, &*it.name))
        .collect();
    assert_eq!(names, [(0, "demo"), (1, "n1")]);
    let kept = &told.nodes[0].kept;
    assert_eq!(kept.audit.unwrap().bytes_max, 32 << 20);
    assert_eq!((kept.events, &kept.history), (None, &None));
    assert_eq!(demo.local_retention().await.unwrap(), *kept);
    assert_eq!(demo.local_support().await.unwrap().audit, "an entry");
    assert_eq!(
        first.told().await.nodes.len(),
        1,
        "who asks a node is told of nodes"
    );
}
