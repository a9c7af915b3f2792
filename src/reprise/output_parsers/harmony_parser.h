#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/output_parsers/marker_scanner.h"
#include "reprise/output_parsers/output_parser.h"
#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {

/// Reads the Harmony format of GPT-OSS: messages with a channel. `analysis` is reasoning, `final`
/// is content, and `commentary to=functions.f` is a call of f.
///
/// An answer in another format passes unchanged, for example one that a JSON schema constrains.
class HarmonyParser final : public OutputParser {
 public:
  enum class Calls : uint8_t { are_reported, pass_as_text };

  /// `rest` reads the content; null: the content is passed on unchanged.
  explicit HarmonyParser(Calls calls, std::unique_ptr<OutputParser> rest = nullptr)
      : calls_(calls), rest_(std::move(rest)) {}

  void push(std::string_view text, MessageDelta& out) override;
  void finish(AnswerEnd end, MessageDelta& out) override;

 private:
  enum class State : uint8_t { between, header, body };
  enum class Kind : uint8_t { reasoning, content, call };

  /// Reads as far as possible. Returns false when more text is needed.
  bool read(MessageDelta& out);
  void begin_body(MessageDelta& out);
  void add_body(std::string_view text, MessageDelta& out);
  void end_call(std::string_view end_marker, MessageDelta& out);
  void pass(std::string_view text, MessageDelta& out);

  Calls calls_;
  std::unique_ptr<OutputParser> rest_;
  MarkerScanner scanner_;
  CallWriter writer_;
  std::string header_;  // with the marker that began it
  std::string call_;    // the body of a call
  std::string name_;    // of the function
  State state_ = State::between;
  Kind kind_ = Kind::content;
  bool has_reasoning_ = false;
  bool has_content_ = false;
};

}  // namespace reprise::output_parsers
