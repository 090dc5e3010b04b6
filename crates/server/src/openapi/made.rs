//! The schemas of the OpenAPI document, made from the types: what the program carries is compared
//! with them.

use api::live::View;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// Makes them.
pub struct Made {
    /// Of what is sent.
    answers: SchemaGenerator,
    /// Of what is received.
    requests: SchemaGenerator,
}

impl Default for Made {
    fn default() -> Self {
        let settings = |mut settings: SchemaSettings| {
            settings.definitions_path = "/components/schemas".into();
            settings.into_generator()
        };
        Self {
            answers: settings(report::schema_settings()),
            requests: settings(report::schema_settings().for_deserialize()),
        }
    }
}

impl Made {
    /// Adds what is sent.
    pub fn answer<T: JsonSchema>(&mut self) {
        self.answers.subschema_for::<T>();
    }

    /// Adds what is received.
    pub fn request<T: JsonSchema>(&mut self) {
        self.requests.subschema_for::<T>();
    }

    fn finish(mut self) -> Map<String, Value> {
        let figures = self.answers.subschema_for::<View>();
        let mut schemas = self.answers.take_definitions(true);
        schemas.extend(self.requests.take_definitions(true));
        schemas.insert("Figures".to_owned(), figures.to_value());
        schemas
    }
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let schemas = crate::endpoints::api().made.finish();
    let text = serde_json::to_string_pretty(&schemas).unwrap() + "\n";
    testkit::check_kept("crates/server/schemas.json", &text);
}
