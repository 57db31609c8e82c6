//! Log lines: text for people or one JSON object a line.

use super::access;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, ParseError};
use tracing_subscriber::fmt::MakeWriter;

/// How log lines look and which are written.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions<'a> {
    /// One JSON object a line instead of text.
    pub json: bool,
    /// Colours in text.
    pub colour: bool,
    /// A level or filter, such as `info,ksqldb_sidecar::control=debug`.
    pub filter: &'a str,
    /// Whether access records are written; decides over what the filter says of them.
    pub access: bool,
}

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum InitError {
    #[error("the log filter cannot be read")]
    Filter(#[from] ParseError),
    #[error("logging is set up already")]
    Twice(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Starts logging to standard error for the whole process.
///
/// # Errors
/// When the filter cannot be read, or logging has been started before.
pub fn init(options: LogOptions<'_>) -> Result<(), InitError> {
    tracing::subscriber::set_global_default(subscriber(options, std::io::stderr)?)?;
    Ok(())
}

/// What writes the log lines to `writer`.
///
/// # Errors
/// When the filter cannot be read.
pub fn subscriber<W>(options: LogOptions<'_>, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, ParseError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let level = if options.access { "info" } else { "off" };
    let access: Directive = format!("{}={level}", access::TARGET).parse()?;
    let filter = EnvFilter::try_new(options.filter)?.add_directive(access);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(if options.json {
        Box::new(builder.json().flatten_event(true).with_current_span(false).finish())
    } else {
        Box::new(builder.with_ansi(options.colour).finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::AccessRecord;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written while one access record and one warning are logged.
    fn logged(json: bool, access: bool) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let options = LogOptions { json, colour: false, filter: "warn", access };
        tracing::subscriber::with_default(subscriber(options, move || writer.clone()).unwrap(), || {
            tracing::warn!(host = "ksql-2:8088", "peer is dead");
            record().log();
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    fn record() -> AccessRecord<'static> {
        AccessRecord {
            request_id: "r-1",
            client: "127.0.0.1:50000".parse().unwrap(),
            method: "POST",
            path: "/query",
            class: Some("lookup"),
            table: Some("ORDERS"),
            partition: Some(3),
            served_by: Some("ksql-2:8088"),
            lag: Some(0),
            age: Some(Duration::from_millis(420)),
            attempts: 1,
            status: 200,
            bytes: 118,
            duration: Duration::from_micros(2_500),
            outcome: "ok",
        }
    }

    #[test]
    fn json_lines_have_the_fields_at_the_top() {
        let text = logged(true, true);
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["level"], &lines[0]["host"]), (&"WARN".into(), &"ksql-2:8088".into()));
        assert_eq!(lines[1]["target"], "access");
        assert_eq!(lines[1]["request_id"], "r-1");
        assert_eq!(lines[1]["partition"], 3);
        assert_eq!(lines[1]["age_ms"], 420);
        assert_eq!(lines[1]["duration_ms"], 2.5);
    }

    #[test]
    fn access_records_are_written_only_when_asked_for() {
        let text = logged(false, false);
        assert!(text.contains("peer is dead host=\"ksql-2:8088\"") && !text.contains("ORDERS"), "{text}");
        assert!(logged(false, true).contains("table=\"ORDERS\""));
    }
}
