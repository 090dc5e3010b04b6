//! Differences between two texts of code, line by line.

/// Lines of context around a difference.
const CONTEXT: usize = 2;
/// Largest table of pairs of lines; of larger texts all lines between the first and the last
/// difference are shown.
const LARGEST: usize = 4 << 20;

/// Code of one side, and the number in it that differs from run to run.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Lines.
    pub lines: &'a [String],
    /// The number.
    pub slot: Option<u64>,
}

/// Whether code is the same: line by line, but for the number in new code.
pub fn is_same(a: Side<'_>, b: Side<'_>) -> bool {
    a.lines.len() == b.lines.len()
        && a.lines.iter().zip(b.lines).all(|(x, y)| x == y || are_slots(x, a, y, b))
}

/// Whether both lines load the number of the method. It is always loaded in the long form.
fn are_slots(x: &str, a: Side<'_>, y: &str, b: Side<'_>) -> bool {
    let loads = |line: &str, slot: Option<u64>| {
        let number = slot.zip(line.rsplit_once("ldc.i4     "));
        number.is_some_and(|(slot, (_, number))| number.trim_end() == slot.to_string())
    };
    loads(x, a.slot) && loads(y, b.slot)
}

/// What differs, with some lines around it: in front of each line a space, or `-` for one of `a`
/// alone, `+` for one of `b` alone, `@` for lines that are left out. Offsets of instructions move
/// with every change in front of them, and count only if nothing else differs.
pub fn unified(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let shown = with_keys(a, b, &without_offsets);
    if shown.is_empty() { with_keys(a, b, &str::to_owned) } else { shown }
}

fn with_keys(a: Side<'_>, b: Side<'_>, key: &dyn Fn(&str) -> String) -> Vec<String> {
    let keys = |side: Side<'_>| side.lines.iter().map(|line| key(line)).collect::<Vec<_>>();
    let (keys_a, keys_b) = (keys(a), keys(b));
    let same =
        |i: usize, j: usize| keys_a[i] == keys_b[j] || are_slots(&a.lines[i], a, &b.lines[j], b);
    let steps = align(keys_a.len(), keys_b.len(), &same);
    let changes = steps.iter().map(|step| !matches!(step, Step::Both(_)));
    let changes: Vec<usize> =
        changes.enumerate().filter_map(|(index, is_change)| is_change.then_some(index)).collect();
    let mut text = Vec::new();
    let mut shown_to = 0;
    let mut next = changes.iter().peekable();
    for (index, step) in steps.iter().enumerate() {
        while next.peek().is_some_and(|change| **change + CONTEXT < index) {
            next.next();
        }
        if next.peek().is_none_or(|change| **change > index + CONTEXT) {
            continue;
        }
        if index > shown_to {
            text.push("@".to_owned());
        }
        shown_to = index + 1;
        text.push(match *step {
            Step::Both(i) => format!("  {}", a.lines[i]),
            Step::A(i) => format!("- {}", a.lines[i]),
            Step::B(j) => format!("+ {}", b.lines[j]),
        });
    }
    text
}

enum Step {
    Both(usize),
    A(usize),
    B(usize),
}

/// The longest common subsequence, as steps through both.
fn align(a: usize, b: usize, same: &dyn Fn(usize, usize) -> bool) -> Vec<Step> {
    let front = (0..a.min(b)).take_while(|i| same(*i, *i)).count();
    let back = (1..=a.min(b) - front).take_while(|i| same(a - i, b - i)).count();
    let (rows, columns) = (a - front - back, b - front - back);
    let mut steps: Vec<Step> = (0..front).map(Step::Both).collect();
    let (mut i, mut j) = (0, 0);
    if (rows + 1) * (columns + 1) <= LARGEST {
        // Length of the longest common subsequence of what is left from each pair on.
        let width = columns + 1;
        let mut best = vec![0_u32; (rows + 1) * width];
        for i in (0..rows).rev() {
            for j in (0..columns).rev() {
                best[i * width + j] = match same(front + i, front + j) {
                    true => best[(i + 1) * width + j + 1] + 1,
                    false => best[(i + 1) * width + j].max(best[i * width + j + 1]),
                };
            }
        }
        while i < rows && j < columns {
            if same(front + i, front + j) {
                steps.push(Step::Both(front + i));
                (i, j) = (i + 1, j + 1);
            } else if best[(i + 1) * width + j] >= best[i * width + j + 1] {
                steps.push(Step::A(front + i));
                i += 1;
            } else {
                steps.push(Step::B(front + j));
                j += 1;
            }
        }
    }
    steps.extend((i..rows).map(|i| Step::A(front + i)));
    steps.extend((j..columns).map(|j| Step::B(front + j)));
    steps.extend((a - back..a).map(Step::Both));
    steps
}

/// A line with all offsets of instructions alike.
fn without_offsets(line: &str) -> String {
    let mut text = String::new();
    for (index, part) in line.split("IL_").enumerate() {
        if index > 0 {
            text.push_str("IL_");
        }
        text.push_str(if index > 0 {
            part.trim_start_matches(|c: char| c.is_ascii_hexdigit())
        } else {
            part
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(a: &[&str], b: &[&str]) -> Vec<String> {
        let owned =
            |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (a, b) = (owned(a), owned(b));
        unified(Side { lines: &a, slot: Some(1) }, Side { lines: &b, slot: Some(200) })
    }

    #[test]
    fn what_moved_is_no_difference_beside_one_that_is() {
        let a = [
            "IL_0000:  nop",
            "IL_0001:  ldarg.0",
            "IL_0002:  br.s       IL_0000",
            "IL_0004:  ret",
            "x",
            "y",
        ];
        let b = ["IL_0000:  nop", "IL_0001:  br.s       IL_0000", "IL_0003:  ret", "x", "y"];
        let expected = [
            "  IL_0000:  nop",
            "- IL_0001:  ldarg.0",
            "  IL_0002:  br.s       IL_0000",
            "  IL_0004:  ret",
            "@",
        ];
        let shown = diff(&a, &b);
        assert_eq!(shown, expected[..4]);
        // Only offsets.
        assert_eq!(
            diff(&["IL_0000:  ret"], &["IL_0001:  ret"]),
            ["- IL_0000:  ret", "+ IL_0001:  ret"]
        );
    }

    #[test]
    fn numbers_of_methods_are_no_difference() {
        assert!(diff(&["IL_0000:  ldc.i4     1"], &["IL_0000:  ldc.i4     200"]).is_empty());
        assert_eq!(diff(&["IL_0000:  ldc.i4     2"], &["IL_0000:  ldc.i4     200"]).len(), 2);
    }

    #[test]
    fn stretches_without_a_difference_are_left_out() {
        let a: Vec<String> = (0..20).map(|line| line.to_string()).collect();
        let mut a: Vec<&str> = a.iter().map(String::as_str).collect();
        let b = a.clone();
        a[3] = "three";
        a.remove(15);
        let shown = diff(&a, &b);
        assert_eq!(shown.iter().filter(|line| line.starts_with('@')).count(), 2, "{shown:?}");
        assert!(
            shown.contains(&"- three".to_owned()) && shown.contains(&"+ 15".to_owned()),
            "{shown:?}"
        );
        assert_eq!(shown.len(), 2 + (2 + 2 + 2) + (2 + 1 + 2));
    }
}
