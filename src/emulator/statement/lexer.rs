//! Text -> tokens, for the few statements that the emulator answers.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A bare word, raised to upper case.
    Word(String),
    /// A quoted identifier.
    Quoted(String),
    /// A string literal, unescaped.
    Text(String),
    /// A number as written.
    Number(String),
    /// Punctuation and operators.
    Symbol(&'static str),
}

/// A token and the character at which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The token.
    pub token: Token,
    /// Its offset in characters.
    pub at: usize,
}

const SYMBOLS: [&str; 21] =
    ["->", "=>", ":=", "<=", ">=", "<>", "!=", "=", "<", ">", "(", ")", ",", ";", "*", "+", "-", ".", "/", ":", "%"];

/// Cuts a text into tokens; `None` where something is not closed or not known.
pub fn tokens(text: &str) -> Option<Vec<Placed>> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let start = at;
        let token = match c {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '-' if chars.get(at + 1) == Some(&'-') => {
                at += chars.iter().skip(at).take_while(|c| **c != '\n').count();
                continue;
            }
            '/' if chars.get(at + 1) == Some(&'*') => {
                let rest = chars.get(at + 2..)?;
                at += 4 + rest.windows(2).position(|w| w == ['*', '/'])?;
                continue;
            }
            '\'' => Token::Text(quoted(&chars, &mut at, '\'')?),
            '`' => Token::Quoted(quoted(&chars, &mut at, '`')?),
            '"' => Token::Quoted(quoted(&chars, &mut at, '"')?),
            c if c.is_ascii_digit() => Token::Number(number(&chars, &mut at)),
            c if c.is_alphabetic() || matches!(c, '_' | '@') => {
                let word: String = chars.iter().skip(at).take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                at += word.chars().count().max(1);
                Token::Word(word.to_uppercase())
            }
            _ => Token::Symbol(symbol(&chars, &mut at)?),
        };
        out.push(Placed { token, at: start });
    }
    Some(out)
}

fn quoted(chars: &[char], at: &mut usize, quote: char) -> Option<String> {
    let mut out = String::new();
    *at += 1;
    loop {
        let c = *chars.get(*at)?;
        *at += 1;
        if c != quote {
            out.push(c);
        } else if chars.get(*at) == Some(&quote) {
            out.push(quote);
            *at += 1;
        } else {
            return Some(out);
        }
    }
}

fn number(chars: &[char], at: &mut usize) -> String {
    let mut out = String::new();
    while let Some(c) = chars.get(*at) {
        let sign = matches!(c, '+' | '-') && out.ends_with(['e', 'E']);
        if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || sign) {
            break;
        }
        out.push(*c);
        *at += 1;
    }
    out
}

fn symbol(chars: &[char], at: &mut usize) -> Option<&'static str> {
    let matches = |s: &&&str| s.chars().enumerate().all(|(i, c)| chars.get(*at + i) == Some(&c));
    let symbol = SYMBOLS.iter().find(matches)?;
    *at += symbol.len();
    Some(symbol)
}
