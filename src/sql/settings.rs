//! The sidecar's own setting in statements that make tables, taken out: `CREATE TABLE T WITH (ACCEPTABLE_OFFSET_LAG=10, ...)`
//! is refused by every server.
//!
//! What keeps the setting instead follows in the same text: servers run the statements of a request in order and stop at
//! the first that fails.

use super::lexer::Lexer;
use super::statement::Name;
use super::token::{Kind, Token};
use std::ops::Range;

/// The setting, as statements have it.
const OFFSET_LAG: &str = "ACCEPTABLE_OFFSET_LAG";

/// A setting that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// A value that is none.
    #[error("ACCEPTABLE_OFFSET_LAG of table {table}: {value} is not a whole number of changelog records, 0 or more")]
    Value {
        /// The table that the statement makes.
        table: String,
        /// The value as it stands there.
        value: String,
    },
    /// The setting more than once.
    #[error("ACCEPTABLE_OFFSET_LAG of table {table} is given twice")]
    Twice {
        /// The table that the statement makes.
        table: String,
    },
}

/// What a statement does to a table's setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Makes the table, with this bound on offset lag.
    Made(u64),
    /// Makes the table anew, or for the first time, without a bound.
    MadeWithout,
    /// Drops the table.
    Dropped,
}

/// The text of a `/ksql` request without the settings of the tables that it makes, and after each statement what `keep`
/// gives for it: statements that keep or forget the setting, or nothing. `None` if nothing changes.
///
/// # Errors
/// When a setting's value makes no sense.
pub fn keep_settings(text: &str, keep: impl Fn(&str, Setting) -> Option<String>) -> Result<Option<String>, BadSetting> {
    let mut edited = String::new();
    let mut copied = 0;
    for statement in statements(text) {
        let tokens = Tokens { text, all: &statement };
        let Some((table, setting, cut)) = tokens.made()?.or_else(|| tokens.dropped()) else { continue };
        let Some(kept) = keep(&table, setting) else { continue };
        let end = statement.last().map_or(text.len(), |token| token.end);
        edited.push_str(text.get(copied..cut.start).unwrap_or_default());
        edited.push_str(text.get(cut.end..end).unwrap_or_default());
        if statement.last().is_none_or(|token| token.kind != Kind::Semicolon) {
            edited.push(';');
        }
        edited.push(' ');
        edited.push_str(&kept);
        copied = end;
    }
    if copied == 0 {
        return Ok(None);
    }
    edited.push_str(text.get(copied..).unwrap_or_default());
    Ok(Some(edited))
}

/// The streams that the `INSERT INTO ... VALUES` of a text write, by the metastore's spelling.
pub fn inserted_into(text: &str) -> Vec<String> {
    let into = |statement: &Vec<Token>| {
        let tokens = Tokens { text, all: statement };
        tokens.name(tokens.after(0, &["INSERT", "INTO"])?)
    };
    statements(text).iter().filter_map(into).collect()
}

/// The tokens of each statement, its semicolon included; a text that cannot be read has none.
fn statements(text: &str) -> Vec<Vec<Token>> {
    let mut lexer = Lexer::new(text);
    let (mut all, mut statement) = (Vec::new(), Vec::new());
    loop {
        let token = lexer.next();
        match token.kind {
            Kind::Unrecognised => return Vec::new(),
            Kind::End => break,
            _ => statement.push(token),
        }
        if token.kind == Kind::Semicolon {
            all.push(std::mem::take(&mut statement));
        }
    }
    if !statement.is_empty() {
        all.push(statement);
    }
    all
}

struct Tokens<'t> {
    text: &'t str,
    all: &'t [Token],
}

/// A table, what happens to its setting, and what to cut out.
type Edit = (String, Setting, Range<usize>);

impl<'t> Tokens<'t> {
    /// `CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ... WITH (..., ACCEPTABLE_OFFSET_LAG=n, ...)`.
    fn made(&self) -> Result<Option<Edit>, BadSetting> {
        let at = self.after(0, &["CREATE"]).map(|at| self.after(at, &["OR", "REPLACE"]).unwrap_or(at));
        let at = at.and_then(|at| self.after(at, &["TABLE"]));
        let unless_it_exists = at.and_then(|at| self.after(at, &["IF", "NOT", "EXISTS"]));
        let Some((at, table)) = unless_it_exists.or(at).and_then(|at| Some((at, self.name(at)?))) else {
            return Ok(None);
        };
        let Some((open, (place, close))) = self.with(at).and_then(|open| Some((open, self.setting(open, 0)?))) else {
            let end = self.all.last().map_or(0, |token| token.end);
            return Ok(unless_it_exists.is_none().then_some((table, Setting::MadeWithout, end..end)));
        };
        if self.setting(open, place).is_some() {
            return Err(BadSetting::Twice { table });
        }
        let after = |at: &usize| self.all.get(*at).is_none_or(|t| t.kind == Kind::Comma || *at >= close);
        let end = (place + 2..=close).find(after).unwrap_or(close);
        let value: String = self.all.get(place + 2..end).unwrap_or_default().iter().map(|t| self.source(t)).collect();
        let number = value.trim_matches('\'').parse::<u64>().ok();
        match number.filter(|lag| i64::try_from(*lag).is_ok()) {
            None => Err(BadSetting::Value { table, value }),
            Some(lag) => Ok(self.cut(open, place, close).map(|cut| (table, Setting::Made(lag), cut))),
        }
    }

    /// `DROP TABLE [IF EXISTS] name ...`.
    fn dropped(&self) -> Option<Edit> {
        let at = self.after(0, &["DROP", "TABLE"])?;
        let table = self.name(self.after(at, &["IF", "EXISTS"]).unwrap_or(at))?;
        let end = self.all.last()?.end;
        Some((table, Setting::Dropped, end..end))
    }

    /// The place after these words, if they stand at `at`.
    fn after(&self, at: usize, words: &[&str]) -> Option<usize> {
        let here = self.all.get(at..at + words.len())?;
        let same = here.iter().zip(words).all(|(token, word)| self.source(token).eq_ignore_ascii_case(word));
        same.then_some(at + words.len())
    }

    fn source(&self, token: &Token) -> &'t str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    /// The name at `at`, by the metastore's spelling.
    fn name(&self, at: usize) -> Option<String> {
        let token = self.all.get(at).filter(|token| token.kind.is_identifier())?;
        let source = self.source(token);
        let name = match token.kind {
            Kind::Quoted(quote) => Name { text: source.get(1..source.len() - 1)?, quote: Some(quote) },
            _ => Name { text: source, quote: None },
        };
        Some(name.metastore().into_owned())
    }

    /// The place of the parenthesis that opens the properties.
    fn with(&self, from: usize) -> Option<usize> {
        let mut depth = 0_u32;
        for (place, token) in self.all.iter().enumerate().skip(from) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if self.source(token).eq_ignore_ascii_case("AS") => return None,
                _ if self.source(token).eq_ignore_ascii_case("WITH") => {
                    return self.all.get(place + 1).filter(|next| next.kind == Kind::Open).map(|_| place + 1);
                }
                _ => {}
            }
        }
        None
    }

    /// Where the setting stands among the properties, past that place, and where these are closed.
    fn setting(&self, open: usize, past: usize) -> Option<(usize, usize)> {
        let close = (open..self.all.len()).find(|place| self.all.get(*place).is_some_and(|t| t.kind == Kind::Close))?;
        let is_setting = |place: &usize| {
            let name = self.all.get(*place).map_or("", |token| self.source(token));
            let equals = self.all.get(place + 1).is_some_and(|token| token.kind == Kind::Equal);
            equals && name.trim_matches(['\'', '`', '"']).eq_ignore_ascii_case(OFFSET_LAG)
        };
        (past.max(open) + 1..close).find(is_setting).map(|place| (place, close))
    }

    /// The setting with a comma beside it, or the whole `WITH (...)` if it stands there alone.
    fn cut(&self, open: usize, place: usize, close: usize) -> Option<Range<usize>> {
        let start = |place: usize| self.all.get(place).map(|token| token.start);
        let is_comma = |place: usize| self.all.get(place).is_some_and(|token| token.kind == Kind::Comma);
        // a number with a sign is two tokens
        let next = (place + 3..=close).find(|at| is_comma(*at) || *at == close)?;
        if is_comma(next) {
            return Some(start(place)?..start(next + 1)?);
        }
        if is_comma(place - 1) {
            return Some(start(place - 1)?..start(close)?);
        }
        Some(start(open - 1)?..self.all.get(close)?.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(text: &str) -> Option<String> {
        let kept = |table: &str, setting| match setting {
            Setting::Made(lag) => Some(format!("KEEP {table} {lag};")),
            Setting::MadeWithout | Setting::Dropped => (table == "KNOWN").then(|| "FORGET;".to_owned()),
        };
        keep_settings(text, kept).expect("good settings")
    }

    #[test]
    fn the_setting_is_cut_out_and_nothing_else() {
        for (before, after, table, lag) in [
            (
                "CREATE TABLE t WITH (ACCEPTABLE_OFFSET_LAG=10, KAFKA_TOPIC='x') AS SELECT 1;",
                "CREATE TABLE t WITH (KAFKA_TOPIC='x') AS SELECT 1;",
                "T",
                10,
            ),
            (
                "create or replace table `t` with (kafka_topic = 'x' , acceptable_offset_lag = '0') as select 1;",
                "create or replace table `t` with (kafka_topic = 'x' ) as select 1;",
                "t",
                0,
            ),
            (
                "CREATE TABLE IF NOT EXISTS T /* c */ WITH ( ACCEPTABLE_OFFSET_LAG = 7 ) AS SELECT 'WITH (A=1)' x",
                "CREATE TABLE IF NOT EXISTS T /* c */  AS SELECT 'WITH (A=1)' x;",
                "T",
                7,
            ),
            (
                "CREATE TABLE T (ID INT PRIMARY KEY, WITH_ STRING) WITH (A=1, ACCEPTABLE_OFFSET_LAG=3, B=2);",
                "CREATE TABLE T (ID INT PRIMARY KEY, WITH_ STRING) WITH (A=1, B=2);",
                "T",
                3,
            ),
        ] {
            assert_eq!(keep(before), Some(format!("{after} KEEP {table} {lag};")), "{before}");
        }
    }

    #[test]
    fn what_has_no_setting_is_left_alone() {
        for text in [
            "",
            "CREATE TABLE T WITH (KAFKA_TOPIC='ACCEPTABLE_OFFSET_LAG=1') AS SELECT 1;",
            "CREATE STREAM T WITH (ACCEPTABLE_OFFSET_LAG=1) AS SELECT 1;",
            "CREATE TABLE T AS SELECT ACCEPTABLE_OFFSET_LAG FROM X WITH (ACCEPTABLE_OFFSET_LAG=1);",
            "DROP TABLE OTHER;",
            "CREATE TABLE T WITH (ACCEPTABLE_OFFSET_LAG=1) AS SELECT ' open",
        ] {
            assert_eq!(keep(text), None, "{text}");
        }
    }

    #[test]
    fn of_several_statements_each_keeps_its_own() {
        let text = "LIST TABLES; DROP TABLE IF EXISTS known DELETE TOPIC; CREATE TABLE T WITH (ACCEPTABLE_OFFSET_LAG=1) AS SELECT 1; X";
        let without =
            "CREATE OR REPLACE TABLE KNOWN WITH (A=1) AS SELECT 1; CREATE TABLE IF NOT EXISTS KNOWN AS SELECT 1;";
        let expected = "CREATE OR REPLACE TABLE KNOWN WITH (A=1) AS SELECT 1; FORGET; CREATE TABLE IF NOT EXISTS KNOWN AS SELECT 1;";
        assert_eq!(keep(without).as_deref(), Some(expected));
        let expected =
            "LIST TABLES; DROP TABLE IF EXISTS known DELETE TOPIC; FORGET; CREATE TABLE T  AS SELECT 1; KEEP T 1; X";
        assert_eq!(keep(text).as_deref(), Some(expected));
    }

    #[test]
    fn inserts_name_their_streams() {
        let text = "INSERT INTO s (K) VALUES ('x'); LIST TABLES; insert into `s` values (1)";
        assert_eq!(inserted_into(text), ["S", "s"]);
        assert!(inserted_into("SELECT 'INSERT INTO S';").is_empty());
    }

    #[test]
    fn a_value_that_is_none_is_refused() {
        let refused = |properties: &str| {
            let text = format!("CREATE TABLE T WITH ({properties}) AS SELECT 1;");
            keep_settings(&text, |_, _| None).unwrap_err().to_string()
        };
        for value in ["-1", "'x'", "1.5", "99999999999999999999"] {
            let error = refused(&format!("ACCEPTABLE_OFFSET_LAG={value}, A=1"));
            assert!(error.contains(&format!("of table T: {value} is not ")), "{error}");
        }
        assert!(refused("ACCEPTABLE_OFFSET_LAG=1, A=2, `acceptable_offset_lag`=1").ends_with("is given twice"));
    }
}
