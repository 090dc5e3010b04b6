//! Shows the garbage collection events of a process: `cargo run -p diagnostics --example gc_events
//! <pid or name>`.
#![forbid(unsafe_code)]

use diagnostics::{EventPipeConfig, Provider};
use nettrace::Collect;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("which process?")?;
    let seconds = std::env::args().nth(2).map_or(Ok(5), |text| text.parse())?;
    let session =
        diagnostics::find(&target)?.port()?.collect(&EventPipeConfig::new(vec![Provider::gc()]))?;
    println!("session {:#x}, form {}", session.id(), session.form());
    let stopper = session.stopper();
    let mut reader = nettrace::Reader::new(session);
    let mut collector = nettrace::gc::Collector::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut stopping = None;
    loop {
        if Instant::now() > end && stopping.is_none() {
            let stopper = stopper.clone();
            stopping = Some(std::thread::spawn(move || stopper.stop(Duration::from_secs(5))));
        }
        match reader.next_event() {
            Ok(Some(event)) => {
                let parsed = nettrace::runtime::parse(&event);
                println!(
                    "{} {:>6} {:>3} v{} {parsed:?}",
                    event.timestamp, event.capture_thread_id, event.ty.id, event.ty.version
                );
                collector.push(&event);
            }
            Ok(None) => break,
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(output) = collector.next_output() {
            println!("  => {output:?}");
        }
    }
    println!("{:?}\n{:?}", reader.trace(), reader.statistics());
    Ok(())
}
