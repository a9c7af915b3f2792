#pragma once

#include <cstdint>

namespace reprise::scheduler {

enum class SchedulingPolicy : uint8_t {
  fcfs,      // first come, first served
  priority,  // lower RequestOptions::priority first, then first come
};

}  // namespace reprise::scheduler
