#include "reprise/api/model_text.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"
#include "reprise/structured_output/token_bytes.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {
namespace {

/// Refuses files of the tokenizer that are links to somewhere else, as ModelDirectory does for
/// weights: a folder from a stranger must not make the server read and show other files.
void check_tokenizer_files(const weights::ModelDirectory& directory) {
  for (const char* name : {"tokenizer.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "chat_template.jinja"}) {
    if (directory.contains(name)) (void)directory.open(name);
  }
}

std::filesystem::path tokenizer_folder(const EngineArgs& args) {
  const weights::ModelDirectory directory(args.tokenizer ? *args.tokenizer : args.model);
  check_tokenizer_files(directory);
  if (args.tokenizer) return *args.tokenizer;
  if (!directory.contains("tokenizer.json")) {
    throw FileError("E_TOKENIZER",
                    directory.path_of("tokenizer.json"),
                    "",
                    "no such file; --tokenizer DIR uses the tokenizer of another folder");
  }
  return directory.path();
}

}  // namespace

ModelText::ModelText(const EngineArgs& args,
                     weights::GenerationConfig recommended,
                     std::vector<int32_t> end_token_ids,
                     int32_t vocab_size)
    : model_name_(args.model.string()),
      recommended_(std::move(recommended)),
      end_token_ids_(std::move(end_token_ids)),
      vocab_size_(vocab_size) {
  const std::filesystem::path tokenizer_path = tokenizer_folder(args);
  tokenizer_ =
      std::make_shared<const tokenizer::Tokenizer>(tokenizer::Tokenizer::load(tokenizer_path));
  chat_template_ = load_chat_template(args.chat_template, tokenizer_->config(), tokenizer_path);
}

std::string_view ModelText::chat_template() const noexcept {
  return chat_template_ ? std::string_view(chat_template_->source) : std::string_view();
}

ChatPrompt ModelText::render_chat(const Json& messages, const ChatTemplateOptions& options) const {
  if (options.chat_template) {
    const auto given = chat_template::ChatTemplate::parse(*options.chat_template);
    return api::render_chat(given, *tokenizer_, messages, options);
  }
  if (!chat_template_) {
    throw InvalidArgument(fmt::format(
        "{}: this model brings no chat template; use a plain prompt, or --chat-template",
        model_name_));
  }
  return api::render_chat(chat_template_->parsed, *tokenizer_, messages, options);
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
    // The captures are copies: a compilation that never ends outlives the engine.
    auto make = [tokenizer = tokenizer_, vocab_size = vocab_size_, end = end_token_ids_] {
      return structured_output::create_grammar_backend(
          structured_output::vocabulary_bytes(*tokenizer, vocab_size, end));
    };
    grammar_compiler_ = std::make_unique<structured_output::GrammarCompiler>(std::move(make));
  });
  return *grammar_compiler_;
}

weights::GenerationConfig load_generation_config(const EngineArgs& args) {
  const Json& overrides = args.override_generation_config;
  const weights::ModelDirectory model(args.model);
  if (args.generation_config == "auto") return weights::load_generation_config(model, overrides);
  if (args.generation_config != "vllm") {
    const weights::ModelDirectory folder(args.generation_config);
    return weights::load_generation_config(folder, overrides);
  }
  weights::GenerationConfig config =
      weights::parse_generation_config(overrides.dump(), "--override-generation-config");
  // The tokens that end an answer are no recommendation: they stay the model's, as in vLLM.
  if (config.eos_token_ids.empty()) {
    config.eos_token_ids = weights::load_generation_config(model).eos_token_ids;
  }
  return config;
}

}  // namespace reprise::api
