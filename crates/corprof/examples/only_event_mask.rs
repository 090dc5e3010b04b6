//! Requests the events that `EVENT_MASK` names and does nothing with them: what the mask alone
//! costs a program.
//!
//! A profiler cannot start a program faster than this one does with the same mask. `cargo xtask
//! bench newrelic` compares the drop-in with it. The variable has the two words of
//! `ICorProfilerInfo5::SetEventMask2` in hexadecimal digits: `low,high`, such as `10040204,8`.

use corprof::{
    EventMask, HResult, Profiler, ProfilerCallback, ProfilerInfo, export_profiler, guid,
};

struct OnlyEventMask;

impl ProfilerCallback for OnlyEventMask {}

impl Profiler for OnlyEventMask {
    fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, HResult> {
        std::env::var("EVENT_MASK").ok().as_deref().and_then(mask).ok_or(com::hresult::E_INVALIDARG)
    }
}

fn mask(text: &str) -> Option<EventMask> {
    let (low, high) = text.split_once(',')?;
    let word = |digits| u32::from_str_radix(digits, 16).ok();
    Some(EventMask::from_words(word(low)?, word(high)?))
}

export_profiler! {
    guid!("2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F05") => |_clsid| OnlyEventMask,
}
