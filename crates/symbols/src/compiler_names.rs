//! Names that compilers make, and what the programmer wrote.
//!
//! The patterns are those of Roslyn (`GeneratedNames` in its sources) and of Mono's mcs. A name in angle brackets
//! cannot be written in C#, so a match is never a programmer's own name.

/// What kind of state machine a method is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateMachine {
    /// `async`.
    Async,
    /// `yield`.
    Iterator,
    /// One of the two. Roslyn names both alike; `MoveNext` returns `void` in the first and `bool` in the second.
    AsyncOrIterator,
}

/// A method as the programmer wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMethod {
    /// Full name of the type that it stands in.
    pub type_name: String,
    /// Its name. Lambdas are `Method.lambda`, local functions `Method.Local`.
    pub name: String,
    /// Whether the compiler made a state machine of it, and which.
    pub state_machine: Option<StateMachine>,
}

/// What a name in angle brackets stands for.
enum Made<'a> {
    /// Type of a state machine of the method.
    StateMachine(&'a str, StateMachine),
    /// Type that holds captured variables, or lambdas without any.
    Closure,
    /// Lambda in the method.
    Lambda(&'a str),
    /// Local function in the method.
    Local(&'a str, &'a str),
    /// The method itself under another name: the entry method of top-level statements.
    Renamed(&'a str),
    /// `finally` block of an iterator.
    Finally,
}

/// The method that the programmer wrote, for one that a compiler made of it; `None` for all others.
///
/// `type_name` has nested types behind `+` and generic arguments in `<…>`, as `Outer<T>+<Name>d__5<U>`. Generic
/// arguments of a made type go to the method: `Outer<T>`, `Name<U>`.
pub fn demangle_compiler_names(type_name: &str, method_name: &str) -> Option<UserMethod> {
    let mut segments = split_nested(type_name);
    let (mut name, mut state_machine);
    match made(method_name) {
        Some((Made::Lambda(method), arguments)) => {
            name = format!("{}.lambda{arguments}", user_name(method));
            state_machine = None;
        }
        Some((Made::Local(method, local), arguments)) => {
            name = format!("{}.{local}{arguments}", user_name(method));
            state_machine = None;
        }
        Some((Made::Renamed(method), arguments)) => {
            name = format!("{method}{arguments}");
            state_machine = None;
        }
        // mcs gives lambdas in closures no method name: `<>m__0` in `<Main>c__AnonStorey0`. Roslyn's
        // `<>m__Finally1` stands in the iterator's state machine.
        Some((Made::Finally, _)) => {
            (name, state_machine) = state_machine_of(segments.pop()?)?;
            if state_machine == Some(StateMachine::AsyncOrIterator) {
                state_machine = Some(StateMachine::Iterator);
            }
        }
        Some((Made::StateMachine(..) | Made::Closure, _)) => return None,
        None if method_name == "MoveNext" => (name, state_machine) = state_machine_of(segments.pop()?)?,
        None => match mcs_lambda(method_name, segments.last()?) {
            Some(lambda) => {
                name = lambda;
                state_machine = None;
            }
            None => return None,
        },
    }
    // The types that hold captured variables are none of the programmer's; a state machine in which something else
    // was made gives its method's name.
    while let Some(segment) = segments.last() {
        match made(segment) {
            Some((Made::Closure, _)) => {
                segments.pop();
            }
            Some((Made::StateMachine(method, _), arguments)) if !method.is_empty() => {
                // What stands in it carries its method's name already, unless that is a lambda of its own.
                if !name.starts_with(user_name(method).as_str()) {
                    name = format!("{}{arguments}.{name}", user_name(method));
                }
                segments.pop();
            }
            _ => break,
        }
    }
    if segments.is_empty() {
        return None;
    }
    Some(UserMethod { type_name: segments.join("+"), name, state_machine })
}

/// Name and kind of the method whose state machine a type is.
fn state_machine_of(segment: &str) -> Option<(String, Option<StateMachine>)> {
    if let Some(method) = segment.strip_prefix("VB$StateMachine_") {
        // Visual Basic: `VB$StateMachine_<number>_<method>`.
        let (_, method) = method.split_once('_')?;
        return Some((method.to_owned(), Some(StateMachine::AsyncOrIterator)));
    }
    match made(segment)? {
        (Made::StateMachine(method, kind), arguments) => {
            Some((format!("{}{arguments}", user_name(method)), Some(kind)))
        }
        _ => None,
    }
}

/// mcs: the lambda `<>m__0` in the closure type `<Main>c__AnonStorey0`.
fn mcs_lambda(method: &str, segment: &str) -> Option<String> {
    let number = method.strip_prefix("<>m__")?;
    let (outer, rest) = bracketed(segment)?;
    (is_number(number) && rest.starts_with("c__") && !outer.is_empty()).then(|| format!("{}.lambda", user_name(outer)))
}

/// The method's name inside the brackets: it may be a made one itself, and Roslyn writes the dots of an explicit
/// implementation as dashes.
fn user_name(inner: &str) -> String {
    match made(inner) {
        Some((Made::Lambda(method), _)) => format!("{}.lambda", user_name(method)),
        Some((Made::Local(method, local), _)) => format!("{}.{local}", user_name(method)),
        Some((Made::Renamed(method), _)) => method.to_owned(),
        _ => inner.replace('-', "."),
    }
}

/// Understands one name, and gives the generic arguments behind it.
fn made(name: &str) -> Option<(Made<'_>, &str)> {
    let (inner, rest) = bracketed(name)?;
    let (suffix, arguments) = split_arguments(rest);
    let made = if inner.is_empty() {
        match suffix {
            "c" => Made::Closure,
            _ if suffix.starts_with("c__") => Made::Closure,
            _ if suffix.strip_prefix("m__Finally").is_some_and(is_number) => Made::Finally,
            _ => return None,
        }
    } else if suffix == "$" {
        Made::Renamed(inner)
    } else if suffix == "d" {
        // The state machine of a lambda or a local function stands in its closure and needs no number.
        Made::StateMachine(inner, StateMachine::AsyncOrIterator)
    } else {
        let (kind, tail) = suffix.split_once("__")?;
        match kind {
            "d" if is_number(tail) => Made::StateMachine(inner, StateMachine::AsyncOrIterator),
            "c" if tail.strip_prefix("async").is_some_and(is_number) => Made::StateMachine(inner, StateMachine::Async),
            "c" if tail.strip_prefix("Iterator").is_some_and(is_number) => {
                Made::StateMachine(inner, StateMachine::Iterator)
            }
            "c" => Made::Closure,
            "b" => Made::Lambda(inner),
            "m" if is_number(tail) => Made::Lambda(inner),
            "g" => Made::Local(inner, tail.split('|').next().unwrap_or(tail)),
            _ => return None,
        }
    };
    Some((made, arguments))
}

/// mcs counts in hexadecimal.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_')
}

/// Splits `<inner>rest`, minding brackets within.
fn bracketed(name: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, character) in name.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { None } else { Some((name.get(1..at)?, name.get(at + 1..)?)) };
        }
    }
    None
}

/// Splits generic arguments off the end: `d__5<T>` is `d__5` and `<T>`.
fn split_arguments(name: &str) -> (&str, &str) {
    name.find(['<', '[']).and_then(|at| name.split_at_checked(at)).unwrap_or((name, ""))
}

/// Splits a type's name at the `+` that are not within brackets.
fn split_nested(type_name: &str) -> Vec<&str> {
    let (mut segments, mut depth, mut from) = (Vec::new(), 0usize, 0);
    for (at, character) in type_name.char_indices() {
        match character {
            '<' | '[' => depth += 1,
            '>' | ']' => depth = depth.saturating_sub(1),
            '+' if depth == 0 => {
                segments.extend(type_name.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    segments.extend(type_name.get(from..));
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        use StateMachine::{Async, AsyncOrIterator, Iterator};
        let cases: &[(&str, &str, &str, &str, Option<StateMachine>)] = &[
            // Roslyn: async methods and iterators.
            ("Shop+<LoadAsync>d__5", "MoveNext", "Shop", "LoadAsync", Some(AsyncOrIterator)),
            ("A.B.Shop+Cart+<Load>d__12", "MoveNext", "A.B.Shop+Cart", "Load", Some(AsyncOrIterator)),
            ("Shop<T>+<Load>d__5<U>", "MoveNext", "Shop<T>", "Load<U>", Some(AsyncOrIterator)),
            ("Shop+<Load>d__5<A<B+C>,D>", "MoveNext", "Shop", "Load<A<B+C>,D>", Some(AsyncOrIterator)),
            (
                "Shop+<System-IDisposable-Dispose>d__1",
                "MoveNext",
                "Shop",
                "System.IDisposable.Dispose",
                Some(AsyncOrIterator),
            ),
            ("Shop+<Items>d__3", "<>m__Finally1", "Shop", "Items", Some(Iterator)),
            // Roslyn: lambdas, with and without captured variables.
            ("Shop+<>c", "<Main>b__0_0", "Shop", "Main.lambda", None),
            ("Shop+<>c__DisplayClass5_0", "<Main>b__1", "Shop", "Main.lambda", None),
            ("Shop+<>c__DisplayClass5_0<T>", "<Main>b__1", "Shop", "Main.lambda", None),
            ("Shop", "<Main>b__0", "Shop", "Main.lambda", None),
            ("Shop+<>c", "<.ctor>b__0_0", "Shop", ".ctor.lambda", None),
            ("Shop+<>c", "<get_Total>b__3_0", "Shop", "get_Total.lambda", None),
            ("Shop+<>c+<<Main>b__0_0>d", "MoveNext", "Shop", "Main.lambda", Some(AsyncOrIterator)),
            ("Shop+<>c__DisplayClass1_0+<<Main>b__0>d", "MoveNext", "Shop", "Main.lambda", Some(AsyncOrIterator)),
            ("Shop+<>c+<<Main>b__0_0>d__2", "MoveNext", "Shop", "Main.lambda", Some(AsyncOrIterator)),
            // Roslyn: local functions.
            ("Shop", "<Main>g__Local|0_0", "Shop", "Main.Local", None),
            ("Shop", "<Main>g__Local|0_0<T>", "Shop", "Main.Local<T>", None),
            ("Shop+<>c__DisplayClass0_0", "<Main>g__Local|1", "Shop", "Main.Local", None),
            ("Shop+<<Main>g__Local|0_0>d", "MoveNext", "Shop", "Main.Local", Some(AsyncOrIterator)),
            // Roslyn: top-level statements.
            ("Program", "<Main>$", "Program", "Main", None),
            ("Program+<<Main>$>d__0", "MoveNext", "Program", "Main", Some(AsyncOrIterator)),
            ("Program+<>c", "<<Main>$>b__0_0", "Program", "Main.lambda", None),
            ("Program", "<<Main>$>g__Work|0_1", "Program", "Main.Work", None),
            // mcs.
            ("Shop+<Load>c__async0", "MoveNext", "Shop", "Load", Some(Async)),
            ("Shop+<Items>c__Iterator1F", "MoveNext", "Shop", "Items", Some(Iterator)),
            ("Shop", "<Main>m__0", "Shop", "Main.lambda", None),
            ("Shop+<Main>c__AnonStorey0", "<>m__0", "Shop", "Main.lambda", None),
            ("Shop+<Main>c__AnonStorey0+<Main>c__async1", "MoveNext", "Shop", "Main", Some(Async)),
            ("Shop+<Load>c__async0+<Load>c__AnonStorey1", "<>m__0", "Shop", "Load.lambda", None),
            // Visual Basic.
            ("Shop+VB$StateMachine_5_Load", "MoveNext", "Shop", "Load", Some(AsyncOrIterator)),
        ];
        for (ty, method, user_type, user_name, state_machine) in cases {
            let expected =
                UserMethod { type_name: (*user_type).into(), name: (*user_name).into(), state_machine: *state_machine };
            assert_eq!(demangle_compiler_names(ty, method), Some(expected), "{ty}.{method}");
        }
    }

    #[test]
    fn names_of_programmers_are_left_alone() {
        for (ty, method) in [
            ("Shop", "Load"),
            ("Shop<T>", "Load<U>"),
            ("Shop+Enumerator", "MoveNext"),
            ("System.Collections.Generic.List<System.Int32>+Enumerator", "MoveNext"),
            ("Shop+<Load>d__5", "SetStateMachine"),
            ("Shop+<Items>d__5", "get_Current"),
            ("<PrivateImplementationDetails>", "ComputeStringHash"),
            ("Shop+<>c", ".cctor"),
            ("<>f__AnonymousType0<A>", "ToString"),
            ("Shop", "<Name>k__BackingField"),
            ("Shop", "<>n__0"),
            ("", "MoveNext"),
            ("<Main>d__0", "MoveNext"),
        ] {
            assert_eq!(demangle_compiler_names(ty, method), None, "{ty}.{method}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_survived(ty in "[a-z<>+|_$`\\[\\]-]{0,24}", method in "[a-zé<>+|_$.-]{0,16}") {
            let _ = demangle_compiler_names(&ty, &method);
            let _ = demangle_compiler_names(&ty, "MoveNext");
        }
    }
}
