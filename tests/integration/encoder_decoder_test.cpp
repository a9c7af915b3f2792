// Compares models with an encoder and a decoder with Transformers: the prompts are texts of the
// encoder, and each answer begins with the tokens that the config names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reprise/api/llm.h"
#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kernels/isa.h"
#include "reprise/runner/model_runner.h"
#include "reprise/sampling/logprobs.h"
#include "tests/integration/goldens.h"

namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using api::RequestOutput;
using cudagraph::CudagraphRuntimeMode;
using ::testing::HasSubstr;

constexpr std::array kModes = {
    "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"};
constexpr int kVocabSize = 96;

struct TranslationCase {
  std::vector<int32_t> text;
  std::vector<int32_t> continuation;
  std::vector<float> logits;  // [continuation.size(), kVocabSize]
};

std::vector<TranslationCase> load_cases(const std::string& name) {
  const weights::ModelDirectory folder(testing::golden_folder(name));
  const Json document = parse_json(folder.read_text("golden.json", 1 << 20), "golden.json");
  const weights::SafetensorsFile tensors(folder.open("golden.safetensors"));
  std::vector<TranslationCase> cases;
  for (const Json& entry : document.at("cases")) {
    const std::string tensor = "text_" + std::to_string(cases.size()) + ".logits_f32";
    cases.push_back({.text = entry.at("text").get<std::vector<int32_t>>(),
                     .continuation = entry.at("continuation").get<std::vector<int32_t>>(),
                     .logits = testing::read_floats(tensors, tensor)});
  }
  return cases;
}

EngineArgs arguments(const std::string& name, const std::string& mode, int level = 0) {
  EngineArgs args;
  args.model = testing::golden_folder(name);
  args.tokenizer = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.dtype = "float32";
  args.max_num_seqs = 8;
  args.max_num_batched_tokens = 64;
  args.num_threads = 2;
  args.max_logprobs = -1;
  args.num_gpu_blocks_override = 64;
  args.disable_compile_cache = true;
  args.compilation_config = {{"cudagraph_mode", mode}, {"level", level}};
  return args;
}

sampling::SamplingParams greedy() {
  return {.temperature = 0, .max_tokens = 32, .ignore_eos = true, .logprobs = kVocabSize};
}

std::vector<std::vector<int32_t>> texts_of(const std::vector<TranslationCase>& cases) {
  std::vector<std::vector<int32_t>> texts;
  for (const TranslationCase& golden : cases) texts.push_back(golden.text);
  return texts;
}

double largest_error(const TranslationCase& golden, const RequestOutput& result) {
  double worst = 0;
  for (size_t i = 0; i < golden.continuation.size(); ++i) {
    const auto row = std::span(golden.logits).subspan(i * kVocabSize, kVocabSize);
    const double sum = sampling::log_sum_exp(row);
    for (const sampling::TokenLogprob& top : result.output.logprobs.at(i).top) {
      const double want = row[static_cast<size_t>(top.token_id)] - sum;
      const double error = std::abs(want - top.logprob);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

void expect_goldens(const std::vector<TranslationCase>& cases,
                    const std::vector<RequestOutput>& results) {
  ASSERT_EQ(results.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(results[i].output.token_ids, cases[i].continuation)
        << "text " << i << " of " << cases[i].text.size() << " tokens";
    EXPECT_EQ(results[i].output.logprobs.at(0).top.size(), size_t{kVocabSize});
    EXPECT_LE(largest_error(cases[i], results[i]), 1e-4) << "text " << i;
  }
}

class EncoderDecoder : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::string name() const { return "encoder_decoder/" + GetParam(); }
};

TEST_P(EncoderDecoder, texts_of_many_lengths_give_the_golden_tokens_in_all_modes_and_levels) {
  const std::vector<TranslationCase> cases = load_cases(name());
  for (const int level : {0, 3}) {
    for (const char* mode : kModes) {
      SCOPED_TRACE(fmt::format("level {}, {}", level, mode));
      LLM llm(arguments(name(), mode, level));
      // As in vLLM, models with an encoder are not compiled.
      EXPECT_EQ(llm.startup_report().compilation.refused, level == 0 ? "" : compile::kOptedOut);
      expect_goldens(cases, llm.generate_token_ids(texts_of(cases), greedy()));
    }
  }
}

TEST_P(EncoderDecoder, every_instruction_set_and_backend_gives_the_golden_tokens) {
  const std::vector<TranslationCase> cases = load_cases(name());
  std::vector<EngineArgs> variants;
  for (const kernels::Isa isa : kernels::supported_isas(device::detect_cpu_features())) {
    variants.push_back(arguments(name(), "FULL_DECODE_ONLY"));
    variants.back().cpu_isa = kernels::isa_name(isa);
  }
  for (const char* backend : {"FLASH_ATTN", "TRITON_ATTN", "ROCM_AITER_FA"}) {
    variants.push_back(arguments(name(), "FULL_DECODE_ONLY"));
    variants.back().attention_backend = backend;
    variants.back().flash_attn_version = 2;
  }
  variants.push_back(arguments(name(), "FULL_DECODE_ONLY", 3));
  variants.back().async_scheduling = true;
  for (const EngineArgs& args : variants) {
    SCOPED_TRACE(fmt::format("{}, {}", args.cpu_isa, args.attention_backend));
    LLM llm(args);
    expect_goldens(cases, llm.generate_token_ids(texts_of(cases), greedy()));
  }
}

TEST_P(EncoderDecoder, a_text_alone_gives_the_bits_that_it_gives_among_others) {
  const std::vector<TranslationCase> cases = load_cases(name());
  LLM llm(arguments(name(), "FULL_DECODE_ONLY"));
  const auto together = llm.generate_token_ids(texts_of(cases), greedy());
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto alone =
        llm.generate_token_ids(std::vector<std::vector<int32_t>>{cases[i].text}, greedy());
    EXPECT_EQ(alone[0].output.logprobs, together[i].output.logprobs) << "text " << i;
  }
}

TEST_P(EncoderDecoder, decode_steps_replay_full_graphs_and_steps_with_an_encoder_do_not) {
  const std::vector<TranslationCase> cases = load_cases(name());
  LLM llm(arguments(name(), "FULL_AND_PIECEWISE"));
  EXPECT_EQ(llm.startup_report().resolved.mode, cudagraph::CudagraphMode::FULL_DECODE_ONLY);
  (void)llm.generate_token_ids(texts_of(cases), greedy());
  const cudagraph::DispatchLedger& ledger = llm.loaded().core->ledger();
  EXPECT_EQ(ledger.steps(CudagraphRuntimeMode::NONE), 1U);  // the first tokens of all answers
  EXPECT_EQ(ledger.steps(CudagraphRuntimeMode::FULL), 31U);
}

TEST_P(EncoderDecoder, a_small_cache_preempts_requests_and_changes_no_token) {
  const std::vector<TranslationCase> cases = load_cases(name());
  EngineArgs args = arguments(name(), "FULL_DECODE_ONLY");
  args.block_size = 4;
  args.num_gpu_blocks_override = 44;
  LLM llm(args);
  expect_goldens(cases, llm.generate_token_ids(texts_of(cases), greedy()));
  EXPECT_GT(llm.loaded().core->scheduler().num_preemptions(), 0);
  const kv_cache::KvCacheManager& cache = llm.loaded().core->kv_cache_manager();
  EXPECT_EQ(cache.num_free_blocks(), cache.num_blocks() - 1);
}

INSTANTIATE_TEST_SUITE_P(Goldens,
                         EncoderDecoder,
                         ::testing::Values("bart", "bart-scaled"),
                         [](const auto& golden) {
                           return golden.param == "bart" ? "bart" : "bart_scaled";
                         });

TEST(EncoderDecoderRequests, an_aborted_request_gives_the_blocks_of_its_text_back) {
  LLM llm(arguments("encoder_decoder/bart", "FULL_DECODE_ONLY"));
  engine::EngineCore& core = *llm.loaded().core;
  const kv_cache::KvCacheManager& cache = core.kv_cache_manager();
  const int all = cache.num_free_blocks();
  const scheduler::RequestId id = core.add_request(std::vector<int32_t>(40, 5), greedy());
  (void)core.step();
  EXPECT_EQ(cache.num_free_blocks(), all - 4);  // three blocks for the text, one for the answer
  (void)core.abort_request(id);
  EXPECT_EQ(cache.num_free_blocks(), all);
}

// A batch of two requests, staged after a larger batch; `rows` are padded to four.
TEST(EncoderTextStaging, padding_rows_have_no_text) {
  LLM llm(arguments("encoder_decoder/bart", "NONE"));
  runner::InputBatch& batch = llm.loaded().runner->input_batch();
  const std::vector<int32_t> token = {7};
  const std::vector own = {kv_cache::BlockId{1}};
  const std::vector text = {kv_cache::BlockId{2}, kv_cache::BlockId{3}};
  const scheduler::StepEntry request{.token_ids = token,
                                     .block_ids = own,
                                     .encoder_len = 20,
                                     .encoder_block_ids = text,
                                     .samples = true};
  const std::vector requests(4, request);
  device::Stream& stream = llm.loaded().device->execution->stream();
  const runner::StagedShape shape{.num_tokens = 4, .num_reqs = 4, .num_logits_rows = 4};
  for (const size_t num_reqs : {size_t{4}, size_t{2}}) {
    batch.stage(std::span(requests).first(num_reqs), shape, stream);
    stream.synchronize();
    const attention::AttentionMetadata staged = batch.attention_metadata();
    const auto* lens = staged.encoder_lens.data_as<int32_t>();
    const auto* table = staged.encoder_block_table.data_as<int32_t>();
    for (size_t row = 0; row < 4; ++row) {
      const bool is_real = row < num_reqs;
      const int32_t* blocks = table + row * 4;  // 64 positions
      EXPECT_EQ(lens[row], is_real ? 20 : 0) << row;
      EXPECT_THAT(std::span(blocks, 4),
                  ::testing::ElementsAre(is_real ? 2 : 0, is_real ? 3 : 0, 0, 0))
          << row;
    }
  }
}

// A FULL graph for eight requests runs with three, replayed and eagerly; the other rows are
// padding.
TEST(EncoderTextStaging, a_replay_gives_the_bits_of_an_eager_run_of_the_same_shape) {
  LLM llm(arguments("encoder_decoder/bart", "FULL_DECODE_ONLY"));
  runner::ModelRunner& runner = *llm.loaded().runner;
  std::vector<std::vector<int32_t>> tokens = {{2, 0, 5}, {2, 0, 6}, {2, 0, 7}};
  std::vector<std::vector<int32_t>> texts = {{9, 8, 7}, std::vector<int32_t>(33, 4), {50}};
  std::vector<std::vector<kv_cache::BlockId>> own;
  std::vector<std::vector<kv_cache::BlockId>> of_text;
  for (int32_t i = 0; i < 3; ++i) {
    own.push_back({kv_cache::BlockId{1 + i}});
    of_text.push_back({kv_cache::BlockId{10 + 3 * i},
                       kv_cache::BlockId{11 + 3 * i},
                       kv_cache::BlockId{12 + 3 * i}});
  }
  const auto run = [&](int32_t first, int32_t count, std::optional<CudagraphRuntimeMode> mode) {
    std::vector<scheduler::StepEntry> requests;
    for (size_t i = 0; i < 3; ++i) {
      requests.push_back({.token_ids = std::span(tokens[i]).subspan(static_cast<size_t>(first),
                                                                    static_cast<size_t>(count)),
                          .num_computed_tokens = first,
                          .block_ids = own[i],
                          .encoder_token_ids = first == 0 ? std::span<const int32_t>(texts[i])
                                                          : std::span<const int32_t>(),
                          .encoder_len = static_cast<int32_t>(texts[i].size()),
                          .encoder_block_ids = of_text[i],
                          .samples = true});
    }
    const cudagraph::BatchFacts facts{
        .num_tokens = 3 * count, .num_reqs = 3, .uniform = count == 1};
    const cudagraph::Decision decision = runner.dispatcher().dispatch(facts);
    const runner::StepResult& result = runner.run(requests, decision, mode.value_or(decision.mode));
    std::vector<float> logits;
    for (int32_t row = 0; row < 3; ++row) {
      const std::span<const float> values = runner.logits_row(result, row);
      logits.insert(logits.end(), values.begin(), values.end());
    }
    EXPECT_EQ(decision.mode, count == 1 ? CudagraphRuntimeMode::FULL : CudagraphRuntimeMode::NONE);
    return logits;
  };
  (void)run(0, 2, std::nullopt);
  const std::vector<float> replayed = run(2, 1, std::nullopt);
  EXPECT_EQ(run(2, 1, CudagraphRuntimeMode::NONE), replayed);
  EXPECT_EQ(run(2, 1, std::nullopt), replayed);
}

template <typename Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(not refused)";
}

TEST(EncoderDecoderRequests, a_text_that_the_encoder_cannot_read_is_refused) {
  EngineArgs args = arguments("encoder_decoder/bart", "NONE");
  LLM llm(args);
  const auto ask = [&](size_t length, const sampling::SamplingParams& params = greedy()) {
    return refusal([&] {
      (void)llm.generate_token_ids(
          std::vector<std::vector<int32_t>>{std::vector<int32_t>(length, 5)}, params);
    });
  };
  EXPECT_EQ(ask(64), "(not refused)");
  EXPECT_THAT(ask(65),
              HasSubstr("prompt has 65 tokens, but the encoder of this model reads at most 64"));
  EXPECT_THAT(ask(0), HasSubstr("prompt is empty"));
  sampling::SamplingParams params = greedy();
  params.prompt_logprobs = 1;
  EXPECT_THAT(ask(5, params), HasSubstr("prompt_logprobs"));
}

TEST(EncoderDecoderRequests, the_text_leaves_less_of_a_small_cache_to_the_answer) {
  EngineArgs args = arguments("encoder_decoder/bart", "FULL_DECODE_ONLY");
  args.num_gpu_blocks_override = 4;
  LLM llm(args);
  const std::vector<TranslationCase> cases = load_cases("encoder_decoder/bart");
  const TranslationCase& golden = cases.at(5);  // 40 tokens: three of the four blocks
  const auto results =
      llm.generate_token_ids(std::vector<std::vector<int32_t>>{golden.text}, greedy());
  // There are 16 positions. Two of them hold the first tokens, and the last token needs none.
  EXPECT_EQ(results[0].output.token_ids,
            std::vector(golden.continuation.begin(), golden.continuation.begin() + 15));
  EXPECT_EQ(results[0].output.finish_reason, "length");
  EXPECT_THAT(refusal([&] {
                (void)llm.generate_token_ids(
                    std::vector<std::vector<int32_t>>{std::vector<int32_t>(49, 5)}, greedy());
              }),
              HasSubstr("it needs 5 blocks of the KV cache, which has 4 of 16 tokens"));
}

TEST(EncoderDecoderOptions, that_have_no_code_are_refused_by_name) {
  const auto start = [](const std::function<void(EngineArgs&)>& change) {
    EngineArgs args = arguments("encoder_decoder/bart", "NONE");
    change(args);
    return refusal([&] { const LLM llm(args); });
  };
  EXPECT_THAT(start([](EngineArgs& args) { args.enable_lora = true; }),
              HasSubstr("--enable-lora: BartForConditionalGeneration has an encoder"));
  EXPECT_THAT(start([](EngineArgs& args) { args.attention_backend = "FLASHINFER"; }),
              HasSubstr("--attention-backend: BartForConditionalGeneration"));
  EXPECT_THAT(start([](EngineArgs& args) {
                args.speculative_config = {{"method", "ngram"}, {"num_speculative_tokens", 2}};
              }),
              HasSubstr("--speculative-config: BartForConditionalGeneration"));
}

}  // namespace
}  // namespace reprise
