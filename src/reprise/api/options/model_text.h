#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/model_files.h"
#include "reprise/api/text/chat_prompt.h"
#include "reprise/api/text/chat_template_source.h"
#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/structured_output/grammar_compiler.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/weights/config/generation_config.h"

namespace reprise::api {

/// The text side of a model: tokenizer, chat template, recommended sampling parameters and
/// grammars. Constant after construction, so thread-safe.
class ModelText {
 public:
  /// `files`: those of args.model. `end_token_ids`: the tokens that end an answer.
  /// \throws FileError, InvalidArgument
  ModelText(const EngineArgs& args,
            const std::shared_ptr<const ModelFiles>& files,
            weights::GenerationConfig recommended,
            std::vector<int32_t> end_token_ids,
            int32_t vocab_size);

  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  /// The source of the template that renders conversations; empty when there is none.
  [[nodiscard]] std::string_view chat_template() const noexcept;
  /// What the template writes for a sample conversation; empty texts when there is no template.
  [[nodiscard]] output_parsers::TemplateSamples chat_template_samples() const;
  /// Renders a conversation of the OpenAI API. \throws InvalidArgument when there is no template;
  /// as messages_for_template and api::render_chat
  [[nodiscard]] ChatPrompt render_chat(Json messages,
                                       const ChatTemplateOptions& options,
                                       const WorkLimit& work) const;
  /// The sampling parameters that the model's authors recommend; vLLM's defaults for the others.
  [[nodiscard]] sampling::SamplingParams default_sampling_params() const;
  /// Makes constraints for RequestOptions::constraint. The first call starts the compiler's
  /// threads.
  [[nodiscard]] structured_output::GrammarCompiler& grammar_compiler() const;

 private:
  std::string model_name_;                                 // used in messages
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;  // shared with the grammar compiler
  std::optional<SourcedChatTemplate> chat_template_;
  ContentFormat content_format_;
  weights::GenerationConfig recommended_;
  std::vector<int32_t> end_token_ids_;
  int32_t vocab_size_;
  mutable std::once_flag grammar_compiler_made_;
  mutable std::unique_ptr<structured_output::GrammarCompiler> grammar_compiler_;
};

/// The recommended sampling parameters that `args` select. `files`: those of args.model.
/// \throws FileError, InvalidArgument
[[nodiscard]] weights::GenerationConfig load_generation_config(
    const EngineArgs& args, const std::shared_ptr<const ModelFiles>& files);

}  // namespace reprise::api
