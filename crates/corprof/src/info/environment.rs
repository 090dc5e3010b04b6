//! Environment variables as managed code sees them.

use com::HResult;

use super::ProfilerInfo;
use super::call::{check, raw, text, wide};
use super::error::{Error, Result};

/// `HRESULT_FROM_WIN32(ERROR_ENVVAR_NOT_FOUND)`.
const ENVVAR_NOT_FOUND: HResult = HResult::from_win32(203);

impl ProfilerInfo {
    /// An environment variable of the process (`GetEnvironmentVariable`); `None` if it is not set.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`] before .NET Core 3.1; `E_INVALIDARG` for a name with a zero inside.
    pub fn environment_variable(&self, name: &str) -> Result<Option<String>> {
        const CALL: &str = "GetEnvironmentVariable";
        let info = self.info11()?;
        let name = wide(CALL, name)?;
        let answer = text(CALL, |buffer, room, needed| {
            raw!(*info, GetEnvironmentVariable(name.as_ptr(), room, needed, buffer))
        });
        match answer {
            Err(Error::Hr { hresult, .. }) if hresult == ENVVAR_NOT_FOUND => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Sets an environment variable of the process, or removes it with `None`
    /// (`SetEnvironmentVariable`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`] before .NET Core 3.1; `E_INVALIDARG` for a text with a zero inside.
    pub fn set_environment_variable(&self, name: &str, value: Option<&str>) -> Result<()> {
        const CALL: &str = "SetEnvironmentVariable";
        let info = self.info11()?;
        let name = wide(CALL, name)?;
        let value = value.map(|value| wide(CALL, value)).transpose()?;
        let value = value.as_ref().map_or(core::ptr::null(), |value| value.as_ptr());
        check(CALL, raw!(*info, SetEnvironmentVariable(name.as_ptr(), value)))
    }
}
