#include "reprise/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace reprise {
namespace {

constexpr int kMostNiceness = 19;

}  // namespace

void make_this_thread_patient(int more_niceness) noexcept {
  const auto thread = static_cast<id_t>(::gettid());
  // New threads begin with the priority of the process, which may be low already.
  const int niceness = ::getpriority(PRIO_PROCESS, thread);
  (void)::setpriority(PRIO_PROCESS, thread, std::min(niceness + more_niceness, kMostNiceness));
}

}  // namespace reprise
