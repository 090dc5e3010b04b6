//! Writes the small recording of the tests as a session file, to look at reports of it.

#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("say where to write the session")?;
    Ok(std::fs::write(path, shop::file())?)
}
