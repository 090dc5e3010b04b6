//! Gives session ids to threads, modules, functions, frames, stacks and types, and collects their
//! definitions, and the rows that refer to them.

use rows::Row;
use rustc_hash::FxHashMap;
use session::{
    FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, FunctionKind, ModuleDef, ModuleId,
    RowBuffer, SessionRecord, SourceLine, StackDef, StackId, StateMachine, ThreadDef, ThreadId,
    TypeDef, TypeId,
};
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Most numbers of threads that ended and are remembered.
const MOST_GONE: usize = 1 << 15;

/// A table that gives each key a number, in the order of first use. Hashed fast: there are a
/// hundred thousand stacks as a process ends whose calls were all followed, and the user waits for
/// it.
#[derive(Debug)]
struct Table<K>(FxHashMap<K, u32>);

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Eq> Table<K> {
    /// The number of a key and whether it is new.
    fn get(&mut self, key: K) -> (u32, bool) {
        let next = self.0.len() as u32;
        let id = *self.0.entry(key).or_insert(next);
        (id, id == next)
    }
}

/// What makes two functions the same. A state machine may bear the very name of the method that
/// begins it.
type FunctionKey = (FunctionKind, Option<ModuleId>, String, String, String, Option<StateMachine>);

/// What is remembered of a function.
#[derive(Clone, Debug)]
pub(super) struct FunctionFacts {
    pub kind: FunctionKind,
    pub module: Option<ModuleId>,
    pub type_name: String,
    pub name: String,
}

/// All definitions of one session so far.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pending: Vec<SessionRecord>,
    rows: RowBuffer,
    threads: HashMap<u32, ThreadDef>,
    /// Threads that ended and whose numbers may have come again, by number.
    gone: HashMap<u32, Vec<ThreadDef>>,
    /// Threads of which the kernel has said that they ended, and when: with the process, as far as
    /// is known.
    ends: VecDeque<(u64, ThreadDef)>,
    thread_count: u32,
    modules: Table<(bool, String)>,
    functions: Table<FunctionKey>,
    function_facts: Vec<FunctionFacts>,
    frames: Table<(FunctionId, Option<SourceLine>, FrameTrust)>,
    frame_functions: Vec<FunctionId>,
    stacks: Table<(Option<StackId>, FrameId)>,
    nodes: Vec<(Option<StackId>, FrameId)>,
    types: Table<String>,
}

impl Definitions {
    /// The definitions made since the last call, in an order in which each stands before its use.
    pub fn take(&mut self) -> Vec<SessionRecord> {
        std::mem::take(&mut self.pending)
    }

    /// The rows that came since the last call, in batches. The definitions that they use are given
    /// by [`Self::take`], if they are not yet.
    pub fn take_rows(&mut self) -> Vec<SessionRecord> {
        self.rows.take()
    }

    /// The thread with this id of the operating system (in our pid namespace). `name` is asked for
    /// the first time that it is seen.
    pub fn thread(&mut self, os_tid: u32, name: impl FnOnce() -> Option<String>) -> ThreadId {
        if let Some(thread) = self.threads.get(&os_tid) {
            return thread.id;
        }
        let id = ThreadId(self.thread_count);
        self.thread_count += 1;
        let thread =
            ThreadDef { id, os_tid, name: name(), managed: false, started: None, ended: None };
        self.pending.push(SessionRecord::Thread(thread.clone()));
        self.threads.insert(os_tid, thread);
        id
    }

    /// A row of a table, whose ids are all defined. It waits for others in [`Self::take_rows`]: a
    /// batch takes less room than its rows would one by one.
    pub fn row<R: Row>(&mut self, row: &R) {
        self.rows.push(row);
    }

    /// Changes what is known of a thread; a thread not seen yet is defined.
    pub fn update_thread(&mut self, os_tid: u32, change: impl FnOnce(&mut ThreadDef)) {
        self.thread(os_tid, || None);
        if let Some(thread) = self.threads.get_mut(&os_tid) {
            let before = thread.clone();
            change(thread);
            if *thread != before {
                self.pending.push(SessionRecord::Thread(thread.clone()));
            }
        }
    }

    /// The kernel says that a thread has ended: its number may come again for another one. It
    /// counts as ended once that is [confirmed](Self::confirm_ends).
    pub fn end_thread(&mut self, os_tid: u32, time: u64) {
        if let Some(thread) = self.threads.get_mut(&os_tid) {
            if thread.ended.is_none() {
                thread.ended = Some(time);
                self.ends.push_back((time, thread.clone()));
            }
            self.forget_thread(os_tid);
        }
    }

    /// The runtime says that a thread ends.
    pub fn thread_ended(&mut self, os_tid: u32, time: u64) {
        let gone = self.gone.get_mut(&os_tid).and_then(|gone| gone.last_mut());
        match gone.filter(|_| !self.threads.contains_key(&os_tid)) {
            // The kernel has said so before.
            Some(thread) => {
                thread.ended = Some(time);
                let thread = thread.clone();
                self.ends.retain(|(_, other)| other.id != thread.id);
                self.pending.push(SessionRecord::Thread(thread));
            }
            None => self.update_thread(os_tid, |thread| thread.ended = Some(time)),
        }
    }

    /// Whether there is anything to [confirm](Self::confirm_ends).
    pub fn has_ends(&self, before: u64) -> bool {
        self.ends.front().is_some_and(|(time, _)| *time < before)
    }

    /// Whether a thread that lived at a time has ended since, so that its number may be another's
    /// by now.
    pub fn has_gone(&self, os_tid: u32, time: u64) -> bool {
        self.gone_since(os_tid, time).is_some()
    }

    /// The thread with this id at a time, if it has ended since.
    fn gone_since(&self, os_tid: u32, time: u64) -> Option<&ThreadDef> {
        let gone = self.gone.get(&os_tid).into_iter().flatten();
        gone.filter(|thread| thread.ended.is_some_and(|ended| ended >= time))
            .min_by_key(|thread| thread.ended)
    }

    /// The threads that ended before this time did so by themselves, not because the process ended.
    pub fn confirm_ends(&mut self, before: u64) {
        while let Some((_, thread)) = self.ends.pop_front_if(|(time, _)| *time < before) {
            self.pending.push(SessionRecord::Thread(thread));
        }
    }

    /// The thread with this id, which may have ended a moment ago.
    pub fn thread_or_ended(
        &mut self,
        os_tid: u32,
        name: impl FnOnce() -> Option<String>,
    ) -> ThreadId {
        match self.gone.get(&os_tid).and_then(|gone| gone.last()) {
            Some(ended) if !self.threads.contains_key(&os_tid) => ended.id,
            _ => self.thread(os_tid, name),
        }
    }

    /// The thread with this id at a time, which may have ended since, so that the id may be
    /// another's by now.
    pub fn thread_at(
        &mut self,
        os_tid: u32,
        time: u64,
        name: impl FnOnce() -> Option<String>,
    ) -> ThreadId {
        match self.gone_since(os_tid, time) {
            Some(ended) => ended.id,
            None => self.thread(os_tid, name),
        }
    }

    /// The number of a thread that ended comes again, or may.
    fn forget_thread(&mut self, os_tid: u32) {
        if let Some(thread) = self.threads.remove(&os_tid) {
            if self.gone.len() >= MOST_GONE {
                self.gone.clear();
            }
            self.gone.entry(os_tid).or_default().push(thread);
        }
    }

    /// A thread of this number began at this time: if one is known that has ended before, this is
    /// another.
    pub fn thread_begins(&mut self, os_tid: u32, time: u64) {
        if self
            .threads
            .get(&os_tid)
            .is_some_and(|known| known.ended.is_some_and(|ended| ended < time))
        {
            self.forget_thread(os_tid);
        }
    }

    /// The thread of this number that began at about this time, which may have ended since. `name`
    /// as in [`Self::thread`].
    pub fn thread_of(
        &mut self,
        os_tid: u32,
        time: u64,
        name: impl FnOnce() -> Option<String>,
    ) -> ThreadId {
        let gone = self.gone.get(&os_tid).into_iter().flatten();
        let known = self.threads.get(&os_tid).into_iter().chain(gone);
        let apart = known.filter_map(|thread| Some((thread.started?.abs_diff(time), thread.id)));
        match apart.min() {
            Some((_, thread)) => thread,
            None => self.thread(os_tid, name),
        }
    }

    /// Whether a thread is known to run managed code, and whether it has ended.
    pub fn thread_facts(&self, os_tid: u32) -> (bool, bool) {
        self.threads
            .get(&os_tid)
            .map_or((false, false), |thread| (thread.managed, thread.ended.is_some()))
    }

    /// The name of a thread.
    pub fn thread_name(&self, os_tid: u32) -> Option<&str> {
        self.threads.get(&os_tid)?.name.as_deref()
    }

    /// A module, told apart by its path (by its name where it has none).
    pub fn module(
        &mut self,
        managed: bool,
        name: &str,
        path: &str,
        build_id: Option<String>,
    ) -> ModuleId {
        let key = if path.is_empty() { name } else { path };
        let (id, new) = self.modules.get((managed, key.to_owned()));
        let id = ModuleId(id);
        if new {
            let (name, path) = (name.to_owned(), path.to_owned());
            self.pending.push(SessionRecord::Module(ModuleDef {
                id,
                managed,
                name,
                path,
                build_id,
            }));
        }
        id
    }

    /// A function; the id in `function` is set here.
    pub fn function(&mut self, mut function: FunctionDef) -> FunctionId {
        let key = (
            function.kind,
            function.module,
            function.type_name.clone(),
            function.name.clone(),
            function.parameters.clone(),
            function.state_machine,
        );
        let (id, new) = self.functions.get(key);
        function.id = FunctionId(id);
        if new {
            self.function_facts.push(FunctionFacts {
                kind: function.kind,
                module: function.module,
                type_name: function.type_name.clone(),
                name: function.name.clone(),
            });
            self.pending.push(SessionRecord::Function(function));
        }
        FunctionId(id)
    }

    /// A function of which only kind and name are known.
    pub fn named(
        &mut self,
        kind: FunctionKind,
        name: &str,
        module: Option<ModuleId>,
    ) -> FunctionId {
        self.function(FunctionDef {
            id: FunctionId(0),
            kind,
            module,
            type_name: String::new(),
            name: name.to_owned(),
            parameters: String::new(),
            state_machine: None,
        })
    }

    /// What is known of a function.
    pub fn function_facts(&self, id: FunctionId) -> Option<&FunctionFacts> {
        self.function_facts.get(id.index())
    }

    /// A frame.
    pub fn frame(
        &mut self,
        function: FunctionId,
        line: Option<SourceLine>,
        trust: FrameTrust,
    ) -> FrameId {
        let (id, new) = self.frames.get((function, line.clone(), trust));
        let id = FrameId(id);
        if new {
            self.frame_functions.push(function);
            self.pending.push(SessionRecord::Frame(FrameDef { id, function, line, trust }));
        }
        id
    }

    /// The function of a frame.
    pub fn frame_function(&self, id: FrameId) -> Option<FunctionId> {
        self.frame_functions.get(id.index()).copied()
    }

    /// A stack, from the frames root first. An empty one becomes one unknown frame, so that every
    /// sample has a stack.
    pub fn stack(&mut self, frames: impl IntoIterator<Item = FrameId>) -> StackId {
        let mut parent = None;
        for frame in frames {
            parent = Some(self.child(parent, frame));
        }
        match parent {
            Some(stack) => stack,
            None => {
                let function = self.named(FunctionKind::Unknown, "[no frames]", None);
                let frame = self.frame(function, None, FrameTrust::Context);
                self.child(None, frame)
            }
        }
    }

    /// The stack in which a frame was called from another stack.
    pub fn called(&mut self, caller: StackId, frame: FrameId) -> StackId {
        self.child(Some(caller), frame)
    }

    /// The stack with one more frame at its leaf.
    pub fn child(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let (id, new) = self.stacks.get((parent, frame));
        let id = StackId(id);
        if new {
            self.nodes.push((parent, frame));
            self.pending.push(SessionRecord::Stack(StackDef { id, parent, frame }));
        }
        id
    }

    /// The frames of a stack, leaf first.
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let (parent, frame) = *self.nodes.get(next?.index())?;
            next = parent;
            Some(frame)
        })
    }

    /// A type.
    pub fn ty(&mut self, name: &str) -> TypeId {
        let (id, new) = self.types.get(name.to_owned());
        let id = TypeId(id);
        if new {
            self.pending.push(SessionRecord::Type(TypeDef { id, name: name.to_owned() }));
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_get_equal_ids_and_one_definition() {
        let mut definitions = Definitions::default();
        let module = definitions.module(true, "App", "/app/App.dll", None);
        assert_eq!(definitions.module(true, "App", "/app/App.dll", None), module);
        let function = definitions.named(FunctionKind::Managed, "Main", Some(module));
        let other = definitions.named(FunctionKind::Managed, "Run", Some(module));
        let main = definitions.frame(function, None, FrameTrust::Tables);
        let run = definitions.frame(other, None, FrameTrust::Tables);
        let first = definitions.stack([main, run]);
        assert_eq!(definitions.stack([main, run]), first);
        assert_ne!(definitions.stack([main]), first);
        assert_eq!(definitions.frame_function(run), Some(other));
        let stacks = definitions
            .take()
            .iter()
            .filter(|record| matches!(record, SessionRecord::Stack(_)))
            .count();
        assert_eq!(stacks, 2);
        assert!(definitions.take().is_empty());
    }

    /// An asynchronous lambda has no parameters to tell the method that begins it from its state
    /// machine.
    #[test]
    fn a_state_machine_is_another_function_than_the_method_that_begins_it() {
        let mut definitions = Definitions::default();
        let mut function = |state_machine| {
            let (id, kind, module) = (FunctionId(0), FunctionKind::Managed, None);
            let (type_name, name, parameters) =
                ("Shop".to_owned(), "Main.lambda#3".to_owned(), String::new());
            definitions.function(FunctionDef {
                id,
                kind,
                module,
                type_name,
                name,
                parameters,
                state_machine,
            })
        };
        let (begins, runs) = (function(None), function(Some(StateMachine::AsyncOrIterator)));
        assert_ne!(begins, runs);
        assert_eq!(function(None), begins);
    }

    #[test]
    fn a_thread_number_that_comes_again_is_another_thread() {
        let mut definitions = Definitions::default();
        let first = definitions.thread(10, || Some("one".into()));
        assert_eq!(definitions.thread_name(10), Some("one"));
        definitions.end_thread(10, 99);
        assert_eq!(definitions.thread_or_ended(10, || None), first);
        let second = definitions.thread(10, || None);
        assert_ne!(first, second);
        assert_eq!(definitions.thread_or_ended(10, || None), second);
        assert_eq!(definitions.thread_name(10), None);
        definitions.confirm_ends(99);
        assert_eq!(ends(&mut definitions), [], "the process may have ended then");
        definitions.confirm_ends(100);
        assert_eq!(ends(&mut definitions), [(first, 99)]);
    }

    /// The threads that have ended as far as was written since the last call.
    fn ends(definitions: &mut Definitions) -> Vec<(ThreadId, u64)> {
        let ends = definitions.take().into_iter().filter_map(|record| match record {
            SessionRecord::Thread(thread) => Some((thread.id, thread.ended?)),
            _ => None,
        });
        ends.collect()
    }

    #[test]
    fn what_the_runtime_says_of_the_end_of_a_thread_counts_at_once() {
        let mut definitions = Definitions::default();
        let first = definitions.thread(10, || None);
        // The kernel's word comes first.
        definitions.end_thread(10, 100);
        definitions.thread_ended(10, 90);
        assert_eq!(ends(&mut definitions), [(first, 90)]);
        let second = definitions.thread(10, || None);
        assert_ne!(first, second);
        // The runtime's does.
        definitions.thread_ended(10, 190);
        definitions.end_thread(10, 200);
        assert_eq!(ends(&mut definitions), [(second, 190)]);
        definitions.confirm_ends(u64::MAX);
        assert_eq!(ends(&mut definitions), []);
    }

    #[test]
    fn a_thread_is_found_by_when_it_lived() {
        let mut definitions = Definitions::default();
        let first = definitions.thread(10, || None);
        definitions.end_thread(10, 100);
        assert_eq!(definitions.thread_at(10, 100, || None), first);
        let second = definitions.thread_at(10, 101, || None);
        assert_ne!(first, second);
        definitions.end_thread(10, 200);
        assert_eq!([90, 150].map(|time| definitions.thread_at(10, time, || None)), [first, second]);
        assert_eq!([90, 200, 201].map(|time| definitions.has_gone(10, time)), [true, true, false]);
    }

    #[test]
    fn a_thread_is_found_by_when_it_began() {
        let mut definitions = Definitions::default();
        let first = definitions.thread(10, || None);
        definitions.update_thread(10, |thread| thread.started = Some(1000));
        definitions.update_thread(10, |thread| thread.ended = Some(2000));
        definitions.thread_begins(10, 1500);
        assert_eq!(definitions.thread(10, || None), first, "it has not ended before");
        definitions.thread_begins(10, 3000);
        let second = definitions.thread(10, || None);
        definitions.update_thread(10, |thread| thread.started = Some(3000));
        assert_ne!(first, second);
        assert_eq!(
            [1010, 2990].map(|time| definitions.thread_of(10, time, || None)),
            [first, second]
        );
        definitions.end_thread(10, 4000);
        assert_eq!(
            [1010, 2990].map(|time| definitions.thread_of(10, time, || None)),
            [first, second]
        );
        assert_eq!(definitions.thread_of(11, 5, || None), ThreadId(2));
    }

    #[test]
    fn no_frames_is_a_stack_of_its_own() {
        let mut definitions = Definitions::default();
        let empty = definitions.stack([]);
        assert_eq!(definitions.stack([]), empty);
    }
}
