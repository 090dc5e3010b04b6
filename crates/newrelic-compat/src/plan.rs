//! What is done with a function that the runtime compiles.

use crate::attributes;
use crate::log::{Level, Message};
use crate::points::Points;
use crate::rewrite::helpers::{HELPER_TYPE, Helper};
use crate::rewrite::{API_ASSEMBLY, Settings, Tracer, is_api_method, is_core_library};
use crate::strategy::CallingStrategy;
use rules::Version;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A function by its names.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Path of the module.
    pub module: &'a str,
    /// Simple name of the assembly.
    pub assembly: &'a str,
    /// Version of the assembly.
    pub version: Version,
    /// Full name of the type, with `+` between a type and those in it.
    pub class: &'a str,
    /// Name of the method.
    pub method: &'a str,
}

/// What is asked about a function only where it matters, since the answers cost something.
pub trait Details {
    /// Text of its parameters ([`crate::signature_text`]); `None` if it has none.
    fn parameters(&self) -> Option<String>;
    /// Its custom attributes: full names of their types with their values.
    fn attributes(&self) -> Vec<(String, Vec<u8>)>;
}

/// What is done with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan<'p> {
    /// It keeps its body.
    Nothing,
    /// It is a helper in the core library: [`crate::rewrite::helpers::body`], at once.
    Helper(Helper),
    /// It is a method of the API: [`crate::rewrite::instrument_api`], at once.
    Api,
    /// It is traced: [`crate::rewrite::instrument`], by ReJIT, so that it can be reverted.
    Trace(Tracer<'p>),
}

/// Decides about a function. A point and attributes together give the tracer of the point with the
/// flags of both.
pub fn plan<'p>(
    names: Names<'_>,
    details: &impl Details,
    points: &'p Points,
    settings: &Settings<'_>,
) -> Plan<'p> {
    let Names { module, assembly, version, class, method } = names;
    if class == HELPER_TYPE
        && settings.strategy == CallingStrategy::Cache
        && is_core_library(module, settings.runtime)
    {
        return Helper::named(method, settings.shape).map_or(Plan::Nothing, Plan::Helper);
    }
    if assembly == API_ASSEMBLY && is_api_method(class, method) {
        return Plan::Api;
    }
    let point = points.find(assembly, class, method, || details.parameters(), version);
    let attribute = if attributes::may_have(assembly) {
        let attributes = details.attributes();
        attributes::tracer(attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
    } else {
        None
    };
    match (point.map(|point| point.tracer()), attribute) {
        (Some(point), attribute) => Plan::Trace(Tracer {
            flags: point.flags | attribute.map_or(0, |attribute| attribute.flags),
            ..point
        }),
        (None, Some(attribute)) => Plan::Trace(attribute),
        (None, None) => Plan::Nothing,
    }
}

/// Counts how often helpers are compiled, among all functions whose names were looked at, on all
/// threads.
#[derive(Debug, Default)]
pub struct Engagement {
    helpers: AtomicU64,
    functions: AtomicU64,
}

impl Engagement {
    /// Functions between two lines in the log.
    const INTERVAL: u64 = 5_000;

    /// Counts a function, and gives a line for the log now and then.
    pub fn count(&self, plan: &Plan<'_>) -> Option<Message> {
        let is_helper = u64::from(matches!(plan, Plan::Helper(_)));
        let helpers = self.helpers.fetch_add(is_helper, Relaxed) + is_helper;
        let functions = self.functions.fetch_add(1, Relaxed) + 1;
        let text = || {
            format!(
                "AppDomainFallbackCache proxy engagement: helper_invocations={helpers} \
                 total_jit_calls={functions}"
            )
        };
        functions.is_multiple_of(Self::INTERVAL).then(|| Message::new(Level::Info, text()))
    }

    /// Starts to count helpers again, at a refresh.
    pub fn refreshed(&self) {
        self.helpers.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::configuration::IgnoreList;
    use crate::points::{DEFAULT_FACTORY, load};
    use crate::rewrite::Scopes;
    use crate::shape::AgentShape;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    const CORE_MODULE: &str = "/lib/System.Private.CoreLib.dll";
    const FRAMEWORK_MODULE: &str = "C:\\Windows\\mscorlib.dll";

    /// Details with a count of how often they were asked for.
    #[derive(Default)]
    struct Known {
        parameters: &'static str,
        attributes: Vec<(&'static str, &'static [u8])>,
        asked: Cell<(u32, u32)>,
    }

    impl Details for Known {
        fn parameters(&self) -> Option<String> {
            self.asked.set((self.asked.get().0 + 1, self.asked.get().1));
            Some(self.parameters.to_owned())
        }

        fn attributes(&self) -> Vec<(String, Vec<u8>)> {
            self.asked.set((self.asked.get().0, self.asked.get().1 + 1));
            self.attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_vec()))
                .collect()
        }
    }

    fn settings(
        runtime: Runtime,
        shape: AgentShape,
        strategy: CallingStrategy,
    ) -> Settings<'static> {
        Settings {
            runtime,
            shape,
            start_method: None,
            strategy,
            agent_path: "",
            scopes: Scopes::Facades,
        }
    }

    fn points() -> Points {
        let xml = "<extension><instrumentation><tracerFactory name='F' metricName='M'>\
                   <match assemblyName='App' className='C'><exactMethodMatcher methodName='Any'/>\
                   <exactMethodMatcher methodName='One' parameters='System.Int32'/></match>\
                   <match assemblyName='System.Net.Http' className='H'><exactMethodMatcher \
                   methodName='Any'/></match>\
                   </tracerFactory></instrumentation></extension>";
        let files = BTreeMap::from([("x".to_owned(), xml.to_owned())]);
        load(&files, &IgnoreList::default(), AgentShape::V10_54).points
    }

    fn names<'a>(module: &'a str, assembly: &'a str, class: &'a str, method: &'a str) -> Names<'a> {
        Names { module, assembly, version: Version::default(), class, method }
    }

    fn planned(names: Names<'_>, known: &Known) -> Option<(String, u32)> {
        let points = points();
        let settings = settings(Runtime::Core, AgentShape::V10_54, CallingStrategy::Cache);
        match plan(names, known, &points, &settings) {
            Plan::Trace(tracer) => Some((tracer.factory.to_owned(), tracer.flags)),
            Plan::Nothing => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn points_and_attributes() {
        let app = |class, method| names("/App.dll", "App", class, method);
        let none = Known::default();
        assert_eq!(planned(app("C", "Other"), &none), None);
        assert_eq!(planned(app("D", "Any"), &none), None);
        assert_eq!(planned(app("C", "Any"), &none), Some(("F".to_owned(), 0x7400)));
        assert_eq!(planned(app("C", "One"), &none), None);
        let int = Known { parameters: "System.Int32", ..Known::default() };
        assert_eq!(planned(app("C", "One"), &int), Some(("F".to_owned(), 0x7400)));
        let traced =
            Known { attributes: vec![(attributes::TRACE, &[1, 0, 0, 0])], ..Known::default() };
        assert_eq!(
            planned(app("D", "Any"), &traced),
            Some((DEFAULT_FACTORY.to_owned(), 0x0010_0000))
        );
        assert_eq!(planned(app("C", "Any"), &traced), Some(("F".to_owned(), 0x0010_7400)));
        // Attributes in libraries of others do not count.
        assert_eq!(
            planned(names("/x.dll", "System.Net.Http", "H", "Any"), &traced),
            Some(("F".to_owned(), 0x7400))
        );
        assert_eq!(planned(names("/x.dll", "System.Net.Http", "H", "Other"), &traced), None);
    }

    #[test]
    fn details_are_asked_for_where_they_matter() {
        let known = Known::default();
        planned(names("/x.dll", "System.Net.Http", "H", "Any"), &known);
        assert_eq!(known.asked.get(), (0, 0));
        planned(names("/App.dll", "App", "C", "Any"), &known);
        assert_eq!(known.asked.get(), (0, 1));
        planned(names("/App.dll", "App", "C", "One"), &known);
        assert_eq!(known.asked.get(), (1, 2));
    }

    #[test]
    fn helpers_by_module_type_and_name() {
        let points = Points::default();
        let of = |runtime, strategy, module, class, method| {
            let settings = settings(runtime, AgentShape::V10_54, strategy);
            plan(
                names(module, "System.Private.CoreLib", class, method),
                &Known::default(),
                &points,
                &settings,
            )
        };
        let cache = CallingStrategy::Cache;
        for helper in Helper::of(AgentShape::V10_54) {
            let expected = Plan::Helper(*helper);
            assert_eq!(of(Runtime::Core, cache, CORE_MODULE, HELPER_TYPE, helper.name()), expected);
            assert_eq!(
                of(Runtime::Framework, cache, FRAMEWORK_MODULE, HELPER_TYPE, helper.name()),
                expected
            );
            // The module of the other runtime, another type, another strategy.
            assert_eq!(
                of(Runtime::Core, cache, FRAMEWORK_MODULE, HELPER_TYPE, helper.name()),
                Plan::Nothing
            );
            assert_eq!(
                of(Runtime::Framework, cache, CORE_MODULE, HELPER_TYPE, helper.name()),
                Plan::Nothing
            );
            assert_eq!(
                of(Runtime::Core, cache, CORE_MODULE, "System.Other", helper.name()),
                Plan::Nothing
            );
            assert_eq!(
                of(
                    Runtime::Core,
                    CallingStrategy::Reflection,
                    CORE_MODULE,
                    HELPER_TYPE,
                    helper.name()
                ),
                Plan::Nothing
            );
        }
        for unknown in
            [".ctor", ".cctor", "GetThreadLocalBoolean", "SetAppDomainBoolean", "Unknown"]
        {
            assert_eq!(
                of(Runtime::Core, cache, CORE_MODULE, HELPER_TYPE, unknown),
                Plan::Nothing,
                "{unknown}"
            );
        }
    }

    #[test]
    fn names_of_different_points_do_not_mix() {
        let matched = |assembly: &str, class: &str, method: &str| {
            format!(
                "<match assemblyName='{assembly}' className='{class}'><exactMethodMatcher \
                    methodName='{method}'/></match>"
            )
        };
        let xml = format!(
            "<extension><instrumentation><tracerFactory>{}{}</tracerFactory></instrumentation></extension>",
            matched("App", "C", "M"),
            matched("Lib", "D", "N")
        );
        let files = BTreeMap::from([("x".to_owned(), xml)]);
        let points = load(&files, &IgnoreList::default(), AgentShape::V10_54).points;
        let settings = settings(Runtime::Core, AgentShape::V10_54, CallingStrategy::Cache);
        for assembly in ["App", "Lib"] {
            for class in ["C", "D"] {
                for method in ["M", "N"] {
                    let names = names("/x.dll", assembly, class, method);
                    let is_traced = matches!(
                        plan(names, &Known::default(), &points, &settings),
                        Plan::Trace(_)
                    );
                    let expected =
                        [("App", "C", "M"), ("Lib", "D", "N")].contains(&(assembly, class, method));
                    assert_eq!(is_traced, expected, "{assembly} {class} {method}");
                }
            }
        }
    }

    #[test]
    fn each_shape_knows_its_own_helpers() {
        let points = Points::default();
        for shape in [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55] {
            for (runtime, module) in
                [(Runtime::Core, CORE_MODULE), (Runtime::Framework, FRAMEWORK_MODULE)]
            {
                let settings = settings(runtime, shape, CallingStrategy::Cache);
                let engagement = Engagement::default();
                for helper in Helper::ALL {
                    let names = names(module, "System.Private.CoreLib", HELPER_TYPE, helper.name());
                    let plan = plan(names, &Known::default(), &points, &settings);
                    let is_known = Helper::of(shape).contains(helper);
                    let expected = if is_known { Plan::Helper(*helper) } else { Plan::Nothing };
                    assert_eq!(plan, expected, "{shape} {}", helper.name());
                    engagement.count(&plan);
                }
                let counts = (Helper::of(shape).len() as u64, Helper::ALL.len() as u64);
                let counted =
                    (engagement.helpers.load(Relaxed), engagement.functions.load(Relaxed));
                assert_eq!(counted, counts, "{shape}");
            }
        }
    }

    #[test]
    fn methods_of_the_api() {
        let points = Points::default();
        let of = |assembly, class, method| {
            let settings = settings(Runtime::Core, AgentShape::V10_54, CallingStrategy::Reflection);
            plan(names("/x.dll", assembly, class, method), &Known::default(), &points, &settings)
        };
        const CLASS: &str = "NewRelic.Api.Agent.NewRelic";
        assert_eq!(of(API_ASSEMBLY, CLASS, "SetTransactionName"), Plan::Api);
        assert_eq!(of(API_ASSEMBLY, CLASS, "AddCustomAttribute"), Plan::Api);
        assert_eq!(of(API_ASSEMBLY, CLASS, "GetAgent"), Plan::Nothing);
        assert_eq!(of(API_ASSEMBLY, CLASS, ".cctor"), Plan::Nothing);
        assert_eq!(
            of(API_ASSEMBLY, "NewRelic.Api.Agent.TransactionAttribute", "get_Web"),
            Plan::Nothing
        );
        assert_eq!(of("Other", CLASS, "SetTransactionName"), Plan::Nothing);
    }

    #[test]
    fn engagement_is_logged_now_and_then() {
        let engagement = Engagement::default();
        let helper = Plan::Helper(Helper::LoadAssemblyOrThrow);
        let mut lines: Vec<String> = Vec::new();
        for index in 0..10_000 {
            if index == 6_000 {
                engagement.refreshed();
            }
            let plan = if index % 1_000 == 0 { helper } else { Plan::Nothing };
            lines.extend(engagement.count(&plan).map(|message| message.text));
        }
        let expected = [(5, 5_000), (4, 10_000)].map(|(helpers, all)| {
            format!(
                "AppDomainFallbackCache proxy engagement: helper_invocations={helpers} \
                total_jit_calls={all}"
            )
        });
        assert_eq!(lines, expected);
    }
}
