#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/model_files.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/config/resolution.h"
#include "reprise/kernels/isa.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/models/causal_lm.h"
#include "reprise/speculative/speculative_config.h"
#include "reprise/tensor/dtype.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/weights/config/draft_head_config.h"
#include "reprise/weights/config/generation_config.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::api {

/// The meaning of EngineArgs for one model, decided before any large file is read.
struct ResolvedOptions {
  /// Held while an engine loads; nullptr later.
  std::shared_ptr<const ModelFiles> files;
  weights::ModelConfig config;
  weights::ModelConfig rank_config;  // of one rank; with one rank the same
  weights::GenerationConfig generation;
  std::vector<int32_t> end_token_ids;  // the tokens that end an answer
  DType dtype = DType::bf16;
  kv_cache::CacheDType kv_cache_dtype;
  kernels::Isa isa = kernels::Isa::scalar;
  int32_t max_model_len = 0;
  int32_t max_logprobs = 0;
  const attention::BackendInfo* attention = nullptr;  // an entry of the list of backends
  /// The backend of recurrent layers, in a model that also has attention. Otherwise nullptr.
  const attention::BackendInfo* recurrent = nullptr;
  std::optional<speculative::SpeculativeConfig> speculative_config;  // unset: no draft tokens
  /// The model is a draft head: `config` is that of its layer. Unset: it is none.
  std::optional<weights::DraftHeadConfig> draft_head;
  models::AuxiliaryStates auxiliary;  // what a draft head reads of this model
  bool async_scheduling = false;
  bool caches_prefixes = false;  // requests share cached prefixes
  config::ResolutionInputs graph_inputs;
  config::ResolvedConfig graphs;
  std::vector<std::string> warnings;

  [[nodiscard]] int32_t num_speculative_tokens() const noexcept {
    return speculative_config ? speculative_config->num_speculative_tokens : 0;
  }
  /// State slots of each request; 0: the model has no recurrent layers. The states after each draft
  /// token have a slot of their own, because the draft may be rejected.
  [[nodiscard]] int32_t state_slots_per_req() const noexcept {
    return config.num_recurrent_layers() > 0 ? 1 + num_speculative_tokens() : 0;
  }
  [[nodiscard]] speculative::DraftSchedule draft_schedule() const {
    return speculative_config ? speculative_config->schedule : speculative::DraftSchedule{};
  }
};

/// Reads config.json and generation_config.json and checks every option that needs no device.
/// `files`: those of the model, if they are open already. \throws InvalidArgument, FileError
[[nodiscard]] ResolvedOptions resolve_options(const EngineArgs& args,
                                              std::shared_ptr<const ModelFiles> files = nullptr);

/// Completes the model's classifier, if it is one: the ids of the tokens from which it is made.
/// \throws FileError E_CONFIG for a token that the tokenizer does not have
std::optional<weights::ClassifierConfig> find_classifier(const EngineArgs& args,
                                                         const tokenizer::Tokenizer& tokenizer,
                                                         ResolvedOptions& options);

void append_warnings(std::vector<std::string>& warnings, const std::vector<std::string>& more);

/// \throws InvalidArgument unless `value` is at least 1
void require_positive(std::string_view flag, int64_t value);

}  // namespace reprise::api
