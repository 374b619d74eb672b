//! Rust source split into code and comments, by a lexer that knows only what hides text: comments,
//! strings, characters.
//!
//! Invariants:
//! - `code` and `comments` have the same lines as the text; what does not belong to one is blank
//!   in it, so that positions agree;
//! - string and character literals are blank in `code` save for their quotes.

/// One file, split.
#[derive(Debug)]
pub(super) struct Source {
    /// Code without the contents of literals. ASCII: other characters are `?`.
    pub(super) code: String,
    /// Comments, documentation included. ASCII likewise.
    pub(super) comments: String,
    /// For each line, whether it belongs to an item under `#[cfg(test)]`.
    pub(super) test_lines: Vec<bool>,
}

/// A function's extent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`, from 1.
    pub(super) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(super) length: usize,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut lexer = Lexer {
            text: text.as_bytes(),
            at: 0,
            code: Vec::with_capacity(text.len()),
            comments: Vec::with_capacity(text.len()),
        };
        lexer.run();
        let code = String::from_utf8(lexer.code).expect("only ASCII was pushed");
        let comments = String::from_utf8(lexer.comments).expect("only ASCII was pushed");
        assert_eq!(code.len(), text.len());
        assert_eq!(comments.len(), text.len());
        let test_lines = test_lines(&code);
        Self {
            code,
            comments,
            test_lines,
        }
    }

    /// Lines outside `#[cfg(test)]`.
    pub(super) fn lines_without_tests(&self) -> usize {
        self.test_lines.iter().filter(|test| !**test).count()
    }

    /// Whether the line (from 1) is under `#[cfg(test)]`.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// The functions that have a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in words(&self.code, "fn") {
            let rest = self.code[at + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            // `fn(` is a type.
            if name.is_empty() {
                continue;
            }
            if let Some((_, close)) = body(&self.code, at) {
                let line = line_of(&self.code, at);
                functions.push(Function {
                    name,
                    line,
                    length: line_of(&self.code, close) - line + 1,
                });
            }
        }
        functions
    }
}

/// The line (from 1) of a byte position.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Where `word` stands as a word of its own.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let alone = !before.is_some_and(is_word) && !after.is_some_and(is_word);
        alone.then_some(at)
    })
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The positions of the braces of the item that begins at `start`; `None` if it ends in `;`.
fn body(code: &str, start: usize) -> Option<(usize, usize)> {
    let mut nesting = 0_i32;
    for (offset, byte) in code.as_bytes()[start..].iter().enumerate() {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting -= 1,
            b';' if nesting == 0 => return None,
            b'{' if nesting == 0 => {
                let open = start + offset;
                return Some((open, closing_brace(code, open)?));
            }
            _ => {}
        }
    }
    None
}

fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}

/// Marks the lines of items under `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marked = vec![false; code.lines().count()];
    for attribute in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for (at, _) in code.match_indices(attribute) {
            let after = at + code[at..].find(']').map_or(0, |offset| offset + 1);
            let end = match body(code, after) {
                Some((_, close)) => close,
                None => after + code[after..].find(';').unwrap_or(0),
            };
            for line in line_of(code, at)..=line_of(code, end) {
                marked[line - 1] = true;
            }
        }
    }
    marked
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

/// What a byte is part of.
#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            match self.text[self.at] {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'r' if !self.in_word() && self.raw_hashes(1).is_some() => self.raw_string(1),
                b'b' | b'c'
                    if !self.in_word()
                        && self.peek(1) == Some(b'r')
                        && self.raw_hashes(2).is_some() =>
                {
                    self.raw_string(2);
                }
                b'\'' => self.quote(),
                _ => self.push(1, Part::Code),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Whether the byte before continues an identifier.
    fn in_word(&self) -> bool {
        self.at > 0 && is_word(char::from(self.text[self.at - 1]))
    }

    /// How many `#` stand between a raw string's prefix and its quote, if that is what is here.
    fn raw_hashes(&self, prefix: usize) -> Option<usize> {
        let rest = &self.text[self.at + prefix..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        (rest.get(hashes) == Some(&b'"')).then_some(hashes)
    }

    fn push(&mut self, count: usize, part: Part) {
        let end = (self.at + count).min(self.text.len());
        for &byte in &self.text[self.at..end] {
            let shown = if byte.is_ascii() { byte } else { b'?' };
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            let (code, comment) = match part {
                Part::Code => (shown, blank),
                Part::Comment => (blank, shown),
                Part::Literal => (blank, blank),
            };
            self.code.push(code);
            self.comments.push(comment);
        }
        self.at = end;
    }

    fn line_comment(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        self.push(length, Part::Comment);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.text.len() {
            match (self.text[self.at], self.peek(1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    self.push(2, Part::Comment);
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.push(2, Part::Comment);
                }
                _ => self.push(1, Part::Comment),
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.push(1, Part::Code);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.push(2, Part::Literal),
                b'"' => return self.push(1, Part::Code),
                _ => self.push(1, Part::Literal),
            }
        }
    }

    fn raw_string(&mut self, prefix: usize) {
        let hashes = self.raw_hashes(prefix).expect("the caller has looked");
        self.push(prefix + hashes + 1, Part::Code);
        let mut end = vec![b'"'];
        end.extend(std::iter::repeat_n(b'#', hashes));
        while self.at < self.text.len() {
            if self.text[self.at..].starts_with(&end) {
                return self.push(end.len(), Part::Code);
            }
            self.push(1, Part::Literal);
        }
    }

    /// A character literal, or a lifetime's quote.
    fn quote(&mut self) {
        let length = match self.peek(1) {
            Some(b'\\') => {
                let rest = &self.text[self.at + 3..];
                rest.iter()
                    .position(|byte| *byte == b'\'')
                    .map(|offset| offset + 2)
            }
            Some(first) => {
                let bytes = match first {
                    0xF0.. => 4,
                    0xE0.. => 3,
                    0xC0.. => 2,
                    _ => 1,
                };
                (self.peek(1 + bytes) == Some(b'\'')).then_some(bytes)
            }
            None => None,
        };
        self.push(1, Part::Code);
        if let Some(length) = length {
            self.push(length, Part::Literal);
            self.push(1, Part::Code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_leave_the_code() {
        let source = Source::read(
            "let a = \"x // no \\\" {\"; // yes {\nlet b = r#\"a \" b\"#; /* c /* d */ e */ let c = '{';\n",
        );
        assert_eq!(source.code.matches('{').count(), 0);
        assert!(source.code.contains("let c = ' ';"));
        assert!(source.comments.contains("// yes {"));
        assert!(source.comments.contains("/* c /* d */ e */"));
        assert!(!source.comments.contains("no"));
    }

    #[test]
    fn lifetimes_and_characters_are_told_apart() {
        let source = Source::read("fn a<'a>(b: &'a str) { c('\\'', '\\u{7b}', 'ä', '\"'); d }\n");
        assert!(source.code.contains("<'a>(b: &'a str)"));
        assert!(source.code.ends_with("d }\n"));
        assert!(!source.code.contains("7b"));
    }

    #[test]
    fn raw_identifiers_and_prefixes_are_no_strings() {
        let source = Source::read("let r#fn = bar\"x\"; let s = br##\"y\"# z\"##; w\n");
        assert!(source.code.contains("r#fn"));
        assert!(!source.code.contains('y'));
        assert!(source.code.ends_with("; w\n"));
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let source = Source::read(
            "trait T { fn no_body(&self) -> [u8; 4]; }\nfn two(x: [u8; 2]) -> fn() {\n}\n\nfn four() {\n    if a {\n    }\n}\n",
        );
        let found = source.functions();
        let lengths: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.length)).collect();
        assert_eq!(lengths, [("two", 2), ("four", 4)]);
        assert_eq!(found[1].line, 5);
    }

    #[test]
    fn items_under_cfg_test_are_marked() {
        let source = Source::read(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nextern crate std;\nfn d() {}\n",
        );
        assert_eq!(
            source.test_lines,
            [false, true, true, true, true, false, true, true, false]
        );
        assert_eq!(source.lines_without_tests(), 3);
    }
}
