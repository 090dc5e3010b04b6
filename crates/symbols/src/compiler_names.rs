//! Names that compilers make, and what the programmer wrote.
//!
//! The patterns are those of Roslyn (`GeneratedNames` in its sources) and of Mono's mcs. A name in
//! angle brackets cannot be written in C#, so a match is never a programmer's own name.

/// What kind of state machine a method is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateMachine {
    /// `async`.
    Async,
    /// `yield`.
    Iterator,
    /// One of the two. Roslyn names both alike; `MoveNext` returns `void` in the first and `bool`
    /// in the second.
    AsyncOrIterator,
}

/// A method as the programmer wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMethod {
    /// Full name of the type that it stands in.
    pub type_name: String,
    /// Its name. Lambdas are `Method.lambda#3`, local functions `Method.Local#3`: the compiler
    /// numbers both within the method, from 0.
    pub name: String,
    /// Whether the compiler made a state machine of it, and which.
    pub state_machine: Option<StateMachine>,
    /// For lambdas and local functions: the compiler's number of the method around them, which
    /// tells overloads apart.
    pub around: Option<u32>,
}

impl UserMethod {
    /// Whether it is a lambda or a local function, whose name alone does not say where it stands in
    /// the source.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.number().is_some()
    }

    /// The name with the line at which a lambda or a local function begins: `Main.lambda#3:42`.
    #[must_use]
    pub fn name_at(&self, line: u32) -> String {
        self.with_number(|number| format!("{number}:{line}"))
    }

    /// The name with the number of the method around it: `Load.lambda#5_3` and `Load.lambda#6_3`
    /// are of two overloads.
    #[must_use]
    pub fn name_of_overload(&self) -> String {
        self.with_number(|number| match self.around {
            Some(around) => format!("{around}_{number}"),
            None => number.to_owned(),
        })
    }

    /// Where in the name the number of the innermost lambda or local function is.
    fn number(&self) -> Option<std::ops::Range<usize>> {
        // Generic arguments behind it may have numbers of their own.
        let plain = split_arguments(&self.name).0;
        let (before, number) = plain.rsplit_once('#')?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_number.then_some(before.len() + 1..plain.len())
    }

    fn with_number(&self, change: impl FnOnce(&str) -> String) -> String {
        let parts = self.number().and_then(|at| {
            Some((self.name.get(..at.start)?, self.name.get(at.clone())?, self.name.get(at.end..)?))
        });
        match parts {
            Some((before, number, after)) => format!("{before}{}{after}", change(number)),
            None => self.name.clone(),
        }
    }
}

/// How a compiler numbers what it makes: `0_3` is the third of method 0.
#[derive(Clone, Copy)]
struct Number {
    around: Option<u32>,
    own: Option<u32>,
}

impl Number {
    /// Roslyn: `<number of the method>_<number within>`, within a closure type only the latter.
    /// What was added while the program was debugged has `#<generation>` behind it.
    fn of_roslyn(tail: &str) -> Self {
        let tail = tail.split('#').next().unwrap_or(tail);
        match tail.split_once('_') {
            Some((around, own)) => Self { around: around.parse().ok(), own: own.parse().ok() },
            None => Self { around: None, own: tail.parse().ok() },
        }
    }

    /// Behind a name: `#3`.
    fn suffix(self) -> String {
        self.own.map_or_else(String::new, |own| format!("#{own}"))
    }
}

/// What a name in angle brackets stands for.
enum Made<'a> {
    /// Type of a state machine of the method.
    StateMachine(&'a str, StateMachine),
    /// Type that holds captured variables, or lambdas without any; with the number of the method
    /// that it is of.
    Closure(Option<u32>),
    /// Lambda in the method.
    Lambda(&'a str, Number),
    /// Local function in the method.
    Local(&'a str, &'a str, Number),
    /// The method itself under another name: the entry method of top-level statements.
    Renamed(&'a str),
    /// `finally` block of an iterator.
    Finally,
}

/// The method that the programmer wrote, for one that a compiler made of it; `None` for all others.
///
/// `type_name` has nested types behind `+` and generic arguments in `<…>`, as
/// `Outer<T>+<Name>d__5<U>`. Generic arguments of a made type go to the method: `Outer<T>`,
/// `Name<U>`.
pub fn demangle_compiler_names(type_name: &str, method_name: &str) -> Option<UserMethod> {
    let mut segments = split_nested(type_name);
    let (mut name, mut state_machine);
    let mut around = None;
    match made(method_name) {
        Some((Made::Lambda(method, number), arguments)) => {
            name = format!("{}.lambda{}{arguments}", user_name(method), number.suffix());
            (state_machine, around) = (None, number.around);
        }
        Some((Made::Local(method, local, number), arguments)) => {
            name = format!("{}.{local}{}{arguments}", user_name(method), number.suffix());
            (state_machine, around) = (None, number.around);
        }
        Some((Made::Renamed(method), arguments)) => {
            name = format!("{method}{arguments}");
            state_machine = None;
        }
        // mcs gives lambdas in closures no method name: `<>m__0` in `<Main>c__AnonStorey0`.
        // Roslyn's `<>m__Finally1` stands in the iterator's state machine.
        Some((Made::Finally, _)) => {
            (name, state_machine, around) = state_machine_of(segments.pop()?)?;
            if state_machine == Some(StateMachine::AsyncOrIterator) {
                state_machine = Some(StateMachine::Iterator);
            }
        }
        Some((Made::StateMachine(..) | Made::Closure(_), _)) => return None,
        None if method_name == "MoveNext" => {
            (name, state_machine, around) = state_machine_of(segments.pop()?)?
        }
        None => match mcs_lambda(method_name, segments.last()?) {
            Some(lambda) => {
                name = lambda;
                state_machine = None;
            }
            None => return None,
        },
    }
    // The types that hold captured variables are none of the programmer's; a state machine in which
    // something else was made gives its method's name.
    while let Some(segment) = segments.last() {
        match made(segment) {
            Some((Made::Closure(of), _)) => {
                around = around.or(of);
                segments.pop();
            }
            Some((Made::StateMachine(method, _), arguments)) if !method.is_empty() => {
                // What stands in it carries its method's name already, unless that is a lambda of
                // its own.
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
    Some(UserMethod { type_name: segments.join("+"), name, state_machine, around })
}

/// Name and kind of the method whose state machine a type is, and the number of the method around
/// it.
fn state_machine_of(segment: &str) -> Option<(String, Option<StateMachine>, Option<u32>)> {
    if let Some(method) = segment.strip_prefix("VB$StateMachine_") {
        // Visual Basic: `VB$StateMachine_<number>_<method>`.
        let (_, method) = method.split_once('_')?;
        return Some((method.to_owned(), Some(StateMachine::AsyncOrIterator), None));
    }
    match made(segment)? {
        (Made::StateMachine(method, kind), arguments) => {
            let around = match made(method) {
                Some((Made::Lambda(_, number) | Made::Local(_, _, number), _)) => number.around,
                _ => None,
            };
            Some((format!("{}{arguments}", user_name(method)), Some(kind), around))
        }
        _ => None,
    }
}

/// mcs: the lambda `<>m__0` in the closure type `<Main>c__AnonStorey0`. It counts within each
/// closure type anew, so both numbers are needed.
fn mcs_lambda(method: &str, segment: &str) -> Option<String> {
    let number = hexadecimal(method.strip_prefix("<>m__")?)?;
    let (outer, rest) = bracketed(segment)?;
    let storey = split_arguments(rest).0.strip_prefix("c__").filter(|_| !outer.is_empty())?;
    let storey = storey.strip_prefix("AnonStorey").and_then(hexadecimal);
    let storey = storey.map_or_else(String::new, |storey| format!("{storey}."));
    Some(format!("{}.lambda#{storey}{number}", user_name(outer)))
}

/// A number of mcs.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

/// The method's name inside the brackets: it may be a made one itself, and Roslyn writes the dots
/// of an explicit implementation as dashes.
fn user_name(inner: &str) -> String {
    match made(inner) {
        Some((Made::Lambda(method, number), _)) => {
            format!("{}.lambda{}", user_name(method), number.suffix())
        }
        Some((Made::Local(method, local, number), _)) => {
            format!("{}.{local}{}", user_name(method), number.suffix())
        }
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
            "c" => Made::Closure(None),
            _ if suffix.starts_with("c__") => {
                let number =
                    suffix.strip_prefix("c__DisplayClass").and_then(|tail| tail.split_once('_'));
                Made::Closure(number.and_then(|(around, _)| around.parse().ok()))
            }
            _ if suffix.strip_prefix("m__Finally").is_some_and(is_number) => Made::Finally,
            _ => return None,
        }
    } else if suffix == "$" {
        Made::Renamed(inner)
    } else if suffix == "d" {
        // The state machine of a lambda or a local function stands in its closure and needs no
        // number.
        Made::StateMachine(inner, StateMachine::AsyncOrIterator)
    } else {
        let (kind, tail) = suffix.split_once("__")?;
        match kind {
            "d" if is_number(tail) => Made::StateMachine(inner, StateMachine::AsyncOrIterator),
            "c" if tail.strip_prefix("async").is_some_and(is_number) => {
                Made::StateMachine(inner, StateMachine::Async)
            }
            "c" if tail.strip_prefix("Iterator").is_some_and(is_number) => {
                Made::StateMachine(inner, StateMachine::Iterator)
            }
            "c" => Made::Closure(None),
            "b" => Made::Lambda(inner, Number::of_roslyn(tail)),
            "m" if is_number(tail) => {
                Made::Lambda(inner, Number { around: None, own: hexadecimal(tail) })
            }
            "g" => {
                let (local, number) = tail.split_once('|').unwrap_or((tail, ""));
                Made::Local(inner, local, Number::of_roslyn(number))
            }
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
            (
                "A.B.Shop+Cart+<Load>d__12",
                "MoveNext",
                "A.B.Shop+Cart",
                "Load",
                Some(AsyncOrIterator),
            ),
            ("Shop<T>+<Load>d__5<U>", "MoveNext", "Shop<T>", "Load<U>", Some(AsyncOrIterator)),
            (
                "Shop+<Load>d__5<A<B+C>,D>",
                "MoveNext",
                "Shop",
                "Load<A<B+C>,D>",
                Some(AsyncOrIterator),
            ),
            (
                "Shop+<System-IDisposable-Dispose>d__1",
                "MoveNext",
                "Shop",
                "System.IDisposable.Dispose",
                Some(AsyncOrIterator),
            ),
            ("Shop+<Items>d__3", "<>m__Finally1", "Shop", "Items", Some(Iterator)),
            // Roslyn: lambdas, with and without captured variables.
            ("Shop+<>c", "<Main>b__0_0", "Shop", "Main.lambda#0", None),
            ("Shop+<>c__DisplayClass5_0", "<Main>b__1", "Shop", "Main.lambda#1", None),
            ("Shop+<>c__DisplayClass5_0<T>", "<Main>b__12", "Shop", "Main.lambda#12", None),
            ("Shop", "<Main>b__0", "Shop", "Main.lambda#0", None),
            ("Shop+<>c__5<T>", "<Load>b__5_2<U>", "Shop", "Load.lambda#2<U>", None),
            ("Shop+<>c", "<Main>b__0_3#1", "Shop", "Main.lambda#3", None),
            ("Shop+<>c", "<.ctor>b__0_0", "Shop", ".ctor.lambda#0", None),
            ("Shop+<>c", "<get_Total>b__3_0", "Shop", "get_Total.lambda#0", None),
            (
                "Shop+<>c+<<Main>b__0_0>d",
                "MoveNext",
                "Shop",
                "Main.lambda#0",
                Some(AsyncOrIterator),
            ),
            (
                "Shop+<>c__DisplayClass1_0+<<Main>b__0>d",
                "MoveNext",
                "Shop",
                "Main.lambda#0",
                Some(AsyncOrIterator),
            ),
            (
                "Shop+<>c+<<Main>b__0_7>d__2",
                "MoveNext",
                "Shop",
                "Main.lambda#7",
                Some(AsyncOrIterator),
            ),
            // Roslyn: local functions.
            ("Shop", "<Main>g__Local|0_0", "Shop", "Main.Local#0", None),
            ("Shop", "<Main>g__Local|0_0<T>", "Shop", "Main.Local#0<T>", None),
            ("Shop+<>c__DisplayClass0_0", "<Main>g__Local|1", "Shop", "Main.Local#1", None),
            (
                "Shop+<<Main>g__Local|0_0>d",
                "MoveNext",
                "Shop",
                "Main.Local#0",
                Some(AsyncOrIterator),
            ),
            // Roslyn: top-level statements.
            ("Program", "<Main>$", "Program", "Main", None),
            ("Program+<<Main>$>d__0", "MoveNext", "Program", "Main", Some(AsyncOrIterator)),
            ("Program+<>c", "<<Main>$>b__0_3", "Program", "Main.lambda#3", None),
            (
                "Program+<>c+<<<Main>$>b__0_3>d",
                "MoveNext",
                "Program",
                "Main.lambda#3",
                Some(AsyncOrIterator),
            ),
            ("Program", "<<Main>$>g__Work|0_1", "Program", "Main.Work#1", None),
            // mcs.
            ("Shop+<Load>c__async0", "MoveNext", "Shop", "Load", Some(Async)),
            ("Shop+<Items>c__Iterator1F", "MoveNext", "Shop", "Items", Some(Iterator)),
            ("Shop", "<Main>m__1F", "Shop", "Main.lambda#31", None),
            ("Shop+<Main>c__AnonStorey0", "<>m__2", "Shop", "Main.lambda#0.2", None),
            ("Shop+<Main>c__AnonStorey0+<Main>c__async1", "MoveNext", "Shop", "Main", Some(Async)),
            (
                "Shop+<Load>c__async0+<Load>c__AnonStorey1",
                "<>m__0",
                "Shop",
                "Load.lambda#1.0",
                None,
            ),
            // Visual Basic.
            ("Shop+VB$StateMachine_5_Load", "MoveNext", "Shop", "Load", Some(AsyncOrIterator)),
        ];
        for (ty, method, user_type, user_name, state_machine) in cases {
            let found =
                demangle_compiler_names(ty, method).unwrap_or_else(|| panic!("{ty}.{method}"));
            let found = (found.type_name.as_str(), found.name.as_str(), found.state_machine);
            assert_eq!(found, (*user_type, *user_name, *state_machine), "{ty}.{method}");
        }
    }

    #[test]
    fn lambdas_are_told_apart_by_line_and_by_overload() {
        let names = |ty: &str, method: &str| {
            let user = demangle_compiler_names(ty, method).unwrap();
            (user.is_numbered(), user.name_at(42), user.name_of_overload())
        };
        let of = |line: &str, overload: &str| (true, line.to_owned(), overload.to_owned());
        assert_eq!(names("Shop+<>c", "<Load>b__5_3"), of("Load.lambda#3:42", "Load.lambda#5_3"));
        assert_eq!(
            names("Shop+<>c__DisplayClass6_1", "<Load>b__3"),
            of("Load.lambda#3:42", "Load.lambda#6_3")
        );
        let machine = "Shop+<>c__DisplayClass6_1+<<Load>b__3>d";
        assert_eq!(names(machine, "MoveNext"), of("Load.lambda#3:42", "Load.lambda#6_3"));
        assert_eq!(
            names("Shop+<>c+<<Load>b__5_3>d", "MoveNext"),
            of("Load.lambda#3:42", "Load.lambda#5_3")
        );
        let local = of("Load.Add#1:42<A<B>,C>", "Load.Add#5_1<A<B>,C>");
        assert_eq!(names("Shop", "<Load>g__Add|5_1<A<B>,C>"), local);
        assert_eq!(
            names("Shop+<Main>c__AnonStorey0", "<>m__2"),
            of("Main.lambda#0.2:42", "Main.lambda#0.2")
        );
        assert_eq!(
            names("Shop+<Load>d__5", "MoveNext"),
            (false, "Load".to_owned(), "Load".to_owned())
        );
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
