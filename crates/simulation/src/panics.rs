//! Panics of the operator's tasks. The real process ends at the first panic; in the simulation, only the task would
//! vanish.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static LISTEN: Once = Once::new();

/// Collects the panics of this thread from now on.
pub(super) fn listen() {
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // A thread that is ending has no list any more.
            let _gone = SEEN.try_with(|seen| seen.borrow_mut().push(panic.to_string()));
            before(panic);
        }));
    });
    SEEN.take();
}

/// The panics so far.
pub(super) fn seen() -> Vec<String> {
    SEEN.take()
}
