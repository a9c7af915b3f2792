// Compares resolution, capture sizes, keys and dispatch under `capture_size_rule: vllm` with the
// answers of the real vLLM, which vllm_oracle.py has recorded.
//
//   vllm_oracle_test [gtest options] [CASES.jsonl]     without a file: the committed answers

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/config/resolution.h"
#include "reprise/config/splitting_ops.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "tests/support/source_dir.h"

namespace reprise::config {
namespace {

std::string g_cases_file;

using Answer = std::map<std::string, std::string>;  // what -> printed value

std::optional<int32_t> number_or_nothing(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<int32_t>(value.get<int32_t>());
}

cudagraph::AttentionCGSupport support_of(std::string_view name) {
  using enum cudagraph::AttentionCGSupport;
  for (const auto support : {NEVER, UNIFORM_SINGLE_TOKEN_DECODE, UNIFORM_BATCH, ALWAYS}) {
    if (to_string(support) == name) return support;
  }
  throw InvalidArgument(fmt::format("support: '{}' is unknown", name));
}

ResolutionInputs inputs_of(const Json& given) {
  ResolutionInputs inputs;
  CompilationConfig& compilation = inputs.compilation;
  compilation.capture_size_rule = cudagraph::CaptureSizeRule::vllm;
  if (const auto mode = number_or_nothing(given.at("mode"))) {
    compilation.mode = static_cast<CompilationMode>(*mode);
  }
  if (!given.at("cudagraph_mode").is_null()) {
    compilation.cudagraph_mode =
        cudagraph::parse_cudagraph_mode(given.at("cudagraph_mode").get<std::string>());
  }
  if (!given.at("cudagraph_capture_sizes").is_null()) {
    compilation.cudagraph_capture_sizes =
        given.at("cudagraph_capture_sizes").get<std::vector<int32_t>>();
  }
  compilation.max_cudagraph_capture_size =
      number_or_nothing(given.at("max_cudagraph_capture_size"));
  if (given.at("splitting_ops") == "attention") {
    compilation.splitting_ops.emplace(attention_ops().begin(), attention_ops().end());
  } else if (given.at("splitting_ops") == "empty") {
    compilation.splitting_ops.emplace();
  }
  compilation.use_inductor_graph_partition = given.at("use_inductor_graph_partition").get<bool>();
  compilation.pass_config.fuse_attn_quant = given.at("fuse_attn_quant").get<bool>();
  compilation.cudagraph_specialize_lora = given.at("cudagraph_specialize_lora").get<bool>();
  inputs.optimization_level =
      static_cast<OptimizationLevel>(given.at("optimization_level").get<int>());
  inputs.enforce_eager = given.at("enforce_eager").get<bool>();
  inputs.breakable = given.at("breakable").get<bool>();
  inputs.pooling = given.at("pooling").get<bool>();
  inputs.encoder_decoder = given.at("encoder_decoder").get<bool>();
  inputs.attention = {{"the backend", support_of(given.at("support").get<std::string>())}};
  inputs.num_speculative_tokens = given.at("num_speculative_tokens").get<int32_t>();
  inputs.max_num_seqs = given.at("max_num_seqs").get<int32_t>();
  inputs.max_num_batched_tokens = given.at("max_num_batched_tokens").get<int32_t>();
  inputs.performance_mode = given.at("performance_mode") == "interactivity"
                                ? cudagraph::PerformanceMode::interactivity
                                : cudagraph::PerformanceMode::balanced;
  inputs.lora = {.max_loras = given.at("max_loras").get<int32_t>(),
                 .specialize_active_lora = given.at("specialize_active_lora").get<bool>()};
  return inputs;
}

// Describes a key or a decision in the format of vllm_oracle.py.
std::string described(cudagraph::CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& key) {
  if (mode == cudagraph::CudagraphRuntimeMode::NONE) {
    return fmt::format("[\"NONE\",{},0,false,0]", key.num_tokens);
  }
  return fmt::format("[\"{}\",{},{},{},{}]",
                     to_string(mode),
                     key.num_tokens,
                     key.num_reqs.value_or(0),
                     key.uniform,
                     key.num_active_loras);
}

std::string joined(std::vector<std::string> parts) {
  std::sort(parts.begin(), parts.end());
  return fmt::format("[{}]", fmt::join(parts, ","));
}

Answer answer_of_reprise(const Json& given) {
  const ResolutionInputs inputs = inputs_of(given);
  cudagraph::CudagraphDispatcher dispatcher;
  ResolvedConfig resolved;
  try {
    resolved = resolve(inputs);
    dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
  } catch (const InvalidArgument&) {
    return {{"error", "yes"}};
  }
  dispatcher.mark_all_captured();
  Answer answer = {{"mode", std::string(to_string(resolved.mode))}};
  answer["capture_sizes"] = resolved.mode == cudagraph::CudagraphMode::NONE
                                ? "[]"
                                : fmt::format("[{}]", fmt::join(resolved.capture_sizes.mixed, ","));
  std::vector<std::string> keys;
  for (const auto& group : dispatcher.capture_plan()) {
    for (const auto& key : group.descriptors) keys.push_back(described(group.mode, key));
  }
  answer["keys"] = joined(std::move(keys));
  int number = 0;
  for (const Json& batch : given.at("batches")) {
    const cudagraph::Decision decision =
        dispatcher.dispatch({.num_tokens = batch.at("num_tokens").get<int32_t>(),
                             .num_reqs = batch.at("num_reqs").get<int32_t>(),
                             .uniform = batch.at("uniform").get<bool>(),
                             .num_active_loras = batch.at("num_active_loras").get<int32_t>()});
    answer[fmt::format("decision {}", number++)] = described(decision.mode, decision.descriptor);
  }
  return answer;
}

Answer answer_of_vllm(const Json& given) {
  const Json& recorded = given.at("answer");
  if (recorded.contains("error")) return {{"error", "yes"}};
  Answer answer = {{"mode", recorded.at("mode").get<std::string>()},
                   {"capture_sizes", recorded.at("capture_sizes").dump()}};
  std::vector<std::string> keys;
  for (const Json& key : recorded.at("keys")) keys.push_back(key.dump());
  answer["keys"] = joined(std::move(keys));
  int number = 0;
  for (const Json& decision : recorded.at("decisions")) {
    answer[fmt::format("decision {}", number++)] = decision.dump();
  }
  return answer;
}

/// The reason why Reprise's answer to a configuration may differ from vLLM's; empty: it must not.
std::string_view reason_to_differ(const Json& given) {
  if (given.at("splitting_ops") == "one") {
    return "vLLM lets a captured piece hold an attention op, which fixes the number of requests in "
           "the graph; Reprise drops the PIECEWISE graphs instead (rule R1)";
  }
  if (given.at("splitting_ops") == "empty" && given.at("breakable").get<bool>()) {
    return "vLLM's breakable capture is interrupted where its model code says so; Reprise's is "
           "interrupted at splitting_ops, so an empty list leaves no PIECEWISE graphs (rule B5)";
  }
  if (given.at("splitting_ops") == "empty" && given.at("fuse_attn_quant").get<bool>()) {
    return "vLLM keeps PIECEWISE for a model that is not split; Reprise captures FULL (rule B5)";
  }
  return {};
}

TEST(VllmOracle, resolution_sizes_keys_and_dispatch_are_those_of_the_real_vllm) {
  std::ifstream file(g_cases_file);
  ASSERT_TRUE(file) << g_cases_file << ": cannot be read";
  int cases = 0;
  int decisions = 0;
  int meant = 0;
  int different = 0;
  for (std::string line; std::getline(file, line);) {
    const Json given = parse_json(line, "case");
    ++cases;
    const Answer expected = answer_of_vllm(given);
    const Answer got = answer_of_reprise(given);
    decisions += static_cast<int>(given.at("batches").size());
    if (expected == got) continue;
    if (!reason_to_differ(given).empty()) {
      ++meant;
      continue;
    }
    if (++different > 20) continue;
    std::string text;
    for (const auto& [what, value] : expected) {
      const auto ours = got.find(what);
      if (ours != got.end() && ours->second == value) continue;
      text += fmt::format(
          "\n  {}: vLLM {}, Reprise {}", what, value, ours == got.end() ? "-" : ours->second);
    }
    for (const auto& [what, value] : got) {
      if (!expected.contains(what)) text += fmt::format("\n  {}: Reprise {}", what, value);
    }
    Json shown = given;
    shown.erase("answer");
    shown.erase("batches");
    ADD_FAILURE() << shown.dump() << text.substr(0, 1500);
  }
  EXPECT_EQ(different, 0);
  EXPECT_GT(cases, 0);
  fmt::print("{} configurations, {} batches: {} differ, {} differ for a listed reason\n",
             cases,
             decisions,
             different,
             meant);
}

}  // namespace
}  // namespace reprise::config

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  reprise::config::g_cases_file =
      argc > 1 ? argv[1] : reprise::source_dir() + "/tests/oracle/vllm-0.32.jsonl";
  return RUN_ALL_TESTS();
}
