//! `clrscope man`: manual pages.

use crate::{console, exit::Code};
use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use std::{fs, io::Write, path::PathBuf};

/// Print the manual page, or write the pages of all commands
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Write one page for each command into this folder, which is created if necessary
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut command = crate::Cli::command();
    command.build();
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        console::print(&String::from_utf8(page)?)?;
        return Ok(Code::Success);
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut pages = Vec::new();
    add(String::from("clrscope"), &command, &mut pages);
    for (name, command) in pages {
        let path = folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        session::create_file(&path)
            .and_then(|mut file| file.write_all(&page))
            .with_context(|| format!("cannot write {}", path.display()))?;
        console::say(&path.display().to_string());
    }
    Ok(Code::Success)
}

/// Adds the page of a command and those of the commands below it.
fn add(name: String, command: &clap::Command, pages: &mut Vec<(String, clap::Command)>) {
    pages.push((name.clone(), command.clone()));
    for sub in
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        add(format!("{name}-{}", sub.get_name()), sub, pages);
    }
}
