#include "reprise/api/weight_files.h"

#include "reprise/weights/checkpoint.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {

std::unique_ptr<weights::WeightSource> open_weights(const EngineArgs& args,
                                                    const weights::ModelConfig& config,
                                                    std::vector<std::string>& warnings) {
  if (args.load_format == LoadFormat::dummy) {
    return std::make_unique<weights::DummyWeights>(config, args.seed);
  }
  auto checkpoint = std::make_unique<weights::Checkpoint>(
      weights::Checkpoint::open(weights::ModelDirectory(args.model)));
  warnings.insert(warnings.end(), checkpoint->warnings().begin(), checkpoint->warnings().end());
  return checkpoint;
}

}  // namespace reprise::api
