// Python work of Locus's own, done on a thread of its own while the thread that asks for it waits.
//
// What comes to a thread of the program belongs to the program: Python's handlers of signals, exceptions that others
// raise in it, its trace function, its recursion. On another thread none of them can get in between, nothing has to be
// taken away from the program for a while, and all that came meanwhile is there when the call returns.
#pragma once

#include <functional>

namespace locus::bridge {

/// Does `work` with the GIL and waits for it without; the GIL is held. Passes on what `work` throws. Where no thread
/// can be had (Python is ending, the system has none left), and for work inside such work, on the calling thread.
void aside(const std::function<void()>& work);

}  // namespace locus::bridge
