//! A filter that runs in the kernel: samples of other processes are not written.
//!
//! An event that is bound to a processor ticks for whoever runs there. The BPF program here looks
//! at the process at each tick and lets only the target's samples through
//! (`PERF_EVENT_IOC_SET_BPF`, Linux 4.9 and newer; a program may be loaded with `CAP_BPF` and
//! `CAP_PERFMON`, or as root).
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use perf_event_open_sys as sys;

/// `BPF_PROG_LOAD` (linux/bpf.h).
const PROG_LOAD: libc::c_long = 5;
/// `BPF_PROG_TYPE_PERF_EVENT`.
const TYPE_PERF_EVENT: u32 = 7;
/// `BPF_FUNC_get_current_pid_tgid`: the process id in the upper half, as the first pid namespace
/// counts.
const GET_PID_TGID: i32 = 14;
/// `BPF_FUNC_get_ns_current_pid_tgid`, since Linux 5.7: the ids of a given pid namespace.
const GET_NS_PID_TGID: i32 = 120;
/// Inode of the first pid namespace (`PROC_PID_INIT_INO`, linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 0xeffffffc;

/// One instruction (`struct bpf_insn`): code, registers (destination in the low half), offset,
/// immediate value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers, offset, value }
}

/// `call helper`
const fn call(helper: i32) -> Instruction {
    instruction(0x85, 0, 0, helper)
}

/// `register = value` in 64 bits, which takes two instructions.
const fn load(register: u8, value: u64) -> [Instruction; 2] {
    [
        instruction(0x18, register, 0, value as u32 as i32),
        instruction(0, 0, 0, (value >> 32) as u32 as i32),
    ]
}

/// `r0 = value; exit`
const fn give(value: i32) -> [Instruction; 2] {
    [instruction(0xb7, 0, 0, value), instruction(0x95, 0, 0, 0)]
}

/// Which process the filter lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// By its id in the first pid namespace, where we are, too.
    First { pid: u32 },
    /// By its id in its own pid namespace, which the kernel knows by the device and inode of its
    /// file.
    Own { pid: u32, device: u64, inode: u64 },
}

impl Process {
    fn of(pid: u32) -> io::Result<Self> {
        let own = fs::metadata("/proc/self/ns/pid")?;
        if own.ino() == FIRST_NAMESPACE {
            return Ok(Self::First { pid });
        }
        let namespace = fs::metadata(format!("/proc/{pid}/ns/pid"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let inner = status.lines().find_map(|line| {
            line.strip_prefix("NSpid:")?.split_whitespace().next_back()?.parse().ok()
        });
        let pid = inner.ok_or(io::ErrorKind::InvalidData)?;
        // The kernel compares with its own form of a device number: the minor number has 20 bits.
        let device = namespace.dev();
        let device =
            u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device));
        Ok(Self::Own { pid, device, inode: namespace.ino() })
    }

    /// Instructions that give 1 for a sample of this process, and 0 for others.
    fn program(self) -> Vec<Instruction> {
        let mut program = Vec::new();
        let is = |pid: u32| instruction(0x15, 0, 2, pid as i32);
        match self {
            Self::First { pid } => {
                program.push(call(GET_PID_TGID));
                // r0 >>= 32
                program.push(instruction(0x77, 0, 0, 32));
                // if r0 == pid, skip two
                program.push(is(pid));
            }
            Self::Own { pid, device, inode } => {
                program.extend(load(1, device));
                program.extend(load(2, inode));
                // r3 = r10 - 8, room for two ids on the stack; r4 = 8
                program.push(instruction(0xbf, 0xa3, 0, 0));
                program.push(instruction(0x07, 3, 0, -8));
                program.push(instruction(0xb7, 4, 0, 8));
                program.push(call(GET_NS_PID_TGID));
                // if r0 != 0, it is in another namespace: skip two
                program.push(instruction(0x55, 0, 2, 0));
                // r0 = the process id, the second of the two; if it is the one, skip two
                program.push(instruction(0x61, 0xa0, -4, 0));
                program.push(is(pid));
            }
        }
        program.extend(give(0));
        program.extend(give(1));
        program
    }
}

/// The part of `union bpf_attr` that loading a program takes.
#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Loads the filter for a process, by its id in our own pid namespace.
pub(super) fn load_for(pid: u32) -> io::Result<OwnedFd> {
    let program = Process::of(pid)?.program();
    let attributes = LoadAttributes {
        kind: TYPE_PERF_EVENT,
        count: u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: program.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        ..LoadAttributes::default()
    };
    // SAFETY: the block states its own size; the kernel copies it, the instructions and the license
    // during the call, all of which live until it returns, and writes to none of them.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, PROG_LOAD, &attributes, size_of::<LoadAttributes>())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call has just returned this descriptor, so it is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts the filter on an event. It holds as long as the event is open.
pub(super) fn put_on(event: &OwnedFd, filter: &OwnedFd) -> io::Result<()> {
    let filter = u32::try_from(filter.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: both are open; the call changes only which samples the event writes.
    match unsafe { sys::ioctls::SET_BPF(event.as_raw_fd(), filter) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_kernel_reads_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(size_of::<LoadAttributes>(), 48);
        let program = Process::First { pid: 4711 }.program();
        assert_eq!(program.len(), 7);
        assert_eq!(program[2], Instruction { code: 0x15, registers: 0, offset: 2, value: 4711 });
        let program = Process::Own { pid: 7, device: 4, inode: 0x1_f000_0001 }.program();
        // The second half of an inode of more than 32 bits.
        assert_eq!((program[2].value, program[3].value), (0xf000_0001_u32 as i32, 1));
        // Both ways out of the last comparison lie in the program.
        assert_eq!(program.len(), 15);
        assert_eq!(program[8], Instruction { code: 0x55, registers: 0, offset: 2, value: 0 });
    }
}
