/// A name as reflection writes it, as C# would: ``N.Outer+Of`1[System.Int32]`` becomes
/// `N.Outer+Of<int>`.
pub fn as_csharp(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.find(['`', '[', ']', ',']) {
        let (before, from) = rest.split_at(next);
        out.push_str(keyword(before.trim()));
        let mut characters = from.chars();
        match characters.next() {
            Some('`') => {
                rest = characters.as_str().trim_start_matches(|c: char| c.is_ascii_digit())
            }
            // Arrays keep their brackets.
            Some('[') if matches!(characters.clone().next(), Some(']' | ',' | '*')) => {
                let end = from.find(']').map_or(from.len(), |end| end + 1);
                let (array, after) = from.split_at(end);
                out.push_str(array);
                rest = after;
            }
            Some(bracket) => {
                out.push_str(match bracket {
                    '[' => "<",
                    ']' => ">",
                    _ => ", ",
                });
                rest = characters.as_str();
            }
            None => break,
        }
    }
    out.push_str(keyword(rest.trim()));
    out
}

fn keyword(name: &str) -> &str {
    match name {
        "System.Boolean" => "bool",
        "System.Byte" => "byte",
        "System.SByte" => "sbyte",
        "System.Char" => "char",
        "System.Decimal" => "decimal",
        "System.Double" => "double",
        "System.Single" => "float",
        "System.Int32" => "int",
        "System.UInt32" => "uint",
        "System.Int64" => "long",
        "System.UInt64" => "ulong",
        "System.Int16" => "short",
        "System.UInt16" => "ushort",
        "System.Object" => "object",
        "System.String" => "string",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_in_csharp() {
        for (from, to) in [
            ("System.Exception", "System.Exception"),
            ("N.Outer+Inner", "N.Outer+Inner"),
            ("N.Of`1[System.Int32]", "N.Of<int>"),
            ("N.Of`2[System.Int32,N.Of`1[System.String]]", "N.Of<int, N.Of<string>>"),
            ("N.Of`1[System.Byte[]]", "N.Of<byte[]>"),
            ("N.Of`1[System.Int32[,]]+In", "N.Of<int[,]>+In"),
            ("`", ""),
            ("[", "<"),
            ("", ""),
        ] {
            assert_eq!(as_csharp(from), to, "{from}");
        }
    }
}
