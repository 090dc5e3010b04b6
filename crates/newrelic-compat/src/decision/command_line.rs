//! Tools that are recognized by their command line.

use super::{contains, ends_with};

/// Ends of the program that runs commands of the .NET command line.
const DOTNET: [&str; 6] =
    ["dotnet", "dotnet\"", "dotnet'", "dotnet.exe", "dotnet.exe\"", "dotnet.exe'"];
/// Commands in which programs are built, not run: `run` builds in this process and starts another
/// one.
const COMMANDS: [&str; 4] = ["run", "publish", "restore", "new"];
/// What the command lines of other tools contain.
const TOOLS: [&str; 4] = ["MSBuild.dll", "Kudu.Services.Web", "kuduagent.dll", "./DiagServer"];

/// The command of the .NET command line that a process is, if that builds programs.
///
/// The first `dotnet` among the words counts, wherever it stands: `app dotnet run` is taken for one
/// as well, as tests of the agent expect.
pub(super) fn tool_command(command_line: &str) -> Option<String> {
    let mut words = command_line.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        if !is_dotnet(word) {
            continue;
        }
        if let Some(next) = words.peek() {
            return COMMANDS
                .iter()
                .any(|command| command.eq_ignore_ascii_case(next))
                .then(|| (*next).to_owned());
        }
    }
    None
}

/// Whether a word names the program: at its start, or behind a separator or quote.
fn is_dotnet(word: &str) -> bool {
    DOTNET.iter().any(|name| {
        ends_with(word, name)
            && word
                .len()
                .checked_sub(name.len())
                .and_then(|start| word.get(..start))
                .is_some_and(|front| front.is_empty() || front.ends_with(['/', '\\', '\'', '"']))
    })
}

/// What shows that a process is another tool.
pub(super) fn tool(command_line: &str) -> Option<&'static str> {
    TOOLS.into_iter().find(|tool| contains(command_line, tool))
}
