#include "reprise/api/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/bitsandbytes_matrix.h"
#include "reprise/weights/checkpoint.h"
#include "reprise/weights/dense_modules.h"
#include "reprise/weights/draft_head_tensors.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/expert_matrices.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "reprise/weights/gptq_matrix.h"
#include "reprise/weights/lm_head.h"
#include "reprise/weights/model_directory.h"
#include "reprise/weights/packed_matrix.h"
#include "reprise/weights/quantized_matrix.h"
#include "reprise/weights/quantizing_weights.h"
#include "reprise/weights/renamed_weights.h"
#include "reprise/weights/scaled_matrix.h"
#include "reprise/weights/stacked_experts.h"
#include "reprise/weights/text_part.h"

namespace reprise::api {
namespace {

std::unique_ptr<weights::WeightSource> open_gguf(
    const EngineArgs& args,
    std::shared_ptr<const weights::gguf::GgufModel> model,
    const weights::ModelConfig& config,
    std::vector<std::string>& warnings) {
  auto source = std::make_unique<weights::gguf::GgufWeights>(std::move(model), config);
  if (const std::string formats = source->formats_without_panels(); !formats.empty()) {
    warnings.push_back(
        fmt::format("{}: {}: dequantised while loading, so they take as much memory as unquantised "
                    "weights",
                    args.model.string(),
                    formats));
  }
  return source;
}

std::unique_ptr<weights::WeightSource> open_checkpoint(const EngineArgs& args,
                                                       const weights::ModelConfig& config,
                                                       std::vector<std::string>& warnings) {
  auto checkpoint = std::make_unique<weights::Checkpoint>(
      weights::Checkpoint::open(weights::ModelDirectory(args.model)));
  warnings.insert(warnings.end(), checkpoint->warnings().begin(), checkpoint->warnings().end());
  const auto with = [&](weights::MatrixMap found) {
    auto quantized =
        std::make_unique<weights::QuantizedMatrices>(std::move(checkpoint), std::move(found));
    if (const std::string matrices = quantized->matrices_without_panels(); !matrices.empty()) {
      warnings.push_back(
          fmt::format("{}: {} of {} in a form that no kernel reads: dequantised while "
                      "loading, so they take as much memory as unquantised weights",
                      args.model.string(),
                      matrices,
                      weights::quantization_method_name(config.quantization.method)));
    }
    return quantized;
  };
  switch (config.quantization.method) {
    case weights::QuantizationMethod::none:
      break;
    case weights::QuantizationMethod::gptq:
    case weights::QuantizationMethod::awq:
      return with(weights::find_gptq_matrices(*checkpoint, config.quantization));
    case weights::QuantizationMethod::fp8:
      return with(weights::find_scaled_matrices(*checkpoint, config.quantization));
    case weights::QuantizationMethod::compressed_tensors: {
      weights::MatrixMap matrices = weights::find_scaled_matrices(*checkpoint, config.quantization);
      matrices.merge(weights::find_packed_matrices(*checkpoint));
      return with(std::move(matrices));
    }
    case weights::QuantizationMethod::bitsandbytes: {
      weights::MatrixMap matrices = weights::find_scaled_matrices(*checkpoint, config.quantization);
      matrices.merge(weights::find_bitsandbytes_matrices(*checkpoint));
      return with(std::move(matrices));
    }
  }
  return checkpoint;
}

/// Whether the head's tensors are in the checkpoint of its target, but not among its target's: then
/// they get their names before those that are not of the target are left out.
bool is_beside_model(const std::optional<weights::DraftHeadConfig>& head) {
  return head && head->kind == weights::DraftHeadKind::qwen_mtp;
}

/// Whether a draft head reads the part "mtp." of this model's checkpoint.
bool reads_mtp(const ResolvedOptions& options) {
  return options.speculative_config &&
         options.speculative_config->method == speculative::SpeculativeMethod::mtp;
}

std::unique_ptr<weights::WeightSource> open_stored(const EngineArgs& args,
                                                   const ResolvedOptions& options,
                                                   std::vector<std::string>& warnings) {
  const weights::ModelConfig& config = options.config;
  if (args.load_format == LoadFormat::dummy) {
    return std::make_unique<weights::DummyWeights>(config, args.seed);
  }
  const auto files = open_model_files(args.model, options.files);
  if (files->gguf() != nullptr) return open_gguf(args, files->gguf(), config, warnings);
  std::unique_ptr<weights::WeightSource> source = open_checkpoint(args, config, warnings);
  if (is_beside_model(options.draft_head)) {
    source = weights::with_head_names(std::move(source), *options.draft_head);
  } else if (const std::string parts = weights::other_parts(*source, reads_mtp(options));
             !parts.empty()) {
    warnings.push_back(
        fmt::format("{}: parts that are not loaded: {}", args.model.string(), parts));
  }
  source = weights::with_class_names(std::move(source), config);
  source = weights::with_dense_modules(std::move(source), config, args.model);
  if (!config.moe || !config.moe->is_stacked) {
    return weights::with_single_experts(std::move(source), config);
  }
  return std::make_unique<weights::ExpertMatrices>(std::move(source), config);
}

std::optional<weights::LoadQuantization> find_load_quantization(std::string_view name) {
  if (name == "int8") return weights::LoadQuantization::int8;
  if (name == "int4") return weights::LoadQuantization::int4;
  if (name == "q8_0") return weights::LoadQuantization::q8_0;
  if (name == "fp8") return weights::LoadQuantization::fp8;
  return std::nullopt;
}

bool is_stored_format(std::string_view name) {
  using enum weights::QuantizationMethod;
  constexpr std::array kFormats = {gptq, awq, fp8, compressed_tensors, bitsandbytes};
  return std::ranges::any_of(kFormats, [&](weights::QuantizationMethod method) {
    return weights::quantization_method_name(method) == name;
  });
}

// How weights are quantised while they are loaded, or nothing: as they are stored.
std::optional<weights::LoadQuantization> load_quantization(const EngineArgs& args,
                                                           const weights::ModelConfig& config) {
  const std::string& asked = args.quantization;
  const std::string_view stored = weights::quantization_method_name(config.quantization.method);
  if (asked == "none" || asked == "None" || asked == stored) return std::nullopt;
  const auto method = find_load_quantization(asked);
  if (!method) {
    throw InvalidArgument(fmt::format(
        "--quantization: '{}' is not one of none, int8, int4, q8_0, fp8{}",
        asked,
        is_stored_format(asked) ? fmt::format("; the checkpoint is stored as {}", stored)
                                : ", gptq, awq, compressed-tensors, bitsandbytes"));
  }
  if (stored != "none") {
    throw InvalidArgument(fmt::format(
        "--quantization: {}: the checkpoint is quantised already ({}); leave the option out",
        asked,
        stored));
  }
  return method;
}

}  // namespace

bool quantizes_while_loading(const EngineArgs& args) {
  const auto method = find_load_quantization(args.quantization);
  return method && *method != weights::LoadQuantization::fp8;
}

bool quantizes_while_loading(const EngineArgs& args, const weights::ModelConfig& config) {
  return load_quantization(args, config).has_value();
}

namespace {

// The model's files, or random values; quantised if `args` ask for it.
std::unique_ptr<weights::WeightSource> open_weights(const EngineArgs& args,
                                                    const ResolvedOptions& options,
                                                    std::vector<std::string>& warnings) {
  const auto method = load_quantization(args, options.config);
  std::unique_ptr<weights::WeightSource> source = open_stored(args, options, warnings);
  if (!method) return source;
  return std::make_unique<weights::QuantizingWeights>(std::move(source), *method);
}

}  // namespace

std::unique_ptr<weights::WeightSource> open_verified_weights(const EngineArgs& args,
                                                             ResolvedOptions& options,
                                                             std::vector<std::string>& warnings) {
  const std::optional<weights::DraftHeadConfig>& head = options.draft_head;
  std::unique_ptr<weights::WeightSource> source;
  if (head && args.load_format == LoadFormat::dummy) {
    source = std::make_unique<weights::DummyWeights>(
        weights::expected_tensors(*head), options.dtype, args.seed);
  } else {
    source = open_weights(args, options, warnings);
    if (head && !is_beside_model(head)) {
      source = weights::with_head_names(std::move(source), *head);
    }
  }
  if (!head) {
    options.config.tie_word_embeddings = options.rank_config.tie_word_embeddings =
        weights::uses_embedding_as_head(options.config, *source, warnings);
  }
  append_warnings(warnings,
                  head ? weights::verify_weights(*head, *source)
                       : weights::verify_weights(options.config, *source));
  return source;
}

}  // namespace reprise::api
