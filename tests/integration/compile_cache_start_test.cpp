#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "reprise/api/llm.h"
#include "reprise/compile/model/model_cache_key.h"
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

// This test is first in the file, so that no earlier test has loaded LLVM into the process.
TEST_F(CompileCacheStart, warm_neither_traces_nor_maps_LLVM) {
  const pid_t child = fork();
  if (child == 0) {
    LLM cold(arguments());
    const compile::CompilationReport& report = cold.startup_report().compilation;
    const bool is_cold = report.counter.num_graphs_seen == 1 && report.cache_saved == "saved";
    // If code was generated, LLVM must have generated it; otherwise the check below would mean
    // nothing.
    const bool has_llvm = report.counter.num_generated_kernels == 0 || is_mapped("libLLVM");
    _exit(is_cold && has_llvm ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0) << "the cold start did not trace, generate and save";

  LLM warm(arguments());
  const compile::CompilationReport& report = warm.startup_report().compilation;
  EXPECT_EQ(report.cache_outcome, "hit");
  EXPECT_EQ(report.counter.num_compiled_artifacts_loaded, 1U);
  EXPECT_EQ(report.counter.num_graphs_seen, 0U);
  EXPECT_EQ(report.counter.num_backend_compilations, 0U);
  EXPECT_EQ(report.counter.num_compiled_artifacts_saved, 0U);
  EXPECT_FALSE(is_mapped("libLLVM"));
  EXPECT_EQ(answer(warm), expected());
  std::cout << "[measured] warm start: program from the cache in "
            << 1000 * report.seconds.cache_load << " ms\n";
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
      // The entry was repaired: the same name may hold other bytes now, and the next start finds
      // them.
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

// ---- the key

class CompileCacheKey : public ::testing::Test {
 protected:
  CompileCacheKey() {
    options_.isa = kernels::Isa::avx2;
    options_.max_model_len = 128;
    options_.model.hidden_size = 64;
    options_.model.num_hidden_layers = 2;
    options_.model.layer_types.resize(2);
    options_.resolved.compilation_mode = config::CompilationMode::VLLM_COMPILE;
    options_.resolved.splitting_ops = {"attention"};
  }
  [[nodiscard]] std::string key() const { return compile::model_cache_key(options_).text(); }

  compile::ModelCompilerOptions options_;
};

TEST_F(CompileCacheKey, changes_with_all_that_decides_the_program) {
  struct Open : CompileCacheKey {
    using CompileCacheKey::options_, CompileCacheKey::key;
    void TestBody() override {}
  };
  const std::vector<std::pair<const char*, void (*)(Open&)>> decides = {
      {"architecture",
       [](Open& k) { k.options_.model.architecture = weights::Architecture::qwen3; }},
      {"hidden_size", [](Open& k) { k.options_.model.hidden_size = 128; }},
      {"intermediate_size", [](Open& k) { k.options_.model.intermediate_size = 128; }},
      {"layers",
       [](Open& k) {
         k.options_.model.num_hidden_layers = 3;
         k.options_.model.layer_types.resize(3);
       }},
      {"heads", [](Open& k) { k.options_.model.num_attention_heads = 8; }},
      {"kv heads", [](Open& k) { k.options_.model.num_key_value_heads = 8; }},
      {"head_dim", [](Open& k) { k.options_.model.head_dim = 32; }},
      {"vocab", [](Open& k) { k.options_.model.vocab_size = 1000; }},
      {"epsilon", [](Open& k) { k.options_.model.norm_eps = 1e-5; }},
      {"tied", [](Open& k) { k.options_.model.tie_word_embeddings = true; }},
      {"qkv bias", [](Open& k) { k.options_.model.qkv_bias = true; }},
      {"o bias", [](Open& k) { k.options_.model.o_bias = true; }},
      {"mlp bias", [](Open& k) { k.options_.model.mlp_bias = true; }},
      {"qk norm", [](Open& k) { k.options_.model.qk_norm = weights::QkNorm::per_head; }},
      {"norm", [](Open& k) { k.options_.model.norm = weights::NormType::layer_norm; }},
      {"norm bias", [](Open& k) { k.options_.model.norm_bias = true; }},
      {"activation", [](Open& k) { k.options_.model.activation = weights::Activation::gelu; }},
      {"gate", [](Open& k) { k.options_.model.has_gated_mlp = false; }},
      {"parallel residual", [](Open& k) { k.options_.model.has_parallel_residual = true; }},
      {"parallel norms", [](Open& k) { k.options_.model.has_parallel_norms = true; }},
      {"learned positions", [](Open& k) { k.options_.model.has_learned_positions = true; }},
      {"no rotation", [](Open& k) { k.options_.model.rope.type = weights::RopeType::none; }},
      {"sliding rope", [](Open& k) { k.options_.model.sliding_rope.emplace(); }},
      {"attention scale", [](Open& k) { k.options_.model.attention_scale = 0.5; }},
      {"attention soft cap", [](Open& k) { k.options_.model.attention_soft_cap = 50; }},
      {"embedding scale", [](Open& k) { k.options_.model.embedding_scale = 2; }},
      {"residual scale", [](Open& k) { k.options_.model.residual_scale = 2; }},
      {"logits scale", [](Open& k) { k.options_.model.logits_scale = 2; }},
      {"KV cache", [](Open& k) { k.options_.kv_cache = "fp8"; }},
      {"logits soft cap", [](Open& k) { k.options_.model.logits_soft_cap = 30; }},
      {"experts",
       [](Open& k) {
         k.options_.model.moe.emplace();
         k.options_.model.moe_layers.assign(k.options_.model.layer_types.size(), true);
       }},
      {"window",
       [](Open& k) {
         k.options_.model.sliding_window = 16;
         k.options_.model.layer_types[1] = weights::LayerType::sliding_attention;
       }},
      {"dtype", [](Open& k) { k.options_.dtype = DType::f32; }},
      {"packed weights", [](Open& k) { k.options_.packed_weights = "down_proj:34"; }},
      {"isa", [](Open& k) { k.options_.isa = kernels::Isa::avx512; }},
      {"max_model_len", [](Open& k) { k.options_.max_model_len = 256; }},
      {"block_size", [](Open& k) { k.options_.block_size = 32; }},
      {"level",
       [](Open& k) {
         k.options_.resolved.compilation_mode = config::CompilationMode::DYNAMO_TRACE_ONCE;
       }},
      {"splitting_ops",
       [](Open& k) { k.options_.resolved.splitting_ops = {"attention", "kv_write"}; }},
      {"partition", [](Open& k) { k.options_.asked.use_inductor_graph_partition = true; }},
      {"a pass", [](Open& k) { k.options_.resolved.pass_config.fuse_rope_kvcache = true; }},
      {"no-op pass", [](Open& k) { k.options_.resolved.pass_config.eliminate_noops = false; }},
      {"ranges", [](Open& k) { k.options_.asked.compile_ranges_endpoints = {8}; }},
      {"compile sizes", [](Open& k) { k.options_.resolved.compile_sizes = {8}; }},
  };
  std::set<std::string> keys = {key()};
  for (const auto& [name, mutate] : decides) {
    Open changed;
    mutate(changed);
    EXPECT_TRUE(keys.insert(changed.key()).second) << name;
  }
  const std::vector<std::pair<const char*, void (*)(Open&)>> does_not = {
      {"rope base", [](Open& k) { k.options_.model.rope.theta = 5e5; }},
      {"trained positions", [](Open& k) { k.options_.model.max_position_embeddings = 9999; }},
      {"end of text", [](Open& k) { k.options_.model.eos_token_ids = {1, 2}; }},
      {"capture sizes", [](Open& k) { k.options_.asked.cudagraph_capture_sizes = {1, 2, 4}; }},
      {"graph mode", [](Open& k) { k.options_.resolved.mode = cudagraph::CudagraphMode::FULL; }},
      {"dump", [](Open& k) { k.options_.asked.debug_dump_path = "somewhere"; }},
      {"cache place", [](Open& k) { k.options_.cache_root = "somewhere"; }},
  };
  for (const auto& [name, mutate] : does_not) {
    Open changed;
    mutate(changed);
    EXPECT_EQ(changed.key(), key()) << name;
  }
}

}  // namespace
}  // namespace reprise
