//! Names as the runtime's events write them, in the form that clrscope writes them.
// Parts of texts are cut where a character of one byte was found.
#![allow(clippy::indexing_slicing)]

/// Longest name that is kept, in characters; longer ones are cut.
const MAX_NAME: usize = 2048;

/// How deep generic arguments are followed.
const MAX_DEPTH: u32 = 32;

/// A type's name as C# writes it, from the form that events have: ``List`1[System.Int32]`` or
/// ``List`1<System.Int32>``. Arguments of nested types go to the type that declares them:
/// ``A`1+B`1[X,Y]`` is `A<X>+B<Y>`.
pub fn type_name(name: &str) -> String {
    let characters: Vec<char> = name.chars().take(4 * MAX_NAME).collect();
    let mut parser = Parser { characters: &characters, at: 0 };
    let mut parsed = parser.ty(0);
    // What is no name of a type stays what it is.
    if parser.at < characters.len() {
        parsed = name.to_owned();
    }
    cut(parsed)
}

/// Parameter types in parentheses as C# writes them, from a signature as IL assemblers write it:
/// `instance void  (int32,class System.String[])` is `(int, string[])`.
pub fn parameters(signature: &str) -> String {
    // Return types may have parentheses of their own: function pointers. The parameters are what
    // the last ones hold.
    if signature.len() > 8 * MAX_NAME {
        return "(…)".to_owned();
    }
    let Some(open) = opening(signature) else { return String::new() };
    let inner = signature[open + 1..].trim_end();
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    if inner.trim().is_empty() {
        return "()".to_owned();
    }
    let parameters: Vec<String> = split(inner).into_iter().map(|text| parameter(text, 0)).collect();
    cut(format!("({})", parameters.join(", ")))
}

/// Where the last pair of parentheses of a text opens.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'[' | b'(' => depth += 1,
            b'>' | b']' | b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// One parameter.
fn parameter(text: &str, depth: u32) -> String {
    let text = text.trim();
    if depth > MAX_DEPTH {
        return text.to_owned();
    }
    if let Some(target) = text.strip_suffix('&') {
        return format!("ref {}", parameter(target, depth + 1));
    }
    if let Some(target) = text.strip_suffix('*') {
        return format!("{}*", parameter(target, depth + 1));
    }
    // Brackets of the outer array come first in C#: an array of int[,] is int[][,].
    let mut element = text;
    let mut brackets = String::new();
    while let Some((rest, rank)) = array(element) {
        brackets.push_str(rank);
        element = rest;
    }
    if !brackets.is_empty() {
        return parameter(element, depth + 1) + &brackets;
    }
    if let Some(index) = text.strip_prefix("!!") {
        return format!("TMethod{index}");
    }
    if let Some(index) = text.strip_prefix('!') {
        return format!("T{index}");
    }
    let plain =
        text.strip_prefix("class ").or_else(|| text.strip_prefix("value class ")).unwrap_or(text);
    match plain {
        "int32" => "int",
        "unsigned int32" => "uint",
        "int64" => "long",
        "unsigned int64" => "ulong",
        "int16" => "short",
        "unsigned int16" => "ushort",
        "unsigned int8" => "byte",
        "int8" => "sbyte",
        "wchar" => "char",
        "float32" => "float",
        "float64" => "double",
        "int" => "nint",
        "unsigned int" => "nuint",
        other => return generic(other, depth),
    }
    .to_owned()
}

/// What an array is of, and its brackets.
fn array(text: &str) -> Option<(&str, &str)> {
    let open = text.strip_suffix(']')?.rfind('[')?;
    let inner = &text[open + 1..text.len() - 1];
    inner.bytes().all(|byte| byte == b',').then(|| (&text[..open], &text[open..]))
}

/// A type with arguments, each of which is written as a parameter is.
fn generic(text: &str, depth: u32) -> String {
    let open = text.find('`').and_then(|mark| text[mark..].find('<').map(|at| mark + at));
    let Some((open, inner)) = open
        .zip(text.strip_suffix('>'))
        .and_then(|(open, text)| Some((open, text.get(open + 1..)?)))
    else {
        return type_name(text);
    };
    let arguments: Vec<String> =
        split(inner).into_iter().map(|text| parameter(text, depth + 1)).collect();
    distribute(&segments(&text[..open]), &arguments)
}

/// Parts of a nested type's name, each with the number of its own arguments.
fn segments(text: &str) -> Vec<(String, usize)> {
    let part = |part: &str| match part.rsplit_once('`') {
        Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(0)),
        None => (part.to_owned(), 0),
    };
    text.split('+').map(part).collect()
}

fn distribute(segments: &[(String, usize)], arguments: &[String]) -> String {
    let mut out = String::new();
    let mut rest = arguments;
    for (index, (name, count)) in segments.iter().enumerate() {
        if index > 0 {
            out.push('+');
        }
        out.push_str(name);
        // The last takes what is left, so that none is lost.
        let count = if index + 1 == segments.len() { rest.len() } else { (*count).min(rest.len()) };
        let (own, others) = rest.split_at(count);
        rest = others;
        if !own.is_empty() {
            out.push('<');
            out.push_str(&own.join(", "));
            out.push('>');
        }
    }
    if segments.len() == 1 && arguments.is_empty() { wire::as_csharp(&out) } else { out }
}

/// Cuts a name to at most `MAX_NAME` characters.
pub fn cut(name: String) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
}

/// Reads the name of a type with its arguments.
struct Parser<'a> {
    characters: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    /// Names of a type and of those around it, outermost first, each with the number of its
    /// parameters.
    fn segments(&mut self) -> Vec<(String, usize)> {
        let mut segments = vec![(String::new(), 0)];
        // Compiler-made names begin with an angle bracket, which opens no arguments.
        let mut begin = true;
        while let (Some(character), Some((name, count))) = (self.peek(0), segments.last_mut()) {
            match character {
                '<' if begin => self.compiler_name(name),
                '`' => {
                    self.at += 1;
                    while let Some(digit) = self.peek(0).and_then(|digit| digit.to_digit(10)) {
                        *count = (*count * 10 + digit as usize).min(1 << 16);
                        self.at += 1;
                    }
                }
                '+' => {
                    self.at += 1;
                    segments.push((String::new(), 0));
                    begin = true;
                    continue;
                }
                '<' | '>' | '[' | ']' | ',' | '*' | '&' => break,
                plain => {
                    name.push(plain);
                    self.at += 1;
                    if plain == '.' {
                        begin = true;
                        continue;
                    }
                }
            }
            begin = false;
        }
        segments
    }

    /// From an angle bracket to the one that closes it.
    fn compiler_name(&mut self, name: &mut String) {
        let mut open = 0;
        while let Some(part) = self.peek(0) {
            self.at += 1;
            name.push(part);
            open += i32::from(part == '<') - i32::from(part == '>');
            if open == 0 {
                break;
            }
        }
    }

    fn arguments(&mut self, depth: u32) -> Vec<String> {
        let mut arguments = Vec::new();
        let opens = match self.peek(0) {
            Some('<') => true,
            Some('[') => !matches!(self.peek(1), Some(']' | ',' | '*')),
            _ => false,
        };
        if opens && depth < MAX_DEPTH {
            self.at += 1;
            loop {
                arguments.push(self.ty(depth + 1));
                match self.peek(0) {
                    Some(',') => self.at += 1,
                    Some('>' | ']') => {
                        self.at += 1;
                        break;
                    }
                    _ => break,
                }
            }
        }
        arguments
    }

    fn ty(&mut self, depth: u32) -> String {
        let mut segments = self.segments();
        let arguments = self.arguments(depth);
        for (name, _) in &mut segments {
            *name = name.trim().to_owned();
        }
        let mut out = distribute(&segments, &arguments);
        // Arrays, pointers and references.
        loop {
            match self.peek(0) {
                Some(sign @ ('*' | '&')) => {
                    out.push(sign);
                    self.at += 1;
                }
                Some('[') if matches!(self.peek(1), Some(']' | ',' | '*')) => {
                    while let Some(part) = self.peek(0) {
                        self.at += 1;
                        out.push(part);
                        if part == ']' {
                            break;
                        }
                    }
                }
                _ => return out,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_both_forms() {
        for (from, to) in [
            ("System.Int32", "int"),
            ("N.Outer+Inner", "N.Outer+Inner"),
            (
                "System.Collections.Generic.List`1[System.__Canon]",
                "System.Collections.Generic.List<System.__Canon>",
            ),
            (
                "System.Collections.Generic.Dictionary`2<System.String,System.Int32[]>",
                "System.Collections.Generic.Dictionary<string, int[]>",
            ),
            (
                "System.Collections.Generic.List`1+Enumerator<T>",
                "System.Collections.Generic.List<T>+Enumerator",
            ),
            ("N.A`1+B`2[X,Y,Z]", "N.A<X>+B<Y, Z>"),
            ("N.Program+<>c__DisplayClass0_0", "N.Program+<>c__DisplayClass0_0"),
            ("N.Program+<Run>d__5`1<System.Byte>", "N.Program+<Run>d__5<byte>"),
            ("<>f__AnonymousType0`2[System.Int32,<Module>]", "<>f__AnonymousType0<int, <Module>>"),
            ("N.Program+<<Main>$>d__0", "N.Program+<<Main>$>d__0"),
            ("System.Int32[,]", "int[,]"),
            ("System.Byte*", "byte*"),
            ("", ""),
            ("a<b", "a<b>"),
            ("no > name", "no > name"),
        ] {
            assert_eq!(type_name(from), to, "{from}");
        }
        assert!(type_name(&"`1[".repeat(100_000)).chars().count() <= MAX_NAME + 1);
        assert!(type_name(&"x".repeat(100_000)).ends_with("x…"));
    }

    #[test]
    fn signatures() {
        for (from, to) in [
            ("void  ()", "()"),
            ("instance void  (int32,class System.String)", "(int, System.String)"),
            (
                "int64  (int64,bool,class System.Func`2<value class ErrorInfo,int32>)",
                "(long, bool, System.Func<ErrorInfo, int>)",
            ),
            ("instance int32  (unsigned int8[],wchar*,int32&)", "(byte[], char*, ref int)"),
            (
                "generic bool  (value class System.ReadOnlySpan`1<!!0>,!1)",
                "(System.ReadOnlySpan<TMethod0>, T1)",
            ),
            ("void  (int32[][,],unsigned int64)", "(int[,][], ulong)"),
            ("nonsense", ""),
            ("void  )", ""),
        ] {
            let expected = to.replace("System.String", "string");
            assert_eq!(parameters(from), expected, "{from}");
        }
    }
}
