//! What is written about methods that are known.

use metadata::Assembly;
use std::fmt::Write as _;
use std::fs;
use testkit::{Compiler, Runtime, source_root};

/// Everything of one assembly: generics, nested types, delegates, closures, try blocks with a
/// filter, `switch`, arrays, pointers, literals.
#[test]
fn every_shape() {
    let source = source_root().join("crates/metadata/tests/data/shapes.cs");
    let path = Compiler::find().unwrap().compile("shapes", &source, Runtime::V3_1, true).unwrap();
    let bytes = fs::read(path).unwrap();
    let assembly = Assembly::parse(&bytes).unwrap();
    assert_eq!(
        (assembly.name().as_deref(), assembly.version()),
        (Some("shapes"), Some([0, 0, 0, 0]))
    );
    let mut text = String::new();
    for method in assembly.methods() {
        method.disassemble(&mut text).unwrap();
        writeln!(text).unwrap();
    }
    insta::assert_snapshot!("shapes", text);
}

#[test]
fn methods_are_meant_by_name() {
    let source = source_root().join("crates/metadata/tests/data/shapes.cs");
    let path = Compiler::find().unwrap().compile("shapes", &source, Runtime::V3_1, true).unwrap();
    let bytes = fs::read(path).unwrap();
    let assembly = Assembly::parse(&bytes).unwrap();
    let meant =
        |pattern: &str| assembly.methods().filter(|method| method.is_meant(pattern)).count();
    for pattern in [
        "Protected",
        "Clrscope.Shapes.Code::Protected",
        "Clrscope.Shapes.Code.Protected",
        "*Code.Protec?ed",
        "Clrscope.Shapes.Outer`1/Inner`1::Pair",
        "*Outer`1+Inner`1.Pair",
        "0x06000001",
    ] {
        assert_eq!(meant(pattern), 1, "{pattern}");
    }
    assert_eq!(meant("*"), assembly.methods().count());
    assert_eq!((meant("protected"), meant("Code")), (0, 0));
}
