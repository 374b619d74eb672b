//! What is sealed, and what is opened, by whom.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use holdfast_model::metadata::{LeaseId, Revision, Transaction, TransactionOutcome};
use holdfast_model::record::{
    ChapRecord, InitiatorRecord, MailSecurity, RECEIVERS_KEY, ReceiverRecord, ReceiverWay,
    ReceiversRecord, Record,
};
use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{AUTHORITY_KEY_FILE, Authority, Subject};

use super::*;

const SECRET: &str = "what nobody is told";
const MUTUAL: &str = "what nobody is told either";

fn seal(key: u8, former: Option<u8>) -> Seal {
    let former = former.map(|it| [it; 32]);
    let seal = Seal::with(Some(Keys::new(&[key; 32], former.as_ref())));
    seal.begin();
    seal
}

fn record(name: &str) -> InitiatorRecord {
    let account = |secret: &str| ChapRecord {
        name: "host".to_owned(),
        secret: Secret(secret.to_owned()),
    };
    InitiatorRecord {
        schema: 1,
        name: name.to_owned(),
        chap: Some(account(SECRET)),
        mutual: Some(account(MUTUAL)),
    }
}

/// What is written of a record.
fn written(seal: &Seal, record: &InitiatorRecord) -> KeyValue {
    let put = Operation::put(InitiatorRecord::key(&record.name), record.encode());
    let mut request = MetadataRequest::Transact(Transaction {
        success: vec![put],
        ..Transaction::default()
    });
    seal.close(&mut request);
    let MetadataRequest::Transact(mut transaction) = request else {
        panic!("it stays what it was");
    };
    let Some(Operation::Put { key, value, .. }) = transaction.success.pop() else {
        panic!("it stays what it was");
    };
    KeyValue {
        key,
        value,
        create_revision: Revision(1),
        mod_revision: Revision(1),
        version: 1,
        lease: LeaseId(0),
    }
}

/// The document that takes the place of one that is to be sealed anew.
fn renewed(seal: &Seal, pair: &KeyValue) -> Option<KeyValue> {
    let mut transaction = seal.renew(pair, false)?;
    let equals = pair.mod_revision;
    let key = pair.key.clone();
    assert_eq!(transaction.compare, [Compare::ModRevision { key, equals }]);
    let Some(Operation::Put { key, value, .. }) = transaction.success.pop() else {
        panic!("it is put");
    };
    assert_eq!(key, pair.key);
    let pair = pair.clone();
    Some(KeyValue { value, ..pair })
}

/// What is read of it, by both ways.
fn read(seal: &Seal, pair: &KeyValue) -> InitiatorRecord {
    let mut answer = MetadataAnswer::Transacted(TransactionOutcome {
        succeeded: true,
        revision: Revision(1),
        results: vec![OperationResult::Range(vec![pair.clone()])],
    });
    seal.open(&mut answer);
    let MetadataAnswer::Transacted(outcome) = answer else {
        panic!("it stays what it was");
    };
    let Some(OperationResult::Range(found)) = outcome.results.first() else {
        panic!("it stays what it was");
    };
    let mut watched = MetadataAnswer::Watched {
        revision: Revision(1),
        events: vec![WatchEvent::Put(pair.clone())],
    };
    seal.open(&mut watched);
    let events = vec![WatchEvent::Put(found[0].clone())];
    let revision = Revision(1);
    assert_eq!(watched, MetadataAnswer::Watched { revision, events });
    InitiatorRecord::decode(&found[0].value).expect("it is a record in any case")
}

fn has(pair: &KeyValue, text: &str) -> bool {
    String::from_utf8_lossy(&pair.value).contains(text)
}

#[test]
fn what_is_sealed_is_opened_and_tells_nothing() {
    let seal = seal(1, None);
    let (short, long) = (record("iqn.a"), {
        let mut long = record("iqn.a");
        let longest = "x".repeat(SECRET_LENGTH_MAX);
        long.chap.as_mut().expect("it has one").secret = Secret(longest);
        long
    });
    let sealed = written(&seal, &short);
    assert!(!has(&sealed, SECRET) && !has(&sealed, MUTUAL));
    assert_eq!(read(&seal, &sealed), short);
    assert_ne!(written(&seal, &short).value, sealed.value, "never the same");
    let sealed_long = written(&seal, &long);
    assert_eq!(sealed_long.value.len(), sealed.value.len());
    assert_eq!(read(&seal, &sealed_long), long);
    // No version takes it for a secret.
    let raw = InitiatorRecord::decode(&sealed.value).expect("it is a record");
    let chap = raw.chap.expect("it has one");
    assert!(chap.secret.0.len() > SECRET_LENGTH_MAX);
    assert_eq!(chap.name, "host");
}

/// Each receiver's secret is for that receiver.
#[test]
fn secrets_of_those_who_are_told_of_alarms_are_sealed() {
    let keys = Keys::new(&[1; 32], None);
    let hook = |secret: &str| ReceiverRecord {
        critical_only: false,
        authority: String::new(),
        way: ReceiverWay::Webhook {
            url: "https://hooks.example/".to_owned(),
            secret: Some(Secret(secret.to_owned())),
        },
    };
    let mail = ReceiverRecord {
        way: ReceiverWay::Mail {
            server: "mail.example".to_owned(),
            port: 587,
            security: MailSecurity::StartTls,
            user: Some("holdfast".to_owned()),
            password: Some(Secret(MUTUAL.to_owned())),
            from: "holdfast@mail.example".to_owned(),
            to: vec!["ops@mail.example".to_owned()],
        },
        ..hook("")
    };
    let receivers = [("hook".to_owned(), hook(SECRET)), ("mail".to_owned(), mail)];
    let record = ReceiversRecord {
        schema: 1,
        receivers: receivers.into(),
    };
    let mut value = record.encode().to_vec();
    documents::change(RECEIVERS_KEY, &mut value, |form, context, secret| {
        secret.0 = text::seal(keys.sealing(false), form, context, &secret.0);
    });
    let text = String::from_utf8_lossy(&value);
    assert!(!text.contains(SECRET) && !text.contains(MUTUAL) && !text.contains("hooks.example"));
    let mut opened = value.clone();
    documents::change(RECEIVERS_KEY, &mut opened, |_, context, secret| {
        secret.0 = text::open(Some(&keys), context, &secret.0).expect("it is its key");
    });
    assert_eq!(ReceiversRecord::decode(&opened).expect("it is one"), record);
    // The hook's secret is none of the mail's.
    let mut moved = ReceiversRecord::decode(&value).expect("it is one");
    let hook = moved.receivers.remove("hook").expect("it is there");
    moved.receivers.insert("mail".to_owned(), hook);
    let mut moved = moved.encode().to_vec();
    documents::change(RECEIVERS_KEY, &mut moved, |_, context, secret| {
        let opened = text::open(Some(&keys), context, &secret.0);
        assert_eq!(opened, Err(OpenError::Changed));
    });
}

/// A record of receivers with one webhook, of this URL, as it is in the metadata.
fn hook(url: &str) -> KeyValue {
    let hook = ReceiverRecord {
        critical_only: false,
        authority: String::new(),
        way: ReceiverWay::Webhook {
            url: url.to_owned(),
            secret: Some(Secret(SECRET.to_owned())),
        },
    };
    let record = ReceiversRecord {
        schema: 1,
        receivers: [("hook".to_owned(), hook)].into(),
    };
    KeyValue {
        key: RECEIVERS_KEY.to_owned(),
        value: record.encode(),
        create_revision: Revision(1),
        mod_revision: Revision(1),
        version: 1,
        lease: LeaseId(0),
    }
}

fn url(seal: &Seal, mut pair: KeyValue) -> String {
    seal.open_pair(&mut pair);
    let record = ReceiversRecord::decode(&pair.value).expect("it is one");
    match &record.receivers["hook"].way {
        ReceiverWay::Webhook { url, .. } => url.clone(),
        ReceiverWay::Mail { .. } => panic!("it is a webhook"),
    }
}

#[test]
fn urls_are_sealed_only_once_all_open_those_and_where_one_is() {
    const URL: &str = "https://hooks.example/services/T0/token";
    let first = seal(1, None);
    // Of secrets all nodes know, of URLs not yet: those of before that do not open them go on.
    let secrets = renewed(&first, &hook(URL)).expect("it has a secret");
    assert!(!has(&secrets, SECRET) && has(&secrets, URL));
    assert_eq!(url(&first, secrets.clone()), URL);
    assert_eq!(first.renew(&secrets, false), None);
    first.begin_with_urls();
    let both = renewed(&first, &secrets).expect("it has a URL");
    assert!(!has(&both, SECRET) && !has(&both, "hooks.example"));
    assert_eq!(first.renew(&both, false), None);
    // Where one was sealed, others are.
    let second = seal(1, None);
    assert_eq!(url(&second, both.clone()), URL);
    let mut request = MetadataRequest::Transact(Transaction {
        success: vec![Operation::put(RECEIVERS_KEY.to_owned(), hook(URL).value)],
        ..Transaction::default()
    });
    second.close(&mut request);
    assert!(!format!("{request:?}").contains("hooks.example"));
    // Nobody can tell short ones from each other, and long ones come back as they were.
    let length = |url: &str| {
        renewed(&first, &hook(url))
            .expect("it is plain")
            .value
            .len()
    };
    assert_eq!(length(URL), length("https://hooks.example/"));
    for bytes in [255, 256, 257, 2048] {
        let long = format!("https://{}", "x".repeat(bytes - 8));
        let sealed = renewed(&first, &hook(&long)).expect("it is plain");
        assert_eq!(url(&second, sealed), long);
    }
    // With another key it is as it is, and is told from a URL.
    let closed = url(&seal(2, None), both);
    assert!(is_sealed(&closed), "{closed}");
}

#[test]
fn what_was_moved_or_changed_is_not_opened_and_not_dropped() {
    let seal = seal(1, None);
    let sealed = written(&seal, &record("iqn.a"));
    let raw = InitiatorRecord::decode(&sealed.value).expect("it is a record");
    let mut moved = sealed.clone();
    moved.key = InitiatorRecord::key("iqn.b");
    assert_eq!(read(&seal, &moved), raw);
    let mut swapped = raw.clone();
    std::mem::swap(&mut swapped.chap, &mut swapped.mutual);
    let pair = |record: &InitiatorRecord| KeyValue {
        value: record.encode(),
        ..sealed.clone()
    };
    assert_eq!(read(&seal, &pair(&swapped)), swapped);
    let text = raw.chap.as_ref().expect("it has one").secret.0.clone();
    let head = "sealed:1:".len() + 17;
    for place in (head..text.len()).step_by(97).chain([text.len() - 1]) {
        let other = if text.as_bytes()[place] == b'0' {
            "1"
        } else {
            "0"
        };
        let mut changed = text.clone();
        changed.replace_range(place..=place, other);
        let keys = seal.0.keys.as_ref();
        let context = format!("{}#chap", sealed.key);
        assert_eq!(
            text::open(keys, &context, &changed),
            Err(OpenError::Changed)
        );
        assert!(text::open(keys, &context, &text).is_ok());
    }
    for cut in [
        "sealed:1:",
        "sealed:2:00",
        "sealed:3:00",
        "sealed:1:zz:00",
        "sealed:1:0011223344556677:0",
    ] {
        let opened = text::open(seal.0.keys.as_ref(), "", cut);
        assert_eq!(opened, Err(OpenError::Unknown), "{cut}");
    }
    // Written again it is what it was.
    let again = written(&seal, &raw);
    assert_eq!(again.value, sealed.value);
}

#[test]
fn another_key_opens_only_what_was_its() {
    let (before, other) = (seal(1, None), seal(2, None));
    let sealed = written(&before, &record("iqn.a"));
    let raw = InitiatorRecord::decode(&sealed.value).expect("it is a record");
    assert_eq!(read(&other, &sealed), raw);
    assert_eq!(
        other.renew(&sealed, false),
        None,
        "it could not be sealed anew"
    );
    assert_eq!(read(&Seal::without_key(), &sealed), raw);
    let after = seal(2, Some(1));
    assert_eq!(read(&after, &sealed), record("iqn.a"));
    let anew = renewed(&after, &sealed).expect("it is to be sealed anew");
    assert_eq!(after.renew(&anew, false), None);
    assert_eq!(read(&other, &anew), record("iqn.a"));
    let keys = before.0.keys.as_ref();
    let text = raw.mutual.expect("it has one").secret.0;
    let why = text::open(other.0.keys.as_ref(), "", &text).expect_err("another key");
    let (wanted, own) = (before.key_id(), other.key_id());
    let (wanted, own) = (wanted.expect("it has one"), own.expect("it has one"));
    assert_eq!(why, OpenError::OtherKey { wanted, own });
    assert_eq!(
        text::open(None, "", &text),
        Err(OpenError::NoKey { wanted })
    );
    assert!(keys.is_some_and(|it| it.id() == wanted));
}

#[test]
fn what_is_plain_is_read_and_is_sealed_only_once_all_can_open_it() {
    let seal = Seal::with(Some(Keys::new(&[1; 32], None)));
    let plain = written(&seal, &record("iqn.a"));
    assert!(has(&plain, SECRET), "nobody has said that all can open it");
    assert_eq!(read(&seal, &plain), record("iqn.a"));
    assert!(!seal.seals());
    let anew = renewed(&seal, &plain).expect("it is to be sealed");
    assert!(!has(&anew, SECRET) && !has(&anew, MUTUAL));
    assert!(!seal.seals(), "nobody has said that all can open it");
    assert_eq!(
        read(&Seal::with(Some(Keys::new(&[1; 32], None))), &anew),
        record("iqn.a")
    );
    // Where one is sealed already, all others are from then on.
    read(&seal, &written(&self::seal(1, None), &record("iqn.b")));
    assert!(seal.seals());
    assert!(!has(&written(&seal, &record("iqn.a")), SECRET));
    let none = Seal::without_key();
    none.begin();
    assert!(!none.seals() && none.renew(&plain, false).is_none());
    assert_eq!(written(&none, &record("iqn.a")).value, plain.value);
    // What is no document of that kind passes as it is.
    let mut other = plain;
    other.value = b"{}".to_vec().into();
    let mut answer = MetadataAnswer::Watched {
        revision: Revision(1),
        events: vec![WatchEvent::Put(other)],
    };
    let before = answer.clone();
    seal.open(&mut answer);
    assert_eq!(answer, before);
}

#[test]
fn nothing_that_is_printed_has_a_secret() {
    let seal = seal(7, Some(9));
    let sealed = written(&seal, &record("iqn.a"));
    let printed = format!("{seal:?} {:?}", seal.0.keys);
    assert!(printed.contains(&seal.key_id().expect("it has one").to_string()));
    for bytes in [[7; 32], [9; 32]] {
        assert!(!printed.contains(&keys::hexadecimal(&bytes)));
    }
    assert!(!format!("{:?}", read(&seal, &sealed)).contains(SECRET));
}

fn found(directory: &Path) -> Authority {
    let now = SystemTime::now();
    Authority::found(directory, ClusterId(7), now).expect("it is made")
}

#[test]
fn every_machine_of_a_cluster_derives_the_same_key_and_keeps_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    let authority = found(&first);
    let subject = Subject {
        node: NodeId(2),
        name: "n2".to_owned(),
        hosts: Vec::new(),
    };
    let issued = authority.issue(&subject, &second, SystemTime::now());
    issued.expect("they are issued");
    let id = |directory: &Path| {
        let seal = Seal::of_directory(directory).expect("it can be read");
        seal.key_id()
    };
    let of_first = id(&first);
    assert!(of_first.is_some());
    assert_eq!(id(&second), of_first);
    let mode = |path: &Path| {
        let metadata = std::fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&first.join(KEY_FILE)), 0o600);
    // It lasts where the authority's key is taken away, and without both there is none.
    std::fs::remove_file(second.join(AUTHORITY_KEY_FILE)).expect("it was there");
    assert_eq!(id(&second), of_first);
    std::fs::remove_file(second.join(KEY_FILE)).expect("it was there");
    assert_eq!(id(&second), None);
    let other = folder.path().join("3");
    drop(found(&other));
    assert_ne!(id(&other), of_first);
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    drop(found(folder.path()));
    let seal = Seal::of_directory(folder.path()).expect("it is made");
    assert!(seal.key_id().is_some());
    for name in [FORMER_FILE, KEY_FILE] {
        let path = folder.path().join(name);
        let write = |text: &str, mode| {
            std::fs::write(&path, text).expect("it can be written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("it is ours");
            let read = Seal::of_directory(folder.path());
            read.map(|it| it.key_id()).map_err(|it| it.to_string())
        };
        let text = "ab".repeat(32);
        assert!(write(&text, 0o600).is_ok());
        let public = write(&text, 0o640).expect_err("others can read it");
        assert!(public.contains("chmod 600"), "{public}");
        for none in ["", "ab", &"AB".repeat(32), &"ab".repeat(33)] {
            let refused = write(none, 0o600).expect_err("it is no key");
            assert!(refused.contains("is no key of 64 hexadecimal digits"));
            assert!(none.is_empty() || !refused.contains(none) || none == "ab");
        }
        assert!(write(&text, 0o600).is_ok());
    }
}

#[test]
fn what_is_plain_is_sealed_and_what_others_may_open_stays() {
    let former = seal(1, None);
    let own = seal(2, Some(1));
    let sealed = written(&former, &record("a"));
    assert!(own.renew(&sealed, false).is_some());
    assert_eq!(own.renew(&sealed, true), None);
    let plain = written(&Seal::without_key(), &record("a"));
    assert!(own.renew(&plain, true).is_some());
}

#[test]
fn a_machine_that_should_have_a_key_knows_that_it_has_none() {
    assert!(Seal::with(None).lacks_key());
    assert!(!seal(1, None).lacks_key());
    assert!(!Seal::without_key().lacks_key(), "there is no TLS");
    let directory = tempfile::tempdir().unwrap();
    let empty = Seal::of_directory(directory.path()).unwrap();
    assert!(empty.lacks_key());
}

/// Keys are changed on one machine after the other, and all read what each of them writes.
#[test]
fn what_is_written_while_keys_are_changed_is_sealed_with_what_all_have() {
    let (changed, unchanged) = (seal(2, Some(1)), seal(1, None));
    let opened = |by: &Seal, mut pair: KeyValue| {
        by.open_pair(&mut pair);
        pair.value == record("iqn.host").encode()
    };
    assert_eq!(changed.former_id(), unchanged.key_id());
    assert!(!opened(&unchanged, written(&changed, &record("iqn.host"))));
    changed.use_former(true);
    let sealed = written(&changed, &record("iqn.host"));
    assert!(opened(&unchanged, sealed.clone()) && opened(&changed, sealed.clone()));
    // Nor is what is plain there sealed with what not all have.
    let plain = KeyValue {
        value: record("iqn.host").encode(),
        ..sealed.clone()
    };
    let mut renewed = changed.renew(&plain, true).unwrap();
    let Some(Operation::Put { key, value, .. }) = renewed.success.pop() else {
        panic!("it is written anew");
    };
    assert!(opened(
        &unchanged,
        KeyValue {
            key,
            value,
            ..plain
        }
    ));
    // When all have the new one, that seals, and what is there is sealed anew with it.
    changed.use_former(false);
    assert!(changed.renew(&sealed, false).is_some());
    assert!(opened(
        &seal(2, None),
        written(&changed, &record("iqn.host"))
    ));
    // Without a former one there is nothing else to seal with.
    unchanged.use_former(true);
    assert!(opened(
        &seal(1, None),
        written(&unchanged, &record("iqn.host"))
    ));
}
