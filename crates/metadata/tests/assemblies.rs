//! The assemblies of every runtime open, in folders and in single-file applications.

use metadata::{Assembly, Bundle, Error, Metadata, bundled_files, table};
use std::fs;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use testkit::{Runtime, Sample};

/// All files below a folder that end like assemblies.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&path));
        } else if path.extension().is_some_and(|end| end == "dll") {
            found.push(path);
        }
    }
    found
}

/// Opens a file and gives how many of its methods have bodies; `None` for a native library.
fn bodies(place: &str, bytes: &[u8]) -> Option<usize> {
    match Assembly::parse(bytes) {
        Err(Error::Native) => None,
        Err(error) => panic!("{place}: {error}"),
        Ok(assembly) => {
            assert!(assembly.name().is_some(), "{place}");
            Some(assembly.methods().filter(|method| method.has_body()).count())
        }
    }
}

#[test]
fn folders() {
    for (runtime, least, methods) in [(Runtime::V2_1, 150, 50_000), (Runtime::V3_1, 150, 70_000)] {
        let root = runtime.require().executable();
        let mut counts = (0, 0);
        for path in below(&root.with_file_name("shared")) {
            let found = bodies(&path.display().to_string(), &fs::read(&path).unwrap());
            counts = (counts.0 + u32::from(found.is_some()), counts.1 + found.unwrap_or(0));
        }
        println!("{runtime}: {} assemblies with {} bodies", counts.0, counts.1);
        assert!(counts.0 >= least && counts.1 >= methods, "{runtime}: {counts:?}");
    }
}

#[test]
fn bundles() {
    for (runtime, wanted) in [(Runtime::V8, "Sarif.dll"), (Runtime::V10, "azmcp.dll")] {
        let bytes = fs::read(runtime.require().executable()).unwrap();
        let files = bundled_files(&bytes).unwrap().unwrap();
        let mut counts = (0, 0);
        for file in files.iter().filter(|file| file.path.ends_with(".dll")) {
            let found = bodies(&file.path, &file.contents(&bytes).unwrap());
            assert!(
                found.is_some_and(|found| found > 0) || file.path != wanted,
                "{wanted} has no bodies"
            );
            counts = (counts.0 + u32::from(found.is_some()), counts.1 + found.unwrap_or(0));
        }
        println!(
            "{runtime}: {} files, {} assemblies with {} bodies",
            files.len(),
            counts.0,
            counts.1
        );
        assert!(files.iter().any(|file| file.path == wanted), "{files:?}");
        assert!(counts.0 > 50 && counts.1 > 10_000, "{runtime}: {counts:?}");
        assert!(bundled_files(&bytes[..bytes.len() - 100]).is_err() || bytes.len() < 1000);

        // The same, read one at a time.
        let mut bundle =
            Bundle::open(fs::File::open(runtime.executable()).unwrap()).unwrap().unwrap();
        for file in files.iter().step_by(7) {
            let read = bundle.read(&file.path).unwrap().unwrap();
            assert!(*read == *file.contents(&bytes).unwrap(), "{}", file.path);
        }
        assert!(bundle.read("Nothing.dll").unwrap().is_none());
        let cut = Bundle::open(Cursor::new(&bytes[..bytes.len() - 100]));
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::InvalidData);
    }
    // A host without an application, and what is no host.
    let root = Runtime::V9.require().executable();
    assert!(Bundle::open(fs::File::open(root).unwrap()).unwrap().is_none());
    assert!(Bundle::open(Cursor::new(b"nothing")).unwrap().is_none());
}

/// As `inspect` reads them out of a process: where the image lies as in its file.
#[test]
fn names_of_an_image_in_memory() {
    let sample = fs::read(Sample::named("locker").compile(Runtime::V3_1).unwrap()).unwrap();
    let metadata = Metadata::of_memory(|offset, size| {
        let start = usize::try_from(offset).ok()?;
        Some(sample.get(start..start.checked_add(size)?)?.to_vec())
    });
    let metadata = metadata.unwrap();
    let names: Vec<_> = (1..=metadata.rows(table::TYPE_DEF))
        .filter_map(|row| metadata.type_name(row, '+'))
        .collect();
    assert!(names.contains(&"Clrscope.Samples.Locker".to_owned()), "{names:?}");
    assert!(names.contains(&"Clrscope.Samples.Locker+Pair".to_owned()), "{names:?}");
    assert!(metadata.module_version_id().is_some());
}
