//! The instrumentation points of an assembly, found in the metadata of its file.
//!
//! The same is done as in the profiler when a module is loaded: methods are found by class and
//! name, a point is chosen for each of them, and its new body is made. The body is thrown away;
//! what refuses it is reported.

mod attributes;
mod owners;

use super::dry_run::{DryRun, type_name};
use attributes::{Attributes, MethodAttributes};
use cil::TokenKind;
use metadata::{Assembly, Metadata, Row, column, table};
use newrelic_compat::Runtime;
use newrelic_compat::attributes::may_have;
use newrelic_compat::plan::{Details, Names, Plan, plan};
use newrelic_compat::points::{Point, Points};
use newrelic_compat::rewrite::{
    API_ASSEMBLY, API_TYPE, Function, Owner, RefStructs, Refusal, Scopes, Settings, instrument,
    instrument_api, is_api_method,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use owners::{Owners, Types, parameters};
use rules::Version;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Attribute of methods that stand for a function of a native library (ECMA-335 II.23.1.10).
const PINVOKE_IMPL: u32 = 0x2000;

/// Who asks for the instrumentation of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// An instrumentation file.
    Point,
    /// `[Transaction]` or `[Trace]`.
    Attribute,
    /// Both.
    PointAndAttribute,
    /// It is part of the agent's API.
    Api,
}

/// What becomes of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It gets a new body when it is first called.
    Instrumented,
    /// It keeps its body, for a reason.
    Refused,
    /// There are points of this name for other versions of the assembly only.
    OtherVersion,
    /// There are points of this name for other parameters only.
    OtherParameters,
}

/// A method that matches by class and name, or has attributes that ask for instrumentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MethodReport {
    /// Full name of its type.
    pub class: String,
    /// Its name.
    pub method: String,
    /// Text of its parameters, as instrumentation files have it; `None` if they cannot be read.
    pub parameters: Option<String>,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why it is refused, or which versions its points are for.
    pub reason: Option<String>,
    /// Who asks for it; `None` if in the end nobody does.
    pub source: Option<Source>,
    /// Full name of the factory of its tracers.
    pub factory: Option<String>,
    /// Name of its metric, if it has one of its own.
    pub metric: Option<String>,
    /// Whether the compiler made it the start of an asynchronous state machine.
    pub is_async: bool,
}

/// A point that no method matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Unmatched {
    /// Full name of the class.
    pub class: String,
    /// Name of the method.
    pub method: String,
    /// Text of the parameters, where the point is for one overload only.
    pub parameters: Option<String>,
    /// The overloads that there are.
    pub overloads: Vec<String>,
}

/// What the points come to in an assembly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AssemblyReport {
    /// Path of its file, or its path in a single-file application.
    pub path: String,
    /// Simple name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Points that name it.
    pub points: usize,
    /// How many methods are instrumented.
    pub instrumented: usize,
    /// How many are refused.
    pub refused: usize,
    /// Methods that match by class and name, or by attribute, in the order of the file.
    pub methods: Vec<MethodReport>,
    /// Classes that points name and the assembly does not have.
    pub missing_classes: Vec<String>,
    /// Points whose class is there, and their method is not.
    pub missing_methods: Vec<Unmatched>,
    /// Why the assembly cannot be read.
    pub problem: Option<String>,
}

impl AssemblyReport {
    /// One that cannot be read.
    pub fn unreadable(path: String, name: String, points: usize, problem: String) -> Self {
        Self {
            path,
            name,
            version: Version::default().to_string(),
            points,
            instrumented: 0,
            refused: 0,
            methods: Vec::new(),
            missing_classes: Vec::new(),
            missing_methods: Vec::new(),
            problem: Some(problem),
        }
    }

    /// Whether there is anything to tell.
    pub fn matters(&self) -> bool {
        self.points > 0 || !self.methods.is_empty()
    }

    /// The methods of an outcome.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &MethodReport> {
        self.methods.iter().filter(move |method| method.outcome == outcome)
    }
}

/// The points of an assembly by class and method.
type Groups<'p> = BTreeMap<(&'p str, &'p str), Vec<&'p Point>>;

/// Whether anything of an assembly with this name can be instrumented: otherwise its file need not
/// be read.
pub fn may_matter(name: &str, points: &Points) -> bool {
    points.has_assembly(name) || may_have(name) || name == API_ASSEMBLY
}

/// Finds the methods of an assembly that are instrumented.
///
/// # Errors
/// The bytes are no assembly.
pub fn examine(
    path: String,
    bytes: &[u8],
    points: &Points,
    shape: AgentShape,
    agent_path: &str,
) -> Result<AssemblyReport, metadata::Error> {
    // Most files have nothing that counts, and this reads much less of them.
    let metadata = Metadata::of_file(bytes)?;
    let name =
        metadata.name(table::ASSEMBLY, 1, column::ASSEMBLY_NAME).unwrap_or_default().into_owned();
    let number = |part| {
        metadata.get(table::ASSEMBLY, 1, column::ASSEMBLY_VERSION + part).unwrap_or_default() as u16
    };
    let version = Version([0, 1, 2, 3].map(number));
    let mut groups: Groups<'_> = BTreeMap::new();
    for point in points.iter().filter(|point| point.assembly == name) {
        groups.entry((&point.class, &point.method)).or_default().push(point);
    }
    let mut report = AssemblyReport {
        points: groups.values().map(Vec::len).sum(),
        ..AssemblyReport::unreadable(path, name.clone(), 0, String::new())
    };
    (report.version, report.problem) = (version.to_string(), None);
    let owners = Owners::of(&metadata);
    let attributes = Attributes::of(&metadata, &owners, may_have(&name));
    if groups.is_empty() && !attributes.any_method && name != API_ASSEMBLY {
        return Ok(report);
    }
    let assembly = Assembly::parse(bytes)?;
    let types = Types::of(&metadata);
    let mut candidates = match_points(&groups, &metadata, &types, &owners, &mut report);
    candidates.extend(
        attributes.methods.iter().filter(|(_, found)| found.asks()).map(|(&method, _)| method),
    );
    if name == API_ASSEMBLY
        && let Some(&class) = types.by_name.get(API_TYPE)
    {
        candidates
            .extend(owners.methods_of(&metadata, class, |name| is_api_method(API_TYPE, name)));
    }
    let settings = Settings {
        runtime: Runtime::Core,
        shape,
        start_method: None,
        strategy: CallingStrategy::Reflection,
        agent_path,
        scopes: Scopes::CoreLibrary { has_long_delegates: true },
    };
    let examiner = Examiner {
        assembly: &assembly,
        types,
        owners,
        attributes,
        points,
        groups,
        settings,
        name: &name,
        version,
    };
    report.methods = candidates.into_iter().filter_map(|method| examiner.method(method)).collect();
    report.instrumented = report.with(Outcome::Instrumented).count();
    report.refused = report.with(Outcome::Refused).count();
    Ok(report)
}

/// Finds the methods that points name. Classes and methods that are not there come into the report.
fn match_points(
    groups: &Groups<'_>,
    metadata: &Metadata<'_>,
    types: &Types,
    owners: &Owners,
    report: &mut AssemblyReport,
) -> BTreeSet<u32> {
    let mut candidates = BTreeSet::new();
    for (&(class, method), points) in groups {
        let Some(&row) = types.by_name.get(class) else {
            report.missing_classes.push(class.to_owned());
            continue;
        };
        let named = owners.methods_of(metadata, row, |name| name == method);
        let overloads: BTreeSet<String> =
            named.iter().filter_map(|&method| parameters(metadata, method)).collect();
        let lacks = |point: &&&Point| match &point.parameters {
            None => named.is_empty(),
            Some(exact) => !overloads.contains(exact),
        };
        let unmatched: BTreeSet<_> =
            points.iter().filter(lacks).map(|point| point.parameters.clone()).collect();
        report.missing_methods.extend(unmatched.into_iter().map(|parameters| Unmatched {
            class: class.to_owned(),
            method: method.to_owned(),
            parameters,
            overloads: overloads.iter().cloned().collect(),
        }));
        candidates.extend(named);
    }
    report.missing_classes.dedup();
    candidates
}

/// What is the same for all methods of an assembly.
struct Examiner<'e, 'a> {
    assembly: &'e Assembly<'a>,
    types: Types,
    owners: Owners,
    attributes: Attributes,
    points: &'e Points,
    groups: Groups<'e>,
    settings: Settings<'e>,
    name: &'e str,
    version: Version,
}

/// What [`plan`] may ask.
struct Known<'e> {
    parameters: Option<&'e str>,
    values: &'e [(String, Vec<u8>)],
}

impl Details for Known<'_> {
    fn parameters(&self) -> Option<String> {
        self.parameters.map(str::to_owned)
    }

    fn attributes(&self) -> Vec<(String, Vec<u8>)> {
        self.values.to_vec()
    }
}

impl Examiner<'_, '_> {
    /// What becomes of a method; `None` for one without a type or name.
    fn method(&self, row: u32) -> Option<MethodReport> {
        let metadata = self.assembly.metadata();
        let class_row = *self.owners.of_method.get(&row)?;
        let class = metadata.type_name(class_row, '+')?;
        let method = metadata.name(table::METHOD_DEF, row, column::METHOD_NAME)?.into_owned();
        let parameters = parameters(metadata, row);
        let none = MethodAttributes::default();
        let attributes = self.attributes.methods.get(&row).unwrap_or(&none);
        let names = Names {
            module: "",
            assembly: self.name,
            version: self.version,
            class: &class,
            method: &method,
        };
        let known = Known { parameters: parameters.as_deref(), values: &attributes.values };
        let planned = plan(names, &known, self.points, &self.settings);
        let found = || {
            self.points
                .find(self.name, &class, &method, || parameters.clone(), self.version)
                .is_some()
        };
        let (outcome, reason, source, tracer) = match &planned {
            // Helpers are in the core library of a running process only.
            Plan::Nothing | Plan::Helper(_) => {
                let (outcome, reason) = self.passed_over(&class, &method, parameters.as_deref());
                (outcome, reason, None, None)
            }
            Plan::Api | Plan::Trace(_) => {
                let (outcome, reason) =
                    match self.refusal(row, class_row, &class, &method, &planned) {
                        Some(reason) => (Outcome::Refused, Some(reason)),
                        None => (Outcome::Instrumented, None),
                    };
                let source = match (&planned, found(), attributes.asks()) {
                    (Plan::Api, ..) => Source::Api,
                    (_, true, true) => Source::PointAndAttribute,
                    (_, true, false) => Source::Point,
                    (_, false, _) => Source::Attribute,
                };
                let tracer = if let Plan::Trace(tracer) = planned { Some(tracer) } else { None };
                (outcome, reason, Some(source), tracer)
            }
        };
        Some(MethodReport {
            outcome,
            reason,
            source,
            factory: tracer.map(|tracer| tracer.factory.to_owned()),
            metric: tracer
                .filter(|tracer| !tracer.metric.is_empty())
                .map(|tracer| tracer.metric.to_owned()),
            is_async: attributes.is_async,
            class,
            method,
            parameters,
        })
    }

    /// Why no point of a method's name is for it.
    fn passed_over(
        &self,
        class: &str,
        method: &str,
        parameters: Option<&str>,
    ) -> (Outcome, Option<String>) {
        let named = self.groups.get(&(class, method)).into_iter().flatten();
        let fits = named.filter(|point| {
            point.parameters.is_none() || point.parameters.as_deref() == parameters
        });
        let windows: BTreeSet<String> = fits.map(|point| window(&point.versions)).collect();
        if windows.is_empty() {
            return (Outcome::OtherParameters, None);
        }
        let windows: Vec<String> = windows.into_iter().collect();
        (
            Outcome::OtherVersion,
            Some(format!("for {} only; this is {}", windows.join(" and "), self.version)),
        )
    }

    /// Why a method keeps its body.
    fn refusal(
        &self,
        row: u32,
        class_row: u32,
        class: &str,
        method: &str,
        plan: &Plan<'_>,
    ) -> Option<String> {
        let metadata = self.assembly.metadata();
        let of = |column| metadata.get(table::METHOD_DEF, row, column).unwrap_or_default();
        let flags = of(column::METHOD_FLAGS);
        let found = self.assembly.method(row)?;
        let body = match found.body_bytes() {
            Ok(Some(bytes)) => bytes,
            Ok(None) if flags & PINVOKE_IMPL != 0 => return Some(Refusal::Unmanaged.to_string()),
            Ok(None) => {
                return Some(
                    "It has no body: it is abstract, or implemented by the runtime.".to_owned(),
                );
            }
            Err(problem) => return Some(problem.to_string()),
        };
        let locals = found
            .body()
            .ok()
            .flatten()
            .and_then(|body| self.assembly.locals(body.header.local_signature));
        let outermost =
            metadata.get(table::TYPE_DEF, self.types.outermost(class_row), column::TYPE_FLAGS);
        let function = Function {
            id: 0,
            assembly: self.name,
            type_name: class,
            name: method,
            type_token: cil::Token::new(TokenKind::TypeDef, class_row),
            outermost_type_attributes: outermost.unwrap_or_default(),
            owner: self.kind(class_row, class),
            type_parameters: self.types.generic.get(&class_row).copied().unwrap_or_default(),
            // Nothing is refused because of them.
            ref_structs: RefStructs::default(),
            attributes: flags,
            implementation: of(column::METHOD_IMPL_FLAGS),
            signature: found.signature()?,
            body,
            locals,
            is_async: self.attributes.methods.get(&row).is_some_and(|found| found.is_async),
            direct: None,
        };
        let mut module = DryRun::new(metadata);
        let made = match plan {
            Plan::Trace(tracer) => instrument(&function, tracer, &self.settings, &mut module),
            _ => instrument_api(&function, &self.settings, &mut module),
        };
        made.err().map(|refusal| refusal.to_string())
    }

    /// What kind of type a type is.
    fn kind(&self, class: u32, name: &str) -> Owner {
        let metadata = self.assembly.metadata();
        let base =
            metadata.reference(table::TYPE_DEF, class, column::TYPE_EXTENDS).and_then(Row::token);
        let base = base.and_then(|base| type_name(metadata, base));
        // `Enum` derives from it and is a class.
        match base.as_deref() == Some("System.ValueType") && name != "System.Enum" {
            false => Owner::Class,
            true if self.attributes.by_ref_like.contains(&class) => Owner::ByRefLike,
            true => Owner::ValueType,
        }
    }
}

/// The versions of a point, in words.
fn window(versions: &rules::VersionRange) -> String {
    match (versions.min, versions.max) {
        (None, None) => "all versions".to_owned(),
        (Some(min), None) => format!("versions from {min}"),
        (None, Some(max)) => format!("versions below {max}"),
        (Some(min), Some(max)) => format!("versions from {min} to below {max}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_in_words() {
        let version = |text: &str| Some(text.parse().unwrap());
        let of = |min, max| window(&rules::VersionRange { min, max });
        assert_eq!(of(None, None), "all versions");
        assert_eq!(of(version("2"), None), "versions from 2.0.0.0");
        assert_eq!(of(None, version("3.1")), "versions below 3.1.0.0");
        assert_eq!(of(version("2"), version("3")), "versions from 2.0.0.0 to below 3.0.0.0");
    }

    #[test]
    fn what_need_not_be_read() {
        let none = Points::default();
        for (name, expected) in [
            ("App", true),
            ("System.Linq", false),
            ("Microsoft.Data", false),
            ("NewRelic.Api.Agent", true),
        ] {
            assert_eq!(may_matter(name, &none), expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_assembly() {
        let none = Points::default();
        for bytes in [&b""[..], b"MZ", b"\x7fELF"] {
            assert!(examine(String::new(), bytes, &none, AgentShape::V10_54, "").is_err());
        }
    }
}
