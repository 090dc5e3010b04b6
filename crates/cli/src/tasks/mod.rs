//! Asynchronous methods: what `clrscope async` reads, and how it shows it.

pub mod hot;
pub mod report;
pub mod view;
