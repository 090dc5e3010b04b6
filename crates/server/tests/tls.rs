//! Connections that are encrypted.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod common;

use common::{TOKEN, program};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};
use server::{Config, Retention, Server, Tls, TlsError, Token};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A certificate for `localhost` with its key, in files, and as others trust it.
fn certificate(folder: &Path) -> (PathBuf, PathBuf, RootCertStore) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (public, private) = (folder.join("server.pem"), folder.join("server.key"));
    fs::write(&public, cert.pem()).unwrap();
    fs::write(&private, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    (public, private, roots)
}

#[test]
fn browsers_and_scripts_speak_https() {
    let folder = tempfile::tempdir().unwrap();
    let (public, private, roots) = certificate(folder.path());
    let token = folder.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: Some(Token::read(&token).unwrap()),
        hosts: vec!["localhost".to_owned()],
        tls: Some(Tls::read(&public, &private).unwrap()),
        launch: false,
        sessions: folder.path().join("sessions"),
        retention: Retention::default(),
        most_upload: server::MOST_UPLOAD,
    };
    let server = Server::bind(config, program()).unwrap();
    let (url, stopper) = (server.url().to_owned(), server.stopper());
    let running = std::thread::spawn(move || server.run().unwrap());
    // The name of the certificate is in the address.
    let rest = url.strip_prefix("https://localhost:").unwrap_or_else(|| panic!("{url}"));
    let (port, path) = rest.split_once('/').unwrap();
    let address = format!("127.0.0.1:{port}");

    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let ask = |path: &str, more: &str| {
        let connection =
            ClientConnection::new(Arc::clone(&config), "localhost".try_into().unwrap()).unwrap();
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    };
    let first = ask(&format!("/{path}"), "");
    assert!(first.starts_with("HTTP/1.1 303"), "{first}");
    let cookie = first.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.ends_with("; Secure") && cookie.contains("HttpOnly"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let origin = format!("Origin: https://localhost:{port}\r\n");
    let with_cookie = ask("/api/v1/profilers", &format!("Cookie: {pair}\r\n{origin}"));
    assert!(with_cookie.starts_with("HTTP/1.1 200"), "{with_cookie}");
    let script = ask("/api/v1/sessions", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(script.starts_with("HTTP/1.1 200"), "{script}");
    assert!(ask("/api/v1/sessions", "").starts_with("HTTP/1.1 401"));

    // Who does not speak TLS gets this answer and nothing else.
    let mut plain = TcpStream::connect(&address).unwrap();
    // In one piece: the server answers the first one, and closes.
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    plain.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
    stopper.stop();
    running.join().unwrap();
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (public, private, _) = certificate(folder.path());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    };
    let refused = |public: &Path, private: &Path, part: &str| {
        let error = Tls::read(public, private).map(drop).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        error
    };
    let missing = folder.path().join("missing");
    let error = refused(&missing, &private, "certificate");
    assert!(matches!(error, TlsError::Io { .. }), "{error:?}");
    refused(&public, &missing, "private key");
    refused(folder.path(), &private, "no PEM file");
    let nothing = write("nothing", "no certificate\n");
    refused(&nothing, &private, "no certificate in it");
    refused(&private, &private, "no certificate in it");
    refused(&public, &nothing, "no private key in it");
    let label = "ENCRYPTED PRIVATE KEY";
    let encrypted =
        write("encrypted", &format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n"));
    refused(&public, &encrypted, "openssl pkey");
    // The key of another certificate.
    let other = tempfile::tempdir().unwrap();
    let (_, foreign, _) = certificate(other.path());
    refused(&public, &foreign, "name the key that the certificate was made for");
    for mode in [0o604, 0o602, 0o620] {
        fs::set_permissions(&private, PermissionsExt::from_mode(mode)).unwrap();
        refused(&public, &private, "chmod");
    }
    // A group may read it.
    fs::set_permissions(&private, PermissionsExt::from_mode(0o640)).unwrap();
    Tls::read(&public, &private).unwrap();
}
