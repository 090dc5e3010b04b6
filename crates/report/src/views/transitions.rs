//! `transitions`: calls between managed and native code.

use profile::{Profile, SeriesKind};

use super::{Section, View, calls::calls, is_wanted};
use crate::Options;

pub const VIEW: View =
    View { section, json: None, tab: ("transitions", "Transitions"), tile: None, rows_of: None };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Transitions);
    is_shown.then(|| calls(profile, options, SeriesKind::Transitions))
}
