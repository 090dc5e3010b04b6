//! In how far events are equal, by what is looked at.

use super::{
    bytes,
    compare::{Comparison, bytes_differ, code_differs, out_of_order},
    log::Event,
};

/// One thing that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aspect {
    /// What it is.
    pub name: &'static str,
    /// Places where it could be compared.
    pub compared: u64,
    /// Those where it is equal.
    pub equal: u64,
}

impl Aspect {
    /// Of 100 places how many are equal. Rounded down to hundredths, so that 100 means all.
    pub fn percent(&self) -> f64 {
        (10_000 * u128::from(self.equal) / u128::from(self.compared.max(1))) as f64 / 100.0
    }

    fn of(name: &'static str, found: impl Iterator<Item = bool>) -> Self {
        let mut aspect = Self { name, compared: 0, equal: 0 };
        for is_equal in found {
            aspect.compared += 1;
            aspect.equal += u64::from(is_equal);
        }
        aspect
    }
}

/// Everything that could be compared: whether events are on both sides, their order, and of code
/// that both sides have its text, bytes, locals and exception clauses.
pub fn of(a: &[Event], b: &[Event], comparison: &Comparison<'_>) -> Vec<Aspect> {
    let places = |is_log: bool| {
        (a.iter().chain(b)).filter(|event| (event.kind.id == "log") == is_log).count()
    };
    let pairs = || comparison.pairs.iter().map(|&(i, j)| (&a[i], &b[j]));
    let in_both = |is_log: bool| {
        let pairs: Vec<_> = pairs().filter(|(a, _)| (a.kind.id == "log") == is_log).collect();
        let equal = pairs.iter().filter(|(a, b)| a.fields == b.fields).count();
        let compared = places(is_log) - pairs.len();
        let name = if is_log { "log lines" } else { "events" };
        Aspect { name, compared: compared as u64, equal: equal as u64 }
    };
    let ordered = comparison.pairs.len();
    let order = ordered - out_of_order(&comparison.pairs).len();
    let with_code = || pairs().filter(|(a, b)| !a.code.is_empty() && !b.code.is_empty());
    let with_bytes = || with_code().filter(|(a, b)| !a.bytes.is_empty() && !b.bytes.is_empty());
    let found = [
        in_both(false),
        in_both(true),
        Aspect { name: "order", compared: ordered as u64, equal: order as u64 },
        Aspect::of("bodies", with_code().map(|(a, b)| code_differs(a, b).next().is_none())),
        Aspect::of("bytes", with_bytes().map(|(a, b)| bytes_differ(a, b).is_empty())),
        Aspect::of("locals", with_code().map(|(a, b)| locals(a) == locals(b))),
        Aspect::of("clauses", with_bytes().map(|(a, b)| clauses(a) == clauses(b))),
    ];
    found.into_iter().filter(|aspect| aspect.compared > 0).collect()
}

/// The declaration of the locals of each body.
fn locals(event: &Event) -> Vec<Vec<&str>> {
    fn of_body(lines: &[String]) -> Vec<&str> {
        let lines =
            lines.iter().map(String::as_str).skip_while(|line| !line.starts_with(".locals"));
        let mut is_over = false;
        lines.take_while(|line| !std::mem::replace(&mut is_over, line.ends_with(')'))).collect()
    }
    event.code.iter().map(|(_, lines)| of_body(lines)).collect()
}

fn clauses(event: &Event) -> Vec<Option<Vec<String>>> {
    event.bytes.iter().map(|(_, digits)| bytes::clauses(digits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validated::{
        compare::{Mode, compare},
        log::KINDS,
    };

    fn event(kind: &str, name: &str, lines: &[&str], digits: &str) -> Event {
        let kind = KINDS.iter().find(|known| known.id == kind).unwrap();
        let code = lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        Event {
            kind,
            name: name.into(),
            time: None,
            fields: vec![Some(String::new()); kind.fields.len()],
            code: if lines.is_empty() { Vec::new() } else { vec![("after", code)] },
            bytes: if digits.is_empty() { Vec::new() } else { vec![("after", digits.to_owned())] },
            slot: None,
            left_out: None,
        }
    }

    #[test]
    fn each_aspect_counts_what_it_looks_at() {
        let body = [
            ".maxstack  8",
            ".locals init ([0] int32 V_0,",
            "    [1] string V_1)",
            "IL_0000:  ret",
        ];
        let other_locals = [".maxstack  8", ".locals init ([0] int32 V_0)", "IL_0000:  ret"];
        let other_code = [
            ".maxstack  8",
            ".locals init ([0] int32 V_0,",
            "    [1] string V_1)",
            "IL_0000:  nop",
        ];
        let all = |first: &[&str], digits: &str| {
            vec![
                event("rewrite", "x", first, digits),
                event("rewrite", "y", &body, "062a"),
                event("log", "l", &[], ""),
            ]
        };
        let percent = |a: &[Event], b: &[Event]| {
            let comparison = compare(a, b, Mode::Default);
            let found = of(a, b, &comparison);
            found
                .iter()
                .map(|aspect| (aspect.name, aspect.compared, aspect.equal))
                .collect::<Vec<_>>()
        };
        let (a, b) = (all(&body, "062a"), all(&other_locals, "0600"));
        let expected = |events, bodies, bytes, locals| {
            let rest = [
                ("bodies", 2, bodies),
                ("bytes", 2, bytes),
                ("locals", 2, locals),
                ("clauses", 2, 2),
            ];
            [[("events", 2, events), ("log lines", 1, 1), ("order", 3, 3)].as_slice(), &rest]
                .concat()
        };
        assert_eq!(percent(&a, &a), expected(2, 2, 2, 2));
        assert_eq!(percent(&a, &b), expected(2, 1, 1, 1));
        assert_eq!(percent(&a, &all(&other_code, "062a")), expected(2, 1, 2, 2));
        // What is not on both sides, and what is not there at all.
        let found = percent(&a[..1], &a[1..2]);
        assert_eq!(found, [("events", 2, 0)]);
        let mut turned = all(&body, "062a");
        turned.swap(0, 1);
        assert!(percent(&a, &turned).contains(&("order", 3, 2)));
        assert_eq!(Aspect { name: "", compared: 3, equal: 2 }.percent(), 66.66);
    }
}
