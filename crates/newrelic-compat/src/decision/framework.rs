//! Processes of .NET Framework: only those that something asks for.

use super::{Process, Reason, by_pool, ends_with, is_web_worker};
use crate::configuration::Configuration;

/// Hosts of web applications.
const HOSTS: [&str; 9] = [
    "WEBDEV.WEBSERVER40.EXE",
    "WEBDEV.WEBSERVER20.EXE",
    "INETINFO.EXE",
    "WAWORKERHOST.EXE",
    "WAWEBHOST.EXE",
    "WCFSVCHOST.EXE",
    "ASPNET_WP.EXE",
    "IISEXPRESS.EXE",
    "DOTNET.EXE",
];

/// Shares ports among services, and is not instrumented itself.
const PORT_SHARING: &str = "SMSvcHost.exe";

pub(super) fn decide(
    process: Process<'_>,
    pool: &str,
    configuration: &Configuration,
) -> (bool, Reason) {
    if !configuration.agent_enabled {
        return (false, Reason::AgentDisabled);
    }
    if ends_with(process.path, PORT_SHARING) {
        return (false, Reason::KnownProcess(PORT_SHARING));
    }
    if let Some(enabled) = configuration.application_enabled {
        return (enabled, Reason::ApplicationConfiguration);
    }
    if configuration.included.iter().any(|name| ends_with(process.path, name)) {
        return (true, Reason::Included);
    }
    if is_web_worker(process.path) {
        return by_pool(pool, configuration);
    }
    if let Some(host) = HOSTS.into_iter().find(|host| ends_with(process.path, host)) {
        return (true, Reason::KnownProcess(host));
    }
    if configuration.local_agent_enabled == Some(true) {
        return (true, Reason::LocallyEnabled);
    }
    (false, Reason::Default)
}
