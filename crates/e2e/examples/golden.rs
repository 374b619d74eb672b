//! Makes a golden image with the binary of a commit, which it builds:
//! `cargo run --release -p holdfast-e2e --example golden -- COMMIT`. Images that are there stay as they are.
#![allow(clippy::print_stdout, reason = "this is what an example is for")]

use anyhow::{Result, bail};
use holdfast_e2e::golden::{Image, make};
use holdfast_e2e::revision;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name] = arguments.as_slice() else {
        bail!("usage: golden COMMIT");
    };
    let commit = revision::commit(name)?;
    println!("building the binary of {commit}, which takes some minutes the first time");
    let program = revision::build(name)?;
    let (manifest, packed) = make(&program, &commit)?;
    let path = Image::keep(&manifest, &packed)?;
    println!("{}: {} bytes", path.display(), packed.len());
    Ok(())
}
