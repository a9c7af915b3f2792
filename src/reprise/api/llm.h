#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/engine_frontend.h"
#include "reprise/api/loading/sleep.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/sampling/logprobs.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::cudagraph {
class DispatchLedger;
}

namespace reprise::engine {
class StepLoop;
}

namespace reprise::api {

/// Times of one request, in seconds. `time_to_first_token` counts from the call of generate().
struct RequestMetrics {
  double time_to_first_token = 0;
  double latency = 0;  // from the call of generate() to the last token
  int32_t num_output_tokens = 0;

  /// Mean time per output token after the first; 0 for fewer than two.
  [[nodiscard]] double time_per_output_token() const noexcept {
    return num_output_tokens > 1 ? (latency - time_to_first_token) / (num_output_tokens - 1) : 0;
  }
};

/// One answer; vLLM's CompletionOutput.
struct CompletionOutput {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;  // of each token; empty unless asked for
  std::string finish_reason;                         // "stop", "length", "abort", "error"
  scheduler::StopReason stop_reason;                 // why the answer stopped, other than EOS
  std::string error;                                 // why finish_reason is "error"
};

struct RequestOutput {
  std::string prompt;
  std::vector<int32_t> prompt_token_ids;
  /// Entry i belongs to prompt token i + 1: the first token has no log-probability. Empty unless
  /// asked for.
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  CompletionOutput output;
  int32_t num_cached_tokens = 0;  // prompt tokens found in the prefix cache, so not computed
  RequestMetrics metrics;
};

/// The text that one step added to one answer. `prompt_index` is the index in the call's prompts.
struct StreamDelta {
  size_t prompt_index = 0;
  std::string_view text;
  bool finished = false;
};

/// An engine for offline use: load it once, then generate as often as you like. One thread at a
/// time.
class LLM : public EngineFrontend {
 public:
  /// \throws as load_engine
  explicit LLM(const EngineArgs& args, const StartupObserver& observer = {});
  explicit LLM(std::unique_ptr<LoadedEngine> engine);
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;
  ~LLM();

  /// Answers all prompts in batches; the answers have the order of the prompts. As in vLLM, text in
  /// a prompt that spells a control token becomes that token. `on_delta` gets the text while it is
  /// generated. `options`: none, or one for each prompt.
  /// \throws InvalidArgument when a prompt or parameter can never run
  std::vector<RequestOutput> generate(std::span<const std::string> prompts,
                                      const sampling::SamplingParams& params,
                                      const std::function<void(const StreamDelta&)>& on_delta = {},
                                      std::span<const scheduler::RequestOptions> options = {});
  std::vector<RequestOutput> generate_token_ids(
      std::span<const std::vector<int32_t>> prompts,
      const sampling::SamplingParams& params,
      const std::function<void(const StreamDelta&)>& on_delta = {},
      std::span<const scheduler::RequestOptions> options = {});

  /// See LoadedEngine::sleep and LoadedEngine::wake_up.
  void sleep(SleepLevel level = SleepLevel::offload);
  void wake_up(EngineParts parts = EngineParts::all());
  [[nodiscard]] EngineParts sleeping() const noexcept;

  [[nodiscard]] const cudagraph::DispatchLedger& ledger() const noexcept;
  /// nullptr: there is no draft model.
  [[nodiscard]] const cudagraph::DispatchLedger* draft_ledger() const noexcept;
  /// For code that runs steps itself or needs the classes below LLM.
  [[nodiscard]] LoadedEngine& loaded() noexcept { return *engine_; }

 private:
  void run_to_end(std::chrono::steady_clock::time_point start,
                  std::span<const scheduler::RequestId> ids,
                  std::vector<RequestOutput>& results,
                  const std::function<void(const StreamDelta&)>& on_delta);
  void run_on_replicas(std::chrono::steady_clock::time_point start,
                       std::span<const std::vector<int32_t>> prompts,
                       const sampling::SamplingParams& params,
                       std::span<const scheduler::RequestOptions> options,
                       std::vector<RequestOutput>& results,
                       const std::function<void(const StreamDelta&)>& on_delta);

  struct Replicas;
  std::unique_ptr<engine::StepLoop> loop_;
  std::unique_ptr<Replicas> replicas_;  // nullptr: this is the only engine
};

}  // namespace reprise::api
