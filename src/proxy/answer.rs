//! Reads the answers to pull queries as they pass: rows, error rows, and whether the end was really the end.
//!
//! All formats are sequences of JSON elements, either in one array (`application/vnd.ksql.v1+json`, protobuf rows,
//! `application/json`) or one a line (`application/vnd.ksqlapi.delimited.v1`); the first byte tells which. The first
//! element describes the columns, rows follow, and an error is always the last element.

use std::ops::Range;

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Whole, without an error.
    Clean,
    /// Whole, its last element an error.
    Error,
    /// Cut off, empty, or not of any known form.
    Broken,
}

/// Steps through the bytes of an answer; remembers counts and places, never the bytes.
#[derive(Clone, Debug, Default)]
pub struct AnswerScanner {
    offset: usize,
    form: Option<Form>,
    in_string: bool,
    escaped: bool,
    depth: u32,
    elements: usize,
    rows: usize,
    element: Element,
    error: Option<Range<usize>>,
    closed: bool,
    garbage: bool,
    ends_with_newline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Array,
    Lines,
}

/// The element under way: where it began and its first bytes, which tell what it is.
#[derive(Clone, Copy, Debug, Default)]
struct Element {
    start: usize,
    head: [u8; HEAD],
    held: usize,
}

/// As many bytes as the longest member name that tells elements apart: `{"errorMessage"`.
const HEAD: usize = 15;

impl AnswerScanner {
    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            at += if self.in_string && !self.escaped { self.skip_string(rest) } else { self.step(rest) };
        }
        if let Some(last) = bytes.last() {
            self.ends_with_newline = *last == b'\n';
        }
    }

    /// How many rows came.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Where the error element is, if there was one.
    pub fn error(&self) -> Option<Range<usize>> {
        self.error.clone()
    }

    /// How the answer ended, told that its body has ended.
    pub fn end(&self) -> End {
        let whole = match self.form {
            Some(Form::Array) => self.closed,
            Some(Form::Lines) => self.depth == 0 && !self.in_string && self.ends_with_newline,
            None => false,
        };
        match (whole && !self.garbage && self.elements > 0, self.error.is_some()) {
            (false, _) => End::Broken,
            (true, true) => End::Error,
            (true, false) => End::Clean,
        }
    }

    /// Passes over the inside of a string up to its next quote or backslash.
    fn skip_string(&mut self, bytes: &[u8]) -> usize {
        let length = memchr::memchr2(b'"', b'\\', bytes).map_or(bytes.len(), |at| at + 1);
        let passed = bytes.get(..length).unwrap_or_default();
        self.remember(passed);
        match passed.last() {
            Some(b'"') => self.in_string = false,
            Some(b'\\') => self.escaped = true,
            _ => {}
        }
        self.offset += length;
        length
    }

    /// Takes one byte outside a string, or the one after a backslash.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let Some(byte) = bytes.first().copied() else { return 0 };
        if self.escaped {
            self.escaped = false;
        } else {
            self.structure(byte);
        }
        self.remember(&[byte]);
        if self.depth == self.floor() && matches!(byte, b'}' | b']') && !self.closed {
            self.finish_element();
        }
        self.offset += 1;
        1
    }

    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => self.in_string = true,
            b'[' if self.form.is_none() => {
                self.form = Some(Form::Array);
                self.depth = 1;
            }
            b'{' | b'[' => {
                self.form = self.form.or(Some(Form::Lines));
                self.garbage |= self.closed;
                if self.depth == self.floor() {
                    self.element = Element { start: self.offset, ..Element::default() };
                }
                self.depth += 1;
            }
            b']' if self.form == Some(Form::Array) && self.depth == 1 => {
                self.depth = 0;
                self.closed = true;
            }
            b'}' | b']' if self.depth > self.floor() => self.depth -= 1,
            b',' | b'\n' | b'\r' | b' ' | b'\t' => {}
            _ => self.garbage |= self.depth == self.floor() || self.form.is_none(),
        }
    }

    fn floor(&self) -> u32 {
        u32::from(self.form == Some(Form::Array))
    }

    fn remember(&mut self, bytes: &[u8]) {
        if self.depth > self.floor() || self.element.held == 0 {
            for byte in bytes.iter().take(HEAD - self.element.held) {
                self.element.head[self.element.held] = *byte;
                self.element.held += 1;
            }
        }
    }

    fn finish_element(&mut self) {
        let head = self.element.head.get(..self.element.held).unwrap_or_default();
        let place = self.element.start..self.offset + 1;
        self.elements += 1;
        if head.starts_with(b"[") || head.starts_with(b"{\"row\"") {
            self.rows += 1;
        } else if is_error(head, self.elements == 1) {
            self.error = Some(place);
        }
        self.element = Element::default();
    }
}

/// Whether an element is an error: wrapped, as in `application/vnd.ksql.v1+json`, or a bare `KsqlErrorMessage`, which the
/// delimited and plain JSON formats have after their first element, and any format may have in its place.
fn is_error(head: &[u8], first: bool) -> bool {
    const ERRORS: [&[u8]; 3] = [b"{\"errorMessage\"", b"{\"@type\"", b"{\"error_code\""];
    const OTHERS: [&[u8]; 5] =
        [b"{\"header\"", b"{\"finalMessage", b"{\"continuation", b"{\"consistency", b"{\"sourceHost\""];
    let any_of = |starts: &[&[u8]]| starts.iter().any(|start| head.starts_with(start));
    any_of(&ERRORS) || (!first && head.starts_with(b"{") && !any_of(&OTHERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str, chunk: usize) -> AnswerScanner {
        let mut scanner = AnswerScanner::default();
        text.as_bytes().chunks(chunk.max(1)).for_each(|bytes| scanner.push(bytes));
        scanner
    }

    const HEADER: &str = r#"[{"header":{"queryId":"q","schema":"`K` STRING KEY"}}"#;
    const LINE: &str = "{\"queryId\":\"q\",\"columnNames\":[\"K\"],\"columnTypes\":[\"STRING\"]}\n";

    #[test]
    fn rows_errors_and_ends_are_told_in_every_format_however_it_is_cut() {
        let error = r#"{"@type":"generic_error","error_code":50000,"message":"m"}"#;
        let cases: Vec<(String, usize, End)> = vec![
            (format!("{HEADER}]"), 0, End::Clean),
            (format!("{HEADER},\n{{\"row\":{{\"columns\":[\"k1\",1]}}}}]"), 1, End::Clean),
            (
                format!(
                    "{HEADER},\n{{\"row\":{{\"columns\":[\"]}}\\\"\\\\\",[[1]]]}}}},\n{{\"row\":{{\"columns\":[2]}}}}]\n"
                ),
                2,
                End::Clean,
            ),
            (format!("{HEADER},\n{{\"row\":{{\"protobufBytes\":\"CgJr\"}}}}]"), 1, End::Clean),
            (format!("{HEADER},\n{{\"errorMessage\":{error}}}]"), 0, End::Error),
            (format!("{HEADER},\n{{\"row\":{{\"columns\":[1]}}}},\n{{\"errorMessage\":{error}}}]"), 1, End::Error),
            (format!("{HEADER},\n{{\"finalMessage\":\"Pull query complete\"}}]"), 0, End::Clean),
            (format!("{HEADER},\n{{\"row\":{{\"columns\":[1]}}}}"), 1, End::Broken),
            (HEADER.to_owned(), 0, End::Broken),
            (LINE.to_owned(), 0, End::Clean),
            (format!("{LINE}[\"k1\",{{\"errorMessage\":1}}]\n"), 1, End::Clean),
            (format!("{LINE}[\"k1\",1]\n{error}\n"), 1, End::Error),
            (format!("{LINE}[\"k1\",1]"), 1, End::Broken),
            (format!("{LINE}[\"k1"), 0, End::Broken),
            (format!("[{},[\"k1\",1],\n[\"k2\",2]]", LINE.trim_end()), 2, End::Clean),
            (format!("[{},[\"k1\",1],{error}]", LINE.trim_end()), 1, End::Error),
            (String::new(), 0, End::Broken),
            ("[]".into(), 0, End::Broken),
            ("Not Found".into(), 0, End::Broken),
        ];
        for (text, rows, end) in cases {
            for chunk in [1, 2, 7, 4096] {
                let scanner = scan(&text, chunk);
                assert_eq!((scanner.rows(), scanner.end()), (rows, end), "{chunk} {text}");
            }
        }
    }

    #[test]
    fn the_error_element_is_found_in_place() {
        let text = format!("{HEADER},\n{{\"errorMessage\":{{\"error_code\":50000}}}}]");
        let place = scan(&text, 3).error().expect("an error");
        assert_eq!(&text[place], r#"{"errorMessage":{"error_code":50000}}"#);
    }
}
