//! The OpenAPI document, made together with the routes: what is not in it is not there.

#[cfg(test)]
mod made;
mod page;

use crate::{Shared, problem::Problem};
use axum::{Router, handler::Handler, routing::MethodFilter, routing::on};
use schemars::JsonSchema;
use serde_json::{Value, json};
use utoipa::openapi::{
    Content, HttpMethod, InfoBuilder, OpenApi, Paths, Ref, RefOr, Required, Schema,
    path::{OperationBuilder, ParameterBuilder, ParameterIn},
    request_body::RequestBodyBuilder,
    response::ResponseBuilder,
    schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type},
    security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

pub use page::page;

/// Where all of it is.
pub const PREFIX: &str = "/api/v1";

/// The schemas of all that is sent and received, compressed by `build.rs`. A test compares them
/// with the types: code that makes them would be large.
const SCHEMAS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.lz4"));

/// Routes with their description.
pub struct Api {
    router: Router<Shared>,
    paths: Paths,
    #[cfg(test)]
    made: made::Made,
}

/// The description of a route.
pub struct Endpoint {
    method: HttpMethod,
    path: &'static str,
    operation: OperationBuilder,
    problems: Vec<u16>,
}

impl Api {
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            paths: Paths::new(),
            #[cfg(test)]
            made: made::Made::default(),
        }
    }

    /// What a type is sent as.
    pub fn answer<T: JsonSchema>(&mut self) -> RefOr<Schema> {
        #[cfg(test)]
        self.made.answer::<T>();
        reference::<T>()
    }

    /// A list of it.
    pub fn list<T: JsonSchema>(&mut self) -> RefOr<Schema> {
        ArrayBuilder::new().items(self.answer::<T>()).build().into()
    }

    /// What a type is received as.
    pub fn request<T: JsonSchema>(&mut self) -> RefOr<Schema> {
        #[cfg(test)]
        self.made.request::<T>();
        reference::<T>()
    }

    /// Adds a route.
    pub fn add<H, T>(&mut self, endpoint: Endpoint, handler: H)
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let problem = self.answer::<Problem>();
        let Endpoint { method, path, mut operation, mut problems } = endpoint;
        // Any request may be refused so.
        problems.extend([401, 403, 503]);
        problems.sort_unstable();
        problems.dedup();
        for status in problems {
            let what = axum::http::StatusCode::from_u16(status)
                .ok()
                .and_then(|status| status.canonical_reason())
                .unwrap_or_default();
            let response = ResponseBuilder::new()
                .description(what)
                .content("application/json", Content::new(Some(problem.clone())));
            operation = operation.response(status.to_string(), response);
        }
        let filter = match method {
            HttpMethod::Post => MethodFilter::POST,
            HttpMethod::Delete => MethodFilter::DELETE,
            HttpMethod::Patch => MethodFilter::PATCH,
            _ => MethodFilter::GET,
        };
        let full = format!("{PREFIX}{path}");
        let router = std::mem::take(&mut self.router);
        self.router = router.route(&full, on(filter, handler));
        self.paths.add_path_operation(&full, vec![method], operation);
    }

    /// The routes and the document.
    pub fn finish(self) -> (Router<Shared>, String) {
        let info = InfoBuilder::new()
            .title("clrscope")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some(
                "Processes, recordings and sessions. Every request needs the cookie that a \
                 browser gets from the address that `clrscope serve` prints, or the token of \
                 --token-file.",
            ))
            .build();
        let mut document = OpenApi::new(info, self.paths);
        document.security = Some(
            ["token", "cookie"]
                .map(|name| SecurityRequirement::new::<_, [&str; 0], _>(name, []))
                .into(),
        );
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("clrscope-PORT")));
        // Our own types always serialize.
        let mut document = serde_json::to_value(&document).unwrap_or_default();
        document["components"] = json!({
            "schemas": schemas(),
            "securitySchemes": { "token": token, "cookie": cookie },
        });
        (self.router, document.to_string())
    }
}

/// Those that the program carries.
fn schemas() -> Value {
    let text = lz4_flex::block::decompress_size_prepended(SCHEMAS).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn reference<T: JsonSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::schema_name()).into()
}

impl Endpoint {
    /// Begins a description. `summary` is a line in the imperative.
    pub fn new(method: HttpMethod, path: &'static str, id: &str, summary: &str) -> Self {
        let operation = OperationBuilder::new().operation_id(Some(id)).summary(Some(summary));
        let mut endpoint = Self { method, path, operation, problems: Vec::new() };
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            let what = if name == "pid" { "Its process id." } else { "Its name." };
            endpoint = endpoint.parameter(name, ParameterIn::Path, what, text());
            endpoint.problems.extend([400, 404]);
        }
        endpoint
    }

    /// More about it.
    pub fn description(mut self, text: &str) -> Self {
        self.operation = self.operation.description(Some(text));
        self
    }

    /// Part of the query.
    pub fn query(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter(name, ParameterIn::Query, description, schema)
    }

    fn parameter(mut self, name: &str, place: ParameterIn, what: &str, schema: Schema) -> Self {
        let required = match place {
            ParameterIn::Path => Required::True,
            _ => Required::False,
        };
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(required)
            .description(Some(what))
            .schema(Some(schema));
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// The body of the request.
    pub fn body(mut self, kind: &str, schema: Option<RefOr<Schema>>) -> Self {
        let body = RequestBodyBuilder::new()
            .content(kind, Content::new(schema))
            .required(Some(Required::True))
            .build();
        self.operation = self.operation.request_body(Some(body));
        self.problems.extend([400, 408, 413, 415]);
        self
    }

    /// What is sent if all goes well.
    pub fn sends(mut self, status: u16, what: &str, schema: RefOr<Schema>) -> Self {
        let response = ResponseBuilder::new()
            .description(what)
            .content("application/json", Content::new(Some(schema)));
        self.operation = self.operation.response(status.to_string(), response);
        self
    }

    /// The same for what is no JSON.
    pub fn sends_as(mut self, what: &str, kinds: &[&str]) -> Self {
        let mut response = ResponseBuilder::new().description(what);
        for kind in kinds {
            response = response.content(*kind, Content::default());
        }
        self.operation = self.operation.response("200", response);
        self
    }

    /// The same for columns of numbers behind a head in JSON.
    pub fn sends_columns(mut self, what: &str, head: RefOr<Schema>) -> Self {
        let description = format!(
            "{what} Four bytes `CLRC`; the length of the head (four bytes, little-endian); the \
             head, JSON of this schema with `columns`: the name, `type` (u8, u32, f32, f64), \
             `offset` in bytes and `length` in numbers of each column; and the columns, \
             little-endian. Offsets count from the end of the head."
        );
        let response = ResponseBuilder::new()
            .description(description)
            .content(explore::Columns::MEDIA_TYPE, Content::new(Some(head)));
        self.operation = self.operation.response("200", response);
        self
    }

    /// It is done, and there is nothing to send.
    pub fn sends_nothing(mut self, what: &str) -> Self {
        self.operation = self.operation.response("204", ResponseBuilder::new().description(what));
        self
    }

    /// What else can happen.
    pub fn problems(mut self, problems: &[u16]) -> Self {
        self.problems.extend(problems);
        self
    }
}

/// A text in a query.
pub fn text() -> Schema {
    of(Type::String)
}

/// A word of these.
pub fn word<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build().into()
}

/// A number.
pub fn number() -> Schema {
    of(Type::Number)
}

/// A whole number in this range.
pub fn whole(from: u32, to: u32) -> Schema {
    let builder = ObjectBuilder::new().schema_type(Type::Integer);
    builder.minimum(Some(from)).maximum(Some(to)).build().into()
}

/// Yes or no.
pub fn flag() -> Schema {
    of(Type::Boolean)
}

fn of(kind: Type) -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::Type(kind)).build().into()
}
