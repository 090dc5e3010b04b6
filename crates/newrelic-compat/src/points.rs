//! Instrumentation points: which methods are instrumented, and what the agent is told about them.

mod custom;
mod extensions;
mod file;
mod lambda;
mod refresh;

pub use custom::CustomInstrumentation;
pub use extensions::{Extensions, is_deprecated, is_extension};
pub use lambda::lambda_point;
pub use refresh::{MethodName, Refresh, refresh};

use crate::Runtime;
use crate::configuration::IgnoreList;
use crate::environment::Environment;
use crate::log::{Level, Message};
use crate::rewrite::Tracer;
use crate::shape::AgentShape;
use file::read;
use rules::{Version, VersionRange};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Bits that the managed agent is told about a method.
pub mod flags {
    /// The runtime makes the method asynchronous. Agents before 10.55 do not know it.
    pub const RUNTIME_ASYNC: u32 = 1 << 19;
    /// The compiler made the method the start of an asynchronous state machine.
    pub const ASYNC_METHOD: u32 = 1 << 23;
    /// The method starts a transaction that is no web transaction.
    pub const OTHER_TRANSACTION: u32 = 1 << 22;
    /// The method starts a web transaction.
    pub const WEB_TRANSACTION: u32 = 1 << 21;
    /// An attribute of the method asks for it, no file.
    pub const ATTRIBUTE_INSTRUMENTATION: u32 = 1 << 20;
    /// Metrics have the class that a method is called for, not the one that declares it.
    pub const USE_INVOCATION_TARGET_CLASS_NAME: u32 = 1 << 15;
    /// The metric has a name of its own.
    pub const CUSTOM_METRIC_NAME: u32 = 1 << 14;
    /// Calls from within calls of the same method are not traced.
    pub const SUPPRESS_RECURSIVE_CALLS: u32 = 1 << 13;
    /// A metric is made for each transaction.
    pub const GENERATE_SCOPED_METRIC: u32 = 1 << 12;
    /// A metric is made for all transactions together.
    pub const GENERATE_UNSCOPED_METRIC: u32 = 1 << 11;
    /// Calls are segments of transaction traces.
    pub const TRANSACTION_TRACER_SEGMENT: u32 = 1 << 10;
    /// Several calls may be taken together.
    pub const COMBINE_MULTIPLE_INVOCATIONS: u32 = 1 << 9;
    /// The name of the class is exact.
    pub const FULL_CLASS_MATCH: u32 = 1 << 8;
    /// First of three bits: how important the method is among those that are instrumented.
    pub const LEVEL_SHIFT: u32 = 16;
    /// First of three bits: how important the method is for the name of a transaction.
    pub const NAMING_PRIORITY_SHIFT: u32 = 24;
}

/// The factory of tracers that name none.
pub const DEFAULT_FACTORY: &str = "NewRelic.Agent.Core.Tracer.Factories.DefaultTracerFactory";

/// Methods that are instrumented in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Simple name of the assembly.
    pub assembly: String,
    /// Full name of the type, with `+` between a type and those in it.
    pub class: String,
    /// Name of the method.
    pub method: String,
    /// Text of the parameters ([`crate::signature_text`]); `None` for all overloads.
    pub parameters: Option<String>,
    /// Versions of the assembly.
    pub versions: VersionRange,
    /// Full name of the factory that makes tracers.
    pub factory: String,
    /// Name of the metric; may be empty.
    pub metric: String,
    /// See [`flags`].
    pub flags: u32,
}

impl Point {
    /// What the managed agent receives about this point.
    #[must_use]
    pub fn tracer(&self) -> Tracer<'_> {
        Tracer { factory: &self.factory, metric: &self.metric, flags: self.flags }
    }
}

/// The points for methods of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Overloads {
    /// With parameters.
    exact: Vec<Point>,
    /// For all overloads.
    any: Vec<Point>,
}

type Methods = HashMap<String, Overloads>;

/// All points of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points {
    /// By assembly and class.
    assemblies: HashMap<String, HashMap<String, Methods>>,
    count: usize,
}

impl Points {
    /// Adds a point. One that is there already counts twice.
    pub fn add(&mut self, point: Point) {
        let classes = self.assemblies.entry(point.assembly.clone()).or_default();
        let methods = classes.entry(point.class.clone()).or_default();
        let overloads = methods.entry(point.method.clone()).or_default();
        let list =
            if point.parameters.is_some() { &mut overloads.exact } else { &mut overloads.any };
        list.push(point);
        self.count += 1;
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether methods of an assembly are instrumented.
    #[must_use]
    pub fn has_assembly(&self, assembly: &str) -> bool {
        self.assemblies.contains_key(assembly)
    }

    /// The classes and names of the methods of an assembly, in no order.
    pub fn methods_of<'a>(&'a self, assembly: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let classes = self.assemblies.get(assembly).into_iter().flatten();
        classes.flat_map(|(class, methods)| {
            methods.keys().map(move |method| (class.as_str(), method.as_str()))
        })
    }

    /// The point of a method: of those for its parameters, or else of those for all overloads, the
    /// first that is for this version. Where there are points for its parameters, those for all
    /// overloads do not count.
    ///
    /// `parameters` is only asked for where it decides; `None` from it matches points for all
    /// overloads only.
    pub fn find(
        &self,
        assembly: &str,
        class: &str,
        method: &str,
        parameters: impl FnOnce() -> Option<String>,
        version: Version,
    ) -> Option<&Point> {
        let overloads = self.assemblies.get(assembly)?.get(class)?.get(method)?;
        let exact = if overloads.exact.is_empty() { None } else { parameters() };
        let mut matching =
            overloads.exact.iter().filter(|point| point.parameters == exact).peekable();
        if matching.peek().is_some() {
            return matching.find(|point| point.versions.contains(version));
        }
        overloads.any.iter().find(|point| point.versions.contains(version))
    }

    /// All points, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Point> {
        let overloads =
            self.assemblies.values().flat_map(HashMap::values).flat_map(HashMap::values);
        overloads.flat_map(|overloads| overloads.exact.iter().chain(&overloads.any))
    }
}

/// Points with what was noticed while they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The points.
    pub points: Points,
    /// Lines for the log.
    pub messages: Vec<Message>,
    /// Files that are no instrumentation. At the start the others are used; a refresh keeps what
    /// there was.
    pub invalid_files: usize,
}

/// Reads all files, by path or name, in the order of these.
#[must_use]
pub fn load(files: &BTreeMap<String, String>, ignored: &IgnoreList, shape: AgentShape) -> Loaded {
    let mut loaded = Loaded::default();
    for (name, text) in files {
        if is_deprecated(name) {
            let text = format!("Skipping deprecated instrumentation file {name}");
            loaded.messages.push(Message::new(Level::Warn, text));
            continue;
        }
        if let Err(error) = read(name, text, ignored, shape, &mut loaded) {
            let text = format!("Unable to parse instrumentation file {name}: {error}");
            loaded.messages.push(Message::new(Level::Warn, text));
            loaded.invalid_files += 1;
        }
    }
    if loaded.invalid_files > 0 {
        let text = format!("{} instrumentation files are invalid.", loaded.invalid_files);
        loaded.messages.push(Message::new(Level::Warn, text));
    }
    loaded
}

/// Where points come from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The agent's home folder.
    pub home: &'a Path,
    /// The family of the runtime.
    pub runtime: Runtime,
    /// What the managed agent has added.
    pub custom: &'a CustomInstrumentation,
    /// Classes not to instrument.
    pub ignored: &'a IgnoreList,
    /// The shape of the managed agent.
    pub shape: AgentShape,
    /// The environment, which may name a Lambda handler.
    pub environment: &'a Environment,
}

/// Reads everything, at the start and at each refresh.
#[must_use]
pub fn load_all(sources: &Sources<'_>) -> Loaded {
    let mut extensions =
        Extensions::read(sources.home, sources.runtime, sources.environment.platform());
    sources.custom.merge_into(&mut extensions.files);
    let mut loaded = load(&extensions.files, sources.ignored, sources.shape);
    loaded.points.add_lambda(sources.environment);
    loaded.invalid_files += extensions.unreadable;
    loaded.messages.splice(0..0, extensions.messages);
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Platform;
    use std::fs;

    #[test]
    fn all_sources_at_once() {
        let home = tempfile::tempdir().unwrap();
        let extensions = home.path().join("extensions");
        fs::create_dir_all(&extensions).unwrap();
        let xml = |assembly: &str| {
            format!(
                "<extension><instrumentation><tracerFactory><match assemblyName='{assembly}' \
                 className='C'>\
                 <exactMethodMatcher \
                 methodName='M'/></match></tracerFactory></instrumentation></extension>"
            )
        };
        fs::write(extensions.join("a.xml"), xml("FromFile")).unwrap();
        fs::write(extensions.join("b.xml"), [0xff]).unwrap();
        let mut custom = CustomInstrumentation::default();
        custom.add("live", xml("FromAgent"));
        let mut ignored = IgnoreList::default();
        ignored.add("Handler", None);
        let environment = Environment::new(Platform::Unix, [("_HANDLER", "Handler::C::M")]);
        let all = |custom: &CustomInstrumentation| {
            load_all(&Sources {
                home: home.path(),
                runtime: Runtime::Core,
                custom,
                ignored: &ignored,
                shape: AgentShape::V10_54,
                environment: &environment,
            })
        };
        let before = all(&custom);
        custom.apply();
        let after = all(&custom);
        let has = |loaded: &Loaded| {
            ["FromFile", "FromAgent", "Handler"].map(|name| loaded.points.has_assembly(name))
        };
        assert_eq!((has(&before), has(&after)), ([true, false, true], [true, true, true]));
        assert_eq!((after.invalid_files, after.points.len()), (1, 3));
        // The folder for this runtime is missing, and a file is unreadable.
        assert_eq!(after.messages.len(), 2);
    }
}
