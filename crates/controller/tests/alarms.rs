//! Alarms: raised and cleared by whoever steers, told to receivers, and changed through the interface.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use holdfast_api::documents::{
    Alarm, AlarmAcknowledge, AlarmChoice, AlarmKindChange, AlarmQuery, CertificateOf, ListedMember,
    LocalMetadata, LocalReport, MailPut, MailSecurity, MemberState, Receiver, ReceiverPut, Room,
    Vitals, WebhookPut,
};
use holdfast_api::{Api, Conditional, Precondition, ProblemKind};
use holdfast_controller::Controller;
use holdfast_metadata::suite::User;
use holdfast_metadata::{Embedded, Requests, Store};
use holdfast_model::NodeId;
use holdfast_model::metadata::{Operation, OperationResult, Selector};
use holdfast_model::record::{RECEIVERS_KEY, ReceiverWay, ReceiversRecord, Record, Secret};
use holdfast_tls::{AUTHORITY_DAYS, Acceptor, Authority, Connector, Credentials, Subject, WITNESS};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::away::{Away, session};
use crate::support::{CLUSTER, Node, controller, full, open};

/// How long whoever steers may take: to begin, which is three seconds, and to look some times.
const PATIENCE: Duration = Duration::from_secs(30);

async fn node(number: u16, used_percent: u64, store: &Embedded) -> Node {
    let node = Node::start(number, store).await;
    fill(&node, used_percent);
    node
}

fn fill(node: &Node, used_percent: u64) {
    node.reporter.0.lock().unwrap().room = Room {
        bytes: 100 << 30,
        used_bytes: used_percent << 30,
    };
}

async fn alarms(controller: &Controller, state: AlarmChoice) -> Vec<Alarm> {
    controller
        .alarms(AlarmQuery { state })
        .await
        .unwrap()
        .alarms
}

/// Waits until so many alarms are raised.
async fn raised(controller: &Controller, count: usize) -> Vec<Alarm> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let alarms = alarms(controller, AlarmChoice::Raised).await;
        if alarms.len() == count {
            return alarms;
        }
        assert!(Instant::now() < deadline, "not {count} but {alarms:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until it is on record that the one receiver was told of everything, which it is after it was told; and that it could be.
async fn all_told(controller: &Controller) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let receivers = controller.receivers().await.unwrap().receivers;
        assert_eq!(receivers[0].undelivered, None);
        if receivers[0].waiting == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{receivers:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Somebody who is told over HTTP, and answers with what he is told to.
struct Hook {
    url: String,
    told: Arc<Mutex<Vec<Value>>>,
    status: Arc<Mutex<u16>>,
}

impl Hook {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = Self {
            url: format!("http://{}/hook", listener.local_addr().unwrap()),
            told: Arc::default(),
            status: Arc::new(Mutex::new(204)),
        };
        let (told, status) = (hook.told.clone(), hook.status.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                let body = loop {
                    if stream.read_buf(&mut request).await.unwrap() == 0 {
                        break None;
                    }
                    if let Some(body) = body(&request) {
                        break Some(body);
                    }
                };
                told.lock().unwrap().extend(body);
                let answer = format!(
                    "HTTP/1.1 {} x\r\ncontent-length: 0\r\n\r\n",
                    *status.lock().unwrap()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        hook
    }

    fn put(&self) -> ReceiverPut {
        ReceiverPut {
            webhook: Some(WebhookPut {
                url: self.url.clone(),
                secret: Some(Secret("open sesame".to_owned())),
            }),
            ..ReceiverPut::default()
        }
    }

    /// Waits until so many messages have come.
    async fn told(&self, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.told.lock().unwrap().clone();
            if told.len() >= count {
                assert_eq!(told.len(), count, "{told:#?}");
                return told;
            }
            assert!(Instant::now() < deadline, "told {told:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The body of a request that is there as a whole.
fn body(request: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(request).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().unwrap())
    });
    (body.len() >= length?).then(|| serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn an_alarm_is_raised_told_taken_note_of_and_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 10, &store).await, node(2, 96, &store).await];
    let hook = Hook::start().await;
    controller.put_receiver("ops", hook.put()).await.unwrap();
    let steering = Controller::new(CLUSTER, store.session(), None).steer();
    let found = raised(&controller, 1).await;
    let alarm = &found[0];
    assert_eq!(
        (&*alarm.kind, &*alarm.subject),
        ("pool-almost-full", "node n2")
    );
    assert!(
        alarm.detail.starts_with("96 % of its room are used"),
        "{}",
        alarm.detail
    );
    assert!(alarm.acknowledged.is_none() && alarm.cleared_ms.is_none());
    let told = hook.told(1).await;
    assert!(told[0].to_string().contains("pool-almost-full"), "{told:?}");
    let request = AlarmAcknowledge {
        note: "ticket 7".to_owned(),
    };
    let known = controller
        .acknowledge_alarm(alarm.id, request, "user eve".to_owned())
        .await;
    let known = known.unwrap().acknowledged.unwrap();
    assert_eq!((&*known.by, &*known.note), ("user eve", "ticket 7"));
    // Another one goes on where this one ended.
    steering.abort();
    let steering = Controller::new(CLUSTER, store.session(), None).steer();
    fill(&nodes[1], 20);
    raised(&controller, 0).await;
    let past = alarms(&controller, AlarmChoice::Cleared).await;
    assert_eq!(past.len(), 1);
    assert_eq!((past[0].id, past[0].cleared_ms.is_some()), (alarm.id, true));
    let told = hook.told(2).await;
    assert!(told[1].to_string().contains("cleared"), "{told:?}");
    all_told(&controller).await;
    steering.abort();
}

#[tokio::test]
async fn a_receiver_that_cannot_be_told_is_tried_again_and_one_that_refuses_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 96, &store).await];
    let (late, never) = (Hook::start().await, Hook::start().await);
    *late.status.lock().unwrap() = 503;
    *never.status.lock().unwrap() = 410;
    controller.put_receiver("late", late.put()).await.unwrap();
    controller.put_receiver("never", never.put()).await.unwrap();
    let problem = controller.test_receiver("never").await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::Undelivered);
    assert!(
        problem.detail.contains("410") && problem.hint.is_some(),
        "{problem:?}"
    );
    never.told.lock().unwrap().clear();
    let steering = Controller::new(CLUSTER, store.session(), None).steer();
    raised(&controller, 1).await;
    late.told(1).await;
    never.told(1).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = controller.receivers().await.unwrap().receivers;
        let troubles: Vec<_> = all
            .iter()
            .filter_map(|it| it.undelivered.as_ref())
            .collect();
        if let [first, second] = troubles[..] {
            assert_eq!((first.given_up, second.given_up), (false, true), "{all:#?}");
            assert_eq!((all[0].waiting, all[1].waiting), (1, 0), "{all:#?}");
            break;
        }
        assert!(Instant::now() < deadline, "{all:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    *late.status.lock().unwrap() = 200;
    late.told(2).await;
    // The one that refused is told of what comes.
    *never.status.lock().unwrap() = 200;
    fill(&nodes[0], 10);
    let told = never.told(2).await;
    assert!(told[1].to_string().contains("cleared"), "{told:?}");
    steering.abort();
}

/// Nobody would be told of metadata that is full, nor of what happens meanwhile, if that had to be put on record first.
#[tokio::test]
async fn alarms_are_told_from_memory_while_the_metadata_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let node = node(1, 10, &store).await;
    node.reporter.0.lock().unwrap().vitals = Some(Vitals {
        longest_stall_ms: 3000,
        ..Vitals::default()
    });
    let hook = told_of(&controller).await;
    let (session, full) = full::session(&store);
    let steering = Controller::new(CLUSTER, session, None).steer();
    let told = hook.told(1).await;
    assert_eq!(field(&told[0], "code"), "stall-budget");
    all_told(&controller).await;
    full.is_full.store(true, Ordering::Relaxed);
    node.reporter.0.lock().unwrap().metadata_full = true;
    let told = hook.told(2).await;
    assert_eq!(field(&told[1], "code"), "metadata-full");
    // What has to be so for some time is told as well, and nothing of the rest again.
    node.reporter.0.lock().unwrap().metadata = LocalMetadata::Unreached;
    let told = hook.told(3).await;
    assert_eq!(field(&told[2], "code"), "metadata-lost");
    let on_record = alarms(&controller, AlarmChoice::All).await;
    assert_eq!(on_record.len(), 1, "{on_record:#?}");
    // When there is room again it is put on record, and who was told is told nothing more.
    full.is_full.store(false, Ordering::Relaxed);
    raised(&controller, 3).await;
    all_told(&controller).await;
    assert_eq!(hook.told.lock().unwrap().len(), 3);
    steering.abort();
}

#[tokio::test]
async fn thresholds_are_set_put_off_and_reset() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let _nodes = [node(1, 50, &store).await];
    let steering = Controller::new(CLUSTER, store.session(), None).steer();
    let change = |set, clear| AlarmKindChange {
        set: Some(set),
        clear: Some(clear),
        ..AlarmKindChange::default()
    };
    let kind = "pool-almost-full";
    let changed = controller
        .change_alarm_kind(kind, Some(change(40, 30)))
        .await
        .unwrap();
    assert_eq!(
        (changed.threshold.set, changed.default_threshold.set),
        (40, 95)
    );
    raised(&controller, 1).await;
    let off = AlarmKindChange {
        off: Some(true),
        ..AlarmKindChange::default()
    };
    let changed = controller.change_alarm_kind(kind, Some(off)).await.unwrap();
    assert!(changed.off && changed.threshold.set == 40);
    raised(&controller, 0).await;
    let reset = controller.change_alarm_kind(kind, None).await.unwrap();
    assert_eq!(
        (reset.off, reset.threshold),
        (false, reset.default_threshold)
    );
    let kinds = controller.alarm_kinds().await.unwrap().kinds;
    assert!(kinds.iter().any(|it| it.kind == kind && !it.off));
    for (kind, change, expected) in [
        ("nonsense", change(2, 1), ProblemKind::NoSuchAlarm),
        ("node-lost", change(1, 1), ProblemKind::Invalid),
        (kind, change(40, 50), ProblemKind::Invalid),
        (kind, change(40, 0), ProblemKind::Invalid),
    ] {
        let problem = controller
            .change_alarm_kind(kind, Some(change))
            .await
            .unwrap_err();
        assert_eq!(problem.kind, expected, "{kind}: {problem}");
    }
    steering.abort();
}

async fn on_record(store: &Embedded) -> ReceiversRecord {
    let mut user = User::new(store.session());
    let range = Operation::Range(Selector::Key(RECEIVERS_KEY.into()));
    let (_, OperationResult::Range(found)) = user.perform(range).await else {
        panic!("it is a range");
    };
    found.first().map_or_else(ReceiversRecord::default, |pair| {
        ReceiversRecord::decode(&pair.value).unwrap()
    })
}

#[tokio::test]
async fn receivers_are_checked_and_a_secret_stays_only_for_the_place_it_was_given_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let mail = |server: &str, password: Option<&str>| ReceiverPut {
        mail: Some(MailPut {
            server: server.to_owned(),
            port: 587,
            security: MailSecurity::StartTls,
            user: Some("holdfast".to_owned()),
            password: password.map(|it| Secret(it.to_owned())),
            from: "holdfast@example.org".to_owned(),
            to: vec!["ops@example.org".to_owned()],
        }),
        ..ReceiverPut::default()
    };
    let password = |record: &ReceiversRecord| match &record.receivers["ops"].way {
        ReceiverWay::Mail { password, .. } => password.clone().map(|it| it.0),
        ReceiverWay::Webhook { .. } => panic!("it is mail"),
    };
    let put = controller
        .put_receiver("ops", mail("mail.example.org", Some("sesame")))
        .await;
    assert!(!format!("{:?}", put.unwrap()).contains("sesame"));
    controller
        .put_receiver("ops", mail("mail.example.org", None))
        .await
        .unwrap();
    assert_eq!(
        password(&on_record(&store).await).as_deref(),
        Some("sesame")
    );
    let other = controller
        .put_receiver("ops", mail("other.example.org", None))
        .await;
    assert_eq!(
        other.unwrap_err().kind,
        ProblemKind::Invalid,
        "it goes to nobody else"
    );
    assert_eq!(
        password(&on_record(&store).await).as_deref(),
        Some("sesame")
    );
    let hook = |url: &str| ReceiverPut {
        webhook: Some(WebhookPut {
            url: url.to_owned(),
            secret: None,
        }),
        ..ReceiverPut::default()
    };
    for (name, request) in [
        ("no name", hook("http://192.0.2.1/")),
        ("", hook("http://192.0.2.1/")),
        ("x", hook("ftp://192.0.2.1/")),
        ("x", hook("http://eve:secret@192.0.2.1/")),
        ("x", ReceiverPut::default()),
        (
            "x",
            ReceiverPut {
                webhook: hook("http://192.0.2.1/").webhook,
                ..mail("mail.example.org", Some("sesame"))
            },
        ),
    ] {
        let problem = controller.put_receiver(name, request).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::Invalid, "{name}: {problem}");
    }
    // One that somebody else has put is not overwritten by who says so.
    let of = |request, precondition| Conditional {
        request,
        precondition,
    };
    let signed = |secret: Option<&str>| {
        let mut put = hook("http://192.0.2.1/");
        if let Some(webhook) = &mut put.webhook {
            webhook.secret = secret.map(|it| Secret(it.to_owned()));
        }
        put
    };
    let new = of(signed(Some("sesame")), Precondition::absent());
    let there = controller.put_receiver("ops", new.clone()).await;
    assert_eq!(there.unwrap_err().kind, ProblemKind::PreconditionFailed);
    let first = controller.put_receiver("hook", new).await.unwrap();
    let first = first.etag.unwrap();
    // A secret stays, and goes, as it is said.
    let is_signed = |receiver: Receiver| receiver.webhook.unwrap().is_signed;
    let still = of(signed(None), Precondition::still(&first));
    let stays = controller
        .put_receiver("hook", still.clone())
        .await
        .unwrap();
    assert!(is_signed(stays));
    let goes = controller.put_receiver("hook", signed(Some(""))).await;
    assert!(!is_signed(goes.unwrap()));
    let late = controller.put_receiver("hook", still).await.unwrap_err();
    assert_eq!(late.kind, ProblemKind::PreconditionFailed);
    let late = Precondition::still(&first);
    let late = controller.remove_receiver("hook", late).await.unwrap_err();
    assert_eq!(late.kind, ProblemKind::PreconditionFailed);
    let any = Precondition::default();
    controller
        .remove_receiver("ops", any.clone())
        .await
        .unwrap();
    for problem in [
        controller.remove_receiver("ops", any).await.unwrap_err(),
        controller.test_receiver("ops").await.unwrap_err(),
    ] {
        assert_eq!(problem.kind, ProblemKind::NoSuchReceiver);
    }
    let unknown = controller
        .acknowledge_alarm(7, AlarmAcknowledge::default(), String::new())
        .await;
    assert_eq!(unknown.unwrap_err().kind, ProblemKind::NoSuchAlarm);
}

/// A node that steers whenever nobody else does, and whose way to the metadata can be taken away.
struct Steering {
    way: Arc<Away>,
    report: watch::Sender<LocalReport>,
    task: JoinHandle<()>,
    taken: Option<Requests>,
}

impl Steering {
    fn begin(node: &Node, store: &Embedded) -> Self {
        let report = node.reporter.0.lock().unwrap().clone();
        let (report, told) = watch::channel(report);
        let (session, way) = session(store);
        Self {
            way,
            report,
            task: Controller::new(CLUSTER, session, Some(told)).steer(),
            taken: None,
        }
    }

    fn lose_metadata(&mut self) {
        self.taken = self.way.store.lock().unwrap().take();
        self.report
            .send_modify(|it| it.metadata = LocalMetadata::Unreached);
    }

    fn reach_metadata(&mut self) {
        *self.way.store.lock().unwrap() = self.taken.take();
        self.report
            .send_modify(|it| it.metadata = LocalMetadata::Followed);
    }
}

fn follow(node: &Node, metadata: LocalMetadata) {
    node.reporter.0.lock().unwrap().metadata = metadata;
}

/// Somebody who is told when the metadata has been lost for a second. As soon as that one is told of anything, a node steers.
async fn told_of(controller: &Controller) -> Hook {
    let hook = Hook::start().await;
    controller.put_receiver("ops", hook.put()).await.unwrap();
    let soon = AlarmKindChange {
        hold_seconds: Some(1),
        ..AlarmKindChange::default()
    };
    let changed = controller.change_alarm_kind("metadata-lost", Some(soon));
    changed.await.unwrap();
    hook
}

fn field<'a>(message: &'a Value, name: &str) -> &'a str {
    assert_eq!(message["alarms"].as_array().unwrap().len(), 1, "{message}");
    message["alarms"][0][name].as_str().unwrap()
}

#[tokio::test]
async fn the_loss_of_the_metadata_is_told_from_memory_and_so_is_that_it_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 10, &store).await, node(2, 96, &store).await];
    let hook = told_of(&controller).await;
    let mut steering = Steering::begin(&nodes[0], &store);
    hook.told(1).await;
    all_told(&controller).await;
    follow(&nodes[1], LocalMetadata::Unreached);
    steering.lose_metadata();
    let told = hook.told(2).await;
    assert_eq!(field(&told[1], "code"), "metadata-lost");
    assert_eq!(field(&told[1], "subject"), "cluster");
    assert_eq!(field(&told[1], "change"), "raised");
    let detail = field(&told[1], "detail");
    assert!(
        detail.starts_with("no node follows it: n1 has not reached it since ")
            && detail.contains(", nor is it followed by n2"),
        "{detail}"
    );
    follow(&nodes[1], LocalMetadata::Followed);
    steering.reach_metadata();
    let told = hook.told(3).await;
    assert_eq!(field(&told[2], "code"), "metadata-lost");
    assert_eq!(field(&told[2], "change"), "cleared");
    assert_eq!(field(&told[2], "id"), field(&told[1], "id"));
    // Whoever steers has numbers of its own, which receivers have had.
    let first = raised(&controller, 1).await[0].id;
    let id: u64 = field(&told[1], "id").parse().unwrap();
    assert!(id > first + (1 << 48), "{id}, {first}");
    assert!(alarms(&controller, AlarmChoice::Cleared).await.is_empty());
    // Lost again, it is another one.
    follow(&nodes[1], LocalMetadata::Unreached);
    steering.lose_metadata();
    let told = hook.told(4).await;
    assert_eq!(field(&told[3], "change"), "raised");
    assert_ne!(field(&told[3], "id"), field(&told[1], "id"));
    assert_ne!(told[3]["id"], told[1]["id"]);
    steering.task.abort();
}

#[tokio::test]
async fn a_node_that_is_cut_off_alone_does_not_tell_that_the_metadata_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 10, &store).await, node(2, 96, &store).await];
    let hook = told_of(&controller).await;
    let mut steering = Steering::begin(&nodes[0], &store);
    hook.told(1).await;
    steering.lose_metadata();
    // Longer than its lease, and than it takes to tell.
    tokio::time::sleep(Duration::from_secs(11)).await;
    hook.told(1).await;
    // Where nobody answers any more, it tells what it knows, and no more.
    nodes[1].server.abort();
    let told = hook.told(2).await;
    assert_eq!(field(&told[1], "code"), "metadata-lost");
    let detail = field(&told[1], "detail");
    assert!(
        detail.contains("none of the others answers it (n2): it cannot tell from there"),
        "{detail}"
    );
    // Back with its network, it ends what it told.
    steering.reach_metadata();
    let deadline = Instant::now() + PATIENCE;
    let is_over = |message: &Value| {
        let alarms = message["alarms"].as_array().unwrap();
        let of = |it: &&Value| it["id"] == told[1]["alarms"][0]["id"];
        alarms.iter().filter(of).any(|it| it["change"] == "cleared")
    };
    while !hook.told.lock().unwrap().iter().any(is_over) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    steering.task.abort();
}

/// A receiver that is there and cannot be told anything, as it does not speak TLS; how often that was tried.
async fn untold(controller: &Controller) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let put = ReceiverPut {
        webhook: Some(WebhookPut {
            url: format!("https://{}/hook", listener.local_addr().unwrap()),
            secret: None,
        }),
        ..ReceiverPut::default()
    };
    controller.put_receiver("away", put).await.unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    tries
}

#[tokio::test]
async fn a_node_that_was_cut_off_and_told_nobody_says_nothing_of_it_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 10, &store).await];
    let hook = told_of(&controller).await;
    let removed = controller.remove_receiver("ops", Precondition::default());
    removed.await.unwrap();
    let tries = untold(&controller).await;
    let mut steering = Steering::begin(&nodes[0], &store);
    // It takes three seconds to steer, and then it knows whom to tell.
    tokio::time::sleep(Duration::from_secs(6)).await;
    steering.lose_metadata();
    let deadline = Instant::now() + PATIENCE;
    while tries.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < deadline, "{tries:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    steering.reach_metadata();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = tries.load(Ordering::Relaxed);
    // Longer than until another try, and than it takes to raise or end anything.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(tries.load(Ordering::Relaxed), before);
    assert!(alarms(&controller, AlarmChoice::All).await.is_empty());
    hook.told(0).await;
    steering.task.abort();
}

#[tokio::test]
async fn a_node_leaves_it_to_those_before_it_to_tell_that_the_metadata_is_lost_if_they_would() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let nodes = [node(1, 96, &store).await, node(2, 10, &store).await];
    let hook = told_of(&controller).await;
    let steering = Steering::begin(&nodes[0], &store);
    hook.told(1).await;
    let mut next = Steering::begin(&nodes[1], &store);
    // It looks once a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    steering.task.abort();
    follow(&nodes[0], LocalMetadata::Unreached);
    let would_tell = |it| nodes[0].reporter.0.lock().unwrap().tells_of_loss = it;
    would_tell(true);
    next.lose_metadata();
    tokio::time::sleep(Duration::from_secs(8)).await;
    hook.told(1).await;
    // It was started anew, and knows nobody whom it could tell.
    would_tell(false);
    let told = hook.told(2).await;
    assert_eq!(field(&told[1], "code"), "metadata-lost");
    let detail = field(&told[1], "detail");
    assert!(
        detail.starts_with("no node follows it: n2 has not reached it since "),
        "{detail}"
    );
    next.task.abort();
}

#[tokio::test]
async fn a_node_says_which_of_its_certificates_expires_first() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tls = folder.path().join("tls");
    let now = SystemTime::now();
    let authority = Authority::found(&tls, CLUSTER, now).unwrap();
    let subject = Subject {
        node: NodeId(1),
        name: "n1".to_owned(),
        hosts: Vec::new(),
    };
    let own = folder.path().join("own");
    authority.issue(&subject, &own, now).unwrap();
    let credentials = Credentials::read(&own).unwrap();
    let (_report, told) = watch::channel(LocalReport::default());
    let controller = Controller::new(CLUSTER, store.session(), Some(told));
    let first = async |controller: &Controller| {
        let vitals = controller.local().await.unwrap().vitals.unwrap();
        let until = vitals.certificate_expires_ms;
        (
            vitals.certificate_of,
            until.map(|it| SystemTime::UNIX_EPOCH + Duration::from_millis(it)),
        )
    };
    assert_eq!(first(&controller).await, (None, None));
    let controller = controller.showing(Some(credentials.clone()));
    let until = credentials.issued().not_after;
    let of_node = (Some(CertificateOf::Node), Some(until));
    assert_eq!(first(&controller).await, of_node);
    // What it shows to etcd is told beside that, whichever expires first.
    let controller = controller.showing_to_etcd(move || Some(until - 2 * DAY..until - DAY));
    assert_eq!(first(&controller).await, of_node);
    let vitals = controller.local().await.unwrap().vitals.unwrap();
    let to_etcd = vitals.etcd_certificate.unwrap();
    assert_eq!(to_etcd.lifetime_ms, DAY.as_millis() as u64);
    let until_etcd = SystemTime::UNIX_EPOCH + Duration::from_millis(to_etcd.expires_ms);
    assert_eq!(until_etcd, until - DAY);
    // Nodes' certificates are good for a year, at whatever time they are made, and the authority's is not for ever.
    let late = now + Duration::from_secs((AUTHORITY_DAYS - 30) * DAY.as_secs());
    let last = folder.path().join("last");
    authority.issue(&subject, &last, late).unwrap();
    let last = Credentials::read(&last).unwrap();
    let until = last.authority_good_until().unwrap();
    let shown = controller.showing(Some(last)).showing_to_etcd(|| None);
    let of_authority = (Some(CertificateOf::Authority), Some(until));
    assert_eq!(first(&shown).await, of_authority);
    let vitals = shown.local().await.unwrap().vitals.unwrap();
    assert_eq!(vitals.etcd_certificate, None);
}

/// What a witness shows to whoever comes over TLS, which is all that is known of it.
async fn witness(credentials: &Credentials) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let acceptor = Acceptor::new(credentials);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            drop(acceptor.accept(stream).await);
        }
    });
    address
}

#[tokio::test]
async fn a_witness_whose_certificate_expires_is_told_of_its_member_of_etcd() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let controller = controller(&store).await;
    let now = SystemTime::now();
    let authority = Authority::found(&folder.path().join("tls"), CLUSTER, now).unwrap();
    let issued = |node: NodeId, name: &str| {
        let subject = Subject {
            node,
            name: name.to_owned(),
            hosts: vec!["127.0.0.1".to_owned()],
        };
        let own = folder.path().join(name);
        authority.issue(&subject, &own, now).unwrap();
        Credentials::read(&own).unwrap()
    };
    let (own, other) = (issued(NodeId(1), "n1"), issued(WITNESS, "w"));
    let member = |number: &str, name: &str, endpoint: String| ListedMember {
        member: number.to_owned(),
        name: name.to_owned(),
        endpoints: vec![endpoint],
        peers: Vec::new(),
        votes: true,
        state: MemberState::Answers,
    };
    let nodes = [node(1, 10, &store).await];
    nodes[0].reporter.0.lock().unwrap().metadata_listed = vec![
        member("a1", "n1", witness(&own).await),
        member("a2", "w", witness(&other).await),
        member("a3", "gone", "127.0.0.1:1".to_owned()),
    ];
    // They are good for a year.
    let soon = AlarmKindChange {
        set: Some(370),
        clear: Some(371),
        hold_seconds: Some(0),
        ..AlarmKindChange::default()
    };
    let changed = controller.change_alarm_kind("certificate-expires", Some(soon));
    changed.await.unwrap();
    let steering = Controller::new(CLUSTER, store.session(), None)
        .connecting(Some(Connector::of_machine(&own)))
        .steer();
    let found = raised(&controller, 1).await;
    assert_eq!(
        (&*found[0].kind, &*found[0].subject),
        ("certificate-expires", "member w of etcd")
    );
    let detail = &found[0].detail;
    assert!(
        detail.starts_with("the certificate of this witness is good for another 36"),
        "{detail}"
    );
    // While nobody says who the members are, nothing is over.
    let listed = |of: Vec<ListedMember>| {
        let mut report = nodes[0].reporter.0.lock().unwrap();
        std::mem::replace(&mut report.metadata_listed, of)
    };
    let before = listed(Vec::new());
    tokio::time::sleep(Duration::from_secs(3)).await;
    raised(&controller, 1).await;
    listed(before[..1].to_vec());
    raised(&controller, 0).await;
    steering.abort();
}
