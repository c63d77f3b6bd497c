//! Panics of the operator's tasks. The real process ends with the first of them; a task of the simulation would only
//! vanish.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static LISTEN: Once = Once::new();

/// Listens to the panics of this thread from now on.
pub(super) fn listen() {
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // A thread that is about to end has nobody to tell.
            let _gone = SEEN.try_with(|seen| seen.borrow_mut().push(panic.to_string()));
            before(panic);
        }));
    });
    SEEN.take();
}

/// Those that there were.
pub(super) fn seen() -> Vec<String> {
    SEEN.take()
}
