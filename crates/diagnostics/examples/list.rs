//! Lists the .NET processes of this machine: `cargo run -p diagnostics --example list [pid or
//! name]`.
#![forbid(unsafe_code)]

fn main() -> Result<(), diagnostics::Error> {
    let processes = match std::env::args().nth(1) {
        Some(target) => vec![diagnostics::find(&target)?],
        None => diagnostics::discover()?,
    };
    for process in processes {
        let runtime = process.runtime_version.as_deref().unwrap_or("?");
        let user = process.user.as_deref().unwrap_or("?");
        println!(
            "{:>7}  {user:<10} {runtime:<10} {:<20} {}",
            process.pid,
            process.name,
            process.command_line()
        );
        if let Some(obstacle) = &process.obstacle {
            println!("         {obstacle}");
        }
    }
    Ok(())
}
