//! The methods of a running process, for those who choose some to trace.

use crate::{
    Shared, answers,
    endpoints::extract::Params,
    openapi::{Api, Endpoint, text, whole},
    problem::Problem,
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use inspect::{FoundMethod, FoundMethods, MethodSearch, search_methods};
use rules::{MethodPattern, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::openapi::HttpMethod;

/// Methods that are sent if the request does not say how many.
const ROWS: usize = 20;
/// Most methods that are sent.
const MOST_ROWS: usize = 200;
/// Longest text that is searched for, in bytes.
const LONGEST: usize = 1000;

/// Methods of a running process.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProcessMethods")]
struct MethodsJson {
    /// The methods that fit best, best first.
    methods: Vec<MethodJson>,
    /// How many names of methods fit, each counted once for each type.
    matched: u64,
    /// Assemblies that were searched.
    assemblies: u32,
    /// Assemblies that could not be read.
    unread: u32,
    /// Whether all assemblies were searched: the search ends when it takes too long.
    complete: bool,
}

/// Methods of one name in one type.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProcessMethod")]
struct MethodJson {
    /// Simple name of the assembly.
    assembly: String,
    /// Full name of the type, with `+` before nested ones.
    #[serde(rename = "type")]
    type_name: String,
    /// Name of the methods.
    name: String,
    /// How many methods with code of the type have this name.
    overloads: u32,
    /// The pattern of a trace that matches these methods and no others.
    pattern: String,
    /// The pattern that matches all methods of the type.
    type_pattern: String,
}

/// What to search for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    search: String,
    rows: Option<usize>,
}

impl MethodsJson {
    fn of(found: FoundMethods) -> Self {
        let FoundMethods { methods, matched, assemblies, unread, complete } = found;
        let methods = methods.into_iter().filter_map(MethodJson::of).collect();
        Self { methods, matched, assemblies, unread, complete }
    }
}

impl MethodJson {
    /// `None` for names that no pattern can be written for, such as those that are too long.
    fn of(method: FoundMethod) -> Option<Self> {
        let FoundMethod { assembly, type_name, name, overloads } = method;
        // A name with a dot of its own, such as that of an explicit implementation.
        let dot = if name.trim_start_matches('.').contains('.') { "::" } else { "." };
        let start = format!("{}!{}", Pattern::escape(&assembly), Pattern::escape(&type_name));
        let pattern = format!("{start}{dot}{}", Pattern::escape(&name));
        let type_pattern = format!("{start}.*");
        let fits = |text: &str| {
            MethodPattern::parse(text).is_ok_and(|pattern| {
                pattern.assembly().matches(&assembly)
                    && pattern.type_name().matches(&type_name)
                    && pattern.method().matches(&name)
            })
        };
        (fits(&pattern) && fits(&type_pattern)).then_some(Self {
            assembly,
            type_name,
            name,
            overloads,
            pattern,
            type_pattern,
        })
    }
}

pub fn add(api: &mut Api) {
    let answer = api.answer::<MethodsJson>();
    let endpoint = Endpoint::new(
        HttpMethod::Get,
        "/processes/{pid}/methods",
        "process_methods",
        "Search the methods of a running process",
    )
    .description(
        "The files of the assemblies that the process has loaded are searched; the process is \
         neither stopped nor asked. Assemblies that were loaded from memory, and methods that \
         were made at run time, are not among them. Of a single-file application, all assemblies \
         are searched. Methods without code of their own are left out.",
    )
    .query(
        "search",
        "Words that are all in `assembly!Namespace.Type.Method`. It is case-insensitive.",
        text(),
    )
    .query("rows", "How many methods to send: 20 if nothing is said.", whole(1, MOST_ROWS as u32))
    .sends(200, "The methods that fit best.", answer)
    .problems(&[409, 501]);
    api.add(endpoint, methods);
}

async fn methods(
    State(state): State<Shared>,
    Path(pid): Path<String>,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let pid: u32 = pid.parse().map_err(|_| Problem::request("the id of a process is a number"))?;
    let rows = query.rows.unwrap_or(ROWS);
    if !(1..=MOST_ROWS).contains(&rows) {
        return Err(Problem::request(format!("`rows` is from 1 to {MOST_ROWS}")));
    }
    if query.search.len() > LONGEST {
        return Err(Problem::request(format!("`search` has at most {LONGEST} bytes")));
    }
    let search = MethodSearch::new(&query.search, rows)
        .ok_or_else(|| Problem::request("`search` has no word"))?;
    let find = move || {
        let process = diagnostics::find_pid(pid)?;
        let found = search_methods(&process, &search)?;
        answers::json(&MethodsJson::of(found))
    };
    let json = state.light.run(find).await?;
    state.rooms.send_json(json)
}

impl From<inspect::Error> for Problem {
    fn from(error: inspect::Error) -> Self {
        use inspect::Error;
        let status = match &error {
            Error::Exited { .. } => StatusCode::NOT_FOUND,
            Error::Unsupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::CONFLICT,
        };
        let next = "GET /api/v1/processes lists the processes, and why some cannot be profiled";
        Self::new(status, error.to_string(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(type_name: &str, name: &str) -> Option<MethodJson> {
        let (assembly, type_name, name) =
            ("My,App".to_owned(), type_name.to_owned(), name.to_owned());
        MethodJson::of(FoundMethod { assembly, type_name, name, overloads: 1 })
    }

    #[test]
    fn patterns_match_what_they_were_made_of_and_nothing_else() {
        for (type_name, name) in [
            ("Shop.Orders", "Load"),
            ("Shop.Cache`1+Entry", ".ctor"),
            ("Program", "<Main>$"),
            ("Program+<>c", "<Main>b__0_0"),
            ("Shop.List", "System.Collections.Generic.IEnumerable<T>.GetEnumerator"),
            ("<Module>", "*"),
            ("A{b", "c(d:e"),
            ("<img src=x onerror=alert(1)>", "\u{202e}x"),
        ] {
            let found = of(type_name, name).unwrap_or_else(|| panic!("{type_name} {name}"));
            let pattern = MethodPattern::parse(&found.pattern).unwrap();
            assert!(!pattern.assembly().matches("MyApp") && !pattern.method().matches("Loader"));
            assert!(!pattern.type_name().matches("Shop.OrdersX"), "{pattern}");
        }
        assert_eq!(of("Shop.Orders", "Load").unwrap().pattern, r"My\,App!Shop.Orders.Load");
        assert!(of("Shop", &"x".repeat(5000)).is_none());
    }
}
