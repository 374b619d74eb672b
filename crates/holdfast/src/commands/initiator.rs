//! `holdfast initiator`. Secrets come from files, so that no other user of the machine sees them in a command line.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use holdfast_api::documents::{ChapAccount, Initiator, InitiatorPut};
use holdfast_control::IscsiNodeName;
use holdfast_model::record::Secret;
use serde::Serialize;

use super::{client, paths};
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, quoted, table};

/// Under which name targets prove who they are, if nobody says otherwise.
const MUTUAL_NAME: &str = "holdfast";

#[derive(Debug, Subcommand)]
pub(crate) enum InitiatorCommand {
    /// List the initiators: what they prove who they are by, and the volumes that are for them
    List,
    /// Show who has sessions with which targets at which nodes, on record or not; of one initiator its paths to volumes
    Sessions {
        /// Its iSCSI name [default: all that have sessions]
        name: Option<IscsiNodeName>,
    },
    /// Put an initiator on record, or what is on record of it anew
    ///
    /// With a secret its name alone is not believed where a volume is for it (CHAP). What changes is in effect at its next login.
    Add(InitiatorAddArguments),
    /// Forget an initiator; refused while volumes are for it
    Remove {
        /// Its iSCSI name
        name: IscsiNodeName,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct InitiatorAddArguments {
    /// Its iSCSI name, for example iqn.1993-08.org.debian:01:2d4f1a
    name: IscsiNodeName,
    /// The CHAP name that it says [default: its iSCSI name]
    #[arg(long, value_name = "NAME", requires = "chap_secret_file")]
    chap_name: Option<String>,
    /// The file with the secret that it proves itself by, of 12 to 255 letters (Windows takes 16 at most)
    #[arg(long, value_name = "FILE")]
    chap_secret_file: Option<PathBuf>,
    /// The CHAP name that targets say to it [default: holdfast]
    #[arg(long, value_name = "NAME", requires = "mutual_secret_file")]
    mutual_name: Option<String>,
    /// The file with the secret that targets prove themselves to it by: another one
    #[arg(long, value_name = "FILE", requires = "chap_secret_file")]
    mutual_secret_file: Option<PathBuf>,
    /// From now on its name alone is believed: wanted where it is on record with a secret, and none is given
    #[arg(long, conflicts_with = "chap_secret_file")]
    without_chap: bool,
}

/// What `initiator remove` says to programs.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: InitiatorCommand,
) -> Result<(), Failure> {
    let client = client(global);
    match command {
        InitiatorCommand::List => {
            let list = client.initiators().await?;
            output.result(&list, || text(&list.initiators))?;
        }
        InitiatorCommand::Sessions { name: None } => paths::of_all(&client, output).await?,
        InitiatorCommand::Sessions { name: Some(name) } => {
            paths::of_initiator(&client, output, &name).await?;
        }
        InitiatorCommand::Add(add) => {
            let request = request(&add, output)?;
            if request.chap.is_none() && !add.without_chap {
                keeps_no_secret(&client.initiators().await?.initiators, &add.name)?;
            }
            let initiator = client.put_initiator(add.name.as_str(), &request).await?;
            output.result(&initiator, || text(std::slice::from_ref(&initiator)))?;
        }
        InitiatorCommand::Remove { name } => {
            client.remove_initiator(name.as_str()).await?;
            let removed = Removed {
                removed: name.as_str(),
            };
            output.result(&removed, || format!("removed {name}\n"))?;
        }
    }
    Ok(())
}

/// Whoever puts an initiator on record once more without its secret may not mean that it needs none from now on.
fn keeps_no_secret(known: &[Initiator], name: &IscsiNodeName) -> Result<(), Failure> {
    let known = known.iter().find(|known| known.name == name.as_str());
    if known.is_none_or(|known| known.chap_name.is_none()) {
        return Ok(());
    }
    let refusal = format!("{name} is on record with a secret, and none was given");
    Err(Failure::new(refusal).hint(
        "give its secret with --chap-secret-file, or --without-chap if its name alone is to be believed",
    ))
}

fn request(add: &InitiatorAddArguments, output: &Output) -> Result<InitiatorPut, Failure> {
    let account = |name: Option<&String>, default: &str, file: Option<&PathBuf>| {
        let account = |file: &PathBuf| {
            Ok::<_, Failure>(ChapAccount {
                name: name.map_or(default, String::as_str).to_owned(),
                secret: read_secret(file, output)?,
            })
        };
        file.map(account).transpose()
    };
    let own = add.name.as_str();
    Ok(InitiatorPut {
        chap: account(add.chap_name.as_ref(), own, add.chap_secret_file.as_ref())?,
        mutual: account(
            add.mutual_name.as_ref(),
            MUTUAL_NAME,
            add.mutual_secret_file.as_ref(),
        )?,
    })
}

/// What is in a file, without the line break that editors put at its end. Whether others can read it is told.
pub(super) fn read_secret(file: &Path, output: &Output) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("read the secret in {}: {error}", file.display())).hint(
            "it is a file with the secret in its only line, which this user may read: for example \
             `(umask 077; openssl rand -hex 8 > FILE)`",
        )
    })?;
    if let Some(warning) = open_to_others(file) {
        output.talk(&warning);
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    Ok(Secret(text.to_owned()))
}

/// A warning if the file of a secret is not its owner's only. A pipe is nobody's to read.
fn open_to_others(file: &Path) -> Option<String> {
    let metadata = std::fs::metadata(file).ok()?;
    let mode = metadata.permissions().mode() & 0o777;
    let is_open = metadata.is_file() && mode & 0o077 != 0;
    is_open.then(|| {
        let name = file.display().to_string();
        let quoted = quoted(&name);
        format!(
            "warning: others can read the secret in {name} (mode {mode:o}): `chmod 600 {quoted}`"
        )
    })
}

fn text(initiators: &[Initiator]) -> String {
    if initiators.is_empty() {
        return "no initiator is on record; who has sessions: `holdfast initiator sessions`\n"
            .to_owned();
    }
    let rows: Vec<_> = initiators
        .iter()
        .map(|initiator| {
            let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
            [
                initiator.name.clone(),
                name(&initiator.chap_name),
                name(&initiator.mutual_name),
                initiator.volumes.join(" "),
            ]
        })
        .collect();
    table(["INITIATOR", "CHAP NAME", "MUTUAL NAME", "VOLUMES"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_read_a_secret_is_told_what_the_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let refused = read_secret(&folder.path().join("away"), &Output::new(false))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("away") && refused.contains("hint: "),
            "{refused}"
        );
    }

    #[test]
    fn a_secret_is_not_dropped_by_leaving_it_out() {
        let known = |chap_name: Option<&str>| Initiator {
            name: "iqn.2026-11.example:one".to_owned(),
            chap_name: chap_name.map(str::to_owned),
            mutual_name: None,
            volumes: Vec::new(),
            etag: None,
        };
        let name = |text: &str| text.parse::<IscsiNodeName>().unwrap();
        let one = name("iqn.2026-11.example:one");
        assert!(keeps_no_secret(&[known(Some("one"))], &one).is_err());
        assert!(keeps_no_secret(&[known(None)], &one).is_ok());
        let other = name("iqn.2026-11.example:other");
        assert!(keeps_no_secret(&[known(Some("one"))], &other).is_ok());
    }

    #[test]
    fn a_secret_is_what_is_in_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        for text in [
            "a secret of a host",
            "a secret of a host\n",
            "a secret of a host\r\n",
        ] {
            std::fs::write(&file, text).unwrap();
            let secret = read_secret(&file, &Output::new(false)).unwrap();
            assert_eq!(secret.0, "a secret of a host");
        }
        assert!(read_secret(&directory.path().join("none"), &Output::new(false)).is_err());
    }

    #[test]
    fn a_secret_that_others_can_read_is_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a secret");
        std::fs::write(&file, "a secret of a host").unwrap();
        let with = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).unwrap();
            open_to_others(&file)
        };
        assert_eq!(with(0o600), None);
        assert_eq!(with(0o400), None);
        assert!(with(0o644).unwrap().contains("mode 644"));
        let command = format!("`chmod 600 '{}'`", file.display());
        assert!(with(0o640).unwrap().ends_with(&command));
        assert_eq!(open_to_others(directory.path()), None, "no file");
    }
}
