//! What Windows knows of this process and of the agent: no crate of ours binds these functions.
#![allow(unsafe_code)]

use super::{Known, text_in};
use core::ffi::c_void;
use core::ptr;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};

/// The key and the value in which the agent's installer notes its home folder.
const KEY: &str = "Software\\New Relic\\.NET Agent";
const VALUE: &str = "NewRelicHome";

/// `HKEY_LOCAL_MACHINE` (winreg.h): a number that is extended by its sign.
const LOCAL_MACHINE: isize = 0x8000_0002_u32.cast_signed() as isize;
/// `RRF_RT_REG_SZ` (winreg.h): only a text, in which names of environment variables are replaced.
const TEXT: u32 = 2;
/// `TH32CS_SNAPPROCESS` (tlhelp32.h).
const PROCESSES: u32 = 2;
/// `INVALID_HANDLE_VALUE` (handleapi.h).
const INVALID: isize = -1;
/// More than the value of the registry may have, in bytes.
const VALUE_LIMIT: u32 = 1 << 16;

/// `PROCESSENTRY32W` (tlhelp32.h).
#[repr(C)]
struct Entry {
    size: u32,
    usage: u32,
    pid: u32,
    heap: usize,
    module: u32,
    threads: u32,
    parent: u32,
    priority: i32,
    flags: u32,
    program: [u16; 260],
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetCommandLineW() -> *const u16;
    fn CreateToolhelp32Snapshot(flags: u32, pid: u32) -> *mut c_void;
    fn Process32FirstW(snapshot: *mut c_void, entry: *mut Entry) -> i32;
    fn Process32NextW(snapshot: *mut c_void, entry: *mut Entry) -> i32;
}

#[link(name = "advapi32")]
unsafe extern "system" {
    fn RegGetValueW(
        key: isize,
        sub_key: *const u16,
        value: *const u16,
        flags: u32,
        kind: *mut u32,
        data: *mut u16,
        size: *mut u32,
    ) -> i32;
}

/// The command line, as the system has it.
pub(super) fn command_line() -> String {
    // SAFETY: no arguments. The text belongs to the process as long as that runs.
    let line = unsafe { GetCommandLineW() };
    if line.is_null() {
        return String::new();
    }
    let mut length = 0;
    // SAFETY: the text ends with a zero, and nothing behind that is read.
    while unsafe { *line.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: these units were just read.
    text_in(unsafe { core::slice::from_raw_parts(line, length) })
}

/// All processes of the system; none if it does not tell.
pub(super) fn processes() -> Vec<Known> {
    // SAFETY: numbers only.
    let snapshot = unsafe { CreateToolhelp32Snapshot(PROCESSES, 0) };
    if snapshot.is_null() || snapshot.addr().cast_signed() == INVALID {
        return Vec::new();
    }
    // SAFETY: a handle of our own, which nothing else closes.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = Entry {
        size: size_of::<Entry>() as u32,
        usage: 0,
        pid: 0,
        heap: 0,
        module: 0,
        threads: 0,
        parent: 0,
        priority: 0,
        flags: 0,
        program: [0; 260],
    };
    let mut found = Vec::new();
    // SAFETY: an open snapshot, and an entry that says its size.
    let mut is_one = unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut entry) };
    while is_one != 0 {
        found.push(Known {
            pid: entry.pid,
            parent: entry.parent,
            program: text_in(&entry.program),
        });
        // SAFETY: as above.
        is_one = unsafe { Process32NextW(snapshot.as_raw_handle(), &mut entry) };
    }
    found
}

/// The agent's home folder, as its installer has noted it.
pub(super) fn installed_home() -> Option<String> {
    let [key, value] =
        [KEY, VALUE].map(|text| text.encode_utf16().chain([0]).collect::<Vec<u16>>());
    let read = |data: *mut u16, size: &mut u32| {
        // SAFETY: texts that end with a zero, and room for as many bytes as `size` says, or none
        // where the size is asked for.
        let status = unsafe {
            RegGetValueW(
                LOCAL_MACHINE,
                key.as_ptr(),
                value.as_ptr(),
                TEXT,
                ptr::null_mut(),
                data,
                size,
            )
        };
        (status == 0).then_some(())
    };
    let mut size = 0;
    read(ptr::null_mut(), &mut size)?;
    let mut buffer = vec![0_u16; (size.min(VALUE_LIMIT) as usize).div_ceil(2)];
    size = (buffer.len() * 2) as u32;
    read(buffer.as_mut_ptr(), &mut size)?;
    Some(text_in(&buffer)).filter(|home| !home.is_empty())
}
