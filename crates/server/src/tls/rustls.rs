//! TLS by rustls, with the cryptography of ring.

use super::TlsError;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{fs, io, path::Path, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Bytes of a file of certificates or a key.
const LARGEST: u64 = 1 << 20;

/// A certificate with its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the files of a certificate and of its key, in the form PEM.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(&content("certificate", certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| TlsError::NoCertificate(certificate.to_owned()))?;
        check_access(key)?;
        let bytes = content("private key", key)?;
        let own = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
            let is_encrypted = String::from_utf8_lossy(&bytes).contains("ENCRYPTED");
            match is_encrypted {
                true => TlsError::Encrypted(key.to_owned()),
                false => TlsError::NoKey(key.to_owned()),
            }
        })?;
        let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, own)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Agrees on keys with the other end.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        TlsAcceptor::from(Arc::clone(&self.0)).accept(stream).await
    }
}

fn content(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Io { what, path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() || found.len() > LARGEST {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no PEM file");
        return Err(failed(error));
    }
    fs::read(path).map_err(failed)
}

/// Whether only its user, and a group that may read keys, can read it.
fn check_access(key: &Path) -> Result<(), TlsError> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(key).map_err(|source| TlsError::Io {
        what: "private key",
        path: key.to_owned(),
        source,
    })?;
    match found.mode() & 0o027 {
        0 => Ok(()),
        _ => Err(TlsError::Open(key.to_owned())),
    }
}
