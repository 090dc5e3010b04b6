//! Compares the unwinder with the runtime's own stack walk at length, and prints what is not equal.
//!
//! `cargo build -p agent && cargo run -p recorder --example compare -- [COMPARISONS [RUNTIME
//! [EXAMPLES [blocked [SAMPLE [ARGUMENTS]]]]]]`, by default 10,000 on each runtime that runs
//! programs of ours. With `blocked`, threads that are blocked are compared, as `wall` reads them.

#[cfg(target_os = "linux")]
#[path = "../tests/comparing/mod.rs"]
mod comparing;

#[cfg(target_os = "linux")]
fn main() {
    use comparing::Comparing;
    use std::time::Duration;
    use testkit::{Sample, sample_runtimes};

    let mut arguments = std::env::args().skip(1);
    let enough =
        arguments.next().map_or(10_000, |text| text.parse().expect("a number of comparisons"));
    let only = arguments.next().unwrap_or_default();
    let examples = arguments.next().map_or(1, |text| text.parse().expect("a number of examples"));
    let blocked = arguments.next().is_some_and(|word| word == "blocked");
    let sample = arguments.next().unwrap_or_else(|| "mixed".to_owned());
    let mut given: Vec<String> = arguments.collect();
    if given.is_empty() {
        given = vec!["--seconds".to_owned(), "600".to_owned()];
    }
    // target/<profile>/examples/compare -> target/<profile>/libclrscope_agent.so
    let own = std::env::current_exe().expect("the path of this program");
    let agent = own.ancestors().nth(2).expect("a target folder").join("libclrscope_agent.so");
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        if !runtime.to_string().contains(&only) {
            continue;
        }
        let words: Vec<&str> = given.iter().map(String::as_str).collect();
        let mut process = Sample::named(&sample).start(runtime, &words);
        process.wait_for_ready();
        let mut comparing = match blocked {
            true => Comparing::attach_blocked(&process, &agent, 50, examples),
            false => Comparing::attach(&process, &agent, 50, examples),
        };
        comparing.run(enough, Duration::from_secs(300));
        let (tally, log) = comparing.stop();
        println!("{runtime}: {tally}");
        for (verdict, examples) in &tally.examples {
            for example in examples {
                println!("  {verdict:?}: {example}");
            }
        }
        println!("  {log:?}");
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
