//! A small reader of the statements that the emulator answers, apart from the product's on purpose: an oracle that shared
//! the product's parser would share its mistakes.

mod condition;
mod expression;
mod lexer;
mod parser;

pub use expression::{Comparison, Expression, Operand};
pub use lexer::{Placed, Token, tokens};
pub use parser::{Emit, Insert, Select, Statement, parse_all};
