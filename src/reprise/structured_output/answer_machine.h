#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/structured_output/answer_program.h"
#include "reprise/structured_output/token_trie.h"

namespace reprise::structured_output {

/// Reads an answer byte by byte and keeps all ways in which an AnswerProgram can have written it.
/// Open values are frames, which a way refers to and never changes, so ways share them. The work
/// for one byte is bounded by the number of ways, kMaxWays: further ways are dropped, which only
/// makes the answer narrower.
///
/// One object belongs to one answer. undo() goes back to a mark, for trying tokens.
class AnswerMachine {
 public:
  /// One way to read the answer.
  struct Way {
    enum class Place : uint8_t {
      value,        // before a value: the node `index`
      text,         // in the text `index`
      number,       // in the number `index`
      literals,     // in the literals `index`
      key,          // in a name of the frame's object
      colon,        // before a colon, then the node `index`
      object_open,  // before the first name or the end
      object_next,  // after a value
      object_key,   // after a comma
      array_open,
      array_next,
      array_item,
      done,
    };
    Place place = Place::value;
    uint8_t num_spaces = 0;
    int32_t frame = -1;  // the value of which this is a part; -1: none
    int32_t index = -1;
    NodeId extra_value = NodeId::none;  // this text is a name, and this is the node of its value
    TextState text;
    NumberLeaf::State number;
    // The literals and keys that begin with the text so far: a range of them, and the number of
    // bytes.
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t depth = 0;

    /// Keeps only the literals or keys that continue with `byte`. \return false if none does
    [[nodiscard]] bool narrow(const LiteralsNode& node, uint8_t byte);

    friend bool operator==(const Way&, const Way&) = default;
  };
  using Ways = std::vector<Way>;

  explicit AnswerMachine(std::shared_ptr<const AnswerProgram> program);

  [[nodiscard]] Ways start();
  /// Continues all ways with one byte. \return false if no way continues
  bool take(const Ways& from, uint8_t byte, Ways& to);
  /// Whether the answer may end after one of the ways.
  [[nodiscard]] bool can_end(const Ways& ways);

  /// The ways after the text of `way` has ended, with its quote if it is a string. Does not check
  /// whether this text was used before: see used_texts().
  void close_text(const Way& way, Ways& to);
  /// Whether the text of `way` must differ from earlier texts, because it is a name or a distinct
  /// item.
  [[nodiscard]] bool keeps_texts_apart(const Way& way) const;
  /// For each earlier name or item that begins with the text of `way`, its remaining bytes: the
  /// text must not end with them.
  [[nodiscard]] std::vector<std::string_view> used_rests(const Way& way) const;
  /// Whether a step since the mark depended on the text of the answer.
  [[nodiscard]] bool has_looked() const { return has_looked_; }

  struct Mark {
    size_t num_frames;
    size_t num_used;
    size_t num_bytes;
    bool has_looked;
  };
  [[nodiscard]] Mark mark() const {
    return {frames_.size(), used_.size(), text_.size(), has_looked_};
  }
  void undo(const Mark& mark);
  /// Removes frames that no way needs. Invalidates marks.
  void compact(Ways& ways);

  [[nodiscard]] const AnswerProgram& program() const { return *program_; }

  /// Calls a function with the number of each text in `trie` with which the ways can continue.
  template <typename Visit>
  void walk(const TokenTrie& trie, const Ways& from, const Visit& visit);

 private:
  struct Frame {
    NodeId node = NodeId::none;
    int32_t parent = -1;
    int32_t index = 0;   // properties already passed, items written, or parts of a sequence done
    int32_t count = 0;   // of members; of items that satisfy `contains`
    int32_t used = -1;   // the last of the names or items that must differ
    uint32_t start = 0;  // where the value, item or name begins in the answer
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  struct Used {
    uint32_t start;
    uint32_t end;
    int32_t before;
    friend bool operator==(const Used&, const Used&) = default;
  };

  void step(const Way& way, uint8_t byte, Ways& to);
  void step_value(const Way& way, uint8_t byte, Ways& to);
  void step_text(const Way& way, uint8_t byte, Ways& to);
  void step_number(const Way& way, uint8_t byte, Ways& to);
  void step_literals(Way way, uint8_t byte, Ways& to);
  void step_key(Way way, uint8_t byte, Ways& to);
  void step_object(const Way& way, uint8_t byte, Ways& to);
  void step_array(const Way& way, uint8_t byte, Ways& to);
  void begin(int32_t frame, NodeId id, uint8_t byte, Ways& to);
  void enter(int32_t frame, NodeId id, Ways& to);
  void begin_item(const Way& way, uint8_t byte, Ways& to);
  void begin_key(const Way& way, uint8_t byte, Ways& to);
  void complete(int32_t frame, size_t end, Ways& to);
  void complete_item(Frame frame, size_t end, Ways& to);
  void complete_before(int32_t frame, uint8_t byte, Ways& to);
  void close_key(const Way& way, size_t end, Ways& to);

  [[nodiscard]] bool take_space(Way& way, uint8_t byte) const;
  [[nodiscard]] bool has_its_space(const Way& way) const;
  [[nodiscard]] bool may_write(const ObjectNode& object,
                               const Frame& frame,
                               int32_t property) const;
  [[nodiscard]] bool may_go_on(const ObjectNode& object, const Frame& frame) const;
  [[nodiscard]] bool may_close(const ObjectNode& object, const Frame& frame) const;
  [[nodiscard]] bool has_unused(const LiteralsNode& node, const Way& way) const;
  [[nodiscard]] bool is_used(const Frame& frame, std::string_view text, bool compares_values);
  [[nodiscard]] std::string_view used_text(const Used& used) const {
    return std::string_view(text_).substr(used.start, used.end - used.start);
  }

  int32_t add(const Frame& frame) {
    frames_.push_back(frame);
    return static_cast<int32_t>(frames_.size()) - 1;
  }
  [[nodiscard]] Frame& at(int32_t frame) { return frames_[static_cast<size_t>(frame)]; }
  [[nodiscard]] const Frame& at(int32_t frame) const { return frames_[static_cast<size_t>(frame)]; }
  void remove_equal(Ways& ways) const;

  std::shared_ptr<const AnswerProgram> program_;
  std::vector<Frame> frames_;
  std::vector<Used> used_;
  std::string text_;  // the answer so far
  bool has_looked_ = false;
  bool closes_blindly_ = false;  // close_text() is at work
  std::vector<Ways> levels_;     // of walk(), kept for their memory
};

template <typename Visit>
void AnswerMachine::walk(const TokenTrie& trie, const Ways& from, const Visit& visit) {
  if (from.empty()) return;
  const std::vector<TokenTrie::Node>& nodes = trie.nodes();
  if (levels_.size() < trie.max_depth() + 1) levels_.resize(trie.max_depth() + 1);
  struct Level {
    uint32_t end;
    Mark mark;
  };
  std::vector<Level> open;
  levels_[0] = from;
  for (uint32_t i = 0; i < nodes.size();) {
    while (!open.empty() && i >= open.back().end) {
      undo(open.back().mark);
      open.pop_back();
    }
    const TokenTrie::Node& node = nodes[i];
    const Mark before = mark();
    const bool goes_on = take(levels_[open.size()], node.byte, levels_[open.size() + 1]);
    if (goes_on && node.number >= 0) visit(node.number);
    if (goes_on && node.end > i + 1) {
      open.push_back({node.end, before});
      ++i;
    } else {
      undo(before);
      i = node.end;
    }
  }
  if (!open.empty()) undo(open.front().mark);
}

}  // namespace reprise::structured_output
