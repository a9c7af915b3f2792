#include "reprise/cli/sampling_options.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/cli/option_table.h"

namespace reprise::cli {
namespace {

constexpr const char* kSampling = "Sampling";

void add_float(OptionTable& table, std::string name, std::string help, float& target) {
  std::string flag = "--" + name;
  table.add({.name = std::move(name),
             .group = kSampling,
             .value_name = "X",
             .help = std::move(help),
             .apply = [&target, flag](std::string_view value) {
               target = static_cast<float>(parse_number(flag, value));
             }});
}

}  // namespace

void add_sampling_options(OptionTable& table, sampling::SamplingParams& params) {
  add_float(table, "temperature", "0 = always the likeliest token.", params.temperature);
  add_float(table, "top-p", "Keep the likeliest tokens up to this mass.", params.top_p);
  add_float(table,
            "min-p",
            "Drop tokens less probable than this share of the likeliest token.",
            params.min_p);
  add_float(
      table, "repetition-penalty", "Above 1 discourages repeating.", params.repetition_penalty);
  add_float(
      table, "presence-penalty", "Discourages tokens that occurred.", params.presence_penalty);
  add_float(table,
            "frequency-penalty",
            "Discourages tokens by how often they occurred.",
            params.frequency_penalty);
  table.add({.name = "top-k",
             .group = kSampling,
             .value_name = "N",
             .help = "Keep the N likeliest tokens; 0 = all.",
             .apply = [&params](std::string_view value) {
               params.top_k = static_cast<int>(parse_human_integer("--top-k", value));
             }});
  table.add({.name = "max-tokens",
             .group = kSampling,
             .value_name = "N",
             .help = "Longest answer, in tokens.",
             .apply = [&params](std::string_view value) {
               params.max_tokens = static_cast<int>(
                   std::min<int64_t>(parse_human_integer("--max-tokens", value), INT32_MAX));
             }});
  table.add({.name = "stop",
             .group = kSampling,
             .value_name = "TEXT",
             .help = "Ends the answer where this text appears; may be repeated.",
             .apply = [&params](std::string_view value) { params.stop.emplace_back(value); },
             .takes_several = true});
  table.add_switch(
      "ignore-eos", kSampling, "Go on after the end-of-text token.", params.ignore_eos);
}

}  // namespace reprise::cli
