//! `stuck-task`: asynchronous methods wait for what does not come.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity};
use heap::{AsyncStack, Cause};
use symbols::demangle_compiler_names;

pub const RULE: Rule = Rule {
    id: "stuck-task",
    summary: "Asynchronous methods of one kind wait, and none of them continues during the \
        recording",
    needs: &["heap"],
    thresholds: &[Threshold {
        name: "tasks",
        help: "Methods that await each other in the same way, and have not continued",
        default: 20.0,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some((first, last)) = seen.heap.and_then(|heap| heap.tasks) else { return Vec::new() };
    let stuck = last.stacks.iter().filter_map(|stack| {
        let before = first
            .stacks
            .iter()
            .find(|one| (&one.machines, &one.awaits) == (&stack.machines, &stack.awaits))?;
        let stuck = before.count.min(stack.old);
        (stuck as f64 >= limits.get("tasks") && is_suspect(stack)).then_some((stack, before, stuck))
    });
    stuck
        .map(|(stack, before, stuck)| {
            let methods: Vec<String> =
                stack.machines.iter().map(|machine| method(machine)).collect();
            let leaf = methods.first().cloned().unwrap_or_default();
            let mut evidence = vec![format!(
                "{} at first, {} at last, of which {} have waited all the time",
                before.count, stack.count, stuck
            )];
            if let Some((_, above)) = methods.split_first()
                && !above.is_empty()
            {
                evidence.push(format!("awaited by {}", above.join(", awaited by ")));
            }
            if let Some(awaits) = &stack.awaits {
                evidence.push(format!("it waits for a {awaits} that nobody has completed"));
            }
            Finding {
                id: RULE.id,
                severity: severity(stuck as f64, limits.get("tasks"), 50.0),
                confidence: 0.7,
                title: format!("{stuck} calls of {leaf} wait and do not continue"),
                culprit: Some(leaf),
                evidence,
                figures: Vec::new(),
                next:
                    "find the code that should complete the task, and give the wait a time limit \
                    or a cancellation token"
                        .to_owned(),
            }
        })
        .collect()
}

/// Whether a wait is the program's, and for something that somebody has to complete: time passes by
/// itself, and the framework waits for connections without end by design.
fn is_suspect(stack: &AsyncStack) -> bool {
    let own = |machine: &String| {
        !["System.", "Microsoft."].iter().any(|prefix| machine.starts_with(prefix))
    };
    let by_somebody = matches!(
        stack.cause,
        Cause::CompletionSource | Cause::Promise | Cause::Semaphore | Cause::Work | Cause::Tasks
    );
    stack.machines.first().is_some_and(own) && by_somebody
}

/// The method that a compiler made a state machine of.
fn method(machine: &str) -> String {
    match demangle_compiler_names(machine, "MoveNext") {
        Some(method) => format!("{}.{}", method.type_name, method.name),
        None => machine.to_owned(),
    }
}
