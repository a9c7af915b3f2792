#include "reprise/output_parsers/reasoning_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/output_parsers/harmony_parser.h"
#include "reprise/output_parsers/marker_scanner.h"
#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {
namespace {

/// <think>...</think>, of most models.
ReasoningFormat think_tags(std::string_view name, std::string_view models, bool begins_inside) {
  return {.name = name,
          .models = models,
          .starts = {"<think>"},
          .ends = {"</think>"},
          .begins_inside = begins_inside};
}

/// Finds the tool calls at the end of a text: calls after which only blanks follow.
class LastCalls {
 public:
  explicit LastCalls(const CreateOutputParser& create) : create_(create), parser_(create()) {}

  void push(std::string_view text) {
    // Byte by byte, because a delta does not tell the order of its content and its calls.
    for (size_t i = 0; i < text.size(); ++i) {
      MessageDelta delta;
      parser_->push(text.substr(i, 1), delta);
      take(delta);
    }
  }

  void report(MessageDelta& out) {
    MessageDelta delta;
    parser_->finish(AnswerEnd::by_model, delta);
    take(delta);
    for (ToolCallDelta& call : calls_) {
      call.index = static_cast<int>(out.tool_calls.size());
      out.tool_calls.push_back(std::move(call));
    }
  }

 private:
  void take(MessageDelta& delta) {
    const bool is_text = delta.content.find_first_not_of(kBlanks) != std::string::npos;
    if ((is_text || !delta.reasoning.empty()) && !calls_.empty()) {
      calls_.clear();  // they were drafts
      // Some formats accept no call after other text, so a new parser reads on.
      parser_ = create_();
    }
    for (ToolCallDelta& call : delta.tool_calls) calls_.push_back(std::move(call));
  }

  CreateOutputParser create_;
  std::unique_ptr<OutputParser> parser_;
  std::vector<ToolCallDelta> calls_;
};

class ReasoningParser final : public OutputParser {
 public:
  /// `rest` reads what follows the reasoning, `calls` finds the calls that end it; both may be
  /// empty.
  ReasoningParser(ReasoningFormat format,
                  const CreateOutputParser& rest,
                  const CreateOutputParser& calls)
      : format_(std::move(format)), rest_(rest ? rest() : nullptr) {
    if (calls) last_calls_.emplace(calls);
  }

  void push(std::string_view text, MessageDelta& out) override {
    if (state_ == State::behind) return pass(text, out);
    scanner_.push(text);
    read(false, out);
  }

  void finish(AnswerEnd end, MessageDelta& out) override {
    read(true, out);
    if (state_ == State::inside) {
      add_reasoning(scanner_.take_all(), out);
      if (last_calls_ && end == AnswerEnd::by_model) return last_calls_->report(out);
    }
    pass(scanner_.take_all(), out);
    if (rest_) rest_->finish(end, out);
  }

 private:
  enum class State : uint8_t { before, label, inside, behind };

  void read(bool is_end, MessageDelta& out) {
    if (state_ == State::before) look_for_start(is_end);
    if (state_ == State::label) look_for_label(is_end);
    if (state_ == State::inside) {
      std::string before;
      const bool is_found = scanner_.take_until_any(format_.ends, before).has_value();
      add_reasoning(before, out);
      if (is_found) {
        state_ = State::behind;
        last_calls_.reset();
      }
    }
    if (state_ == State::behind) pass(scanner_.take_all(), out);
  }

  void look_for_start(bool is_end) {
    const std::string& held = scanner_.held();
    const size_t first = std::min(held.find_first_not_of(kBlanks), held.size());
    const std::string_view text = std::string_view(held).substr(first);
    bool may_follow = false;
    for (const std::string_view start : format_.starts) {
      if (text.starts_with(start)) {
        scanner_.drop(first + start.size());
        state_ = format_.label.empty() ? State::inside : State::label;
        return;
      }
      may_follow = may_follow || start.starts_with(text);
    }
    if (is_end || !may_follow) state_ = format_.begins_inside ? State::inside : State::behind;
  }

  void look_for_label(bool is_end) {
    const std::string_view text = scanner_.held();
    const bool is_there = text.starts_with(format_.label);
    if (!is_there && !is_end && format_.label.starts_with(text)) return;
    if (is_there) scanner_.drop(format_.label.size());
    state_ = State::inside;
  }

  void add_reasoning(std::string_view text, MessageDelta& out) {
    out.reasoning += text;
    if (last_calls_) last_calls_->push(text);
  }

  void pass(std::string_view text, MessageDelta& out) {
    if (text.empty()) return;
    if (rest_) return rest_->push(text, out);
    out.content += text;
  }

  ReasoningFormat format_;
  std::unique_ptr<OutputParser> rest_;
  std::optional<LastCalls> last_calls_;  // while the reasoning is open
  MarkerScanner scanner_;
  State state_ = State::before;
};

/// Removes the tags around an answer.
class TaggedAnswer final : public OutputParser {
 public:
  TaggedAnswer(std::string_view start, std::string_view end, std::unique_ptr<OutputParser> rest)
      : start_(start),
        line_and_end_("\n" + std::string(end)),
        ends_{line_and_end_, end},
        rest_(std::move(rest)) {}

  void push(std::string_view text, MessageDelta& out) override {
    scanner_.push(text);
    read(false, out);
  }

  void finish(AnswerEnd end, MessageDelta& out) override {
    read(true, out);
    pass(scanner_.take_all(), out);
    if (rest_) rest_->finish(end, out);
  }

 private:
  void read(bool is_end, MessageDelta& out) {
    if (is_before_) look_for_start(is_end);
    if (is_before_) return;
    std::string before;
    while (scanner_.take_until_any(ends_, before)) {
    }
    pass(before, out);
  }

  void look_for_start(bool is_end) {
    const std::string_view text = scanner_.held();
    const size_t blanks = std::min(text.find_first_not_of(kBlanks), text.size());
    const std::string_view begun = text.substr(blanks);
    if (begun.starts_with(start_)) {
      const bool ends_line = begun.substr(start_.size()).starts_with('\n');
      if (begun.size() == start_.size() && !is_end) return;  // the end of its line may follow
      scanner_.drop(blanks + start_.size() + (ends_line ? 1 : 0));
      is_before_ = false;
    } else if (is_end || !start_.starts_with(begun)) {
      is_before_ = false;
    }
  }

  void pass(std::string_view text, MessageDelta& out) {
    if (text.empty()) return;
    if (rest_) return rest_->push(text, out);
    out.content += text;
  }

  std::string_view start_;
  std::string line_and_end_;  // the end tag with the line end before it
  std::vector<std::string_view> ends_;
  std::unique_ptr<OutputParser> rest_;
  MarkerScanner scanner_;
  bool is_before_ = true;
};

/// Reports the text that `parser` reads as reasoning as content, between the tags of most models.
class ReasoningAsContent final : public OutputParser {
 public:
  explicit ReasoningAsContent(std::unique_ptr<OutputParser> parser) : parser_(std::move(parser)) {}

  void push(std::string_view text, MessageDelta& out) override {
    MessageDelta delta;
    parser_->push(text, delta);
    join(delta, out);
  }

  void finish(AnswerEnd end, MessageDelta& out) override {
    MessageDelta delta;
    parser_->finish(end, delta);
    join(delta, out);
  }

 private:
  // Reasoning comes before content and calls, also within one delta.
  void join(MessageDelta& delta, MessageDelta& out) {
    if (!delta.reasoning.empty() && !std::exchange(is_open_, true)) out.content += "<think>";
    out.content += delta.reasoning;
    const bool is_behind = !delta.content.empty() || !delta.tool_calls.empty();
    if (is_behind && std::exchange(is_open_, false)) out.content += "</think>";
    out.content += delta.content;
    for (ToolCallDelta& call : delta.tool_calls) out.tool_calls.push_back(std::move(call));
  }

  std::unique_ptr<OutputParser> parser_;
  bool is_open_ = false;
};

}  // namespace

std::vector<ReasoningFormat> reasoning_formats() {
  ReasoningFormat minimax_in_content = think_tags("minimax_m2_append_think", "MiniMax-M2", true);
  minimax_in_content.stays_in_content = true;
  ReasoningFormat ernie = think_tags("ernie45", "ERNIE 4.5 Thinking", true);
  ernie.answer_start = "<response>";
  ernie.answer_end = "</response>";
  ReasoningFormat hunyuan = think_tags("hunyuan_a13b", "Hunyuan A13B", false);
  hunyuan.answer_start = "<answer>";
  hunyuan.answer_end = "</answer>";
  return {
      think_tags("deepseek_r1", "DeepSeek-R1 and its distillations, QwQ", true),
      think_tags("deepseek_v3", "DeepSeek-V3.1 and V3.2", false),
      ernie,
      {.name = "gemma4",
       .models = "Gemma 4",
       .starts = {"<|channel>"},
       .ends = {"<channel|>"},
       .label = "thought\n"},
      think_tags("glm45", "GLM-4.5 and 4.6", false),
      think_tags("glm47", "GLM-4.7", false),
      {.name = "granite",
       .models = "Granite 3.2",
       .starts = {"Here is my thought process:", "Here's my thought process:"},
       .ends = {"Here is my response:", "Here's my response:"}},
      think_tags("holo2", "Holo2", true),
      hunyuan,
      think_tags("kimi_k2", "Kimi-K2-Thinking", true),
      {.name = "mistral", .models = "Magistral", .starts = {"[THINK]"}, .ends = {"[/THINK]"}},
      think_tags("mimo", "MiMo", false),
      think_tags("minimax_m2", "MiniMax-M2", true),
      minimax_in_content,
      think_tags("nemotron_v3", "Nemotron 3", false),
      think_tags("olmo3", "OLMo 3", true),
      {.name = "openai_gptoss", .models = "GPT-OSS (Harmony)", .has_channels = true},
      think_tags("qwen3", "Qwen3", false),
      {.name = "seed_oss",
       .models = "Seed-OSS",
       .starts = {"<seed:think>"},
       .ends = {"</seed:think>"},
       .begins_inside = true},
      think_tags("step3", "Step3", true),
      think_tags("step3p5", "Step-3.5", true),
  };
}

std::vector<std::string_view> reasoning_parser_names() {
  std::vector<std::string_view> names;
  for (const ReasoningFormat& format : reasoning_formats()) names.push_back(format.name);
  return names;
}

ReasoningFormat reasoning_format(std::string_view name) {
  for (const ReasoningFormat& format : reasoning_formats()) {
    if (format.name == name) return format;
  }
  const std::vector<std::string_view> names = reasoning_parser_names();
  throw InvalidArgument(fmt::format("there is no reasoning parser '{}'{}; there are {}",
                                    name,
                                    did_you_mean(name, names),
                                    fmt::join(names, ", ")));
}

std::unique_ptr<OutputParser> create_reasoning_parser(ReasoningFormat format,
                                                      const CreateOutputParser& rest,
                                                      CallAtTheEnd call_at_the_end) {
  if (format.has_channels) {
    return std::make_unique<HarmonyParser>(HarmonyParser::Calls::pass_as_text,
                                           rest ? rest() : nullptr);
  }
  CreateOutputParser answer = rest;
  if (!format.answer_start.empty()) {
    answer = [rest, start = format.answer_start, end = format.answer_end] {
      return std::make_unique<TaggedAnswer>(start, end, rest ? rest() : nullptr);
    };
  }
  const bool stays_in_content = format.stays_in_content;
  // LastCalls needs each byte at its place. So its parser is without the parser of the answer's
  // tags, which holds bytes back.
  const CreateOutputParser calls =
      call_at_the_end == CallAtTheEnd::is_a_call ? rest : CreateOutputParser();
  auto parser = std::make_unique<ReasoningParser>(std::move(format), answer, calls);
  if (!stays_in_content) return parser;
  return std::make_unique<ReasoningAsContent>(std::move(parser));
}

}  // namespace reprise::output_parsers
