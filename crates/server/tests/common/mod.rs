//! A server with the small recording of the tests of the profile.
#![allow(dead_code, unused_imports)]

#[path = "../../../profile/tests/shop/mod.rs"]
mod shop;

use heap::growth::SnapshotSummary;
use profile::Profile;
use recorder::Summary;
use report::SnapshotSection;
use serde_json::Value;
use server::{CheckupPlan, Config, Control, Program, Retention, Server, Stopper, Token};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tempfile::TempDir;
use testkit::{Answer, Client, JsonSchema};

pub use shop::*;

/// The token of the token file.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// How long anything may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A program that has no agent.
struct Bare;

impl Program for Bare {
    fn agent(&self) -> recorder::AgentFile {
        recorder::AgentFile::Embedded(&[])
    }

    fn snapshots(&self, _: &Path, _: &Profile, _: usize) -> Vec<SnapshotSection> {
        Vec::new()
    }

    fn heap_summary(&self, _: &Path, _: &Profile) -> Option<SnapshotSummary> {
        None
    }

    fn check_up(&self, _: &CheckupPlan, _: &dyn Control) -> Result<(Summary, Value), String> {
        Err("it has no agent".to_owned())
    }
}

/// The same, for servers of a test's own.
pub fn program() -> Arc<dyn Program> {
    Arc::new(Bare)
}

/// A server that runs until this is dropped.
pub struct Served {
    pub address: SocketAddr,
    client: Client,
    /// The address for a browser.
    pub url: String,
    folder: TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start() -> Self {
        Self::with(Retention::default())
    }

    pub fn with(retention: Retention) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: Some(Token::read(&token).unwrap()),
            hosts: vec!["box.example".into()],
            tls: None,
            launch: false,
            sessions: folder.path().join("sessions"),
            retention,
        };
        let server = Server::bind(config, program()).unwrap();
        let (url, stopper) = (server.url().to_owned(), server.stopper());
        let client = Client::of(&url);
        let address = client.address;
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { address, client, url, folder, stopper, thread }
    }

    /// The token in the address.
    pub fn once(&self) -> &str {
        self.url.split_once("token=").unwrap().1
    }

    /// Where a session is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("sessions/{name}.clrscope"))
    }

    /// Puts the small recording into the folder.
    pub fn add(&self, name: &str) {
        fs::write(self.path(name), file()).unwrap();
    }

    /// A request with the token of the token file.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// A request with the token of the token file and further headers.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let token = format!("Bearer {TOKEN}");
        self.send(method, path, &[&[("Authorization", token.as_str())], headers].concat(), body)
    }

    /// A body of JSON.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// A request with these headers, and Host where they do not name one.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.client.send(method, path, headers, body)
    }

    /// What is answered to these bytes.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        self.client.raw(bytes)
    }

    pub fn connect(&self) -> TcpStream {
        self.client.connect()
    }

    /// The schema of this name in the OpenAPI document.
    pub fn schema(&self, name: &str) -> JsonSchema {
        JsonSchema::of_openapi(self.get("/api/v1/openapi.json").json(), name).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok(), "the server failed");
    }
}

/// The number of files in a folder.
pub fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}
