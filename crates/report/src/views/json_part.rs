//! What a view says in JSON, with its schema.

use profile::Profile;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

/// A key of the report in JSON.
pub struct JsonPart {
    pub key: &'static str,
    /// What stands there.
    pub value: fn(&Profile) -> Value,
    /// What may stand there: of [`schema_of`].
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

/// A [`JsonPart`] of a key, a type that can be serialized and describes itself, and the function
/// that makes it of a profile.
macro_rules! json_part {
    ($key:literal, $type:ty, $make:path) => {
        $crate::views::json_part::JsonPart {
            key: $key,
            value: |profile| {
                let value: $type = $make(profile);
                $crate::views::json_part::value(&value)
            },
            schema: $crate::views::json_part::schema_of::<$type>(),
        }
    };
}

pub(super) use json_part;

/// What makes the schema of a type. A release has the schemas as files, which a test compares with
/// those of the types, and not a megabyte of code that makes them.
pub const fn schema_of<T: JsonSchema>() -> fn(&mut SchemaGenerator) -> Schema {
    if cfg!(debug_assertions) {
        |generator| generator.subschema_for::<T>()
    } else {
        |_| Schema::default()
    }
}

/// A value in JSON. Types of views have no keys but texts, so that nothing fails.
pub fn value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
