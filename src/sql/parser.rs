//! The recursive-descent recogniser's state: the next two tokens and what has been learned so far.
//!
//! Its rules stand in [`query`](super::query), [`clause`](super::clause), [`expression`](super::expression) and
//! [`value`](super::value). Each returns `None` where the text leaves the grammar. None reads a token more than a constant
//! number of times, so that recognising takes linear time.

use super::lexer::Lexer;
use super::selection::Item;
use super::token::{Kind, Token};
use super::word::Word;
use super::{Condition, Equalities, Name, WindowBound};
use smallvec::SmallVec;

/// Deepest nesting of brackets, calls, CASEs and types that is followed; what nests deeper is not recognised.
///
/// Bounds the stack: a level takes less than 8 KiB of it without optimisation.
const MAX_DEPTH: usize = 64;

/// Where the recogniser stands; a copy can be returned to.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) current: Token,
    pub(super) following: Token,
}

/// A recogniser over one text.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    depth: usize,
    /// Where the primary expression that ended last had begun.
    pub(super) last_primary: usize,
    /// How many columns were referred to so far.
    pub(super) columns: usize,
    /// Whether WHERE is being read.
    pub(super) filtering: bool,
    /// What may qualify a column in WHERE: the alias of the source, else its name; `None` for a variable.
    pub(super) scope: Option<Name<'a>>,
    /// Conditions on columns found in WHERE, in order.
    pub(super) keys: SmallVec<[Condition<'a>; 2]>,
    /// Conditions on window edges found in WHERE, in order.
    pub(super) windows: SmallVec<[WindowBound<'a>; 2]>,
    /// Whether WHERE holds something that the grammar allows and the server refuses.
    pub(super) doubtful: bool,
    /// What each item of the select list is, in order.
    pub(super) items: SmallVec<[Item<'a>; 4]>,
    /// What WHERE compares with `=` or `IN`, wherever it stands.
    pub(super) equalities: Equalities<'a>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let (current, following) = (lexer.next(), lexer.next());
        Parser {
            cursor: Cursor { lexer, current, following },
            depth: 0,
            last_primary: 0,
            columns: 0,
            filtering: false,
            scope: None,
            keys: SmallVec::new(),
            windows: SmallVec::new(),
            doubtful: false,
            items: SmallVec::new(),
            equalities: Equalities::default(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.cursor.current.kind
    }

    pub(super) fn following(&self) -> Kind {
        self.cursor.following.kind
    }

    /// The source text of a token.
    pub(super) fn text(&self, token: Token) -> &'a str {
        self.cursor.lexer.slice(token.start, token.end)
    }

    pub(super) fn advance(&mut self) -> Token {
        let passed = self.cursor.current;
        self.cursor.current = self.cursor.following;
        self.cursor.following = self.cursor.lexer.next();
        passed
    }

    pub(super) fn eat(&mut self, kind: Kind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, kind: Kind) -> Option<()> {
        self.eat(kind).then_some(())
    }

    pub(super) fn eat_word(&mut self, word: Word) -> bool {
        self.eat(Kind::Word(word))
    }

    pub(super) fn expect_word(&mut self, word: Word) -> Option<()> {
        self.expect(Kind::Word(word))
    }

    pub(super) fn identifier(&mut self) -> Option<Token> {
        self.kind().is_identifier().then(|| self.advance())
    }

    /// The name that an identifier's token gives; `None` for a variable.
    pub(super) fn name(&self, token: Token) -> Option<Name<'a>> {
        let text = self.text(token);
        match token.kind {
            Kind::Word(_) | Kind::DigitWord => Some(Name { text, quote: None }),
            Kind::Quoted(quote) => {
                let text = text.strip_prefix(quote)?.strip_suffix(quote)?;
                Some(Name { text, quote: Some(quote) })
            }
            _ => None,
        }
    }

    /// Follows a rule one level deeper; `None` below [`MAX_DEPTH`].
    pub(super) fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// One or more of what the rule reads, with commas between.
    pub(super) fn list(&mut self, mut rule: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        rule(self)?;
        while self.eat(Kind::Comma) {
            rule(self)?;
        }
        Some(())
    }
}
