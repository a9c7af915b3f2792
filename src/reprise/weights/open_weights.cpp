#include "reprise/weights/open_weights.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/weights/codecs/checkpoint_matrices.h"
#include "reprise/weights/codecs/expert_matrices.h"
#include "reprise/weights/codecs/quantized_matrix.h"
#include "reprise/weights/config/dense_modules.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/lm_head.h"
#include "reprise/weights/config/text_part.h"
#include "reprise/weights/files/checkpoint.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "reprise/weights/sources/draft_head_tensors.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/renamed_weights.h"
#include "reprise/weights/sources/stacked_experts.h"

namespace reprise::weights {
namespace {

std::unique_ptr<WeightSource> open_gguf(const OpenOptions& options,
                                        const ModelConfig& config,
                                        std::vector<std::string>& warnings) {
  auto source = std::make_unique<gguf::GgufWeights>(options.gguf, config);
  if (const std::string formats = source->formats_without_panels(); !formats.empty()) {
    warnings.push_back(
        fmt::format("{}: {}: dequantised while loading, so they take as much memory as unquantised "
                    "weights",
                    options.model.string(),
                    formats));
  }
  return source;
}

std::unique_ptr<WeightSource> open_checkpoint(const OpenOptions& options,
                                              const QuantizationConfig& quantization,
                                              std::vector<std::string>& warnings) {
  auto checkpoint = std::make_unique<Checkpoint>(Checkpoint::open(ModelDirectory(options.model)));
  warnings.insert(warnings.end(), checkpoint->warnings().begin(), checkpoint->warnings().end());
  if (quantization.method == QuantizationMethod::none) return checkpoint;
  MatrixMap matrices = find_checkpoint_matrices(*checkpoint, quantization);
  auto quantized = std::make_unique<QuantizedMatrices>(std::move(checkpoint), std::move(matrices));
  if (const std::string unpacked = quantized->matrices_without_panels(); !unpacked.empty()) {
    warnings.push_back(
        fmt::format("{}: {} of {} in a form that no kernel reads: dequantised while "
                    "loading, so they take as much memory as unquantised weights",
                    options.model.string(),
                    unpacked,
                    quantization_method_name(quantization.method)));
  }
  return quantized;
}

/// Whether the tensors of a head are in the checkpoint of its target, outside the target's part.
/// Then they are renamed before that part is cut out.
bool is_beside_model(const DraftHeadConfig& head) { return head.kind == DraftHeadKind::qwen_mtp; }

std::unique_ptr<WeightSource> open_folder(const OpenOptions& options,
                                          const ModelConfig& config,
                                          std::vector<std::string>& warnings) {
  std::unique_ptr<WeightSource> source = open_checkpoint(options, config.quantization, warnings);
  if (options.head != nullptr && is_beside_model(*options.head)) {
    source = with_head_names(std::move(source), *options.head);
  } else if (const std::string parts = other_parts(*source, options.reads_mtp); !parts.empty()) {
    warnings.push_back(
        fmt::format("{}: parts that are not loaded: {}", options.model.string(), parts));
  }
  source = with_class_names(std::move(source), config);
  source = with_dense_modules(std::move(source), config, options.model);
  if (config.moe && config.moe->is_stacked) {
    source = std::make_unique<ExpertMatrices>(std::move(source), config);
  } else {
    source = with_single_experts(std::move(source), config);
  }
  return source;
}

/// The weights under the names in the model's class, or in the head's checkpoint.
std::unique_ptr<WeightSource> open_stored(const OpenOptions& options,
                                          const ModelConfig& config,
                                          std::vector<std::string>& warnings) {
  if (options.dummy_seed) return std::make_unique<DummyWeights>(config, *options.dummy_seed);
  if (options.gguf != nullptr) return open_gguf(options, config, warnings);
  return open_folder(options, config, warnings);
}

/// The weights under the names that the code of the model or head uses.
std::unique_ptr<WeightSource> open_named(const OpenOptions& options,
                                         const ModelConfig& config,
                                         std::vector<std::string>& warnings) {
  if (options.head != nullptr && options.dummy_seed) {
    return std::make_unique<DummyWeights>(
        expected_tensors(*options.head), options.dtype, *options.dummy_seed);
  }
  std::unique_ptr<WeightSource> source = open_stored(options, config, warnings);
  if (options.quantization) {
    source = std::make_unique<QuantizingWeights>(std::move(source), *options.quantization);
  }
  if (options.head != nullptr && !is_beside_model(*options.head)) {
    source = with_head_names(std::move(source), *options.head);
  }
  return source;
}

std::vector<std::string> verify(const OpenOptions& options,
                                const ModelConfig& config,
                                const WeightSource& source) {
  return options.head != nullptr ? verify_weights(*options.head, source)
                                 : verify_weights(config, source);
}

}  // namespace

std::unique_ptr<WeightSource> open_weights(const OpenOptions& options,
                                           ModelConfig& config,
                                           std::vector<std::string>& warnings) {
  std::unique_ptr<WeightSource> source = open_named(options, config, warnings);
  if (options.head == nullptr) {
    config.tie_word_embeddings = uses_embedding_as_head(config, *source, warnings);
  }
  const std::vector<std::string> unused = verify(options, config, *source);
  warnings.insert(warnings.end(), unused.begin(), unused.end());
  if (options.rank) {
    source = std::make_unique<RankWeights>(std::move(source), config, *options.rank);
  }
  if (options.on_read) {
    source = std::make_unique<WatchedWeights>(std::move(source), options.on_read);
  }
  return source;
}

}  // namespace reprise::weights
