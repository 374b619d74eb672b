//! Stories with a known beginning: what happens to a cluster when one thing goes wrong.

mod absences;
mod camps;
mod copies;
mod devices;
mod links;
mod metadata;
mod processes;
mod recovery;
mod rights;
mod room;
mod scrubs;
mod settings;
mod stalls;
mod story;
mod volumes;
mod wishes;
