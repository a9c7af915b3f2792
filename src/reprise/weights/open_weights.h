#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/weights/config/draft_head_config.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/sources/quantizing_weights.h"
#include "reprise/weights/sources/rank_weights.h"
#include "reprise/weights/sources/watched_weights.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Which weights open_weights() opens, and in which form.
struct OpenOptions {
  std::filesystem::path model;                  // a model folder, or a GGUF file
  std::shared_ptr<const gguf::GgufModel> gguf;  // the GGUF file; nullptr: a model folder
  std::optional<uint64_t> dummy_seed;           // made-up values instead of the stored ones
  DType dtype = DType::bf16;                    // of the model
  /// If set, the weights of this draft head are opened instead of a model's. Borrowed for the call.
  const DraftHeadConfig* head = nullptr;
  bool reads_mtp = false;  // a draft head reads the part "mtp." of this checkpoint
  std::optional<LoadQuantization> quantization;  // unset: as they are stored
  std::optional<RankOfModel> rank;               // unset: the whole model
  WatchedWeights::OnRead on_read;                // may be empty
};

/// Opens a model's weights under the names that its code loads, and checks that all are present.
/// Sets tie_word_embeddings of `config` to what the checkpoint has. Adds warnings about the files
/// and about tensors that are not used. \throws FileError for a file that cannot be read, and for a
/// tensor that is missing or misshapen; InvalidArgument as RankWeights
[[nodiscard]] std::unique_ptr<WeightSource> open_weights(const OpenOptions& options,
                                                         ModelConfig& config,
                                                         std::vector<std::string>& warnings);

}  // namespace reprise::weights
