#include "reprise/api/async_engine.h"

#include <utility>

#include "reprise/api/async_engine_loop.h"
#include "reprise/engine/bad_words.h"
#include "reprise/engine/step_trace.h"

namespace reprise::api {

struct AsyncEngine::Impl {
  Impl(const EngineArgs& args, const StartupObserver& observer)
      : llm(args, observer), loop(llm.core(), llm.runner(), llm.tokenizer()) {}

  LLM llm;
  AsyncEngineLoop loop;  // ends before the LLM it steps
};

AsyncEngine::AsyncEngine(const EngineArgs& args, const StartupObserver& observer)
    : impl_(std::make_unique<Impl>(args, observer)) {}

AsyncEngine::~AsyncEngine() = default;

AsyncRequestId AsyncEngine::submit(std::vector<int32_t> prompt_token_ids,
                                   const sampling::SamplingParams& params,
                                   OnAsyncOutput on_output,
                                   engine::RequestOptions options,
                                   TimePoint arrived) {
  sampling::SamplingParams complete = params;
  engine::tokenize_bad_words(complete, tokenizer());
  return impl_->loop.submit(
      std::move(prompt_token_ids), complete, std::move(on_output), std::move(options), arrived);
}

void AsyncEngine::abort(AsyncRequestId id) { impl_->loop.abort(id); }

bool AsyncEngine::reset_prefix_cache() {
  bool is_reset = false;
  impl_->loop.run_between_steps(
      [&is_reset](engine::EngineCore& core) { is_reset = core.reset_prefix_cache(); });
  return is_reset;
}

bool AsyncEngine::start_profile(const engine::StepProfilerOptions& options) {
  bool has_started = false;
  impl_->loop.run_between_steps([&](engine::EngineCore& core) {
    has_started = core.clock().profiler.start(options);
  });
  return has_started;
}

std::optional<std::filesystem::path> AsyncEngine::stop_profile(const std::filesystem::path& folder) {
  std::optional<engine::StepProfile> profile;
  impl_->loop.run_between_steps(
      [&profile](engine::EngineCore& core) { profile = core.clock().profiler.stop(); });
  if (!profile) return std::nullopt;
  return engine::save_trace(*profile, folder);
}

EngineStats AsyncEngine::stats() const { return impl_->loop.stats(); }

structured_output::GrammarCompiler& AsyncEngine::grammar_compiler() const {
  return impl_->llm.grammar_compiler();
}
const tokenizer::Tokenizer& AsyncEngine::tokenizer() const noexcept {
  return impl_->llm.tokenizer();
}

std::string AsyncEngine::apply_chat_template(const Json& messages) const {
  return impl_->llm.apply_chat_template(messages);
}

ChatPrompt AsyncEngine::render_chat(const Json& messages, const ChatTemplateOptions& options) const {
  return impl_->llm.render_chat(messages, options);
}

sampling::SamplingParams AsyncEngine::default_sampling_params() const {
  return impl_->llm.default_sampling_params();
}

const StartupReport& AsyncEngine::startup_report() const noexcept {
  return impl_->llm.startup_report();
}

}  // namespace reprise::api
