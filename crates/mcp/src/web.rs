//! The assistant over HTTP, below the access rules of the server that it is part of.

use crate::Assistant;
use axum::{
    Router,
    body::{self, Body},
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::timeout};

/// Where it is.
const PATH: &str = "/mcp";

/// Bytes of a request.
const MOST: usize = 64 << 10;

/// How long a request may take to come.
const LIMIT: Duration = Duration::from_secs(10);

/// Calls at the same time.
const MOST_CALLS: usize = 32;

/// The address of the assistant, without access rules of its own: the host, the origin and the
/// token are checked by the server that adds it.
pub fn routes(assistant: &Assistant) -> Router {
    let assistant = assistant.clone();
    // Without sessions of the protocol there is nothing that clients can leave behind. A client
    // that closes its connection cancels its call.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MOST)
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(
        move || Ok(assistant.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let room = Arc::new(Semaphore::new(MOST_CALLS));
    let bounded =
        from_fn(move |request: Request, next: Next| bounded(Arc::clone(&room), request, next));
    Router::new().route_service(PATH, service).layer(bounded)
}

/// Lets through requests that are small and come in time, and not too many.
async fn bounded(room: Arc<Semaphore>, request: Request, next: Next) -> Response {
    let Ok(turn) = room.try_acquire_owned() else {
        let cause = "the assistant has too many calls; try again in some seconds";
        return (StatusCode::SERVICE_UNAVAILABLE, cause).into_response();
    };
    let (head, content) = request.into_parts();
    let content = match timeout(LIMIT, body::to_bytes(content, MOST)).await {
        Ok(Ok(content)) => content,
        Ok(Err(_)) => {
            let cause = "the body is too large, or was cut off; send at most 64 kB";
            return (StatusCode::PAYLOAD_TOO_LARGE, cause).into_response();
        }
        Err(_) => {
            let cause = "the body did not come in time; send it within 10 seconds";
            return (StatusCode::REQUEST_TIMEOUT, cause).into_response();
        }
    };
    // An answer that comes as events continues long after its head.
    server::held(next.run(Request::from_parts(head, Body::from(content))).await, turn)
}
