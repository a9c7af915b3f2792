#pragma once

namespace reprise {

/// Lowers the priority of this thread alone, as Linux allows, because its work may wait. On busy
/// processors the thread gets a tenth of the time of the process's other threads, and gives way at
/// once when one of them has work. Where the system does not allow it, the thread keeps its
/// priority.
void make_this_thread_patient() noexcept;

}  // namespace reprise
