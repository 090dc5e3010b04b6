//! Files of others: whatever is in them, there is a configuration and there are points, or a reason
//! why not.

use newrelic_compat::configuration::{Configuration, Files, IgnoreList};
use newrelic_compat::environment::{Environment, Platform};
use newrelic_compat::points::load;
use newrelic_compat::shape::{self, AgentShape};
use newrelic_compat::xml;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pieces of the agent's files in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<configuration>",
        "<configuration agentEnabled='false'>",
        "</configuration>",
        "<log level='all' console=\"true\"/>",
        "<extension xmlns='urn:newrelic-extension'>",
        "</extension>",
        "<instrumentation>",
        "</instrumentation>",
        "<tracerFactory level='3'>",
        "<tracerFactory level='x'>",
        "<tracerFactory metricName=''>",
        "</tracerFactory>",
        "<match assemblyName='A' className='B,C[D,E],<' minVersion='1'>",
        "<match>",
        "</match>",
        "<exactMethodMatcher methodName='M' parameters='System.Int32 , !!0'/>",
        "<exactMethodMatcher/>",
        "<applicationPools><applicationPool name='x'/>",
        "</applicationPools>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "<?xml version='1.0' encoding='utf-16'?>",
        "&amp;&#0;&b;",
        "\u{feff}",
        "\0",
        "'",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_configuration_is_read_or_refused(global in pieces(), local in pieces(), raw in prop::collection::vec(any::<u8>(), 0..60)) {
        let environment = Environment::new(Platform::Unix, [("NEW_RELIC_LOG_CONSOLE", "1")]);
        let files = Files { global: global.as_bytes(), local: Some(local.as_bytes()), application: Some(&raw) };
        if let Ok(configuration) = Configuration::read(files, &environment) {
            prop_assert!(configuration.log.console);
        }
        let files = Files { global: &raw, local: None, application: Some(local.as_bytes()) };
        let _ = Configuration::read(files, &environment);
    }

    #[test]
    fn any_extension_gives_points_or_is_invalid(one in pieces(), two in pieces()) {
        let files = BTreeMap::from([("1.xml".to_owned(), one), ("2.xml".to_owned(), two)]);
        let loaded = load(&files, &IgnoreList::default(), AgentShape::V10_54);
        prop_assert!(loaded.invalid_files <= 2);
        prop_assert_eq!(loaded.points.iter().count(), loaded.points.len());
    }

    #[test]
    fn any_file_has_a_shape_or_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = shape::of_file(&bytes);
        let _ = xml::decode(&bytes);
    }
}

#[test]
fn entities_that_grow_stay_small() {
    let mut text = "<!DOCTYPE lolz [<!ENTITY a0 \"lol\">".to_owned();
    for level in 1..30 {
        text.push_str(&format!(
            "<!ENTITY a{level} \"{}\">",
            format!("&a{};", level - 1).repeat(10)
        ));
    }
    text.push_str("]><configuration><log level='&a29;'/></configuration>");
    let environment = Environment::new(Platform::Unix, [("", ""); 0]);
    let files = Files { global: text.as_bytes(), ..Files::default() };
    assert!(Configuration::read(files, &environment).is_ok());
}

#[test]
fn files_of_a_hundred_megabytes_are_refused() {
    let huge = vec![b' '; 100 << 20];
    let environment = Environment::new(Platform::Unix, [("", ""); 0]);
    assert!(
        Configuration::read(Files { global: &huge, ..Files::default() }, &environment).is_err()
    );
    let local = Files { global: b"<configuration/>", local: Some(&huge), application: Some(&huge) };
    assert_eq!(Configuration::read(local, &environment).unwrap().messages.len(), 2);
}
