#include "reprise/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

namespace reprise {

void set_niceness_of_this_thread(int niceness) noexcept {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
}

}  // namespace reprise
