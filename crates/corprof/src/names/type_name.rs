//! The name of a type in segments, so that generic arguments go where they belong.

use super::UNKNOWN;

/// One level of nesting in a type's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Name without the number of parameters; the outermost one with its namespace.
    pub(super) text: Box<str>,
    /// Number of generic parameters of its own, as the name tells.
    pub(super) arity: usize,
}

/// A type's name as metadata has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    /// The outermost type first.
    pub(super) segments: Vec<Segment>,
    /// Names of the generic parameters, those of enclosing types first; only known for types of the
    /// same module.
    pub(super) params: Vec<Box<str>>,
    /// Its C# keyword.
    pub(super) keyword: Option<&'static str>,
    /// Whether it is `System.Nullable<T>`.
    nullable: bool,
}

impl TypeName {
    pub(super) fn new(segments: Vec<Segment>, params: Vec<Box<str>>) -> Self {
        let (mut keyword, mut nullable) = (None, false);
        if let [only] = segments.as_slice() {
            keyword = keyword_of(&only.text);
            nullable = only.arity == 1 && &*only.text == "System.Nullable";
        }
        Self { segments, params, keyword, nullable }
    }

    /// Splits a name at its mark for the number of parameters: ``List`1`` is `List` with 1.
    pub(super) fn segment(name: &str) -> Segment {
        let (text, arity) = match name.rsplit_once('`') {
            Some((text, digits)) => match digits.parse() {
                Ok(arity) => (text, arity),
                Err(_) => (name, 0),
            },
            None => (name, 0),
        };
        Segment { text: text.into(), arity }
    }

    /// Whether C# has a shorter way to write it with `count` generic arguments.
    pub(super) const fn has_short_form(&self, count: usize) -> bool {
        (self.keyword.is_some() && count == 0) || (self.nullable && count == 1)
    }

    /// Writes the name with `count` generic arguments, each by `argument`, as C# does for a
    /// parameter.
    pub(super) fn write(
        &self,
        out: &mut String,
        count: usize,
        mut argument: impl FnMut(&mut String, usize),
    ) {
        if let (Some(keyword), 0) = (self.keyword, count) {
            out.push_str(keyword);
        } else if self.nullable && count == 1 {
            argument(out, 0);
            out.push('?');
        } else {
            self.write_full(out, count, argument);
        }
    }

    /// Writes the full name with `count` generic arguments, each by `argument`.
    pub(super) fn write_full(
        &self,
        out: &mut String,
        count: usize,
        mut argument: impl FnMut(&mut String, usize),
    ) {
        let mut written = 0;
        for (level, segment) in self.segments.iter().enumerate() {
            if level > 0 {
                out.push('+');
            }
            out.push_str(&segment.text);
            // The innermost type gets what is left: compilers may leave the number out of the name
            // there.
            let innermost = level + 1 == self.segments.len();
            let own = if innermost { count - written } else { segment.arity.min(count - written) };
            if own > 0 {
                out.push('<');
                for index in written..written + own {
                    if index > written {
                        out.push_str(", ");
                    }
                    argument(out, index);
                }
                out.push('>');
                written += own;
            }
        }
    }

    /// Writes the full name with its own parameters as arguments.
    pub(super) fn write_open(&self, out: &mut String) {
        self.write_full(out, self.params.len(), |out, index| {
            out.push_str(self.params.get(index).map_or(UNKNOWN, |param| param));
        });
    }
}

/// The C# keyword of a type of the core library. `decimal` is the one that has no element type of
/// its own.
pub(super) fn keyword_of(full_name: &str) -> Option<&'static str> {
    let name = full_name.strip_prefix("System.")?;
    Some(match name {
        "Decimal" => "decimal",
        "Void" => "void",
        "Boolean" => "bool",
        "Char" => "char",
        "SByte" => "sbyte",
        "Byte" => "byte",
        "Int16" => "short",
        "UInt16" => "ushort",
        "Int32" => "int",
        "UInt32" => "uint",
        "Int64" => "long",
        "UInt64" => "ulong",
        "Single" => "float",
        "Double" => "double",
        "String" => "string",
        "IntPtr" => "nint",
        "UIntPtr" => "nuint",
        "Object" => "object",
        _ => return None,
    })
}
