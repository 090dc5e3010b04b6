//! Symbols and lines of files that other tools made.
#![forbid(unsafe_code)]

use rootfs::Root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use symbols::{ModuleKind, NativeSymbols, PortablePdb, SingleFileApp, SymbolSource};
use testkit::{Compiler, Host, Kiosk, Runtime};

/// Runs the oracle: the runtime's own reader of portable PDBs.
fn oracle(arguments: &[&Path]) -> Vec<String> {
    let Host::Muxer { dotnet, .. } = Runtime::V9.require().host() else {
        panic!("9.0.5 is multi-file")
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/PdbOracle.cs");
    let program =
        Compiler::find().unwrap().compile("pdboracle", &source, Runtime::V3_1, false).unwrap();
    let done = Command::new(dotnet)
        .arg(program)
        .args(arguments)
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Compares every sequence point and every state machine; gives how many there are of each.
fn compare(pdb: &PortablePdb, truth: &[String]) -> (usize, usize) {
    let (mut points, mut state_machines) = (0, 0);
    let (mut first_lines, mut kickoffs) = (BTreeMap::new(), Vec::new());
    // The line with which a hidden point continues.
    let mut last: (u32, Option<(String, u32)>) = (0, None);
    for line in truth {
        let mut words = line.splitn(5, ' ');
        let kind = words.next().unwrap();
        let mut number = || words.next().unwrap().parse::<u32>().unwrap();
        match kind {
            "kickoff" => {
                let (move_next, kickoff) = (number(), number());
                assert_eq!(
                    pdb.kickoff_method(0x0600_0000 | move_next),
                    Some(0x0600_0000 | kickoff),
                    "{line}"
                );
                kickoffs.push((move_next, kickoff));
                state_machines += 1;
            }
            "point" => {
                let (row, offset, source_line) = (number(), number(), number());
                if last.0 != row {
                    last = (row, None);
                }
                let first = first_lines.entry(row).or_insert(0);
                if *first == 0 {
                    *first = source_line;
                }
                if source_line > 0 {
                    last.1 = Some((words.next().unwrap().to_owned(), source_line));
                }
                let found =
                    pdb.line(0x0600_0000 | row, offset).map(|found| (found.file, found.line));
                assert_eq!(found, last.1, "{line}");
                points += 1;
            }
            _ => {}
        }
    }
    for (move_next, kickoff) in kickoffs {
        let line = first_lines.get(&move_next).copied().unwrap_or(0);
        first_lines
            .entry(kickoff)
            .and_modify(|first| *first = if *first == 0 { line } else { *first })
            .or_insert(line);
    }
    for (row, line) in first_lines {
        assert_eq!(pdb.first_line(0x0600_0000 | row), (line > 0).then_some(line), "row {row}");
    }
    (points, state_machines)
}

/// The assembly of `azmcp`, which has its PDB within itself, as Roslyn made it.
fn azmcp() -> PathBuf {
    Runtime::Azmcp9.require().executable().with_file_name("azmcp.dll")
}

fn root() -> Root {
    Root::own().unwrap()
}

/// The owner of a process puts what it likes beside its assemblies and libraries.
#[test]
fn files_that_are_none_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("root");
    fs::create_dir(&inside).unwrap();
    let (original, pdb, _) = with_pdb_beside(folder.path());
    let assembly = "renamed.dll";
    let there = Root::at(&inside).unwrap();
    let find = || PortablePdb::find(&there, Path::new("/renamed.dll"), None);
    let place = |name: &str, make: &dyn Fn(&Path)| {
        let path = inside.join(name);
        let _ = fs::remove_file(&path);
        make(&path);
    };
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let huge = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    let zero = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let device = |path: &Path| {
        assert!(Command::new("mknod").arg(path).args(["c", "1", "5"]).status().unwrap().success())
    };
    let outside = |path: &Path| std::os::unix::fs::symlink(&pdb, path).unwrap();
    let began = std::time::Instant::now();
    place(assembly, &|path| assert!(fs::copy(&original, path).is_ok()));
    place("renamed.pdb", &|path| assert!(fs::copy(&pdb, path).is_ok()));
    assert!(find().unwrap().is_some());
    for bad in [&fifo as &dyn Fn(&Path), &huge, &zero, &device, &outside] {
        place("renamed.pdb", bad);
        assert!(find().unwrap().is_none());
        place("libx.so", bad);
        assert!(NativeSymbols::open(&there, Path::new("/libx.so")).is_err());
    }
    for bad in [&fifo as &dyn Fn(&Path), &huge, &zero, &device] {
        place(assembly, bad);
        assert!(!matches!(find(), Ok(Some(_))));
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn an_embedded_pdb_is_read_as_the_runtime_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let truth = oracle(&[&azmcp(), &folder.path().join("azmcp.pdb")]);
    let pdb = PortablePdb::find(&root(), &azmcp(), None).unwrap().expect("an embedded PDB");
    let (points, state_machines) = compare(&pdb, &truth);
    assert!(points > 10_000 && state_machines > 100, "{points} {state_machines}");
    assert_eq!(pdb.line(0x06ff_ffff, 0), None);
    assert_eq!(pdb.line(0, 0), None);
}

/// Of a current compiler: lambdas and local functions of one method, some of them asynchronous.
#[test]
fn a_lambda_begins_at_its_line() {
    let path = Kiosk::sources().join("Kiosk.pdb");
    let pdb = PortablePdb::read(&path).unwrap();
    let (points, state_machines) = compare(&pdb, &oracle(&[&path]));
    assert!(points > 50 && state_machines == 3, "{points} {state_machines}");
    // Every lambda of `Main` is on a line of its own.
    let bytes = fs::read(Kiosk::sources().join("Kiosk.dll")).unwrap();
    let assembly = metadata::Assembly::parse(&bytes).unwrap();
    let lines: BTreeMap<String, Option<u32>> = assembly
        .methods()
        .filter(|method| method.name().contains("<Main>$>"))
        .map(|method| (method.name(), pdb.first_line(method.token().0)))
        .collect();
    for (name, text) in [
        ("<<Main>$>b__0_0", "MapGet(\"/ok\""),
        ("<<Main>$>b__0_1", "MapGet(\"/json\""),
        ("<<Main>$>b__3", "MapGet(\"/price\""),
        ("<<Main>$>b__0_6", "MapGet(\"/bad\""),
        ("<<Main>$>g__Add|0_8", "MapGet(\"/sum\""),
    ] {
        assert_eq!(lines.get(name), Some(&Some(Kiosk::line_of(text))), "{name} in {lines:?}");
    }
}

/// The assemblies lie in the executable, the PDBs beside it.
#[test]
fn lines_of_a_single_file_application() {
    let folder = tempfile::tempdir().unwrap();
    let executable = Runtime::V8.require().executable();
    let link = folder.path().join("exe");
    std::os::unix::fs::symlink(&executable, &link).unwrap();
    let mut app = SingleFileApp::open(&link).expect("a single-file application");
    for name in ["Sarif.Driver", "Sarif.Multitool.Library"] {
        let pdb =
            app.find_pdb(&root(), &format!("{name}.dll"), None).unwrap().expect("a PDB beside");
        let (points, _) =
            compare(&pdb, &oracle(&[&executable.with_file_name(format!("{name}.pdb"))]));
        assert!(points > 100, "{name}: {points}");
        // Of another build than the one that runs.
        assert!(app.find_pdb(&root(), &format!("{name}.dll"), Some([7; 16])).unwrap().is_none());
    }
    for without in ["System.Private.CoreLib.dll", "Nothing.dll", "../Sarif.dll"] {
        assert!(app.find_pdb(&root(), without, None).unwrap().is_none(), "{without}");
    }
    // A host that is no such application, and no file at all.
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(Runtime::V9.require().executable(), &link).unwrap();
    assert!(SingleFileApp::open(&link).is_none());
    assert!(SingleFileApp::open(Path::new("/nowhere")).is_none());
}

#[test]
fn plain_pdbs_are_read_as_the_runtime_reads_them() {
    let folder = Runtime::V8.require().executable();
    for name in ["Sarif.Multitool.Library.pdb", "Sarif.Driver.pdb", "WorkItems.pdb"] {
        let path = folder.with_file_name(name);
        let (points, _) = compare(&PortablePdb::read(&path).unwrap(), &oracle(&[&path]));
        assert!(points > 100, "{name}: {points}");
    }
}

/// An assembly whose PDB is beside it, with what is true of it: `azmcp.dll` with the mark of its
/// embedded PDB wiped out.
fn with_pdb_beside(folder: &Path) -> (PathBuf, PathBuf, Vec<String>) {
    let (assembly, beside) = (folder.join("renamed.dll"), folder.join("azmcp.pdb"));
    let truth = oracle(&[&azmcp(), &beside]);
    let mut bytes = fs::read(azmcp()).unwrap();
    let embedded = bytes.windows(4).position(|window| window == b"MPDB").unwrap() as u32;
    // An entry of the debug directory: … type, size, address, position in the file.
    let entry = bytes
        .windows(16)
        .position(|window| {
            window[..4] == 17u32.to_le_bytes() && window[12..] == embedded.to_le_bytes()
        })
        .unwrap();
    bytes[entry] = 0;
    fs::write(&assembly, &bytes).unwrap();
    (assembly, beside, truth)
}

#[test]
fn a_pdb_beside_counts_only_when_it_belongs_to_the_assembly() {
    let folder = tempfile::tempdir().unwrap();
    let (assembly, beside, truth) = with_pdb_beside(folder.path());

    // By the name that the compiler gave it, then by the assembly's own.
    let (points, _) = compare(
        &PortablePdb::find(&root(), &assembly, None).unwrap().expect("a PDB beside"),
        &truth,
    );
    assert!(points > 10_000);
    fs::rename(&beside, folder.path().join("renamed.pdb")).unwrap();
    let pdb = PortablePdb::find(&root(), &assembly, None).unwrap().expect("a PDB beside");

    // The assembly itself is checked by its module version id.
    let mvid = truth.iter().find_map(|line| line.strip_prefix("mvid ")).unwrap();
    let mut id = [0; 16];
    for (byte, digits) in id.iter_mut().zip(mvid.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    assert!(PortablePdb::find(&root(), &assembly, Some(id)).unwrap().is_some());
    assert!(PortablePdb::find(&root(), &assembly, Some([7; 16])).unwrap().is_none());

    // A PDB of another build, and one of another kind.
    let path = folder.path().join("renamed.pdb");
    let mut other = fs::read(&path).unwrap();
    let at = other.windows(20).position(|window| window == pdb.id()).unwrap();
    other[at] ^= 1;
    fs::write(&path, &other).unwrap();
    assert!(PortablePdb::find(&root(), &assembly, None).unwrap().is_none());
    fs::write(&path, b"Microsoft C/C++ MSF 7.00\r\n\x1aDS").unwrap();
    assert!(PortablePdb::find(&root(), &assembly, None).unwrap().is_none());
}

#[test]
fn a_damaged_pdb_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let whole =
        fs::read(Runtime::V8.require().executable().with_file_name("WorkItems.pdb")).unwrap();
    let path = folder.path().join("damaged.pdb");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        if let Ok(pdb) = PortablePdb::read(&path) {
            for method in 1..50 {
                let _ = (pdb.line(method, 3), pdb.kickoff_method(method));
            }
        }
    };
    for length in (0..whole.len()).step_by(whole.len() / 200 + 1) {
        read(&whole[..length]);
    }
    // All of the head, where the structure is, and samples of the rest.
    for at in (0..400.min(whole.len())).chain((400..whole.len()).step_by(whole.len() / 400 + 1)) {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            read(&bytes);
        }
    }
}

#[test]
fn the_runtimes_exports() {
    let Host::Muxer { framework, .. } = Runtime::V9.require().host() else {
        panic!("9.0.5 is multi-file")
    };
    let runtime = NativeSymbols::open(&root(), &framework.join("libcoreclr.so")).unwrap();
    assert_eq!(runtime.source(), SymbolSource::Exports);
    assert!(!runtime.is_empty() && runtime.build_id().is_some());
    let native = NativeSymbols::open(&root(), &framework.join("libSystem.Native.so")).unwrap();
    assert!(native.len() > 100);
    let single = NativeSymbols::open(&root(), &Runtime::V8.require().executable()).unwrap();
    assert!(single.is_single_file_host());
    assert_eq!(ModuleKind::of("libcoreclr.so"), ModuleKind::Runtime);
}

/// A debug file is used when its build id is the module's, and only then.
#[test]
fn debug_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("code.c");
    fs::write(
        &source,
        "static int hidden(int a) { return a * 7; }\nint shown(int a) { return hidden(a) + 1; }\n",
    )
    .unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let done =
            Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let build =
        ["-shared", "-fPIC", "-O0", "-g", "-Wl,--build-id=sha1", "-o", "libcode.so", "code.c"];
    run("cc", &build);
    run("objcopy", &["--only-keep-debug", "libcode.so", "libcode.so.debug"]);
    run("objcopy", &["--strip-all", "--add-gnu-debuglink=libcode.so.debug", "libcode.so"]);
    let module = folder.path().join("libcode.so");
    let names = |symbols: &NativeSymbols| -> Vec<String> {
        let found =
            (0..0x4000).filter_map(|address| Some(symbols.lookup(address)?.name.into_owned()));
        let mut names: Vec<String> = found.collect();
        names.dedup();
        names
    };
    let symbols = NativeSymbols::open(&root(), &module).unwrap();
    assert_eq!(symbols.source(), SymbolSource::DebugFile);
    assert!(names(&symbols).contains(&"hidden".to_owned()), "{:?}", names(&symbols));

    // The same under the root of the process, by build id.
    let id = symbols.build_id().unwrap().to_owned();
    let elsewhere = folder.path().join("root");
    let by_id = elsewhere.join("usr/lib/debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&by_id).unwrap();
    fs::rename(folder.path().join("libcode.so.debug"), by_id.join(format!("{}.debug", &id[2..])))
        .unwrap();
    fs::copy(&module, elsewhere.join("libcode.so")).unwrap();
    let there = Root::at(&elsewhere).unwrap();
    let inside = NativeSymbols::open(&there, Path::new("/libcode.so")).unwrap();
    assert_eq!(inside.source(), SymbolSource::DebugFile);
    assert_eq!(NativeSymbols::open(&root(), &module).unwrap().source(), SymbolSource::Exports);

    // One of another build.
    fs::write(&source, "int other(void) { return 1; }\n").unwrap();
    run(
        "cc",
        &["-shared", "-fPIC", "-g", "-Wl,--build-id=sha1", "-o", "libcode.so.debug", "code.c"],
    );
    let symbols = NativeSymbols::open(&root(), &module).unwrap();
    assert_eq!(symbols.source(), SymbolSource::Exports);
    assert!(names(&symbols).contains(&"shown".to_owned()));
    assert!(!names(&symbols).contains(&"hidden".to_owned()));
}
