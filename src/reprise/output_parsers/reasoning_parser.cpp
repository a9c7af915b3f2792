#include "reprise/output_parsers/reasoning_parser.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/output_parsers/marker_scanner.h"

namespace reprise::output_parsers {
namespace {

constexpr std::array<std::string_view, 3> kReasoningParsers = {"deepseek_r1", "qwen3", "mistral"};

class ReasoningParser final : public OutputParser {
 public:
  ReasoningParser(ReasoningFormat format, std::unique_ptr<OutputParser> rest)
      : format_(std::move(format)), rest_(std::move(rest)) {}

  void push(std::string_view text, MessageDelta& out) override {
    if (state_ == State::behind) return pass(text, out);
    scanner_.push(text);
    if (state_ == State::before) look_for_start(false);
    if (state_ == State::inside && scanner_.take_until(format_.end, out.reasoning))
      state_ = State::behind;
    if (state_ == State::behind) pass(scanner_.take_all(), out);
  }

  void finish(MessageDelta& out) override {
    if (state_ == State::before) look_for_start(true);
    if (state_ == State::inside) out.reasoning += scanner_.take_all();
    pass(scanner_.take_all(), out);
    if (rest_) rest_->finish(out);
  }

 private:
  enum class State { before, inside, behind };

  void look_for_start(bool is_end) {
    const std::string_view text = scanner_.held();
    if (text.starts_with(format_.start)) {
      scanner_.drop(format_.start.size());
      state_ = State::inside;
    } else if (is_end || !std::string_view(format_.start).starts_with(text)) {
      state_ = format_.begins_inside ? State::inside : State::behind;
    }
  }

  void pass(std::string_view text, MessageDelta& out) {
    if (text.empty()) return;
    if (rest_) return rest_->push(text, out);
    out.content += text;
  }

  ReasoningFormat format_;
  std::unique_ptr<OutputParser> rest_;
  MarkerScanner scanner_;
  State state_ = State::before;
};

}  // namespace

std::vector<std::string_view> reasoning_parser_names() {
  return {kReasoningParsers.begin(), kReasoningParsers.end()};
}

ReasoningFormat reasoning_format(std::string_view name) {
  if (name == "deepseek_r1") return {"<think>", "</think>", true};
  if (name == "qwen3") return {"<think>", "</think>", false};
  if (name == "mistral") return {"[THINK]", "[/THINK]", false};
  throw InvalidArgument(fmt::format("there is no reasoning parser '{}'{}; there are {}",
                                    name,
                                    did_you_mean(name, kReasoningParsers),
                                    fmt::join(kReasoningParsers, ", ")));
}

std::unique_ptr<OutputParser> create_reasoning_parser(ReasoningFormat format,
                                                      std::unique_ptr<OutputParser> rest) {
  return std::make_unique<ReasoningParser>(std::move(format), std::move(rest));
}

}  // namespace reprise::output_parsers
