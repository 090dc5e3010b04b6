//! What collectors may do in a callback.

use crate::host::Host;
use crate::host::queue::Event;
use crate::host::runtime::Walked;
use crate::os::clock;
use crate::os::threads::current_tid;
use corprof::ids::{FunctionId, RawObjectId};
use profilers::{CallbackSample, Class, ExceptionCx, Object};
use wire::Nanos;
use wire::memory::Memory;

/// Most UTF-16 units kept of a message.
const MESSAGE_UNITS: u32 = 4096;

/// A running callback.
pub struct Context<'a> {
    host: &'a Host,
}

impl<'a> Context<'a> {
    /// For a callback that runs now, on this thread.
    pub fn new(host: &'a Host) -> Self {
        Self { host }
    }
}

impl ExceptionCx for Context<'_> {
    fn now(&self) -> Nanos {
        clock::monotonic()
    }

    fn second(&self) -> u32 {
        self.host.second()
    }

    fn os_tid(&self) -> u32 {
        current_tid()
    }

    fn class_of(&self, object: Object) -> Option<Class> {
        let object = RawObjectId(object.0).non_null()?;
        // Its object is alive, so the class is loaded.
        self.host.runtime.ids().class(self.host.runtime.class_of(object)?).map(class_of_number)
    }

    fn message_of(&self, object: Object) -> Option<String> {
        let layout = self.host.exception_layout(object)?;
        let memory = &self.host.memory;
        let text = memory.u64((object.0 as u64).checked_add(u64::from(layout.message))?)?;
        if text == 0 {
            return None;
        }
        let units =
            memory.u32(text.checked_add(u64::from(layout.string_length))?)?.min(MESSAGE_UNITS);
        let bytes =
            memory.bytes(text.checked_add(u64::from(layout.string_buffer))?, units as usize * 2)?;
        let units =
            bytes.chunks_exact(2).filter_map(|unit| Some(u16::from_le_bytes(*unit.first_chunk()?)));
        Some(
            char::decode_utf16(units)
                .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect(),
        )
    }

    fn own_stack(&self) -> (Vec<u64>, bool) {
        let most = self.host.config.max_frames.clamp(1, 4096) as usize;
        let mut ips = Vec::with_capacity(64.min(most));
        let walked = self.host.runtime.walk_own(&mut ips, most);
        (ips, walked == Walked::Truncated)
    }

    fn send(&self, mut sample: CallbackSample) {
        if let CallbackSample::ExceptionCaught { function, .. } = &mut sample {
            // It catches on this thread, so it is loaded.
            let number = FunctionId(function.0)
                .non_null()
                .and_then(|of| self.host.runtime.ids().function(of));
            function.0 = number.unwrap_or(0) as usize;
        }
        self.host.events.push(Event::Sample(sample));
    }
}

/// A class by its number in the [table of ids](crate::host::id_table): even, as those of events are
/// odd.
fn class_of_number(number: u32) -> Class {
    Class((number as usize) << 3)
}

/// The number that [`class_of_number`] was given.
pub fn number_of_class(class: Class) -> u32 {
    (class.0 >> 3) as u32
}
