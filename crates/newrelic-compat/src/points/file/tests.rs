use super::*;
use crate::points::load;
use rules::Version;
use std::collections::BTreeMap;

fn loaded_with(xml: &str, ignored: &IgnoreList, shape: AgentShape) -> Loaded {
    load(&BTreeMap::from([("test.xml".to_owned(), xml.to_owned())]), ignored, shape)
}

fn loaded(xml: &str) -> Loaded {
    loaded_with(xml, &IgnoreList::default(), AgentShape::V10_54)
}

/// The file with one factory with these attributes.
fn factory(attributes: &str, matches: &str) -> String {
    format!(
        "<extension><instrumentation><tracerFactory \
            {attributes}>{matches}</tracerFactory></instrumentation></extension>"
    )
}

const MATCH: &str =
    "<match assemblyName='A' className='C'><exactMethodMatcher methodName='M'/></match>";

fn only(xml: &str) -> Point {
    let loaded = loaded(xml);
    assert_eq!((loaded.invalid_files, loaded.points.len()), (0, 1), "{xml}");
    loaded.points.iter().next().unwrap().clone()
}

fn find(loaded: &Loaded, parameters: &str, version: [u16; 4]) -> Option<u32> {
    let found = loaded.points.find("A", "C", "M", || Some(parameters.to_owned()), Version(version));
    found.map(|point| point.flags >> 16 & 7)
}

#[test]
fn defaults() {
    let point = only(&factory("", MATCH));
    assert_eq!(
        (point.flags, point.factory.as_str(), point.metric.as_str()),
        (0x3400, DEFAULT_FACTORY, "")
    );
    assert_eq!(
        (point.assembly.as_str(), point.class.as_str(), point.method.as_str()),
        ("A", "C", "M")
    );
    assert_eq!(point.parameters, None);
    assert_eq!(only(&factory("name=''", MATCH)).factory, DEFAULT_FACTORY);
    assert_eq!(only(&factory("name='My.Factory'", MATCH)).factory, "My.Factory");
}

#[test]
fn everything_set() {
    let all = "name='My.Factory' metricName='Custom/X' metric='both' level='3' \
               suppressRecursiveCalls='false' transactionTraceSegment='false' \
               transactionNamingPriority='5'";
    let point = only(&factory(all, MATCH));
    assert_eq!((point.flags, point.metric.as_str()), (0x0503_5800, "Custom/X"));
}

#[test]
fn each_attribute() {
    let flags = |attributes: &str| only(&factory(attributes, MATCH)).flags;
    assert_eq!(flags("metric='scoped'"), 0x3400);
    assert_eq!(flags("metric='UNSCOPED'"), 0x2c00);
    assert_eq!(flags("metric='both'"), 0x3c00);
    assert_eq!(flags("metric='none'"), 0x2400);
    assert_eq!(flags("metricName='Instance'"), 0xf400);
    assert_eq!(flags("metricName=''"), 0x3400);
    assert_eq!(flags("level='7'"), 0x0007_3400);
    assert_eq!(flags("level='8'"), 0x3400);
    assert_eq!(flags("level=''"), 0x3400);
    assert_eq!(flags("transactionNamingPriority='1'"), 0x0100_3400);
    assert_eq!(flags("suppressRecursiveCalls='TRUE'"), 0x3400);
    assert_eq!(flags("suppressRecursiveCalls='no'"), 0x1400);
    assert_eq!(flags("transactionTraceSegment='false'"), 0x3000);
    assert_eq!(flags("enabled='maybe'"), 0x3400);
    assert!(loaded(&factory("enabled='False'", MATCH)).points.is_empty());
}

#[test]
fn names_of_nodes_in_any_case() {
    let xml = "<EXTENSION xmlns='urn:newrelic-extension'><Instrumentation><TRACERFACTORY><Match \
               ASSEMBLYNAME='A' classname='C'><exactmethodmatcher \
               METHODNAME='M'/></Match></TRACERFACTORY></Instrumentation></EXTENSION>";
    assert_eq!(only(xml).method, "M");
}

#[test]
fn several_classes() {
    let xml = factory(
        "",
        "<match assemblyName='A' className='C,N.D`1, E,F&lt;G,H&gt;,I[J,K]'><exactMethodMatcher \
            methodName='M'/></match>",
    );
    let loaded = loaded(&xml);
    let mut classes: Vec<&str> = loaded.points.methods_of("A").map(|(class, _)| class).collect();
    classes.sort_unstable();
    assert_eq!(classes, [" E", "C", "F<G,H>", "I[J,K]", "N.D`1"]);
}

#[test]
fn parameters_choose_overloads() {
    let xml = "<extension><instrumentation>\
        <tracerFactory level='1'><match assemblyName='A' className='C'><exactMethodMatcher \
        methodName='M'/></match></tracerFactory>\
        <tracerFactory level='2'><match assemblyName='A' className='C'><exactMethodMatcher \
        methodName='M' parameters=' System.Int32, System.String '/></match></tracerFactory>\
        <tracerFactory level='3'><match assemblyName='A' className='C'><exactMethodMatcher \
        methodName='M' parameters='Void'/></match></tracerFactory>\
        </instrumentation></extension>";
    let loaded = loaded(xml);
    assert_eq!(find(&loaded, "System.Int32,System.String", [1; 4]), Some(2));
    assert_eq!(find(&loaded, "", [1; 4]), Some(3));
    assert_eq!(find(&loaded, "System.String", [1; 4]), Some(1));
    let none = loaded.points.find("A", "C", "N", || None, Version::default());
    assert_eq!(none, None);
    let case = loaded.points.find("a", "C", "M", || None, Version::default());
    assert_eq!(case, None);
}

#[test]
fn empty_parameters_are_none_and_absent_ones_are_all() {
    let with = |parameters: &str| {
        let matched = format!(
            "<match assemblyName='A' className='C'><exactMethodMatcher methodName='M' \
                {parameters}/></match>"
        );
        loaded(&factory("", &matched))
    };
    for parameters in ["parameters=''", "parameters='void'", "parameters=' '"] {
        assert_eq!(find(&with(parameters), "", [1; 4]), Some(0), "{parameters}");
        assert_eq!(find(&with(parameters), "System.Int32", [1; 4]), None, "{parameters}");
    }
    assert_eq!(find(&with(""), "System.Int32", [1; 4]), Some(0));
}

#[test]
fn versions_choose_among_points() {
    let matched = |level: u8, range: &str, parameters: &str| {
        format!(
            "<tracerFactory level='{level}'><match assemblyName='A' className='C' \
                {range}><exactMethodMatcher methodName='M' {parameters}/></match></tracerFactory>"
        )
    };
    let body = matched(1, "minVersion='1.0' maxVersion='2.0'", "parameters='void'")
        + &matched(2, "minVersion='2'", "parameters='void'")
        + &matched(3, "maxVersion='nonsense'", "");
    let loaded =
        loaded(&format!("<extension><instrumentation>{body}</instrumentation></extension>"));
    assert_eq!(find(&loaded, "", [1, 0, 0, 0]), Some(1));
    assert_eq!(find(&loaded, "", [1, 65_535, 0, 0]), Some(1));
    assert_eq!(find(&loaded, "", [2, 0, 0, 0]), Some(2));
    // There are points for the parameters, though none for the version.
    assert_eq!(find(&loaded, "", [0, 9, 0, 0]), None);
    assert_eq!(find(&loaded, "System.Int32", [0, 9, 0, 0]), Some(3));
}

#[test]
fn the_first_of_equal_points_wins() {
    let body = "<tracerFactory level='1'>".to_owned()
        + MATCH
        + "</tracerFactory><tracerFactory level='2'>"
        + MATCH
        + "</tracerFactory>";
    let loaded =
        loaded(&format!("<extension><instrumentation>{body}</instrumentation></extension>"));
    assert_eq!((loaded.points.len(), find(&loaded, "", [1; 4])), (2, Some(1)));
}

#[test]
fn missing_nodes_are_only_warned_of() {
    for xml in ["", "<other/>", "<extension/>", "<extension><other/></extension>"] {
        let loaded = loaded(xml);
        assert_eq!((loaded.invalid_files, loaded.points.len()), (0, 0), "{xml}");
        assert_eq!(loaded.messages[0].level, Level::Warn, "{xml}");
    }
}

#[test]
fn invalid_files() {
    for xml in ["<extension>", "<extension></instrumentation>", "not xml <"] {
        let loaded = loaded(xml);
        assert_eq!((loaded.invalid_files, loaded.points.len()), (1, 0), "{xml}");
    }
    let body = "<tracerFactory>".to_owned()
        + MATCH
        + "</tracerFactory><tracerFactory level='high'>"
        + MATCH
        + "</tracerFactory>";
    let loaded =
        loaded(&format!("<extension><instrumentation>{body}</instrumentation></extension>"));
    // What was read before stays.
    assert_eq!((loaded.invalid_files, loaded.points.len()), (1, 1));
    assert_eq!(self::loaded(&factory("transactionNamingPriority='x'", MATCH)).invalid_files, 1);
}

#[test]
fn the_core_library_is_not_instrumented() {
    let xml = |assembly: &str| factory("", &MATCH.replace("'A'", &format!("'{assembly}'")));
    for (assembly, shape, text) in [
        (
            "mscorlib",
            AgentShape::V10_53,
            Some("Skipping instrumentation targeted at the mscorlib assembly for class C"),
        ),
        ("System.Private.CoreLib", AgentShape::V10_53, None),
        (
            "mscorlib",
            AgentShape::V10_54,
            Some("Skipping instrumentation targeted at the core library assembly for class C"),
        ),
        (
            "System.Private.CoreLib",
            AgentShape::V10_55,
            Some("Skipping instrumentation targeted at the core library assembly for class C"),
        ),
    ] {
        let loaded = loaded_with(&xml(assembly), &IgnoreList::default(), shape);
        assert_eq!(loaded.points.is_empty(), text.is_some(), "{assembly} {shape}");
        assert_eq!(loaded.messages.first().map(|message| message.text.as_str()), text);
    }
}

#[test]
fn ignored_classes() {
    let mut ignored = IgnoreList::default();
    ignored.add("a", Some("c"));
    let loaded = loaded_with(&factory("", MATCH), &ignored, AgentShape::V10_54);
    assert_eq!((loaded.points.len(), loaded.messages[0].level), (0, Level::Debug));
}

#[test]
fn deprecated_files_are_skipped() {
    let name = "/home/extensions/NewRelic.Providers.Wrapper.Logging.Instrumentation.xml";
    let files = BTreeMap::from([(name.to_owned(), factory("", MATCH))]);
    let loaded = load(&files, &IgnoreList::default(), AgentShape::V10_54);
    assert_eq!(
        (loaded.points.len(), loaded.messages[0].level, loaded.invalid_files),
        (0, Level::Warn, 0)
    );
}

#[test]
fn each_part_of_a_point_counts() {
    let file = |parameters: &str, versions: &str| {
        let parameters =
            if parameters == "-" { String::new() } else { format!("parameters='{parameters}'") };
        factory(
            "",
            &format!(
                "<match assemblyName='Asm' className='Space.Outer+Inner' {versions}>\
                 <exactMethodMatcher methodName='Method' {parameters}/></match>"
            ),
        )
    };
    let (asm, class, method) = ("Asm", "Space.Outer+Inner", "Method");
    let both = "minVersion='2.0' maxVersion='3.0'";
    for (parameters, versions, of, found) in [
        ("-", "", (asm, class, method, "", 1), true),
        ("-", "", (asm, class, method, "System.Int32", 1), true),
        ("-", "", ("asm", class, method, "", 1), false),
        ("-", "", ("Asm.Core", class, method, "", 1), false),
        ("-", "", (asm, "Space.Outer", method, "", 1), false),
        ("-", "", (asm, "Space.Outer+inner", method, "", 1), false),
        ("-", "", (asm, "Inner", method, "", 1), false),
        ("-", "", (asm, class, "method", "", 1), false),
        ("-", "", (asm, class, "Methods", "", 1), false),
        ("", "", (asm, class, method, "", 1), true),
        ("", "", (asm, class, method, "System.Int32", 1), false),
        ("System.Int32", "", (asm, class, method, "System.Int32", 1), true),
        ("System.Int32", "", (asm, class, method, "system.int32", 1), false),
        ("System.Int32", "", (asm, class, method, "", 1), false),
        ("System.Int32", "", (asm, class, method, "System.Int32,System.Int32", 1), false),
        (
            "System.Int32,\tSystem.Int32",
            "",
            (asm, class, method, "System.Int32,System.Int32", 1),
            true,
        ),
        ("-", both, (asm, class, method, "", 1), false),
        ("-", both, (asm, class, method, "", 2), true),
        ("-", both, (asm, class, method, "", 3), false),
        ("-", "minVersion='2'", (asm, class, method, "", 1), false),
        ("-", "minVersion='2'", (asm, class, method, "", 9), true),
        ("-", "maxVersion='2'", (asm, class, method, "", 1), true),
        ("-", "maxVersion='2'", (asm, class, method, "", 2), false),
        ("-", "minVersion='x' maxVersion='1.2.3.4.5'", (asm, class, method, "", 7), true),
    ] {
        let loaded = loaded(&file(parameters, versions));
        assert_eq!(loaded.points.len(), 1);
        let (assembly, class, method, text, major) = of;
        let point = loaded.points.find(
            assembly,
            class,
            method,
            || Some(text.to_owned()),
            Version([major, 0, 0, 0]),
        );
        assert_eq!(point.is_some(), found, "{parameters} {versions} {of:?}");
    }
}

#[test]
fn all_bits_of_levels_and_priorities() {
    for number in 0..8_u32 {
        let attributes = format!("level='{number}' transactionNamingPriority='{number}'");
        assert_eq!(only(&factory(&attributes, MATCH)).flags, 0x3400 | number << 16 | number << 24);
    }
    for (attribute, bits) in [
        ("metric='scoped'", 0x1000),
        ("metric='unscoped'", 0x0800),
        ("metric='both'", 0x1800),
        ("metric='none'", 0),
        ("metric=''", 0x1000),
        ("metric='other'", 0),
    ] {
        assert_eq!(only(&factory(attribute, MATCH)).flags & 0x1800, bits, "{attribute}");
    }
}
