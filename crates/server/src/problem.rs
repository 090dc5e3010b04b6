//! Errors as the API sends them.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use recorder::RecordError;
use report::ReportError;
use schemars::JsonSchema;
use serde::Serialize;
use session::SessionError;

/// Why a request was not fulfilled.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// Status of HTTP.
    #[serde(skip)]
    pub status: StatusCode,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub next: String,
}

impl Problem {
    /// With a cause and the next step.
    pub fn new(status: StatusCode, cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status, cause: cause.into(), next: next.into() }
    }

    /// The request is wrong.
    pub fn request(cause: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            cause,
            "GET /api/v1/openapi.json says what a request may contain",
        )
    }

    /// There is too much to do.
    pub fn busy(cause: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, cause, "try again in some seconds")
    }

    /// Something that should not fail did.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            cause,
            "see the standard error of `clrscope serve`",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        response
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        // The messages of the recorder name the next step as well.
        let (status, next) = match &error {
            RecordError::Port(error) => return Self::of_port(error),
            error => match error.exit_code() {
                2 => (StatusCode::BAD_REQUEST, "GET /api/v1/profilers lists what can be recorded"),
                4 | 5 => (
                    StatusCode::CONFLICT,
                    "GET /api/v1/processes lists the processes, and why some cannot be profiled",
                ),
                7 => (StatusCode::NOT_IMPLEMENTED, "leave out `engine`"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "see docs/troubleshooting.md"),
            },
        };
        Self::new(status, error.to_string(), next)
    }
}

impl From<diagnostics::Error> for Problem {
    fn from(error: diagnostics::Error) -> Self {
        Self::of_port(&error)
    }
}

impl Problem {
    fn of_port(error: &diagnostics::Error) -> Self {
        use diagnostics::Error;
        let status = match error {
            Error::NoSuchProcess { .. } | Error::NoProcessNamed { .. } => StatusCode::NOT_FOUND,
            Error::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::CONFLICT,
        };
        let next = "GET /api/v1/processes lists the processes, and why some cannot be profiled";
        Self::new(status, error.to_string(), next)
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        match &error {
            ReportError::Profile(profile::ProfileError::Session(error)) => Self::of_session(error),
            ReportError::Io(_) => Self::internal(error.to_string()),
            ReportError::Filter(_) => Self::request(error.to_string()),
            _ => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                error.to_string(),
                "GET /api/v1/sessions/{id} lists the profilers that have samples; choose another \
                 format or profiler",
            ),
        }
    }
}

impl Problem {
    /// A session cannot be read.
    pub fn of_session(error: &SessionError) -> Self {
        match error {
            SessionError::Io(_) => Self::internal(error.to_string()),
            _ => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                error.to_string(),
                "delete the session, and record again",
            ),
        }
    }
}
