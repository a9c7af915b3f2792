#include "reprise/api/weight_files.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/weights/checkpoint.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "reprise/weights/model_directory.h"
#include "reprise/weights/renamed_weights.h"

namespace reprise::api {
namespace {

std::unique_ptr<weights::WeightSource> open_gguf(const EngineArgs& args,
                                                 const weights::ModelConfig& config,
                                                 std::vector<std::string>& warnings) {
  auto source = std::make_unique<weights::gguf::GgufWeights>(
      weights::gguf::GgufModel::open(args.model), config);
  if (const std::string formats = source->formats_without_panels(); !formats.empty()) {
    warnings.push_back(
        fmt::format("{}: {}: dequantised while loading, so they take as much memory as unquantised "
                    "weights",
                    args.model.string(),
                    formats));
  }
  return source;
}

}  // namespace

std::unique_ptr<weights::WeightSource> open_weights(const EngineArgs& args,
                                                    const weights::ModelConfig& config,
                                                    std::vector<std::string>& warnings) {
  if (args.load_format == LoadFormat::dummy) {
    return std::make_unique<weights::DummyWeights>(config, args.seed);
  }
  if (weights::gguf::is_gguf_path(args.model)) return open_gguf(args, config, warnings);
  auto checkpoint = std::make_unique<weights::Checkpoint>(
      weights::Checkpoint::open(weights::ModelDirectory(args.model)));
  warnings.insert(warnings.end(), checkpoint->warnings().begin(), checkpoint->warnings().end());
  return weights::with_class_names(std::move(checkpoint), config);
}

}  // namespace reprise::api
