use crate::Event;

/// Puts together what the events of one kind tell.
pub trait Collect: Default {
    /// Something that came to be known.
    type Output;

    /// Takes the next event; those of other kinds are passed over.
    fn push(&mut self, event: &Event);

    /// The next thing that came to be known.
    fn next_output(&mut self) -> Option<Self::Output>;

    /// No more events come: gives what waits for more as it is.
    fn finish(&mut self) {}
}
