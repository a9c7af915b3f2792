#include "reprise/device/cpu/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <thread>

namespace reprise::device {
namespace {

// The CPU quota of the container in whole CPUs; 0: no limit. cgroup v2's file "cpu.max" has
// "<quota> <period>" in microseconds, or "max <period>".
size_t cgroup_quota() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  size_t quota = 0;
  size_t period = 0;
  if (!(in >> quota >> period) || period == 0) return 0;
  return std::max<size_t>(1, quota / period);
}

}  // namespace

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) {  // the machine has more cores than a cpu_set_t can hold
    const auto count = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (int core = 0; core < count; ++core) cores.push_back(core);
  }
  if (const size_t quota = cgroup_quota(); quota != 0 && quota < cores.size()) cores.resize(quota);
  return cores;
}

}  // namespace reprise::device
