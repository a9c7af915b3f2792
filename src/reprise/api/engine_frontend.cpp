#include "reprise/api/engine_frontend.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/model_text.h"
#include "reprise/base/error.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/output_parsers/choose_parsers.h"

namespace reprise::api {

EngineFrontend::EngineFrontend(std::unique_ptr<LoadedEngine> engine) : engine_(std::move(engine)) {}
EngineFrontend::EngineFrontend(EngineFrontend&&) noexcept = default;
EngineFrontend& EngineFrontend::operator=(EngineFrontend&&) noexcept = default;
EngineFrontend::~EngineFrontend() = default;

const tokenizer::Tokenizer& EngineFrontend::tokenizer() const noexcept {
  return engine_->text->tokenizer();
}

std::string_view EngineFrontend::chat_template() const noexcept {
  return engine_->text->chat_template();
}

output_parsers::TemplateSamples EngineFrontend::chat_template_samples() const {
  return engine_->text->chat_template_samples();
}

std::string EngineFrontend::apply_chat_template(const Json& messages) const {
  return render_chat(messages, {}).text;
}

ChatPrompt EngineFrontend::render_chat(Json messages,
                                       const ChatTemplateOptions& options,
                                       const WorkLimit& work) const {
  return engine_->text->render_chat(std::move(messages), options, work);
}

sampling::SamplingParams EngineFrontend::default_sampling_params() const {
  return engine_->text->default_sampling_params();
}

structured_output::GrammarCompiler& EngineFrontend::grammar_compiler() const {
  return engine_->text->grammar_compiler();
}

const StartupReport& EngineFrontend::startup_report() const noexcept { return engine_->report; }

kv_cache::KvTransfer* EngineFrontend::kv_transfer() const noexcept {
  return engine_->kv_transfer.get();
}

lora::AdapterRegistry* EngineFrontend::adapters() const noexcept { return engine_->adapters.get(); }

scheduler::RequestOptions EngineFrontend::with_adapter(std::string_view name,
                                                       scheduler::RequestOptions options) const {
  options.adapter = adapters() == nullptr ? nullptr : adapters()->find(name);
  if (options.adapter == nullptr) {
    throw InvalidArgument(
        fmt::format("there is no adapter '{}'; give it with --enable-lora --lora-modules {}=FOLDER",
                    name,
                    name));
  }
  options.lora_id = options.adapter->id();
  options.lora_name = options.adapter->name();
  return options;
}

}  // namespace reprise::api
