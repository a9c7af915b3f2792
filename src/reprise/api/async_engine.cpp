#include "reprise/api/async_engine.h"

#include <utility>

#include "reprise/api/async_engine_loop.h"
#include "reprise/engine/bad_words.h"

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

bool AsyncEngine::reset_prefix_cache() { return impl_->loop.reset_prefix_cache(); }

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
