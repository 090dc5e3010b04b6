use std::io::Write;

use profile::Profile;

use crate::{Exporter, Options, ReportError, views::document};

pub const EXPORTER: Exporter = Exporter {
    id: "markdown",
    extension: "md",
    summary: "the same as text, for issues and chats",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(document::markdown::write(&document(profile, options), out)?)
}
