//! Makes tables of the built console's files and of the book's pages, to be compiled in.
//!
//! The files are what `npm run build` leaves in `console/dist/web`, each with its compressed forms beside it.
//! Where that is missing the table is empty: Rust alone is enough to build Holdfast. They are copied first, so that a
//! console that is built meanwhile leaves nothing half done.
//!
//! It refuses to build the console itself: that takes Node and, the first time, the network, and a build script
//! should need neither.

#[path = "build/book.rs"]
mod book;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Endings of the compressed forms.
const FORMS: [&str; 2] = ["br", "gz"];

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for source in ["build", "build.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    make_book(&manifest, &output)?;
    let dist = manifest.join("../../console/dist");
    // This directory is always there; the one below it is not, and what does not exist would be looked for, and
    // everything built anew, each time.
    println!("cargo::rerun-if-changed={}", dist.display());
    let web = dist.join("web");
    let mut files = Vec::new();
    if web.is_dir() {
        collect(&web, &web, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        if FORMS.iter().any(|form| name.ends_with(&format!(".{form}"))) {
            continue;
        }
        let (tag, plain) = keep(&output, &fs::read(path)?)?;
        writeln!(
            table,
            "Asset {{ path: {:?}, tag: {tag:?}, plain: include_bytes!({plain:?}), brotli: {}, gzip: {} }},",
            format!("/{name}"),
            form_of(path, "br", &plain)?,
            form_of(path, "gz", &plain)?,
        )
        .expect("a string takes everything");
    }
    table.push(']');
    fs::write(output.join("assets.rs"), table)
}

/// Copies what a file has to where it is compiled in from: its tag, and where that is.
fn keep(output: &Path, contents: &[u8]) -> io::Result<(String, PathBuf)> {
    let tag = blake3::hash(contents).to_hex()[..32].to_owned();
    let plain = output.join(&tag);
    fs::write(&plain, contents)?;
    Ok((tag, plain))
}

/// The table of the book's pages, and of the samples of `dist` that are in it.
fn make_book(manifest: &Path, output: &Path) -> io::Result<()> {
    let docs = manifest.join("../../docs");
    for source in [docs.clone(), manifest.join("../../dist")] {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    let mut table = String::from("&[\n");
    for (path, contents) in book::pages(&docs)? {
        let (tag, plain) = keep(output, &contents)?;
        writeln!(
            table,
            "Asset {{ path: {path:?}, tag: {tag:?}, plain: include_bytes!({plain:?}), brotli: None, gzip: None }},",
        )
        .expect("a string takes everything");
    }
    table.push(']');
    fs::write(output.join("book.rs"), table)
}

/// The compressed form of a file, if there is one, as a value in the table.
fn form_of(path: &Path, form: &str, plain: &Path) -> io::Result<String> {
    let compressed = with_ending(path, form);
    if !compressed.is_file() {
        return Ok("None".into());
    }
    let copy = with_ending(plain, form);
    fs::copy(compressed, &copy)?;
    Ok(format!("Some(include_bytes!({copy:?}))"))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        let relative = path.strip_prefix(root).expect("it is below");
        if let Some(name) = relative.to_str() {
            files.push((name.replace('\\', "/"), path));
        }
    }
    Ok(())
}
