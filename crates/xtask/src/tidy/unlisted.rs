//! No file of tests is forgotten: where a crate names its test programs itself, each file in `tests` is one, or a module of one.
//!
//! It reads manifests and `mod` lines by their words, which is enough for how ours are written.

use super::{File, Finding, crate_of};

/// What a manifest says of a crate whose test programs are named.
const NAMED: &str = "autotests = false";

/// Looks for files of tests that nothing compiles.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for manifest in files.iter().filter(|file| names_its_tests(file)) {
        let Some(folder) = manifest.path.strip_suffix("Cargo.toml") else {
            continue;
        };
        let folder = format!("{folder}tests/");
        let tests: Vec<(&str, &File)> = files
            .iter()
            .filter_map(|file| {
                let name = file.path.strip_prefix(&folder)?.strip_suffix(".rs")?;
                (!name.contains('/')).then_some((name, file))
            })
            .collect();
        let programs: Vec<&str> = programs(&manifest.text).collect();
        let is_module = |name: &str| {
            let line = format!("mod {name};");
            tests.iter().any(|(root, file)| {
                programs.contains(root) && file.text.lines().any(|text| text.trim() == line)
            })
        };
        for (name, file) in &tests {
            if !programs.contains(name) && !is_module(name) {
                let root = programs.first().unwrap_or(&"all");
                findings.push(Finding::new(
                    &file.path,
                    0,
                    format!("these tests are never run: add `mod {name};` to {folder}{root}.rs"),
                ));
            }
        }
    }
}

fn names_its_tests(file: &File) -> bool {
    crate_of(&file.path).is_some_and(|name| file.path == format!("crates/{name}/Cargo.toml"))
        && file.text.lines().any(|line| line.trim() == NAMED)
}

/// The names of a manifest's test programs.
fn programs(manifest: &str) -> impl Iterator<Item = &str> {
    let sections = manifest.split("[[test]]").skip(1);
    sections.filter_map(|section| {
        let section = section.split("\n[").next()?;
        section.lines().find_map(|line| {
            let value = line.trim().strip_prefix("name = ")?;
            Some(value.trim_matches('"'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nautotests = false\n\n[[test]]\nname = \"all\"\n\n[[test]]\nname = \"alone\"\n\n[[bench]]\nname = \"b\"\n";

    fn found(manifest: &str, tests: &[(&str, &str)]) -> Vec<String> {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let mut files = vec![file("crates/a/Cargo.toml", manifest)];
        files.extend(tests.iter().map(|(path, text)| file(path, text)));
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.into_iter().map(|it| it.path).collect()
    }

    #[test]
    fn a_file_that_no_program_has_is_found() {
        let tests = [
            ("crates/a/tests/all.rs", "//! All.\n\nmod one;\n"),
            ("crates/a/tests/alone.rs", ""),
            ("crates/a/tests/one.rs", "mod three;\n"),
            ("crates/a/tests/two.rs", ""),
            ("crates/a/tests/b.rs", ""),
            ("crates/a/tests/support/mod.rs", ""),
            ("crates/other/tests/two.rs", ""),
        ];
        assert_eq!(
            found(MANIFEST, &tests),
            ["crates/a/tests/two.rs", "crates/a/tests/b.rs"]
        );
    }

    #[test]
    fn where_cargo_finds_them_nothing_is_asked() {
        let tests = [("crates/a/tests/two.rs", "")];
        assert!(found("[package]\nname = \"a\"\n", &tests).is_empty());
    }
}
