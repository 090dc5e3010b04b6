//! The pages for browsers: one document for all addresses, and the files that it loads.

use crate::{Shared, problem::Problem};
use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use web::Asset;

/// The first parts of the addresses that the pages have (`web/src/app/app.tsx`).
const SECTIONS: [&str; 7] =
    ["processes", "checkups", "record", "recordings", "trace", "sessions", "compare"];

/// What a page of ours may do: run our scripts, use our styles, and send requests to this server.
/// No text becomes markup by accident: assigning one to what is parsed fails.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Assets have a hash of their bytes in their address.
const FOREVER: &str = "private, max-age=31536000, immutable";

/// Adds the pages.
pub fn add(router: Router<Shared>) -> Router<Shared> {
    let router = router.route("/", get(page)).route("/assets/{hash}/{name}", get(asset));
    SECTIONS.iter().fold(router, |router, section| {
        router
            .route(&format!("/{section}"), get(page))
            .route(&format!("/{section}/{{*rest}}"), get(page))
    })
}

/// The document of all pages; its script shows the page of the address.
async fn page(headers: HeaderMap) -> Result<Response, Problem> {
    let page = web::asset("index.html")
        .ok_or_else(|| Problem::internal("the pages are missing: a bug in clrscope"))?;
    let mut response = sent(page, &headers, "no-store")?;
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

async fn asset(
    Path((hash, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match web::asset(&name).filter(|_| hash == web::HASH) {
        Some(asset) => sent(asset, &headers, FOREVER),
        None => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "there is no such file: the page may be that of an older clrscope",
            "load the page again",
        )),
    }
}

fn sent(asset: &Asset, request: &HeaderMap, cache: &'static str) -> Result<Response, Problem> {
    let gzip = request
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(accepts_gzip);
    let headers = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, cache),
        (header::VARY, "Accept-Encoding"),
    ];
    if gzip {
        return Ok((headers, [(header::CONTENT_ENCODING, "gzip")], asset.gzip).into_response());
    }
    let bytes = asset
        .bytes()
        .map_err(|_| Problem::internal("the program's copy of the page is damaged"))?;
    Ok((headers, bytes).into_response())
}

/// Whether a header Accept-Encoding allows gzip.
fn accepts_gzip(value: &str) -> bool {
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        // With a weight of zero it is refused.
        named && !parts.any(|part| part.replace(' ', "").trim_end_matches(['0', '.']) == "q=")
    })
}

/// Whether a request is that of a browser for a page, which shows what it gets to a person.
pub fn is_for_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    method == Method::GET
        && !path.starts_with("/api/")
        && accepts.is_some_and(|kinds| kinds.contains("text/html"))
}

/// A problem as a page, for somebody who was not let in: it loads nothing.
pub fn problem_page(problem: Problem) -> Response {
    let escape = document::html::escape;
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>clrscope</title>\n<h1>clrscope</h1>\n<p>{}</p>\n<p>{}</p>\n",
        escape(&sentence(&problem.cause)),
        escape(&sentence(&problem.next))
    );
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = page.into();
    response
}

/// A text with a large first letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (value, accepted) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.8", true),
            ("gzip;q=0", false),
            ("gzip; q = 0.00", false),
            ("gzip;q=0.5", true),
            ("identity", false),
            ("", false),
            ("gzipped", false),
        ] {
            assert_eq!(accepts_gzip(value), accepted, "{value}");
        }
    }

    #[test]
    fn problems_are_sentences_and_no_markup() {
        assert_eq!(sentence("the token is wrong"), "The token is wrong.");
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "no <b>token", "open \"it\"");
        let response = problem_page(problem);
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.headers()[header::CONTENT_TYPE].to_str().unwrap().contains("html"));
    }
}
