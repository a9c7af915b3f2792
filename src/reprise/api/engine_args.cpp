#include "reprise/api/engine_args.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::api {

LoadFormat parse_load_format(std::string_view option, std::string_view text) {
  if (text == "auto") return LoadFormat::automatic;
  if (text == "safetensors") return LoadFormat::safetensors;
  if (text == "dummy") return LoadFormat::dummy;
  throw InvalidArgument(
      fmt::format("{}: '{}' is not one of auto, safetensors, dummy", option, text));
}

engine::SchedulingPolicy parse_scheduling_policy(std::string_view option, std::string_view text) {
  if (text == "fcfs") return engine::SchedulingPolicy::fcfs;
  if (text == "priority") return engine::SchedulingPolicy::priority;
  throw InvalidArgument(fmt::format("{}: '{}' is not one of fcfs, priority", option, text));
}

}  // namespace reprise::api
