//! A scripted client of `clrscope mcp`, which counts what it receives.

use super::{LIMIT, clrscope};
use document::plain::is_hostile;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Most bytes of one answer, as it is received.
pub const MOST: usize = 4096;

/// What was received so far.
#[derive(Default)]
struct Received {
    /// Answers by their ids, with their bytes.
    answers: HashMap<u64, (Value, usize)>,
    /// Notifications, with their bytes.
    notes: Vec<(Value, usize)>,
    closed: bool,
}

/// An assistant that has said hello.
pub struct Client {
    pub child: Child,
    input: Mutex<Option<ChildStdin>>,
    received: Arc<(Mutex<Received>, Condvar)>,
    next: AtomicU64,
    /// Bytes of the answers to `initialize` and `tools/list`.
    pub greeting: usize,
    /// What the server says to whoever uses it.
    pub instructions: String,
}

/// What a tool has answered.
#[derive(Debug)]
pub struct Said {
    /// The text before and after the data, and the data.
    pub text: String,
    pub data: String,
    pub facts: Value,
    pub is_error: bool,
    /// As it was received.
    pub bytes: usize,
}

impl Client {
    #[track_caller]
    pub fn start(sessions: &Path, options: &[&str]) -> Self {
        let mut command = clrscope(["mcp", "--sessions", sessions.to_str().unwrap()]);
        command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = Mutex::new(child.stdin.take());
        let received = Arc::new((Mutex::new(Received::default()), Condvar::new()));
        let (output, shared) = (child.stdout.take().unwrap(), Arc::clone(&received));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).expect("a message on each line");
                let mut state = shared.0.lock().unwrap();
                match message["id"].as_u64() {
                    Some(id) => _ = state.answers.insert(id, (message, line.len() + 1)),
                    None => state.notes.push((message, line.len() + 1)),
                }
                shared.1.notify_all();
            }
            shared.0.lock().unwrap().closed = true;
            shared.1.notify_all();
        });
        let next = AtomicU64::new(1);
        let mut client =
            Self { child, input, received, next, greeting: 0, instructions: String::new() };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let (answer, greeting) = client.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "clrscope", "{answer}");
        client.instructions = answer["result"]["instructions"].as_str().unwrap().to_owned();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let (tools, list) = client.ask("tools/list", json!({}));
        assert!(tools["result"]["tools"].as_array().unwrap().len() <= 10);
        client.greeting = greeting + list;
        client
    }

    pub fn send(&self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub fn raw(&self, bytes: &[u8]) {
        let mut input = self.input.lock().unwrap();
        input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The client goes away.
    pub fn close_input(&self) {
        drop(self.input.lock().unwrap().take());
    }

    /// Sends a request; its id.
    pub fn begin(&self, method: &str, params: Value) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Begins a call that reports its progress; its id, which is the token as well.
    pub fn begin_call(&self, tool: &str, arguments: Value) -> u64 {
        let id = self.next.load(Ordering::Relaxed);
        let meta = json!({"progressToken": id});
        self.begin("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, found: impl Fn(&Received) -> Option<T>) -> T {
        let until = Instant::now() + LIMIT;
        let mut state = self.received.0.lock().unwrap();
        loop {
            if let Some(found) = found(&state) {
                return found;
            }
            assert!(!state.closed, "the server ended before {what}");
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what}");
            state = self.received.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits for an answer.
    #[track_caller]
    pub fn answer(&self, id: u64) -> (Value, usize) {
        self.wait("an answer", |state| state.answers.get(&id).cloned())
    }

    /// Whether there is an answer already.
    pub fn has_answer(&self, id: u64) -> bool {
        self.received.0.lock().unwrap().answers.contains_key(&id)
    }

    /// Waits until a call reports a stage that contains this; all reports until then.
    #[track_caller]
    pub fn progress(&self, token: u64, stage: &str) -> Vec<Value> {
        let of_call = |state: &Received| {
            let notes = state.notes.iter().map(|(note, _)| &note["params"]);
            notes.filter(|params| params["progressToken"] == token).cloned().collect::<Vec<_>>()
        };
        self.wait("progress", |state| {
            let reports = of_call(state);
            let has = |report: &Value| report["message"].as_str().unwrap_or("").contains(stage);
            reports.iter().any(has).then_some(reports)
        })
    }

    /// Bytes of all notifications.
    pub fn notified(&self) -> usize {
        self.received.0.lock().unwrap().notes.iter().map(|(_, bytes)| bytes).sum()
    }

    #[track_caller]
    pub fn ask(&self, method: &str, params: Value) -> (Value, usize) {
        self.answer(self.begin(method, params))
    }

    /// Calls a tool.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Said {
        let id = self.begin("tools/call", json!({"name": tool, "arguments": arguments}));
        self.said(id)
    }

    /// What a call has answered. Whatever it is, it is small, marked and harmless.
    #[track_caller]
    pub fn said(&self, id: u64) -> Said {
        let (answer, bytes) = self.answer(id);
        let result = answer.get("result").unwrap_or_else(|| panic!("{answer}"));
        assert!(bytes <= MOST, "{bytes} bytes: {answer}");
        Said::of(result, bytes)
    }

    /// Waits for the end of the server: its exit code, and standard error.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut error = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (status.code(), error)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    #[track_caller]
    pub fn of(result: &Value, bytes: usize) -> Self {
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.len(), 1, "{result}");
        let all = content[0]["text"].as_str().unwrap();
        let is_bad = |letter: char| is_hostile(letter) && letter != '\n';
        assert!(!all.contains(is_bad), "{all:?}");
        let facts = result["structuredContent"].clone();
        assert!(!facts.to_string().contains(is_hostile), "{facts}");
        let (text, data) = match all.split_once("<data ") {
            None => (all.to_owned(), String::new()),
            Some((before, rest)) => {
                let (mark, rest) = rest.split_once(">\n").unwrap();
                let end = format!("</data {mark}>");
                assert_eq!(all.matches(&end).count(), 1, "{all}");
                let (data, after) = rest.split_once(&end).unwrap();
                (format!("{before}{after}"), data.to_owned())
            }
        };
        let is_error = result["isError"].as_bool().unwrap_or(false);
        Self { text, data, facts, is_error, bytes }
    }

    #[track_caller]
    pub fn good(self) -> Self {
        assert!(!self.is_error, "{self:?}");
        self
    }

    /// Asserts that it is an error that says this.
    #[track_caller]
    pub fn bad(self, part: &str) -> Self {
        assert!(self.is_error, "{self:?}");
        assert!(self.text.contains(part) || self.data.contains(part), "`{part}`: {self:?}");
        self
    }

    /// The calls that it suggests and that are complete: tools with their arguments.
    pub fn suggested(&self) -> Vec<(String, Value)> {
        let lines = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("Next: ").or_else(|| line.strip_prefix("- or: ")));
        let call = |line: &str| {
            let (tool, arguments) = line.split_once(' ')?;
            // There may be words behind the arguments.
            let mut values = serde_json::Deserializer::from_str(arguments).into_iter::<Value>();
            Some((tool.to_owned(), values.next()?.ok()?))
        };
        lines.filter_map(call).collect()
    }

    /// The session that it names.
    #[track_caller]
    pub fn session(&self) -> String {
        self.facts["session"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}
