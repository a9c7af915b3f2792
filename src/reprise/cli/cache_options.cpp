#include "reprise/cli/cache_options.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "reprise/api/loading/packed_weights.h"
#include "reprise/base/error.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"

namespace reprise::cli {
namespace {

constexpr const char* kCacheGroup = "Cache";

void add_prefix_options(OptionTable& table, api::EngineArgs& args) {
  table.add_switch("enable-prefix-caching",
                   kCacheGroup,
                   "Requests with the same beginning share its computed blocks. A model that only "
                   "has recurrent layers shares nothing without this option.",
                   "on; off for models without attention",
                   args.enable_prefix_caching);
  table.add({.name = "mamba-cache-mode",
             .group = kCacheGroup,
             .value_name = "MODE",
             .help =
                 "States of recurrent layers in cached prefixes. align keeps copies where blocks "
                 "end; with none a model with recurrent layers shares no prefixes.",
             .default_text = "align if prefixes are shared",
             .apply = [&args](std::string_view value) { args.mamba_cache_mode = value; },
             .choices = {"align", "none"}});
  table.add_integer(
      "prefix-cache-retention-interval",
      kCacheGroup,
      "Keep states of recurrent layers also at each multiple of N tokens. 0 keeps them "
      "at the end of a prompt and of its answer, and where prompts branch.",
      args.prefix_cache_retention_interval);
}

}  // namespace

void add_kv_cache_dtype(OptionTable& table, std::string group, std::string& dtype) {
  std::vector<std::string> choices;
  for (const kv_cache::CacheDType& choice : kv_cache::cache_dtypes()) {
    choices.emplace_back(choice.name);
  }
  table.add(
      {.name = "kv-cache-dtype",
       .group = std::move(group),
       .value_name = "TYPE",
       .help = "Type of cached keys and values. auto is the model's, fp8 is fp8_e4m3; "
               "per_token_head keeps a scale for each token and head.",
       .default_text = "auto",
       .apply =
           [&dtype](std::string_view value) { dtype = kv_cache::find_cache_dtype(value).name; },
       .choices = std::move(choices)});
}

void add_packed_weights_cache(OptionTable& table, std::string group, std::string& place) {
  table.add({.name = "packed-weights-cache",
             .group = std::move(group),
             .value_name = "DIR",
             .help = "Keep the weights in a file as kernels read them, and map this file in later "
                     "starts: none, a folder, or auto for ~/.cache/reprise/packed_weights.",
             .default_text = "none",
             .apply = [&place](std::string_view value) {
               place = value;
               (void)api::packed_weights_folder(place);
             }});
}

void add_cache_options(OptionTable& table, api::EngineArgs& args) {
  add_prefix_options(table, args);
  table.add_switch("disable-cascade-attn",
                   kCacheGroup,
                   "If all requests of a step share a prefix, compute attention over it for each "
                   "request, even where once for all is faster.",
                   args.disable_cascade_attn);
  table.add_integer("block-size", kCacheGroup, "Tokens per cache block.", args.block_size);
  add_kv_cache_dtype(table, kCacheGroup, args.kv_cache_dtype);
  table.add({.name = "kv-cache-memory-bytes",
             .group = kCacheGroup,
             .value_name = "N",
             .help = "Memory for keys and values.",
             .default_text = "4G, at most half of the free memory",
             .apply = [&args](std::string_view value) {
               args.kv_cache_memory_bytes = parse_human_integer("--kv-cache-memory-bytes", value);
             }});
  table.add({.name = "num-gpu-blocks-override",
             .group = kCacheGroup,
             .value_name = "N",
             .help = "Blocks of the cache, whatever memory there is: for tests of preemption.",
             .apply = [&args](std::string_view value) {
               args.num_gpu_blocks_override =
                   parse_human_integer("--num-gpu-blocks-override", value);
             }});
  // vLLM has two names for one option.
  for (const bool is_other_name : {false, true}) {
    const std::string name = is_other_name ? "device-memory-utilization" : "gpu-memory-utilization";
    table.add(
        {.name = name,
         .group = kCacheGroup,
         .value_name = "X",
         .help = is_other_name
                     ? "Another name of --gpu-memory-utilization."
                     : "Part of the device's memory to use, between 0 and 1; on a CPU: part of the "
                       "memory limit.",
         .default_text = "0.9",
         .apply = [&args, flag = "--" + name](std::string_view value) {
           const double part = parse_number(flag, value);
           if (!(part > 0 && part <= 1)) {
             throw InvalidArgument(
                 fmt::format("{}: expected more than 0 and at most 1, got {}", flag, value));
           }
           args.gpu_memory_utilization = part;
         }});
  }
}

}  // namespace reprise::cli
