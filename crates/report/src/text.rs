use std::io::Write;

use document::text::{self, Style};
use profile::Profile;

use crate::{Exporter, Options, ReportError, views::document};

pub const EXPORTER: Exporter = Exporter {
    id: "text",
    extension: "txt",
    summary: "what matters, on a page of the terminal",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let style = Style { width: Some(options.width), colour: options.colour };
    Ok(text::write(&document(profile, options), style, out)?)
}
