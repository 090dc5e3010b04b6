use std::collections::HashMap;

use crate::bounded::cut;
use session::{
    FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, ModuleDef, ModuleId, StackDef, StackId,
    ThreadDef, ThreadId, TypeDef, TypeId,
};

/// Bytes of a call tree for each stack: its node, where to find it, and its sums.
const TREE: usize = 192;

/// What stands for "no id" in a column of ids.
pub const NONE: u32 = u32::MAX;

/// A source file, as an index into [`Tables::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file.
    pub file: FileId,
    /// Line, from 1.
    pub line: u32,
}

/// A frame with its file interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// Its line, where symbols give one.
    pub line: Option<Line>,
    /// How it was found.
    pub trust: FrameTrust,
}

/// Everything that samples refer to. An id is an index; ids in here have been checked.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Threads.
    pub threads: Vec<ThreadDef>,
    /// Modules.
    pub modules: Vec<ModuleDef>,
    /// Functions.
    pub functions: Vec<FunctionDef>,
    /// Paths of source files.
    pub files: Vec<String>,
    /// Frames.
    pub frames: Vec<Frame>,
    /// Types.
    pub types: Vec<TypeDef>,
    /// Parent of each stack, always less than the stack itself; [`NONE`] at a root.
    parents: Vec<u32>,
    /// Frame of each stack.
    stack_frames: Vec<u32>,
    file_ids: HashMap<String, FileId>,
    /// Bytes of all texts.
    pub(crate) texts: usize,
    /// Bytes that analyses take: names, where each function has a copy of that of its module, and
    /// each frame and each stack one of that of its function; and the nodes of call trees.
    pub(crate) copies: usize,
}

impl Tables {
    pub(crate) fn add_thread(&mut self, thread: &ThreadDef) {
        match self.threads.get_mut(thread.id.index()) {
            // What comes again knows more, but may not know what was known before.
            Some(known) => {
                known.os_tid = thread.os_tid;
                known.managed |= thread.managed;
                if let Some(name) = &thread.name {
                    let name = cut(name);
                    self.texts += name.len();
                    let old = known.name.replace(name);
                    self.texts -= old.map_or(0, |old| old.len());
                }
                known.started = thread.started.or(known.started);
                known.ended = thread.ended.or(known.ended);
            }
            None => {
                let name = thread.name.as_deref().map(|name| self.text(name));
                self.threads.push(ThreadDef { name, ..thread.clone() });
            }
        }
    }

    pub(crate) fn add_module(&mut self, module: &ModuleDef) {
        let (name, path) = (self.text(&module.name), self.text(&module.path));
        let build_id = module.build_id.as_deref().map(|id| self.text(id));
        self.modules.push(ModuleDef { name, path, build_id, ..*module });
    }

    pub(crate) fn add_function(&mut self, function: &FunctionDef) {
        let (type_name, name) = (self.text(&function.type_name), self.text(&function.name));
        let parameters = self.text(&function.parameters);
        let module = function.module.and_then(|module| self.modules.get(module.index()));
        self.copies += module.map_or(0, |module| module.name.len());
        self.functions.push(FunctionDef { type_name, name, parameters, ..*function });
    }

    pub(crate) fn add_type(&mut self, ty: &TypeDef) {
        let name = self.text(&ty.name);
        self.types.push(TypeDef { name, ..ty.clone() });
    }

    /// Bytes of the full name of a function.
    fn name_bytes(&self, function: FunctionId) -> usize {
        let parts = |function: &FunctionDef| {
            function.type_name.len() + function.name.len() + function.parameters.len()
        };
        self.functions.get(function.index()).map_or(0, parts)
    }

    /// A text to keep.
    fn text(&mut self, text: &str) -> String {
        let kept = cut(text);
        self.texts += kept.len();
        kept
    }

    pub(crate) fn add_frame(&mut self, frame: &FrameDef) {
        let line = frame.line.as_ref().map(|line| {
            let next = FileId(self.files.len() as u32);
            let file = match self.file_ids.get(&line.file) {
                Some(file) => *file,
                None => {
                    self.texts += 2 * line.file.len();
                    self.files.push(line.file.clone());
                    self.file_ids.insert(line.file.clone(), next);
                    next
                }
            };
            Line { file, line: line.line }
        });
        self.copies += self.name_bytes(frame.function);
        self.frames.push(Frame { function: frame.function, line, trust: frame.trust });
    }

    pub(crate) fn add_stack(&mut self, stack: &StackDef) {
        let frame = self.frames.get(stack.frame.index());
        self.copies += TREE + frame.map_or(0, |frame| self.name_bytes(frame.function));
        self.parents.push(stack.parent.map_or(NONE, |parent| parent.0));
        self.stack_frames.push(stack.frame.0);
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> &ThreadDef {
        &self.threads[id.index()]
    }

    /// A module.
    pub fn module(&self, id: ModuleId) -> &ModuleDef {
        &self.modules[id.index()]
    }

    /// A function.
    pub fn function(&self, id: FunctionId) -> &FunctionDef {
        &self.functions[id.index()]
    }

    /// A frame.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.index()]
    }

    /// A type.
    pub fn ty(&self, id: TypeId) -> &TypeDef {
        &self.types[id.index()]
    }

    /// Path of a source file.
    pub fn file(&self, id: FileId) -> &str {
        &self.files[id.0 as usize]
    }

    /// Number of stacks.
    pub fn stack_count(&self) -> usize {
        self.parents.len()
    }

    /// The caller of a stack's frame; always less than `id`.
    pub fn parent(&self, id: StackId) -> Option<StackId> {
        let parent = self.parents[id.index()];
        (parent != NONE).then_some(StackId(parent))
    }

    /// Frame of a stack.
    pub fn stack_frame(&self, id: StackId) -> FrameId {
        FrameId(self.stack_frames[id.index()])
    }

    /// Function of a stack's frame.
    pub fn stack_function(&self, id: StackId) -> FunctionId {
        self.frames[self.stack_frames[id.index()] as usize].function
    }

    /// Frames of a stack, leaf first.
    pub fn walk(&self, id: StackId) -> impl Iterator<Item = FrameId> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next?;
            next = self.parent(id);
            Some(self.stack_frame(id))
        })
    }
}
