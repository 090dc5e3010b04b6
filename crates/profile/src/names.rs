pub use document::format::without_namespaces;

use session::{FunctionDef, FunctionId, FunctionKind, StateMachine, ThreadDef, ThreadId};

use crate::Tables;

/// How functions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameStyle {
    /// Namespaces of types.
    pub namespaces: bool,
    /// Parameter types.
    pub parameters: bool,
}

impl NameStyle {
    /// `Namespace.Type.Method(Namespace.Type)`.
    pub const FULL: NameStyle = NameStyle { namespaces: true, parameters: true };
    /// `Namespace.Type.Method`.
    pub const PLAIN: NameStyle = NameStyle { namespaces: true, parameters: false };
    /// `Type.Method`.
    pub const SHORT: NameStyle = NameStyle { namespaces: false, parameters: false };
}

impl Tables {
    /// Name of a function for a reader: `Namespace.Type.Method(parameters)`, a native symbol, or
    /// `[library]+0x12ab` where there is no symbol.
    pub fn function_name(&self, id: FunctionId, style: NameStyle) -> String {
        let function = self.function(id);
        let mut name = String::new();
        if !function.type_name.is_empty() {
            match style.namespaces {
                true => name.push_str(&function.type_name),
                false => name.push_str(&without_namespaces(&function.type_name)),
            }
            name.push('.');
        } else if let Some(place) = self.nameless(function) {
            return place;
        }
        match style.namespaces || !is_managed(function.kind) {
            true => name.push_str(&function.name),
            false => name.push_str(&without_namespaces(&function.name)),
        }
        if style.parameters {
            match style.namespaces {
                true => name.push_str(&function.parameters),
                false => name.push_str(&without_namespaces(&function.parameters)),
            }
        }
        name
    }

    /// Name of native code that has no symbol: its library, and where in it.
    fn nameless(&self, function: &FunctionDef) -> Option<String> {
        if !function.name.is_empty()
            && !function.name.starts_with("0x")
            && !function.name.starts_with('+')
        {
            return None;
        }
        let module = function.module.map(|id| self.module(id).name.as_str());
        let place = function.name.trim_start_matches('+');
        Some(match (module, place.is_empty()) {
            (Some(module), false) => format!("[{module}]+{place}"),
            (Some(module), true) => format!("[{module}]"),
            (None, false) => place.to_owned(),
            (None, true) => format!("[{}]", kind_id(function.kind)),
        })
    }

    /// Name of the module that a function is from, where it has one.
    pub fn function_module(&self, id: FunctionId) -> Option<&str> {
        self.function(id).module.map(|module| self.module(module).name.as_str())
    }

    /// Name of a thread for a reader: its own name, or `Thread`, with the id of the operating
    /// system.
    pub fn thread_name(&self, id: ThreadId) -> String {
        thread_label(self.thread(id))
    }
}

fn thread_label(thread: &ThreadDef) -> String {
    match thread.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} ({})", thread.os_tid),
        None => format!("Thread {}", thread.os_tid),
    }
}

fn is_managed(kind: FunctionKind) -> bool {
    matches!(kind, FunctionKind::Managed | FunctionKind::Dynamic)
}

/// Word for a kind of function in data formats.
pub fn kind_id(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Managed => "managed",
        FunctionKind::Dynamic => "dynamic",
        FunctionKind::Stub => "stub",
        FunctionKind::Native => "native",
        FunctionKind::Runtime => "runtime",
        FunctionKind::Gc => "gc",
        FunctionKind::Jit => "jit",
        FunctionKind::Kernel => "kernel",
        FunctionKind::Unknown => "unknown",
    }
}

/// Kinds of frames that have colors of their own, for a reader: [`Tables::frame_kind`] is an index
/// into this.
pub const FRAME_KINDS: [&str; 10] = [
    "your code",
    ".NET libraries",
    "dynamic code",
    "stub",
    "native",
    "runtime",
    "GC",
    "JIT",
    "kernel",
    "unknown",
];

impl Tables {
    /// What kind of code a function is, as an index into [`FRAME_KINDS`].
    pub fn frame_kind(&self, function: FunctionId) -> u8 {
        match self.function(function).kind {
            FunctionKind::Managed if self.is_framework(function) => 1,
            FunctionKind::Managed => 0,
            FunctionKind::Dynamic => 2,
            FunctionKind::Stub => 3,
            FunctionKind::Native => 4,
            FunctionKind::Runtime => 5,
            FunctionKind::Gc => 6,
            FunctionKind::Jit => 7,
            FunctionKind::Kernel => 8,
            FunctionKind::Unknown => 9,
        }
    }
}

/// Word for what the compiler made of a method, in data formats.
pub fn state_machine_id(machine: StateMachine) -> &'static str {
    match machine {
        StateMachine::Async => "async",
        StateMachine::Iterator => "iterator",
        StateMachine::AsyncOrIterator => "async-or-iterator",
    }
}

/// Word for a state of a thread in data formats.
pub fn state_id(state: session::ThreadState) -> &'static str {
    use session::ThreadState;
    match state {
        ThreadState::Running => "running",
        ThreadState::Lock => "lock",
        ThreadState::Sleep => "sleep",
        ThreadState::Io => "io",
        ThreadState::Idle => "idle",
        ThreadState::Gc => "gc",
        ThreadState::Task => "task",
        ThreadState::Other => "other",
        ThreadState::Event => "event",
        ThreadState::Runtime => "runtime",
        ThreadState::NoProcessor => "no-processor",
        ThreadState::Throttled => "throttled",
    }
}

/// Word for a state of a thread, for a reader.
pub const fn state_word(state: session::ThreadState) -> &'static str {
    use session::ThreadState;
    match state {
        ThreadState::Running => "running",
        ThreadState::Lock => "lock",
        ThreadState::Sleep => "sleep",
        ThreadState::Io => "I/O",
        ThreadState::Idle => "pool idle",
        ThreadState::Gc => "GC",
        ThreadState::Task => "task",
        ThreadState::Other => "other",
        ThreadState::Event => "event",
        ThreadState::Runtime => "runtime",
        ThreadState::NoProcessor => "no processor",
        ThreadState::Throttled => "throttled",
    }
}

#[cfg(test)]
mod tests {
    use session::{ModuleDef, ModuleId};

    use super::*;

    fn name(
        kind: FunctionKind,
        ty: &str,
        name: &str,
        parameters: &str,
        style: NameStyle,
    ) -> String {
        let mut tables = Tables::default();
        tables.modules.push(ModuleDef {
            id: ModuleId(0),
            managed: false,
            name: "libssl.so.3".into(),
            path: "/usr/lib/libssl.so.3".into(),
            build_id: None,
        });
        tables.functions.push(FunctionDef {
            id: FunctionId(0),
            kind,
            module: Some(ModuleId(0)),
            type_name: ty.into(),
            name: name.into(),
            parameters: parameters.into(),
            state_machine: None,
        });
        tables.function_name(FunctionId(0), style)
    }

    #[test]
    fn functions_are_named_for_a_reader() {
        use FunctionKind::{Managed, Native};
        let (ty, method, args) = (
            "System.Collections.Generic.List<System.String>",
            "ConvertAll<System.Int32>",
            "(System.Converter<T, U>)",
        );
        let full = "System.Collections.Generic.List<System.String>.ConvertAll<System.Int32>(System.Converter<T, \
            U>)";
        assert_eq!(name(Managed, ty, method, args, NameStyle::FULL), full);
        assert_eq!(
            name(Managed, ty, method, args, NameStyle::SHORT),
            "List<String>.ConvertAll<Int32>"
        );
        assert_eq!(
            name(Managed, "Shop.Cart", ".ctor", "(int)", NameStyle::FULL),
            "Shop.Cart..ctor(int)"
        );
        assert_eq!(name(Native, "", "SSL_read", "", NameStyle::FULL), "SSL_read");
        assert_eq!(name(Native, "", "0x1a2b", "", NameStyle::FULL), "[libssl.so.3]+0x1a2b");
        assert_eq!(name(Native, "", "", "", NameStyle::FULL), "[libssl.so.3]");
        assert_eq!(
            name(Native, "", "std::vec<a.b>::push", "", NameStyle::SHORT),
            "std::vec<a.b>::push"
        );
    }

    #[test]
    fn namespaces_go_everywhere() {
        assert_eq!(without_namespaces("A.B.C<D.E, F.G[]>+H"), "C<E, G[]>+H");
        assert_eq!(without_namespaces("Plain"), "Plain");
        assert_eq!(without_namespaces("(System.Span<System.Byte>&, int)"), "(Span<Byte>&, int)");
        assert_eq!(without_namespaces("日.本<語.語>"), "本<語>");
        assert_eq!(without_namespaces(""), "");
    }
}
