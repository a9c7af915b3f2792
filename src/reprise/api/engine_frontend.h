#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reprise/api/chat_prompt.h"
#include "reprise/api/startup_report.h"
#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::structured_output {
class GrammarCompiler;
}

namespace reprise::tokenizer {
class Tokenizer;
}

namespace reprise::api {

struct LoadedEngine;

/// What LLM and AsyncEngine have in common: the loaded engine that they own, and what it says about
/// its model. All of that is constant after the start, so thread-safe.
class EngineFrontend {
 public:
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept;
  /// The template that conversations are rendered with; empty when there is none.
  [[nodiscard]] std::string_view chat_template() const noexcept;
  /// The prompt that the chat template makes of [{"role": ..., "content": ...}, ...].
  /// \throws InvalidArgument when the model has no template or the template refuses
  [[nodiscard]] std::string apply_chat_template(const Json& messages) const;
  /// As apply_chat_template(), with options, and with the places whose control tokens are plain
  /// text. \throws as api::render_chat
  [[nodiscard]] ChatPrompt render_chat(const Json& messages,
                                       const ChatTemplateOptions& options,
                                       const WorkLimit& work = {}) const;
  /// The sampling parameters the model's authors recommend (generation_config.json), else vLLM's
  /// defaults.
  [[nodiscard]] sampling::SamplingParams default_sampling_params() const;
  /// For RequestOptions::constraint. Its threads start when this is called first.
  [[nodiscard]] structured_output::GrammarCompiler& grammar_compiler() const;
  [[nodiscard]] const StartupReport& startup_report() const noexcept;

 protected:
  explicit EngineFrontend(std::unique_ptr<LoadedEngine> engine);
  EngineFrontend(EngineFrontend&&) noexcept;
  EngineFrontend& operator=(EngineFrontend&&) noexcept;
  ~EngineFrontend();

  std::unique_ptr<LoadedEngine> engine_;
};

}  // namespace reprise::api
