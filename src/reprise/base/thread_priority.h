#pragma once

namespace reprise {

/// Lowers the priority of this thread alone, as Linux allows, because its work may wait. On busy
/// processors a niceness of 5 more than that of the process leaves the thread a third of the time
/// of the other threads, and 10 more a tenth. A thread that the process joins at its end must not
/// have too little: no thread can get its priority back. Where the system does not allow the
/// change, the thread keeps its priority.
void make_this_thread_patient(int more_niceness) noexcept;

}  // namespace reprise
