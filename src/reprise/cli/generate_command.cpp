#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/rank_session.h"
#include "reprise/cli/sampling_options.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/runner/model_runner.h"

namespace reprise::cli {
namespace {

struct GenerateArguments {
  api::EngineArgs engine;
  std::vector<std::string> prompts;
  bool chat = false;
  bool json = false;
  bool stream = true;
  bool verbose = false;
  std::string lora;  // name of an adapter; empty: none
  // Sampling options are kept as text: the defaults come from the model, which is not loaded yet.
  std::vector<std::string> sampling;
};

OptionTable prompt_table(GenerateArguments& arguments) {
  OptionTable table("reprise generate MODEL --prompt TEXT [options]",
                    "Loads a model folder or a GGUF file and streams its answer. Several --prompt "
                    "run as one batch.");
  constexpr const char* kPrompts = "Prompts and output";
  table.add({.name = "prompt",
             .short_name = "-p",
             .group = kPrompts,
             .value_name = "TEXT",
             .help = "May be repeated; '-' reads standard input.",
             .apply = [&arguments](std::string_view value) {
               if (value == "-") {
                 arguments.prompts.emplace_back(std::istreambuf_iterator<char>(std::cin),
                                                std::istreambuf_iterator<char>());
               } else {
                 arguments.prompts.emplace_back(value);
               }
             }});
  table.add_switch(
      "chat", kPrompts, "Put each prompt through the model's chat template.", arguments.chat);
  table.add_text("lora",
                 kPrompts,
                 "NAME",
                 "Adapter of --lora-modules that answers; default: the model alone.",
                 arguments.lora);
  table.add_switch("stream", kPrompts, "Print text as it comes.", arguments.stream);
  table.add_switch(
      "json", kPrompts, "One JSON object with tokens, times and graph counters.", arguments.json);
  table.add_switch(
      "verbose",
      kPrompts,
      "Say more about start-up: what was compiled, reasons, one line per captured key.",
      arguments.verbose);
  return table;
}

// Sampling options are parsed twice: now, so that errors show before the model is loaded, and again
// on top of the model's recommended values.
void add_recorded_sampling(OptionTable& table,
                           std::vector<std::string>& recorded,
                           sampling::SamplingParams& scratch) {
  OptionTable typed("", "");
  add_sampling_options(typed, scratch);
  for (const Option& option : typed.options()) {
    Option recording = option;
    recording.apply =
        [apply = option.apply, name = option.name, &recorded](std::string_view value) {
          apply(value);
          recorded.push_back(fmt::format("--{}={}", name, value));
        };
    table.add(std::move(recording));
  }
}

OptionTable make_table(GenerateArguments& arguments, sampling::SamplingParams& scratch) {
  OptionTable table = prompt_table(arguments);
  add_recorded_sampling(table, arguments.sampling, scratch);
  add_engine_options(table, arguments.engine);
  return table;
}

Json to_json(const api::RequestOutput& result) {
  const double seconds = result.metrics.latency;
  return {{"prompt", result.prompt},
          {"text", result.output.text},
          {"token_ids", result.output.token_ids},
          {"num_prompt_tokens", result.prompt_token_ids.size()},
          {"finish_reason", result.output.finish_reason},
          {"error", result.output.error.empty() ? Json() : Json(result.output.error)},
          {"ttft_ms", result.metrics.time_to_first_token * 1e3},
          {"tpot_ms", result.metrics.time_per_output_token() * 1e3},
          {"tokens_per_second",
           seconds > 0 ? static_cast<double>(result.metrics.num_output_tokens) / seconds : 0.0}};
}

Json verdicts_to_json(const cudagraph::CaptureReport& report) {
  Json verdicts = Json::object();
  for (size_t i = 0; i < cudagraph::kNumCaptureVerdicts; ++i) {
    const auto verdict = static_cast<cudagraph::CaptureVerdict>(i);
    verdicts[std::string(to_string(verdict))] = report.num_with(verdict);
  }
  return verdicts;
}

Json graphs_to_json(api::LLM& llm) {
  using cudagraph::CudagraphRuntimeMode;
  const api::StartupReport& report = llm.startup_report();
  Json modes = Json::object();
  for (CudagraphRuntimeMode mode : {CudagraphRuntimeMode::PIECEWISE, CudagraphRuntimeMode::FULL}) {
    size_t keys = 0;
    double seconds = 0;
    size_t bytes = 0;
    for (const cudagraph::CaptureRecord& record : report.capture.records) {
      if (record.mode != mode || !record.failure.empty()) continue;
      ++keys;
      seconds += record.seconds;
      bytes += record.bytes;
    }
    modes[std::string(to_string(mode))] = {{"keys_captured", keys},
                                           {"capture_seconds", seconds},
                                           {"graph_bytes", bytes},
                                           {"replayed_steps", llm.ledger().steps(mode)}};
  }
  const runner::StepLaunches launches = llm.loaded().runner->last_decode_launches();
  Json draft_model;
  if (const cudagraph::DispatchLedger* draft = llm.draft_ledger()) {
    draft_model = {{"full_steps", draft->steps(CudagraphRuntimeMode::FULL)},
                   {"piecewise_steps", draft->steps(CudagraphRuntimeMode::PIECEWISE)},
                   {"eager_steps", draft->steps(CudagraphRuntimeMode::NONE)}};
  }
  return {{"cudagraph_mode", to_string(report.resolved.mode)},
          {"capture_seconds", report.capture.seconds},
          {"verify_seconds", report.capture.verify_seconds()},
          {"verdicts", verdicts_to_json(report.capture)},
          {"graph_bytes", report.graph_bytes},
          {"modes", modes},
          {"draft_model", draft_model},
          {"eager_steps", llm.ledger().steps(CudagraphRuntimeMode::NONE)},
          {"padding_tokens", llm.ledger().padding_tokens()},
          {"launches_per_decode_step", launches.total()},
          {"launches_per_decode_step_graphs", launches.graphs},
          {"launches_per_decode_step_kernels", launches.kernels}};
}

void print_plain(const std::vector<api::RequestOutput>& results, bool streamed) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results.size() > 1) fmt::print("[{}] {}", i, results[i].prompt);
    if (!streamed || results.size() > 1) fmt::print("{}\n", results[i].output.text);
    if (!results[i].output.error.empty()) print_error("error: {}\n", results[i].output.error);
  }
}

void print_counts(const api::RequestMetrics& first, const api::LLM& llm) {
  using cudagraph::CudagraphRuntimeMode;
  if (log_level_of_environment() > LogLevel::info) return;
  print_error(
      "{} tokens, first after {:.1f} ms, then {:.3f} ms each; replayed FULL {}, PIECEWISE "
      "{}, eager {} steps\n",
      first.num_output_tokens,
      first.time_to_first_token * 1e3,
      first.time_per_output_token() * 1e3,
      llm.ledger().steps(CudagraphRuntimeMode::FULL),
      llm.ledger().steps(CudagraphRuntimeMode::PIECEWISE),
      llm.ledger().steps(CudagraphRuntimeMode::NONE));
}

}  // namespace

OptionTable generate_options() {
  GenerateArguments arguments;
  sampling::SamplingParams scratch;
  return make_table(arguments, scratch);
}

int run_generate(std::span<const std::string> raw_arguments) {
  GenerateArguments arguments;
  sampling::SamplingParams scratch;
  const OptionTable table = make_table(arguments, scratch);
  if (!parse_model_command(table, raw_arguments, "generate", arguments.engine.model)) return 0;
  if (arguments.prompts.empty()) throw InvalidArgument("generate needs at least one --prompt");

  RankSession ranks(arguments.engine);
  if (ranks.is_elsewhere()) return ranks.run(arguments.engine);
  StartupProgress progress(arguments.verbose);
  api::LLM llm(arguments.engine, progress.observer());
  if (!arguments.json) progress.summarize(llm);

  sampling::SamplingParams params = llm.default_sampling_params();
  OptionTable on_top("", "");
  add_sampling_options(on_top, params);
  (void)on_top.parse(arguments.sampling);

  std::vector<std::string> prompts = arguments.prompts;
  if (arguments.chat) {
    for (std::string& prompt : prompts) {
      prompt = llm.apply_chat_template(Json::array({{{"role", "user"}, {"content", prompt}}}));
    }
  }
  std::vector<scheduler::RequestOptions> options;
  if (!arguments.lora.empty()) options.assign(prompts.size(), llm.with_adapter(arguments.lora));
  // Only a single prompt streams, because the answers of several prompts would be interleaved.
  const bool streams = arguments.stream && !arguments.json && prompts.size() == 1;
  // A completion prints its prompt first, but only after the engine accepted the prompt.
  bool prompt_shown = arguments.chat;
  const std::vector<api::RequestOutput> results = llm.generate(
      prompts,
      params,
      [&](const api::StreamDelta& delta) {
        if (!streams) return;
        if (!std::exchange(prompt_shown, true)) fmt::print("{}", prompts[0]);
        fmt::print("{}", delta.text);
        if (delta.finished) fmt::print("\n");
        std::fflush(stdout);
      },
      options);
  const bool has_failed = std::any_of(results.begin(), results.end(), [](const auto& result) {
    return result.output.finish_reason == "error";
  });
  if (arguments.json) {
    Json document = {{"outputs", Json::array()}};
    for (const api::RequestOutput& result : results) document["outputs"].push_back(to_json(result));
    document["ready_seconds"] = llm.startup_report().total_seconds;
    document["graphs"] = graphs_to_json(llm);
    document["compilation"] = compilation_to_json(llm.startup_report());
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return has_failed ? 1 : 0;
  }
  print_plain(results, streams);
  print_counts(results[0].metrics, llm);
  return has_failed ? 1 : 0;
}

}  // namespace reprise::cli
