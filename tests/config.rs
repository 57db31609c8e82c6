//! Layers, types, bounds and messages of the configuration.

use ksqldb_sidecar::cli::doctor::{CODES, Code};
use ksqldb_sidecar::config::{Config, ConfigErrors, Discovery, Effective, Flag, LoadOptions, reference};
use ksqldb_sidecar::proxy::{FIELDS, Field};
use ksqldb_sidecar::telemetry::{METRICS, MetricSpec};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn with_file(path: &Path) -> LoadOptions {
    LoadOptions { file: Some(path.to_owned()), ..LoadOptions::default() }
}

/// The options with `text` as the file; the directory must outlive the load.
fn load_text(text: &str) -> Result<Effective, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sidecar.toml");
    fs::write(&file, text).unwrap();
    Effective::load(with_file(&file))
}

fn with_variables(variables: &[(&str, &str)]) -> LoadOptions {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    LoadOptions { environment, ..LoadOptions::default() }
}

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(folder);
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    assert!(files.len() > 3, "{folder} has only {} files", files.len());
    files
}

fn messages(result: Result<Effective, ConfigErrors>) -> Vec<String> {
    result.expect_err("the configuration is refused").problems().iter().map(ToString::to_string).collect()
}

#[test]
fn without_anything_the_defaults_of_the_file_hold() {
    let config = Config::load(LoadOptions::default()).unwrap();
    assert_eq!(config.listen.client, "0.0.0.0:8089".parse().unwrap());
    assert_eq!(config.listen.max_header_bytes.bytes(), 16 << 10);
    assert_eq!(config.server.url.to_string(), "http://localhost:8088");
    assert_eq!(config.server.name, None);
    assert_eq!(config.peers.discovery, Discovery::Cluster);
    assert_eq!(config.health.interval, Duration::from_millis(200));
    assert_eq!(config.freshness.max_offset_lag.get(), None);
    assert!(config.answers.headers);
}

#[test]
fn every_key_is_documented() {
    for key in reference() {
        assert!(key.text.ends_with(|end| ".!".contains(end)), "{} has no sentence above it: {:?}", key.key(), key.text);
    }
    assert!(reference().len() > 40);
}

#[test]
fn every_valid_file_loads() {
    for path in toml_files("valid") {
        Effective::load(with_file(&path)).unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
    }
}

/// Beside each file stands what is said of it, with FILE for the place of the file.
#[test]
fn every_invalid_file_is_refused_with_the_expected_words() {
    for path in toml_files("invalid") {
        let file = format!("file {}", path.display());
        let said = messages(Effective::load(with_file(&path))).join("\n").replace(&file, "FILE");
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        assert_eq!(said, expected.trim_end(), "{}", path.display());
    }
}

#[test]
fn a_file_that_is_not_there_is_a_problem() {
    let said = messages(Effective::load(with_file(Path::new("no/such/sidecar.toml"))));
    assert_eq!(said, ["file no/such/sidecar.toml: cannot be read: No such file or directory (os error 2)"]);
}

#[test]
fn flags_overlay_the_environment_which_overlays_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sidecar.toml");
    fs::write(&file, "[log]\nformat = \"json\"\nlevel = \"warn\"\naccess = true\n").unwrap();
    let mut options =
        with_variables(&[("KSQLDB_SIDECAR__LOG__LEVEL", "debug"), ("KSQLDB_SIDECAR__LOG__FORMAT", "json")]);
    options.file = Some(file.clone());
    options.flags = vec![Flag { flag: "--log-format", key: "log.format", value: "text".to_owned() }];
    let effective = Effective::load(options).unwrap();
    let log = &effective.config.log;
    assert_eq!((log.format.as_str(), log.level.as_str(), log.access), ("text", "debug", true));
    let printed = effective.to_string();
    for line in [
        "format = \"text\" # flag --log-format".to_owned(),
        "level = \"debug\" # environment KSQLDB_SIDECAR__LOG__LEVEL".to_owned(),
        format!("access = true # file {}", file.display()),
        "grace = \"30s\" # default".to_owned(),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
}

#[test]
fn variables_give_numbers_lists_and_maps() {
    let config = Effective::load(with_variables(&[
        ("KSQLDB_SIDECAR__HEALTH__MISSED_THRESHOLD", "3"),
        ("KSQLDB_SIDECAR__REQUESTS__RETRY_BUDGET_RATIO", "0.5"),
        ("KSQLDB_SIDECAR__ANSWERS__HEADERS", "false"),
        ("KSQLDB_SIDECAR__FRESHNESS__MAX_OFFSET_LAG", "100"),
        ("KSQLDB_SIDECAR__PEERS__DISCOVERY", "static"),
        ("KSQLDB_SIDECAR__PEERS__STATIC", "[{ server = \"http://ksql-2:8088\" }]"),
        ("KSQLDB_SIDECAR__PEERS__NAMES", "{ \"ksql-2:8088\" = \"http://10.0.0.2:8088\" }"),
    ]));
    let config = config.unwrap().config;
    assert_eq!((config.health.missed_threshold, config.requests.retry_budget_ratio), (3, 0.5));
    assert!(!config.answers.headers);
    assert_eq!(config.freshness.max_offset_lag.get(), Some(100));
    assert_eq!(config.peers.static_peers[0].server.authority(), "ksql-2:8088");
    assert_eq!(config.peers.names["ksql-2:8088"].authority(), "10.0.0.2:8088");
}

#[test]
fn problems_of_all_places_are_reported_at_once() {
    let mut options = with_variables(&[
        ("KSQLDB_SIDECAR__LAG__POL_INTERVAL", "1s"),
        ("KSQLDB_SIDECAR__LAG", "1s"),
        ("KSQLDB_SIDECAR__PEERS__STATIC", "[{"),
        ("KSQLDB_SIDECAR__CATALOGUE__TIMEOUT", "1h"),
    ]);
    options.file = Some(PathBuf::from("no/such/file"));
    options.flags = vec![Flag { flag: "--server", key: "server.url", value: "localhost".to_owned() }];
    let said = messages(Effective::load(options));
    let starts = [
        "file no/such/file: cannot be read",
        "environment KSQLDB_SIDECAR__LAG: names no key; write KSQLDB_SIDECAR__SECTION__KEY",
        "catalogue.timeout (environment KSQLDB_SIDECAR__CATALOGUE__TIMEOUT): 1h is outside the bounds",
        "lag.pol_interval (environment KSQLDB_SIDECAR__LAG__POL_INTERVAL): unknown key; did you mean lag.poll_interval?",
        "peers.static (environment KSQLDB_SIDECAR__PEERS__STATIC): is not TOML",
        "server.url (flag --server): \"localhost\" is not an address such as http://ksql-1:8088",
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (said, start) in said.iter().zip(starts) {
        assert!(said.starts_with(start), "{said:?} does not start with {start:?}");
    }
}

#[test]
fn what_check_prints_gives_the_same_configuration() {
    for path in toml_files("valid") {
        let effective = Effective::load(with_file(&path)).unwrap();
        let again = load_text(&effective.to_string()).unwrap_or_else(|errors| panic!("{errors}\n{effective}"));
        assert_eq!(again.config, effective.config, "{}", path.display());
    }
    let options =
        with_variables(&[("KSQLDB_SIDECAR__HEALTH__MISSED_THRESHOLD", "3"), ("KSQLDB_SIDECAR__LOG__ACCESS", "true")]);
    let effective = Effective::load(options).unwrap();
    assert_eq!(load_text(&effective.to_string()).unwrap().config, effective.config);
}

/// `ksqldb-sidecar check` with a file, and nothing of this process's environment.
fn check_command(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ksqldb-sidecar"))
        .env_clear()
        .args(["check", "--config"])
        .arg(file)
        .output()
        .unwrap()
}

#[test]
fn check_exits_with_2_and_says_everything_on_standard_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let good = check_command(&root.join("valid/tuned.toml"));
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
    assert!(String::from_utf8(good.stdout).unwrap().contains("\n[health]\ninterval = \"50ms\" # file "));
    let bad = check_command(&root.join("invalid/several.toml"));
    assert_eq!(bad.status.code(), Some(2));
    assert!(bad.stdout.is_empty());
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(said.starts_with("ksqldb-sidecar: the configuration has 5 problems\n"), "{said}");
    assert_eq!(said.lines().count(), 6, "{said}");
}

/// The first sentence of a documented key.
fn meaning(text: &str) -> &str {
    text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first)
}

fn option_rows() -> Vec<String> {
    let row = |key: ksqldb_sidecar::config::Reference| {
        format!("| `{}` | `{}` | {} |", key.key(), key.default, meaning(key.text))
    };
    reference().into_iter().map(row).collect()
}

fn metric_rows() -> Vec<String> {
    let row = |metric: &MetricSpec| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let meaning = metric.help.trim_end_matches('.');
        format!("| `{}` | {} | {} | {meaning} |", metric.name, metric.kind, labels.join(", "))
    };
    METRICS.iter().map(row).collect()
}

/// The rows of the table under a heading of the README, without head and rule.
fn readme_rows(readme: &str, heading: &str) -> Vec<String> {
    let section =
        readme.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    section.filter(|line| line.starts_with('|')).skip(2).map(str::to_owned).collect()
}

fn freshness_rows() -> Vec<String> {
    let title = |header: &str| {
        let words = header.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
        words.collect::<Vec<_>>().join("-")
    };
    let row = |field: &Field| format!("| `{}` | `{}` | {} |", field.member, title(field.header), field.takes);
    FIELDS.iter().map(row).collect()
}

/// A table that differs is printed as it should be.
#[test]
fn readme_tables() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let tables = [("## Options", option_rows()), ("## Metrics", metric_rows()), ("## Freshness", freshness_rows())];
    for (heading, expected) in tables {
        let written = readme_rows(&readme, heading);
        assert!(written == expected, "the table under {heading} should be\n{}", expected.join("\n"));
    }
}

/// The findings of `doctor`, as the code has them.
fn finding_rows() -> Vec<String> {
    let row = |code: &Code| format!("| `{}` | {} | {} |", code.name, code.severity.as_str(), code.meaning);
    CODES.iter().map(row).collect()
}

#[test]
fn the_findings_of_doctor_are_documented() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/README.md")).unwrap();
    let (written, expected) = (readme_rows(&readme, "## Findings of `doctor`"), finding_rows());
    assert!(written == expected, "the table of findings should be\n{}", expected.join("\n"));
}
