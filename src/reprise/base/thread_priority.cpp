#include "reprise/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace reprise {
namespace {

constexpr int kMoreNiceness = 10;  // each step is about a quarter more or less time
constexpr int kMostNiceness = 19;

}  // namespace

void make_this_thread_patient() noexcept {
  const auto thread = static_cast<id_t>(::gettid());
  // The process may have a low priority itself, which its threads begin with.
  const int niceness = ::getpriority(PRIO_PROCESS, thread);
  (void)::setpriority(PRIO_PROCESS, thread, std::min(niceness + kMoreNiceness, kMostNiceness));
}

}  // namespace reprise
