//! Text of a statement -> what kind of statement it is. Pure: no I/O, no clock, linear time.
//!
//! Modelled on ksqlDB's own grammar. The rule above all others: a statement is never given a more trusting [`Class`] than
//! the server's grammar justifies; what is not fully understood is [`Class::Unsure`] and goes to the local server as it came.
//!
//! # How it works
//!
//! 1. `lexer` (with `scan`, `token`, `word`) reads a token at a time, borrowed from the text. Comments, quotes, numbers and
//!    the split between keywords and names follow the server's lexer, its oddities included.
//! 2. `parser` and its rules (`query`, `clause`, `expression`, `value`, `call`) recognise one SELECT in full, select list,
//!    types and lambdas included. No tree is built. A text that leaves the grammar anywhere is unsure; so is one that nests
//!    deeper than a fixed depth, which bounds the stack. A rule looks a few tokens ahead at most, which keeps the time linear.
//! 3. While WHERE is read, `filter` computes what each part of it amounts to: a column, a literal, equalities on columns
//!    and window bounds, or anything else. AND joins equalities on different columns; OR joins those on one; "anything else"
//!    swallows whatever it is joined with. What is left at the end is a lookup or it is not.
//! 4. `classify` gives the class. EMIT makes a push. What only a push may have (JOIN, WINDOW, GROUP BY, PARTITION BY,
//!    HAVING) is unsure without it, and so are comparisons with NULL and `IN` lists of columns, which the server refuses.
//!
//! A text that does not begin with SELECT is only split into statements: if each begins with a word that begins one, it is
//! [`Class::Other`].
//!
//! # Variables
//!
//! The server puts the values of `${name}` into the text before it parses it again, so that a lookup with a variable
//! anywhere is a pull at most. It does so in comments and quoted names, too, where a value could end them; and a
//! variable with a default value (`${name:-default}`) is replaced without being declared. Such texts are unsure.

mod call;
mod classify;
mod clause;
mod expression;
mod filter;
mod lexer;
mod line;
mod literal;
mod parser;
mod query;
mod scan;
mod selection;
mod settings;
mod statement;
mod token;
mod value;
mod word;

pub use classify::classify;
pub use line::explain_line;
pub use literal::parse_literal;
pub use selection::{Equalities, Selection};
pub use settings::{BadSetting, Setting, inserted_into, keep_settings};
pub use statement::{Class, Comparison, Condition, Literal, LiteralKind, Name, Statement, WindowBound, WindowEdge};
