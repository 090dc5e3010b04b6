//! Builds without TLS.

use super::TlsError;
use std::{io, path::Path};

/// A certificate with its key: there is none here.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    /// Reads the files of a certificate and of its key.
    ///
    /// # Errors
    /// Always.
    pub fn read(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError::Unsupported)
    }

    pub(crate) async fn accept<S>(&self, _stream: S) -> io::Result<S> {
        match *self {}
    }
}
