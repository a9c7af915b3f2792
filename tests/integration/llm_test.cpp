#include "reprise/api/llm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kernels/isa.h"
#include "reprise/runner/model_runner.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/integration/allocation_count.h"
#include "tests/support/source_dir.h"

// The bundled model through the public API. The tests contain none of the model's answers, because
// the model may be trained again; every check holds for any text.
namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using api::RequestOutput;
using ::testing::HasSubstr;

constexpr std::array kModes = {
    "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"};

const std::vector<std::string> kPrompts = {
    "Tom has 3 apples and buys 4 more. How many apples does Tom have?",
    "The little fox",
    "Once upon a time there was a small boat that could not find its way home, and so it asked",
    "7",
    "Anna bakes 5 trays of 6 rolls. She gives 8 to Ben. How many rolls does Anna have left?"};

EngineArgs arguments(const std::string& mode = "FULL_AND_PIECEWISE") {
  EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  // Small limits give fewer and smaller graphs, and prompts that must be cut.
  args.max_num_seqs = 8;
  args.max_num_batched_tokens = 64;
  args.max_model_len = 256;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", mode}};
  return args;
}

sampling::SamplingParams greedy(int max_tokens = 24) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
}

std::vector<std::vector<int32_t>> tokens_of(const std::vector<RequestOutput>& results) {
  std::vector<std::vector<int32_t>> tokens;
  for (const RequestOutput& result : results) tokens.push_back(result.output.token_ids);
  return tokens;
}

std::vector<std::vector<int32_t>> generate(const EngineArgs& args,
                                           const sampling::SamplingParams& params = greedy()) {
  LLM llm(args);
  return tokens_of(llm.generate(kPrompts, params));
}

template <typename Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "(not refused)";
}

TEST(Llm, gives_the_same_greedy_tokens_in_all_five_modes_on_every_isa) {
  for (kernels::Isa isa : kernels::supported_isas(device::detect_cpu_features())) {
    std::vector<std::vector<int32_t>> expected;
    for (const char* mode : kModes) {
      EngineArgs args = arguments(mode);
      args.cpu_isa = kernels::isa_name(isa);
      const std::vector<std::vector<int32_t>> tokens = generate(args);
      if (expected.empty()) expected = tokens;
      EXPECT_EQ(tokens, expected) << kernels::isa_name(isa) << ", " << mode;
    }
    for (const std::vector<int32_t>& tokens : expected) EXPECT_EQ(tokens.size(), 24U);
  }
}

// --- launches
// -----------------------------------------------------------------------------------------

struct Launches {
  uint64_t graphs;
  uint64_t kernels;
};

Launches decode_launches(LLM& llm) {
  (void)llm.generate(std::vector<std::string>{kPrompts[0]}, greedy(8));
  const runner::StepLaunches launches = llm.loaded().runner->last_decode_launches();
  return {launches.graphs, launches.kernels};
}

uint64_t num_layers(LLM& llm) {
  return static_cast<uint64_t>(llm.loaded().runner->kv_cache().layout().num_layers);
}

TEST(LaunchesPerDecodeStep, are_one_graph_and_nothing_else_when_the_mode_has_full_decode_graphs) {
  for (const char* mode : {"FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
    LLM llm(arguments(mode));
    const Launches launches = decode_launches(llm);
    EXPECT_EQ(launches.graphs, 1U) << mode;
    EXPECT_EQ(launches.kernels, 0U) << mode;
  }
}

TEST(LaunchesPerDecodeStep, are_a_graph_per_piece_and_an_attention_per_layer_in_piecewise) {
  LLM llm(arguments("PIECEWISE"));
  const Launches launches = decode_launches(llm);
  EXPECT_EQ(launches.graphs, num_layers(llm) + 1);
  EXPECT_EQ(launches.kernels, num_layers(llm));
}

TEST(LaunchesPerDecodeStep, are_in_none_as_many_kernels_as_a_full_graph_has_nodes) {
  LLM full(arguments("FULL"));
  const cudagraph::BatchFacts one{.num_tokens = 1, .num_reqs = 1, .uniform = true};
  const size_t nodes = full.loaded().runner->full_wrapper().num_nodes(
      full.loaded().runner->dispatcher().dispatch(one).descriptor);
  LLM none(arguments("NONE"));
  const Launches launches = decode_launches(none);
  EXPECT_EQ(launches.graphs, 0U);
  EXPECT_EQ(launches.kernels, nodes);
  EXPECT_GT(nodes, 3 * num_layers(none));
  fmt::print("[measured] launches per decode step: FULL 1, PIECEWISE {}, NONE {}\n",
             2 * num_layers(none) + 1,
             launches.kernels);
}

TEST(LaunchesPerDecodeStep, do_not_grow_with_the_batch) {
  LLM llm(arguments("FULL_AND_PIECEWISE"));
  (void)llm.generate(kPrompts, greedy(8));
  EXPECT_EQ(llm.loaded().runner->last_decode_launches().total(), 1U);
}

// --- batches
// ------------------------------------------------------------------------------------------

class BatchInvariance : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchInvariance, prompts_answered_together_get_the_tokens_each_gets_alone) {
  sampling::SamplingParams sampled = greedy();
  sampled.temperature = 0.9F;
  sampled.top_p = 0.95F;
  sampled.top_k = 40;
  sampled.seed = 1234;
  LLM llm(arguments(GetParam()));
  for (const sampling::SamplingParams& params : {greedy(), sampled}) {
    const auto together = tokens_of(llm.generate(kPrompts, params));
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      const auto alone = tokens_of(llm.generate(std::vector<std::string>{kPrompts[i]}, params));
      EXPECT_EQ(alone[0], together[i])
          << "prompt " << i << (params.is_greedy() ? ", greedy" : ", sampled");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         BatchInvariance,
                         ::testing::ValuesIn(kModes),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(Llm, gives_the_same_tokens_when_a_small_cache_preempts_requests) {
  const auto expected = generate(arguments(), greedy(60));
  EngineArgs small = arguments();
  // 17 usable blocks of 24 KiB: one request of 256 tokens fits, five of these do not.
  small.kv_cache_memory_bytes = 18 * 24576;
  LLM llm(small);
  EXPECT_EQ(llm.startup_report().num_kv_blocks, 18);
  EXPECT_EQ(tokens_of(llm.generate(kPrompts, greedy(60))), expected);
  EXPECT_GT(llm.loaded().core->scheduler().num_preemptions(), 0);
}

TEST(Llm, gives_the_same_tokens_with_and_without_chunked_prefill) {
  std::string story;
  for (int i = 0; i < 12; ++i) story += kPrompts[2] + " ";
  const std::vector<std::string> prompts = {story, kPrompts[0]};
  EngineArgs chunked = arguments();  // 64 tokens a step
  EngineArgs whole = arguments();
  whole.max_num_batched_tokens = 1024;
  whole.enable_chunked_prefill = false;
  chunked.max_model_len = whole.max_model_len = 1024;
  LLM a(chunked);
  LLM b(whole);
  const std::vector<RequestOutput> in_chunks = a.generate(prompts, greedy());
  EXPECT_GT(in_chunks[0].prompt_token_ids.size(), 3 * 64U) << "the prompt must have been cut";
  EXPECT_EQ(tokens_of(in_chunks), tokens_of(b.generate(prompts, greedy())));
}

// --- when a request ends
// --------------------------------------------------------------------------------

TEST(Llm, stops_at_max_tokens_and_says_length) {
  LLM llm(arguments());
  const auto results = llm.generate(kPrompts, greedy(5));
  for (const RequestOutput& result : results) {
    EXPECT_EQ(result.output.token_ids.size(), 5U);
    EXPECT_EQ(result.output.finish_reason, "length");
    EXPECT_EQ(result.metrics.num_output_tokens, 5);
  }
}

TEST(Llm, cuts_the_text_before_a_stop_string_and_names_it) {
  LLM llm(arguments());
  const std::vector<std::string> prompt = {kPrompts[0]};
  const std::string text = llm.generate(prompt, greedy(40))[0].output.text;
  ASSERT_GT(text.size(), 12U);
  const std::string stop = text.substr(text.size() / 2, 3);
  sampling::SamplingParams params = greedy(40);
  params.stop = {"never said by any model", stop};
  std::string streamed;
  const RequestOutput result = llm.generate(
      prompt, params, [&](const api::StreamDelta& delta) { streamed += delta.text; })[0];
  EXPECT_EQ(result.output.text, text.substr(0, text.find(stop)));
  EXPECT_EQ(streamed, result.output.text);
  EXPECT_EQ(result.output.finish_reason, "stop");
  EXPECT_EQ(std::get<std::string>(result.output.stop_reason), stop);

  params.include_stop_str_in_output = true;
  EXPECT_EQ(llm.generate(prompt, params)[0].output.text,
            text.substr(0, text.find(stop) + stop.size()));
}

TEST(Llm, ends_at_a_stop_token_but_not_before_min_tokens) {
  LLM llm(arguments());
  const std::vector<std::string> prompt = {kPrompts[0]};
  const std::vector<int32_t> tokens = llm.generate(prompt, greedy(20))[0].output.token_ids;
  sampling::SamplingParams params = greedy(20);
  params.stop_token_ids = {tokens[3]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[3]);
  const RequestOutput stopped = llm.generate(prompt, params)[0];
  EXPECT_EQ(stopped.output.token_ids.size(), static_cast<size_t>(first - tokens.begin()) + 1);
  EXPECT_EQ(stopped.output.finish_reason, "stop");
  EXPECT_EQ(std::get<int32_t>(stopped.output.stop_reason), tokens[3]);

  params.min_tokens = 12;
  const RequestOutput longer = llm.generate(prompt, params)[0];
  EXPECT_GE(longer.output.token_ids.size(), 12U);
  for (size_t i = 0; i < 12; ++i) EXPECT_NE(longer.output.token_ids[i], tokens[3]) << "token " << i;
}

TEST(Llm, streams_exactly_the_text_it_returns_for_every_prompt) {
  LLM llm(arguments());
  std::vector<std::string> streamed(kPrompts.size());
  std::vector<int> finished(kPrompts.size(), 0);
  const auto results = llm.generate(kPrompts, greedy(), [&](const api::StreamDelta& delta) {
    streamed[delta.prompt_index] += delta.text;
    finished[delta.prompt_index] += delta.finished ? 1 : 0;
  });
  for (size_t i = 0; i < kPrompts.size(); ++i) {
    EXPECT_EQ(streamed[i], results[i].output.text);
    EXPECT_EQ(finished[i], 1);
  }
}

// ---- refusals and options ----

TEST(Llm, refuses_a_prompt_that_leaves_no_room_with_both_numbers_and_stays_usable) {
  LLM llm(arguments());
  const std::vector<std::vector<int32_t>> prompts = {{5, 6}, std::vector<int32_t>(256, 5)};
  const std::string message = refusal([&] { (void)llm.generate_token_ids(prompts, greedy()); });
  EXPECT_THAT(message, HasSubstr("256"));
  EXPECT_THAT(message, HasSubstr("max_model_len"));
  EXPECT_FALSE(llm.loaded().core->has_unfinished_requests());
  EXPECT_EQ(llm.generate_token_ids(std::vector<std::vector<int32_t>>{std::vector<int32_t>(255, 5)},
                                   greedy())[0]
                .output.token_ids.size(),
            1U)
      << "one token fits after the longest prompt";
}

TEST(Llm, refuses_an_empty_prompt_and_a_token_outside_the_vocabulary) {
  LLM llm(arguments());
  EXPECT_THAT(refusal([&] {
                (void)llm.generate_token_ids(std::vector<std::vector<int32_t>>{{}}, greedy());
              }),
              HasSubstr("empty"));
  EXPECT_THAT(refusal([&] {
                (void)llm.generate_token_ids(std::vector<std::vector<int32_t>>{{1, 1 << 30}},
                                             greedy());
              }),
              HasSubstr(std::to_string(1 << 30)));
}

TEST(Llm, refuses_an_empty_stop_string_and_stays_usable) {
  LLM llm(arguments());
  const std::vector<std::vector<int32_t>> prompts = {{5, 6}};
  sampling::SamplingParams params = greedy();
  params.stop = {"a", ""};
  EXPECT_THAT(refusal([&] { (void)llm.generate_token_ids(prompts, params); }),
              HasSubstr("stop[1] is 0 bytes long"));
  EXPECT_FALSE(llm.loaded().core->has_unfinished_requests());
  EXPECT_FALSE(llm.generate_token_ids(prompts, greedy())[0].output.token_ids.empty());
}

TEST(Llm, refuses_a_cache_that_is_too_small_for_one_request_and_names_the_longest_that_fits) {
  EngineArgs small = arguments();
  small.kv_cache_memory_bytes = 10 * 24576;  // 9 usable blocks of 16 tokens, and max_model_len 256
  const std::string message = refusal([&] { LLM llm(small); });
  EXPECT_THAT(message, HasSubstr("max seq len (256)"));
  EXPECT_THAT(message, HasSubstr("estimated maximum model length is 144."));
  EXPECT_THAT(message, HasSubstr("--kv-cache-memory-bytes"));
  small.kv_cache_memory_bytes.reset();
  small.num_gpu_blocks_override = 9;
  EXPECT_THAT(refusal([&] { LLM llm(small); }), HasSubstr("increasing --num-gpu-blocks-override"));
}

TEST(Llm, takes_the_longest_length_that_fits_when_asked_to) {
  EngineArgs small = arguments();
  small.max_model_len = api::kLongestThatFits;
  small.kv_cache_memory_bytes = 10 * 24576;
  LLM llm(small);
  EXPECT_EQ(llm.startup_report().max_model_len, 144);
  const std::vector<std::vector<int32_t>> longest = {std::vector<int32_t>(143, 5)};
  EXPECT_EQ(llm.generate_token_ids(longest, greedy())[0].output.token_ids.size(), 1U);
  const std::vector<std::vector<int32_t>> too_long = {std::vector<int32_t>(144, 5)};
  EXPECT_THAT(refusal([&] { (void)llm.generate_token_ids(too_long, greedy()); }), HasSubstr("144"));
  EngineArgs large = arguments();
  large.max_model_len = api::kLongestThatFits;
  EXPECT_EQ(LLM(large).startup_report().max_model_len, 1024) << "never more than the model's limit";
}

TEST(Llm, refuses_weights_that_are_larger_than_the_memory_before_it_reads_them) {
  EngineArgs huge = arguments();
  huge.load_format = api::LoadFormat::dummy;
  huge.hf_overrides = {{"intermediate_size", 1 << 20}, {"num_hidden_layers", 1024}};  // 750 GiB
  try {
    LLM llm(huge);
    ADD_FAILURE() << "not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("free memory"));
  }
}

TEST(Llm, captures_nothing_under_enforce_eager_and_under_mode_none) {
  EngineArgs eager = arguments("FULL");
  eager.enforce_eager = true;
  for (const EngineArgs& args : {eager, arguments("NONE")}) {
    LLM llm(args);
    EXPECT_TRUE(llm.startup_report().capture.records.empty());
    EXPECT_EQ(llm.startup_report().resolved.mode, cudagraph::CudagraphMode::NONE);
    (void)llm.generate(kPrompts, greedy(4));
    EXPECT_EQ(llm.ledger().steps(cudagraph::CudagraphRuntimeMode::FULL), 0U);
    EXPECT_EQ(llm.ledger().steps(cudagraph::CudagraphRuntimeMode::PIECEWISE), 0U);
    EXPECT_GT(llm.ledger().steps(cudagraph::CudagraphRuntimeMode::NONE), 0U);
  }
}

TEST(Llm, maps_legacy_keys_to_a_mode_and_warns_with_the_new_spelling) {
  struct Case {
    Json config;
    cudagraph::CudagraphMode mode;
  };
  const std::vector<Case> cases = {
      {{{"use_cudagraph", false}}, cudagraph::CudagraphMode::NONE},
      {{{"use_cudagraph", true}}, cudagraph::CudagraphMode::PIECEWISE},
      {{{"full_cuda_graph", true}}, cudagraph::CudagraphMode::FULL},
      // This model's backend has only one set of kernels, so the flags mean FULL.
      {{{"full_cuda_graph", true}, {"separate_attention_routine", true}},
       cudagraph::CudagraphMode::FULL}};
  const auto expected = generate(arguments("NONE"));
  for (const Case& c : cases) {
    EngineArgs args = arguments();
    args.compilation_config = c.config;
    LLM llm(args);
    EXPECT_EQ(llm.startup_report().resolved.mode, c.mode) << c.config;
    EXPECT_THAT(llm.startup_report().warnings, ::testing::Contains(HasSubstr(to_string(c.mode))))
        << c.config;
    EXPECT_EQ(tokens_of(llm.generate(kPrompts, greedy())), expected) << c.config;
  }
}

TEST(Llm, seals_after_start_up_and_never_captures_while_it_serves) {
  for (const char* mode : {"PIECEWISE", "FULL_AND_PIECEWISE"}) {
    LLM llm(arguments(mode));
    const auto captures = [&] {
      return llm.loaded().runner->full_wrapper().counters().captures +
             llm.loaded().runner->forward().num_piecewise_graphs();
    };
    const uint64_t before = captures();
    const compile::CompilationCounter& counter = llm.startup_report().compilation.counter;
    EXPECT_EQ(before, counter.num_cudagraph_captured);
    // A FULL key is one graph; a PIECEWISE key is one graph per piece.
    const uint64_t full = counter.num_full_cudagraph_captured;
    EXPECT_EQ(before,
              full + (llm.startup_report().capture.num_captured() - full) * (num_layers(llm) + 1));
    (void)llm.generate(kPrompts, greedy());
    EXPECT_EQ(captures(), before) << mode;
  }
}

// --- invariant 4
// ----------------------------------------------------------------------------------------

class StepAllocations : public ::testing::TestWithParam<const char*> {};

TEST_P(StepAllocations, are_none_in_steady_state_from_schedule_to_sampled_token) {
  LLM llm(arguments(GetParam()));
  engine::EngineCore& core = *llm.loaded().core;
  sampling::SamplingParams sampled = greedy(80);
  sampled.temperature = 0.8F;
  sampled.top_k = 20;
  sampled.seed = 7;
  for (size_t i = 0; i < kPrompts.size(); ++i) {
    core.add_request(llm.tokenizer().encode(kPrompts[i]), i % 2 == 0 ? greedy(80) : sampled);
  }
  // The prompts and the first decode steps of this shape may make pools and lists grow.
  for (int i = 0; i < 8; ++i) (void)core.step();
  const int64_t before = testing::num_allocations();
  int steps = 0;
  for (; steps < 60; ++steps) {
    const auto updates = core.step();
    if (updates.size() != kPrompts.size()) break;
  }
  EXPECT_EQ(testing::num_allocations() - before, 0) << GetParam() << " over " << steps << " steps";
  EXPECT_EQ(steps, 60);
  while (core.has_unfinished_requests()) (void)core.step();
}

INSTANTIATE_TEST_SUITE_P(modes,
                         StepAllocations,
                         ::testing::ValuesIn(kModes),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(StepAllocations, are_counted_by_this_binary) {
  const int64_t before = testing::num_allocations();
  const auto some = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(testing::num_allocations() - before, 2) << "a blind test would pass everything";
}

}  // namespace
}  // namespace reprise
