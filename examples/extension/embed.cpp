// An engine inside your program, with an op, a pass and a compiler of your own.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "extension/clip_extension.h"
#include "reprise/api/llm.h"

using namespace reprise;

namespace {

struct Answer {
  std::vector<int32_t> token_ids;
  api::StartupReport report;
};

Answer answer(const api::EngineArgs& args) {
  api::LLM llm(args);
  const std::vector<std::string> prompts = {"Once upon a time"};
  const auto outputs = llm.generate(prompts, {.temperature = 0, .max_tokens = 16});
  return {outputs.front().output.token_ids, llm.startup_report()};
}

size_t num_clips(const api::StartupReport& report) {
  size_t clips = 0;
  for (const auto& passes : report.compilation.pass_reports) {
    clips += passes.num_matches("clip_residuals");
  }
  return clips;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto cache = std::filesystem::temp_directory_path() / "reprise-example-extension";
  std::filesystem::remove_all(cache);
  api::EngineArgs args;
  args.model = argv[1];
  args.device = "cpu";
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 64;
  args.compile_cache_root = cache;
  const Answer plain = answer(args);

  auto extensions = std::make_shared<compile::Extensions>();
  example::add_clip_extension(*extensions);
  args.extensions = extensions;
  // The pass runs before the program is split, so that it can be split at the op.
  args.compilation_config = {
      {"inductor_passes", {{"pre_grad_custom_pass", "clip_residuals"}}},
      {"splitting_ops", {"vllm::unified_attention_with_output", "example::clip"}},
      {"backend", "kept_files"}};
  const Answer first = answer(args);
  const Answer second = answer(args);  // starts from the cache: nothing is compiled
  // Inside the pieces, after the passes of the engine, the op finds fewer sums.
  args.compilation_config = {
      {"inductor_passes", {{"post_grad_custom_pre_pass", "clip_residuals"}}}};
  const Answer inside = answer(args);
  args.compilation_config["inductor_passes"] = {{"pre_grad_custom_pass", "clip_residuals_hard"}};
  const Answer hard = answer(args);
  std::filesystem::remove_all(cache);

  const auto& counts = first.report.compilation.counter;
  std::printf("plain: %zu pieces; with clips: %zu pieces, backend %s\n",
              plain.report.compilation.counter.num_piecewise_graphs_seen,
              counts.num_piecewise_graphs_seen,
              first.report.compilation.backend.c_str());
  std::printf("second start: %s; clips inside the pieces: %zu\n",
              second.report.compilation.cache_outcome.c_str(),
              num_clips(inside.report));
  const bool is_split =
      counts.num_piecewise_graphs_seen > plain.report.compilation.counter.num_piecewise_graphs_seen;
  const bool is_cached = second.report.compilation.cache_outcome == "hit";
  const bool is_same = first.token_ids == plain.token_ids && second.token_ids == plain.token_ids &&
                       inside.token_ids == plain.token_ids;
  const bool is_seen = hard.token_ids != plain.token_ids && num_clips(inside.report) > 0;
  std::printf("split %d, cached %d, same tokens %d, hard clips change them %d\n",
              is_split,
              is_cached,
              is_same,
              is_seen);
  return is_split && is_cached && is_same && is_seen ? 0 : 1;
}
