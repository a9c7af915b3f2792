#include "reprise/api/options/engine_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::api {

LoadFormat parse_load_format(std::string_view option, std::string_view text) {
  // vLLM's names for ways to read files of safetensors or GGUF. Reprise always reads them the same
  // way.
  constexpr std::array kAsFound = {std::string_view("auto"),
                                   std::string_view("hf"),
                                   std::string_view("mistral"),
                                   std::string_view("gguf"),
                                   std::string_view("bitsandbytes"),
                                   std::string_view("fastsafetensors"),
                                   std::string_view("instanttensor"),
                                   std::string_view("runai_streamer")};
  if (std::ranges::find(kAsFound, text) != kAsFound.end()) return LoadFormat::automatic;
  if (text == "safetensors") return LoadFormat::safetensors;
  if (text == "dummy") return LoadFormat::dummy;
  constexpr std::array kOtherFiles = {std::string_view("pt"),
                                      std::string_view("npcache"),
                                      std::string_view("runai_streamer_sharded"),
                                      std::string_view("sharded_state"),
                                      std::string_view("tensorizer")};
  if (std::ranges::find(kOtherFiles, text) != kOtherFiles.end()) {
    throw InvalidArgument(fmt::format(
        "{}: '{}' is for files that are not read here; convert the model to safetensors or GGUF",
        option,
        text));
  }
  throw InvalidArgument(
      fmt::format("{}: '{}' is not one of auto, safetensors, dummy", option, text));
}

scheduler::SchedulingPolicy parse_scheduling_policy(std::string_view option,
                                                    std::string_view text) {
  if (text == "fcfs") return scheduler::SchedulingPolicy::fcfs;
  if (text == "priority") return scheduler::SchedulingPolicy::priority;
  throw InvalidArgument(fmt::format("{}: '{}' is not one of fcfs, priority", option, text));
}

}  // namespace reprise::api
