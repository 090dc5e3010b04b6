//! What clrscope says, as values: a [`Document`] has sections of sentences, tables, trees, code and
//! figures, and a table has typed cells.
//!
//! Whoever has something to say makes a document. [`text`] and [`markdown`] write any
//! document, and know nothing of what it is about; so does the program of HTML pages (`web/src`),
//! which reads documents as JSON.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

mod cell;
mod figure;
pub mod format;
pub mod html;
pub mod markdown;
pub mod plain;
pub mod text;

pub use cell::{Cell, Unit, Word};
pub use figure::{Drawing, Figure, Graph, GraphEdge, GraphNode, Series, WeightedNode, Weights};

/// What there is to say, from the most general to the details.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// The first one's title is that of the document.
    pub sections: Vec<Section>,
}

/// A part of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Section {
    /// One line.
    pub title: String,
    /// A word such as `high` for how much the section matters. Sections that have one are numbered.
    pub badge: Option<&'static str>,
    /// Sentences before everything else, each in a line or paragraph of its own.
    pub lead: Vec<String>,
    /// Tables, trees, code and figures, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section with a title and nothing else.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a sentence.
    pub fn say(&mut self, sentence: impl Into<String>) {
        self.lead.push(sentence.into());
    }

    /// Adds a table, a tree or code.
    pub fn add(&mut self, block: impl Into<Block>) {
        self.blocks.push(block.into());
    }

    /// Adds tables, trees or code.
    pub fn extend<B: Into<Block>>(&mut self, blocks: impl IntoIterator<Item = B>) {
        self.blocks.extend(blocks.into_iter().map(Into::into));
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// Rows of cells.
    Table(Table),
    /// Lines below other lines.
    Tree(Tree),
    /// Lines as they are.
    Code(Code),
    /// A picture of what other blocks say.
    Figure(Figure),
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Block::Table(table)
    }
}

impl From<Tree> for Block {
    fn from(tree: Tree) -> Self {
        Block::Tree(tree)
    }
}

impl From<Figure> for Block {
    fn from(figure: Figure) -> Self {
        Block::Figure(figure)
    }
}

impl From<Code> for Block {
    fn from(code: Code) -> Self {
        Block::Code(code)
    }
}

/// Rows of cells. If no column has a title, it is a list of facts: names, and what is to be said of
/// each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    /// The columns, from left to right. The last one has the most room. If it has no title, its
    /// texts continue in further lines.
    pub columns: Vec<Column>,
    /// Each with as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// How many rows there are that are not in the table.
    pub more: usize,
}

impl Table {
    /// A table with all of these rows.
    pub fn new(columns: Vec<Column>, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        Self { columns, rows: rows.into_iter().collect(), more: 0 }
    }

    /// A table, if it has rows.
    pub fn of(columns: Vec<Column>, rows: impl IntoIterator<Item = Vec<Cell>>) -> Option<Self> {
        let table = Self::new(columns, rows);
        (!table.rows.is_empty()).then_some(table)
    }

    /// A table of the first `most` rows, and the number of the others.
    pub fn top(
        columns: Vec<Column>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
        most: usize,
    ) -> Self {
        let mut rows = rows.into_iter();
        let shown = rows.by_ref().take(most).collect();
        Self { columns, rows: shown, more: rows.count() }
    }

    /// A list of facts: names, and what is to be said of each.
    pub fn facts<N: Into<String>>(facts: impl IntoIterator<Item = (N, Cell)>) -> Self {
        let rows = facts.into_iter().map(|(name, cell)| vec![Cell::text(name), cell]);
        Self::new(vec![left(""), left("")], rows)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Column {
    /// Its heading; empty where the cells speak for themselves.
    pub title: Cow<'static, str>,
    /// Whether its cells stand at the right, as numbers do.
    pub right: bool,
    /// How many characters it has room for at least: so it stays where it is while its cells
    /// change.
    pub least: usize,
}

impl Column {
    /// The same column with room for at least this many characters.
    pub fn at_least(self, characters: usize) -> Self {
        Self { least: characters, ..self }
    }
}

/// A column of texts.
pub fn left(title: impl Into<Cow<'static, str>>) -> Column {
    Column { title: title.into(), right: false, least: 0 }
}

/// A column of numbers.
pub fn right(title: impl Into<Cow<'static, str>>) -> Column {
    Column { title: title.into(), right: true, least: 0 }
}

/// Lines below other lines: stacks, call trees, paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tree {
    /// Whether branches are drawn. Without them the lines are only indented.
    pub branches: bool,
    /// The nodes, each after the one that it stands below.
    pub nodes: Vec<Node>,
    /// How many nodes there are that are not in the tree.
    pub more: usize,
}

/// A line of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Node {
    /// How many nodes it stands below.
    pub depth: usize,
    /// What stands in the line.
    pub cells: Vec<Cell>,
}

impl Tree {
    /// The first `most` lines, none below another, and the number of the others.
    pub fn top(lines: impl IntoIterator<Item = String>, most: usize) -> Self {
        let mut lines = lines.into_iter();
        let mut tree = Tree::default();
        for line in lines.by_ref().take(most) {
            tree.push(0, [Cell::Text(line)]);
        }
        Tree { more: lines.count(), ..tree }
    }

    /// Adds a line.
    pub fn push(&mut self, depth: usize, cells: impl IntoIterator<Item = Cell>) {
        self.nodes.push(Node { depth, cells: cells.into_iter().collect() });
    }

    /// What stands before each node where branches are drawn: `│  ├─ `.
    ///
    /// A node whose depth is more than one below the previous node stands below that one.
    pub(crate) fn drawn(&self) -> Vec<String> {
        let mut before: Vec<String> = Vec::with_capacity(self.nodes.len());
        // Whether a node of this depth follows below, before one that is higher up.
        let mut follows: Vec<bool> = Vec::new();
        for node in self.nodes.iter().rev() {
            let depth = node.depth.min(MOST_DEPTH);
            let has_next = follows.get(depth).copied().unwrap_or(false);
            let above = (1..depth)
                .map(|depth| if follows.get(depth) == Some(&true) { "│  " } else { "   " });
            let own = match (depth, has_next) {
                (0, _) => "",
                (_, true) => "├─ ",
                (_, false) => "└─ ",
            };
            before.push(above.chain([own]).collect());
            follows.truncate(depth);
            follows.resize(depth, false);
            follows.push(true);
        }
        before.reverse();
        before
    }
}

/// Lines of a programming language. They are neither wrapped nor cut, and keep their indentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Code {
    /// The language, as Markdown names it.
    pub language: &'static str,
    /// The lines.
    pub text: String,
}

/// Nodes that are deeper are drawn as if they were this deep: so the size of what is written
/// depends on the number of nodes alone.
pub(crate) const MOST_DEPTH: usize = 200;
