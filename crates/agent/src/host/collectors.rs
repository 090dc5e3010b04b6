//! The collectors of a session, each switched off when it panics.

use profilers::Collector;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// The collectors.
pub struct Collectors {
    all: Vec<Guarded>,
}

struct Guarded {
    collector: Box<dyn Collector>,
    on: AtomicBool,
}

impl Collectors {
    /// All of them on, but for one that stands by until [`Self::switch_on`].
    pub fn new(collectors: Vec<Box<dyn Collector>>, stands_by: Option<&str>) -> Self {
        let guarded = |collector: Box<dyn Collector>| {
            let on = AtomicBool::new(stands_by != Some(collector.id()));
            Guarded { collector, on }
        };
        Self { all: collectors.into_iter().map(guarded).collect() }
    }

    /// Calls every collector that is on. One that panics is switched off for good, and `failed` is
    /// called once with its name.
    pub fn each(&self, mut call: impl FnMut(&dyn Collector), mut failed: impl FnMut(&'static str)) {
        for Guarded { collector, on } in &self.all {
            if !on.load(Ordering::Relaxed) {
                continue;
            }
            let collector = collector.as_ref();
            let ended = catch_unwind(AssertUnwindSafe(|| call(collector)));
            if ended.is_err() && on.swap(false, Ordering::Relaxed) {
                failed(collector.id());
            }
        }
    }

    /// Switches on one that stands by.
    pub fn switch_on(&self, id: &str) {
        let stood_by = self.all.iter().filter(|guarded| guarded.collector.id() == id);
        stood_by.for_each(|guarded| guarded.on.store(true, Ordering::Relaxed));
    }

    /// Whether any of them that is on wants ticks.
    pub fn want_ticks(&self) -> bool {
        let mut on = self.all.iter().filter(|guarded| guarded.on.load(Ordering::Relaxed));
        on.any(|guarded| guarded.collector.interval().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    struct Named(&'static str);

    impl Collector for Named {
        fn id(&self) -> &'static str {
            self.0
        }
    }

    #[test]
    fn one_that_panics_is_switched_off_and_the_others_go_on() {
        let collectors = Collectors::new(
            vec![Box::new(Named("good")), Box::new(Named("bad")), Box::new(Named("last"))],
            None,
        );
        let called = AtomicU32::new(0);
        let mut failed = Vec::new();
        for _ in 0..3 {
            collectors.each(
                |collector| {
                    called.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(collector.id(), "bad");
                },
                |id| failed.push(id),
            );
        }
        assert_eq!(failed, ["bad"]);
        assert_eq!(called.into_inner(), 3 + 2 + 2);
        assert!(!collectors.want_ticks());
    }

    #[test]
    fn one_stands_by_until_it_is_switched_on() {
        let collectors =
            Collectors::new(vec![Box::new(Named("one")), Box::new(Named("other"))], Some("other"));
        let called = || {
            let names = std::sync::Mutex::new(Vec::new());
            collectors.each(|collector| names.lock().unwrap().push(collector.id()), |_| {});
            names.into_inner().unwrap()
        };
        assert_eq!(called(), ["one"]);
        collectors.switch_on("other");
        assert_eq!(called(), ["one", "other"]);
    }
}
