#pragma once

namespace reprise {

/// The niceness of threads whose work may wait when the processors are busy. Such a thread gets a
/// tenth of the time of a usual one, and gives way at once when a usual one has work.
inline constexpr int kPatientNiceness = 10;

/// Sets the niceness of this thread alone, as Linux allows. Where the system does not allow it, the
/// thread keeps its priority.
void set_niceness_of_this_thread(int niceness) noexcept;

}  // namespace reprise
