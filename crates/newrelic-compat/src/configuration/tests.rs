use super::*;
use crate::environment::Platform;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(Platform::Unix, variables.iter().copied())
}

fn read(global: &str, local: Option<&str>, variables: &[(&str, &str)]) -> Configuration {
    let files =
        Files { global: global.as_bytes(), local: local.map(str::as_bytes), application: None };
    Configuration::read(files, &environment(variables)).unwrap()
}

fn with(inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><configuration \
            xmlns=\"urn:newrelic-config\">{inner}</configuration>"
    )
}

#[test]
fn agent_enabled_of_global_and_local() {
    let file = |value: &str| match value {
        "-" => "<configuration/>".to_owned(),
        value => format!("<configuration agentEnabled='{value}'/>"),
    };
    for (global, local, enabled) in [
        ("true", None, true),
        ("TRUE", None, true),
        ("false", None, false),
        ("1", None, false),
        ("", None, false),
        ("-", None, true),
        ("true", Some("true"), true),
        ("true", Some("false"), false),
        ("false", Some("true"), false),
        ("false", Some("false"), false),
        ("true", Some("-"), true),
        ("-", Some("false"), false),
        ("-", Some("-"), true),
        ("false", Some("-"), false),
    ] {
        let configuration = read(&file(global), local.map(file).as_deref(), &[]);
        assert_eq!(configuration.agent_enabled, enabled, "{global} {local:?}");
        assert_eq!(
            configuration.local_agent_enabled,
            local.map(|value| value != "false"),
            "{global} {local:?}"
        );
    }
}

#[test]
fn defaults() {
    let configuration = read("<configuration/>", None, &[]);
    assert_eq!(configuration.log, Settings { level: Level::Info, console: false, enabled: true });
    assert!(configuration.included.is_empty() && configuration.excluded.is_empty());
    assert_eq!(
        (configuration.pools, configuration.messages),
        (ApplicationPools::default(), Vec::new())
    );
    assert_eq!(configuration.application_enabled, None);
}

#[test]
fn levels() {
    for (level, expected) in [
        ("off", Level::Error),
        ("error", Level::Error),
        ("WARN", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("fine", Level::Debug),
        ("verbose", Level::Trace),
        ("finest", Level::Trace),
        ("all", Level::Trace),
        ("nonsense", Level::Info),
        ("", Level::Info),
    ] {
        let file = with(&format!("<log level='{level}'/>"));
        assert_eq!(read(&file, None, &[]).log.level, expected, "{level}");
        for name in ["NEW_RELIC_LOG_LEVEL", "NEWRELIC_LOG_LEVEL"] {
            let configuration = read(&with("<log level='warn'/>"), None, &[(name, level)]);
            assert_eq!(configuration.log.level, expected, "{name} {level}");
        }
    }
}

#[test]
fn the_log_from_file_and_environment() {
    let log = |file: &str, variables: &[(&str, &str)]| {
        let log = read(&with(file), None, variables).log;
        (log.console, log.enabled)
    };
    assert_eq!(log("<log/>", &[]), (false, true));
    assert_eq!(log("<log console='true' enabled='false'/>", &[]), (true, false));
    assert_eq!(log("<log console='1' enabled='0'/>", &[]), (true, false));
    assert_eq!(log("<log console='no' enabled='no'/>", &[]), (false, false));
    // A level in the environment makes the whole element count nothing.
    assert_eq!(
        log("<log console='true' enabled='false'/>", &[("NEW_RELIC_LOG_LEVEL", "debug")]),
        (false, true)
    );
    let variables = [("NEW_RELIC_LOG_CONSOLE", "1"), ("NEW_RELIC_LOG_ENABLED", "False")];
    assert_eq!(log("<log/>", &variables), (true, false));
    let unknown = [("NEW_RELIC_LOG_CONSOLE", "maybe"), ("NEW_RELIC_LOG_ENABLED", "")];
    assert_eq!(log("<log console='true' enabled='false'/>", &unknown), (true, false));
}

#[test]
fn a_local_file_replaces_the_global_one() {
    let global = with(
        "<log level='debug'/><instrumentation><applications><application \
         name='global.exe'/></applications><rules>\
         <ignore assemblyName='G'/></rules></instrumentation><applicationPools><defaultBehavior \
         instrument='false'/>\
         </applicationPools>",
    );
    let configuration = read(&global, Some("<configuration/>"), &[]);
    assert_eq!(configuration.log.level, Level::Info);
    assert!(configuration.included.is_empty() && configuration.pools.by_default);
    assert!(!configuration.ignored.contains("G", "C"));
    let kept = read(&global, None, &[]);
    assert_eq!(
        (kept.log.level, kept.included.as_slice()),
        (Level::Debug, &["global.exe".to_owned()][..])
    );
    assert!(kept.ignored.contains("G", "C") && !kept.pools.by_default);
    for broken in ["<configuration", "", "<other/>", "<x:configuration/>"] {
        let configuration = read(&global, Some(broken), &[]);
        assert_eq!(
            (configuration.log.level, configuration.local_agent_enabled),
            (Level::Debug, None),
            "{broken}"
        );
        assert_eq!(configuration.messages.len(), 1, "{broken}");
    }
}

#[test]
fn lists_of_processes() {
    let file = with(
        "<instrumentation><applications><application name='a.exe'/><application name='b.exe' \
         include='true'/>\
         <application name='c.exe' include='FALSE'/><application name='d.exe' \
         include=''/><application/></applications>\
         </instrumentation>",
    );
    let lists = |variables: &[(&str, &str)]| {
        let configuration = read(&file, None, variables);
        (configuration.included.join(" "), configuration.excluded.join(" "))
    };
    assert_eq!(lists(&[]), ("a.exe b.exe d.exe".to_owned(), "c.exe".to_owned()));
    let include = [("NEW_RELIC_INCLUDED_APPLICATION_NAMES", "x,y")];
    assert_eq!(lists(&include), ("x y".to_owned(), "c.exe".to_owned()));
    let exclude = [("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "z")];
    assert_eq!(lists(&exclude), ("a.exe b.exe d.exe".to_owned(), "z".to_owned()));
    assert_eq!(lists(&[("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "")]).1, "");
}

#[test]
fn application_configurations() {
    let of = |application: &str| {
        let files = Files {
            global: b"<configuration/>",
            local: None,
            application: Some(application.as_bytes()),
        };
        let configuration = Configuration::read(files, &environment(&[])).unwrap();
        (configuration.application_enabled, configuration.messages.len())
    };
    let add = |key: &str, value: &str| {
        format!(
            "<configuration><appSettings><add key='{key}' \
                value='{value}'/></appSettings></configuration>"
        )
    };
    assert_eq!(of(&add("NewRelic.AgentEnabled", "true")), (Some(true), 0));
    assert_eq!(of(&add("newrelic.agentenabled", "TRUE")), (Some(true), 0));
    assert_eq!(of(&add("NewRelic.AgentEnabled", "false")), (Some(false), 0));
    assert_eq!(of(&add("NewRelic.AgentEnabled", "1")), (Some(false), 0));
    assert_eq!(of(&add("Other", "true")), (None, 0));
    for empty in
        ["", "<other/>", "<configuration/>", "<configuration><appSettings/></configuration>"]
    {
        assert_eq!(of(empty), (None, 0), "{empty}");
    }
    assert_eq!(of("<configuration"), (None, 1));
}

#[test]
fn a_global_file_that_is_none() {
    let read = |global: &[u8]| {
        Configuration::read(Files { global, ..Files::default() }, &environment(&[]))
    };
    assert_eq!(read(b""), Err(ConfigurationError::NoConfiguration));
    assert_eq!(read(b"<x:configuration/>"), Err(ConfigurationError::NoConfiguration));
    assert!(matches!(read(b"<configuration>"), Err(ConfigurationError::Global(_))));
    assert!(matches!(
        read(b"\xff\xfe<\0c\0"),
        Err(ConfigurationError::Global(XmlError::Encoding { offset: 0 }))
    ));
    assert!(
        read(b"\xef\xbb\xbf<CONFIGURATION AGENTENABLED='false'/>")
            .is_ok_and(|read| !read.agent_enabled)
    );
}

#[test]
fn each_source_of_the_level() {
    let file = |level: &str| with(&format!("<log level='{level}'/>"));
    let (new, old) = ("NEW_RELIC_LOG_LEVEL", "NEWRELIC_LOG_LEVEL");
    for (global, local, variables, expected) in [
        (Some("error"), None, &[][..], Level::Error),
        (None, None, &[], Level::Info),
        (Some("error"), Some("debug"), &[], Level::Debug),
        // A local file without a level does not leave it to the global one.
        (Some("error"), Some(""), &[], Level::Info),
        (Some("error"), None, &[(new, "debug")], Level::Debug),
        (Some("error"), None, &[(old, "debug")], Level::Debug),
        (Some("error"), None, &[(new, "trace"), (old, "debug")], Level::Info),
        (Some("error"), None, &[(new, "warn"), (old, "debug")], Level::Warn),
        (Some("error"), Some("warn"), &[(new, "ALL")], Level::Trace),
        // One that is unknown does not leave it to the file.
        (Some("error"), Some("warn"), &[(new, "loud")], Level::Info),
        (Some("error"), None, &[(new, "")], Level::Info),
        (None, None, &[(new, "off")], Level::Error),
    ] {
        let global = global.map_or_else(|| with(""), file);
        let configuration = read(&global, local.map(file).as_deref(), variables);
        assert_eq!(configuration.log.level, expected, "{global} {local:?} {variables:?}");
    }
}

#[test]
fn each_list_from_each_source() {
    let file = |entries: &[(&str, Option<&str>)]| {
        let entry = |(name, include): &(&str, Option<&str>)| match include {
            Some(include) => format!("<application name='{name}' include='{include}'/>"),
            None => format!("<application name='{name}'/>"),
        };
        let entries: String = entries.iter().map(entry).collect();
        with(&format!("<instrumentation><applications>{entries}</applications></instrumentation>"))
    };
    let (on, off) =
        ("NEW_RELIC_INCLUDED_APPLICATION_NAMES", "NEW_RELIC_EXCLUDED_APPLICATION_NAMES");
    for (global, local, variables, included, excluded) in [
        (&[("g", None)][..], None, &[][..], "g", ""),
        (&[("g", Some("true"))], None, &[], "g", ""),
        (&[("g", Some("false"))], None, &[], "", "g"),
        (&[("g", Some("False"))], None, &[], "", "g"),
        (&[("g", None), ("g", Some("false"))], None, &[], "g", "g"),
        (&[("g", None), ("h", None)], None, &[], "g h", ""),
        (&[("g", None)], Some(&[("l", None)][..]), &[], "l", ""),
        (&[("g", None)], Some(&[("l", Some("false"))]), &[], "", "l"),
        (&[("g", None)], Some(&[]), &[], "", ""),
        (&[("g", None)], None, &[(on, "e")], "e", ""),
        (&[("g", Some("false"))], None, &[(on, "e")], "e", "g"),
        (&[("g", Some("false"))], None, &[(off, "e")], "", "e"),
        (&[("g", None)], None, &[(off, "e")], "g", "e"),
        (&[("g", None)], Some(&[("l", None)]), &[(on, "e"), (off, "f")], "e", "f"),
        (&[], None, &[(on, "e,f")], "e f", ""),
        (&[], None, &[(off, "e,f")], "", "e f"),
        (&[("g", None), ("h", Some("false"))], None, &[(on, ""), (off, "")], "", ""),
    ] {
        let configuration = read(&file(global), local.map(file).as_deref(), variables);
        let lists = (configuration.included.join(" "), configuration.excluded.join(" "));
        let expected = (included.to_owned(), excluded.to_owned());
        assert_eq!(lists, expected, "{global:?} {local:?} {variables:?}");
    }
}
