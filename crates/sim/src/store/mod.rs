//! A simulation of one node's store: random work, random crashes, and a model that knows what has
//! to be there.
//!
//! Checked after every read and every recovery:
//! - what was reported durable is there, with the right bytes, and what was void does not return;
//! - a read is of one state that the view allows, and bad only where the medium was made bad;
//! - the pages said to be there are those of the model, and no slot is lost or given twice;
//! - what is said to have changed above a point is at least what the model changed;
//! - one block of the journal that rots costs what is in its own group, and that is told;
//! - after a failed write nothing else is reported;
//! - devices come and go beside all of it.

mod changed;
mod check;
mod content;
mod devices;
mod faults;
mod model;
mod rotten_block;
mod run;
mod settle;
mod trace;
mod work;

pub use run::{Failure, Options, Report, run};
