//! What is wrong with the text of a pattern.

/// Why a text is no pattern. Both fields together say where and why; the text of the problem says
/// what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("character {position}: {problem}")]
pub struct PatternError {
    /// The character at which it shows, counted from 1.
    pub position: usize,
    /// What is wrong there.
    pub problem: PatternProblem,
}

impl PatternError {
    /// One at an offset in bytes.
    pub(crate) fn new(text: &str, at: usize, problem: PatternProblem) -> Self {
        Self {
            position: text.char_indices().take_while(|(offset, _)| *offset < at).count() + 1,
            problem,
        }
    }
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// Nothing at all.
    #[error("the pattern is empty; `*` stands for any name")]
    Empty,
    /// More text than any name has.
    #[error("the pattern is longer than {most} bytes; use several shorter ones")]
    TooLong {
        /// Most bytes.
        most: usize,
    },
    /// Sets in sets in sets.
    #[error("sets lie more than {most} deep in each other; write them side by side")]
    TooDeep {
        /// Deepest allowed.
        most: usize,
    },
    /// Sets that multiply out to too much.
    #[error(
        "the sets stand for more than {} names or {} characters; use several patterns, or `*`",
        crate::Pattern::MAX_NAMES,
        crate::Pattern::MAX_EXPANDED
    )]
    TooMany,
    /// `{` without `}`.
    #[error("this set has no end; close it with `}}`, or write `\\{{` for the character itself")]
    Unclosed,
    /// `}` without `{`.
    #[error("this `}}` ends no set; write `\\}}` for the character itself")]
    Unopened,
    /// A `\` at the end.
    #[error("nothing follows this `\\`; write `\\\\` for the character itself")]
    Escape,
    /// A part of a method's pattern is not there.
    #[error(
        "here the {part} is missing; write [assembly!]type.method[(parameters)], with `*` for any"
    )]
    Missing {
        /// Which.
        part: &'static str,
    },
    /// `(` without `)` at the end.
    #[error(
        "the parameters that begin here do not end with `)` at the end of the pattern; close them \
            there"
    )]
    Parameters,
    /// More parameters than a rule can name.
    #[error("more than {most} parameters; leave them out to match all overloads")]
    TooManyParameters {
        /// Most.
        most: usize,
    },
    /// Type arguments where only their number can count.
    #[error(
        "a method is instrumented for all type arguments at once; write one `*` for each \
         (`List<*>`) at the end of a name, or `\\<` for a bracket in a name that the compiler made"
    )]
    TypeArguments,
}
