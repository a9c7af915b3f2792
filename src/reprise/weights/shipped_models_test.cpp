// The bundled model and the tiny models of the golden tests load without a warning.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/generation_config.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/checkpoint.h"
#include "tests/support/source_dir.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ShippedModel : public ::testing::TestWithParam<const char*> {
 protected:
  ModelDirectory directory_{std::filesystem::path(source_dir()) / GetParam()};
};

TEST_P(ShippedModel, loads_without_warnings_and_holds_finite_numbers) {
  const LoadedModelConfig loaded = load_model_config(directory_);
  const Checkpoint checkpoint = Checkpoint::open(directory_);
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
  EXPECT_THAT(verify_weights(loaded.config, checkpoint), IsEmpty());
  std::vector<float> values;
  for (const std::string_view name : checkpoint.names()) {
    const TensorSpec& spec = *checkpoint.find(name);
    values.resize(size_bytes(spec) / dtype_bytes(spec.dtype));
    checkpoint.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         ShippedModel,
                         ::testing::Values("models/reprise-tiny",
                                           "tests/goldens/tiny-llama",
                                           "tests/goldens/tiny-llama-tied",
                                           "tests/goldens/tiny-llama3",
                                           "tests/goldens/tiny-mistral",
                                           "tests/goldens/tiny-qwen2",
                                           "tests/goldens/tiny-qwen3"));

TEST(ShippedModels, recommend_how_reprise_tiny_is_sampled) {
  const ModelDirectory directory(std::filesystem::path(source_dir()) / "models/reprise-tiny");
  const GenerationConfig config = load_generation_config(directory);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 0));
  EXPECT_EQ(config.do_sample, false);
}

}  // namespace
}  // namespace reprise::weights
