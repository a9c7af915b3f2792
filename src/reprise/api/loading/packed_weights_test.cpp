#include "reprise/api/loading/packed_weights.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/weight_file_key.h"
#include "reprise/base/error.h"
#include "reprise/models/parameters.h"
#include "tests/support/compile/compile_cache_fixture.h"
#include "tests/support/source_dir.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;
using compile::TemporaryFolder;

class PackedWeightsTest : public testing::Test {
 protected:
  PackedWeightsTest() {
    fs::copy(
        fs::path(source_dir()) / "models" / "reprise-tiny", model_, fs::copy_options::recursive);
  }

  [[nodiscard]] EngineArgs args(const std::string& quantization = "none") const {
    EngineArgs args;
    args.model = model_;
    args.device = "cpu";
    args.quantization = quantization;
    args.enforce_eager = true;
    args.max_model_len = 64;
    args.disable_compile_cache = true;
    args.num_gpu_blocks_override = 32;
    args.packed_weights_cache = cache_.string();
    return args;
  }
  static std::string weights_of(const LoadedEngine& engine) {
    std::string all;
    for (const weights::PackedWeight& weight : engine.parameters->packed_copy()) {
      all += weight.name;
      all.append(reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size());
    }
    return all;
  }
  /// Starts without the option and returns its weights: the expected ones.
  [[nodiscard]] std::string want(const std::string& quantization = "none") const {
    EngineArgs without = args(quantization);
    without.packed_weights_cache = "none";
    const auto engine = load_engine(without);
    EXPECT_EQ(engine->report.packed_weights, "");
    return weights_of(*engine);
  }
  /// Starts and expects these weights. \returns what the report says
  std::string start(const std::string& want, const EngineArgs& args) {
    const auto engine = load_engine(args);
    warnings_ = engine->report.warnings;
    EXPECT_TRUE(weights_of(*engine) == want);
    return engine->report.packed_weights;
  }
  [[nodiscard]] bool has_warning(std::string_view text) const {
    return std::ranges::any_of(warnings_, [&](const std::string& warning) {
      return warning.find(text) != std::string::npos;
    });
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_.path() / "model";
  fs::path cache_ = folder_.path() / "cache";
  std::vector<std::string> warnings_;
};

TEST_F(PackedWeightsTest, a_second_start_maps_the_same_weights) {
  for (const char* quantization : {"none", "int8", "int4", "q8_0"}) {
    SCOPED_TRACE(quantization);
    const std::string weights = want(quantization);
    EXPECT_TRUE(start(weights, args(quantization)).starts_with("wrote "));
    EXPECT_TRUE(start(weights, args(quantization)).starts_with("mapped "));
    EXPECT_FALSE(has_warning("packed-weights-cache"));
  }
  EXPECT_EQ(compile::names_in(cache_).size(), 4u);
}

TEST_F(PackedWeightsTest, a_changed_checkpoint_is_read_although_size_and_time_are_the_same) {
  EXPECT_TRUE(start(want(), args()).starts_with("wrote "));
  const fs::path file = model_ / "model.safetensors";
  const fs::file_time_type time = fs::last_write_time(file);
  std::string bytes = compile::read_bytes(file);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  compile::write_bytes(file, bytes);
  fs::last_write_time(file, time);
  EXPECT_TRUE(start(want(), args()).starts_with("wrote "));
  EXPECT_TRUE(start(want(), args()).starts_with("mapped "));
  EXPECT_EQ(compile::names_in(cache_).size(), 1u) << "the old copy is replaced";
}

TEST_F(PackedWeightsTest, a_damaged_copy_gives_a_warning_and_is_written_again) {
  const std::string weights = want();
  EXPECT_TRUE(start(weights, args()).starts_with("wrote "));
  const fs::path file = cache_ / compile::names_in(cache_)[0];
  std::string bytes = compile::read_bytes(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  compile::write_bytes(file, bytes);
  EXPECT_TRUE(start(weights, args()).starts_with("wrote "));
  EXPECT_TRUE(has_warning("is damaged"));
  EXPECT_TRUE(start(weights, args()).starts_with("mapped "));
}

TEST_F(PackedWeightsTest, a_folder_that_cannot_be_written_gives_a_warning_and_the_engine_starts) {
  EngineArgs wrong = args();
  wrong.packed_weights_cache = (model_ / "config.json" / "folder").string();
  EXPECT_EQ(start(want(), wrong), "not written");
  EXPECT_TRUE(has_warning("Not a directory"));
}

TEST_F(PackedWeightsTest, mapped_weights_are_read_again_after_a_deep_sleep) {
  const std::string old_weights = want();
  EXPECT_TRUE(start(old_weights, args()).starts_with("wrote "));
  const auto engine = load_engine(args());
  ASSERT_TRUE(engine->report.packed_weights.starts_with("mapped "));
  const fs::path file = model_ / "model.safetensors";
  std::string bytes = compile::read_bytes(file);
  for (size_t i = bytes.size() - 64; i < bytes.size(); i += 2) bytes[i] = 1;
  compile::write_bytes(file, bytes);
  const std::string new_weights = want();
  ASSERT_FALSE(old_weights == new_weights);
  for (int sleep = 0; sleep < 2; ++sleep) {
    engine->sleep(SleepLevel::discard);
    engine->wake_up(EngineParts::all());
    EXPECT_TRUE(weights_of(*engine) == new_weights) << sleep;
  }
}

TEST_F(PackedWeightsTest, made_up_weights_are_not_kept) {
  EngineArgs dummy = args();
  dummy.load_format = LoadFormat::dummy;
  const auto engine = load_engine(dummy);
  EXPECT_EQ(engine->report.packed_weights, "");
  warnings_ = engine->report.warnings;
  EXPECT_TRUE(has_warning("--packed-weights-cache has no effect"));
  EXPECT_FALSE(fs::exists(cache_));
}

TEST(PackedWeightsFolder, is_none_a_folder_or_beside_the_compile_cache) {
  EXPECT_EQ(packed_weights_folder("none"), "");
  EXPECT_EQ(packed_weights_folder("/somewhere"), "/somewhere");
  EXPECT_EQ(packed_weights_folder("auto").filename(), "packed_weights");
  EXPECT_THROW((void)packed_weights_folder(""), InvalidArgument);
}

TEST(WeightFileKey, knows_all_parts_of_a_split_file_and_nothing_else) {
  const TemporaryFolder folder;
  for (const char* name : {"m-00001-of-00002.gguf",
                           "m-00002-of-00002.gguf",
                           "m-00001-of-00003.gguf",
                           "n-00001-of-00002.gguf",
                           "m.gguf",
                           "a.safetensors",
                           "config.json",
                           "x"}) {
    std::ofstream(folder.path() / name) << name;
  }
  const auto names = [&](const char* model) {
    std::vector<std::string> found;
    for (const fs::path& file : weight_files_of(folder.path() / model)) {
      found.push_back(file.filename().string());
    }
    return found;
  };
  EXPECT_EQ(names("m-00001-of-00002.gguf"),
            (std::vector<std::string>{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}));
  EXPECT_EQ(names("m.gguf"), std::vector<std::string>{"m.gguf"});
  EXPECT_EQ(names(""), (std::vector<std::string>{"a.safetensors", "config.json"}));
}

TEST(WeightFileKey, samples_files_of_any_length_and_sees_a_replaced_file) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "weights";
  for (const size_t bytes : {0, 1, 4'095, 4'096, 4'097, 8'192, 3'000'001}) {
    std::ofstream(file) << std::string(bytes, 'a');
    const std::string stamp = stamp_of(file);
    EXPECT_EQ(stamp_of(file), stamp) << bytes;
    if (bytes == 0) continue;
    std::string other(bytes, 'a');
    other.back() = 'b';
    std::ofstream(file) << other;
    const auto digest = [](const std::string& text) { return text.substr(text.rfind(' ')); };
    EXPECT_NE(digest(stamp_of(file)), digest(stamp)) << bytes;
  }
}

}  // namespace
}  // namespace reprise::api
