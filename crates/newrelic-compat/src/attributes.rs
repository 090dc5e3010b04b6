//! Methods that ask for instrumentation by attributes: `[Transaction]` and `[Trace]`.

use crate::points::{DEFAULT_FACTORY, flags};
use crate::rewrite::Tracer;

/// Full name of the attribute that starts a transaction.
pub const TRANSACTION: &str = "NewRelic.Api.Agent.TransactionAttribute";
/// Full name of the attribute that adds to one.
pub const TRACE: &str = "NewRelic.Api.Agent.TraceAttribute";
/// Full name of the attribute that compilers give to methods that start an asynchronous state
/// machine.
pub const ASYNC_STATE_MACHINE: &str = "System.Runtime.CompilerServices.AsyncStateMachineAttribute";

/// Assemblies whose names start so are never looked at.
const EXCLUDED: [&str; 3] = ["System.", "Microsoft.", "NewRelic."];

/// The value of `[Transaction(Web = …)]`: prolog, one named argument, property, Boolean, the name
/// with its length. The value follows (ECMA-335 II.23.3).
const WEB: [u8; 10] = [0x01, 0x00, 0x01, 0x00, 0x54, 0x02, 0x03, b'W', b'e', b'b'];

/// Whether methods of an assembly may ask for instrumentation by attributes.
#[must_use]
pub fn may_have(assembly: &str) -> bool {
    !EXCLUDED.iter().any(|prefix| assembly.starts_with(prefix))
}

/// What the agent receives about a method with these attributes: full names of their types with
/// their values. `None` if no attribute asks for instrumentation.
#[must_use]
pub fn tracer<'a>(
    attributes: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<Tracer<'static>> {
    let mut found = 0;
    for (name, value) in attributes {
        found |= match name {
            TRANSACTION if is_web(value) => {
                flags::ATTRIBUTE_INSTRUMENTATION | flags::WEB_TRANSACTION
            }
            TRANSACTION => flags::ATTRIBUTE_INSTRUMENTATION | flags::OTHER_TRANSACTION,
            TRACE => flags::ATTRIBUTE_INSTRUMENTATION,
            _ => 0,
        };
    }
    (found != 0).then_some(Tracer { factory: DEFAULT_FACTORY, metric: "", flags: found })
}

/// Whether the value of the attribute says `Web = true`.
fn is_web(value: &[u8]) -> bool {
    value.strip_prefix(&WEB) == Some(&[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: [u8; 4] = [1, 0, 0, 0];

    fn web(value: u8) -> Vec<u8> {
        [&WEB[..], &[value]].concat()
    }

    fn flags_of(attributes: &[(&str, &[u8])]) -> Option<u32> {
        tracer(attributes.iter().copied()).map(|tracer| tracer.flags)
    }

    #[test]
    fn flags_of_attributes() {
        assert_eq!(flags_of(&[(TRACE, &EMPTY)]), Some(0x0010_0000));
        assert_eq!(flags_of(&[(TRANSACTION, &EMPTY)]), Some(0x0050_0000));
        assert_eq!(flags_of(&[(TRANSACTION, &web(1))]), Some(0x0030_0000));
        assert_eq!(flags_of(&[(TRANSACTION, &web(0))]), Some(0x0050_0000));
        assert_eq!(flags_of(&[(TRACE, &EMPTY), (TRANSACTION, &web(1))]), Some(0x0030_0000));
        assert_eq!(flags_of(&[("Other", &EMPTY)]), None);
        assert_eq!(flags_of(&[]), None);
    }

    #[test]
    fn another_argument_of_the_same_length_is_not_web() {
        let other = [0x01, 0x00, 0x01, 0x00, 0x54, 0x02, 0x03, b'A', b'b', b'c', 1];
        assert_eq!(flags_of(&[(TRANSACTION, &other)]), Some(0x0050_0000));
        assert_eq!(flags_of(&[(TRANSACTION, &[])]), Some(0x0050_0000));
    }

    #[test]
    fn assemblies() {
        for (assembly, may) in [
            ("App", true),
            ("System", true),
            ("System.Net.Http", false),
            ("Microsoft.Data", false),
            ("NewRelic.Api.Agent", false),
            ("SystemX", true),
        ] {
            assert_eq!(may_have(assembly), may, "{assembly}");
        }
    }
}
