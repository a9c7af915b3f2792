#include "reprise/cli/lora_options.h"

#include <algorithm>
#include <cstdint>

namespace reprise::cli {

void add_lora_options(OptionTable& table, api::EngineArgs& args) {
  constexpr const char* kLora = "Adapters";
  table.add_switch(
      "enable-lora", kLora, "Requests may name adapters (LoRA) as their model.", args.enable_lora);
  table.add({.name = "lora-modules",
             .group = kLora,
             .value_name = "NAME=DIR",
             .help = "Adapters to load at the start: folders with adapter_config.json and "
                     "adapter_model.safetensors; or as JSON with name, path and base_model_name.",
             .apply =
                 [&args](std::string_view value) {
                   args.lora_modules.push_back(api::parse_lora_module("--lora-modules", value));
                 },
             .example = "sql=./sql-adapter",
             .takes_several = true});
  table.add_integer(
      "max-loras", kLora, "Different adapters in one step: slots on the device.", args.max_loras);
  table.add_integer("max-lora-rank", kLora, "Largest rank of an adapter.", args.max_lora_rank);
  table.add({.name = "max-cpu-loras",
             .group = kLora,
             .value_name = "N",
             .help = "Adapters that stay in host memory; others are read again when named.",
             .default_text = "max-loras",
             .apply = [&args](std::string_view value) {
               args.max_cpu_loras = static_cast<int32_t>(
                   std::min<int64_t>(parse_human_integer("--max-cpu-loras", value), INT32_MAX));
             }});
  table.add_switch("specialize-active-lora",
                   kLora,
                   "Capture graphs for 1, 2, 4, ... adapters in a step instead of for any number.",
                   args.specialize_active_lora);
}

}  // namespace reprise::cli
