//! Routes of a web service that a current C# compiler has made.
#![forbid(unsafe_code)]

use metadata::Assembly;
use rootfs::Root;
use std::collections::BTreeSet;
use symbols::AssemblyCode;
use testkit::Kiosk;

#[test]
fn handlers_of_a_minimal_api_have_their_routes() {
    let path = Kiosk::sources().join("Kiosk.dll");
    let bytes = std::fs::read(&path).unwrap();
    let parsed = Assembly::parse(&bytes).unwrap();
    let mvid = parsed.metadata().module_version_id().unwrap();
    let routes = AssemblyCode::read(&Root::own().unwrap(), &path, mvid).unwrap().routes();
    let all: BTreeSet<&str> = routes.values().map(String::as_str).collect();
    let expected = ["bad", "hash", "json", "ok", "price", "rows", "sell", "sum"]
        .map(|name| format!("GET /{name}"));
    assert_eq!(all, expected.iter().map(String::as_str).collect());
    // The async one has two methods: the lambda, and the method of its state machine that runs.
    let of_price: Vec<String> = parsed
        .methods()
        .filter(|method| routes.get(&method.token().0).is_some_and(|route| route == "GET /price"))
        .map(|method| method.name())
        .collect();
    assert_eq!(of_price.len(), 2, "{of_price:?}");
    assert!(of_price.contains(&"MoveNext".to_owned()), "{of_price:?}");
}
