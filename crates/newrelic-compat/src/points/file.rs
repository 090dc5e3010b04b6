//! Reads an instrumentation file.

use super::{DEFAULT_FACTORY, Loaded, Point, flags};
use crate::configuration::IgnoreList;
use crate::log::{Level, Message};
use crate::shape::AgentShape;
use crate::version;
use crate::xml::{self, Element, XmlError};

/// Why a file is no instrumentation. Points that were read before stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileError {
    /// It is not XML.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// An attribute that has to be a number is none.
    #[error("the attribute {attribute} is not a number: {value}")]
    Number {
        /// Its name.
        attribute: &'static str,
        /// Its value.
        value: String,
    },
}

/// Adds the points of a file. `name` is its path, or the name that the managed agent gave it.
///
/// # Errors
/// The file is no instrumentation.
pub(super) fn read(
    name: &str,
    text: &str,
    ignored: &IgnoreList,
    shape: AgentShape,
    loaded: &mut Loaded,
) -> Result<(), FileError> {
    let document = xml::parse(text)?;
    let Some(extension) = document.child("extension") else {
        loaded.warn(format!("extension node not found in instrumentation file {name}"));
        return Ok(());
    };
    let Some(instrumentation) = extension.child("instrumentation") else {
        loaded.warn(format!("instrumentation node not found in instrumentation file {name}"));
        return Ok(());
    };
    for factory in instrumentation.children("tracerFactory") {
        if factory.attribute("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false"))
        {
            continue;
        }
        let template = template(factory)?;
        for matched in factory.children("match") {
            read_match(matched, &template, ignored, shape, loaded);
        }
    }
    Ok(())
}

impl Loaded {
    fn warn(&mut self, text: String) {
        self.messages.push(Message::new(Level::Warn, text));
    }
}

/// A point with all that a `tracerFactory` says.
fn template(factory: &Element) -> Result<Point, FileError> {
    let is = |name: &str, value: &str| {
        factory.attribute(name).is_some_and(|other| other.eq_ignore_ascii_case(value))
    };
    let text = |name: &str| factory.attribute(name).unwrap_or_default();
    let is_not_refused = |name: &str| factory.attribute(name).is_none() || is(name, "true");
    let mut bits = 0;
    if !text("metricName").is_empty() {
        bits |= flags::CUSTOM_METRIC_NAME;
        if is("metricName", "instance") {
            bits |= flags::USE_INVOCATION_TARGET_CLASS_NAME;
        }
    }
    bits |= match text("metric").to_ascii_lowercase().as_str() {
        "" | "scoped" => flags::GENERATE_SCOPED_METRIC,
        "unscoped" => flags::GENERATE_UNSCOPED_METRIC,
        "both" => flags::GENERATE_SCOPED_METRIC | flags::GENERATE_UNSCOPED_METRIC,
        _ => 0,
    };
    bits |= (number(factory, "level")? & 7) << flags::LEVEL_SHIFT;
    bits |= (number(factory, "transactionNamingPriority")? & 7) << flags::NAMING_PRIORITY_SHIFT;
    if is_not_refused("suppressRecursiveCalls") {
        bits |= flags::SUPPRESS_RECURSIVE_CALLS;
    }
    if is_not_refused("transactionTraceSegment") {
        bits |= flags::TRANSACTION_TRACER_SEGMENT;
    }
    let name = text("name");
    Ok(Point {
        assembly: String::new(),
        class: String::new(),
        method: String::new(),
        parameters: None,
        versions: rules::VersionRange::default(),
        factory: if name.is_empty() { DEFAULT_FACTORY } else { name }.to_owned(),
        metric: text("metricName").to_owned(),
        flags: bits,
    })
}

/// A number; 0 where the attribute is missing or empty.
fn number(factory: &Element, attribute: &'static str) -> Result<u32, FileError> {
    let value = factory.attribute(attribute).unwrap_or_default();
    if value.is_empty() {
        return Ok(0);
    }
    let number: Result<i32, _> = value.trim().parse();
    number
        .map(i32::cast_unsigned)
        .map_err(|_| FileError::Number { attribute, value: value.to_owned() })
}

fn read_match(
    matched: &Element,
    template: &Point,
    ignored: &IgnoreList,
    shape: AgentShape,
    loaded: &mut Loaded,
) {
    let assembly = matched.attribute("assemblyName").unwrap_or_default();
    let versions =
        version::window(matched.attribute("minVersion"), matched.attribute("maxVersion"));
    for class in classes(matched.attribute("className").unwrap_or_default()) {
        if let Some(refusal) = core_library(assembly, class, shape) {
            loaded.warn(refusal);
            continue;
        }
        if ignored.contains(assembly, class) {
            let text = format!("Ignoring instrumentation of {class} in assembly {assembly}");
            loaded.messages.push(Message::new(Level::Debug, text));
            continue;
        }
        for method in matched.children("exactMethodMatcher") {
            loaded.points.add(Point {
                assembly: assembly.to_owned(),
                class: class.to_owned(),
                method: method.attribute("methodName").unwrap_or_default().to_owned(),
                parameters: method.attribute("parameters").map(parameters),
                versions,
                ..template.clone()
            });
        }
    }
}

/// Why methods of the core library are not instrumented.
fn core_library(assembly: &str, class: &str, shape: AgentShape) -> Option<String> {
    let library = match (assembly, shape) {
        ("mscorlib", AgentShape::V10_53) => "mscorlib",
        ("mscorlib" | "System.Private.CoreLib", AgentShape::V10_54 | AgentShape::V10_55) => {
            "core library"
        }
        _ => return None,
    };
    Some(format!("Skipping instrumentation targeted at the {library} assembly for class {class}"))
}

/// The parts of a list of classes. Commas within `<>` and `[]` belong to a name, and so do blanks.
fn classes(list: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let separates = |character: char| {
        match character {
            '<' | '[' => depth += 1,
            '>' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    };
    list.split(separates).filter(|class| !class.is_empty()).collect()
}

/// The text that the parameters of a method are compared with.
fn parameters(text: &str) -> String {
    if text.eq_ignore_ascii_case("void") {
        String::new()
    } else {
        text.split_whitespace().collect()
    }
}

#[cfg(test)]
mod tests;
