//! CHAP and mutual CHAP: both sides against each other, and a target against texts that no honest
//! initiator sends.

use crate::common;
use crate::common::{TARGET, WHO, World, directory, login, name};
use holdfast_iscsi::chap::ChapAlgorithm::{Md5, Sha256};
use holdfast_iscsi::chap::{ChapAccount, ChapAlgorithm, ChapSecret};
use holdfast_iscsi::initiator::{EndReason, InitiatorChap, MutualChap, SessionKind};
use holdfast_iscsi::pdu::LoginStage::{FullFeature, OperationalNegotiation, SecurityNegotiation};
use holdfast_iscsi::pdu::{LoginRequest, LoginStatus, Reply, Request};
use holdfast_iscsi::target::{
    CloseReason, ConnectionId, InitiatorEntry, TargetDirectory, UnitAccess,
};

const HOST: &str = "iqn.2026-11.example.host:a";

fn account(name: &str, secret: &str) -> ChapAccount {
    ChapAccount {
        name: name.into(),
        secret: ChapSecret::new(secret.as_bytes()).unwrap(),
    }
}

fn hosts() -> ChapAccount {
    account("host", "the host's secret")
}

fn targets() -> ChapAccount {
    account("target", "the target's secret")
}

/// The target is for one host, which has to prove who it is.
fn guarded(mutual: Option<ChapAccount>) -> TargetDirectory {
    let mut directory = directory();
    let entry = directory.targets.get_mut(&name(TARGET)).unwrap();
    entry.units = [(0, UnitAccess::Listed([name(HOST)].into()))].into();
    let known = InitiatorEntry {
        account: Some(hosts()),
        mutual,
    };
    directory.initiators.insert(name(HOST), known);
    directory
}

fn chap(
    account: ChapAccount,
    algorithms: &'static [ChapAlgorithm],
    mutual: Option<ChapAccount>,
) -> InitiatorChap {
    InitiatorChap {
        account,
        algorithms,
        mutual: mutual.map(|account| MutualChap {
            account,
            challenge: [9; 32],
        }),
    }
}

/// How a login of the host ends; `None` if it succeeds.
fn outcome(
    directory: TargetDirectory,
    kind: SessionKind,
    chap: Option<InitiatorChap>,
) -> Option<EndReason> {
    let mut world = World::new(3);
    world.set_directory(directory);
    let mut config = world.config(1);
    config.chap = chap;
    config.kind = kind;
    let host = world.connect(config);
    world.run();
    let host = &world.hosts[host];
    assert_eq!(host.initiator.is_logged_in(), host.ended.is_none());
    host.ended
}

#[test]
fn who_proves_it_gets_a_session() {
    let refused = Some(EndReason::LoginRefused(LoginStatus::AuthenticationFailure));
    let normal = || SessionKind::Normal(name(TARGET));
    let other = |name: &str| account(name, "quite another secret");
    const BOTH: &[ChapAlgorithm] = ChapAlgorithm::PREFERRED;
    for (config, known, expected) in [
        (Some(chap(hosts(), BOTH, None)), None, None),
        (Some(chap(hosts(), &[Md5], None)), None, None),
        (Some(chap(hosts(), &[Sha256], None)), Some(targets()), None),
        (
            Some(chap(hosts(), BOTH, Some(targets()))),
            Some(targets()),
            None,
        ),
        (
            Some(chap(hosts(), &[Md5], Some(targets()))),
            Some(targets()),
            None,
        ),
        // Wrong, each in its way.
        (None, None, refused),
        (Some(chap(other("host"), BOTH, None)), None, refused),
        (
            Some(chap(account("hose", "the host's secret"), BOTH, None)),
            None,
            refused,
        ),
        (Some(chap(hosts(), &[], None)), None, refused),
        // The target has nothing to prove itself with, or the host's own secret only.
        (Some(chap(hosts(), BOTH, Some(targets()))), None, refused),
        (
            Some(chap(hosts(), BOTH, Some(hosts()))),
            Some(hosts()),
            refused,
        ),
        // It is not the target that the host knows.
        (
            Some(chap(hosts(), BOTH, Some(targets()))),
            Some(other("target")),
            Some(EndReason::NotAuthenticated),
        ),
        (
            Some(chap(hosts(), BOTH, Some(targets()))),
            Some(account("tarket", "the target's secret")),
            Some(EndReason::NotAuthenticated),
        ),
    ] {
        let said = format!("{config:?} {known:?}");
        assert_eq!(
            outcome(guarded(known), normal(), config),
            expected,
            "{said}"
        );
    }
    // The host wants a proof of a target that asks for none, and therefore gives none.
    let unguarded = || chap(hosts(), BOTH, Some(targets()));
    let open = outcome(directory(), normal(), Some(unguarded()));
    assert_eq!(open, refused);
    // Who offers to do without as well is let in where nothing is known of it.
    let open = outcome(directory(), normal(), Some(chap(hosts(), BOTH, None)));
    assert_eq!(open, None);
}

#[test]
fn discovery_takes_a_proof_and_asks_for_none() {
    let wrong = chap(account("host", "quite another secret"), &[Md5], None);
    let refused = Some(EndReason::LoginRefused(LoginStatus::AuthenticationFailure));
    for (config, expected) in [
        (None, None),
        (Some(chap(hosts(), &[Sha256], Some(targets()))), None),
        (Some(wrong), refused),
    ] {
        let directory = guarded(Some(targets()));
        assert_eq!(outcome(directory, SessionKind::Discovery, config), expected);
    }
}

/// A login of the host by hand: text by text, with the transit bit where it says so.
struct ByHand {
    world: World,
    connection: ConnectionId,
    status: LoginStatus,
    transit: bool,
    text: String,
}

impl ByHand {
    fn begin(text: &str, transit: bool) -> Self {
        let mut world = World::new(5);
        world.set_directory(guarded(Some(targets())));
        let connection = world.connect_raw();
        let mut login = Self {
            world,
            connection,
            status: LoginStatus::Success,
            transit: false,
            text: String::new(),
        };
        login.say(&format!("{WHO}{text}"), transit);
        login
    }

    fn say(&mut self, text: &str, transit: bool) {
        let next = transit.then_some(OperationalNegotiation);
        self.request(login(SecurityNegotiation, next), text);
    }

    fn request(&mut self, request: LoginRequest, text: &str) {
        let connection = self.connection;
        self.world
            .send(connection, &Request::Login(request), text.as_bytes());
        let (Reply::Login(response), text) = self.world.reply(connection) else {
            panic!("a login is answered");
        };
        self.status = response.status;
        self.transit = response.transit;
        self.text = String::from_utf8(text).unwrap();
        let is_refused = response.status != LoginStatus::Success;
        let reason = is_refused.then_some(CloseReason::LoginRefused);
        assert_eq!(self.world.close_reason(connection), reason);
        assert!(self.world.sessions.is_empty());
    }

    /// Begun and challenged.
    fn challenged() -> Self {
        let mut login = Self::begin("AuthMethod=CHAP\0", true);
        assert!(!login.transit);
        assert!(login.text.ends_with("AuthMethod=CHAP\0"));
        login.say("CHAP_A=7,5\0", true);
        assert!(!login.transit, "the stage is not over");
        assert!(login.text.starts_with("CHAP_A=7\0CHAP_I="));
        assert_eq!(login.value("CHAP_C").len(), 2 + 2 * 32);
        login
    }

    fn value(&self, key: &str) -> &str {
        let mut pairs = self.text.split('\0').filter_map(|it| it.split_once('='));
        pairs.find(|(name, _)| *name == key).unwrap().1
    }
}

#[test]
fn the_security_stage_is_not_to_be_passed_by() {
    // Not at all, not by silence, not by another method.
    for text in [
        "",
        "AuthMethod=None\0",
        "AuthMethod=KRB5,SRP\0",
        "AuthMethod=\0",
    ] {
        let login = ByHand::begin(text, true);
        assert_eq!(login.status, LoginStatus::AuthenticationFailure, "{text:?}");
    }
    for (current, next) in [
        (SecurityNegotiation, FullFeature),
        (OperationalNegotiation, FullFeature),
    ] {
        let mut world = World::new(1);
        world.set_directory(guarded(None));
        let connection = world.connect_raw();
        let request = login(current, Some(next));
        world.send(connection, &Request::Login(request), WHO.as_bytes());
        let (Reply::Login(response), _) = world.reply(connection) else {
            panic!("it is answered");
        };
        assert_eq!(response.status, LoginStatus::AuthenticationFailure);
    }
    // The initiator may take its time, in the stage.
    let mut login = ByHand::begin("", false);
    login.say("", false);
    assert_eq!((login.status, login.transit), (LoginStatus::Success, false));
    login.say("AuthMethod=KRB5,CHAP\0", true);
    assert_eq!(
        (login.text.as_str(), login.transit),
        ("AuthMethod=CHAP\0", false)
    );
    // A text without keys of CHAP leaves everything as it is, and does not end the stage.
    login.say("", true);
    assert!(!login.transit);
    login.say("CHAP_A=5\0", true);
    assert_eq!(login.value("CHAP_C").len(), 2 + 2 * 16);
    login.say("", true);
    assert_eq!((login.status, login.transit), (LoginStatus::Success, false));
    let next = common::login(OperationalNegotiation, Some(FullFeature));
    login.request(next, "");
    assert_eq!(login.status, LoginStatus::InitiatorError);
}

#[test]
fn algorithms_may_come_with_the_method() {
    let login = ByHand::begin("CHAP_A=6,5\0AuthMethod=CHAP\0", true);
    assert!(login.text.contains("CHAP_A=Reject\0"), "before the method");
    let login = ByHand::begin("AuthMethod=CHAP\0CHAP_A=6,5\0", true);
    assert!(login.text.contains("CHAP_A=5\0CHAP_I="));
}

#[test]
fn texts_that_do_not_follow_the_method() {
    use LoginStatus::{AuthenticationFailure, InitiatorError, MissingParameter};
    for (text, status) in [
        ("CHAP_A=6,8\0", AuthenticationFailure),
        ("CHAP_A=\0", AuthenticationFailure),
        ("CHAP_A=5\0CHAP_A=5\0", InitiatorError),
        ("CHAP_A=5\0CHAP_N=host\0", InitiatorError),
        ("CHAP_N=host\0CHAP_R=0x00\0", InitiatorError),
        ("CHAP_I=1\0", InitiatorError),
        ("AuthMethod=None\0", InitiatorError),
    ] {
        let mut login = ByHand::begin("AuthMethod=CHAP\0", true);
        login.say(text, true);
        assert_eq!(login.status, status, "{text:?}");
    }
    let giant = "ab".repeat(1025);
    let longest = "ab".repeat(1024);
    let name = "n".repeat(256);
    for (text, status) in [
        ("CHAP_N=host\0", MissingParameter),
        ("CHAP_R=0x00\0", MissingParameter),
        ("CHAP_N=host\0CHAP_R=0x00\0CHAP_I=1\0", MissingParameter),
        ("CHAP_N=host\0CHAP_R=0x00\0CHAP_C=0x00\0", MissingParameter),
        ("CHAP_N=\0CHAP_R=0x00\0", InitiatorError),
        (&format!("CHAP_N={name}\0CHAP_R=0x00\0"), InitiatorError),
        ("CHAP_N=host\0CHAP_R=\0", InitiatorError),
        ("CHAP_N=host\0CHAP_R=12\0", InitiatorError),
        ("CHAP_N=host\0CHAP_R=0xzz\0", InitiatorError),
        ("CHAP_N=host\0CHAP_R=0b***=\0", InitiatorError),
        (
            "CHAP_N=host\0CHAP_R=0x00\0CHAP_I=256\0CHAP_C=0x00\0",
            InitiatorError,
        ),
        (
            "CHAP_N=host\0CHAP_R=0x00\0CHAP_I=1\0CHAP_C=0x\0",
            InitiatorError,
        ),
        (&format!("CHAP_N=host\0CHAP_R=0x{giant}\0"), InitiatorError),
        ("CHAP_A=5\0", InitiatorError),
        // Well formed, and wrong.
        (
            &format!("CHAP_N=host\0CHAP_R=0x{longest}\0"),
            AuthenticationFailure,
        ),
        ("CHAP_N=host\0CHAP_R=0x00\0", AuthenticationFailure),
        ("CHAP_N=host\0CHAP_R=0bAA==\0", AuthenticationFailure),
        (
            "CHAP_N=nobody\0CHAP_R=0x00\0CHAP_I=1\0CHAP_C=0x00\0",
            AuthenticationFailure,
        ),
    ] {
        let mut login = ByHand::challenged();
        login.say(text, true);
        assert_eq!(login.status, status, "{text:?}");
        assert!(
            !login.text.contains("CHAP"),
            "nothing is proved to a stranger"
        );
    }
}

/// The response, computed beside the library.
fn response(login: &ByHand, secret: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let bytes = |text: &str| -> Vec<u8> {
        let digits = text.strip_prefix("0x").unwrap().as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.map(|pair| byte(pair).unwrap()).collect()
    };
    let hash = Sha256::new()
        .chain_update([login.value("CHAP_I").parse::<u8>().unwrap()])
        .chain_update(secret)
        .chain_update(bytes(login.value("CHAP_C")))
        .finalize();
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[test]
fn a_challenge_of_ours_is_not_answered_by_us() {
    let mut login = ByHand::challenged();
    let right = response(&login, b"the host's secret");
    let ours = login.value("CHAP_C").to_owned();
    let text = format!("CHAP_N=host\0CHAP_R={right}\0CHAP_I=7\0CHAP_C={ours}\0");
    login.say(&text, true);
    assert_eq!(login.status, LoginStatus::AuthenticationFailure);
    assert!(!login.text.contains("CHAP"));
    // Another one is, and then the stage is over.
    let mut login = ByHand::challenged();
    let right = response(&login, b"the host's secret");
    let text = format!("CHAP_N=host\0CHAP_R={right}\0CHAP_I=7\0CHAP_C=0x0102\0");
    login.say(&text, true);
    assert_eq!((login.status, login.transit), (LoginStatus::Success, true));
    assert!(login.text.starts_with("CHAP_N=target\0CHAP_R=0x"));
    // What was said once is not said again, in whatever stage.
    let next = common::login(OperationalNegotiation, None);
    login.request(next, &text);
    assert_eq!(login.status, LoginStatus::InitiatorError);
}

#[test]
fn challenges_of_two_logins_differ_and_a_response_is_good_for_one() {
    let mut first = ByHand::challenged();
    let right = response(&first, b"the host's secret");
    // On another connection of the same target.
    let other = first.world.connect_raw();
    let stale = std::mem::replace(&mut first.connection, other);
    let challenge = first.value("CHAP_C").to_owned();
    first.say(&format!("{WHO}AuthMethod=CHAP\0"), true);
    first.say("CHAP_A=7\0", true);
    assert_ne!(first.value("CHAP_C"), challenge);
    let text = format!("CHAP_N=host\0CHAP_R={right}\0");
    first.say(&text, true);
    assert_eq!(first.status, LoginStatus::AuthenticationFailure);
    first.connection = stale;
    first.say(&text, true);
    assert_eq!((first.status, first.transit), (LoginStatus::Success, true));
}

/// Between the proof and the session, the right to it is taken away.
#[test]
fn what_changes_while_a_login_goes_on_is_looked_at_when_it_ends() {
    let mut open = directory();
    let mut world = World::new(1);
    let begin = |world: &mut World| {
        let connection = world.connect_raw();
        let first = login(SecurityNegotiation, Some(OperationalNegotiation));
        let text = format!("{WHO}AuthMethod=None\0");
        world.send(connection, &Request::Login(first), text.as_bytes());
        assert!(matches!(world.reply(connection).0, Reply::Login(it) if it.transit));
        connection
    };
    let listed = |who: &str| UnitAccess::Listed([name(who)].into());
    for (directory, status) in [
        (guarded(None), LoginStatus::AuthenticationFailure),
        (
            {
                let entry = open.targets.get_mut(&name(TARGET)).unwrap();
                entry.units = [(0, listed("iqn.2026-11.example.host:b"))].into();
                open
            },
            LoginStatus::AuthorizationFailure,
        ),
        (TargetDirectory::default(), LoginStatus::NotFound),
    ] {
        world.set_directory(common::directory());
        let connection = begin(&mut world);
        world.set_directory(directory);
        let last = login(OperationalNegotiation, Some(FullFeature));
        world.send(connection, &Request::Login(last), &[]);
        let (Reply::Login(response), _) = world.reply(connection) else {
            panic!("it is answered");
        };
        assert_eq!(response.status, status);
        assert!(world.sessions.is_empty());
    }
}

/// It logged in while the target was everybody's, in the name of a host that has to prove who it is from now on.
#[test]
fn who_has_not_proved_who_it_is_does_not_stay_where_that_is_wanted() {
    for proves in [false, true] {
        let mut world = World::new(3);
        let mut open = guarded(None);
        let entry = open.targets.get_mut(&name(TARGET)).unwrap();
        let listed = UnitAccess::Listed([name(HOST)].into());
        entry.units = [(0, UnitAccess::Everybody)].into();
        if proves {
            entry.units.insert(1, listed);
        }
        world.set_directory(open);
        let mut config = world.config(1);
        config.chap = proves.then(|| chap(hosts(), ChapAlgorithm::PREFERRED, None));
        let host = world.log_in(config);
        world.set_directory(guarded(None));
        world.run();
        let closed = world.close_reason(world.hosts[host].connection);
        let expected = (!proves).then_some(CloseReason::AccessWithdrawn);
        assert_eq!(closed, expected, "proves: {proves}");
    }
}
