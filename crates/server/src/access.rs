//! Who may use the server: the address that a request is for, the page that it comes from, and the
//! secret that it has.

mod hosts;
mod peer;
mod secrets;

pub use hosts::Hosts;
pub use peer::Peer;
pub use secrets::{Secrets, Token, TokenError};

use crate::{
    Shared,
    pages::{is_for_page, problem_page},
    problem::Problem,
    strangers::Stranger,
};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::sync::Arc;

/// Headers of every response.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// Lets through what may pass, and gives each response its headers.
pub async fn guard(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let for_page = is_for_page(request.method(), request.uri().path(), request.headers());
    let mut response = match check(&state, &request) {
        Ok(None) => {
            if let Some(stranger) = request.extensions().get::<Arc<Stranger>>() {
                stranger.welcome();
            }
            next.run(request).await
        }
        Ok(Some(response)) => response,
        Err(problem) => refused(problem, for_page),
    };
    for (name, value) in HEADERS {
        // A response that needs another value has set it.
        let headers = response.headers_mut();
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Says why a request is refused: to a person in words, to a program as JSON.
fn refused(problem: Problem, for_page: bool) -> Response {
    match for_page {
        true => problem_page(problem),
        false => problem.into_response(),
    }
}

/// A response, if the request is already answered.
fn check(state: &Shared, request: &Request) -> Result<Option<Response>, Problem> {
    let (headers, uri) = (request.headers(), request.uri());
    let host = host(headers)?;
    if !state.hosts.allow(host) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "this server does not have the name that the header Host says",
            "use the address that `clrscope serve` prints, or start it with --allow-host NAME",
        ));
    }
    check_origin(headers, host, uri)?;
    if uri.path() == "/"
        && request.method() == Method::GET
        && let Some(token) = uri.query().and_then(token_of)
    {
        return exchange(state, token, request).map(Some);
    }
    match is_known(state, headers) {
        true => Ok(None),
        false => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the request has no valid token, or the cookie has expired",
            "open the address that `clrscope ui` or `clrscope serve` prints, or send the header `Authorization: \
             Bearer TOKEN` with the token of --token-file",
        )),
    }
}

/// The one header Host.
fn host(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
        (Some(Ok(host)), None) => Ok(host),
        _ => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request does not have exactly one header Host",
            "send the address that `clrscope serve` prints",
        )),
    }
}

/// Refuses requests that pages of others make.
fn check_origin(headers: &HeaderMap, host: &str, uri: &Uri) -> Result<(), Problem> {
    let foreign = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "the request comes from a page of another origin",
            "use the pages and addresses of this server",
        )
    };
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().map_err(|_| foreign())?;
        let authority = ["http://", "https://"].iter().find_map(|way| origin.strip_prefix(way));
        if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Err(foreign());
        }
    }
    // Browsers send this also where they send no Origin. A link to the first page may be anywhere.
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        Some(b"cross-site" | b"same-site") if uri.path() != "/" => Err(foreign()),
        _ => Ok(()),
    }
}

/// The token in the query of the printed address.
fn token_of(query: &str) -> Option<&str> {
    query.split('&').find_map(|part| part.strip_prefix("token="))
}

/// A cookie for a one-time token.
fn exchange(state: &Shared, token: &str, request: &Request) -> Result<Response, Problem> {
    // Without the token in the address it does not stay in the browser's history.
    let first_page = [(header::LOCATION, "/".to_owned())];
    let peer = request.extensions().get::<Peer>();
    let is_own_user = || peer.is_some_and(Peer::is_of_own_user);
    let Some(cookie) = state.secrets.exchange(token, is_own_user)? else {
        // Who is let in already may open the address again.
        if is_known(state, request.headers()) {
            return Ok((StatusCode::SEE_OTHER, first_page).into_response());
        }
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the token in the address is wrong, or was already used: it is for one browser, once",
            "start clrscope again to get a new address",
        ));
    };
    let cookie = format!(
        "{}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}",
        state.cookie,
        Secrets::LIFETIME.as_secs(),
        if state.is_encrypted { "; Secure" } else { "" }
    );
    Ok((StatusCode::SEE_OTHER, first_page, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Whether a request has the token of the token file, or the cookie of a browser.
fn is_known(state: &Shared, headers: &HeaderMap) -> bool {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        return token.is_some_and(|token| state.secrets.is_token(token));
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == state.cookie).then_some(value)
    });
    pairs.any(|value| state.secrets.is_cookie(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin_of(origin: Option<&'static str>, site: Option<&'static str>, path: &str) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        if let Some(site) = site {
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
        }
        check_origin(&headers, "localhost:80", &path.parse().unwrap()).is_ok()
    }

    #[test]
    fn only_own_pages_may_ask() {
        for (origin, site, path, allowed) in [
            (None, None, "/api/v1/processes", true),
            (Some("http://localhost:80"), Some("same-origin"), "/api/v1/processes", true),
            (Some("https://LOCALHOST:80"), None, "/api/v1/processes", true),
            (Some("http://localhost:81"), None, "/api/v1/processes", false),
            (Some("http://evil.example"), None, "/", false),
            (Some("null"), None, "/api/v1/processes", false),
            (Some("file://"), None, "/api/v1/processes", false),
            (None, Some("same-site"), "/api/v1/processes", false),
            (None, Some("cross-site"), "/api/v1/processes", false),
            (None, Some("cross-site"), "/?token=1", true),
            (None, Some("none"), "/api/v1/processes", true),
        ] {
            assert_eq!(origin_of(origin, site, path), allowed, "{origin:?} {site:?} {path}");
        }
    }

    #[test]
    fn the_token_is_found_in_the_query() {
        assert_eq!(token_of("a=1&token=abc"), Some("abc"));
        assert_eq!(token_of("tokens=abc"), None);
    }
}
