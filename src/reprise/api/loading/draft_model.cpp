#include "reprise/api/loading/draft_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/api/options/hub_cache.h"
#include "reprise/base/error.h"
#include "reprise/runner/model_drafter.h"

namespace reprise::api {
namespace {

using speculative::SpeculativeMethod;

constexpr int32_t kFirstQueryLen = runner::ModelDrafter::kFirstQueryLen;

// Sizes that the user chose for the main model's steps do not fit the draft model's.
Json without_sizes(Json compilation_config) {
  for (const char* key : {"capture_size_rule",
                          "cudagraph_capture_sizes",
                          "max_cudagraph_capture_size",
                          "cuda_graph_sizes",
                          "compile_sizes"}) {
    compilation_config.erase(key);
  }
  return compilation_config;
}

}  // namespace

bool has_draft_model(const ResolvedOptions& options) noexcept {
  return options.speculative_config &&
         (options.speculative_config->method == SpeculativeMethod::draft_model ||
          is_draft_head(options.speculative_config->method));
}

EngineArgs draft_model_args(const EngineArgs& args, const ResolvedOptions& options) {
  const speculative::DraftModelOptions& asked = options.speculative_config->draft_model;
  EngineArgs draft = args;
  draft.model = find_model_folder(
      asked.model, args.download_dir.empty() ? hub_cache_folder() : args.download_dir);
  draft.tokenizer.reset();
  draft.hf_overrides = Json::object();
  draft.generation_config = "vllm";
  draft.override_generation_config = Json::object();
  draft.chat_template.reset();
  draft.runner = "generate";
  draft.quantization = asked.quantization;
  draft.max_model_len.reset();
  // The step that gives the first drafts has two tokens of each request.
  draft.max_num_batched_tokens =
      std::max(args.max_num_batched_tokens, kFirstQueryLen * args.max_num_seqs);
  // Two tokens per request are, for the draft model's graphs, the shape of a step with one draft.
  draft.speculative_config = {{"method", "ngram"}, {"num_speculative_tokens", kFirstQueryLen - 1}};
  draft.async_scheduling = false;
  draft.enable_lora = false;
  draft.lora_modules.clear();
  draft.expert_counters = false;
  draft.strict_graphs = false;
  draft.enforce_eager = asked.enforce_eager.value_or(args.enforce_eager);
  draft.compilation_config = without_sizes(args.compilation_config);
  return draft;
}

ResolvedOptions resolve_draft_model(EngineArgs& draft_args, const ResolvedOptions& main) {
  ResolvedOptions draft = resolve_options(draft_args);
  if (draft.config.num_recurrent_layers() > 0) {
    throw InvalidArgument(fmt::format(
        "speculative_config: the draft model {} ({}) has recurrent layers, whose states do not go "
        "back to the last accepted token; choose a draft model without such layers",
        draft_args.model.string(),
        weights::architecture_name(draft.config.architecture)));
  }
  if (draft.config.vocab_size != main.config.vocab_size) {
    throw InvalidArgument(
        fmt::format("speculative_config: the draft model {} has a vocabulary of {} tokens, and the "
                    "main model has {}; choose a draft model with the same vocabulary",
                    draft_args.model.string(),
                    draft.config.vocab_size,
                    main.config.vocab_size));
  }
  const std::optional<int32_t> asked = main.speculative_config->draft_model.max_model_len;
  if (asked && *asked > draft.max_model_len) {
    throw InvalidArgument(
        fmt::format("speculative_config: max_model_len is {}, but the draft model {} was made for "
                    "{} positions",
                    *asked,
                    draft_args.model.string(),
                    draft.max_model_len));
  }
  draft.max_model_len =
      std::min({draft.max_model_len, asked.value_or(draft.max_model_len), main.max_model_len});
  draft_args.max_model_len = draft.max_model_len;
  return draft;
}

void check_same_tokens(const tokenizer::Tokenizer& main, const ModelFiles& draft_model) {
  if (!has_tokenizer(draft_model.path())) return;
  const tokenizer::Tokenizer draft = draft_model.tokenizer();
  const int32_t most = std::max(main.vocab_size(), draft.vocab_size());
  for (int32_t id = 0; id < most; ++id) {
    const std::optional<std::string_view> of_main = main.id_to_token(id);
    const std::optional<std::string_view> of_draft = draft.id_to_token(id);
    if (of_main == of_draft) continue;
    throw InvalidArgument(fmt::format(
        "speculative_config: token {} is {} in the main model and {} in the draft model {}; choose "
        "a draft model with the same vocabulary",
        id,
        of_main ? fmt::format("'{}'", *of_main) : "unknown",
        of_draft ? fmt::format("'{}'", *of_draft) : "unknown",
        draft_model.path().string()));
  }
}

}  // namespace reprise::api
