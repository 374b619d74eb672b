//! Mail, against a server in the test: what arrives, and what is made of all that may be replied.

use std::time::{Duration, Instant};

use holdfast_notify::{
    ALARMS_MAX, Change, Mail, MailSecurity, Message, Receiver, Secret, SmtpStep, Stage, TlsFailure,
    Undelivered, deliver, deliver_if, deliver_within,
};
use mail_parser::{HeaderValue, MessageParser};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::support::{Authority, PATIENCE, Wire, huge, message, one, serve, told};

const HOST: &str = "127.0.0.1";

/// A mail server that takes everything, but for what it is told.
struct Relay {
    /// Beside its name, one each line.
    extensions: &'static [&'static str],
    /// What is replied to lines that begin so.
    replies: &'static [(&'static str, &'static str)],
    /// With what it shows a certificate, and whether it begins with that.
    tls: Option<(TlsAcceptor, bool)>,
}

/// What a server was told.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    mail: Vec<u8>,
}

impl Heard {
    fn has(&self, begin: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(begin))
    }
}

impl Relay {
    fn plain() -> Self {
        Self {
            extensions: &["PIPELINING", "8BITMIME"],
            replies: &[],
            tls: None,
        }
    }

    async fn open(self) -> (u16, JoinHandle<Heard>) {
        serve(async move |stream| {
            let mut heard = Heard::default();
            let mut stream: Box<dyn Wire> = Box::new(stream);
            if let Some((acceptor, true)) = &self.tls {
                let Ok(secure) = acceptor.accept(stream).await else {
                    return heard;
                };
                stream = Box::new(secure);
            }
            stream
                .write_all(b"220-mail.example\r\n220 ESMTP\r\n")
                .await
                .unwrap();
            let mut stream = BufReader::new(stream);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return heard;
                }
                let line = line.trim_end().to_owned();
                heard.lines.push(line.clone());
                let reply = self.reply(&line);
                if stream.write_all(reply.as_bytes()).await.is_err() {
                    return heard;
                }
                if line == "STARTTLS" && reply == "220 go\r\n" {
                    let (acceptor, _) = self.tls.as_ref().unwrap();
                    let Ok(secure) = acceptor.accept(stream.into_inner()).await else {
                        return heard;
                    };
                    stream = BufReader::new(Box::new(secure));
                }
                if reply.starts_with("354") {
                    let mut read = Vec::new();
                    while !read.ends_with(b"\r\n.\r\n") {
                        if stream.read_until(b'\n', &mut read).await.unwrap() == 0 {
                            return heard;
                        }
                    }
                    read.truncate(read.len() - 3);
                    heard.mail = unstuffed(&read);
                    heard.lines.push("(mail)".to_owned());
                    let reply = self.reply("(mail)");
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        })
        .await
    }

    fn reply(&self, line: &str) -> String {
        let mut own = self
            .replies
            .iter()
            .filter(|(begin, _)| line.starts_with(begin));
        if let Some((_, reply)) = own.next() {
            return format!("{reply}\r\n");
        }
        if line.starts_with("EHLO") {
            let mut reply = "250-mail.example\r\n".to_owned();
            for extension in self.extensions {
                reply += &format!("250-{extension}\r\n");
            }
            return reply + "250 HELP\r\n";
        }
        let reply = match line {
            "DATA" => "354 go on",
            "STARTTLS" => "220 go",
            "AUTH LOGIN" => "334 VXNlcm5hbWU6",
            // "holdfast" and "s3cret", in base64.
            "aG9sZGZhc3Q=" => "334 UGFzc3dvcmQ6",
            "czNjcmV0" | "AUTH PLAIN AGhvbGRmYXN0AHMzY3JldA==" => "235 welcome",
            "QUIT" => "221 bye",
            _ if line.starts_with("AUTH") => "535 5.7.8 who are you",
            _ => "250 2.0.0 Ok",
        };
        format!("{reply}\r\n")
    }
}

fn unstuffed(mail: &[u8]) -> Vec<u8> {
    let text = str::from_utf8(mail).unwrap();
    let lines = text.split_inclusive("\r\n");
    let lines = lines.map(|line| line.strip_prefix('.').unwrap_or(line));
    lines.collect::<String>().into_bytes()
}

fn mail(port: u16) -> Mail {
    Mail {
        server: HOST.to_owned(),
        port,
        security: MailSecurity::None,
        login: None,
        from: "holdfast@example.com".to_owned(),
        to: vec!["ops@example.com".to_owned(), "root@localhost".to_owned()],
        authority: None,
    }
}

fn login() -> Option<(String, Secret)> {
    Some(("holdfast".to_owned(), Secret::new("s3cret".to_owned())))
}

async fn send(mail: Mail, message: &Message) -> Result<(), Undelivered> {
    deliver(&Receiver::Mail(mail), message).await
}

#[tokio::test]
async fn a_mail_arrives_as_documented() {
    let (port, server) = Relay::plain().open().await;
    let mut alarm = told("node-lost", "node n2", Change::Raised);
    alarm.subject = "node nö2".to_owned();
    send(mail(port), &message(vec![alarm])).await.unwrap();
    let heard = server.await.unwrap();
    let expected = [
        "EHLO [127.0.0.1]",
        "MAIL FROM:<holdfast@example.com>",
        "RCPT TO:<ops@example.com>",
        "RCPT TO:<root@localhost>",
        "DATA",
        "(mail)",
        "QUIT",
    ];
    assert_eq!(heard.lines, expected);
    assert!(heard.mail.is_ascii());
    let read = MessageParser::default().parse(&heard.mail).unwrap();
    assert_eq!(
        read.subject(),
        Some("[Holdfast prod] CRITICAL node-lost: node nö2")
    );
    let from = read.from().unwrap().first().unwrap();
    assert_eq!(from.address(), Some("holdfast@example.com"));
    assert_eq!(from.name(), Some("Holdfast prod"));
    let to = read.to().unwrap().iter().map(|it| it.address().unwrap());
    assert_eq!(
        to.collect::<Vec<_>>(),
        ["ops@example.com", "root@localhost"]
    );
    assert_eq!(read.date().unwrap().to_timestamp(), 1_795_000_012);
    assert!(read.message_id().unwrap().ends_with("@example.com"));
    let automatic = read.header("Auto-Submitted").and_then(HeaderValue::as_text);
    assert_eq!(automatic, Some("auto-generated"));
    let expected = "\
Lost: node n2

Alarm:   node-lost (critical, raised)
Of:      node nö2
Since:   2026-11-18T11:06:40Z

Nothing was heard of it for 12 s.
.
Its rôle: \"primary\" of 7 slices.

What it means: What it held is on other nodes.

What to do: Start it: systemctl start holdfast-node

--\u{20}
Holdfast, cluster prod (0123abcd), 2026-11-18T11:06:52Z
";
    let text = read.body_text(0).unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), expected.trim_end());
}

#[tokio::test]
async fn a_mail_that_is_sent_again_has_the_same_id() {
    let mut ids = Vec::new();
    for message in [
        one(),
        one(),
        message(vec![told("node-lost", "n3", Change::Raised)]),
    ] {
        let (port, server) = Relay::plain().open().await;
        send(mail(port), &message).await.unwrap();
        let heard = server.await.unwrap();
        let read = MessageParser::default().parse(&heard.mail).unwrap();
        ids.push(read.message_id().unwrap().to_owned());
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

#[tokio::test]
async fn a_mail_that_is_called_off_is_not_sent() {
    let (port, server) = Relay::plain().open().await;
    let receiver = Receiver::Mail(mail(port));
    let failed = deliver_if(&receiver, &one(), &|| false).await.unwrap_err();
    assert!(matches!(failed, Undelivered::CalledOff), "{failed}");
    let heard = server.await.unwrap();
    assert!(heard.has("EHLO") && !heard.has("MAIL"), "{:?}", heard.lines);
}

#[tokio::test]
async fn refusals_say_at_what_and_whether_another_try_helps() {
    for (replies, step, code, is_permanent) in [
        (&[("EHLO", "554 no")], SmtpStep::Greeting, 554, true),
        (
            &[("MAIL", "550 5.1.8 no such sender")],
            SmtpStep::Sender,
            550,
            true,
        ),
        (&[("MAIL", "451 4.3.0 later")], SmtpStep::Sender, 451, false),
        (
            &[("RCPT", "550 5.1.1 no such user")],
            SmtpStep::Recipient,
            550,
            true,
        ),
        (
            &[("RCPT", "451 4.7.1 greylisted")],
            SmtpStep::Recipient,
            451,
            false,
        ),
        (&[("DATA", "503 no")], SmtpStep::Content, 503, true),
        (
            &[("(mail)", "554 5.7.1 spam")],
            SmtpStep::Content,
            554,
            true,
        ),
        (
            &[("(mail)", "452 4.3.1 full")],
            SmtpStep::Content,
            452,
            false,
        ),
    ] {
        let relay = Relay {
            replies,
            ..Relay::plain()
        };
        let (port, server) = relay.open().await;
        let refused = send(mail(port), &one()).await.unwrap_err();
        server.await.unwrap();
        assert_eq!(refused.is_permanent(), is_permanent, "{refused}");
        assert!(refused.to_string().contains(&code.to_string()), "{refused}");
        match refused {
            Undelivered::Refused {
                step: its, reply, ..
            } => {
                assert_eq!((its, reply.code), (step, code));
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn one_refused_address_does_not_keep_it_from_the_others() {
    let replies = &[("RCPT TO:<ops@", "550 5.1.1 no such user")];
    let (port, server) = Relay {
        replies,
        ..Relay::plain()
    }
    .open()
    .await;
    let partly = send(mail(port), &one()).await.unwrap_err();
    let heard = server.await.unwrap();
    assert!(heard.has("(mail)"));
    assert!(!heard.mail.is_empty());
    assert!(partly.is_permanent());
    let Undelivered::Partly { refused, .. } = &partly else {
        panic!("{partly}");
    };
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].0, "ops@example.com");
    assert_eq!(refused[0].1.code, 550);
}

#[tokio::test]
async fn an_address_that_is_refused_for_now_is_worth_another_try() {
    let replies = &[("RCPT TO:<ops@", "550 no"), ("RCPT TO:<root@", "450 later")];
    let (port, server) = Relay {
        replies,
        ..Relay::plain()
    }
    .open()
    .await;
    let refused = send(mail(port), &one()).await.unwrap_err();
    assert!(!server.await.unwrap().has("DATA"));
    assert!(!refused.is_permanent(), "{refused}");
}

#[tokio::test]
async fn tls_and_logins_work_in_each_way() {
    let ours = Authority::new();
    for (security, extensions) in [
        (MailSecurity::Tls, &["AUTH LOGIN PLAIN"] as &[&str]),
        (MailSecurity::Tls, &["AUTH LOGIN"]),
        (MailSecurity::StartTls, &["STARTTLS", "AUTH PLAIN"]),
        (MailSecurity::StartTls, &["starttls", "auth login"]),
    ] {
        let is_first = security == MailSecurity::Tls;
        let tls = Some((ours.acceptor(HOST, 9), is_first));
        let (port, server) = Relay {
            extensions,
            tls,
            ..Relay::plain()
        }
        .open()
        .await;
        let authority = Some(ours.pem.clone());
        let login = login();
        let mail = Mail {
            security,
            login,
            authority,
            ..mail(port)
        };
        send(mail, &one()).await.unwrap();
        let heard = server.await.unwrap();
        assert!(!heard.mail.is_empty());
        let before = heard.lines.iter().position(|line| line == "STARTTLS");
        let hellos = heard.lines.iter().filter(|line| line.starts_with("EHLO"));
        assert_eq!(hellos.count(), 1 + usize::from(!is_first));
        let login = heard.lines.iter().position(|line| line.starts_with("AUTH"));
        assert!(login > before);
    }
}

#[tokio::test]
async fn a_password_that_is_refused_is_said_so_and_not_repeated() {
    let ours = Authority::new();
    let tls = Some((ours.acceptor(HOST, 9), true));
    let extensions = &["AUTH PLAIN"];
    let replies = &[("AUTH", "535 5.7.8 not with s3cret")];
    let (port, server) = Relay {
        extensions,
        replies,
        tls,
    }
    .open()
    .await;
    let authority = Some(ours.pem.clone());
    let (security, login) = (MailSecurity::Tls, login());
    let mail = Mail {
        security,
        login,
        authority,
        ..mail(port)
    };
    let refused = send(mail, &one()).await.unwrap_err();
    let heard = server.await.unwrap();
    assert!(!heard.has("MAIL"));
    assert!(refused.is_permanent());
    assert!(refused.to_string().contains("535"), "{refused}");
    assert!(
        !format!("{refused} {refused:?}").contains("s3cret"),
        "{refused:?}"
    );
    assert_eq!(refused.help(), "check the user name and the password");
}

/// What a server hears that is to be spoken to by STARTTLS with a login, and what comes of it.
async fn stripped(
    extensions: &'static [&'static str],
    replies: &'static [(&'static str, &'static str)],
    acceptor: TlsAcceptor,
) -> (Heard, Undelivered) {
    let tls = Some((acceptor, false));
    let (port, server) = Relay {
        extensions,
        replies,
        tls,
    }
    .open()
    .await;
    let (security, login) = (MailSecurity::StartTls, login());
    let mail = Mail {
        security,
        login,
        ..mail(port)
    };
    let failed = send(mail, &one()).await.unwrap_err();
    (server.await.unwrap(), failed)
}

#[tokio::test]
async fn without_tls_neither_the_password_nor_the_mail_is_sent() {
    let ours = Authority::new();
    let acceptor = || ours.acceptor(HOST, 9);
    let offered = &["STARTTLS", "AUTH PLAIN"];
    let (heard, failed) = stripped(&["AUTH PLAIN"], &[], acceptor()).await;
    assert_eq!(heard.lines, ["EHLO [127.0.0.1]"]);
    assert!(matches!(failed, Undelivered::NoStartTls { .. }), "{failed}");
    let refuses = &[("STARTTLS", "454 not now")];
    let (heard, failed) = stripped(offered, refuses, acceptor()).await;
    assert_eq!(heard.lines, ["EHLO [127.0.0.1]", "STARTTLS"]);
    let is_refused = matches!(
        failed,
        Undelivered::Refused {
            step: SmtpStep::StartTls,
            ..
        }
    );
    assert!(is_refused, "{failed}");
    // Whoever is between puts a reply behind the one to STARTTLS.
    let injects = &[("STARTTLS", "220 go\r\n250 AUTH PLAIN")];
    let (heard, failed) = stripped(offered, injects, acceptor()).await;
    assert_eq!(heard.lines, ["EHLO [127.0.0.1]", "STARTTLS"]);
    assert!(matches!(failed, Undelivered::Stranger { .. }), "{failed}");
    // A certificate of nobody who is trusted.
    let (heard, failed) = stripped(offered, &[], acceptor()).await;
    assert_eq!(heard.lines, ["EHLO [127.0.0.1]", "STARTTLS"]);
    let is_untrusted = matches!(
        failed,
        Undelivered::Tls {
            failure: TlsFailure::Untrusted,
            ..
        }
    );
    assert!(is_untrusted, "{failed}");
}

#[tokio::test]
async fn a_wrong_certificate_is_refused() {
    let ours = Authority::new();
    for (name, days) in [("mail.example", 9), (HOST, -9)] {
        let tls = Some((ours.acceptor(name, days), true));
        let (port, server) = Relay {
            tls,
            ..Relay::plain()
        }
        .open()
        .await;
        let authority = Some(ours.pem.clone());
        let security = MailSecurity::Tls;
        let failed = send(
            Mail {
                security,
                authority,
                ..mail(port)
            },
            &one(),
        )
        .await;
        let failed = failed.unwrap_err();
        assert!(server.await.unwrap().lines.is_empty());
        let Undelivered::Tls { failure, .. } = failed else {
            panic!("{failed}");
        };
        let is_name = matches!(failure, TlsFailure::OtherName);
        let is_time = matches!(failure, TlsFailure::Expired);
        assert_eq!((is_name, is_time), (days > 0, days < 0), "{failure}");
    }
}

#[tokio::test]
async fn a_server_without_a_login_that_we_know_is_told() {
    let ours = Authority::new();
    let tls = Some((ours.acceptor(HOST, 9), true));
    let extensions = &["AUTH CRAM-MD5 XPLAIN"];
    let (port, server) = Relay {
        extensions,
        tls,
        ..Relay::plain()
    }
    .open()
    .await;
    let authority = Some(ours.pem.clone());
    let (security, login) = (MailSecurity::Tls, login());
    let mail = Mail {
        security,
        login,
        authority,
        ..mail(port)
    };
    let failed = send(mail, &one()).await.unwrap_err();
    assert_eq!(server.await.unwrap().lines, ["EHLO [127.0.0.1]"]);
    assert!(matches!(failed, Undelivered::NoLogin { .. }), "{failed}");
}

#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    // Says nothing; greets and says nothing; a byte now and then.
    for (begin, drip) in [("", false), ("220 x\r\n", false), ("220-x\r\n", true)] {
        let (port, server) = serve(async move |mut stream| {
            stream.write_all(begin.as_bytes()).await.unwrap();
            while drip && stream.write_all(b"2").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await;
        let began = Instant::now();
        let receiver = Receiver::Mail(mail(port));
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
}

#[tokio::test]
async fn a_mail_that_was_taken_in_silence_is_sent_again_as_the_same() {
    let mut ids = Vec::new();
    for minute in 0..2 {
        // All of the mail has arrived, and the end of the reply to it does not come.
        let silent = Relay {
            replies: &[("(mail)", "250-2.0.0 taken, and")],
            ..Relay::plain()
        };
        let (port, server) = silent.open().await;
        let receiver = Receiver::Mail(mail(port));
        // It is put together anew each time.
        let mut message = one();
        message.sent_at_ms += minute * 60_000;
        let slow = deliver_within(&receiver, &message, PATIENCE).await;
        let slow = slow.unwrap_err();
        assert!(matches!(slow, Undelivered::TooSlow { .. }), "{slow}");
        assert!(!slow.is_permanent(), "it is tried again");
        let heard = server.await.unwrap();
        let read = MessageParser::default().parse(&heard.mail).unwrap();
        ids.push(read.message_id().unwrap().to_owned());
    }
    // By that mail servers and clients know that it is one.
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_reply_without_end_is_cut() {
    for piece in ["x", "220-x\r\n"] {
        let (port, server) = serve(async move |mut stream| {
            let more = piece.repeat(1024);
            stream.write_all(b"220-").await.unwrap();
            let mut sent = 0_usize;
            while stream.write_all(more.as_bytes()).await.is_ok() && sent < 1 << 30 {
                sent += more.len();
            }
            sent
        })
        .await;
        let stranger = send(mail(port), &one()).await.unwrap_err();
        assert!(
            matches!(stranger, Undelivered::Stranger { .. }),
            "{stranger}"
        );
        assert!(server.await.unwrap() < 1 << 25);
    }
}

#[tokio::test]
async fn who_speaks_something_else_is_named() {
    let (port, server) = serve(async |mut stream| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    })
    .await;
    let stranger = send(mail(port), &one()).await.unwrap_err();
    server.await.unwrap();
    let expected = format!("what answers at 127.0.0.1:{port} does not speak SMTP");
    assert_eq!(stranger.to_string(), expected);
}

#[tokio::test]
async fn a_storm_is_one_mail_of_bounded_size() {
    let (port, server) = Relay::plain().open().await;
    send(mail(port), &huge()).await.unwrap();
    let heard = server.await.unwrap();
    assert!(heard.mail.len() < 200_000, "{}", heard.mail.len());
    let longest = heard
        .mail
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::len)
        .max();
    // RFC 5321, 4.5.3.1.6.
    assert!(longest.unwrap() <= 998, "{longest:?}");
    let read = MessageParser::default().parse(&heard.mail).unwrap();
    let subject = read.subject().unwrap();
    assert_eq!(subject, "[Holdfast prod] CRITICAL 200 alarms: 200 raised");
    let text = read.body_text(0).unwrap();
    assert_eq!(text.matches("Alarm:   node-lost").count(), ALARMS_MAX);
    assert!(text.contains(&format!("And {} more", 200 - ALARMS_MAX)));
}

#[tokio::test]
async fn no_text_becomes_a_field_or_a_command() {
    let (port, server) = Relay::plain().open().await;
    let mut alarm = told("x\r\nBcc: a@b.example", "y\r\n\r\nbody", Change::Raised);
    alarm.detail = "\r\n.\r\nMAIL FROM:<evil@example.com>\r\n.\r\n".to_owned();
    let mut injected = message(vec![alarm]);
    injected.cluster_name = "prod\r\nX-Evil: yes\" <evil@example.com>,".to_owned();
    send(mail(port), &injected).await.unwrap();
    let heard = server.await.unwrap();
    let senders = heard.lines.iter().filter(|line| line.starts_with("MAIL"));
    assert_eq!(senders.count(), 1);
    let read = MessageParser::default().parse(&heard.mail).unwrap();
    assert!(read.header("Bcc").is_none());
    assert!(read.header("X-Evil").is_none());
    let from: Vec<_> = read.from().unwrap().iter().map(|it| it.address()).collect();
    assert_eq!(from, [Some("holdfast@example.com")]);
    assert!(
        read.body_text(0)
            .unwrap()
            .contains("MAIL FROM:<evil@example.com>")
    );
}
