//! Key types as people write them, e.g. `INT`, `STRUCT<A INT, B STRING>` or `A STRING, B INT`.

use super::{KeyColumn, KeyFormat, KeySchema, SqlType};
use crate::sql::Name;

/// The name of a single column that is given by its type alone.
const UNNAMED: &str = "KEY";

/// STRUCT, ARRAY and MAP that may stand inside each other.
const MOST_NESTED: usize = 32;

impl KeySchema {
    /// Reads the types of a key and the name of its format.
    ///
    /// One type (its column is then named `KEY`), or names and types divided by commas, in brackets or not. Names follow the
    /// rules of ksqlDB: quoted in `` ` `` or `"` they stay as they are, else they are upper-cased.
    ///
    /// # Errors
    ///
    /// Returns what is wrong and at which character, for people.
    pub fn parse(types: &str, format: &str) -> Result<KeySchema, String> {
        let format = KeyFormat::from_name(format)
            .ok_or_else(|| format!("key format `{format}` is not one of KAFKA, JSON, DELIMITED"))?;
        let mut reader = Reader::new(types)?;
        let in_brackets = reader.take('(')?;
        let columns = reader.key_columns()?;
        if in_brackets {
            reader.expect(')')?;
        }
        match reader.token {
            Token::End => Ok(KeySchema { format, columns }),
            _ => Err(reader.expected("the end")),
        }
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Word(&'a str),
    Quoted(Name<'a>),
    Sign(char),
    End,
}

#[derive(Clone)]
struct Reader<'a> {
    text: &'a str,
    /// The token being looked at.
    token: Token<'a>,
    /// Where it begins, in bytes.
    position: usize,
    /// What follows it.
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, String> {
        let mut reader = Reader { text, token: Token::End, position: 0, rest: text };
        reader.advance()?;
        Ok(reader)
    }

    fn advance(&mut self) -> Result<(), String> {
        let from = self.rest.trim_start();
        self.position = self.text.len() - from.len();
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut after_first = from.chars();
        (self.token, self.rest) = match after_first.next() {
            None => (Token::End, from),
            Some(quote @ ('`' | '"')) => self.quoted(quote, after_first.as_str())?,
            Some(first) if in_word(first) => {
                let (word, rest) = from.split_at(from.find(|c| !in_word(c)).unwrap_or(from.len()));
                (Token::Word(word), rest)
            }
            Some(sign) => (Token::Sign(sign), after_first.as_str()),
        };
        Ok(())
    }

    /// Splits what follows an opening quote at the closing one; doubled quotes belong to the name.
    fn quoted(&self, quote: char, from: &'a str) -> Result<(Token<'a>, &'a str), String> {
        let mut quotes = from.match_indices(quote).peekable();
        while let Some((at, _)) = quotes.next() {
            if quotes.next_if(|(next, _)| *next == at + 1).is_none() {
                let (text, rest) = from.split_at(at);
                return Ok((Token::Quoted(Name { text, quote: Some(quote) }), rest.trim_start_matches(quote)));
            }
        }
        Err(format!("the quote at character {} is not closed", self.place()))
    }

    fn key_columns(&mut self) -> Result<Vec<KeyColumn>, String> {
        let mut ahead = self.clone();
        ahead.advance()?;
        if matches!(self.token, Token::Word(_)) && !matches!(ahead.token, Token::Word(_) | Token::Quoted(_)) {
            return Ok(vec![KeyColumn { name: UNNAMED.to_owned(), sql_type: self.sql_type(MOST_NESTED)? }]);
        }
        self.columns(MOST_NESTED)
    }

    fn columns(&mut self, nesting: usize) -> Result<Vec<KeyColumn>, String> {
        let mut columns = Vec::new();
        loop {
            let name = match self.token {
                Token::Word(text) => Name { text, quote: None },
                Token::Quoted(name) => name,
                _ => return Err(self.expected("a name")),
            };
            self.advance()?;
            columns.push(KeyColumn { name: name.metastore().into_owned(), sql_type: self.sql_type(nesting)? });
            if !self.take(',')? {
                return Ok(columns);
            }
        }
    }

    fn sql_type(&mut self, nesting: usize) -> Result<SqlType, String> {
        let Token::Word(name) = self.token else {
            return Err(self.expected("a type"));
        };
        let name = name.to_ascii_uppercase();
        let Some(deeper) = nesting.checked_sub(1) else {
            return Err(format!("types are nested too deep at character {}", self.place()));
        };
        let unknown = self.expected("a type");
        self.advance()?;
        match name.as_str() {
            "STRUCT" => {
                self.expect('<')?;
                let fields = self.columns(deeper)?;
                self.expect('>')?;
                return Ok(SqlType::Struct(fields));
            }
            "ARRAY" => self.arguments(1, deeper)?,
            "MAP" => self.arguments(2, deeper)?,
            "DECIMAL" => self.precision()?,
            "DATE" | "TIME" | "TIMESTAMP" => {}
            _ => {
                return match SqlType::from_name(&name) {
                    SqlType::Other => Err(unknown),
                    known => Ok(known),
                };
            }
        }
        Ok(SqlType::Other)
    }

    /// Steps over the `<type>` or `<type, type>` of ARRAY and MAP.
    fn arguments(&mut self, count: usize, nesting: usize) -> Result<(), String> {
        let mut sign = '<';
        for _ in 0..count {
            self.expect(sign)?;
            self.sql_type(nesting)?;
            sign = ',';
        }
        self.expect('>')
    }

    /// Steps over the `(precision, scale)` of DECIMAL.
    fn precision(&mut self) -> Result<(), String> {
        for sign in ['(', ','] {
            self.expect(sign)?;
            match self.token {
                Token::Word(word) if word.bytes().all(|byte| byte.is_ascii_digit()) => self.advance()?,
                _ => return Err(self.expected("a number")),
            }
        }
        self.expect(')')
    }

    fn take(&mut self, sign: char) -> Result<bool, String> {
        let found = matches!(self.token, Token::Sign(found) if found == sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.take(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn expected(&self, what: &str) -> String {
        let found = match self.token {
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(name) => format!("the name `{}`", name.text),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        };
        format!("expected {what} at character {}, found {found}", self.place())
    }

    /// The token's place for people: in characters, from 1.
    fn place(&self) -> usize {
        self.text.char_indices().take_while(|(at, _)| *at < self.position).count() + 1
    }
}

#[cfg(test)]
mod tests {
    use crate::partition::{KeyColumn, KeyFormat, KeySchema, SqlType};

    fn column(name: &str, sql_type: SqlType) -> KeyColumn {
        KeyColumn { name: name.to_owned(), sql_type }
    }

    #[test]
    fn one_type_or_named_columns() {
        use SqlType::{Bigint, Boolean, Bytes, Double, Integer, Other, String, Struct};
        for (types, columns) in [
            ("int", vec![column("KEY", Integer)]),
            (" ( VARCHAR ) ", vec![column("KEY", String)]),
            ("DECIMAL(4,2)", vec![column("KEY", Other)]),
            ("ARRAY<MAP<STRING, DATE>>", vec![column("KEY", Other)]),
            ("(A STRING, B INT)", vec![column("A", String), column("B", Integer)]),
            ("a BIGINT,`b``c` DECIMAL(4, 2)", vec![column("A", Bigint), column("b`c", Other)]),
            ("\"ü x\" BYTES", vec![column("ü x", Bytes)]),
            (
                "STRUCT<A DOUBLE, `b` STRUCT<C BOOLEAN>>",
                vec![column("KEY", Struct(vec![column("A", Double), column("b", Struct(vec![column("C", Boolean)]))]))],
            ),
        ] {
            let expected = KeySchema { format: KeyFormat::Delimited, columns };
            assert_eq!(KeySchema::parse(types, "delimited"), Ok(expected), "{types}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        let deep = "STRUCT<A ".repeat(10_000);
        for (types, error) in [
            ("", "expected a name at character 1, found the end"),
            ("TEXT", "expected a type at character 1, found `TEXT`"),
            ("`ü` TEXT", "expected a type at character 5, found `TEXT`"),
            ("INT, STRING", "expected the end at character 4, found `,`"),
            ("(A INT", "expected `)` at character 7, found the end"),
            ("A INT,", "expected a name at character 7, found the end"),
            ("A \"B\"", "expected a type at character 3, found the name `B`"),
            ("STRUCT<A INT", "expected `>` at character 13, found the end"),
            ("STRUCT<>", "expected a name at character 8, found `>`"),
            ("DECIMAL(x", "expected a number at character 9, found `x`"),
            ("MAP<STRING>", "expected `,` at character 11, found `>`"),
            ("`A INT", "the quote at character 1 is not closed"),
            ("INT 😀", "expected the end at character 5, found `😀`"),
            (&deep, "types are nested too deep at character 289"),
        ] {
            let result = KeySchema::parse(types, "JSON");
            assert!(result.is_err(), "{types:.40}: {result:?}");
            assert_eq!(result.unwrap_err(), error, "{types:.40}");
        }
        let error = KeySchema::parse("INT", "AVRO").unwrap_err();
        assert_eq!(error, "key format `AVRO` is not one of KAFKA, JSON, DELIMITED");
    }
}
