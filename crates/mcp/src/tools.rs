//! The tools: one file for each, and the list.

mod checkup;
mod compare;
mod explain;
mod explore;
mod heap;
mod list;
mod next;
mod record;
mod sessions;
mod stacks;
mod trace;

use crate::{
    answer::Answer,
    call::{Call, Failure},
};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
};

/// Most tools that there may be: each costs a model that reads the list.
pub const MOST_TOOLS: usize = 10;

/// What an assistant needs to be allowed for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it observes in a way that clrscope has chosen, and changes nothing.
    Nothing,
    /// To choose what is recorded.
    Record,
    /// To add code to methods.
    Trace,
}

impl Need {
    /// What is said where a tool is not allowed.
    pub fn refusal(self, tool: &str) -> String {
        let option = match self {
            Self::Nothing | Self::Record => "record",
            Self::Trace => "trace",
        };
        format!(
            "`{tool}` is not allowed here. The user can allow it: clrscope mcp --allow-{option}, or \
             clrscope serve --mcp-allow-{option}"
        )
    }
}

/// The arguments of a tool, and what it answers.
pub trait Ask: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What a model reads: what it answers, what it costs the process, when to use it.
    const ABOUT: &'static str;
    /// What it needs.
    const NEEDS: Need = Need::Nothing;

    /// Answers.
    fn answer(self, call: Call) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// A tool.
pub struct Tool {
    pub name: &'static str,
    pub about: &'static str,
    pub needs: Need,
    pub schema: fn() -> Arc<JsonObject>,
    pub call: fn(Call, JsonObject) -> Answering,
}

/// All tools, in the order in which they are listed.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        tool::<checkup::Checkup>(),
        tool::<list::List>(),
        tool::<explain::Explain>(),
        tool::<explore::Explore>(),
        tool::<stacks::Stacks>(),
        tool::<heap::Heap>(),
        tool::<sessions::Sessions>(),
        tool::<compare::Compare>(),
        tool::<record::Record>(),
        tool::<trace::Trace>(),
    ]
});

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

fn tool<T: Ask>() -> Tool {
    Tool {
        name: T::NAME,
        about: T::ABOUT,
        needs: T::NEEDS,
        schema: schema::<T>,
        call: |call, arguments| Box::pin(run::<T>(call, arguments)),
    }
}

async fn run<T: Ask>(call: Call, arguments: JsonObject) -> Result<Answer, Failure> {
    let read = serde_json::from_value::<T>(Value::Object(arguments));
    let arguments = read.map_err(|error| Failure::Arguments(error.to_string()))?;
    arguments.answer(call).await
}

/// The schema of arguments, without what a model does not need.
fn schema<T: Ask>() -> Arc<JsonObject> {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator()
        .into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    compact(&mut schema);
    match schema {
        Value::Object(mut object) => {
            object.remove("description");
            Arc::new(object)
        }
        _ => Arc::default(),
    }
}

/// Removes what says nothing: titles, defaults, formats of numbers, and that an argument that may
/// be left out may be null as well.
fn compact(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for name in ["title", "format", "default"] {
                // A property may have such a name; then it is a schema and no text or number.
                if !object.get(name).is_some_and(Value::is_object) {
                    object.remove(name);
                }
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            if let Some(Value::Array(mut ways)) = object.remove("anyOf") {
                ways.retain(|way| way.get("type").is_none_or(|kind| kind != "null"));
                match ways.as_slice() {
                    [Value::Object(only)] => object.extend(only.clone()),
                    _ => _ = object.insert("anyOf".to_owned(), Value::Array(ways)),
                }
            }
            object.values_mut().for_each(compact);
        }
        Value::Array(items) => items.iter_mut().for_each(compact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the list of all tools, which a model reads before anything else.
    const MOST_LIST: usize = 8_000;

    #[test]
    fn the_list_is_short_and_says_all() {
        assert!(TOOLS.len() <= MOST_TOOLS);
        let mut bytes = 0;
        for tool in TOOLS.iter() {
            let schema = (tool.schema)();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            for (name, property) in &properties {
                assert!(property["description"].is_string(), "{}: {name}: {property}", tool.name);
                assert!(property.get("type").is_some(), "{}: {name}: {property}", tool.name);
            }
            bytes += tool.name.len() + tool.about.len();
            bytes += serde_json::to_string(&schema).unwrap().len() + 80;
            for part in ["Costs", "Use"] {
                assert!(tool.about.contains(part), "{} does not say {part}", tool.name);
            }
        }
        assert!(bytes <= MOST_LIST, "{bytes}");
    }

    #[test]
    fn names_are_used_once() {
        let names: std::collections::BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len());
    }
}
