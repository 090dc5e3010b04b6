//! TLS for the connections of browsers and scripts.
//!
//! The library for it has code in C and assembler, so it is only in builds for the platform on
//! which clrscope records. Elsewhere the error says what to do instead.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[path = "tls/rustls.rs"]
mod implementation;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
#[path = "tls/none.rs"]
mod implementation;

pub use implementation::Tls;

use std::{fmt, io, path::PathBuf};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(
        "cannot read the {what} {}: {source}: check the path, and that the user of the server may \
         read the file",
        path.display()
    )]
    Io {
        /// Which file.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The certificate is none.
    #[error(
        "{} has no certificate in it: name a PEM file with the certificate of this server, followed \
         by those of its issuers",
        _0.display()
    )]
    NoCertificate(PathBuf),
    /// The key is none.
    #[error(
        "{} has no private key in it: name the PEM file of the key that belongs to the certificate",
        _0.display()
    )]
    NoKey(PathBuf),
    /// The key needs a password.
    #[error(
        "the private key {} is encrypted: write one without a password with `openssl pkey -in {} \
         -out FILE`, which only you can read",
        _0.display(),
        _0.display()
    )]
    Encrypted(PathBuf),
    /// Others could take the place of this server.
    #[error(
        "other users can read or change the private key {}: run `chmod o-rwx,g-w` on it",
        _0.display()
    )]
    Open(PathBuf),
    /// The two do not go together, or cannot be used.
    #[error(
        "the certificate and the private key cannot be used: {0}; name the key that the certificate \
         was made for"
    )]
    Unusable(String),
    /// This program has no TLS.
    #[error(
        "this build of clrscope has no TLS (only those for Linux on x86-64 have): use a reverse proxy \
         with TLS, or an SSH tunnel"
    )]
    Unsupported,
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls")
    }
}
