//! Compares the unwinder with the runtime's own stack walk at length, and prints what is not equal.
//!
//! `cargo build -p agent && cargo run -p recorder --example compare -- [COMPARISONS [RUNTIME [EXAMPLES]]]`, by default
//! 10,000 on each runtime that runs programs of ours.

#[cfg(target_os = "linux")]
#[path = "../tests/comparing/mod.rs"]
mod comparing;

#[cfg(target_os = "linux")]
fn main() {
    use comparing::Comparing;
    use std::time::Duration;
    use testkit::{Sample, sample_runtimes};

    let mut arguments = std::env::args().skip(1);
    let enough = arguments.next().map_or(10_000, |text| text.parse().expect("a number of comparisons"));
    let only = arguments.next().unwrap_or_default();
    let examples = arguments.next().map_or(1, |text| text.parse().expect("a number of examples"));
    // target/<profile>/examples/compare -> target/<profile>/libclrscope_agent.so
    let own = std::env::current_exe().expect("the path of this program");
    let agent = own.ancestors().nth(2).expect("a target folder").join("libclrscope_agent.so");
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        if !runtime.to_string().contains(&only) {
            continue;
        }
        let mut process = Sample::named("mixed").start(runtime, &["--seconds", "600"]);
        process.wait_for_ready();
        let mut comparing = Comparing::attach(&process, &agent, 50, examples);
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
