//! `clrscope il`: the methods of assemblies, as they lie in files.

use crate::{
    console::{self, printable},
    exit::{Code, failure},
};
use anyhow::Context as _;
use cil::Verifier;
use document::{Block, Cell, Document, Section, Tree};
use metadata::{Assembly, BundledFile, Error, Method, bundled_files};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fmt::Write as _,
    fs,
    io::{self, IsTerminal as _, Write as _},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

/// Version of the form of the JSON.
const SCHEMA: u32 = 1;
/// Methods that one thread takes at a time.
const METHODS: u32 = 2048;
/// Assemblies in memory at a time, for each thread.
const ASSEMBLIES: usize = 4;
/// Larger files are refused rather than read into memory.
const LARGEST: u64 = 2 << 30;

/// Show and check the code of assemblies, without a process
///
/// Lists the methods of .NET assemblies, disassembles those that --method names, or checks with
/// --verify whether the runtime will accept the structure of every method body: branches, stack
/// heights, try blocks, prefixes, indices. Types are not checked. Takes .dll and .exe files,
/// folders with everything below them, and single-file applications. No runtime is needed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 10 says that a method body is not well formed, 6 that a file cannot be \
        read."
)]
pub struct Args {
    /// Assemblies, folders, or single-file applications
    #[arg(value_name = "ASSEMBLY", required = true)]
    paths: Vec<PathBuf>,
    /// Disassemble the methods of this name: Method, Space.Type.Method, Space.Type::Method or a
    /// token, with * and ? for any characters. With --verify, check only them
    #[arg(long, value_name = "NAME")]
    method: Vec<String>,
    /// Check the structure of all method bodies
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file to examine.
enum Source {
    /// An assembly of its own. What is no assembly is left out if it was only found in a folder.
    File { path: PathBuf, named: bool },
    /// One in a single-file application.
    Bundled { bundle: Arc<Vec<u8>>, file: BundledFile, shown: String },
}

/// What came of everything.
#[derive(Default)]
struct Total {
    assemblies: u64,
    skipped: u64,
    bodies: u64,
    methods: u64,
    failures: Vec<Failure>,
    errors: Vec<Unreadable>,
    shown: Vec<AssemblyShown>,
}

/// A method whose body is not as it should be.
#[derive(Serialize, JsonSchema)]
struct Failure {
    assembly: String,
    token: String,
    method: String,
    error: String,
}

/// A file that could not be read.
#[derive(Serialize, JsonSchema)]
struct Unreadable {
    path: String,
    error: String,
}

/// What `--verify --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Verified<'a> {
    schema: u32,
    assemblies: u64,
    /// Files in folders that are no .NET assemblies.
    skipped: u64,
    bodies: u64,
    failed: usize,
    failures: &'a [Failure],
    errors: &'a [Unreadable],
}

/// What `--json` prints otherwise.
#[derive(Serialize, JsonSchema)]
pub struct Listed<'a> {
    schema: u32,
    assemblies: &'a [AssemblyShown],
    skipped: u64,
    errors: &'a [Unreadable],
}

#[derive(Serialize, JsonSchema)]
struct AssemblyShown {
    path: String,
    name: Option<String>,
    version: Option<String>,
    methods: Vec<MethodShown>,
}

#[derive(Serialize, JsonSchema)]
struct MethodShown {
    token: String,
    name: String,
    declaration: String,
    /// Bytes of IL; `null` without a body.
    code_size: Option<usize>,
    max_stack: Option<u16>,
    /// Only with `--method`.
    #[serde(skip_serializing_if = "Option::is_none")]
    il: Option<String>,
}

/// What a stretch of methods comes to.
#[derive(Default)]
struct Part {
    bodies: u64,
    methods: u64,
    failures: Vec<Failure>,
    /// A line for each method.
    list: String,
    /// What was disassembled.
    disassembled: Vec<String>,
    shown: Vec<MethodShown>,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let before = Instant::now();
    let mut total = Total::default();
    let sources = sources(&args.paths, &mut total)?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let progress =
        Progress { all: sources.len(), wanted: sources.len() > 1 && io::stderr().is_terminal() };
    for (index, batch) in sources.chunks(threads * ASSEMBLIES).enumerate() {
        let documents = look(args, batch, threads, &mut total);
        if !documents.is_empty() {
            progress.clear();
        }
        documents.iter().try_for_each(console::show)?;
        progress.show(index * threads * ASSEMBLIES + batch.len());
    }
    progress.clear();
    finish(args, &total, before)
}

/// Looks at some assemblies, all threads at once. Gives what there is to say of each, in their
/// order.
fn look(args: &Args, batch: &[Source], threads: usize, total: &mut Total) -> Vec<Document> {
    let files = parallel(threads, batch, Source::read);
    let opened = parallel(threads, &files, |file| match file {
        Ok(bytes) => Assembly::parse(bytes).map_err(anyhow::Error::from),
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    });
    let mut parts = Vec::new();
    for (source, assembly) in batch.iter().zip(&opened) {
        match assembly {
            Ok(assembly) => {
                total.assemblies += 1;
                let count = assembly.method_count();
                let rows = (1..=count.max(1)).step_by(METHODS as usize);
                parts.extend(
                    rows.map(|row| (source, assembly, row..=count.min(row + (METHODS - 1)))),
                );
            }
            Err(error) if !source.is_named() && is_no_assembly(error) => total.skipped += 1,
            Err(error) => total
                .errors
                .push(Unreadable { path: source.shown(), error: console::describe(error) }),
        }
    }
    let results = parallel(threads, &parts, |(source, assembly, rows)| {
        Part::of(args, source, assembly, rows.clone())
    });
    let mut sections: Vec<Section> = Vec::new();
    for ((source, assembly, rows), part) in parts.iter().zip(results) {
        let is_first = *rows.start() == 1;
        total.bodies += part.bodies;
        total.methods += part.methods;
        total.failures.extend(part.failures);
        if args.verify {
            continue;
        }
        if args.json {
            if is_first {
                let (path, name, version) = (source.shown(), assembly.name(), version(assembly));
                total.shown.push(AssemblyShown { path, name, version, methods: Vec::new() });
            }
            if let Some(shown) = total.shown.last_mut() {
                shown.methods.extend(part.shown);
            }
            continue;
        }
        if is_first {
            let mut section = Section::default();
            section.add(il(head(source, assembly)));
            sections.push(section);
        }
        if let Some(section) = sections.last_mut() {
            if let Some(Block::Code(lines)) = section.blocks.first_mut() {
                lines.text.push_str(&part.list);
            }
            section.extend(part.disassembled.into_iter().map(il));
        }
    }
    if !args.method.is_empty() {
        // Assemblies that have none of these methods are left out.
        total.shown.retain(|shown| !shown.methods.is_empty());
        sections.retain(|section| section.blocks.len() > 1);
    }
    sections.into_iter().map(|section| Document { sections: vec![section] }).collect()
}

fn il(text: String) -> document::Code {
    document::Code { language: "il", text }
}

fn finish(args: &Args, total: &Total, before: Instant) -> anyhow::Result<Code> {
    if args.verify && args.json {
        console::print_json(&Verified {
            schema: SCHEMA,
            assemblies: total.assemblies,
            skipped: total.skipped,
            bodies: total.bodies,
            failed: total.failures.len(),
            failures: &total.failures,
            errors: &total.errors,
        })?;
    } else if args.json {
        let (assemblies, errors) = (&total.shown[..], &total.errors[..]);
        console::print_json(&Listed {
            schema: SCHEMA,
            assemblies,
            skipped: total.skipped,
            errors,
        })?;
    } else if args.verify {
        console::show(&verdict(total, before))?;
    }
    if !args.json {
        for Unreadable { path, error } in &total.errors {
            console::complain(&anyhow::anyhow!("{}: {}", printable(path), printable(error)));
        }
    }
    if !total.failures.is_empty() {
        return Ok(Code::BadIl);
    }
    if !total.errors.is_empty() {
        return Ok(Code::File);
    }
    if total.assemblies == 0 {
        return Err(failure(
            Code::File,
            "there is no .NET assembly; name a .dll, or a folder that has some",
        ));
    }
    if total.methods == 0 && !args.method.is_empty() {
        let names = args.method.join(", ");
        let hint = "clrscope il without --method lists all; * stands for any characters";
        return Err(failure(Code::Usage, format!("no method is called {names}; {hint}")));
    }
    Ok(Code::Success)
}

fn verdict(total: &Total, before: Instant) -> Document {
    let mut lines = Tree::default();
    for failure in &total.failures {
        let Failure { assembly, token, method, error } = failure;
        lines.push(0, [Cell::text(format!("{assembly}: {method} ({token}): {error}"))]);
    }
    let counted = |count: u64, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    let bodies = counted(total.bodies, "body", "bodies");
    let assemblies = counted(total.assemblies, "assembly", "assemblies");
    let verdict = match total.failures.len() {
        0 => "all well formed".to_owned(),
        failed => format!("{failed} not well formed"),
    };
    let others = match total.skipped {
        0 => String::new(),
        skipped => format!("; {}", counted(skipped, "other file", "other files")),
    };
    let seconds = before.elapsed().as_secs_f64();
    let verdict = format!("{bodies} in {assemblies}: {verdict}{others} ({seconds:.2} s)");
    lines.push(0, [Cell::text(verdict)]);
    let mut section = Section::default();
    section.add(lines);
    Document { sections: vec![section] }
}

/// What stands above the methods of an assembly.
fn head(source: &Source, assembly: &Assembly<'_>) -> String {
    let name = printable(&assembly.name().unwrap_or_default());
    let version = version(assembly).map_or_else(String::new, |version| format!(" {version}"));
    format!("// {name}{version}: {}\n", printable(&source.shown()))
}

fn version(assembly: &Assembly<'_>) -> Option<String> {
    assembly.version().map(|parts| parts.map(|part| part.to_string()).join("."))
}

fn is_no_assembly(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::NotPe | Error::Native))
}

impl Part {
    fn of(
        args: &Args,
        source: &Source,
        assembly: &Assembly<'_>,
        rows: RangeInclusive<u32>,
    ) -> Self {
        let mut part = Self::default();
        let mut verifier = Verifier::new();
        for method in rows.filter_map(|row| assembly.method(row)) {
            if !args.method.is_empty()
                && !args.method.iter().any(|pattern| method.is_meant(pattern))
            {
                continue;
            }
            part.methods += 1;
            if args.verify {
                part.verify(source, &method, &mut verifier);
            } else if args.json {
                part.shown.push(MethodShown::of(args, &method));
            } else if args.method.is_empty() {
                let size = method.body().ok().flatten().map(|body| body.code.len().to_string());
                let (token, size) = (method.token(), size.as_deref().unwrap_or("-"));
                let _ =
                    writeln!(part.list, "{token} {size:>6}  {}", printable(&method.declaration()));
            } else {
                part.disassembled.push(disassembly(&method));
            }
        }
        part
    }

    fn verify(&mut self, source: &Source, method: &Method<'_, '_>, verifier: &mut Verifier) {
        let problem = match method.verify(verifier) {
            Ok(None) => return,
            Ok(Some(())) => None,
            Err(problem) => Some(problem),
        };
        self.bodies += 1;
        self.failures.extend(problem.map(|problem| Failure {
            assembly: source.shown(),
            token: method.token().to_string(),
            method: method.full_name(),
            error: problem.to_string(),
        }));
    }
}

impl MethodShown {
    fn of(args: &Args, method: &Method<'_, '_>) -> Self {
        let body = method.body().ok().flatten();
        Self {
            token: method.token().to_string(),
            name: method.full_name(),
            declaration: method.declaration(),
            code_size: body.as_ref().map(|body| body.code.len()),
            max_stack: body.as_ref().map(|body| body.header.max_stack),
            il: (!args.method.is_empty()).then(|| disassembly(method)),
        }
    }
}

/// The text of a method; literals may hold what could steer a terminal.
pub fn disassembly(method: &Method<'_, '_>) -> String {
    let mut text = String::new();
    // A string never fails.
    let _ = method.disassemble(&mut text);
    text.split_inclusive('\n')
        .map(|line| line.strip_suffix('\n').map_or(printable(line), |line| printable(line) + "\n"))
        .collect()
}

impl Source {
    fn shown(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Bundled { shown, .. } => shown.clone(),
        }
    }

    /// Whether it was named by the user. Some files in a bundle that look like assemblies are
    /// native libraries.
    const fn is_named(&self) -> bool {
        matches!(self, Self::File { named: true, .. })
    }

    fn read(&self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::File { path, .. } => read(path),
            Self::Bundled { bundle, file, .. } => Ok(file.contents(bundle)?.into_owned()),
        }
    }
}

/// Reads a file that may be an assembly.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let size = fs::metadata(path)?.len();
    if size > LARGEST {
        return Err(failure(Code::File, format!("{size} bytes are too many for an assembly")));
    }
    Ok(fs::read(path)?)
}

/// All files that are meant, those of folders in order.
fn sources(paths: &[PathBuf], total: &mut Total) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        let shown = || printable(&path.display().to_string());
        if fs::metadata(path).with_context(shown)?.is_dir() {
            let mut found = Vec::new();
            in_folder(path, &mut found).with_context(shown)?;
            order::sort_by(&mut found, Ord::cmp);
            sources.extend(found.into_iter().map(|path| Source::File { path, named: false }));
        } else if is_assembly_name(path) {
            sources.push(Source::File { path: path.clone(), named: true });
        } else {
            // A program without an ending, or an assembly with an unusual one.
            let bytes = Arc::new(read(path).with_context(shown)?);
            match bundled_files(&bytes) {
                Ok(Some(files)) => {
                    let files =
                        files.into_iter().filter(|file| is_assembly_name(Path::new(&file.path)));
                    sources.extend(files.map(|file| Source::Bundled {
                        bundle: bytes.clone(),
                        shown: format!("{}:{}", path.display(), file.path),
                        file,
                    }));
                }
                Ok(None) => sources.push(Source::File { path: path.clone(), named: true }),
                Err(error) => total.errors.push(Unreadable {
                    path: path.display().to_string(),
                    error: error.to_string(),
                }),
            }
        }
    }
    Ok(sources)
}

fn is_assembly_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("dll") || end.eq_ignore_ascii_case("exe"))
}

/// Files that may be assemblies in a folder and below. Links to folders are not followed: they may
/// lead round.
fn in_folder(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else if is_assembly_name(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Says on a terminal how far it is.
struct Progress {
    all: usize,
    wanted: bool,
}

impl Progress {
    fn show(&self, done: usize) {
        if self.wanted {
            let _ = write!(io::stderr(), "\r{done} of {} assemblies", self.all);
        }
    }

    fn clear(&self) {
        if self.wanted {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Does the same with all items, on several threads, and gives the results in their order.
fn parallel<'t, T: Sync, R: Send>(
    threads: usize,
    items: &'t [T],
    work: impl Fn(&'t T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        let mut all = run();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    order::sort_by_key(&mut all, |(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(
            parallel(3, &items, |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(parallel(3, &[] as &[u32], |item| *item).is_empty());
    }
}
