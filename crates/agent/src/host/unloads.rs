//! Questions about what a program may unload.

use crate::host::freed::Freed;
use crate::os::clock;
use corprof::ids::{FunctionId, ModuleId};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::Nanos;

/// Keeps questions to the runtime and the unloading of modules apart.
///
/// An id of a class, a function or a module is an address, and a runtime that unloads assemblies
/// frees what is there. It also takes modules down first, and their code out of its map of code
/// later, on .NET Core 3.1 much later: until then it finds a method at an address, and looks into
/// the module of it, which is gone (`GetFunctionFromIP3` and `ReJitManager::GetReJitId`,
/// src/coreclr/vm/rejit.cpp).
///
/// (For the map itself see [`CodeMap`](crate::host::code_map::CodeMap).)
///
/// So whoever asks on a thread of ours does it in a hold, and `ModuleUnloadStarted` does not return
/// while there is one: nothing is freed before. There is no limit to that wait, because a question
/// that outlives it reads freed memory. It ends all the same: a hold is some questions long, none
/// of which waits for the unloading thread. That one is in preemptive mode, so it holds up no
/// collection, and has none of the runtime's locks (`Module::Destruct`,
/// src/coreclr/vm/ceeload.cpp). While a module goes, new questions wait.
#[derive(Debug, Default)]
pub struct Unloads {
    /// How many threads of ours ask just now, for a moment each.
    asking: AtomicU32,
    /// How many hold one module, perhaps for seconds. What they ask is about that module alone, so
    /// no dynamic method waits for them: its thread is in cooperative mode.
    holding: AtomicU32,
    /// Number of modules whose unloading is being handled right now.
    going: AtomicU32,
    /// Modules go one after the other.
    turn: Mutex<()>,
    /// Modules that have been taken down, or are just being. An id comes again with a module that
    /// is loaded.
    gone: Mutex<Gone>,
    /// How many have begun to go.
    went: AtomicU64,
    /// Dynamic methods that were freed.
    freed: Freed,
}

/// What had been unloaded at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unloaded {
    /// Modules that had begun to go.
    pub modules: u64,
    /// Dynamic methods that had been freed.
    pub functions: u64,
}

/// Modules that went last, in two parts: the older one is forgotten as a whole.
#[derive(Debug, Default)]
struct Gone {
    new: HashSet<ModuleId>,
    old: HashSet<ModuleId>,
}

thread_local! {
    // Without a destructor: one that runs at the end of a thread of the target would keep the
    // library mapped.
    /// Holds of this thread: in a hold, a further one must not wait for a module that waits for the
    /// first.
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// Pause between two checks of what is waited for, nanoseconds.
pub(super) const HOLD_PAUSE: Nanos = 20_000;

impl Unloads {
    /// Number of modules that are remembered. When this many have followed, the code of the first
    /// has left the map.
    const MOST: usize = 1 << 16;

    /// A module is about to go: waits for questions that are under way, then does what is to be
    /// done before it has gone. Only in the callback `ModuleUnloadStarted`.
    pub fn module_unloading(&self, module: ModuleId, last: impl FnOnce()) {
        self.went.fetch_add(1, SeqCst);
        {
            let mut gone = self.gone();
            if gone.new.len() >= Self::MOST {
                gone.old = std::mem::take(&mut gone.new);
            }
            gone.new.insert(module);
        }
        let _going = Counted::new(&self.going);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        wait_for_none(&self.holding);
        wait_for_none(&self.asking);
        let _hold = Nested::new();
        last();
    }

    /// A module is about to be loaded.
    pub fn module_comes(&self, module: ModuleId) {
        let mut gone = self.gone();
        gone.new.remove(&module);
        gone.old.remove(&module);
    }

    /// A dynamic method is about to be freed, with its code: waits for questions that are under
    /// way, but not for long. This thread is in cooperative mode, so that a collection waits for
    /// it, and what is asked might wait for the collection. Pauses are counted beside the time: a
    /// process that was stopped meanwhile, or gets no processor, has not waited.
    pub fn function_goes(&self, function: FunctionId) {
        // Before the wait: a question that begins meanwhile finds it here.
        self.freed.add(function);
        let deadline = clock::monotonic() + Self::FUNCTION_LIMIT;
        for pause in 0_u32.. {
            let is_over = pause >= Self::FUNCTION_PAUSES && clock::monotonic() > deadline;
            if is_over || self.asking.load(SeqCst) == 0 {
                return;
            }
            clock::sleep_until(clock::monotonic() + HOLD_PAUSE);
        }
    }

    /// See [`Self::function_goes`]. A pause takes some 70 us, as the kernel rounds it up.
    const FUNCTION_PAUSES: u32 = 100;
    const FUNCTION_LIMIT: Nanos = 20_000_000;

    /// What goes now waits until this is dropped. To be asked before [`Self::is_gone`].
    pub(super) fn asking(&self) -> Asking<'_> {
        loop {
            match self.try_asking() {
                Some(asking) => return asking,
                None => clock::sleep_until(clock::monotonic() + HOLD_PAUSE),
            }
        }
    }

    /// As [`Self::asking`], for questions about one module only.
    fn holding(&self) -> Asking<'_> {
        loop {
            match self.try_counted(&self.holding) {
                Some(holding) => return holding,
                None => clock::sleep_until(clock::monotonic() + HOLD_PAUSE),
            }
        }
    }

    /// Whether [`Self::try_asking`] would succeed just now.
    pub(super) fn may_ask(&self) -> bool {
        HOLDS.try_with(Cell::get).unwrap_or(1) > 0 || self.going.load(SeqCst) == 0
    }

    /// As [`Self::asking`]; `None` while a module goes.
    pub(super) fn try_asking(&self) -> Option<Asking<'_>> {
        self.try_counted(&self.asking)
    }

    fn try_counted<'a>(&'a self, count: &'a AtomicU32) -> Option<Asking<'a>> {
        let nested = Nested::new();
        let asking = Counted::new(count);
        (nested.0 || self.going.load(SeqCst) == 0)
            .then_some(Asking { _asking: asking, _nested: nested })
    }

    /// Does something while no module goes. Not for long: a program that unloads waits for it.
    pub fn hold_all<R>(&self, then: impl FnOnce() -> R) -> R {
        let _asking = self.asking();
        then()
    }

    /// Does something with a module that is there until it is done; `None` if it is gone. What is
    /// asked meanwhile is about this module; for addresses of code and for dynamic methods there
    /// are the others.
    pub fn hold<R>(&self, module: ModuleId, then: impl FnOnce() -> R) -> Option<R> {
        let _holding = self.holding();
        (!self.is_gone(module)).then(then)
    }

    /// In a hold of a module that takes long: lets those go that wait. Whether the module is still
    /// there.
    pub fn let_pass(&self, module: ModuleId) -> bool {
        if HOLDS.try_with(Cell::get).unwrap_or(0) == 1 {
            while self.going.load(SeqCst) != 0 {
                self.holding.fetch_sub(1, SeqCst);
                wait_for_none(&self.going);
                self.holding.fetch_add(1, SeqCst);
            }
        }
        !self.is_gone(module)
    }

    /// How many modules have begun to go so far.
    pub fn went(&self) -> u64 {
        self.went.load(SeqCst)
    }

    /// What has been unloaded so far.
    pub fn so_far(&self) -> Unloaded {
        Unloaded { modules: self.went(), functions: self.freed.count() }
    }

    /// Dynamic methods that were freed.
    pub fn freed(&self) -> &Freed {
        &self.freed
    }

    /// As [`Self::hold_since`], to ask about a function that was alive at that moment; `None` also
    /// if it is a dynamic method that was freed since.
    pub fn hold_function_since<R>(
        &self,
        unloaded: Unloaded,
        function: FunctionId,
        then: impl FnOnce() -> R,
    ) -> Option<R> {
        let _asking = self.asking();
        let is_there =
            self.went() == unloaded.modules && !self.freed.since(unloaded.functions, function);
        is_there.then(then)
    }

    /// Calls `then` while no module is being unloaded, if no unloading has begun since the number
    /// of modules was `went`; `None` if one has.
    pub fn hold_since<R>(&self, went: u64, then: impl FnOnce() -> R) -> Option<R> {
        let _asking = self.asking();
        (self.went() == went).then(then)
    }

    /// Whether any module has been taken down.
    pub(super) fn any_gone(&self) -> bool {
        let gone = self.gone();
        !gone.new.is_empty() || !gone.old.is_empty()
    }

    /// Whether a module has been taken down, or is just being.
    pub fn is_gone(&self, module: ModuleId) -> bool {
        let gone = self.gone();
        gone.new.contains(&module) || gone.old.contains(&module)
    }

    fn gone(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_for_none(count: &AtomicU32) {
    while count.load(SeqCst) != 0 {
        clock::sleep_until(clock::monotonic() + HOLD_PAUSE);
    }
}

/// A hold.
pub(super) struct Asking<'a> {
    _asking: Counted<'a>,
    _nested: Nested,
}

/// Counted as long as it lives.
pub struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    /// Counts one more.
    pub fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A hold of this thread, and whether it is within another one.
struct Nested(bool);

impl Nested {
    fn new() -> Self {
        Self(HOLDS.try_with(|holds| holds.replace(holds.get() + 1)).unwrap_or(1) > 0)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = HOLDS.try_with(|holds| holds.set(holds.get().saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_goes_waits_for_a_question_and_is_gone_until_it_is_loaded_again() {
        let unloads = Unloads::default();
        let module = ModuleId(8);
        let asking = unloads.asking();
        assert!(!unloads.is_gone(module));
        let last = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let (of_thread, last) = (&unloads, &last);
            let going =
                scope.spawn(move || of_thread.module_unloading(module, || last.store(1, SeqCst)));
            while !unloads.is_gone(module) {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert!(!going.is_finished() && last.load(SeqCst) == 0, "the question is under way");
            // Within a question a further one does not wait for the module.
            assert_eq!(unloads.hold_all(|| 1), 1);
            assert_eq!(unloads.hold(module, || 1), None);
            drop(asking);
            going.join().unwrap();
            assert_eq!(last.load(SeqCst), 1);
        });
        assert!(unloads.is_gone(module));
        unloads.module_comes(module);
        assert!(!unloads.is_gone(module));
    }

    #[test]
    fn a_question_waits_for_a_module_that_goes_and_a_long_one_lets_it_pass() {
        let unloads = Unloads::default();
        let (own, other) = (ModuleId(8), ModuleId(16));
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let held = unloads.hold(own, || {
                scope.spawn(|| unloads.module_unloading(other, || done.store(1, SeqCst)));
                while unloads.going.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(done.load(SeqCst), 0);
                assert!(unloads.let_pass(own));
                assert_eq!(done.load(SeqCst), 1);
                scope.spawn(|| unloads.module_unloading(own, || done.store(2, SeqCst)));
                while unloads.going.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                assert!(!unloads.let_pass(own));
                done.load(SeqCst)
            });
            assert_eq!(held, Some(2));
        });
        let asked = AtomicU32::new(0);
        std::thread::scope(|scope| {
            unloads.module_unloading(other, || {
                scope.spawn(|| unloads.hold_all(|| asked.store(1, SeqCst)));
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert_eq!(asked.load(SeqCst), 0);
            });
        });
        let counts = [unloads.asking, unloads.holding, unloads.going].map(AtomicU32::into_inner);
        assert_eq!((asked.into_inner(), counts), (1, [0, 0, 0]));
    }

    #[test]
    fn a_dynamic_method_waits_for_questions_and_not_for_who_holds_a_module() {
        let unloads = Unloads::default();
        let took = |then: &dyn Fn()| {
            let begun = clock::monotonic();
            then();
            clock::monotonic() - begun
        };
        let held =
            unloads.hold(ModuleId(8), || took(&|| unloads.function_goes(FunctionId(16)))).unwrap();
        assert!(held < Unloads::FUNCTION_LIMIT, "{held} ns");
        let asked = unloads.hold_all(|| took(&|| unloads.function_goes(FunctionId(16))));
        assert!(asked >= Unloads::FUNCTION_LIMIT, "{asked} ns");
        // A question within a hold counts as well.
        let both = unloads.hold(ModuleId(8), || {
            unloads.hold_all(|| took(&|| unloads.function_goes(FunctionId(16))))
        });
        assert!(both.unwrap() >= Unloads::FUNCTION_LIMIT);
    }

    #[test]
    fn a_function_is_not_asked_about_once_it_begins_to_go() {
        let unloads = Unloads::default();
        let (before, function) = (unloads.so_far(), FunctionId(16));
        let ask = || unloads.hold_function_since(before, function, || 1);
        assert_eq!(ask(), Some(1));
        // A question of before is under way, so the method still waits.
        let asking = unloads.asking();
        std::thread::scope(|scope| {
            let going = scope.spawn(|| unloads.function_goes(function));
            while unloads.so_far() == before {
                std::thread::yield_now();
            }
            assert_eq!(ask(), None);
            drop(asking);
            going.join().unwrap();
        });
        assert_eq!(ask(), None);
        let now = unloads.so_far();
        assert_eq!(unloads.hold_function_since(now, function, || 2), Some(2), "it came again");
        unloads.module_unloading(ModuleId(8), || {});
        assert_eq!(unloads.hold_function_since(now, function, || 2), None);
    }
}
