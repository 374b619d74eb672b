//! Stories with a known beginning: what happens to a cluster when one thing goes wrong.

mod devices;
mod links;
mod metadata;
mod processes;
mod story;
mod wishes;
