#include "reprise/chat_template/chat_template.h"

#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

// Small limits make an input cheap, so that a run sees many of them.
constexpr chat_template::Limits kTemplateLimits = {.max_source_bytes = 4096,
                                                   .max_parse_depth = 24,
                                                   .max_steps = 2000,
                                                   .max_output_bytes = 4096,
                                                   .max_live_bytes = 64 << 10,
                                                   .max_call_depth = 8,
                                                   .max_eval_depth = 64,
                                                   .max_value_depth = 16,
                                                   .max_range = 100};

const Json& messages() {
  static const Json kMessages = Json::array(
      {{{"role", "system"}, {"content", "Be brief."}},
       {{"role", "user"},
        {"content", Json::array({{{"type", "text"}, {"text", "h\u00e9 <|x|>"}}})}},
       {{"role", "assistant"},
        {"content", nullptr},
        {"tool_calls",
         Json::array({{{"id", "1"},
                       {"function", {{"name", "f"}, {"arguments", {{"a", 1}, {"b", 2.5}}}}}}})}}});
  return kMessages;
}

}  // namespace

void chat_template(std::string_view input) {
  using chat_template::TemplateError;
  try {
    const auto parsed = chat_template::ChatTemplate::parse(input, kTemplateLimits);
    chat_template::RenderOptions options{.add_generation_prompt = true, .bos_token = "<s>"};
    options.now = std::tm{.tm_mday = 1, .tm_year = 126};
    options.tools = Json::array({{{"type", "function"}, {"function", {{"name", "f"}}}}});
    const std::string text = parsed.render(messages(), options);
    require(text.size() <= kTemplateLimits.max_output_bytes,
            "a rendered text has at most the allowed size");
    require(parsed.render(messages(), options) == text, "the same variables give the same text");
  } catch (const TemplateError&) {
    // The template is refused with a named error, as intended.
  }
}

}  // namespace reprise::fuzz
