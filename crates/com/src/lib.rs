//! COM without Windows.
//!
//! The .NET runtime speaks COM with its profilers on every platform: interface pointers, reference
//! counts, `QueryInterface`, class factories. This crate is the part of COM that this takes, and
//! nothing of what Windows adds to it (no apartments, no registry, no `CoCreateInstance`, no
//! automation types).
//!
//! * [`com_interface!`] states an interface once, as a table of methods. From that come the vtable,
//!   the pointer type with its callers, and the trait with its thunks for whoever implements it:
//!   both sides of a call use one table.
//! * A pointer that owns a reference is a value of the interface's type (clone is `AddRef`, drop is
//!   `Release`); a borrowed one is an [`InterfaceRef`]. Bare pointers appear only at the border.
//! * [`ComObject`] makes a Rust value a COM object. It never gives out `&mut`, because the other
//!   side calls from any thread at any time.
//! * [`HResult`] has many successes: everything that is not negative.
//!
//! Panics stop at the thunk (the caller gets `E_UNEXPECTED`, the object is notified through
//! [`ComClass::panicked`]), so Rust code behind an interface cannot unwind into its caller. This
//! needs `panic = "unwind"`.
#![allow(unsafe_code)]
#![allow(non_snake_case)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod codes;
mod factory;
mod guid;
pub mod hresult;
mod interface;
pub mod object;
mod unknown;

pub use factory::{
    ClassFactory, IClassFactory, IClassFactoryImpl, IClassFactoryVtbl, get_class_object,
};
pub use guid::{Guid, GuidParseError};
pub use hresult::HResult;
pub use object::{AbiReturn, ComClass, ComObject, Implementable, can_unload_now};
pub use unknown::{IUnknown, IUnknownVtbl, Interface, InterfaceRef};
