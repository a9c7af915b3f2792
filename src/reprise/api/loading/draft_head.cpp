#include "reprise/api/loading/draft_head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reprise/api/options/hub_cache.h"
#include "reprise/base/error.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/sources/draft_head_tensors.h"

namespace reprise::api {
namespace {

using speculative::SpeculativeMethod;

constexpr uint64_t kMostConfigBytes = uint64_t{4} << 20;

weights::DraftHeadKind kind_of(SpeculativeMethod method) {
  if (method == SpeculativeMethod::eagle) return weights::DraftHeadKind::eagle;
  return method == SpeculativeMethod::eagle3 ? weights::DraftHeadKind::eagle3
                                             : weights::DraftHeadKind::mtp;
}

/// The classes of draft heads whose layer is a Llama layer.
std::vector<std::string_view> classes_of(weights::DraftHeadKind kind) {
  if (kind == weights::DraftHeadKind::eagle) return {"EagleLlamaForCausalLM", "LlamaForCausalLM"};
  return {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"};
}

void check_class(const weights::ConfigReader& reader,
                 const Json& json,
                 weights::DraftHeadKind kind) {
  const std::vector<std::string_view> classes = classes_of(kind);
  const auto list = json.find("architectures");
  const bool is_list = list != json.end() && list->is_array() && !list->empty();
  const bool is_known = is_list && std::ranges::any_of(classes, [&](std::string_view name) {
                          return list->front() == name;
                        });
  if (is_known) return;
  reader.fail(
      "architectures",
      fmt::format("names no draft head of this method; expected {}", fmt::join(classes, " or ")));
}

std::string read_config(const std::filesystem::path& folder) {
  return weights::ModelDirectory(folder).read_text("config.json", kMostConfigBytes);
}

std::string config_path(const std::filesystem::path& folder) {
  return weights::ModelDirectory(folder).path_of("config.json");
}

/// The head's config.json becomes the config of a Llama with one layer. The rotation covers all
/// positions of the main model, because the head follows the main model's tokens.
Json overrides_of_eagle(const std::filesystem::path& folder,
                        weights::DraftHeadKind kind,
                        int32_t max_model_len) {
  const std::string path = config_path(folder);
  const Json json = weights::parse_json_file(read_config(folder), path, "E_CONFIG");
  const weights::ConfigReader reader(json, path);
  check_class(reader, json, kind);
  Json overrides = {{"architectures", {"LlamaForCausalLM"}},
                    {"auto_map", nullptr},
                    {"tie_word_embeddings", false}};
  const int64_t own =
      reader.integer("max_position_embeddings", 1, weights::kMaxPositions).value_or(0);
  if (own < max_model_len) overrides["max_position_embeddings"] = max_model_len;
  return overrides;
}

}  // namespace

bool has_draft_head(const ResolvedOptions& options) noexcept {
  return options.speculative_config && is_draft_head(options.speculative_config->method);
}

EngineArgs draft_head_args(const EngineArgs& args, const ResolvedOptions& options) {
  const speculative::DraftModelOptions& asked = options.speculative_config->draft_model;
  const weights::DraftHeadKind kind = kind_of(options.speculative_config->method);
  EngineArgs head = args;
  if (kind == weights::DraftHeadKind::mtp) {
    if (weights::gguf::is_gguf_path(args.model)) {
      throw InvalidArgument(
          "speculative_config: method mtp reads the head from a folder with safetensors; GGUF "
          "files have none here");
    }
  } else {
    head.model = find_model_folder(asked.model, hub_cache_folder());
    head.hf_overrides = overrides_of_eagle(head.model, kind, options.max_model_len);
    head.quantization = asked.quantization;
  }
  head.tokenizer.reset();
  head.generation_config = "vllm";
  head.override_generation_config = Json::object();
  head.chat_template.reset();
  head.runner = "generate";
  head.max_model_len = options.max_model_len;
  head.allow_long_max_model_len = true;
  // The head's decode steps have the widths of the main model's.
  head.speculative_config = {{"method", "ngram"},
                             {"num_speculative_tokens", options.num_speculative_tokens()}};
  if (const auto rows = args.speculative_config.find(speculative::kScheduleKey);
      rows != args.speculative_config.end()) {
    head.speculative_config[speculative::kScheduleKey] = *rows;
  }
  head.async_scheduling = false;
  head.enable_lora = false;
  head.lora_modules.clear();
  head.expert_counters = false;
  head.strict_graphs = false;
  head.enforce_eager = asked.enforce_eager.value_or(args.enforce_eager);
  return head;
}

ResolvedOptions resolve_draft_head(const EngineArgs& head_args, ResolvedOptions& main) {
  ResolvedOptions head = resolve_options(head_args);
  const std::string json = read_config(head_args.model);
  const std::string path = config_path(head_args.model);
  const weights::DraftHeadKind kind = kind_of(main.speculative_config->method);
  head.draft_head = kind == weights::DraftHeadKind::mtp
                        ? weights::mtp_config(json, path, main.config)
                        : weights::parse_eagle_config(kind, json, path, head.config, main.config);
  head.config = head.draft_head->model;
  head.recurrent = nullptr;  // a head has no recurrent layers, even if its main model has
  head.rank_config = head.config;
  head.max_model_len = main.max_model_len;
  main.auxiliary = models::auxiliary_states(*head.draft_head);
  return head;
}

std::unique_ptr<models::DraftHead> create_draft_head(const EngineArgs& args,
                                                     const ResolvedOptions& options,
                                                     const weights::WeightSource& source,
                                                     models::Parameters& parameters,
                                                     const models::CausalLM& target) {
  std::vector<int32_t> target_ids;
  // A head with made-up weights has no table of its draft tokens: its rows of logits stand for the
  // first tokens.
  if (args.load_format != LoadFormat::dummy) {
    target_ids = weights::read_target_ids(*options.draft_head, source);
  }
  return models::create_draft_head(*options.draft_head,
                                   options.max_model_len,
                                   parameters,
                                   target.shared_tensors(),
                                   std::move(target_ids));
}

}  // namespace reprise::api
