//! Checks real output against the schema that describes it.

use anyhow::{Context, Result};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// The keys of an object of schemas, each of which is a schema.
const MAPS: [&str; 2] = ["properties", "$defs"];
/// The keys whose value is a schema, or a list of them, for the same value.
const SAME: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// The keys whose value is a schema of a part of the value.
const PARTS: [&str; 2] = ["items", "additionalProperties"];

/// A JSON Schema by which values are checked, more strictly than it says: what it does not name
/// must not be there.
pub struct JsonSchema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl JsonSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(mut schema: Value) -> Result<Self> {
        close(&mut schema, false);
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let place = "schema.json";
        compiler.add_resource(place, schema).map_err(|error| anyhow::anyhow!("{error}"))?;
        let index = compiler
            .compile(place, &mut schemas)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .context("this is no JSON Schema")?;
        Ok(Self { schemas, index })
    }

    /// Reads the schema of a name in an OpenAPI document.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_openapi(document: Value, name: &str) -> Result<Self> {
        let moved = document.to_string().replace("#/components/schemas/", "#/$defs/");
        let mut document: Value = serde_json::from_str(&moved)?;
        let all = document["components"]["schemas"].take();
        Self::new(json!({ "$ref": format!("#/$defs/{name}"), "$defs": all }))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// If it has something that the schema does not allow or does not name, or lacks something.
    pub fn check(&self, value: &Value) -> Result<()> {
        self.schemas.validate(value, self.index).map_err(|error| anyhow::anyhow!("{error:#}"))
    }
}

/// Forbids unknown keys in each object of which keys are known. `shared` where a schema around this
/// one knows other keys of the same object.
fn close(schema: &mut Value, shared: bool) {
    let Some(schema) = schema.as_object_mut() else { return };
    let is_closed =
        schema.contains_key("additionalProperties") || schema.contains_key("unevaluatedProperties");
    let knows_keys = schema.contains_key("properties");
    if knows_keys && !is_closed && !shared {
        schema.insert("unevaluatedProperties".to_owned(), json!(false));
    }
    for key in MAPS {
        let parts = schema.get_mut(key).and_then(Value::as_object_mut);
        parts.into_iter().flatten().for_each(|(_, part)| close(part, false));
    }
    for key in SAME {
        let parts = schema.get_mut(key).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(|part| close(part, shared || knows_keys));
    }
    for key in PARTS {
        schema.get_mut(key).into_iter().for_each(|part| close(part, false));
    }
    let parts = schema.get_mut("prefixItems").and_then(Value::as_array_mut);
    parts.into_iter().flatten().for_each(|part| close(part, false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> JsonSchema {
        JsonSchema::new(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"pid": {"type": "integer"}, "more": {"$ref": "#/$defs/More"}},
            "required": ["pid"],
            "oneOf": [
                {"properties": {"is": {"const": "a"}}, "required": ["is"]},
                {"properties": {"is": {"const": "b"}, "of": {"type": "null"}}, "required": ["is"]},
            ],
            "$defs": {"More": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_not_described_is_found() {
        let good = [
            json!({"pid": 1, "is": "a"}),
            json!({"pid": 1, "is": "b", "of": null, "more": {"x": "y"}}),
            json!({"pid": 1, "is": "a", "more": {}}),
        ];
        for value in good {
            schema().check(&value).unwrap();
        }
        let bad = [
            json!({"is": "a"}),
            json!({"pid": "1", "is": "a"}),
            json!({"pid": 1, "is": "a", "unknown": 1}),
            json!({"pid": 1, "is": "a", "more": {"y": 1}}),
            json!({"pid": 1, "is": "c"}),
        ];
        for value in bad {
            assert!(schema().check(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn what_is_no_schema_is_an_error() {
        assert!(JsonSchema::new(json!({"type": 7})).is_err());
    }
}
