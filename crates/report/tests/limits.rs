//! Reports that would be far larger than their session.

mod common;

use report::{Options, ReportError, exporter};

#[test]
fn a_report_that_is_too_large_is_refused() {
    for (id, limit) in [("collapsed", 1000), ("speedscope", 1000), ("pprof", 1000), ("text", 100)] {
        let exporter = exporter(id).unwrap();
        let write = |most_bytes| {
            let mut out = Vec::new();
            let options = Options { most_bytes, ..Options::default() };
            let written = exporter.convert(&common::file()[..], &options, &mut out).map(drop);
            (written, out.len() as u64)
        };
        let (whole, size) = write(Options::default().most_bytes);
        assert!(whole.is_ok() && size > limit, "{id}: {size}");
        let (part, size) = write(limit);
        assert!(matches!(part, Err(ReportError::TooLarge { limit: own }) if own == limit), "{id}");
        assert!(size <= limit, "{id}: {size}");
    }
}
