//! `holdfast user`.

use std::path::PathBuf;

use clap::Subcommand;
use holdfast_api::documents::{User, UserChange, UserCreate};
use holdfast_identity::{Role, UserName};
use serde::Serialize;

use super::client;
use super::password::new_password;
use super::stalls::utc;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, table};

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// List the users: what each may, and how many logins hold
    List,
    /// Make a user; the password is asked for, unless a file has it
    Create {
        /// The name: 1 to 64 of a-z, 0-9, '.', '_', '-' and '@'
        name: UserName,
        /// What that one may: viewer looks; operator runs volumes, hosts, devices and maintenance as well; administrator also changes
        /// settings, nodes, and who may do what
        #[arg(long, default_value_t = Role::Viewer)]
        role: Role,
        /// The file with the password, of 12 letters at least
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Say anew what a user may
    Role {
        /// The user's name
        name: UserName,
        /// viewer, operator or administrator
        role: Role,
    },
    /// Give a user another password; logins end
    Password {
        /// The user's name
        name: UserName,
        /// The file with the password, of 12 letters at least
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Keep a user from logging in; logins end
    Disable {
        /// The user's name
        name: UserName,
    },
    /// Let a user log in again
    Enable {
        /// The user's name
        name: UserName,
    },
    /// Remove a user, with the sessions and the tokens of that one
    Remove {
        /// The user's name; `oidc:NAME` ends logins and tokens of somebody whom a provider of identities knows
        name: String,
    },
}

/// What `user remove` says to programs.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: UserCommand,
) -> Result<(), Failure> {
    let client = client(global);
    let (name, change) = match command {
        UserCommand::List => {
            let list = client.users().await?;
            return output.result(&list, || text(&list.users));
        }
        UserCommand::Create {
            name,
            role,
            password_file,
        } => {
            let request = UserCreate {
                password: new_password(password_file.as_deref(), name.as_str(), output)?,
                name: name.into(),
                role,
            };
            let user = client.create_user(&request).await?;
            return output.result(&user, || text(std::slice::from_ref(&user)));
        }
        UserCommand::Remove { name } => {
            client.remove_user(&name).await?;
            let removed = Removed { removed: &name };
            return output.result(&removed, || format!("removed {name}\n"));
        }
        UserCommand::Role { name, role } => {
            let role = Some(role);
            (
                name,
                UserChange {
                    role,
                    ..UserChange::default()
                },
            )
        }
        UserCommand::Password {
            name,
            password_file,
        } => {
            let password = new_password(password_file.as_deref(), name.as_str(), output)?;
            (
                name,
                UserChange {
                    password: Some(password),
                    ..UserChange::default()
                },
            )
        }
        UserCommand::Disable { name } => (name, disabled(true)),
        UserCommand::Enable { name } => (name, disabled(false)),
    };
    let user = client.change_user(name.as_str(), &change).await?;
    output.result(&user, || text(std::slice::from_ref(&user)))
}

fn disabled(disabled: bool) -> UserChange {
    UserChange {
        disabled: Some(disabled),
        ..UserChange::default()
    }
}

fn text(users: &[User]) -> String {
    let rows: Vec<_> = users
        .iter()
        .map(|user| {
            let is_ours = user.issuer.is_none();
            let state = match (is_ours, user.disabled) {
                (false, _) => "external",
                (true, true) => "disabled",
                (true, false) => "enabled",
            };
            let since = is_ours.then(|| utc(user.password_changed_ms));
            [
                user.name.clone(),
                user.role.to_string(),
                state.to_owned(),
                user.sessions.to_string(),
                since.unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    table(
        ["USER", "ROLE", "STATE", "LOGINS", "PASSWORD SINCE (UTC)"],
        &rows,
    )
}
