#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "reprise/api/llm.h"
#include "reprise/api/loading/draft_engine.h"
#include "reprise/api/loading/graph_trust.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/runner/model_runner.h"
#include "tests/integration/test_batch.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/source_dir.h"

// --strict-graphs and --shadow-check-rate from their options to the answers.
namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using cudagraph::CudagraphMode;
using ::testing::HasSubstr;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;

std::filesystem::path source(const char* path) {
  return std::filesystem::path(source_dir()) / path;
}

EngineArgs arguments() {
  EngineArgs args;
  args.model = source("models/reprise-tiny");
  args.max_num_seqs = 8;
  args.max_num_batched_tokens = 64;
  args.max_model_len = 256;
  args.num_threads = 2;
  return args;
}

const std::vector<std::string> kPrompts = {
    "Tom has 3 apples", "The little fox", "7", "Once upon a time there was a small boat"};

std::vector<std::vector<int32_t>> generate(LLM& llm) {
  std::vector<std::vector<int32_t>> tokens;
  for (const api::RequestOutput& result :
       llm.generate(kPrompts, sampling::SamplingParams{.temperature = 0, .max_tokens = 20})) {
    EXPECT_NE(result.output.finish_reason, "error") << result.output.error;
    tokens.push_back(result.output.token_ids);
  }
  return tokens;
}

// ---- every row keeps its promise, or is refused by name ----

struct StrictRow {
  const char* what;
  std::function<void(EngineArgs&)> set;
  const char* refusal;  // a part of the message; empty: the row keeps its promise
};

Json speculation(const char* method, const char* model = nullptr) {
  Json config = {{"method", method}, {"num_speculative_tokens", 2}};
  if (model != nullptr) config["model"] = source(model).string();
  return config;
}

void set_mode(EngineArgs& args, const char* mode) {
  args.compilation_config["cudagraph_mode"] = mode;
}

void set_model(EngineArgs& args, const char* model, const char* mode) {
  args.model = source(model);
  set_mode(args, mode);
}

std::vector<StrictRow> strict_rows_of_modes() {
  return {
      {"the mode that the engine chooses", [](EngineArgs&) {}, ""},
      {"NONE", [](EngineArgs& args) { set_mode(args, "NONE"); }, ""},
      {"PIECEWISE", [](EngineArgs& args) { set_mode(args, "PIECEWISE"); }, ""},
      {"FULL", [](EngineArgs& args) { set_mode(args, "FULL"); }, ""},
      {"FULL_DECODE_ONLY", [](EngineArgs& args) { set_mode(args, "FULL_DECODE_ONLY"); }, ""},
      {"FULL_AND_PIECEWISE", [](EngineArgs& args) { set_mode(args, "FULL_AND_PIECEWISE"); }, ""},
      {"FULL at level 0",
       [](EngineArgs& args) {
         set_mode(args, "FULL");
         args.compilation_config["mode"] = 0;
       },
       ""},
      {"FULL with the planned backend, which has decode graphs only",
       [](EngineArgs& args) {
         set_mode(args, "FULL");
         args.attention_backend = "FLASHINFER";
       },
       "cudagraph_mode FULL was asked for"},
      {"FULL_DECODE_ONLY with the planned backend",
       [](EngineArgs& args) {
         set_mode(args, "FULL_DECODE_ONLY");
         args.attention_backend = "FLASHINFER";
       },
       ""},
      {"FULL with a backend without graphs",
       [](EngineArgs& args) {
         set_mode(args, "FULL");
         args.attention_backend = "REFERENCE";
       },
       "cudagraph_mode FULL is not supported"},
      {"PIECEWISE with a backend without graphs",
       [](EngineArgs& args) {
         set_mode(args, "PIECEWISE");
         args.attention_backend = "REFERENCE";
       },
       ""},
      {"FULL and enforce_eager",
       [](EngineArgs& args) {
         set_mode(args, "FULL");
         args.enforce_eager = true;
       },
       "cudagraph_mode FULL was asked for"},
      {"enforce_eager", [](EngineArgs& args) { args.enforce_eager = true; }, ""}};
}

std::vector<StrictRow> strict_rows_of_features() {
  return {{"drafts out of the text",
           [](EngineArgs& args) { args.speculative_config = speculation("ngram"); },
           ""},
          {"a draft model",
           [](EngineArgs& args) {
             args.speculative_config = speculation("draft_model", "models/reprise-tiny");
           },
           "a draft model or a draft head"},
          {"a draft head",
           [](EngineArgs& args) {
             args.speculative_config = speculation("eagle3", "models/reprise-tiny-eagle3");
           },
           "a draft model or a draft head"},
          {"adapters", [](EngineArgs& args) { args.enable_lora = true; }, ""},
          {"adapters with FULL",
           [](EngineArgs& args) {
             args.enable_lora = true;
             set_mode(args, "FULL");
           },
           ""},
          {"FULL for a hybrid",
           [](EngineArgs& args) { set_model(args, "tests/goldens/architectures/bamba", "FULL"); },
           "cudagraph_mode FULL was asked for"},
          {"FULL_AND_PIECEWISE for a hybrid",
           [](EngineArgs& args) {
             set_model(args, "tests/goldens/architectures/bamba", "FULL_AND_PIECEWISE");
           },
           ""},
          {"FULL_DECODE_ONLY for a recurrent model",
           [](EngineArgs& args) {
             set_model(args, "tests/goldens/architectures/mamba2", "FULL_DECODE_ONLY");
           },
           ""},
          {"lazy capture",
           [](EngineArgs& args) { args.compilation_config["cudagraph_lazy_capture"] = true; },
           "cudagraph_lazy_capture"},
          {"two tensor ranks", [](EngineArgs& args) { args.tensor_parallel_size = 2; }, ""},
          {"two stages", [](EngineArgs& args) { args.pipeline_parallel_size = 2; }, ""},
          {"two engines", [](EngineArgs& args) { args.data_parallel_size = 2; }, ""},
          {"two engines in lockstep",
           [](EngineArgs& args) {
             args.data_parallel_size = 2;
             args.data_parallel_lockstep = true;
           },
           "--data-parallel-lockstep"}};
}

std::vector<StrictRow> strict_rows() {
  std::vector<StrictRow> rows = strict_rows_of_modes();
  std::ranges::move(strict_rows_of_features(), std::back_inserter(rows));
  return rows;
}

TEST(StrictGraphs, of_every_row_are_promised_or_refused_by_name) {
  for (const StrictRow& row : strict_rows()) {
    SCOPED_TRACE(row.what);
    EngineArgs args = arguments();
    args.strict_graphs = true;
    row.set(args);
    try {
      api::ResolvedOptions options = api::resolve_options(args);
      api::check_graph_trust(args, options);
      EXPECT_STREQ(row.refusal, "") << "was not refused";
      if (options.graphs.requested && !args.enforce_eager) {
        EXPECT_EQ(options.graphs.mode, *options.graphs.requested);
      }
    } catch (const InvalidArgument& error) {
      EXPECT_STRNE(row.refusal, "") << error.what();
      EXPECT_THAT(error.what(), HasSubstr(row.refusal));
    }
  }
}

TEST(StrictGraphs, that_are_promised_answer_without_an_error) {
  std::vector<std::vector<int32_t>> expected;
  for (const StrictRow& row : strict_rows()) {
    const bool is_of_one_process = !std::string_view(row.what).starts_with("two ");
    if (*row.refusal != '\0' || !is_of_one_process) continue;
    SCOPED_TRACE(row.what);
    EngineArgs args = arguments();
    args.strict_graphs = true;
    row.set(args);
    if (args.model != arguments().model) continue;  // those have no text
    LLM llm(args);
    const std::vector<std::vector<int32_t>> tokens = generate(llm);
    if (expected.empty()) expected = tokens;
    EXPECT_EQ(tokens, expected);
  }
}

TEST(Captures, that_end_the_memory_are_an_error_of_the_start_in_any_mode) {
  api::StartupReport report;
  report.capture.records = {{.mode = cudagraph::CudagraphRuntimeMode::FULL,
                             .descriptor = {.num_tokens = 8, .num_reqs = 8, .uniform = true}},
                            {.mode = cudagraph::CudagraphRuntimeMode::FULL,
                             .descriptor = {.num_tokens = 4, .num_reqs = 4, .uniform = true},
                             .failure = "cuGraphInstantiate: OUT_OF_MEMORY"}};
  EXPECT_NO_THROW(api::require_memory_for_graphs(report)) << "failed for another reason";
  report.capture.records.back().is_out_of_memory = true;
  try {
    api::require_memory_for_graphs(report);
    ADD_FAILURE() << "not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("1 of 2 were captured, FULL [tokens=4 reqs=4 uniform] was"));
    EXPECT_THAT(error.what(), HasSubstr("--max-cudagraph-capture-size"));
  }
}

TEST(StrictGraphs, that_were_retired_or_quarantined_are_an_error_of_the_step) {
  for (const auto retirement :
       {cudagraph::Retirement::retired, cudagraph::Retirement::quarantined}) {
    cudagraph::CudagraphDispatcher dispatcher;
    dispatcher.initialize_cudagraph_keys({.mode = CudagraphMode::FULL_AND_PIECEWISE,
                                          .max_num_seqs = 8,
                                          .mixed_capture_sizes = {1, 2, 4, 8},
                                          .decode_capture_sizes = {1, 2, 4, 8}});
    dispatcher.mark_all_captured();
    const cudagraph::BatchFacts facts{.num_tokens = 4, .num_reqs = 4, .uniform = true};
    const cudagraph::Decision promised = dispatcher.dispatch(facts);
    EXPECT_TRUE(keeps_promise(promised.reason));
    EXPECT_TRUE(dispatcher.retire(promised.mode, promised.descriptor, "a test", retirement));
    const cudagraph::Decision broken = dispatcher.dispatch(facts);
    EXPECT_FALSE(keeps_promise(broken.reason));
    if (retirement == cudagraph::Retirement::quarantined) {
      EXPECT_EQ(broken.mode, cudagraph::CudagraphRuntimeMode::NONE);
      EXPECT_EQ(broken.reason, cudagraph::DispatchReason::key_quarantined);
      EXPECT_THAT(dispatcher.describe(facts, broken), HasSubstr("a test"));
    } else {
      EXPECT_EQ(broken.reason, cudagraph::DispatchReason::full_larger_size);
    }
    // Batches that no planned key serves break no promise.
    EXPECT_TRUE(keeps_promise(dispatcher.dispatch({.num_tokens = 100, .num_reqs = 4}).reason));
  }
}

TEST(StrictGraphs, moved_memory_fails_the_step_and_the_engine_goes_on) {
  TinyEngine engine({.mode = CudagraphMode::FULL, .strict_graphs = true});
  (void)engine.runner().capture({});
  const TestBatch batch(Mix::uniform_decode, 3, 16, 77);
  EXPECT_NO_THROW((void)engine.runner().execute(batch.requests(), batch.facts()));
  runner::InputBatch& inputs = engine.runner().input_batch();
  runner::InputBatch moved(
      inputs.limits(), engine.execution().device(), engine.execution().executor());
  std::swap(inputs, moved);
  try {
    (void)engine.runner().execute(batch.requests(), batch.facts());
    ADD_FAILURE() << "the step ran";
  } catch (const runner::StrictGraphsError& error) {
    EXPECT_THAT(error.what(), HasSubstr("key_retired"));
  }
  std::swap(inputs, moved);
  const TestBatch larger(Mix::uniform_decode, 9, 16, 77);
  EXPECT_NO_THROW((void)engine.runner().execute(larger.requests(), larger.facts()));
}

// --- shadow checks through whole engines ---

TEST(ShadowedEngine, gives_the_same_tokens_with_every_drafter_and_finds_no_difference) {
  struct Case {
    const char* what;
    std::function<void(EngineArgs&)> set;
    bool has_draft_engine = false;
  };
  const std::vector<Case> cases = {
      {"alone", [](EngineArgs&) {}},
      {"async scheduling", [](EngineArgs& args) { args.async_scheduling = true; }},
      {"drafts out of the text",
       [](EngineArgs& args) { args.speculative_config = speculation("ngram"); }},
      {"a draft model",
       [](EngineArgs& args) {
         args.speculative_config = speculation("draft_model", "models/reprise-tiny");
       },
       true},
      {"a draft head",
       [](EngineArgs& args) {
         args.speculative_config = speculation("eagle3", "models/reprise-tiny-eagle3");
       },
       true},
      {"adapters", [](EngineArgs& args) { args.enable_lora = true; }}};
  std::vector<std::vector<int32_t>> expected;
  {
    LLM plain(arguments());
    expected = generate(plain);
  }
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    EngineArgs args = arguments();
    args.shadow_check_rate = 1;
    each.set(args);
    LLM llm(args);
    EXPECT_EQ(generate(llm), expected);
    const runner::ShadowCheck* shadow = llm.loaded().runner->shadow();
    EXPECT_GT(shadow->num_checks(), 4U);
    EXPECT_EQ(shadow->num_differences(), 0U);
    if (!each.has_draft_engine) continue;
    const runner::ShadowCheck* draft = llm.loaded().draft->runner->shadow();
    EXPECT_GT(draft->num_checks(), 4U);
    EXPECT_EQ(draft->num_differences(), 0U);
  }
}

TEST(ShadowCheckRate, is_refused_where_it_cannot_be) {
  const auto refusal = [](const std::function<void(EngineArgs&)>& set) -> std::string {
    EngineArgs args = arguments();
    args.shadow_check_rate = 0.5;
    set(args);
    api::ResolvedOptions options = api::resolve_options(args);
    try {
      api::check_graph_trust(args, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return options.warnings.empty() ? "" : options.warnings.back();
  };
  EXPECT_EQ(refusal([](EngineArgs&) {}), "");
  EXPECT_THAT(refusal([](EngineArgs& args) { args.shadow_check_rate = 1.5; }), HasSubstr("0 to 1"));
  EXPECT_THAT(refusal([](EngineArgs& args) {
                args.data_parallel_size = 2;
                args.data_parallel_lockstep = true;
              }),
              HasSubstr("--data-parallel-lockstep"));
  EXPECT_THAT(refusal([](EngineArgs& args) { args.enforce_eager = true; }), HasSubstr("no effect"));
}

}  // namespace
}  // namespace reprise
