//! `holdfast receiver`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use holdfast_api::documents::{MailPut, MailSecurity, Receiver, ReceiverPut, WebhookPut};
use holdfast_model::record::Secret;
use serde::Serialize;

use super::client;
use super::initiator::read_secret;
use super::stalls::utc;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, table};

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiverCommand {
    /// List who is told of alarms, and whether they can be
    List,
    /// Have somebody told by mail
    Mail(MailArguments),
    /// Have a program told by an HTTP request
    Webhook(WebhookArguments),
    /// Tell a receiver of an alarm that is none, now
    Test {
        /// What it is called
        name: String,
    },
    /// Have somebody told no more
    Remove {
        /// What it is called
        name: String,
    },
}

/// What is the same of all receivers.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// What it is to be called: 1 to 63 letters, digits and '-'
    name: String,
    /// Tell it of critical alarms only
    #[arg(long)]
    critical_only: bool,
    /// A file with the PEM of an authority that is trusted for it beside the system's
    #[arg(long = "trust", value_name = "FILE")]
    authority: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Security {
    /// TLS from the first byte, as on port 465
    Tls,
    /// STARTTLS, and nothing without, as on port 587
    Starttls,
    /// No encryption; nobody can log in then
    None,
}

#[derive(Debug, Args)]
pub(crate) struct MailArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// The mail relay's host name or address
    #[arg(long, value_name = "HOST")]
    server: String,
    /// How the connection is encrypted
    #[arg(long, value_enum, default_value_t = Security::Starttls)]
    security: Security,
    /// The relay's port [default: 465 for tls, 587 for starttls, 25 for none]
    #[arg(long)]
    port: Option<u16>,
    /// Who logs in at the relay
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// The file with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// The sender's address
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// An address that is told; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// Where requests go: http or https
    #[arg(long)]
    url: String,
    /// The file with a secret that requests are signed with
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Do not sign requests any more
    #[arg(long, conflicts_with = "secret_file")]
    no_secret: bool,
}

/// What a command that leaves nothing behind says to programs.
#[derive(Serialize)]
struct Done<'a> {
    done: &'static str,
    receiver: &'a str,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: ReceiverCommand,
) -> Result<(), Failure> {
    let client = client(global);
    let (common, request) = match command {
        ReceiverCommand::List => {
            let list = client.receivers().await?;
            return output.result(&list, || text(&list.receivers));
        }
        ReceiverCommand::Test { name } => {
            client.test_receiver(&name).await?;
            let done = Done {
                done: "tested",
                receiver: &name,
            };
            return output.result(&done, || format!("{name} was told\n"));
        }
        ReceiverCommand::Remove { name } => {
            client.remove_receiver(&name).await?;
            let done = Done {
                done: "removed",
                receiver: &name,
            };
            return output.result(&done, || format!("{name} is told no more\n"));
        }
        ReceiverCommand::Mail(arguments) => by_mail(arguments, output)?,
        ReceiverCommand::Webhook(arguments) => by_webhook(arguments, output)?,
    };
    let receiver = client.put_receiver(&common.name, &request).await?;
    output.result(&receiver, || text(std::slice::from_ref(&receiver)))?;
    let name = &common.name;
    output.talk(&format!(
        "note: `holdfast receiver test {name}` shows whether it arrives"
    ));
    Ok(())
}

fn request(common: &CommonArguments) -> Result<ReceiverPut, Failure> {
    let authority = common.authority.as_ref().map(|file| {
        std::fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("read {}: {error}", file.display())))
    });
    Ok(ReceiverPut {
        critical_only: common.critical_only,
        authority: authority.transpose()?,
        ..ReceiverPut::default()
    })
}

fn by_mail(
    arguments: MailArguments,
    output: &Output,
) -> Result<(CommonArguments, ReceiverPut), Failure> {
    let (security, port) = match arguments.security {
        Security::Tls => (MailSecurity::Tls, 465),
        Security::Starttls => (MailSecurity::StartTls, 587),
        Security::None => (MailSecurity::None, 25),
    };
    let password = arguments.password_file.as_deref();
    let password = password.map(|file| read_secret(file, output));
    let mail = MailPut {
        server: arguments.server,
        port: arguments.port.unwrap_or(port),
        security,
        user: arguments.user,
        password: password.transpose()?,
        from: arguments.from,
        to: arguments.to,
    };
    let put = ReceiverPut {
        mail: Some(mail),
        ..request(&arguments.common)?
    };
    Ok((arguments.common, put))
}

fn by_webhook(
    arguments: WebhookArguments,
    output: &Output,
) -> Result<(CommonArguments, ReceiverPut), Failure> {
    let secret = arguments.secret_file.as_deref();
    let secret = secret.map(|file| read_secret(file, output));
    let none = arguments.no_secret.then(|| Secret(String::new()));
    let webhook = WebhookPut {
        url: arguments.url,
        secret: secret.transpose()?.or(none),
    };
    let put = ReceiverPut {
        webhook: Some(webhook),
        ..request(&arguments.common)?
    };
    Ok((arguments.common, put))
}

fn text(receivers: &[Receiver]) -> String {
    if receivers.is_empty() {
        return "nobody is told of alarms: `holdfast receiver mail` or `webhook` changes that\n"
            .to_owned();
    }
    let rows: Vec<_> = receivers
        .iter()
        .map(|receiver| {
            let place = match (&receiver.mail, &receiver.webhook) {
                (Some(mail), _) => {
                    format!("{} by {}:{}", mail.to.join(", "), mail.server, mail.port)
                }
                (None, Some(webhook)) => webhook.url.clone(),
                (None, None) => "-".to_owned(),
            };
            let of = if receiver.critical_only {
                "critical"
            } else {
                "all"
            };
            let state = match &receiver.undelivered {
                Some(it) if it.given_up => format!("given up {}: {}", utc(it.at_ms), it.why),
                Some(it) => format!(
                    "{} tries, the last {}: {}",
                    it.attempts,
                    utc(it.at_ms),
                    it.why
                ),
                None if receiver.waiting > 0 => "about to be told".to_owned(),
                None => "told of everything".to_owned(),
            };
            [receiver.name.clone(), place, of.to_owned(), state]
        })
        .collect();
    table(["RECEIVER", "WHERE", "OF", "STATE"], &rows)
}
