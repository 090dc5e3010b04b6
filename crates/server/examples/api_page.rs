//! Prints docs/api.md, for `cargo xtask docs`.

fn main() -> Result<(), String> {
    print!("{}", server::api_page()?);
    Ok(())
}
