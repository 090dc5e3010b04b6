//! Processes of Azure functions: the host is not instrumented, the worker with the user's code is.

use super::{Process, Reason, contains, ends_with};
use crate::environment::Environment;

/// The program in which functions of the isolated model run.
const WEB_HOST: &str = "/azure-functions-host/Microsoft.Azure.WebJobs.Script.WebHost";

/// The decision about a process of an Azure function; `None` where the other rules count.
pub(super) fn decide(
    process: Process<'_>,
    pool: &str,
    environment: &Environment,
) -> Option<(bool, Reason)> {
    let runtime =
        environment.azure_function_runtime().filter(|_| environment.azure_function_mode())?;
    let decided = |instrument, what| Some((instrument, Reason::AzureFunction(what)));
    if runtime.eq_ignore_ascii_case("dotnet") {
        // A pool of this kind runs the site's management.
        return decided(!pool.starts_with('~'), "in-process model");
    }
    let Process { path, command_line, .. } = process;
    if !pool.is_empty() && contains(command_line, pool) {
        return decided(false, "the command line contains the application pool");
    }
    if contains(command_line, WEB_HOST) || contains(path, WEB_HOST) {
        return decided(false, "host");
    }
    if ends_with(path, "FUNCTIONSNETHOST.EXE") {
        return decided(true, "FunctionsNetHost");
    }
    if ends_with(path, "FUNC.EXE") {
        return decided(false, "command line tools");
    }
    if contains(command_line, "--functions-worker-id") || contains(command_line, "--worker-id") {
        return decided(true, "worker");
    }
    None
}
