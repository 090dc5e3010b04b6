//! EventPipe from inside: sessions whose events come to the callback `EventPipeEventDelivered`, and
//! events of our own.

use com::Guid;

use super::ProfilerInfo;
use super::call::{check, raw, text, wide};
use super::error::Result;
use crate::abi::{
    COR_PRF_EVENT_DATA, COR_PRF_EVENTPIPE_LEVEL, COR_PRF_EVENTPIPE_PARAM_DESC,
    COR_PRF_EVENTPIPE_PARAM_TYPE, COR_PRF_EVENTPIPE_PROVIDER_CONFIG, EVENTPIPE_EVENT,
    EVENTPIPE_PROVIDER, EVENTPIPE_SESSION, EventPipeProviderCallback,
};
use crate::callback::EventPipeProviderId;

/// A provider as a session asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Name, such as `Microsoft-Windows-DotNETRuntime`.
    pub name: String,
    /// Which events: the union of these groups.
    pub keywords: u64,
    /// Up to which level.
    pub level: COR_PRF_EVENTPIPE_LEVEL,
    /// Arguments for the provider, `key=value;…`.
    pub arguments: Option<String>,
}

/// A provider's texts, kept alive for as long as the call lasts.
struct WideConfig {
    name: Vec<u16>,
    arguments: Option<Vec<u16>>,
    keywords: u64,
    level: u32,
}

impl WideConfig {
    fn new(call: &'static str, config: &ProviderConfig) -> Result<Self> {
        Ok(Self {
            name: wide(call, &config.name)?,
            arguments: config
                .arguments
                .as_deref()
                .map(|arguments| wide(call, arguments))
                .transpose()?,
            keywords: config.keywords,
            level: config.level.0,
        })
    }

    /// Points into `self`.
    fn raw(&self) -> COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
        COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
            provider_name: self.name.as_ptr(),
            keywords: self.keywords,
            logging_level: self.level,
            filter_data: self
                .arguments
                .as_ref()
                .map_or(core::ptr::null(), |arguments| arguments.as_ptr()),
        }
    }
}

/// A running session; stopped on drop. Stopping waits for callbacks that are under way, so it must
/// not happen inside one of them.
#[derive(Debug)]
pub struct EventPipeSession {
    info: ProfilerInfo,
    session: EVENTPIPE_SESSION,
}

impl EventPipeSession {
    /// The session's number.
    #[must_use]
    pub const fn id(&self) -> EVENTPIPE_SESSION {
        self.session
    }

    /// Adds a provider to the running session (`EventPipeAddProviderToSession`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on the runtimes so far; the runtime refuses.
    pub fn add_provider(&self, provider: &ProviderConfig) -> Result<()> {
        const CALL: &str = "EventPipeAddProviderToSession";
        let config = WideConfig::new(CALL, provider)?;
        check(
            CALL,
            raw!(*self.info.info12()?, EventPipeAddProviderToSession(self.session, config.raw())),
        )
    }

    /// Stops the session, and tells whether that worked (`EventPipeStopSession`). Dropping does the
    /// same and tells nobody.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn stop(self) -> Result<()> {
        let hresult = raw!(*self.info.info12()?, EventPipeStopSession(self.session));
        let mut session = self;
        // Zero is no session: there is nothing left for drop to stop.
        session.session = 0;
        check("EventPipeStopSession", hresult)
    }
}

impl Drop for EventPipeSession {
    fn drop(&mut self) {
        if self.session != 0
            && let Ok(info) = self.info.info12()
        {
            // Nothing can be done about a session that cannot be stopped.
            let _ = raw!(*info, EventPipeStopSession(self.session));
        }
    }
}

/// A provider, ours or another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventPipeProvider(pub EVENTPIPE_PROVIDER);

impl From<EventPipeProviderId> for EventPipeProvider {
    fn from(provider: EventPipeProviderId) -> Self {
        Self(provider.0)
    }
}

/// An event that one of our own providers defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventPipeEvent(EVENTPIPE_EVENT);

/// Type of an event's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One value.
    One(COR_PRF_EVENTPIPE_PARAM_TYPE),
    /// An array of values: in the event, a 16-bit count and then the values.
    Array(COR_PRF_EVENTPIPE_PARAM_TYPE),
}

/// A field of an event that we define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventField {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: FieldKind,
}

/// An event that we define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDefinition {
    /// Name.
    pub name: String,
    /// Number, unique in the provider.
    pub id: u32,
    /// Groups that it belongs to.
    pub keywords: u64,
    /// Version of its fields.
    pub version: u32,
    /// How important it is.
    pub level: COR_PRF_EVENTPIPE_LEVEL,
    /// What it says about an activity: 0 for nothing, 1 for its start, 2 for its end.
    pub opcode: u8,
    /// Whether the stack is walked each time.
    pub needs_stack: bool,
    /// Its fields, in order.
    pub fields: Vec<EventField>,
}

/// The bytes of one field's value.
pub type EventData<'a> = &'a [u8];

impl ProfilerInfo {
    /// Starts a session whose events come to the callback `EventPipeEventDelivered`
    /// (`EventPipeStartSession`). Needs `EventMask::EVENT_PIPE`. They come on the thread that
    /// writes the event, some with locks of the runtime held.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 5; `E_FAIL` if there are 64
    /// sessions already.
    pub fn start_event_pipe_session(
        &self,
        providers: &[ProviderConfig],
        rundown: bool,
    ) -> Result<EventPipeSession> {
        const CALL: &str = "EventPipeStartSession";
        let info = self.info12()?;
        let texts = providers
            .iter()
            .map(|provider| WideConfig::new(CALL, provider))
            .collect::<Result<Vec<_>>>()?;
        let configs = texts.iter().map(WideConfig::raw).collect::<Vec<_>>();
        let mut session = 0;
        check(
            CALL,
            raw!(
                *info,
                EventPipeStartSession(
                    configs.len() as u32,
                    configs.as_ptr(),
                    i32::from(rundown),
                    &mut session
                )
            ),
        )?;
        Ok(EventPipeSession { info: self.clone(), session })
    }

    /// Makes a provider of our own (`EventPipeCreateProvider`); it lives as long as the process.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 5.
    pub fn create_event_pipe_provider(&self, name: &str) -> Result<EventPipeProvider> {
        const CALL: &str = "EventPipeCreateProvider";
        let name = wide(CALL, name)?;
        let mut provider = 0;
        check(CALL, raw!(*self.info12()?, EventPipeCreateProvider(name.as_ptr(), &mut provider)))?;
        Ok(EventPipeProvider(provider))
    }

    /// The same, with a function that is called when a session turns it on or off
    /// (`EventPipeCreateProvider2`).
    ///
    /// # Safety
    /// `callback` may be called on any thread, does not panic, and stays loaded for as long as the
    /// process lives.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 8.
    pub unsafe fn create_event_pipe_provider_with_callback(
        &self,
        name: &str,
        callback: EventPipeProviderCallback,
    ) -> Result<EventPipeProvider> {
        const CALL: &str = "EventPipeCreateProvider2";
        let name = wide(CALL, name)?;
        let mut provider = 0;
        check(
            CALL,
            raw!(
                *self.info14()?,
                EventPipeCreateProvider2(name.as_ptr(), Some(callback), &mut provider)
            ),
        )?;
        Ok(EventPipeProvider(provider))
    }

    /// A provider's name (`EventPipeGetProviderInfo`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 5.
    pub fn event_pipe_provider_name(&self, provider: EventPipeProvider) -> Result<String> {
        let info = self.info12()?;
        text("EventPipeGetProviderInfo", |buffer, room, needed| {
            raw!(*info, EventPipeGetProviderInfo(provider.0, room, needed, buffer))
        })
    }

    /// Defines an event of a provider of ours (`EventPipeDefineEvent`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 5; `E_INVALIDARG` for types
    /// that events cannot have.
    pub fn define_event_pipe_event(
        &self,
        provider: EventPipeProvider,
        definition: &EventDefinition,
    ) -> Result<EventPipeEvent> {
        const CALL: &str = "EventPipeDefineEvent";
        let info = self.info12()?;
        let name = wide(CALL, &definition.name)?;
        let names = definition
            .fields
            .iter()
            .map(|field| wide(CALL, &field.name))
            .collect::<Result<Vec<_>>>()?;
        let fields = definition
            .fields
            .iter()
            .zip(&names)
            .map(|(field, name)| {
                let (kind, element_kind) = match field.kind {
                    FieldKind::One(kind) => (kind, COR_PRF_EVENTPIPE_PARAM_TYPE::default()),
                    FieldKind::Array(element) => (COR_PRF_EVENTPIPE_PARAM_TYPE::ARRAY, element),
                };
                COR_PRF_EVENTPIPE_PARAM_DESC {
                    kind: kind.0,
                    element_kind: element_kind.0,
                    name: name.as_ptr(),
                }
            })
            .collect::<Vec<_>>();
        let mut event = 0;
        check(
            CALL,
            raw!(
                *info,
                EventPipeDefineEvent(
                    provider.0,
                    name.as_ptr(),
                    definition.id,
                    definition.keywords,
                    definition.version,
                    definition.level.0,
                    definition.opcode,
                    i32::from(definition.needs_stack),
                    fields.len() as u32,
                    fields.as_ptr(),
                    &mut event,
                )
            ),
        )?;
        Ok(EventPipeEvent(event))
    }

    /// Writes an event, with the bytes of each field in the order of its definition
    /// (`EventPipeWriteEvent`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 5.
    pub fn write_event_pipe_event(
        &self,
        event: EventPipeEvent,
        data: &[EventData<'_>],
        activity: Option<&Guid>,
        related_activity: Option<&Guid>,
    ) -> Result<()> {
        let data = data
            .iter()
            .map(|field| COR_PRF_EVENT_DATA {
                ptr: field.as_ptr().expose_provenance() as u64,
                size: field.len() as u32,
                reserved: 0,
            })
            .collect::<Vec<_>>();
        let pointer = |guid: Option<&Guid>| guid.map_or(core::ptr::null(), core::ptr::from_ref);
        check(
            "EventPipeWriteEvent",
            raw!(
                *self.info12()?,
                EventPipeWriteEvent(
                    event.0,
                    data.len() as u32,
                    data.as_ptr(),
                    pointer(activity),
                    pointer(related_activity),
                )
            ),
        )
    }
}
