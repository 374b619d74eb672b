//! The Debian package: made by cargo-deb of what the repository has, and tried in a clean Debian.
//!
//! cargo-deb is a tool and no dependency: it is installed into the build directory when it is first wanted. What is in the package
//! and is not in the repository (manual pages, completions, services with the package's paths) is made by the program itself, or from
//! `dist`, and staged in the build directory.
//!
//! Invariant: nothing is installed on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::process::{printed, succeed};
use crate::{book, console, metadata};

mod clean;

/// Which cargo-deb makes it.
const CARGO_DEB: &str = "cargo-deb@3.8.0";
/// Where what is made for it is put, from the root: the manifest's section `package.metadata.deb` names it.
const STAGE: &str = "target/package";
/// The services, by what they are called in `dist`.
const SERVICES: &[&str] = &["holdfast-node", "holdfast-witness"];
/// Where programs of one's own are, which is where the services in `dist` look; and where those of packages are.
const OWN_PATH: &str = "/usr/local/bin/";
const PACKAGE_PATH: &str = "/usr/bin/";
/// Shells, and where completions of each are staged.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "holdfast"),
    ("zsh", "_holdfast"),
    ("fish", "holdfast.fish"),
];

/// Makes the package; with `try`, also looks what it does in a Debian that has nothing else.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let is_tried = match words {
        [] => false,
        ["--try"] => true,
        ["--try", package] => return clean::try_out(Path::new(package)),
        _ => bail!("usage: cargo xtask package [--try [PACKAGE]]"),
    };
    let package = make(root)?;
    println!("{}", package.display());
    if is_tried {
        clean::try_out(&package)?;
    }
    Ok(())
}

fn make(root: &Path) -> Result<PathBuf> {
    let target = metadata::target_directory(root)?;
    let tool = book::tool(root, CARGO_DEB)?;
    // The program has the console in it.
    console::build(root)?;
    cargo::run(root, &["build", "--release", "--locked", "-p", "holdfast"])?;
    let program = target.join("release/holdfast");
    stage(root, &program)?;
    let made = target.join("debian");
    if made.exists() {
        fs::remove_dir_all(&made).context("remove the package before this one")?;
    }
    let mut deb = Command::new(tool);
    deb.args([
        "deb",
        "--no-build",
        "--strip",
        "--locked",
        "-p",
        "holdfast",
        "--output",
    ]);
    succeed(deb.arg(&made).current_dir(root))?;
    let entries = fs::read_dir(&made).context("list what cargo-deb has made")?;
    let mut packages = entries.flatten().map(|entry| entry.path());
    let package = packages.find(|path| path.extension().is_some_and(|it| it == "deb"));
    package.context("cargo-deb has made no package")
}

/// Makes what the repository does not have.
fn stage(root: &Path, program: &Path) -> Result<()> {
    let stage = root.join(STAGE);
    if stage.exists() {
        fs::remove_dir_all(&stage).context("remove what was staged before")?;
    }
    fs::create_dir_all(&stage).context("make the stage")?;
    succeed(Command::new(program).arg("man").arg(stage.join("man")))?;
    for (shell, name) in SHELLS {
        let completions = printed(Command::new(program).args(["completions", shell]))?;
        fs::write(stage.join(name), completions)?;
    }
    for name in SERVICES {
        let path = root.join(format!("dist/{name}.service"));
        let service = fs::read_to_string(&path).with_context(|| format!("read {name}.service"))?;
        let service = packaged(&service);
        fs::write(stage.join(format!("{name}.service")), service)?;
    }
    Ok(())
}

/// A service of `dist` as the package has it.
fn packaged(service: &str) -> String {
    let lines = service.lines();
    // The first line says where the file is to be put by hand.
    let lines = lines.filter(|line| !line.starts_with("# /etc/systemd/"));
    let lines = lines.map(|line| line.replace(OWN_PATH, PACKAGE_PATH) + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_the_package_start_the_packages_program() {
        for name in SERVICES {
            let path = crate::root().join(format!("dist/{name}.service"));
            let service = packaged(&fs::read_to_string(path).unwrap());
            assert!(
                service.contains("\nExecStart=/usr/bin/holdfast "),
                "{service}"
            );
            assert!(!service.contains("/usr/local"), "{service}");
            assert!(service.starts_with("[Unit]\n"), "{service}");
        }
    }
}
