//! Upgrades a cluster of an earlier version under load, node after node:
//! `cargo run --release -p holdfast-e2e --example upgrade -- [COMMIT]`. The binary of the commit is built; without
//! one it is that of the first version.

use anyhow::{Result, bail};
use holdfast_e2e::{revision, upgrade};

/// Format version 1, wire version 1.
const FIRST: &str = "5d5608cf718248600832841ca3daa03688198e26";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = match arguments.as_slice() {
        [] => FIRST,
        [name] => name,
        _ => bail!("usage: upgrade [COMMIT]"),
    };
    upgrade::roll(&revision::build(name)?);
    Ok(())
}
