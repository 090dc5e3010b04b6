//! Renderers and other hubs serve all profilers and name none: what a profiler has to say is in a
//! file of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use profilers::PROFILERS;

/// Folders whose files are hubs. Folders in them are not.
const HUBS: &[&str] = &["crates/report/src"];

/// Every place at which a hub names a profiler.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for hub in HUBS {
        let folder = root.join(hub);
        let unreadable = || format!("cannot read {}", folder.display());
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .with_context(unreadable)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
        files.sort();
        for file in files {
            let source = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let named = named(&source).into_iter();
            problems.extend(named.map(|(line, id)| {
                format!("{hub}/{name}:{line} names the profiler {id}; a hub serves all profilers")
            }));
        }
    }
    Ok(problems)
}

/// Lines of a source file, without its tests, that hold a profiler's id as a string.
fn named(source: &str) -> Vec<(usize, &'static str)> {
    let code = source.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    code.enumerate()
        .flat_map(|(index, line)| {
            let holds = move |id: &&str| line.contains(&format!("\"{id}\""));
            PROFILERS.iter().map(|spec| spec.id).filter(holds).map(move |id| (index + 1, id))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_in_a_hub_is_found() {
        let source = "fn a() {\n    run(\"gc\");\n    run(\"gcs\");\n}\n\n#[cfg(test)]\nrun(\"cpu\");\n";
        assert_eq!(named(source), [(2, "gc")]);
    }
}
