#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "reprise/api/llm.h"
#include "reprise/device/cpu/cpu_features.h"
#include "tests/support/source_dir.h"

// Engines that start with a compile cache, without one, and with a damaged one. Their answers must
// never depend on the cache. Crashes and races of the cache itself are tested in
// src/reprise/compile/cache.
namespace reprise {
namespace {

namespace fs = std::filesystem;
using api::EngineArgs;
using api::LLM;

const std::vector<std::string> kPrompts = {"Tom has 3 apples", "7"};

class CompileCacheStart : public ::testing::Test {
 protected:
  CompileCacheStart() {
    std::string name = (fs::temp_directory_path() / "reprise-cache-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~CompileCacheStart() override { fs::remove_all(root_); }

  [[nodiscard]] EngineArgs arguments() const {
    EngineArgs args;
    args.model = fs::path(source_dir()) / "models/reprise-tiny";
    args.max_num_seqs = 4;
    args.max_num_batched_tokens = 32;
    args.max_model_len = 128;
    args.num_threads = 1;
    args.compile_cache_root = root_ / "cache";
    args.compilation_config = {{"cudagraph_capture_sizes", {1, 2}}};
    return args;
  }
  static std::vector<std::vector<int32_t>> answer(LLM& llm) {
    std::vector<std::vector<int32_t>> tokens;
    for (const api::RequestOutput& output :
         llm.generate(kPrompts, {.temperature = 0, .max_tokens = 6, .ignore_eos = true})) {
      tokens.push_back(output.output.token_ids);
    }
    return tokens;
  }
  [[nodiscard]] std::vector<std::vector<int32_t>> expected() const {
    EngineArgs args = arguments();
    args.compilation_config = {{"mode", 0}};
    LLM llm(args);
    return answer(llm);
  }
  [[nodiscard]] std::vector<fs::path> cached_files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / "cache")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  [[nodiscard]] std::map<fs::path, std::string> bytes_of_cache() const {
    std::map<fs::path, std::string> bytes;
    for (const fs::path& file : cached_files()) bytes.emplace(file, read(file));
    return bytes;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  fs::path root_;
};

bool is_mapped(const char* library) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find(library) != std::string::npos) return true;
  }
  return false;
}

// This test is first in the file, so that no earlier test has loaded the plug-in with LLVM into the
// process.
TEST_F(CompileCacheStart, warm_compiles_nothing_and_does_not_load_LLVM) {
  const pid_t child = fork();
  if (child == 0) {
    LLM cold(arguments());
    const compile::CompilationReport& report = cold.startup_report().compilation;
    const bool is_cold = report.counter.num_graphs_seen == 1 && report.cache_saved == "saved";
    // If code was generated, LLVM must have generated it; otherwise the check below would mean
    // nothing.
    const bool has_llvm =
        report.counter.num_generated_kernels == 0 || is_mapped("reprise_codegen_llvm");
    _exit(is_cold && has_llvm ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0) << "the cold start did not compile, generate and save";

  const auto saved = bytes_of_cache();
  LLM warm(arguments());
  const compile::CompilationReport& report = warm.startup_report().compilation;
  EXPECT_EQ(report.cache_outcome, "hit");
  EXPECT_EQ(report.counter.num_compiled_artifacts_loaded, 1U);
  EXPECT_EQ(report.counter.num_graphs_seen, 0U);
  EXPECT_EQ(report.counter.num_backend_compilations, 0U);
  EXPECT_EQ(report.counter.num_compiled_artifacts_saved, 0U);
  EXPECT_FALSE(is_mapped("reprise_codegen_llvm"));
  EXPECT_EQ(bytes_of_cache(), saved) << "the warm start wrote other code";
  EXPECT_EQ(answer(warm), expected());
  std::cout << "[measured] warm start: traced in " << 1000 * report.seconds.trace
            << " ms, program from the cache in " << 1000 * report.seconds.cache_load << " ms\n";
}

TEST_F(CompileCacheStart, off_compiles_anew_and_leaves_nothing) {
  EngineArgs args = arguments();
  args.disable_compile_cache = true;
  for (int start = 0; start < 2; ++start) {
    LLM llm(args);
    EXPECT_EQ(llm.startup_report().compilation.counter.num_graphs_seen, 1U);
    EXPECT_EQ(llm.startup_report().compilation.counter.num_compiled_artifacts_saved, 0U);
    EXPECT_EQ(answer(llm), expected());
  }
  EXPECT_FALSE(fs::exists(root_ / "cache"));
}

TEST_F(CompileCacheStart, lies_where_cache_dir_says) {
  EngineArgs args = arguments();
  args.compilation_config["cache_dir"] = (root_ / "mine").string();
  for (uint64_t hits : {0U, 1U}) {
    LLM llm(args);
    EXPECT_EQ(llm.startup_report().compilation.counter.num_compiled_artifacts_loaded, hits);
  }
  EXPECT_TRUE(fs::exists(root_ / "mine/rank_0/manifest.json"));
}

TEST_F(CompileCacheStart, survives_every_cut) {
  const auto want = expected();
  {
    LLM cold(arguments());
  }
  for (const fs::path& file : cached_files()) {
    const std::string bytes = read(file);
    for (size_t sixteenth = 0; sixteenth < 16; ++sixteenth) {
      SCOPED_TRACE(file.filename().string() + " cut at " + std::to_string(sixteenth) + "/16");
      write(file, bytes.substr(0, bytes.size() * sixteenth / 16));
      LLM llm(arguments());
      EXPECT_EQ(llm.startup_report().compilation.counter.num_compiled_artifacts_loaded, 0U);
      EXPECT_EQ(answer(llm), want);
      // The entry was repaired: a file may now have other bytes under the same name, and the next
      // start finds them.
      LLM again(arguments());
      EXPECT_EQ(again.startup_report().compilation.counter.num_compiled_artifacts_loaded, 1U);
    }
    if (HasFailure()) return;
  }
}

TEST_F(CompileCacheStart, survives_256_flipped_bits) {
  const auto want = expected();
  {
    LLM cold(arguments());
  }
  std::mt19937 random(17);
  for (int flip = 0; flip < 256; ++flip) {
    const std::vector<fs::path> files = cached_files();
    const fs::path& file = files[random() % files.size()];
    std::string bytes = read(file);
    const size_t bit = random() % (bytes.size() * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    write(file, bytes);
    LLM llm(arguments());
    ASSERT_EQ(answer(llm), want) << file.filename() << ", bit " << bit;
    // Copies in quarantine accumulate up to the cache's limit; only the live entry is damaged.
    for (const auto& entry : fs::directory_iterator(root_ / "cache")) {
      for (const auto& inner : fs::directory_iterator(entry.path())) {
        if (inner.path().filename() != "rank_0") fs::remove_all(inner.path());
      }
    }
  }
}

TEST_F(CompileCacheStart, does_without_a_place_to_write) {
  const auto want = expected();
  const auto expect_start = [&](const char* what) {
    LLM llm(arguments());
    const compile::CompilationReport& report = llm.startup_report().compilation;
    EXPECT_EQ(answer(llm), want) << what;
    EXPECT_EQ(report.counter.num_compiled_artifacts_saved, 0U) << what;
    EXPECT_NE(report.cache_saved, "") << what;
  };
  write(root_ / "cache", "a file where the folder should be");
  expect_start("a file");
  fs::remove(root_ / "cache");
  fs::create_directory(root_ / "cache");
  chmod((root_ / "cache").c_str(), 0777);
  expect_start("open to others");
  chmod((root_ / "cache").c_str(), 0700);
  if (geteuid() == 0) {
    ASSERT_EQ(chown((root_ / "cache").c_str(), 65534, 65534), 0);
    expect_start("somebody else's");
  }
}

}  // namespace
}  // namespace reprise
