//! Who may do what, as values: users with their roles and passwords, tokens of programs, sessions of browsers, and how often
//! a password may be tried.
//!
//! It refuses to know what time it is, to draw random bytes, to keep anything, and to know of HTTP: whoever asks brings
//! all that.
//!
//! Invariants:
//! - nothing by which somebody proves who he is can be made of what is kept: passwords are kept as argon2id, what was drawn
//!   at random as its SHA-256;
//! - an administrator is left at any time, if there was one;
//! - everything has a limit: each document fits into a value of the metadata.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accounts;
mod caller;
mod creations;
mod external;
mod name;
mod password;
mod proof;
mod sessions;
mod throttle;

pub use accounts::{
    ACCOUNTS_KEY, AccountError, AccountsRecord, Made, TOKEN_LIFETIME_MAX,
    TOKEN_LIFETIME_MAX_EXTERNAL, TOKEN_LIFETIME_MIN, TOKENS_MAX, TokenRecord, USERS_MAX,
    UserChange, UserRecord,
};
pub use caller::{Area, Caller, Permission, Role, Scope, UnknownName, Who};
pub use creations::{CREATION_KEPT, CREATIONS_KEY, CREATIONS_MAX, CreationOf, CreationsRecord};
pub use external::{
    EXTERNAL_KEY, EXTERNAL_SESSIONS_MAX, ExternalRecord, ExternalSession, ExternalUser,
};
pub use name::{
    LABEL_LENGTH_MAX, Label, LabelError, USER_NAME_LENGTH_MAX, UserName, UserNameError,
};
pub use password::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, PasswordError, PasswordHash};
pub use proof::{Drawn, Proof, ProofKind};
pub use sessions::{
    SESSION_LIFETIME, SESSIONS_KEY, SESSIONS_MAX, SESSIONS_PER_USER_MAX, SessionRecord,
    SessionsRecord,
};
pub use throttle::{TRACKED_MAX, Throttle};
