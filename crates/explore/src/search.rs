use profile::{NameStyle, Tables, session::FunctionId};
use regex::{Regex, RegexBuilder};

use crate::{Hit, Tree};

/// Bytes that a compiled expression may take.
const MOST: usize = 1 << 20;

/// What is searched for in the full names of functions; upper and lower case are the same.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A part of the name, in lower case.
    Text(String),
    /// What stands between slashes is a regular expression.
    Expression(Box<Regex>),
}

/// Why nothing can be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The expression is wrong.
    #[error("this is no regular expression: {0}")]
    Wrong(String),
}

impl Pattern {
    /// Reads what a person types: a text, or `/a regular expression/`. `None` if that is empty.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(typed: &str) -> Result<Option<Self>, PatternError> {
        let typed = typed.trim();
        let inner = typed.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        match inner {
            _ if typed.is_empty() => Ok(None),
            Some(expression) if !expression.is_empty() => {
                let mut builder = RegexBuilder::new(expression);
                let built = builder.case_insensitive(true).size_limit(MOST).build();
                match built {
                    Ok(regex) => Ok(Some(Pattern::Expression(Box::new(regex)))),
                    Err(error) => Err(PatternError::Wrong(error.to_string())),
                }
            }
            _ => Ok(Some(Pattern::Text(typed.to_lowercase()))),
        }
    }

    /// Whether a name is found.
    pub fn finds(&self, name: &str) -> bool {
        match self {
            Pattern::Text(text) => name.to_lowercase().contains(text),
            Pattern::Expression(expression) => expression.is_match(name),
        }
    }

    /// Which functions are found, by their ids.
    pub fn functions(&self, tables: &Tables) -> Vec<bool> {
        let ids = (0..tables.functions.len()).map(|id| FunctionId(id as u32));
        ids.map(|id| self.finds(&tables.function_name(id, NameStyle::FULL))).collect()
    }
}

impl Tree {
    /// What a search says of each node.
    pub fn find(&self, functions: &[bool]) -> Vec<Hit> {
        let nodes = self.calls().nodes();
        let mut hits = vec![Hit::Nowhere; nodes.len()];
        // Children stand behind their parents.
        for node in (0..nodes.len()).rev() {
            if functions[nodes[node].function.index()] {
                hits[node] = Hit::Here;
            }
            if hits[node] != Hit::Nowhere
                && let Some(parent) = self.calls().parent(node)
                && hits[parent] == Hit::Nowhere
            {
                hits[parent] = Hit::Below;
            }
        }
        hits
    }

    /// The weight under a node, or of all, of stacks on which something is found.
    pub fn found_weight(&self, root: Option<usize>, hits: &[Hit]) -> u64 {
        let path = root.map(|root| self.path(root)).unwrap_or_default();
        if path.iter().any(|node| hits[*node] == Hit::Here) {
            return self.total(root).weight;
        }
        let mut sum = 0_u64;
        let mut stack: Vec<u32> = self.children(root).to_vec();
        while let Some(node) = stack.pop() {
            match hits[node as usize] {
                Hit::Nowhere => {}
                Hit::Here => sum = sum.saturating_add(self.total(Some(node as usize)).weight),
                Hit::Below => stack.extend(self.children(Some(node as usize))),
            }
        }
        sum
    }
}
