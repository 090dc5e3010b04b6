//! Files of a crate that depend on each other in a circle.
//!
//! A file depends on another one if it names something of it, by a path that begins with `crate`,
//! `super`, `self` or a module of its own. What a `pub use` passes on counts for the file that has
//! it. A module and those below it are one part: what they name of each other does not count. Nor
//! do tests.

use crate::tool::files;
use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

/// A path, or that of a module, as its names.
type Names = Vec<String>;

/// Most files that may depend on each other.
const MOST: usize = 2;

/// Words before the name of an item.
const ITEMS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "const", "static", "type", "union", "macro_rules"];

/// What a file has and names.
#[derive(Default)]
struct File {
    items: HashSet<String>,
    /// Names that `pub use` gives, `*` for all, and what they stand for.
    passed_on: Vec<(String, Names)>,
    named: Vec<Names>,
}

/// The circles of more than two files below a source folder, each as the names of its modules.
///
/// # Errors
/// When a file cannot be read or is no Rust.
pub fn of(source: &Path) -> Result<Vec<Names>> {
    let mut modules = BTreeMap::new();
    for path in files(source, "rs")? {
        let relative = path.strip_prefix(source)?.with_extension("");
        let mut module: Names =
            relative.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
            module.pop();
        }
        if module.iter().any(|name| name == "tests" || name == "bin") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        scan(tokens, modules.entry(module).or_default());
    }
    Ok(circles(&modules))
}

fn circles(modules: &BTreeMap<Names, File>) -> Vec<Names> {
    let uses: BTreeMap<&Names, BTreeSet<&Names>> = modules
        .iter()
        .map(|(module, file)| {
            let named = file.named.iter().filter_map(|path| resolve(modules, module, path, 0));
            let apart = |other: &&Names| !other.starts_with(module) && !module.starts_with(other);
            (module, named.filter(apart).collect())
        })
        .collect();
    let reached: BTreeMap<&Names, BTreeSet<&Names>> =
        uses.keys().map(|module| (*module, reached_from(&uses, module))).collect();
    let mut found = BTreeSet::new();
    for (module, others) in &reached {
        let circle: BTreeSet<&Names> =
            others.iter().copied().filter(|other| reached[other].contains(module)).collect();
        if circle.len() > MOST {
            found.insert(circle);
        }
    }
    let shown = |circle: BTreeSet<&Names>| circle.iter().map(|names| names.join("/")).collect();
    found.into_iter().map(shown).collect()
}

/// What a module depends on, also by others.
fn reached_from<'a>(
    uses: &BTreeMap<&'a Names, BTreeSet<&'a Names>>,
    module: &Names,
) -> BTreeSet<&'a Names> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Names> = uses.get(module).into_iter().flatten().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(uses.get(module).into_iter().flatten());
        }
    }
    reached
}

/// The module that has what a path in another one stands for; `None` for what is not of this crate.
fn resolve<'a>(
    modules: &'a BTreeMap<Names, File>,
    from: &Names,
    path: &[String],
    depth: usize,
) -> Option<&'a Names> {
    /// Names that are passed on again and again are of no interest.
    const MOST_DEEP: usize = 8;
    let (mut module, mut rest) = (from.clone(), path);
    match path.first()?.as_str() {
        "crate" => (module, rest) = (Names::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let ["super", ..] = rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                module.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let below = [&module[..], &[first.to_owned()]].concat();
            modules.get(&below)?;
        }
    }
    while let Some(next) = rest.first() {
        let below = [&module[..], std::slice::from_ref(next)].concat();
        if !modules.contains_key(&below) {
            break;
        }
        (module, rest) = (below, &rest[1..]);
    }
    let (module, file) = modules.get_key_value(&module)?;
    let Some(name) = rest.first().filter(|name| !file.items.contains(*name)) else {
        return Some(module);
    };
    if depth == MOST_DEEP {
        return Some(module);
    }
    let passed_on = |wanted: &str| -> Vec<&Names> {
        let all = file.passed_on.iter().filter(|(given, _)| given == wanted);
        all.map(|(_, path)| path).collect()
    };
    if let Some(path) = passed_on(name).first() {
        return resolve(modules, module, &[&path[..], &rest[1..]].concat(), depth + 1);
    }
    let of_glob = passed_on("*").into_iter().find_map(|path| {
        let path = [&path[..path.len() - 1], rest].concat();
        let found = resolve(modules, module, &path, depth + 1)?;
        modules[found].items.contains(name).then_some(found)
    });
    Some(of_glob.unwrap_or(module))
}

/// Reads what a file has and names.
fn scan(tokens: TokenStream, file: &mut File) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut at, mut is_public, mut is_test) = (0, false, false);
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Ident(word) if word == "pub" => {
                is_public = true;
                // Who may see it is no dependency.
                at += usize::from(is_group(tokens.get(at), Delimiter::Parenthesis));
                continue;
            }
            TokenTree::Ident(word) if word == "use" => {
                let end = tokens[at..].iter().position(|token| is_punctuation(token, ';'));
                let end = end.map_or(tokens.len(), |length| at + length);
                if !is_test {
                    used(&tokens[at..end], &[], is_public, file);
                }
                (at, is_test) = (end, false);
            }
            TokenTree::Ident(word) if ITEMS.iter().any(|item| word == item) => {
                // `macro_rules` has a `!` before the name.
                let name = tokens[at..].iter().take(2).find_map(ident);
                file.items.extend(name);
            }
            TokenTree::Ident(word) => {
                let mut path = vec![word.to_string()];
                while let [one, two, TokenTree::Ident(next), ..] = &tokens[at..]
                    && is_punctuation(one, ':')
                    && is_punctuation(two, ':')
                {
                    path.push(next.to_string());
                    at += 3;
                }
                if path.len() > 1 && !is_test {
                    file.named.push(path);
                }
            }
            TokenTree::Group(group) if !is_test => scan(group.stream(), file),
            TokenTree::Group(group) => is_test &= group.delimiter() != Delimiter::Brace,
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.get(at) {
                    is_test |= attribute.stream().to_string().replace(' ', "") == "cfg(test)";
                    at += 1;
                }
            }
            TokenTree::Punct(mark) => is_test &= mark.as_char() != ';',
            TokenTree::Literal(_) => {}
        }
        is_public = false;
    }
}

/// Reads the tree of a `use`, below a path.
fn used(tree: &[TokenTree], above: &[String], is_public: bool, file: &mut File) {
    for part in tree.split(|token| is_punctuation(token, ',')) {
        let mut path = above.to_vec();
        let mut alias = None;
        for (at, token) in part.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = part.get(at + 1).and_then(ident);
                    break;
                }
                // A module itself: `a::{self, B}`.
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == '*' => path.push("*".to_owned()),
                TokenTree::Group(group) => {
                    let tree: Vec<TokenTree> = group.stream().into_iter().collect();
                    used(&tree, &path, is_public, file);
                    path.clear();
                }
                _ => {}
            }
        }
        let Some(last) = path.last().cloned() else { continue };
        if is_public {
            file.passed_on.push((alias.unwrap_or(last), path.clone()));
        }
        file.named.push(path);
    }
}

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn is_punctuation(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Names> {
        let mut modules = BTreeMap::new();
        for (name, text) in files {
            let module = name.split('/').filter(|name| !name.is_empty());
            let file = modules.entry(module.map(str::to_owned).collect()).or_default();
            scan(text.parse().unwrap(), file);
        }
        circles(&modules)
    }

    #[test]
    fn circles_are_found_through_what_is_passed_on() {
        let files = [
            ("", "mod a; mod b; mod c; pub use a::One; pub use b::*; pub use c::Three as Last;"),
            ("a", "use crate::Two; pub struct One(Two);"),
            ("b", "pub struct Two; fn two() { crate::Last::new() }"),
            ("c", "use crate::{One}; pub struct Three(One);"),
        ];
        assert_eq!(found(&files), [["a", "b", "c"]]);
        let mut two = files;
        two[3].1 = "pub struct Three;";
        assert!(found(&two).is_empty());
    }

    #[test]
    fn modules_and_those_below_them_are_one_part_and_tests_do_not_count() {
        let files = [
            ("", "mod a; mod b; pub(in crate::b) fn f() {}"),
            (
                "a",
                "mod x; mod y; fn f() { x::g(); y::h() } #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("a/x", "use super::f; use super::y::h; fn g() {}"),
            ("a/y", "use crate::a::f; fn h() {}"),
            ("b", "use crate::a::x::g; pub struct B;"),
        ];
        assert!(found(&files).is_empty());
    }
}
