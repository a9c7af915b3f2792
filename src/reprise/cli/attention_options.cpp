#include "reprise/cli/attention_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"
#include "reprise/cli/config_field.h"
#include "reprise/cli/log_environment.h"

namespace reprise::cli {
namespace {

constexpr const char* kAttentionGroup = "Compilation and graphs";
constexpr auto kAttentionFields = std::to_array<std::string_view>({
    "backend",
    "flash_attn_version",
    "disable_flashinfer_prefill",
    // vLLM's fields that concern only its own kernels
    "disable_flashinfer_q_quantization",
    "flash_attn_max_num_splits_for_cuda_graph",
    "mla_prefill_backend",
    "use_cudnn_prefill",
    "use_prefill_decode_attention",
    "use_prefill_query_quantization",
    "use_trtllm_attention",
    "use_trtllm_ragged_deepseek_prefill",
});

std::string known_backend(std::string_view name) {
  (void)attention::find_attention_backend(name);
  return std::string(name);
}

void assign_attention_field(api::EngineArgs& args, const ConfigField& field) {
  if (std::ranges::find(kAttentionFields, field.name) == kAttentionFields.end()) {
    field.refuse_name(kAttentionFields);
  }
  if (field.name == "backend") {
    args.attention_backend = field.value.is_null() ? "auto" : known_backend(field.text());
  } else if (field.name == "flash_attn_version") {
    args.flash_attn_version = field.value.is_null() ? 0 : static_cast<int32_t>(field.number(2, 3));
  } else if (field.name == "disable_flashinfer_prefill") {
    args.flashinfer_prefill = !field.value.is_null() && !field.boolean();
  } else if (field.name == "use_prefill_query_quantization" && field.value == true) {
    field.refuse("false: queries keep their type");
  } else if (!field.value.is_null() && field.value != false) {
    print_log(LogLevel::warning,
              "{}.{} has no effect here: it chooses between kernels of vLLM\n",
              field.flag,
              field.name);
  }
}

}  // namespace

void add_attention_options(OptionTable& table, api::EngineArgs& args) {
  std::vector<std::string> choices = {"auto"};
  for (const attention::BackendInfo& info : attention::attention_backends()) {
    if (choices.back() != info.name) choices.emplace_back(info.name);
  }
  table.add(
      {.name = "attention-backend",
       .group = kAttentionGroup,
       .value_name = "NAME",
       .help = "Attention backend, by vLLM's names. It determines which batches FULL graphs "
               "can contain.",
       .default_text = "auto",
       .apply = [&args](std::string_view value) { args.attention_backend = known_backend(value); },
       .choices = std::move(choices)});
  table.add({.name = "flash-attn-version",
             .group = kAttentionGroup,
             .value_name = "2|3",
             .help = "With FLASH_ATTN: 3 uses one path for every batch, 2 separate paths for "
                     "uniform and other batches.",
             .default_text = "3",
             .apply =
                 [&args](std::string_view value) {
                   if (value != "2" && value != "3") {
                     throw InvalidArgument(
                         fmt::format("--flash-attn-version: '{}' is not one of 2, 3", value));
                   }
                   args.flash_attn_version = value == "2" ? 2 : 3;
                 },
             .choices = {"2", "3"}});
  table.add(json_config_option(
      {.name = "attention-config",
       .short_name = "-ac",
       .group = kAttentionGroup,
       .help =
           "The two options above as one object: backend and flash_attn_version; and "
           "disable_flashinfer_prefill: false takes FlashInfer's kernels for prompts, too, which "
           "no GPU has run yet.",
       .default_text = "{}",
       .example = R"({"backend": "auto"})"},
      [&args](const ConfigField& field) { assign_attention_field(args, field); },
      [&args] {
        Json config = {{"backend", args.attention_backend}};
        if (args.flash_attn_version != 0) config["flash_attn_version"] = args.flash_attn_version;
        if (args.flashinfer_prefill) config["disable_flashinfer_prefill"] = false;
        return config;
      }));
}

}  // namespace reprise::cli
