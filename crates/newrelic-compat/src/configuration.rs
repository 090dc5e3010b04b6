//! The configuration of the agent, as far as the profiler reads it.
//!
//! There is a global file in the agent's home, a local one with the program, and the application
//! configuration of the program itself. A local file replaces what the global one says about the
//! log, the ignore list, the process lists and the application pools; nothing is merged. Values are
//! compared case-insensitively.

mod ignore;
mod pools;

pub use ignore::IgnoreList;
pub use pools::ApplicationPools;

use crate::environment::Environment;
use crate::log::{Level, Message, Settings};
use crate::xml::{self, Element, XmlError};

/// File name of the global and of the local configuration.
pub const FILE_NAME: &str = "newrelic.config";
/// Added to the path of the program: its application configuration.
pub const APPLICATION_SUFFIX: &str = ".config";
/// The setting of an application configuration that switches the agent on or off.
const APPLICATION_KEY: &str = "NewRelic.AgentEnabled";

/// The bytes of the configuration files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// In the agent's home.
    pub global: &'a [u8],
    /// With the program: in its folder on Windows, in the current folder on Linux.
    pub local: Option<&'a [u8]>,
    /// Beside the program.
    pub application: Option<&'a [u8]>,
}

/// Why there is no configuration. The process is not instrumented then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The global file is no XML.
    #[error("Exception thrown while attempting to parse main newrelic.config. {0}")]
    Global(#[from] XmlError),
    /// The global file has no element `configuration`.
    #[error("Unable to locate configuration node in main newrelic.config.")]
    NoConfiguration,
}

/// What the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Whether the agent is enabled, by the global file and by the local one where there is one.
    /// Only .NET Framework obeys.
    pub agent_enabled: bool,
    /// Whether the local file enables the agent; `None` without one that can be read.
    pub local_agent_enabled: Option<bool>,
    /// What the application configuration says; `None` if nothing. Only .NET Framework obeys.
    pub application_enabled: Option<bool>,
    /// The log.
    pub log: Settings,
    /// Names of processes to instrument.
    pub included: Vec<String>,
    /// Names of processes not to instrument.
    pub excluded: Vec<String>,
    /// Application pools of IIS.
    pub pools: ApplicationPools,
    /// Classes not to instrument.
    pub ignored: IgnoreList,
    /// Lines for the log.
    pub messages: Vec<Message>,
}

impl Configuration {
    /// Reads the files.
    ///
    /// # Errors
    /// The global file is no configuration. Faults in the others are only worth a warning.
    pub fn read(files: Files<'_>, environment: &Environment) -> Result<Self, ConfigurationError> {
        let global = xml::parse(xml::decode(files.global)?)?;
        let global = global.child("configuration").ok_or(ConfigurationError::NoConfiguration)?;
        let mut messages = Vec::new();
        let local = files.local.and_then(|bytes| local(bytes, &mut messages));
        let local = local.as_ref().and_then(|document| document.child("configuration"));
        let main = local.unwrap_or(global);
        let local_agent_enabled = local.map(agent_enabled);
        let (included, excluded) = applications(main, environment);
        Ok(Self {
            agent_enabled: agent_enabled(global) && local_agent_enabled.unwrap_or(true),
            local_agent_enabled,
            application_enabled: files
                .application
                .and_then(|bytes| application(bytes, &mut messages)),
            log: log(main, environment),
            included,
            excluded,
            pools: ApplicationPools::read(main, &mut messages),
            ignored: IgnoreList::read(main),
            messages,
        })
    }
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Only `true` enables, and so does silence.
fn agent_enabled(configuration: &Element) -> bool {
    configuration.attribute("agentEnabled").is_none_or(is_true)
}

/// A local file that is usable.
fn local(bytes: &[u8], messages: &mut Vec<Message>) -> Option<Element> {
    let parsed = xml::decode(bytes).and_then(xml::parse);
    let problem = match parsed {
        Ok(document) if document.child("configuration").is_some() => return Some(document),
        Ok(_) => "Unable to locate configuration node in local newrelic.config.".to_owned(),
        Err(error) => {
            format!("Exception thrown while attempting to parse local newrelic.config. {error}")
        }
    };
    messages.push(Message::new(Level::Warn, problem));
    None
}

/// What an application configuration says about the agent. The last setting wins.
fn application(bytes: &[u8], messages: &mut Vec<Message>) -> Option<bool> {
    let document = match xml::decode(bytes).and_then(xml::parse) {
        Ok(document) => document,
        Err(error) => {
            let text = format!(
                "Exception thrown while attempting to parse the application configuration. {error}"
            );
            messages.push(Message::new(Level::Warn, text));
            return None;
        }
    };
    let settings = document.child("configuration")?.child("appSettings")?;
    let own = settings.children("add").filter(|add| {
        add.attribute("key").is_some_and(|key| key.eq_ignore_ascii_case(APPLICATION_KEY))
    });
    own.last().map(|add| add.attribute("value").is_some_and(is_true))
}

/// The log: the environment first. While its level is set there, the element is ignored as a whole.
fn log(configuration: &Element, environment: &Environment) -> Settings {
    let default = Settings::default();
    let element = configuration.child("log");
    let mut settings = match (environment.log_level(), element) {
        (Some(level), _) => {
            Settings { level: Level::named(&level).unwrap_or(default.level), ..default }
        }
        (None, Some(element)) => Settings {
            level: element.attribute("level").and_then(Level::named).unwrap_or(default.level),
            console: element
                .attribute("console")
                .is_some_and(|value| is_true(value) || value == "1"),
            enabled: element
                .attribute("enabled")
                .is_none_or(|value| is_true(value) || value == "1"),
        },
        (None, None) => default,
    };
    settings.console = environment.log_console().unwrap_or(settings.console);
    settings.enabled = environment.log_enabled().unwrap_or(settings.enabled);
    settings
}

/// Processes to instrument, and not to. A variable replaces the list of its kind.
fn applications(configuration: &Element, environment: &Environment) -> (Vec<String>, Vec<String>) {
    let (mut included, mut excluded) = (Vec::new(), Vec::new());
    let list =
        configuration.child("instrumentation").and_then(|element| element.child("applications"));
    for application in list.into_iter().flat_map(|list| list.children("application")) {
        let Some(name) = application.attribute("name").filter(|name| !name.is_empty()) else {
            continue;
        };
        let is_excluded = application
            .attribute("include")
            .is_some_and(|value| value.eq_ignore_ascii_case("false"));
        if is_excluded { &mut excluded } else { &mut included }.push(name.to_owned());
    }
    (
        environment.included_applications().unwrap_or(included),
        environment.excluded_applications().unwrap_or(excluded),
    )
}

#[cfg(test)]
mod tests;
