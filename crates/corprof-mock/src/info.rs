//! The fake runtime's side of ICorProfilerInfo.

mod lookup;
mod version_1;
mod versions_10_to_15;
mod versions_2_and_3;
mod versions_4_to_9;

use std::sync::Arc;

use com::{ComClass, Guid, HResult, Interface};
use corprof::abi::*;

use crate::model::Model;
use crate::{State, lock};

/// The runtime object.
pub(crate) struct Runtime {
    pub(crate) state: Arc<State>,
}

/// The interfaces of the chain, by version.
const INFO_IIDS: [(u8, Guid); 15] = [
    (1, ICorProfilerInfo::IID),
    (2, ICorProfilerInfo2::IID),
    (3, ICorProfilerInfo3::IID),
    (4, ICorProfilerInfo4::IID),
    (5, ICorProfilerInfo5::IID),
    (6, ICorProfilerInfo6::IID),
    (7, ICorProfilerInfo7::IID),
    (8, ICorProfilerInfo8::IID),
    (9, ICorProfilerInfo9::IID),
    (10, ICorProfilerInfo10::IID),
    (11, ICorProfilerInfo11::IID),
    (12, ICorProfilerInfo12::IID),
    (13, ICorProfilerInfo13::IID),
    (14, ICorProfilerInfo14::IID),
    (15, ICorProfilerInfo15::IID),
];

impl ComClass for Runtime {
    type Interface = ICorProfilerInfo15;

    fn refuses(&self, iid: &Guid) -> bool {
        INFO_IIDS.iter().any(|(version, info)| info == iid && *version > self.state.newest_info)
    }
}

impl Runtime {
    /// Notes the call, and answers it from the model unless it is to fail.
    fn answer(
        &self,
        method: &'static str,
        answer: impl FnOnce(&mut Model) -> Result<HResult, HResult>,
    ) -> HResult {
        let failure = {
            let mut script = lock(&self.state.script);
            script.calls.push(method);
            script.failures.iter().find(|(failing, _)| failing == method).map(|(_, code)| *code)
        };
        match failure {
            Some(code) => code,
            None => answer(&mut lock(&self.state.model)).unwrap_or_else(|code| code),
        }
    }
}
