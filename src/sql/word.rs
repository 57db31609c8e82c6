//! The words of the grammar: which are keywords, and which of those may still be names.

/// A bare word, as the grammar sees it.
///
/// Only words that a SELECT's grammar speaks of have a variant of their own; any other keyword is [`Word::Reserved`], and a
/// keyword that may be used as a name and plays no part in a SELECT is [`Word::Plain`] like any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Plain,
    Reserved,
    Advance,
    And,
    Array,
    As,
    At,
    Between,
    By,
    Case,
    Cast,
    Changes,
    Decimal,
    Distinct,
    Else,
    Emit,
    End,
    Escape,
    False,
    Final,
    From,
    Full,
    Grace,
    Group,
    Having,
    Hopping,
    In,
    Inner,
    Is,
    Join,
    Left,
    Like,
    Limit,
    Map,
    Not,
    Null,
    On,
    Or,
    Outer,
    Partition,
    Period,
    Retention,
    Right,
    Select,
    Session,
    Size,
    /// The word `STRING`, which a type's parameter may be.
    StringType,
    Struct,
    Then,
    Time,
    True,
    Tumbling,
    /// A unit of time that may also be a name: `DAY`, `HOUR`, `MINUTE`, `SECOND`.
    Unit,
    /// A reserved unit of time: the plurals, and `MILLISECOND`.
    ReservedUnit,
    When,
    Where,
    Window,
    Within,
    Zone,
}

/// Letters of the longest keywords, `MATERIALIZED` and `MILLISECONDS`.
const LONGEST: usize = 12;

impl Word {
    /// Looks up a bare word in any mix of cases.
    pub(super) fn of(text: &str) -> Self {
        with_upper(text, Self::of_upper).unwrap_or(Word::Plain)
    }

    fn of_upper(upper: &[u8]) -> Self {
        match upper {
            b"ADVANCE" => Word::Advance,
            b"AND" => Word::And,
            b"ARRAY" => Word::Array,
            b"AS" => Word::As,
            b"AT" => Word::At,
            b"BETWEEN" => Word::Between,
            b"BY" => Word::By,
            b"CASE" => Word::Case,
            b"CAST" => Word::Cast,
            b"CHANGES" => Word::Changes,
            b"DECIMAL" => Word::Decimal,
            b"DISTINCT" => Word::Distinct,
            b"ELSE" => Word::Else,
            b"EMIT" => Word::Emit,
            b"END" => Word::End,
            b"ESCAPE" => Word::Escape,
            b"FALSE" => Word::False,
            b"FINAL" => Word::Final,
            b"FROM" => Word::From,
            b"FULL" => Word::Full,
            b"GRACE" => Word::Grace,
            b"GROUP" => Word::Group,
            b"HAVING" => Word::Having,
            b"HOPPING" => Word::Hopping,
            b"IN" => Word::In,
            b"INNER" => Word::Inner,
            b"IS" => Word::Is,
            b"JOIN" => Word::Join,
            b"LEFT" => Word::Left,
            b"LIKE" => Word::Like,
            b"LIMIT" => Word::Limit,
            b"MAP" => Word::Map,
            b"NOT" => Word::Not,
            b"NULL" => Word::Null,
            b"ON" => Word::On,
            b"OR" => Word::Or,
            b"OUTER" => Word::Outer,
            b"PARTITION" => Word::Partition,
            b"PERIOD" => Word::Period,
            b"RETENTION" => Word::Retention,
            b"RIGHT" => Word::Right,
            b"SELECT" => Word::Select,
            b"SESSION" => Word::Session,
            b"SIZE" => Word::Size,
            b"STRING" => Word::StringType,
            b"STRUCT" => Word::Struct,
            b"THEN" => Word::Then,
            b"TIME" => Word::Time,
            b"TRUE" => Word::True,
            b"TUMBLING" => Word::Tumbling,
            b"WHEN" => Word::When,
            b"WHERE" => Word::Where,
            b"WINDOW" => Word::Window,
            b"WITHIN" => Word::Within,
            b"ZONE" => Word::Zone,
            b"DAY" | b"HOUR" | b"MINUTE" | b"SECOND" => Word::Unit,
            b"DAYS" | b"HOURS" | b"MINUTES" | b"SECONDS" | b"MILLISECOND" | b"MILLISECONDS" => Word::ReservedUnit,
            _ if is_reserved(upper) => Word::Reserved,
            _ => Word::Plain,
        }
    }

    /// Whether the grammar lets the word stand for a name.
    pub(super) fn is_identifier(self) -> bool {
        use Word::*;
        match self {
            Plain | Array | Changes | Emit | Escape | Final | Grace | Map | Partition | Period | Session
            | StringType | Struct | Time | Unit | Zone => true,
            Reserved | Advance | And | As | At | Between | By | Case | Cast | Decimal | Distinct | Else | End
            | False | From | Full | Group | Having | Hopping | In | Inner | Is | Join | Left | Like | Limit | Not
            | Null | On | Or | Outer | Retention | Right | Select | Size | Then | True | Tumbling | ReservedUnit
            | When | Where | Window | Within => false,
        }
    }
}

/// Whether a statement that is not a SELECT can begin with the word.
pub(super) fn begins_other_statement(text: &str) -> bool {
    let begins = |upper: &[u8]| {
        matches!(
            upper,
            b"ALTER"
                | b"ASSERT"
                | b"CREATE"
                | b"DEFINE"
                | b"DESCRIBE"
                | b"DROP"
                | b"EXPLAIN"
                | b"INSERT"
                | b"LIST"
                | b"PAUSE"
                | b"PRINT"
                | b"RESUME"
                | b"RUN"
                | b"SET"
                | b"SHOW"
                | b"TERMINATE"
                | b"UNDEFINE"
                | b"UNSET"
        )
    };
    with_upper(text, begins).unwrap_or(false)
}

/// Keywords without a part in a SELECT that cannot be names either.
fn is_reserved(upper: &[u8]) -> bool {
    matches!(
        upper,
        b"ALL"
            | b"BEGINNING"
            | b"CATALOG"
            | b"CONNECTOR"
            | b"CONNECTORS"
            | b"CREATE"
            | b"DELETE"
            | b"DESCRIBE"
            | b"DROP"
            | b"EXISTS"
            | b"EXPORT"
            | b"EXTENDED"
            | b"INSERT"
            | b"INTO"
            | b"LIST"
            | b"LOAD"
            | b"MATERIALIZED"
            | b"MONTHS"
            | b"NAMESPACE"
            | b"PRINT"
            | b"PROPERTIES"
            | b"QUERIES"
            | b"QUERY"
            | b"RENAME"
            | b"RUN"
            | b"SAMPLE"
            | b"SCRIPT"
            | b"STREAM"
            | b"STREAMS"
            | b"TABLE"
            | b"TERMINATE"
            | b"TO"
            | b"TOPIC"
            | b"TOPICS"
            | b"UNSET"
            | b"VALUES"
            | b"VIEW"
            | b"WITH"
            | b"YEARS"
    )
}

/// Calls `look` with the word upper-cased on the stack; `None` for a word longer than any keyword.
fn with_upper<T>(text: &str, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut buffer = [0; LONGEST];
    let upper = buffer.get_mut(..text.len())?;
    upper.copy_from_slice(text.as_bytes());
    upper.make_ascii_uppercase();
    Some(look(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_found_in_any_case() {
        for text in ["SELECT", "select", "SeLeCt"] {
            assert_eq!(Word::of(text), Word::Select);
        }
        for text in ["SELECTED", "SELECT@", "", "A_WORD_LONGER_THAN_ANY_KEYWORD"] {
            assert_eq!(Word::of(text), Word::Plain, "{text}");
        }
    }

    #[test]
    fn reserved_words_are_no_names() {
        for text in ["table", "VALUES", "distinct", "milliseconds", "MATERIALIZED", "query"] {
            assert!(!Word::of(text).is_identifier(), "{text}");
        }
        for text in ["key", "emit", "changes", "partition", "string", "second", "year", "id", "pause"] {
            assert!(Word::of(text).is_identifier(), "{text}");
        }
    }
}
