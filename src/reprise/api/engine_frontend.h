#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reprise/api/options/startup_report.h"
#include "reprise/api/text/chat_prompt.h"
#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::kv_cache {
class KvTransfer;
}

namespace reprise::lora {
class AdapterRegistry;
}

namespace reprise::structured_output {
class GrammarCompiler;
}

namespace reprise::output_parsers {
struct TemplateSamples;
}

namespace reprise::tokenizer {
class Tokenizer;
}

namespace reprise::api {

struct LoadedEngine;

/// The part that LLM and AsyncEngine have in common: they own a loaded engine and report facts
/// about its model. These facts are constant after the start, so reading them is thread-safe.
class EngineFrontend {
 public:
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept;
  /// The source of the template that renders conversations; empty when there is none.
  [[nodiscard]] std::string_view chat_template() const noexcept;
  /// The text that the template writes for a sample conversation. It shows which parsers fit the
  /// model.
  [[nodiscard]] output_parsers::TemplateSamples chat_template_samples() const;
  /// The prompt that the chat template makes from [{"role": ..., "content": ...}, ...].
  /// \throws InvalidArgument when the model has no template or the template refuses the messages
  [[nodiscard]] std::string apply_chat_template(const Json& messages) const;
  /// Like apply_chat_template(), with options. The result also has the places at which control
  /// tokens are plain text. \throws as api::render_chat
  [[nodiscard]] ChatPrompt render_chat(Json messages,
                                       const ChatTemplateOptions& options,
                                       const WorkLimit& work = {}) const;
  /// The sampling parameters that the model's authors recommend (generation_config.json); vLLM's
  /// defaults for those that they do not name.
  [[nodiscard]] sampling::SamplingParams default_sampling_params() const;
  /// Makes constraints for RequestOptions::constraint. The first call starts the compiler's
  /// threads.
  [[nodiscard]] structured_output::GrammarCompiler& grammar_compiler() const;
  [[nodiscard]] const StartupReport& startup_report() const noexcept;
  /// The adapters that requests may name; nullptr: the engine was started without --enable-lora.
  [[nodiscard]] lora::AdapterRegistry* adapters() const noexcept;
  /// Exchanges prompts with other engines; nullptr: the engine was started without
  /// --kv-transfer-config. Thread-safe.
  [[nodiscard]] kv_cache::KvTransfer* kv_transfer() const noexcept;
  /// The options with the adapter of this name. May read the adapter's folder. \throws
  /// InvalidArgument for an unknown name, FileError
  [[nodiscard]] scheduler::RequestOptions with_adapter(
      std::string_view name, scheduler::RequestOptions options = {}) const;

 protected:
  explicit EngineFrontend(std::unique_ptr<LoadedEngine> engine);
  EngineFrontend(EngineFrontend&&) noexcept;
  EngineFrontend& operator=(EngineFrontend&&) noexcept;
  ~EngineFrontend();

  std::unique_ptr<LoadedEngine> engine_;
};

}  // namespace reprise::api
