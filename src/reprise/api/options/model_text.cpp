#include "reprise/api/options/model_text.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/api/text/template_messages.h"
#include "reprise/base/error.h"
#include "reprise/structured_output/token_bytes.h"

namespace reprise::api {
ModelText::ModelText(const EngineArgs& args,
                     const std::shared_ptr<const ModelFiles>& files,
                     weights::GenerationConfig recommended,
                     std::vector<int32_t> end_token_ids,
                     int32_t vocab_size)
    : model_name_(args.model.string()),
      content_format_(args.chat_template_content_format),
      recommended_(std::move(recommended)),
      end_token_ids_(std::move(end_token_ids)),
      vocab_size_(vocab_size) {
  const std::filesystem::path tokenizer_path = args.tokenizer.value_or(args.model);
  tokenizer_ = std::make_shared<const tokenizer::Tokenizer>(
      open_model_files(tokenizer_path, files)->tokenizer());
  chat_template_ = load_chat_template(args.chat_template, tokenizer_->config(), tokenizer_path);
}

std::string_view ModelText::chat_template() const noexcept {
  return chat_template_ ? std::string_view(chat_template_->source) : std::string_view();
}

output_parsers::TemplateSamples ModelText::chat_template_samples() const {
  if (!chat_template_) return {};
  return sample_template(
      chat_template_->source, chat_template_->parsed, chat_template_->form, tokenizer_->config());
}

ChatPrompt ModelText::render_chat(Json messages,
                                  const ChatTemplateOptions& options,
                                  const WorkLimit& work) const {
  const ContentFormat format = options.content_format.value_or(content_format_);
  const auto render = [&](const chat_template::ChatTemplate& parsed, const TemplateForm& form) {
    work.check();
    return api::render_chat(parsed,
                            *tokenizer_,
                            messages_for_template(std::move(messages), form, format),
                            options,
                            work);
  };
  if (options.chat_template) {
    const auto given = chat_template::ChatTemplate::parse(*options.chat_template);
    return render(given, find_template_form(given, tokenizer_->config(), work));
  }
  if (!chat_template_) {
    throw InvalidArgument(fmt::format(
        "{}: this model brings no chat template; use a plain prompt, or --chat-template",
        model_name_));
  }
  return render(chat_template_->parsed, chat_template_->form);
}

sampling::SamplingParams ModelText::default_sampling_params() const {
  const weights::GenerationConfig& recommended = recommended_;
  sampling::SamplingParams params;
  if (recommended.do_sample == false) params.temperature = 0;
  if (recommended.temperature) params.temperature = static_cast<float>(*recommended.temperature);
  if (recommended.top_k) params.top_k = static_cast<int>(*recommended.top_k);
  if (recommended.top_p) params.top_p = static_cast<float>(*recommended.top_p);
  if (recommended.min_p) params.min_p = static_cast<float>(*recommended.min_p);
  if (recommended.repetition_penalty) {
    params.repetition_penalty = static_cast<float>(*recommended.repetition_penalty);
  }
  if (recommended.max_new_tokens) params.max_tokens = static_cast<int>(*recommended.max_new_tokens);
  return params;
}

structured_output::GrammarCompiler& ModelText::grammar_compiler() const {
  std::call_once(grammar_compiler_made_, [this] {
    // The lambda captures copies, because a compilation that never ends outlives the engine.
    auto make = [tokenizer = tokenizer_, vocab_size = vocab_size_, end = end_token_ids_] {
      return structured_output::create_grammar_backend(
          structured_output::vocabulary_bytes(*tokenizer, vocab_size, end));
    };
    grammar_compiler_ = std::make_unique<structured_output::GrammarCompiler>(std::move(make));
  });
  return *grammar_compiler_;
}

weights::GenerationConfig load_generation_config(const EngineArgs& args,
                                                 const std::shared_ptr<const ModelFiles>& files) {
  const Json& overrides = args.override_generation_config;
  if (args.generation_config == "auto") return files->generation_config(overrides);
  if (args.generation_config != "vllm") {
    return open_model_files(args.generation_config, files)->generation_config(overrides);
  }
  weights::GenerationConfig config =
      weights::parse_generation_config(overrides.dump(), "--override-generation-config");
  // The tokens that end an answer are not a recommendation: as in vLLM, they always come from the
  // model.
  if (config.eos_token_ids.empty()) {
    config.eos_token_ids = files->generation_config().eos_token_ids;
  }
  return config;
}

}  // namespace reprise::api
