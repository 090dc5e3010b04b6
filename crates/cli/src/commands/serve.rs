//! `clrscope serve`: all of it over HTTP.

use crate::{
    agent::AgentArgs,
    assistant, console,
    exit::{Code, failure},
    os::{self, Signal, SignalWatch},
    served::Clrscope,
};
use anyhow::Context;
use server::{Config, Retention, Server, Stopper, Tls, TlsError, Token};
use std::{env, net::SocketAddr, path::PathBuf, sync::Arc};

/// Serve processes, recordings and sessions over HTTP
///
/// Prints the address to open and runs until a signal comes, which ends recordings in order. The
/// token in the address lets one browser in, once. Scripts send the token of --token-file, in the
/// header `Authorization: Bearer TOKEN`. GET /api/v1/openapi.json describes all requests.
/// Assistants use the same token at /mcp; by default their tools change nothing (see
/// `clrscope mcp --help`).
///
/// Whoever is let in can do what you can do with clrscope. Without --token-file, only addresses of
/// this machine (127.0.0.1, ::1) are listened at. What is sent is encrypted only with --tls-cert
/// and --tls-key; otherwise use a reverse proxy with TLS, an SSH tunnel or a VPN.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to listen; port 0 is a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// File with a token for scripts, which only you can read
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the certificate of this server, and those of its issuers: HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate, which others cannot read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let those who are let in start programs, as you, to record them from their first instruction
    #[arg(long)]
    allow_launch: bool,
    /// Answer to this host name, too, such as that of a reverse proxy; may be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Folder of sessions [default: clrscope/sessions in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    sessions: Option<PathBuf>,
    /// Sessions to keep; the oldest ones are deleted
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    max_sessions: u32,
    /// Disk space for sessions, in GB; the oldest ones are deleted
    #[arg(long, value_name = "GB", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    max_space: u32,
    /// Let assistants at /mcp choose what is recorded
    #[arg(long)]
    mcp_allow_record: bool,
    /// Let assistants at /mcp add code to methods of processes for a while
    #[arg(long)]
    mcp_allow_trace: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let token = args
        .token_file
        .as_ref()
        .map(|path| Token::read(path).with_context(|| format!("cannot use {}", path.display())));
    let config = Config {
        listen: args.listen,
        token: token.transpose()?,
        hosts: args.hosts.clone(),
        tls: tls(args)?,
        launch: args.allow_launch,
        sessions: args.sessions.clone().map_or_else(default_folder, Ok)?,
        retention: Retention {
            count: args.max_sessions as usize,
            bytes: u64::from(args.max_space) << 30,
        },
        most_upload: server::MOST_UPLOAD,
    };
    let assistants = mcp::Config {
        record: args.mcp_allow_record,
        trace: args.mcp_allow_trace,
        limits: mcp::Limits::default(),
    };
    serve(config, &args.agent, assistants, |server| {
        Ok(console::print(&format!("{}\n", server.url()))?)
    })
}

/// What connections are encrypted with.
fn tls(args: &Args) -> anyhow::Result<Option<Tls>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let tls = Tls::read(certificate, key).map_err(|error| {
        let code = match error {
            TlsError::Io { .. } => Code::File,
            TlsError::Unsupported => Code::Unsupported,
            _ => Code::Usage,
        };
        failure(code, error.to_string())
    });
    tls.map(Some)
}

/// Serves until a signal comes. `begun` is called when the port is open and signals are handled.
/// `assistants` is what those at `/mcp` may do.
pub fn serve(
    config: Config,
    agent: &AgentArgs,
    assistants: mcp::Config,
    begun: impl FnOnce(&Server) -> anyhow::Result<()>,
) -> anyhow::Result<Code> {
    let token = config.token.clone();
    let program = Arc::new(Clrscope { agent: agent.clone() });
    let server = Server::bind_with(config, program, |work| {
        let program = Arc::new(assistant::Clrscope { agent: agent.clone() });
        mcp::routes(&mcp::Assistant::new(Arc::clone(work), program, assistants))
    })?;
    warn(token.as_ref());
    let _watch = end_on_signal(server.stopper())?;
    begun(&server)?;
    server.run()?;
    Ok(Code::Success)
}

/// Says what is dangerous.
fn warn(token: Option<&Token>) {
    if os::is_root() {
        console::say(
            "warning: clrscope runs as root: whoever is let in can record every .NET process of this \
             machine. To serve the processes of one user only, run it as that user: \
             sudo -u USER clrscope serve",
        );
    }
    let Some(token) = token else { return };
    if token.readable {
        console::say(
            "warning: other users of this machine can read the token file; run `chmod 600` on it",
        );
    }
    if token.short {
        console::say(
            "warning: the token is short and could be guessed; write a longer one, such as that \
             of `openssl rand -hex 32`",
        );
    }
}

/// The first signal ends the server in order, the second Ctrl-C at once.
fn end_on_signal(stopper: Stopper) -> anyhow::Result<SignalWatch> {
    let mut ending = false;
    let signals = [Signal::Interrupt, Signal::Terminate, Signal::Hangup];
    let watch = SignalWatch::start(&signals, move |signal| {
        if ending && signal == Signal::Interrupt {
            console::say(
                "error: interrupted twice, ended before the recordings did; their sessions may be \
                 cut short",
            );
            std::process::exit(Code::Aborted.number().into());
        }
        ending = true;
        stopper.stop();
    });
    watch.context("cannot watch signals")
}

/// The folder of sessions of this user.
///
/// # Errors
/// When there is no place for it.
pub fn default_folder() -> anyhow::Result<PathBuf> {
    let folder =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("LOCALAPPDATA").filter(|_| cfg!(windows)))
        .or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        let message = "there is no place for sessions, because HOME is not set: use --sessions DIR";
        failure(Code::Usage, message)
    })?;
    Ok(state.join("clrscope/sessions"))
}
