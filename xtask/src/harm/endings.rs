//! How an action of clrscope ends. To add one, add an entry to [`all`].

use super::random::Random;
use rustix::process::Signal;

/// A way to end.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Its name in the table.
    pub name: &'static str,
    /// What happens, and when: milliseconds after the start of the action.
    pub blows: fn(&mut Random) -> Vec<(u64, Blow)>,
}

/// What happens to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A signal to clrscope.
    Clrscope(Signal),
    /// The target is asked to end.
    StopTarget,
    /// The target is killed.
    KillTarget,
}

/// The latest moment: most actions are under way by then, and all that it takes to begin is before.
const LATEST: u64 = 1200;

impl Ending {
    /// Whether the action ends by itself.
    pub fn is_natural(&self) -> bool {
        self.name == NATURAL
    }

    /// Whether the target ends before the action does.
    pub fn ends_target(&self) -> bool {
        self.name.starts_with("target")
    }

    /// The signal that asks clrscope to end, if one does.
    pub fn polite(&self) -> Option<Signal> {
        match self.name {
            "ctrl-c" | "ctrl-c-twice" => Some(Signal::INT),
            "sigterm" => Some(Signal::TERM),
            "hangup" => Some(Signal::HUP),
            _ => None,
        }
    }

    /// Whether clrscope has no chance to clean up.
    pub fn is_sudden(&self) -> bool {
        self.name == "killed"
    }
}

const NATURAL: &str = "natural";

/// The target ends by itself while clrscope is stopped, as by Ctrl-Z.
pub const UNREAD: &str = "target-stops-unread";

/// After how many milliseconds clrscope continues then: the target has ended before that.
const UNREAD_FOR: u64 = 7000;

/// The axis.
pub fn all() -> Vec<Ending> {
    vec![
        Ending { name: NATURAL, blows: |_| Vec::new() },
        Ending {
            name: "ctrl-c",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::Clrscope(Signal::INT))],
        },
        Ending {
            name: "ctrl-c-twice",
            blows: |random| {
                let at = random.milliseconds(0, LATEST);
                let again = at + random.milliseconds(1, 120);
                vec![(at, Blow::Clrscope(Signal::INT)), (again, Blow::Clrscope(Signal::INT))]
            },
        },
        Ending {
            name: "sigterm",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::Clrscope(Signal::TERM))],
        },
        Ending {
            name: "hangup",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::Clrscope(Signal::HUP))],
        },
        Ending {
            name: "killed",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::Clrscope(Signal::KILL))],
        },
        Ending {
            name: "target-stops",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::StopTarget)],
        },
        Ending {
            name: UNREAD,
            blows: |random| {
                let at = random.milliseconds(0, LATEST);
                let stop = Blow::Clrscope(Signal::STOP);
                let resume = Blow::Clrscope(Signal::CONT);
                vec![(at, stop), (at + 800, Blow::StopTarget), (at + UNREAD_FOR, resume)]
            },
        },
        Ending {
            name: "target-killed",
            blows: |random| vec![(random.milliseconds(0, LATEST), Blow::KillTarget)],
        },
    ]
}
