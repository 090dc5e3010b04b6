//! `xtask inside [LIMITS] -- COMMAND`: becomes a command under limits that only the process itself
//! can set, or that it must not outlive. For the conditions of the harm matrix.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Limits, and the command.
#[derive(Args)]
pub struct Options {
    /// Descriptors
    #[arg(long)]
    nofile: Option<u64>,
    /// Queued signals
    #[arg(long)]
    sigpending: Option<u64>,
    /// User and group
    #[arg(long)]
    user: Option<u32>,
    /// A filter of system calls
    #[arg(long, value_enum)]
    seccomp: Option<Filter>,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Filters of system calls.
#[derive(Clone, Copy, ValueEnum)]
pub enum Filter {
    /// What containers forbid by default, with EPERM
    Container,
    /// What a profiler may want to call and a service never does ends the process
    Kill,
}

/// Of Docker's default profile, what a process without capabilities gets EPERM for.
const CONTAINER: &[i64] = &[
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_pivot_root,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

const KILL: &[i64] = &[
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_timer_create,
    libc::SYS_perf_event_open,
    libc::SYS_ptrace,
    libc::SYS_bpf,
    libc::SYS_kcmp,
    libc::SYS_userfaultfd,
    libc::SYS_pidfd_getfd,
];

/// Sets the limits and becomes the command.
pub fn run(options: &Options) -> Result<()> {
    for (resource, limit) in
        [(Resource::Nofile, options.nofile), (Resource::Sigpending, options.sigpending)]
    {
        if limit.is_some() {
            setrlimit(resource, Rlimit { current: limit, maximum: limit }).context("setrlimit")?;
        }
    }
    let (program, arguments) = options.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(id) = options.user {
        // Without supplementary groups: the standard library drops them when root sets a user.
        command.uid(id).gid(id);
    }
    if let Some(filter) = options.seccomp {
        let (calls, action) = match filter {
            Filter::Container => (CONTAINER, SeccompAction::Errno(u32::try_from(libc::EPERM)?)),
            Filter::Kill => (KILL, SeccompAction::KillProcess),
        };
        let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            action,
            std::env::consts::ARCH.try_into()?,
        )?;
        apply_filter(&BpfProgram::try_from(filter)?)?;
    }
    bail!("cannot become {program}: {}", command.exec())
}
