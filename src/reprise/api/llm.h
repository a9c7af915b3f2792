#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/chat_prompt.h"
#include "reprise/api/compile_model.h"
#include "reprise/api/engine_args.h"
#include "reprise/api/sleep.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/base/json.h"
#include "reprise/config/resolution.h"
#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/engine/output_processor.h"
#include "reprise/runner/memory_profile.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/structured_output/grammar_compiler.h"

namespace reprise::api {

/// When things happened, in seconds. `time_to_first_token` counts from generate().
struct RequestMetrics {
  double time_to_first_token = 0;
  double latency = 0;  // until the last token
  int32_t num_output_tokens = 0;

  /// Mean time per output token after the first; 0 for fewer than two.
  [[nodiscard]] double time_per_output_token() const noexcept {
    return num_output_tokens > 1 ? (latency - time_to_first_token) / (num_output_tokens - 1) : 0;
  }
};

struct RequestOutput {
  std::string prompt;
  std::vector<int32_t> prompt_token_ids;
  /// Of prompt tokens 1, 2, ...: the first has none. Empty unless asked for.
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  engine::CompletionOutput output;
  int32_t num_cached_tokens = 0;  // of the prompt: found in the prefix cache, not computed
  RequestMetrics metrics;
};

/// A part of a start-up.
struct StartupStage {
  std::string name;
  double seconds = 0;
};

/// What was decided and measured while an engine started. Times in seconds.
struct StartupReport {
  std::string device;
  std::string device_reason;  // why not another one that this build has; may be empty
  std::string cpu_isa;
  std::string dtype;
  int64_t num_parameters = 0;
  size_t weight_bytes = 0;
  int64_t num_kv_blocks = 0;
  int32_t kv_block_size = 0;
  size_t kv_cache_bytes = 0;
  int32_t max_model_len = 0;
  int32_t max_logprobs = 0;  // that a request may ask for
  double tokenizer_seconds = 0;
  double weights_seconds = 0;
  double compile_seconds = 0;  // tracing, compiling, or loading what was compiled before
  double total_seconds = 0;
  std::vector<StartupStage> stages;  // one after the other; together almost total_seconds
  const attention::BackendInfo* attention = nullptr;  // of the list of backends
  config::ResolvedConfig resolved;
  CompilationReport compilation;
  cudagraph::CaptureReport capture;
  size_t graph_bytes = 0;  // executables and their pool
  /// Of a GPU; nullopt where the cache was not sized by it.
  std::optional<engine::MemoryProfile> memory_profile;
  std::optional<engine::MemoryParts> memory;  // of a GPU, after the captures
  std::vector<std::string> warnings;
};

/// Called while an engine starts; any may be empty.
struct StartupObserver {
  std::function<void(const cudagraph::CaptureRecord&, size_t done, size_t total)> on_capture;
  std::function<void(std::string_view name)> on_stage;  // that begins
  /// Bytes of weights as they are stored; tied ones are never read, so it may end below the total.
  std::function<void(uint64_t done, uint64_t total)> on_weights;
};

/// Text that one request gained in one step. `prompt_index` counts the prompts of the call.
struct StreamDelta {
  size_t prompt_index = 0;
  std::string_view text;
  bool finished = false;
};

/// An engine for offline use: load once, generate as often as wanted. One thread at a time.
class LLM {
 public:
  /// Loads, captures and seals.
  /// \throws InvalidArgument (bad options, files), OutOfMemory, device::DeviceError
  explicit LLM(const EngineArgs& args, const StartupObserver& observer = {});
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;
  ~LLM();

  /// Answers to all prompts, batched, in the order of the prompts. Text in a prompt that spells a
  /// control token counts as that token, as in vLLM. `on_delta` sees text as it comes.
  /// \throws InvalidArgument when a prompt or parameter can never run
  std::vector<RequestOutput> generate(std::span<const std::string> prompts,
                                      const sampling::SamplingParams& params,
                                      const std::function<void(const StreamDelta&)>& on_delta = {});
  std::vector<RequestOutput> generate_token_ids(
      std::span<const std::vector<int32_t>> prompts,
      const sampling::SamplingParams& params,
      const std::function<void(const StreamDelta&)>& on_delta = {});

  /// Gives memory back until wake_up(); what runs steps must not until then. Addresses stay, so
  /// graphs do too; the prefix cache is forgotten. Asleep already, it can only sleep deeper.
  /// \throws InvalidArgument while a request is unfinished, or where the device cannot do that;
  /// as EngineMemory::sleep, and nothing has changed
  void sleep(SleepLevel level = SleepLevel::offload);
  /// Wakes these parts, discarded weights by reading them again; with the last of them the engine
  /// is awake. \throws as LLM when weights cannot be read, as EngineMemory::wake_up: a part sleeps
  /// on
  void wake_up(EngineParts parts = EngineParts::all());
  /// What sleeps.
  [[nodiscard]] EngineParts sleeping() const noexcept;

  /// The prompt the model's chat template makes of [{"role": ..., "content": ...}, ...].
  /// \throws InvalidArgument when the model has no template or the template refuses
  [[nodiscard]] std::string apply_chat_template(const Json& messages) const;
  /// The same with options, and with what of it must be tokenized as text. \throws as render_chat
  [[nodiscard]] ChatPrompt render_chat(const Json& messages,
                                       const ChatTemplateOptions& options) const;

  /// The sampling parameters the model's authors recommend (generation_config.json), else vLLM's
  /// defaults.
  [[nodiscard]] sampling::SamplingParams default_sampling_params() const;

  /// The template that conversations are rendered with; empty when there is none.
  [[nodiscard]] std::string_view chat_template() const noexcept;

  [[nodiscard]] const StartupReport& startup_report() const noexcept;
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept;
  /// For RequestOptions::constraint. Thread-safe; has no threads before it is asked for.
  [[nodiscard]] structured_output::GrammarCompiler& grammar_compiler() const;
  [[nodiscard]] const cudagraph::DispatchLedger& ledger() const noexcept;
  /// For code that drives steps itself.
  [[nodiscard]] engine::EngineCore& core() noexcept;
  [[nodiscard]] engine::ModelRunner& runner() noexcept;

 private:
  friend struct CompiledModel compile_only(const EngineArgs& args);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What compiling a model comes to, with nothing captured and nothing run.
struct CompiledModel {
  StartupReport report;
  CompilationStages stages;  // empty where the level compiles nothing or the trace was refused
};

/// Loads and compiles as LLM would, but anew, and without leaving anything in the compile cache.
/// Needs no tokenizer. \throws as LLM
[[nodiscard]] CompiledModel compile_only(const EngineArgs& args);

}  // namespace reprise::api
