//! Adds the helper methods to the core library.

use super::helpers::{
    FIELD_ATTRIBUTES, FIELD_SIGNATURE, FIELDS_TYPE, FIELDS_TYPE_ATTRIBUTES, HELPER_ATTRIBUTES,
    HELPER_IMPLEMENTATION, HELPER_TYPE, Helper, all_defined, fields,
};
use super::{CORE_LIBRARY, FRAMEWORK_LIBRARY, MetadataError, ModuleMetadata, Settings};
use crate::Runtime;
use crate::log::{Level, Message};
use crate::strategy::CallingStrategy;
use cil::Token;

/// Attributes of helper methods that let code call them that may do little itself (.NET Framework).
const SECURITY: [&str; 2] = [
    "System.Security.SecuritySafeCriticalAttribute",
    "System.Security.SuppressUnmanagedCodeSecurityAttribute",
];
/// Signature of a constructor without parameters.
const CONSTRUCTOR: [u8; 3] = [0x20, 0, 1];

/// A method to be defined.
#[derive(Clone, Copy, Debug)]
pub struct NewMethod<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its attributes (ECMA-335 II.23.1.10).
    pub attributes: u32,
    /// Its implementation attributes (ECMA-335 II.23.1.11).
    pub implementation: u32,
    /// Its signature.
    pub signature: &'a [u8],
    /// The method whose body it borrows until the runtime compiles it and asks for its own.
    pub body_of: Token,
}

/// Definitions in the core library.
pub trait CoreLibraryMetadata: ModuleMetadata {
    /// Defines a type without namespace.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_type(
        &mut self,
        name: &str,
        attributes: u32,
        extends: Token,
    ) -> Result<Token, MetadataError>;
    /// Defines a field.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_field(
        &mut self,
        parent: Token,
        name: &str,
        attributes: u32,
        signature: &[u8],
    ) -> Result<Token, MetadataError>;
    /// Defines a method.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_method(
        &mut self,
        parent: Token,
        method: &NewMethod<'_>,
    ) -> Result<Token, MetadataError>;
    /// Gives a method a custom attribute without arguments.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn add_attribute(&mut self, method: Token, constructor: Token) -> Result<(), MetadataError>;
    /// Lets a method assert the permission to call unmanaged code, by declarative security.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn assert_unmanaged_code(&mut self, method: Token) -> Result<(), MetadataError>;
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The strategy from now on: reflection, unless every helper is there.
    pub strategy: CallingStrategy,
    /// Lines for the log.
    pub messages: Vec<Message>,
}

/// Whether a module is the core library, by its path.
#[must_use]
pub fn is_core_library(path: &str, runtime: Runtime) -> bool {
    let library = match runtime {
        Runtime::Core => CORE_LIBRARY,
        Runtime::Framework => FRAMEWORK_LIBRARY,
    };
    path.strip_suffix(".dll").is_some_and(|path| path.ends_with(library))
}

/// Adds all helpers to the core library, whose path is `module`, unless they are there. Where one
/// cannot be added the others are, and injected code uses reflection.
pub fn inject<M: CoreLibraryMetadata + ?Sized>(
    module: &str,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Injection {
    let mut messages = Vec::new();
    if settings.strategy == CallingStrategy::Reflection || all_defined(settings, metadata) {
        return Injection { strategy: settings.strategy, messages };
    }
    let mut say = |level, text: String| messages.push(Message::new(level, text));
    let constructor = metadata.find_type_definition(HELPER_TYPE).and_then(|parent| {
        Some((parent, metadata.find_method_definition(parent, ".ctor", &CONSTRUCTOR)?))
    });
    match constructor {
        // A trimmed core library. Nothing is tried, so that nothing fails.
        None => {
            say(Level::Info, format!("{module} has no {HELPER_TYPE}. Calls will use reflection."))
        }
        Some((parent, constructor)) => {
            if !fields(settings.shape).is_empty() {
                say(Level::Debug, format!("Injecting New Relic helper type into {module}"));
                if let Err(error) = fields_type(settings, metadata) {
                    say(
                        Level::Error,
                        format!("Failed to inject New Relic helper type into {module}: {error}"),
                    );
                }
            }
            say(Level::Debug, format!("Injecting helper methods into {module}"));
            for helper in Helper::of(settings.shape) {
                if let Err(error) = method(*helper, parent, constructor, settings, metadata) {
                    say(
                        Level::Error,
                        format!("Failed to inject {} into {module}: {error}", helper.name()),
                    );
                }
            }
        }
    }
    let strategy = settings.strategy.resolved(all_defined(settings, metadata));
    if strategy != settings.strategy && constructor.is_some() {
        let missing = match metadata.find_type_definition(FIELDS_TYPE) {
            None if !fields(settings.shape).is_empty() => {
                format!("{FIELDS_TYPE} helper type was not defined into the core library")
            }
            _ => "Not all helper methods were defined into the core library".to_owned(),
        };
        let rest = "downgrading the managed-agent calling strategy to Reflection for this process. \
            injection_downgrades=1";
        say(Level::Error, format!("{missing}; {rest}"));
    }
    Injection { strategy, messages }
}

fn fields_type<M: CoreLibraryMetadata + ?Sized>(
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<(), MetadataError> {
    let missing = || MetadataError("there is no System.Object".to_owned());
    let object = metadata.find_type_definition("System.Object").ok_or_else(missing)?;
    let parent = metadata.define_type(FIELDS_TYPE, FIELDS_TYPE_ATTRIBUTES, object)?;
    for field in fields(settings.shape) {
        metadata.define_field(parent, field, FIELD_ATTRIBUTES, &FIELD_SIGNATURE)?;
    }
    Ok(())
}

fn method<M: CoreLibraryMetadata + ?Sized>(
    helper: Helper,
    parent: Token,
    constructor: Token,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<(), MetadataError> {
    let signature = helper
        .signature_blob(settings, metadata)
        .map_err(|refusal| MetadataError(refusal.to_string()))?;
    let method = NewMethod {
        name: helper.name(),
        attributes: HELPER_ATTRIBUTES,
        implementation: HELPER_IMPLEMENTATION,
        signature: &signature,
        body_of: constructor,
    };
    let method = metadata.define_method(parent, &method)?;
    for attribute in SECURITY {
        let class = metadata.find_type_definition(attribute);
        let constructor =
            class.and_then(|class| metadata.find_method_definition(class, ".ctor", &CONSTRUCTOR));
        match constructor {
            Some(constructor) => metadata.add_attribute(method, constructor)?,
            // They have a meaning on .NET Framework only.
            None if settings.runtime == Runtime::Core => {}
            None => return Err(MetadataError(format!("there is no {attribute}"))),
        }
    }
    metadata.assert_unmanaged_code(method)
}
