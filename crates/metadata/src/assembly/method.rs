//! A method: what it is called, its body, and the text of both.

use super::names::Naming;
use crate::{Assembly, BodyProblem, Row, column, table};
use cil::{
    MethodBody, MethodShape, MethodSig, Token, TokenKind, Tokens, Verifier, count_locals,
    decode_locals, disassemble, method_text, quoted, type_text,
};
use std::fmt::{self, Write};

/// A method that an assembly defines.
#[derive(Clone, Copy, Debug)]
pub struct Method<'b, 'a> {
    assembly: &'b Assembly<'a>,
    row: u32,
}

/// Words for the bits of a method's flags. Source: ECMA-335 II.23.1.10.
const FLAGS: [(u32, &str); 10] = [
    (0x0080, "hidebysig "),
    (0x0800, "specialname "),
    (0x1000, "rtspecialname "),
    (0x0100, "newslot "),
    (0x0200, "strict "),
    (0x0400, "abstract "),
    (0x0040, "virtual "),
    (0x0020, "final "),
    (0x0010, "static "),
    (0x2000, "pinvokeimpl() "),
];
/// Who may call it: the three low bits of its flags.
const ACCESS: [&str; 8] = [
    "privatescope ",
    "private ",
    "famandassem ",
    "assembly ",
    "family ",
    "famorassem ",
    "public ",
    "",
];
/// What its code is: the two low bits of the other flags. Source: ECMA-335 II.23.1.11.
const CODE: [&str; 4] = ["cil ", "native ", "optil ", "runtime "];
/// Words for further bits of them; the last two are of `corhdr.h`.
const IMPL_FLAGS: [(u32, &str); 8] = [
    (0x0008, " noinlining"),
    (0x0010, " forwardref"),
    (0x0020, " synchronized"),
    (0x0040, " nooptimization"),
    (0x0080, " preservesig"),
    (0x1000, " internalcall"),
    (0x0100, " aggressiveinlining"),
    (0x0200, " aggressiveoptimization"),
];
const UNMANAGED: u32 = 0x0004;

impl<'b, 'a> Method<'b, 'a> {
    pub(crate) const fn new(assembly: &'b Assembly<'a>, row: u32) -> Self {
        Self { assembly, row }
    }

    /// Its token.
    #[must_use]
    pub const fn token(&self) -> Token {
        Token::new(TokenKind::MethodDef, self.row)
    }

    fn get(&self, column: usize) -> Option<u32> {
        self.assembly.metadata().get(table::METHOD_DEF, self.row, column)
    }

    /// Its name alone.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.assembly.metadata().name(table::METHOD_DEF, self.row, column::METHOD_NAME);
        name.map_or_else(|| self.token().to_string(), |name| name.into_owned())
    }

    /// Full name of the type that it belongs to, with `/` in front of nested types.
    #[must_use]
    pub fn type_name(&self) -> Option<String> {
        let owner = self.assembly.owner(Row { table: table::METHOD_DEF, row: self.row })?;
        self.assembly.metadata().type_name(owner, '/')
    }

    /// Its type and name, as ILAsm has them but without quotes: `Space.Type/Inner::Name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.type_name() {
            Some(owner) => format!("{owner}::{}", self.name()),
            None => self.name(),
        }
    }

    /// As code refers to it: `instance void Space.Type/Inner::Name(int32)`, with the number of its
    /// type parameters, if it has some, behind its name; `None` if its signature cannot be read.
    #[must_use]
    pub fn reference(&self) -> Option<String> {
        let names = Naming::of(self.assembly);
        let of = Row { table: table::METHOD_DEF, row: self.row };
        let mut called = names.member(of, &self.name());
        match names.generic_parameters(of).len() {
            0 => {}
            count => called.push_str(&format!("`{count}")),
        }
        Some(method_text(&names.method_sig(self.signature()?)?, &called, &names))
    }

    /// Whether a pattern with `*` and `?` means it: its name alone, its full name with `::` or with
    /// a dot, or its token.
    #[must_use]
    pub fn is_meant(&self, pattern: &str) -> bool {
        let name = self.name();
        if matches(pattern, &name) || pattern.eq_ignore_ascii_case(&self.token().to_string()) {
            return true;
        }
        // Without one of these no type can be meant, and its name need not be made.
        if !pattern.contains(['.', ':', '/', '+', '*']) {
            return false;
        }
        let Some(owner) = self.type_name() else { return false };
        let pattern = pattern.replace('+', "/");
        matches(&pattern, &format!("{owner}::{name}"))
            || matches(&pattern, &format!("{owner}.{name}"))
    }

    /// The blob of its signature.
    #[must_use]
    pub fn signature(&self) -> Option<&'b [u8]> {
        self.assembly.metadata().blob_of(table::METHOD_DEF, self.row, column::METHOD_SIGNATURE)
    }

    /// Whether it has a body of IL.
    #[must_use]
    pub fn has_body(&self) -> bool {
        let is_il = self.get(column::METHOD_IMPL_FLAGS).is_some_and(|flags| flags & 3 == 0);
        is_il && self.get(column::METHOD_ADDRESS).is_some_and(|address| address != 0)
    }

    /// Its body; `None` if it has none of IL.
    ///
    /// # Errors
    /// The body is not there, or not whole.
    pub fn body(&self) -> Result<Option<MethodBody<'a>>, BodyProblem> {
        Ok(match self.body_bytes()? {
            Some(bytes) => Some(MethodBody::parse(bytes)?),
            None => None,
        })
    }

    /// The bytes from the header of its body on, to the end of the section; `None` if it has none
    /// of IL.
    ///
    /// # Errors
    /// The body is not there.
    pub fn body_bytes(&self) -> Result<Option<&'a [u8]>, BodyProblem> {
        let address = self.get(column::METHOD_ADDRESS).unwrap_or(0);
        if !self.has_body() {
            return Ok(None);
        }
        self.assembly.at(address).map(Some).ok_or(BodyProblem::Address { address })
    }

    /// What its signature, and that of the locals of its body, tell about its code.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn shape(&self, body: &MethodBody<'_>) -> Result<MethodShape, BodyProblem> {
        let token = body.header.local_signature;
        let missing = || BodyProblem::NoSignature { locals: token };
        let effect = self.assembly.call_effect(self.token()).ok_or_else(missing)?;
        let locals = match token.is_nil() {
            true => 0,
            false => count_locals(self.assembly.locals(token).ok_or_else(missing)?)?,
        };
        let arguments = effect.parameters.saturating_add(effect.has_this.into());
        Ok(MethodShape { arguments, locals, returns: effect.returns })
    }

    /// Checks its body, in the room of `verifier`; `None` if it has none of IL.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn verify(&self, verifier: &mut Verifier) -> Result<Option<()>, BodyProblem> {
        let Some(body) = self.body()? else { return Ok(None) };
        verifier.verify(&body, self.shape(&body)?, self.assembly)?;
        Ok(Some(()))
    }

    /// Its declaration in the syntax of ILAsm, on one line, with its full name.
    #[must_use]
    pub fn declaration(&self) -> String {
        let names = Naming::of(self.assembly);
        let flags = self.get(column::METHOD_FLAGS).unwrap_or(0);
        let mut text = ".method ".to_owned();
        text.push_str(ACCESS.get((flags & 7) as usize).copied().unwrap_or_default());
        FLAGS.iter().filter(|(bit, _)| flags & bit != 0).for_each(|(_, word)| text.push_str(word));
        let metadata = self.assembly.metadata();
        let called = names.member(Row { table: table::METHOD_DEF, row: self.row }, &self.name());
        match self.signature().and_then(|blob| names.method_sig(blob)) {
            Some(signature) => self.write_signature(&mut text, &signature, &called, &names),
            None => text.push_str(&called),
        }
        let flags =
            metadata.get(table::METHOD_DEF, self.row, column::METHOD_IMPL_FLAGS).unwrap_or(0);
        text.push(' ');
        text.push_str(CODE.get((flags & 3) as usize).copied().unwrap_or_default());
        text.push_str(if flags & UNMANAGED != 0 { "unmanaged" } else { "managed" });
        IMPL_FLAGS
            .iter()
            .filter(|(bit, _)| flags & bit != 0)
            .for_each(|(_, word)| text.push_str(word));
        text
    }

    fn write_signature(
        &self,
        text: &mut String,
        signature: &MethodSig,
        called: &str,
        names: &Naming<'_, '_>,
    ) {
        if signature.convention.has_this() {
            text.push_str(if signature.convention.explicit_this() {
                "instance explicit "
            } else {
                "instance "
            });
        }
        text.push_str(&type_text(&signature.return_type, names));
        text.push(' ');
        text.push_str(called);
        let generics = names.generic_parameters(Row { table: table::METHOD_DEF, row: self.row });
        if !generics.is_empty() {
            text.push('<');
            text.push_str(&generics.join(", "));
            text.push('>');
        }
        text.push('(');
        let metadata = self.assembly.metadata();
        let mut named = vec![None; signature.parameters.len()];
        for row in metadata
            .members(table::METHOD_DEF, self.row, column::METHOD_PARAMS)
            .take(named.len() + 1)
        {
            let place = metadata
                .get(table::PARAM, row, column::PARAM_SEQUENCE)
                .and_then(|place| place.checked_sub(1));
            if let Some(slot) = place.and_then(|place| named.get_mut(place as usize)) {
                *slot = metadata.name(table::PARAM, row, column::PARAM_NAME);
            }
        }
        for (index, (parameter, name)) in signature.parameters.iter().zip(named).enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            text.push_str(&type_text(parameter, names));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                text.push(' ');
                text.push_str(&quoted(&name));
            }
        }
        text.push(')');
    }

    /// Writes its declaration and its body in the syntax of ILAsm. Where something cannot be read,
    /// a comment says so.
    ///
    /// # Errors
    /// `out` fails.
    pub fn disassemble(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "{}\n{{", self.declaration())?;
        write!(out, "  // token {}", self.token())?;
        match self.body() {
            Err(problem) => writeln!(out, "\n  // {problem}")?,
            Ok(None) => writeln!(out, ", no body")?,
            Ok(Some(body)) => {
                let size = body.code.len();
                writeln!(out, ", {size} {} of code", if size == 1 { "byte" } else { "bytes" })?;
                let locals = match body.header.local_signature {
                    token if token.is_nil() => Ok(Vec::new()),
                    token => self.assembly.locals(token).map_or(Ok(Vec::new()), decode_locals),
                };
                if let Err(error) = &locals {
                    writeln!(out, "  // the signature of the locals: {error}")?;
                }
                let mut out = Indented { out: &mut *out, fresh: true };
                disassemble(
                    &mut out,
                    &body,
                    &locals.unwrap_or_default(),
                    &Naming::of(self.assembly),
                )?;
            }
        }
        writeln!(out, "}}")
    }
}

/// Puts two spaces in front of each line.
struct Indented<'o, W> {
    out: &'o mut W,
    fresh: bool,
}

impl<W: Write> Write for Indented<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            if self.fresh {
                self.out.write_str("  ")?;
            }
            self.out.write_str(line)?;
            self.fresh = line.ends_with('\n');
        }
        Ok(())
    }
}

/// Whether a pattern means a text: `*` stands for any characters, `?` for one, everything else for
/// itself.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Behind the last `*`, and the text that it has not taken yet.
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let text_before = text.clone();
        match (pattern.next(), text.next()) {
            (Some('*'), _) => {
                text = text_before;
                star = Some((pattern.clone(), text.clone()));
            }
            (None, None) => return true,
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            _ => {
                let Some((behind, mut rest)) = star else { return false };
                if rest.next().is_none() {
                    return false;
                }
                pattern = behind.clone();
                text = rest.clone();
                star = Some((behind, rest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("Main", "Main"),
            ("*", ""),
            ("M*n", "Main"),
            ("M??n", "Main"),
            ("*::M*", "A.B::Main"),
            ("*a*a*b", "aaaaaab"),
            ("A*", "A"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("Main", "main"), ("M?n", "Main"), ("", "a"), ("a", ""), ("*b", "abc"), ("?", "")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
