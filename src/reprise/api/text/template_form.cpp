#include "reprise/api/text/template_form.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "reprise/base/json.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/tokenizer/tokenizer_config.h"

namespace reprise::api {
namespace {

using output_parsers::kSampleContent;
using output_parsers::kSampleQuestion;
using output_parsers::kSampleReasoning;
using output_parsers::kSampleToolName;

constexpr std::string_view kFirstPart = "samplefirst";
constexpr std::string_view kSecondPart = "samplesecond";
constexpr std::string_view kCallId =
    "sample123";  // Mistral's templates want nine letters or digits

enum class Arguments : uint8_t { object, text };

Json with_reasoning(Json message) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"})
    message[name] = kSampleReasoning;
  return message;
}

Json with_call(Json message, Arguments form) {
  const Json arguments = output_parsers::sample_arguments();
  message["tool_calls"] = Json::array(
      {{{"id", kCallId},
        {"type", "function"},
        {"function",
         {{"name", kSampleToolName},
          {"arguments", form == Arguments::object ? arguments : Json(arguments.dump())}}}}});
  return message;
}

Json sample_part(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

class TemplateProbe {
 public:
  TemplateProbe(const chat_template::ChatTemplate& chat_template,
                const tokenizer::TokenizerConfig& tokens,
                WorkLimit work)
      : chat_template_(chat_template), tokens_(tokens), work_(std::move(work)) {}

  struct Options {
    bool with_tools = false;
    bool add_generation_prompt = false;
  };

  /// Empty if the template refuses the conversation.
  std::string render(const Json& messages, Options options) {
    if (is_too_dear_) return {};
    chat_template::RenderOptions render{.add_generation_prompt = options.add_generation_prompt,
                                        .bos_token = tokens_.bos_token.value_or(""),
                                        .eos_token = tokens_.eos_token.value_or(""),
                                        .work = work_};
    if (options.with_tools) render.tools = output_parsers::sample_tools();
    try {
      return chat_template_.render(messages, render);
    } catch (const chat_template::TemplateError& error) {
      is_too_dear_ = error.is_limit();
    } catch (const InvalidArgument&) {
    }
    return {};
  }

  /// The text after the question, if it contains all of `words` and none of `absent`.
  std::string after_question(const Json& messages,
                             Options options,
                             std::initializer_list<std::string_view> words,
                             std::initializer_list<std::string_view> absent = {}) {
    const std::string text = render(messages, options);
    const size_t at = text.rfind(kSampleQuestion);
    if (at == std::string::npos) return {};
    std::string after = text.substr(at + kSampleQuestion.size());
    return holds(after, words, absent) ? after : std::string();
  }

  /// Whether the template has read the lists of parts instead of printing them as Python or JSON.
  static bool has_read(std::string_view text) {
    return holds(text, {}, {"'type'", "\"type\": \"text\"", "\"type\":\"text\""});
  }

  static bool holds(std::string_view text,
                    std::initializer_list<std::string_view> words,
                    std::initializer_list<std::string_view> absent = {}) {
    const auto is_in = [text](std::string_view word) { return text.find(word) != text.npos; };
    return !text.empty() && std::all_of(words.begin(), words.end(), is_in) &&
           std::none_of(absent.begin(), absent.end(), is_in);
  }

  /// Must be called for user and assistant before the other functions, whose conversations have
  /// messages of both. Returns whether the template shows such a message in any form.
  bool find_content(std::string_view role, Arguments arguments = Arguments::object) {
    const auto shows = [&](Json content, std::initializer_list<std::string_view> words) {
      const Json messages = conversation_with(role, std::move(content), arguments);
      const std::string text = render(messages, {.with_tools = role == "tool"});
      return holds(text, words) && has_read(text);
    };
    ContentForm& found = role == "user"        ? form.user
                         : role == "assistant" ? form.assistant
                         : role == "tool"      ? form.tool
                                               : form.system;
    const Json first = sample_part(kFirstPart);
    found.takes_parts =
        shows(Json::array({first, sample_part(kSecondPart)}), {kFirstPart, kSecondPart});
    const bool shows_text = shows(kSampleContent, {kSampleContent});
    const bool shows_a_part = !shows_text && shows(Json::array({first}), {kFirstPart});
    // If the template refuses the role in any form, leave it as it is: the template will report
    // that itself.
    found.takes_text = !shows_a_part;
    found.takes_one_part = shows_a_part && !found.takes_parts;
    return shows_text || shows_a_part || found.takes_parts;
  }

  /// Whether the template shows a system message that comes after a question, both at the end of
  /// the conversation and inside it.
  bool shows_late_system() {
    const Json late = message("system", kSampleContent, form.system);
    const auto shows = [&](const Json& messages) {
      return holds(render(messages, {.add_generation_prompt = true}),
                   {kSampleQuestion, kSampleContent});
    };
    return shows(Json::array({question(), late})) &&
           shows(Json::array({question(), answer(kFirstPart), late, question()}));
  }

  /// Whether the template renders a conversation of one question, within the limits. If not, the
  /// results for other conversations prove nothing.
  bool renders_questions() {
    return holds(render(Json::array({question()}), {}), {kSampleQuestion}) && !is_too_dear_;
  }

  bool takes_arguments(Arguments arguments) { return !calling(arguments).empty(); }

  /// The text after the question in an answer that calls the sample tool.
  std::string calling(Arguments arguments) {
    return after_question(Json::array({question(), with_call(answer(""), arguments)}),
                          {.with_tools = true},
                          {kSampleToolName, "sample_key", "sample value"},
                          // Python's spelling of an object, and a JSON text that the template
                          // escaped a second time
                          {"'sample_key':", "\\\"sample_key\\\""});
  }

  /// The text after the question in an answer with reasoning; empty if the template leaves
  /// reasoning out.
  std::string reasoning(Arguments arguments) {
    const Json thoughtful = with_reasoning(answer(kSampleContent));
    std::string text = after_question(
        Json::array({question(), thoughtful}), {}, {kSampleReasoning, kSampleContent});
    if (!text.empty()) return text;
    // Some templates keep only the reasoning that led to calls.
    return after_question(
        Json::array({question(), with_call(with_reasoning(answer("")), arguments)}),
        {.with_tools = true},
        {kSampleReasoning});
  }

  bool takes_thinking_parts() {
    const Json parts = Json::array(
        {{{"type", "thinking"}, {"thinking", kSampleReasoning}}, sample_part(kSampleContent)});
    const Json messages = Json::array({question(), {{"role", "assistant"}, {"content", parts}}});
    // Some templates print a part that they do not know as JSON.
    return has_read(after_question(
        messages, {}, {kSampleReasoning, kSampleContent}, {"'thinking'", "\"thinking\""}));
  }

  Json question() const { return message("user", kSampleQuestion, form.user); }
  Json answer(std::string_view text) const { return message("assistant", text, form.assistant); }

  TemplateForm form;

 private:
  static Json message(std::string_view role, std::string_view text, const ContentForm& takes) {
    return {{"role", role},
            {"content", takes.takes_text ? Json(text) : Json::array({sample_part(text)})}};
  }

  /// A conversation in which a message of `role` has this content.
  Json conversation_with(std::string_view role, Json content, Arguments arguments) const {
    Json message = {{"role", role}, {"content", std::move(content)}};
    if (role == "system") return Json::array({message, question()});
    if (role == "user") return Json::array({message});
    if (role == "assistant") return Json::array({question(), message, question()});
    message["tool_call_id"] = kCallId;
    message["name"] = kSampleToolName;
    return Json::array({question(), with_call(answer(""), arguments), message});
  }

  const chat_template::ChatTemplate& chat_template_;
  const tokenizer::TokenizerConfig& tokens_;
  WorkLimit work_;
  bool is_too_dear_ = false;
};

}  // namespace

const ContentForm& TemplateForm::content_of(std::string_view role) const noexcept {
  if (role == "user") return user;
  if (role == "assistant") return assistant;
  return role == "tool" ? tool : system;
}

TemplateForm find_template_form(const chat_template::ChatTemplate& chat_template,
                                const tokenizer::TokenizerConfig& tokens,
                                const WorkLimit& work) {
  TemplateProbe probe(chat_template, tokens, work);
  probe.find_content("user");
  probe.find_content("assistant");
  TemplateForm& form = probe.form;
  const bool takes_objects = probe.takes_arguments(Arguments::object);
  form.takes_text_arguments = probe.takes_arguments(Arguments::text);
  // Templates that leave calls out take any form; objects are the usual one.
  form.takes_object_arguments = takes_objects || !form.takes_text_arguments;
  const Arguments arguments = form.takes_object_arguments ? Arguments::object : Arguments::text;
  probe.find_content("tool", arguments);
  const bool shows_system = probe.find_content("system");
  const bool shows_late_system = probe.shows_late_system();
  if (probe.renders_questions()) {
    form.takes_system = shows_system;
    form.takes_late_system = shows_late_system;
  }
  form.takes_reasoning = !probe.reasoning(arguments).empty();
  form.takes_thinking_parts = form.assistant.takes_parts && probe.takes_thinking_parts();
  return form;
}

output_parsers::TemplateSamples sample_template(std::string_view source,
                                                const chat_template::ChatTemplate& chat_template,
                                                const TemplateForm& form,
                                                const tokenizer::TokenizerConfig& tokens) {
  TemplateProbe probe(chat_template, tokens, {});
  probe.form = form;
  const Arguments arguments = form.takes_object_arguments ? Arguments::object : Arguments::text;
  const Json asked = Json::array({probe.question()});
  return {.source = std::string(source),
          .instructions = probe.render(asked, {.with_tools = true, .add_generation_prompt = true}),
          .generation = probe.after_question(asked, {.add_generation_prompt = true}, {}),
          .call = probe.calling(arguments),
          .reasoning = probe.reasoning(arguments)};
}

}  // namespace reprise::api
