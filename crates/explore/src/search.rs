use std::time::{Duration, Instant};

use profile::{NameStyle, Tables, session::FunctionId};
use regex::{Regex, RegexBuilder};

use crate::{ExploreError, Hit, Tree};

/// Bytes that a compiled expression may take: how long a search takes grows with them.
const MOST: usize = 1 << 20;

/// Bytes of memory that a search may take for states that it has met.
const MOST_STATES: usize = 4 << 20;

/// Letters of what is typed.
const MOST_LETTERS: usize = 1000;

/// How long a search may take, and after how many names the clock is read again.
const LIMIT: Duration = Duration::from_secs(3);
const BETWEEN: usize = 64;

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
    /// It is long.
    #[error("a search has at most {MOST_LETTERS} letters")]
    Long,
}

impl Pattern {
    /// Reads what a person types: a text, or `/a regular expression/`. `None` if that is empty.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(typed: &str) -> Result<Option<Self>, PatternError> {
        let typed = typed.trim();
        if typed.chars().count() > MOST_LETTERS {
            return Err(PatternError::Long);
        }
        let inner = typed.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        match inner {
            _ if typed.is_empty() => Ok(None),
            Some(expression) if !expression.is_empty() => {
                let mut builder = RegexBuilder::new(expression);
                let built = builder
                    .case_insensitive(true)
                    .size_limit(MOST)
                    .dfa_size_limit(MOST_STATES)
                    .build();
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
    ///
    /// # Errors
    /// [`ExploreError::SearchTooLong`].
    pub fn functions(&self, tables: &Tables) -> Result<Vec<bool>, ExploreError> {
        self.functions_within(tables, LIMIT)
    }

    fn functions_within(
        &self,
        tables: &Tables,
        limit: Duration,
    ) -> Result<Vec<bool>, ExploreError> {
        let begun = Instant::now();
        let find = |id: usize| {
            if id.is_multiple_of(BETWEEN) && begun.elapsed() > limit {
                return Err(ExploreError::SearchTooLong);
            }
            let name = tables.function_name(FunctionId(id as u32), NameStyle::FULL);
            Ok(self.finds(&name))
        };
        (0..tables.functions.len()).map(find).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_have_limits() {
        assert_eq!(Pattern::parse(&"x".repeat(1001)).unwrap_err(), PatternError::Long);
        let huge = Pattern::parse(r"/(\w{1000}){1000}/").unwrap_err();
        assert!(matches!(huge, PatternError::Wrong(_)), "{huge}");
        let profile = crate::shop::profile();
        let pattern = Pattern::parse("/price.*\\(/").unwrap().unwrap();
        assert!(pattern.functions(&profile.tables).unwrap().contains(&true));
        let late = pattern.functions_within(&profile.tables, Duration::ZERO);
        assert_eq!(late, Err(ExploreError::SearchTooLong));
    }
}
