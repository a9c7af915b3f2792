#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/engine_args.h"
#include "reprise/api/engine_stats.h"
#include "reprise/api/llm.h"
#include "reprise/api/request_timeline.h"
#include "reprise/api/sleep.h"
#include "reprise/base/json.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/engine/step_profiler.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::api {

/// A request of one AsyncEngine.
enum class AsyncRequestId : uint64_t {};

/// What a request gained in one step. Borrowed for the call that delivers it.
struct AsyncOutput {
  AsyncRequestId id{};
  std::string_view text;               // may be empty: held back, or half a character
  std::span<const int32_t> token_ids;  // of this step
  std::span<const sampling::PositionLogprobs> logprobs;  // of token_ids; empty unless asked for
  /// Of prompt tokens 1, 2, ...; with the first output that has a token, empty unless asked for.
  std::span<const sampling::PositionLogprobs> prompt_logprobs;
  bool finished = false;
  // Once finished:
  std::string finish_reason;       // "stop", "length", "abort", "error"
  engine::StopReason stop_reason;  // what stopped it beyond EOS
  std::string error;               // why finish_reason is "error"
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;
  int32_t num_cached_tokens = 0;  // of the prompt: found in the prefix cache, not computed
};
/// Called on the engine's thread: it must not block, throw or call back into the engine except for
/// abort(). The outputs of one request come in order, the finished one is the last, and the
/// callback is destroyed after it, on the engine's thread too. A callback that throws has its
/// request aborted and is not called again.
using OnAsyncOutput = std::function<void(const AsyncOutput&)>;

/// An engine with a thread of its own: requests come from any thread and answers go to callbacks.
/// A step that fails ends the requests that were in it, with a reason, and the engine goes on; a
/// lost device ends all of them and every later one at once.
class AsyncEngine {
 public:
  /// Loads, compiles, captures and seals, then starts the thread. \throws as LLM
  explicit AsyncEngine(const EngineArgs& args, const StartupObserver& observer = {});
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  /// Aborts what is unfinished (each request still gets its last output) and joins.
  ~AsyncEngine();

  /// Thread-safe. The first output may come before this returns. `arrived`: where the statistics
  /// begin to count, for callers that did something before.
  /// \throws InvalidArgument when the request can never run
  AsyncRequestId submit(std::vector<int32_t> prompt_token_ids,
                        const sampling::SamplingParams& params,
                        OnAsyncOutput on_output,
                        engine::RequestOptions options = {},
                        TimePoint arrived = std::chrono::steady_clock::now());
  /// Thread-safe; within one step. Unknown and finished ids are ignored.
  void abort(AsyncRequestId id);
  /// Thread-safe.
  [[nodiscard]] EngineStats stats() const;
  /// How often each size of batch ran as which graph since the start, most frequent first.
  /// Thread-safe; waits for the step in progress, so not from a callback.
  [[nodiscard]] std::vector<cudagraph::DispatchLedger::Row> dispatch_rows();
  /// Forgets all cached prefixes, before any request submitted later is looked at. False, and
  /// nothing happens, while a request holds blocks. Thread-safe; waits for the step in progress,
  /// so not from a callback.
  [[nodiscard]] bool reset_prefix_cache();
  /// Records steps from the next one on; false while that is done already. The same rules.
  [[nodiscard]] bool start_profile(const engine::StepProfilerOptions& options = {});
  /// Ends that and writes a trace of what was recorded as a new file in `folder`, while steps go
  /// on. Nothing when nothing records. The same rules. \throws Error when it cannot be written
  [[nodiscard]] std::optional<std::filesystem::path> stop_profile(
      const std::filesystem::path& folder);

  /// Gives memory back until wake_up(). Requests that it has end by `mode` first; those that are
  /// submitted from then on wait. Returns when it sleeps. Asleep already, it can only sleep deeper.
  /// The same rules. \throws as LLM::sleep, and goes on; Error when the engine is dead
  void sleep(SleepLevel level, SleepMode mode);
  /// Wakes these parts; with the last of them requests go on. The same rules. \throws as
  /// LLM::wake_up
  void wake_up(EngineParts parts = EngineParts::all());
  /// Thread-safe; waits for nothing.
  [[nodiscard]] bool is_sleeping() const noexcept;

  // Constant after the start, so thread-safe.
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept;
  [[nodiscard]] structured_output::GrammarCompiler& grammar_compiler() const;
  [[nodiscard]] std::string apply_chat_template(const Json& messages) const;
  [[nodiscard]] ChatPrompt render_chat(const Json& messages,
                                       const ChatTemplateOptions& options) const;
  [[nodiscard]] std::string_view chat_template() const noexcept;
  [[nodiscard]] sampling::SamplingParams default_sampling_params() const;
  [[nodiscard]] const StartupReport& startup_report() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::api
