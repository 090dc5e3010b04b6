//! Collapsed stacks: `root;…;leaf 12`, a line for each, as `stackcollapse-*.pl`, `inferno` and
//! async-profiler write them.

use crate::{
    ImportError, limits,
    out::{Function, Out},
};
use session::{FrameId, FunctionKind, ImportedUnit};
use std::io::{BufRead, Read as _};

/// The stack and the number of a line.
pub fn split(line: &str) -> Option<(&str, u64)> {
    let (stack, number) = line.trim_end().rsplit_once([' ', '\t'])?;
    let stack = stack.trim();
    let count = match number.parse::<u64>() {
        Ok(count) => count,
        // perf's own scripts scale counts.
        Err(_) => {
            let count: f64 = number.parse().ok()?;
            let is_number = number.starts_with(|first: char| first.is_ascii_digit());
            (is_number && count.is_finite()).then_some(count.round() as u64)?
        }
    };
    (!stack.is_empty()).then_some((stack, count))
}

pub fn read(mut input: impl BufRead, out: &mut Out<'_>) -> Result<(), ImportError> {
    out.begin(vec![("imported", "collapsed stacks".to_owned())], |_| {})?;
    out.note(
        "The file has collapsed stacks: no times, no threads, and no unit. Weights are shown as \
         numbers of samples.",
    );
    let thread = out.thread(None, "all threads")?;
    let mut line = Vec::new();
    let mut frames: Vec<FrameId> = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input.by_ref().take(limits::PIECE as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if read > limits::PIECE {
            let (what, limit) = ("bytes in one line", limits::PIECE as u64);
            return Err(ImportError::TooLarge { what, limit });
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Some((stack, count)) = split(text) else {
            return Err(out.damaged(format!("line {number} does not end with a number")));
        };
        frames.clear();
        for name in stack.split(';') {
            let function = out.function(&named(name))?;
            frames.push(out.frame(function, None)?);
        }
        if let Some(stack) = out.stack(&frames)?.filter(|_| count > 0) {
            out.value(ImportedUnit::Samples, 0, thread, stack, [count, count])?;
        }
    }
    Ok(())
}

/// A frame by its name alone: `module!name` as .NET's tools write it, else as it is.
pub fn named(name: &str) -> Function<'_> {
    match name.split_once('!') {
        Some((module, method)) if is_module(module) && is_method(method) => {
            // Native code has no namespaces.
            let is_managed = method.split('(').next().is_some_and(|name| name.contains('.'));
            let kind = if is_managed { FunctionKind::Managed } else { FunctionKind::Native };
            Function { name: method, module, kind }
        }
        _ => Function { name, module: "", kind: FunctionKind::Native },
    }
}

fn is_module(name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "._-+".contains(character);
    !name.is_empty() && name.chars().all(is_part)
}

fn is_method(name: &str) -> bool {
    name.starts_with(|first: char| first.is_alphabetic() || "_<.".contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_stack_and_a_number() {
        assert_eq!(split("a;b 12"), Some(("a;b", 12)));
        assert_eq!(split("a b;c d 12.6\r\n"), Some(("a b;c d", 13)));
        assert_eq!(split("java;[unknown]\t3"), Some(("java;[unknown]", 3)));
        for line in ["", "12", " 12", "a;b", "a;b nan", "a;b -1", "a inf"] {
            assert_eq!(split(line), None, "{line:?}");
        }
    }

    #[test]
    fn names_of_dotnet_tools_have_a_module() {
        assert_eq!(named("shop!Shop.Cart.Add()").module, "shop");
        assert_eq!(named("shop!Shop.Cart.Add()").kind, FunctionKind::Managed);
        assert_eq!(named("ntdll!NtWaitForSingleObject").kind, FunctionKind::Native);
        assert_eq!(named("operator!=(a, b)").module, "");
        assert_eq!(named("what is this!x").module, "");
    }
}
