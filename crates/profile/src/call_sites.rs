use session::{FunctionId, FunctionKind, StackId};

use crate::{Line, Tables};

/// A place in a program: a function, and the line where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// The function.
    pub function: FunctionId,
    /// The line.
    pub line: Option<Line>,
}

/// Frames from the leaf on among which a place is looked for. Stacks that are deeper are endless
/// recursions, of which the outer part says nothing else.
pub(crate) const MOST_FRAMES: usize = 10_000;

/// Types whose methods take a lock rather than need one.
const LOCK_TYPES: [&str; 3] =
    ["System.Threading.Monitor", "System.Threading.Lock", "System.Threading.ObjectHeader"];

impl Tables {
    /// Whether a function is a method, also one made at run time.
    pub fn is_managed(&self, function: FunctionId) -> bool {
        matches!(self.function(function).kind, FunctionKind::Managed | FunctionKind::Dynamic)
    }

    /// Whether a method comes with .NET rather than with the program, by the name of its module.
    pub fn is_framework(&self, function: FunctionId) -> bool {
        let module = self.function_module(function).unwrap_or_default();
        let module = module.strip_suffix(".dll").unwrap_or(module);
        ["System", "Microsoft", "mscorlib", "netstandard", "WindowsBase"].iter().any(|framework| {
            module
                .strip_prefix(framework)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// The innermost method of the program on a stack, else the innermost of .NET, else the leaf.
    pub fn place(&self, stack: StackId) -> CallSite {
        self.first(stack, |function| self.is_managed(function) && !self.is_framework(function))
            .or_else(|| self.first(stack, |function| self.is_managed(function)))
            .unwrap_or_else(|| self.leaf(stack))
    }

    /// The innermost method on a stack that is not the lock's own, else the leaf.
    pub fn waiting_place(&self, stack: StackId) -> CallSite {
        let locks = |function| LOCK_TYPES.contains(&self.function(function).type_name.as_str());
        self.first(stack, |function| self.is_managed(function) && !locks(function))
            .unwrap_or_else(|| self.leaf(stack))
    }

    /// The innermost method of the program on a stack, else the innermost one that is not
    /// `System.GC`'s own, else the leaf.
    pub fn inducing_place(&self, stack: StackId) -> CallSite {
        let of_gc = |function| self.function(function).type_name == "System.GC";
        self.first(stack, |function| self.is_managed(function) && !self.is_framework(function))
            .or_else(|| self.first(stack, |function| self.is_managed(function) && !of_gc(function)))
            .unwrap_or_else(|| self.leaf(stack))
    }

    fn first(&self, stack: StackId, wanted: impl Fn(FunctionId) -> bool) -> Option<CallSite> {
        let mut frames = self.walk(stack).take(MOST_FRAMES).map(|frame| self.frame(frame));
        let frame = frames.find(|frame| wanted(frame.function))?;
        Some(CallSite { function: frame.function, line: frame.line })
    }

    fn leaf(&self, stack: StackId) -> CallSite {
        let frame = self.frame(self.stack_frame(stack));
        CallSite { function: frame.function, line: frame.line }
    }
}
