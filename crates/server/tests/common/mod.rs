//! A server with the small recording of the tests of the profile.
#![allow(dead_code, unused_imports)]

#[path = "../../../profile/tests/shop/mod.rs"]
mod shop;

use heap::{
    MemoryBudget, Root, RootKind, Snapshot, SnapshotBuilder, SnapshotEnd, growth::SnapshotSummary,
};
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

    fn heap_snapshot(&self, session: &Path, number: Option<u32>) -> Result<Snapshot, String> {
        match (session.file_stem().is_some_and(|name| name == "heap"), number) {
            (true, None | Some(1)) => Ok(heap_of_orders()),
            _ => Err("there is no such heap snapshot".to_owned()),
        }
    }

    fn heap_summaries(&self, session: &Path) -> Result<Vec<SnapshotSummary>, String> {
        let heap = SnapshotSummary::of(&heap_of_orders());
        match session.file_stem().and_then(|name| name.to_str()) {
            Some("heap") => Ok(vec![heap]),
            Some("growth") => Ok(growing(&heap)),
            _ => Err("the session cannot be read".to_owned()),
        }
    }

    fn check_up(&self, _: &CheckupPlan, _: &dyn Control) -> Result<(Summary, Value), String> {
        Err("it has no agent".to_owned())
    }
}

/// Three snapshots of a heap in which orders grow, two seconds apart.
fn growing(first: &SnapshotSummary) -> Vec<SnapshotSummary> {
    let at = |step: u64| {
        let mut summary = SnapshotSummary { time: step * 2_000_000_000, ..first.clone() };
        for (info, (count, bytes)) in &mut summary.types {
            if info.name == "<b>Order" {
                (*count, *bytes) = (*count + step * 1000, *bytes + step * 2_000_000);
            }
        }
        summary.count += step * 1000;
        summary.bytes += step * 2_000_000;
        summary
    };
    (0..3).map(at).collect()
}

/// A static list of two orders, and an array on a stack.
fn heap_of_orders() -> Snapshot {
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    for (class, name) in [(1, "List<Order>"), (2, "<b>Order"), (3, "System.Byte[]")] {
        builder.class(class, name, "shop.dll");
    }
    builder.object(8, 1, 40);
    builder.reference(80);
    builder.reference(160);
    builder.object(80, 2, 60);
    builder.object(160, 2, 60);
    builder.object(800, 3, 1000);
    let root =
        |target, kind, id| Root { target, kind, pinned: false, weak: false, interior: false, id };
    builder.root_name(7, "Shop.Orders");
    builder.root(root(8, RootKind::Statics, 7));
    builder.root(root(800, RootKind::Stack, 0));
    builder.finish(SnapshotEnd { complete: true, ..SnapshotEnd::default() })
}

/// The same as `dotnet-gcdump` writes it.
pub fn heap_dump() -> Vec<u8> {
    let mut out = Vec::new();
    heap::gcdump::write(&heap_of_orders(), &mut out).unwrap();
    out
}

/// The same program, for servers of a test's own.
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
        Self::with_config(|config| config.retention = retention)
    }

    /// With another configuration than by default.
    pub fn with_config(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: Some(Token::read(&token).unwrap()),
            hosts: vec!["box.example".into()],
            tls: None,
            launch: false,
            sessions: folder.path().join("sessions"),
            retention: Retention::default(),
            most_upload: server::MOST_UPLOAD,
        };
        change(&mut config);
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

/// A column of an answer, as numbers.
pub fn column(answer: &Answer, name: &str) -> Vec<f64> {
    let (head, data) = parts(answer);
    let columns = head["columns"].as_array().unwrap();
    let column = columns.iter().find(|column| column["name"] == name).unwrap();
    let number = |key: &str| column[key].as_u64().unwrap() as usize;
    let (offset, length) = (number("offset"), number("length"));
    let each = |size: usize| data[offset..offset + length * size].chunks(size);
    match column["type"].as_str().unwrap() {
        "u8" => each(1).map(|bytes| f64::from(bytes[0])).collect(),
        "u32" => each(4).map(|b| f64::from(u32::from_le_bytes(b.try_into().unwrap()))).collect(),
        "f32" => each(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
        "f64" => each(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        other => panic!("{other}"),
    }
}

/// The head of an answer, and its data.
pub fn parts(answer: &Answer) -> (Value, &[u8]) {
    assert_eq!(answer.headers["content-type"], "application/vnd.clrscope.columns");
    let body = &answer.body[..];
    assert_eq!(&body[..4], b"CLRC");
    let length = u32::from_le_bytes(body[4..8].try_into().unwrap()) as usize;
    assert_eq!(length % 8, 0);
    (serde_json::from_slice(&body[8..8 + length]).unwrap(), &body[8 + length..])
}
