//! The structure: what may use what, what stands at the top, and how large files are.

use std::fs;
use std::path::{Path, PathBuf};

/// What each directory may use of the crate; `clock` is the one clock, a file.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("error", &[]),
    ("config", &[]),
    ("telemetry", &[]),
    ("sql", &[]),
    ("partition", &["sql"]),
    ("view", &["config", "partition"]),
    ("clock", &["view"]),
    ("route", &["sql", "partition", "view", "config", "error"]),
    ("http", &["config", "error", "telemetry"]),
    ("proxy", &["config", "http", "sql", "partition", "view", "route", "error", "telemetry", "clock"]),
    ("control", &["config", "partition", "view", "http", "error", "telemetry", "clock"]),
    ("admin", &["sql", "partition", "view", "route", "http", "config", "telemetry", "clock"]),
    ("emulator", &["sql", "partition", "http"]),
    ("app", &["admin", "clock", "config", "control", "http", "proxy", "telemetry", "view"]),
    ("cli", &["app", "config", "control", "emulator", "partition", "sql", "telemetry", "view", "proxy", "route"]),
];

const TOP_LEVEL: [&str; 9] =
    ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "charts", "config", "src", "target", "tests"];

/// Lines of code, without tests, past which a file must be split.
const MOST_LINES: usize = 360;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Each file with its path below `src` and its text up to its unit tests.
fn product() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let below = |path: &Path| path.strip_prefix(root().join("src")).unwrap().to_string_lossy().into_owned();
    let is_tests = |name: &str| name.ends_with("tests.rs");
    files
        .iter()
        .map(|path| (below(path), fs::read_to_string(path).unwrap()))
        .filter(|(name, _)| !is_tests(name))
        .map(|(name, text)| (name, text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()))
        .collect()
}

/// The modules of the crate that a line names.
fn used(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let parts = code.match_indices("crate::").map(|(at, found)| &code[at + found.len()..]);
    parts.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()).collect()
}

#[test]
fn directories_use_only_what_they_may() {
    let mut offences = Vec::new();
    for (name, text) in product() {
        let directory = name.split(['/', '.']).next().unwrap_or_default();
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == directory) else {
            assert!(["lib", "main"].contains(&directory), "{name}: a directory without a rule");
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for module in used(line).into_iter().filter(|module| *module != directory && !allowed.contains(module)) {
                if MAY_USE.iter().any(|(known, _)| *known == module) {
                    offences.push(format!("src/{name}:{}: {directory} may not use {module}", number + 1));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn the_top_level_holds_what_the_architecture_lists() {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let others: Vec<String> = names.filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&&**name)).collect();
    assert_eq!(others, Vec::<String>::new());
}

#[test]
fn files_stay_small() {
    let large = product().into_iter().map(|(name, text)| (text.lines().count(), name));
    let large: Vec<(usize, String)> = large.filter(|(lines, _)| *lines > MOST_LINES).collect();
    assert_eq!(large, Vec::<(usize, String)>::new());
}
