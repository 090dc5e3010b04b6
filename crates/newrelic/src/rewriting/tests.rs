use super::*;
use crate::events::Events;
use crate::instance::Parts;
use crate::log::Log;
use com::{ComClass, ComObject, Guid, IUnknown};
use corprof::ids::AssemblyId;
use corprof_mock::{Assembly, MockClr, Module as MockModule};
use newrelic_compat::configuration::IgnoreList;
use newrelic_compat::environment::{Environment, Platform};
use newrelic_compat::log::Sink;
use newrelic_compat::points::{DEFAULT_FACTORY, Point};
use newrelic_compat::rewrite::Scopes;
use newrelic_compat::shape::AgentShape;
use std::path::Path;
use std::sync::Mutex;

const MODULE: ModuleId = ModuleId(0x10);
const ASSEMBLY: AssemblyId = AssemblyId(0x20);

/// What happens each time when somebody asks for a module's metadata, of which there are none.
type Asked = Box<dyn FnMut() + Send>;

struct NoMetadata {
    asked: Mutex<Asked>,
}

impl ComClass for NoMetadata {
    type Interface = IUnknown;

    fn query_further(&self, _: &Guid) -> Option<IUnknown> {
        (self.asked.lock().unwrap())();
        None
    }
}

fn instance(clr: &MockClr, home: &Path) -> Arc<Instance> {
    let instance = Instance::new(Parts {
        info: clr.info().unwrap(),
        environment: Environment::new(Platform::Unix, [("", ""); 0]),
        runtime: Runtime::Core,
        major: 9,
        home: home.to_owned(),
        agent: "/home/NewRelic.Agent.Core.dll".to_owned(),
        shape: AgentShape::V10_54,
        shim: None,
        mode: Mode::Default,
        configured: CallingStrategy::Cache,
        log: Log::new(Level::Error, Sink::Nowhere),
        events: Events::default(),
        ignored: IgnoreList::default(),
    });
    let resolved = Resolved {
        strategy: CallingStrategy::Reflection,
        scopes: Scopes::Facades,
        direct: false,
        complete: true,
    };
    instance.resolved.set(resolved).unwrap();
    Arc::new(instance)
}

fn point(assembly: &str) -> Point {
    Point {
        assembly: assembly.to_owned(),
        class: "C".to_owned(),
        method: "M".to_owned(),
        parameters: None,
        versions: Default::default(),
        factory: DEFAULT_FACTORY.to_owned(),
        metric: String::new(),
        flags: 0,
    }
}

/// A refresh sets points for a module while that is looked at with those before, which name none of
/// its methods, and lists the modules that it has to change.
#[test]
fn points_that_come_while_a_module_is_looked_at_are_not_missed() {
    let home = tempfile::tempdir().unwrap();
    let clr = MockClr::new();
    let instance = instance(&clr, home.path());
    let times = Arc::new(Mutex::new(Vec::new()));
    let (own, seen) = (Arc::downgrade(&instance), Arc::clone(&times));
    let asked: Asked = Box::new(move || {
        let instance = own.upgrade().unwrap();
        let mut seen = seen.lock().unwrap();
        seen.push(instance.modules.points().has_assembly("App"));
        if seen.len() == 1 {
            let mut points = Points::default();
            points.add(point("App"));
            instance.modules.set_points(Arc::new(points));
            assert!(instance.modules.that_stay(|_| true).is_empty());
        }
    });
    let metadata = ComObject::new(NoMetadata { asked: Mutex::new(asked) }).into_interface();
    clr.model(|model| {
        let module = MockModule {
            path: "/app/App.dll".to_owned(),
            assembly: ASSEMBLY,
            metadata: Some(metadata),
            ..MockModule::default()
        };
        model.modules.insert(MODULE, module);
        let assembly = Assembly { name: "App".to_owned(), module: MODULE, ..Assembly::default() };
        model.assemblies.insert(ASSEMBLY, assembly);
    });
    module_loaded(&instance, MODULE);
    assert_eq!(*times.lock().unwrap(), [false, true], "looked at again, with the new points");
    assert!(instance.modules.get(MODULE).is_some());
}
