#include "reprise/output_parsers/reasoning_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/output_parsers/harmony_parser.h"
#include "reprise/output_parsers/marker_scanner.h"

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

class ReasoningParser final : public OutputParser {
 public:
  ReasoningParser(ReasoningFormat format, std::unique_ptr<OutputParser> rest)
      : format_(std::move(format)), ends_(format_.ends), rest_(std::move(rest)) {
    // Without a parser of calls, the beginning of a call is a text like any other.
    if (rest_)
      ends_.insert(ends_.end(), format_.also_ends_before.begin(), format_.also_ends_before.end());
  }

  void push(std::string_view text, MessageDelta& out) override {
    if (state_ == State::behind) return pass(text, out);
    scanner_.push(text);
    read(false, out);
  }

  void finish(MessageDelta& out) override {
    read(true, out);
    if (state_ == State::inside) out.reasoning += scanner_.take_all();
    pass(scanner_.take_all(), out);
    if (rest_) rest_->finish(out);
  }

 private:
  enum class State : uint8_t { before, label, inside, behind };

  void read(bool is_end, MessageDelta& out) {
    if (state_ == State::before) look_for_start(is_end);
    if (state_ == State::label) look_for_label(is_end);
    if (state_ == State::inside) {
      if (const auto found = scanner_.take_until_any(ends_, out.reasoning)) {
        state_ = State::behind;
        if (*found >= format_.ends.size()) pass(ends_[*found], out);
      }
    }
    if (state_ == State::behind) pass(scanner_.take_all(), out);
  }

  void look_for_start(bool is_end) {
    const std::string_view text = scanner_.held();
    bool may_follow = false;
    for (const std::string_view start : format_.starts) {
      if (text.starts_with(start)) {
        scanner_.drop(start.size());
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

  void pass(std::string_view text, MessageDelta& out) {
    if (text.empty()) return;
    if (rest_) return rest_->push(text, out);
    out.content += text;
  }

  ReasoningFormat format_;
  std::vector<std::string_view> ends_;
  std::unique_ptr<OutputParser> rest_;
  MarkerScanner scanner_;
  State state_ = State::before;
};

}  // namespace

std::vector<ReasoningFormat> reasoning_formats() {
  std::vector<ReasoningFormat> all = {
      think_tags("deepseek_r1", "DeepSeek-R1 and its distillations, QwQ", true),
      think_tags("deepseek_v3", "DeepSeek-V3.1 and V3.2", false),
      {.name = "gemma4",
       .models = "Gemma 4",
       .starts = {"<|channel>"},
       .ends = {"<channel|>"},
       .also_ends_before = {"<|tool_call>"},
       .label = "thought\n"},
      think_tags("glm45", "GLM-4.5 and 4.6", false),
      think_tags("glm47", "GLM-4.7", false),
      {.name = "granite",
       .models = "Granite 3.2",
       .starts = {"Here is my thought process:", "Here's my thought process:"},
       .ends = {"Here is my response:", "Here's my response:"}},
      think_tags("kimi_k2", "Kimi-K2-Thinking", true),
      {.name = "mistral", .models = "Magistral", .starts = {"[THINK]"}, .ends = {"[/THINK]"}},
      think_tags("mimo", "MiMo", false),
      think_tags("minimax_m2", "MiniMax-M2", true),
      think_tags("nemotron_v3", "Nemotron 3", false),
      think_tags("olmo3", "OLMo 3", true),
      {.name = "openai_gptoss", .models = "GPT-OSS (Harmony)", .has_channels = true},
      think_tags("qwen3", "Qwen3", false),
      {.name = "seed_oss",
       .models = "Seed-OSS",
       .starts = {"<seed:think>"},
       .ends = {"</seed:think>"},
       .also_ends_before = {"<seed:tool_call>"},
       .begins_inside = true},
      think_tags("step3", "Step3", true),
  };
  // These models may begin a call while they think, without closing the tag.
  for (ReasoningFormat& format : all) {
    if (format.name == "kimi_k2") format.also_ends_before = {"<|tool_calls_section_begin|>"};
    if (format.name == "qwen3" || format.name == "mimo" || format.name.starts_with("glm") ||
        format.name == "nemotron_v3") {
      format.also_ends_before = {"<tool_call>"};
    }
    if (format.name == "minimax_m2") format.also_ends_before = {"<minimax:tool_call>"};
  }
  return all;
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
                                                      std::unique_ptr<OutputParser> rest) {
  if (format.has_channels)
    return std::make_unique<HarmonyParser>(HarmonyParser::Calls::pass_as_text, std::move(rest));
  return std::make_unique<ReasoningParser>(std::move(format), std::move(rest));
}

}  // namespace reprise::output_parsers
