//! `wall`: what every thread does or waits for.

use super::{Made, OfTicks, Source};
use profilers::wall::SPEC;
use session::SessionRecord;

pub const SOURCE: Source = Source {
    ticks: Some(OfTicks {
        is_of_interest: |_, _, _| true,
        made: Made::Samples(SessionRecord::WallSamples),
    }),
    ..Source::of(SPEC.id)
};
