//! Bodies as text, in the syntax of ILAsm. Source: ECMA-335 II.5 to II.7 and II.19, VI.C.

use crate::regions::{ROOT, RegionKind, Regions};
use crate::signature::Modifier;
use crate::{
    CallingConvention, ClauseKind, ExceptionClause, Instruction, MAX_DEPTH, MethodBody, MethodSig,
    Opcode, Operand, OperandKind, Token, TokenKind, TypeSig,
};
use std::fmt::{self, Write};

/// Names of tokens, out of the metadata of the module that the code belongs to. What is not known
/// is shown as `mdtoken(…)`, which ILAsm accepts.
pub trait Names {
    /// A type, method, field or stand-alone signature as ILAsm refers to it, such as
    /// `void [System.Console]System.Console::WriteLine(string)`.
    fn name(&self, token: Token) -> Option<String>;

    /// The characters of a literal in the `#US` heap.
    fn literal(&self, token: Token) -> Option<Vec<u16>>;

    /// What stands for a number of eight bytes that differs from run to run, such as the address of
    /// a function.
    fn number(&self, _: i64) -> Option<String> {
        None
    }
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn name(&self, _: Token) -> Option<String> {
        None
    }

    fn literal(&self, _: Token) -> Option<Vec<u16>> {
        None
    }
}

/// Writes a body: stack, locals, instructions, with try blocks and handlers as blocks where they
/// lie one behind the other, and by offsets where they do not. Where code cannot be read, a comment
/// says so, and the text ends.
///
/// # Errors
/// `out` fails.
pub fn disassemble(
    out: &mut impl Write,
    body: &MethodBody<'_>,
    locals: &[TypeSig],
    names: &impl Names,
) -> fmt::Result {
    writeln!(out, ".maxstack  {}", body.header.max_stack)?;
    if !locals.is_empty() {
        out.write_str(if body.header.init_locals { ".locals init (" } else { ".locals (" })?;
        for (index, local) in locals.iter().enumerate() {
            let comma = if index + 1 == locals.len() { ")" } else { "," };
            let indent = if index == 0 { "" } else { "    " };
            writeln!(out, "{indent}[{index}] {} V_{index}{comma}", type_text(local, names))?;
        }
    }
    let regions = Regions::build(&body.clauses, u32::try_from(body.code.len()).unwrap_or(u32::MAX))
        .ok()
        .filter(|regions| are_blocks(regions, body));
    let mut blocks = Blocks {
        regions: regions.as_ref(),
        clauses: &body.clauses,
        current: ROOT,
        next: 1,
        depth: 0,
    };
    for instruction in body.instructions() {
        match instruction {
            Ok(instruction) => {
                blocks.advance(out, instruction.offset, names)?;
                write!(out, "{:1$}", "", blocks.indent())?;
                write_instruction(out, &instruction, names)?;
            }
            Err(error) => writeln!(out, "// {error}")?,
        }
    }
    blocks.advance(out, u32::MAX, names)?;
    if regions.is_none() {
        for clause in &body.clauses {
            write_by_offsets(out, clause, names)?;
        }
    }
    Ok(())
}

/// Whether all clauses can be written as blocks: borders between instructions, handlers right
/// behind what they protect, in the order of the clauses.
fn are_blocks(regions: &Regions, body: &MethodBody<'_>) -> bool {
    let mut starts = vec![false; body.code.len() + 1];
    for instruction in body.instructions() {
        let Ok(instruction) = instruction else { return false };
        if let Some(start) = starts.get_mut(instruction.offset as usize) {
            *start = true;
        }
    }
    if let Some(end) = starts.last_mut() {
        *end = true;
    }
    let is_start = |offset: u32| starts.get(offset as usize) == Some(&true);
    // Where the next handler of each try block has to start.
    let mut ends: Vec<u32> =
        (0..regions.len() as u32).map(|index| regions.get(index).range.end).collect();
    (0..).zip(&body.clauses).all(|(index, clause)| {
        let first = match clause.kind {
            ClauseKind::Filter(start) => start,
            _ => clause.handler.start,
        };
        let end = ends.get_mut(regions.try_of(index) as usize);
        let follows = end.is_some_and(|end| std::mem::replace(end, clause.handler.end) == first);
        follows
            && [clause.try_block.start, first, clause.handler.start, clause.handler.end]
                .into_iter()
                .all(is_start)
    })
}

/// Opens and closes blocks on the way through the code.
struct Blocks<'a> {
    /// `None` if clauses are written by offsets.
    regions: Option<&'a Regions>,
    clauses: &'a [ExceptionClause],
    current: u32,
    next: u32,
    depth: usize,
}

impl Blocks<'_> {
    /// Spaces in front of a line. Limited, so that thousands of nested blocks do not make a text of
    /// their square.
    fn indent(&self) -> usize {
        self.depth.min(32) * 2
    }

    fn advance(&mut self, out: &mut impl Write, offset: u32, names: &impl Names) -> fmt::Result {
        let Some(regions) = self.regions else { return Ok(()) };
        while self.current != ROOT && regions.get(self.current).range.end <= offset {
            self.depth -= 1;
            writeln!(out, "{:1$}}}", "", self.indent())?;
            self.current = regions.get(self.current).parent;
        }
        while (self.next as usize) < regions.len() && regions.get(self.next).range.start <= offset {
            let region = regions.get(self.next);
            let kind = self.clauses.get(region.clauses.0 as usize).map(|clause| clause.kind);
            let indent = self.indent();
            match (region.kind, kind) {
                (RegionKind::Try, _) => writeln!(out, "{:indent$}.try", "")?,
                (RegionKind::Filter, _) => writeln!(out, "{:indent$}filter", "")?,
                (_, Some(ClauseKind::Catch(token))) => {
                    writeln!(out, "{:indent$}catch {}", "", name(token, names))?;
                }
                (_, Some(ClauseKind::Finally)) => writeln!(out, "{:indent$}finally", "")?,
                (_, Some(ClauseKind::Fault)) => writeln!(out, "{:indent$}fault", "")?,
                // The handler of a filter is the block behind the filter's.
                _ => {}
            }
            writeln!(out, "{:indent$}{{", "")?;
            self.depth += 1;
            self.current = self.next;
            self.next += 1;
        }
        Ok(())
    }
}

fn write_by_offsets(
    out: &mut impl Write,
    clause: &ExceptionClause,
    names: &impl Names,
) -> fmt::Result {
    let ExceptionClause { kind, try_block, handler } = clause;
    write!(out, ".try IL_{:04x} to IL_{:04x} ", try_block.start, try_block.end)?;
    match kind {
        ClauseKind::Catch(token) => write!(out, "catch {}", name(*token, names))?,
        ClauseKind::Filter(start) => write!(out, "filter IL_{start:04x}")?,
        ClauseKind::Finally => out.write_str("finally")?,
        ClauseKind::Fault => out.write_str("fault")?,
    }
    writeln!(out, " handler IL_{:04x} to IL_{:04x}", handler.start, handler.end)
}

fn write_instruction(
    out: &mut impl Write,
    instruction: &Instruction<'_>,
    names: &impl Names,
) -> fmt::Result {
    write!(out, "IL_{:04x}:  ", instruction.offset)?;
    let mnemonic = instruction.opcode.mnemonic();
    if instruction.operand == Operand::None {
        return writeln!(out, "{mnemonic}");
    }
    write!(out, "{mnemonic:<10} ")?;
    match instruction.operand {
        Operand::None => {}
        Operand::Int8(value) => write!(out, "{value}")?,
        Operand::Uint8(value) => write!(out, "{value}")?,
        Operand::Int32(value) => write!(out, "{value}")?,
        Operand::Int64(value) => match names.number(value) {
            Some(name) => out.write_str(&name)?,
            None => write!(out, "{value}")?,
        },
        Operand::Float32(bits) => match plain_decimal(format!("{:?}", f32::from_bits(bits))) {
            Some(text) => out.write_str(&text)?,
            None => write!(out, "float32({bits:#010x})")?,
        },
        Operand::Float64(bits) => match plain_decimal(format!("{:?}", f64::from_bits(bits))) {
            Some(text) => out.write_str(&text)?,
            None => write!(out, "float64({bits:#018x})")?,
        },
        Operand::Argument(index) => write!(out, "{index}")?,
        Operand::Local(index) => write!(out, "V_{index}")?,
        Operand::Token(token) if instruction.opcode.operand() == OperandKind::String => {
            match names.literal(token) {
                Some(text) => write_literal(out, &text)?,
                None => write!(out, "mdtoken({token})")?,
            }
        }
        Operand::Token(token) => {
            // Without the word, ILAsm reads a type.
            let word = match token.kind() {
                _ if instruction.opcode != Opcode::Ldtoken => "",
                Some(TokenKind::FieldDef) => "field ",
                Some(TokenKind::MethodDef | TokenKind::MethodSpec) => "method ",
                _ => "",
            };
            write!(out, "{word}{}", name(token, names))?;
        }
        Operand::Target(target) => write!(out, "IL_{target:04x}")?,
        Operand::Switch(targets) => {
            out.write_char('(')?;
            for (index, target) in targets.iter().enumerate() {
                write!(out, "{}IL_{target:04x}", if index == 0 { "" } else { ", " })?;
            }
            out.write_char(')')?;
        }
    }
    out.write_char('\n')
}

/// Other numbers are clearer, and exact, as bits.
fn plain_decimal(text: String) -> Option<String> {
    Some(text).filter(|text| text.contains('.') && !text.contains('e'))
}

/// A string in quotes, or its bytes if it is not well-formed UTF-16.
fn write_literal(out: &mut impl Write, text: &[u16]) -> fmt::Result {
    let Ok(text) = String::from_utf16(text) else {
        out.write_str("bytearray (")?;
        for unit in text {
            let [low, high] = unit.to_le_bytes();
            write!(out, " {low:02x} {high:02x}")?;
        }
        return out.write_str(" )");
    };
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            // Octal.
            c if c.is_ascii_control() => write!(out, "\\{:03o}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

fn name(token: Token, names: &impl Names) -> String {
    names.name(token).unwrap_or_else(|| format!("mdtoken({token})"))
}

/// A type in the syntax of ILAsm. Source: ECMA-335 II.7.1.
#[must_use]
pub fn type_text(sig: &TypeSig, names: &impl Names) -> String {
    let mut out = String::new();
    write_type(&mut out, sig, names, 0);
    out
}

fn write_type(out: &mut String, sig: &TypeSig, names: &impl Names, depth: u32) {
    if depth > MAX_DEPTH {
        out.push('…');
        return;
    }
    let suffixed = |out: &mut String, inner: &TypeSig, suffix: &str| {
        write_type(out, inner, names, depth + 1);
        out.push_str(suffix);
    };
    match sig {
        TypeSig::Primitive(primitive) => out.push_str(primitive.ilasm()),
        TypeSig::Class(token) => {
            out.push_str("class ");
            out.push_str(&name(*token, names));
        }
        TypeSig::ValueType(token) => {
            out.push_str("valuetype ");
            out.push_str(&name(*token, names));
        }
        TypeSig::GenericInst { value_type, definition, arguments } => {
            out.push_str(if *value_type { "valuetype " } else { "class " });
            match &**definition {
                TypeSig::Class(token) | TypeSig::ValueType(token) => {
                    out.push_str(&name(*token, names))
                }
                other => write_type(out, other, names, depth + 1),
            }
            out.push('<');
            write_list(out, arguments, names, depth + 1);
            out.push('>');
        }
        TypeSig::TypeParam(index) => push(out, format_args!("!{index}")),
        TypeSig::MethodParam(index) => push(out, format_args!("!!{index}")),
        TypeSig::SzArray(inner) => suffixed(out, inner, "[]"),
        TypeSig::Pointer(inner) => suffixed(out, inner, "*"),
        TypeSig::ByRef(inner) => suffixed(out, inner, "&"),
        TypeSig::Pinned(inner) => suffixed(out, inner, " pinned"),
        TypeSig::Array { element, rank, sizes, lower_bounds } => {
            write_type(out, element, names, depth + 1);
            write_bounds(out, *rank, sizes, lower_bounds);
        }
        TypeSig::FunctionPointer(method) => {
            out.push_str("method ");
            write_function(out, method, "*", names, depth + 1);
        }
        TypeSig::Modified { required, modifier, inner } => {
            write_type(out, inner, names, depth + 1);
            out.push_str(if *required { " modreq(" } else { " modopt(" });
            match modifier {
                Modifier::Token(token) => out.push_str(&name(*token, names)),
                Modifier::Internal(handle) => {
                    push(out, format_args!("/* type handle {handle:#x} */"))
                }
            }
            out.push(')');
        }
        TypeSig::Internal(handle) => push(out, format_args!("/* type handle {handle:#x} */")),
    }
}

fn write_list(out: &mut String, types: &[TypeSig], names: &impl Names, depth: u32) {
    for (index, argument) in types.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_type(out, argument, names, depth);
    }
}

/// Dimensions as `low...high`; nothing where nothing is stated. The runtime allows 32 dimensions, a
/// signature 2²⁹.
fn write_bounds(out: &mut String, rank: u32, sizes: &[u32], lower_bounds: &[i32]) {
    const MOST: u32 = 32;
    out.push('[');
    if rank == 1 && sizes.is_empty() && lower_bounds.is_empty() {
        // Without anything it would be the array that starts at 0.
        out.push_str("...");
    }
    for dimension in 0..rank.min(MOST) as usize {
        if dimension > 0 {
            out.push(',');
        }
        let low = i64::from(lower_bounds.get(dimension).copied().unwrap_or(0));
        match (sizes.get(dimension), lower_bounds.get(dimension)) {
            (Some(&size), _) => push(out, format_args!("{low}...{}", low + i64::from(size) - 1)),
            (None, Some(_)) => push(out, format_args!("{low}...")),
            (None, None) => {}
        }
    }
    if rank > MOST {
        out.push('…');
    }
    out.push(']');
}

/// Types in the syntax of ILAsm, with commas between them.
#[must_use]
pub fn types_text(types: &[TypeSig], names: &impl Names) -> String {
    let mut out = String::new();
    write_list(&mut out, types, names, 0);
    out
}

/// A type with those around it, the outermost first.
#[must_use]
pub fn nested(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
    parts.join("/")
}

/// A name as ILAsm reads it: in quotes if it has characters that identifiers do not have.
#[must_use]
pub fn quoted(name: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '@' | '`' | '?' | '.');
    if !name.is_empty()
        && name.chars().all(is_plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        return name.to_owned();
    }
    let mut text = String::from("'");
    for c in name.chars() {
        match c {
            '\'' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}

/// A method as ILAsm refers to it: its signature around what it is called, such as `instance void
/// Space.Type::Name(int32)`.
#[must_use]
pub fn method_text(method: &MethodSig, called: &str, names: &impl Names) -> String {
    let mut out = String::new();
    write_function(&mut out, method, called, names, 0);
    out
}

fn write_function(
    out: &mut String,
    method: &MethodSig,
    called: &str,
    names: &impl Names,
    depth: u32,
) {
    if method.convention.has_this() {
        out.push_str(if method.convention.explicit_this() {
            "instance explicit "
        } else {
            "instance "
        });
    }
    out.push_str(match method.convention.kind() {
        CallingConvention::C => "unmanaged cdecl ",
        CallingConvention::STDCALL => "unmanaged stdcall ",
        CallingConvention::THISCALL => "unmanaged thiscall ",
        CallingConvention::FASTCALL => "unmanaged fastcall ",
        CallingConvention::UNMANAGED => "unmanaged ",
        CallingConvention::VARARG => "vararg ",
        _ => "",
    });
    write_type(out, &method.return_type, names, depth);
    out.push(' ');
    out.push_str(called);
    out.push('(');
    let fixed = method.sentinel.unwrap_or(method.parameters.len()).min(method.parameters.len());
    let (before, after) =
        method.parameters.split_at_checked(fixed).unwrap_or((&method.parameters, &[]));
    write_list(out, before, names, depth);
    if method.sentinel.is_some() {
        out.push_str(if before.is_empty() { "..." } else { ", ..." });
        if !after.is_empty() {
            out.push_str(", ");
        }
        write_list(out, after, names, depth);
    }
    out.push(')');
}

/// Appends; a string never fails.
fn push(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeRange, MethodHeader};
    use proptest::prelude::*;
    use std::borrow::Cow;

    struct Few;

    impl Names for Few {
        fn name(&self, token: Token) -> Option<String> {
            (token.0 == 0x0100_0001).then(|| "[mscorlib]System.Exception".to_owned())
        }

        fn literal(&self, token: Token) -> Option<Vec<u16>> {
            match token.rid() {
                1 => Some("a\"\n\u{1}ü".encode_utf16().collect()),
                2 => Some(vec![0xd800]),
                _ => None,
            }
        }

        fn number(&self, value: i64) -> Option<String> {
            (value == 7).then(|| "&seven".to_owned())
        }
    }

    fn text(code: &[u8], clauses: Vec<ExceptionClause>) -> String {
        let body =
            MethodBody { header: MethodHeader::default(), code: Cow::Borrowed(code), clauses };
        let mut out = String::new();
        disassemble(&mut out, &body, &[], &Few).unwrap();
        out.strip_prefix(".maxstack  8\n").unwrap().to_owned()
    }

    fn clause(kind: ClauseKind, try_block: (u32, u32), handler: (u32, u32)) -> ExceptionClause {
        let range = |(start, end)| CodeRange { start, end };
        ExceptionClause { kind, try_block: range(try_block), handler: range(handler) }
    }

    const CATCH: ClauseKind = ClauseKind::Catch(Token(0x0100_0001));

    #[test]
    fn operands() {
        let code = [
            0x1f, 0xfb, 0x22, 0, 0, 0xc0, 0x3f, 0x22, 0, 0, 0xc0, 0x7f, 0x72, 1, 0, 0, 0x70, 0x72,
            2, 0, 0, 0x70, 0x72, 3, 0, 0, 0x70, 0xd0, 1, 0, 0, 4, 0x11, 9, 0x45, 2, 0, 0, 0, 0, 0,
            0, 0, 1, 0, 0, 0, 0x2a, 0x24,
        ];
        assert_eq!(
            text(&code, Vec::new()),
            "IL_0000:  ldc.i4.s   -5\n\
             IL_0002:  ldc.r4     1.5\n\
             IL_0007:  ldc.r4     float32(0x7fc00000)\n\
             IL_000c:  ldstr      \"a\\\"\\n\\001ü\"\n\
             IL_0011:  ldstr      bytearray ( 00 d8 )\n\
             IL_0016:  ldstr      mdtoken(0x70000003)\n\
             IL_001b:  ldtoken    field mdtoken(0x04000001)\n\
             IL_0020:  ldloc.s    V_9\n\
             IL_0022:  switch     (IL_002f, IL_0030)\n\
             IL_002f:  ret\n\
             // IL_0030: no instruction starts with 0x24\n"
        );
    }

    #[test]
    fn numbers_with_names() {
        let code = [0x21, 7, 0, 0, 0, 0, 0, 0, 0, 0x21, 8, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            text(&code, Vec::new()),
            "IL_0000:  ldc.i8     &seven\nIL_0009:  ldc.i8     8\n"
        );
    }

    #[test]
    fn blocks() {
        let code = [0xde, 9, 0x26, 0xde, 6, 0x26, 0x17, 0xfe, 0x11, 0x26, 0xde, 0xff, 0xdc, 0x2a];
        let inner = [clause(CATCH, (0, 2), (2, 5)), clause(ClauseKind::Filter(5), (0, 2), (9, 12))];
        let outer = clause(ClauseKind::Finally, (0, 12), (12, 13));
        assert_eq!(
            text(&code, vec![inner[0], inner[1], outer]),
            ".try\n\
             {\n\
             \x20 .try\n\
             \x20 {\n\
             \x20   IL_0000:  leave.s    IL_000b\n\
             \x20 }\n\
             \x20 catch [mscorlib]System.Exception\n\
             \x20 {\n\
             \x20   IL_0002:  pop\n\
             \x20   IL_0003:  leave.s    IL_000b\n\
             \x20 }\n\
             \x20 filter\n\
             \x20 {\n\
             \x20   IL_0005:  pop\n\
             \x20   IL_0006:  ldc.i4.1\n\
             \x20   IL_0007:  endfilter\n\
             \x20 }\n\
             \x20 {\n\
             \x20   IL_0009:  pop\n\
             \x20   IL_000a:  leave.s    IL_000b\n\
             \x20 }\n\
             }\n\
             finally\n\
             {\n\
             \x20 IL_000c:  endfinally\n\
             }\n\
             IL_000d:  ret\n"
        );
    }

    #[test]
    fn clauses_apart_are_written_by_offsets() {
        let shown = text(&[0xde, 1, 0x2a, 0xdc], vec![clause(ClauseKind::Fault, (0, 2), (3, 4))]);
        assert!(
            shown.ends_with(".try IL_0000 to IL_0002 fault handler IL_0003 to IL_0004\n"),
            "{shown}"
        );
        // The second handler of a try block in front of the first.
        let both = vec![clause(CATCH, (0, 2), (5, 8)), clause(CATCH, (0, 2), (2, 5))];
        let shown = text(&[0xde, 6, 0x26, 0xde, 3, 0x26, 0xde, 0, 0x2a], both);
        assert_eq!(shown.matches("handler").count(), 2, "{shown}");
    }

    #[test]
    fn types_and_locals() {
        let blob = [
            0x07, 0x07, 0x08, 0x45, 0x10, 0x0e, 0x15, 0x12, 0x05, 0x02, 0x13, 0x00, 0x1e, 0x01,
            0x1d, 0x0f, 0x01, 0x14, 0x08, 0x02, 0x01, 0x03, 0x02, 0x00, 0x02, 0x14, 0x08, 0x01,
            0x00, 0x00, 0x1b, 0x05, 0x02, 0x01, 0x08, 0x41, 0x1f, 0x05, 0x1c,
        ];
        let locals = crate::decode_locals(&blob).unwrap();
        let header = MethodHeader { init_locals: true, ..MethodHeader::default() };
        let body = MethodBody { header, code: Cow::Borrowed(&[]), clauses: Vec::new() };
        let mut out = String::new();
        disassemble(&mut out, &body, &locals, &Few).unwrap();
        assert_eq!(
            out,
            ".maxstack  8\n\
             .locals init ([0] int32 V_0,\n\
             \x20   [1] string& pinned V_1,\n\
             \x20   [2] class [mscorlib]System.Exception<!0, !!1> V_2,\n\
             \x20   [3] void*[] V_3,\n\
             \x20   [4] int32[0...2,1...] V_4,\n\
             \x20   [5] int32[...] V_5,\n\
             \x20   [6] method vararg void *(int32, ..., object modreq([mscorlib]System.Exception)) V_6)\n"
        );
    }

    proptest! {
        #[test]
        fn anything_can_be_shown(
            code in prop::collection::vec(any::<u8>(), 0..60),
            ranges in prop::collection::vec((0_u32..40, 0_u32..40, 0_u32..40, 0_u32..40), 0..4),
            blob in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let clauses = ranges.into_iter().map(|(a, b, c, d)| clause(CATCH, (a, b), (c, d))).collect();
            text(&code, clauses);
            if let Ok(sig) = TypeSig::decode(&blob) {
                let _ = type_text(&sig, &NoNames);
            }
        }
    }
}
