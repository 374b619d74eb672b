//! The table of docs/figures/README.md, made anew of the files beside it:
//!
//! ```text
//! cargo run -q -p holdfast-e2e --example figures
//! ```
#![allow(clippy::print_stdout, reason = "this is what an example is for")]

use std::path::Path;

use anyhow::Result;
use holdfast_e2e::figures;

fn main() -> Result<()> {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    print!("{}", figures::table(&record)?);
    Ok(())
}
