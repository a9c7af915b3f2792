#include "reprise/structured_output/answer_machine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

using Place = AnswerMachine::Way::Place;

/// The largest number of whitespace characters in a row between the tokens of JSON. Without a
/// limit, a model that has begun to write blanks may never stop.
constexpr uint8_t kMaxSpaces = 4;
/// The state before a value that allows no whitespace in front of it.
constexpr uint8_t kNoSpaces = 255;
constexpr size_t kMaxWays = 1024;
constexpr size_t kFewWays = 64;  // that are compared with each other

bool has_byte(const FirstBytes& first, uint8_t byte) {
  return ((first[byte / 64] >> (byte % 64U)) & 1U) != 0;
}

}  // namespace

AnswerMachine::AnswerMachine(std::shared_ptr<const AnswerProgram> program)
    : program_(std::move(program)) {}

AnswerMachine::Ways AnswerMachine::start() {
  Ways ways;
  enter(-1, program_->root, ways);
  return ways;
}

/// Enters a node whose value allows no whitespace in front of it. A plain text has begun even
/// before its first byte.
void AnswerMachine::enter(int32_t frame, NodeId id, Ways& to) {
  const AnswerNode& node = program_->at(id);
  const auto index = static_cast<size_t>(node.index);
  if (node.kind == AnswerNode::Kind::choice) {
    for (const NodeId way : program_->choices[index]) enter(frame, way, to);
  } else if (node.kind == AnswerNode::Kind::sequence) {
    enter(add({.node = id, .parent = frame}), program_->sequences[index][0], to);
  } else if (node.kind == AnswerNode::Kind::text && !program_->texts[index].is_json) {
    Way way{.place = Place::text, .frame = frame, .index = node.index};
    way.text.state = program_->texts[index].automaton->start();
    to.push_back(way);
  } else {
    to.push_back({.place = Place::value,
                  .num_spaces = kNoSpaces,
                  .frame = frame,
                  .index = static_cast<int32_t>(id)});
  }
}

bool AnswerMachine::take(const Ways& from, uint8_t byte, Ways& to) {
  to.clear();
  text_.push_back(static_cast<char>(byte));
  for (const Way& way : from) step(way, byte, to);
  if (to.size() > 1) remove_equal(to);
  return !to.empty();
}

void AnswerMachine::remove_equal(Ways& ways) const {
  if (ways.size() > kMaxWays) ways.resize(kMaxWays);
  if (ways.size() > kFewWays) return;
  const auto are_same = [this](Way left, const Way& right) {
    if (left.frame >= 0 && right.frame >= 0 && at(left.frame) == at(right.frame)) {
      left.frame = right.frame;
    }
    return left == right;
  };
  size_t num_kept = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    bool is_new = true;
    for (size_t j = 0; j < num_kept && is_new; ++j) is_new = !are_same(ways[j], ways[i]);
    if (is_new) ways[num_kept++] = ways[i];
  }
  ways.resize(num_kept);
}

void AnswerMachine::undo(const Mark& mark) {
  frames_.resize(mark.num_frames);
  used_.resize(mark.num_used);
  text_.resize(mark.num_bytes);
  has_looked_ = mark.has_looked;
}

void AnswerMachine::compact(Ways& ways) {
  std::vector<int32_t> moved(frames_.size(), -1);
  for (const Way& way : ways) {
    for (int32_t frame = way.frame; frame >= 0 && moved[static_cast<size_t>(frame)] < 0;
         frame = at(frame).parent) {
      moved[static_cast<size_t>(frame)] = 0;
    }
  }
  std::vector<Frame> kept;
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (moved[i] < 0) continue;
    Frame frame = frames_[i];  // its parent was made before
    if (frame.parent >= 0) frame.parent = moved[static_cast<size_t>(frame.parent)];
    moved[i] = static_cast<int32_t>(kept.size());
    kept.push_back(frame);
  }
  frames_ = std::move(kept);
  for (Way& way : ways) {
    if (way.frame >= 0) way.frame = moved[static_cast<size_t>(way.frame)];
  }
}

bool AnswerMachine::can_end(const Ways& ways) {
  const Mark before = mark();
  Ways ends;
  for (const Way& way : ways) {
    const auto index = static_cast<size_t>(way.index);
    bool is_over = way.place == Place::done;
    if (way.place == Place::text) {
      const TextLeaf& leaf = program_->texts[index];
      is_over = !leaf.is_json && may_end(leaf, way.text);
    } else if (way.place == Place::number) {
      is_over = program_->numbers[index].may_end(way.number);
    } else if (way.place == Place::literals) {
      is_over = program_->literals[index].texts[way.low].size() == way.depth;
    }
    if (is_over && way.place == Place::done) return true;
    if (is_over) complete(way.frame, text_.size(), ends);
  }
  const bool can = std::any_of(
      ends.begin(), ends.end(), [](const Way& way) { return way.place == Place::done; });
  undo(before);
  return can;
}

void AnswerMachine::step(const Way& way, uint8_t byte, Ways& to) {
  switch (way.place) {
    case Place::text:
      return step_text(way, byte, to);
    case Place::number:
      return step_number(way, byte, to);
    case Place::literals:
      return step_literals(way, byte, to);
    case Place::key:
      return step_key(way, byte, to);
    case Place::done:
      return;
    default:
      break;
  }
  Way spaced = way;
  if (take_space(spaced, byte)) {
    to.push_back(spaced);
    return;
  }
  if (!has_its_space(way)) return;
  switch (way.place) {
    case Place::value:
      return begin(way.frame, static_cast<NodeId>(way.index), byte, to);
    case Place::colon:
      if (byte == ':') {
        to.push_back({.place = Place::value, .frame = way.frame, .index = way.index});
      }
      return;
    case Place::object_open:
    case Place::object_next:
    case Place::object_key:
      return step_object(way, byte, to);
    default:
      return step_array(way, byte, to);
  }
}

bool AnswerMachine::take_space(Way& way, uint8_t byte) const {
  if (way.num_spaces == kNoSpaces) return false;
  if (program_->any_whitespace) {
    const bool is_space = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
    if (!is_space || way.num_spaces >= kMaxSpaces) return false;
  } else if (byte != ' ' || has_its_space(way)) {
    return false;
  }
  ++way.num_spaces;
  return true;
}

/// With fixed whitespace there is exactly one space after commas and colons, and no other.
bool AnswerMachine::has_its_space(const Way& way) const {
  if (program_->any_whitespace || way.num_spaces == kNoSpaces) return true;
  const bool needs_space =
      way.place == Place::value || way.place == Place::object_key || way.place == Place::array_item;
  return way.num_spaces == (needs_space ? 1 : 0);
}

/// Handles a value that ended before this byte.
void AnswerMachine::complete_before(int32_t frame, uint8_t byte, Ways& to) {
  Ways after;
  complete(frame, text_.size() - 1, after);
  for (const Way& way : after) step(way, byte, to);
}

void AnswerMachine::step_text(const Way& way, uint8_t byte, Ways& to) {
  const TextLeaf& leaf = program_->texts[static_cast<size_t>(way.index)];
  if (!leaf.is_json && way.frame >= 0 && may_end(leaf, way.text)) {
    complete_before(way.frame, byte, to);
  }
  Way next = way;
  const TextStep taken = take_byte(leaf, next.text, byte);
  if (taken == TextStep::inside) to.push_back(next);
  if (taken != TextStep::closed) return;
  if (way.extra_value != NodeId::none) {
    close_key(way, text_.size(), to);
  } else {
    complete(way.frame, text_.size(), to);
  }
}

void AnswerMachine::step_number(const Way& way, uint8_t byte, Ways& to) {
  const NumberLeaf& leaf = program_->numbers[static_cast<size_t>(way.index)];
  Way next = way;
  const bool goes_on = leaf.take_byte(next.number, byte);
  if (goes_on) to.push_back(next);
  if (way.frame < 0 || !leaf.may_end(way.number)) return;
  // In JSON, the byte after a number never looks like a part of the number.
  const bool is_in_json = program_->at(at(way.frame).node).kind != AnswerNode::Kind::sequence;
  if (!goes_on || !is_in_json) complete_before(way.frame, byte, to);
}

bool AnswerMachine::Way::narrow(const LiteralsNode& node, uint8_t byte) {
  const auto byte_of = [this](const std::string& one) {
    return one.size() > depth ? static_cast<int>(static_cast<uint8_t>(one[depth])) : -1;
  };
  const auto first =
      std::lower_bound(node.texts.begin() + low,
                       node.texts.begin() + high,
                       int{byte},
                       [&](const std::string& one, int wanted) { return byte_of(one) < wanted; });
  const auto last = std::upper_bound(
      first, node.texts.begin() + high, int{byte}, [&](int wanted, const std::string& one) {
        return wanted < byte_of(one);
      });
  low = static_cast<uint32_t>(first - node.texts.begin());
  high = static_cast<uint32_t>(last - node.texts.begin());
  ++depth;
  return low != high;
}

void AnswerMachine::step_literals(Way way, uint8_t byte, Ways& to) {
  const LiteralsNode& node = program_->literals[static_cast<size_t>(way.index)];
  const bool may_end_before = node.texts[way.low].size() == way.depth;
  if (may_end_before && way.frame >= 0) complete_before(way.frame, byte, to);
  if (!way.narrow(node, byte) || !has_unused(node, way)) return;
  const bool is_over = way.high - way.low == 1 && node.texts[way.low].size() == way.depth;
  if (is_over) {
    complete(way.frame, text_.size(), to);
  } else {
    to.push_back(way);
  }
}

/// Whether one of the literals is still unused, in an array of distinct items.
bool AnswerMachine::has_unused(const LiteralsNode& node, const Way& way) const {
  if (way.frame < 0) return true;
  if (!keeps_texts_apart(way)) return true;
  size_t num_used = 0;
  for (int32_t i = at(way.frame).used; i >= 0; i = used_[static_cast<size_t>(i)].before) {
    const std::string_view text = used_text(used_[static_cast<size_t>(i)]);
    const auto begin = node.texts.begin() + way.low;
    const auto end = node.texts.begin() + way.high;
    if (std::binary_search(begin, end, text)) ++num_used;
  }
  return num_used < way.high - way.low;
}

void AnswerMachine::begin(int32_t frame, NodeId id, uint8_t byte, Ways& to) {
  const AnswerNode& node = program_->at(id);
  if (!has_byte(node.first, byte)) return;
  const auto index = static_cast<size_t>(node.index);
  const auto open = [&](NodeId owner) {
    return add({.node = owner, .parent = frame, .start = static_cast<uint32_t>(text_.size() - 1)});
  };
  switch (node.kind) {
    case AnswerNode::Kind::text: {
      Way way{.place = Place::text, .frame = frame, .index = node.index};
      way.text.state = program_->texts[index].automaton->start();
      to.push_back(way);
      return;
    }
    case AnswerNode::Kind::number: {
      Way way{.place = Place::number, .frame = frame, .index = node.index};
      if (program_->numbers[index].take_byte(way.number, byte)) to.push_back(way);
      return;
    }
    case AnswerNode::Kind::literals: {
      Way way{.place = Place::literals, .frame = frame, .index = node.index};
      way.high = static_cast<uint32_t>(program_->literals[index].texts.size());
      return step_literals(way, byte, to);
    }
    case AnswerNode::Kind::object:
      to.push_back({.place = Place::object_open, .frame = open(id)});
      return;
    case AnswerNode::Kind::array:
      to.push_back({.place = Place::array_open, .frame = open(id)});
      return;
    case AnswerNode::Kind::choice:
      for (const NodeId way : program_->choices[index]) begin(frame, way, byte, to);
      return;
    case AnswerNode::Kind::checked:
      return begin(open(id), program_->checks[index].value, byte, to);
    case AnswerNode::Kind::sequence:
      return;  // enter() writes sequences, which never occur inside of JSON
  }
}

void AnswerMachine::complete(int32_t frame_index, size_t end, Ways& to) {
  if (frame_index < 0) {
    to.push_back({.place = Place::done});
    return;
  }
  const Frame frame = at(frame_index);
  const AnswerNode& node = program_->at(frame.node);
  switch (node.kind) {
    case AnswerNode::Kind::object:
      to.push_back({.place = Place::object_next, .frame = frame_index});
      return;
    case AnswerNode::Kind::array:
      return complete_item(frame, end, to);
    case AnswerNode::Kind::checked: {
      has_looked_ = true;
      const std::string_view text = std::string_view(text_).substr(frame.start, end - frame.start);
      const Json value = Json::parse(text, nullptr, false);
      const CheckedNode& check = program_->checks[static_cast<size_t>(node.index)];
      if (value.is_discarded() || !check.validator->is_valid(value, check.schema)) return;
      return complete(frame.parent, end, to);
    }
    case AnswerNode::Kind::sequence: {
      const auto& parts = program_->sequences[static_cast<size_t>(node.index)];
      const auto next = static_cast<size_t>(frame.index) + 1;
      // The last part needs no frame of the sequence, so sequences in a loop do not nest.
      if (next + 1 == parts.size()) return enter(frame.parent, parts[next], to);
      Frame after = frame;
      ++after.index;
      return enter(add(after), parts[next], to);
    }
    default:
      return;
  }
}

bool AnswerMachine::is_used(const Frame& frame, std::string_view text, bool compares_values) {
  if (frame.used < 0) return false;
  has_looked_ = true;
  // Integers have only one spelling. Where strings are compared, the programs allow only one
  // spelling of each.
  const auto has_one_spelling = [](std::string_view one) {
    return one.starts_with('"') || one.find_first_not_of("-0123456789") == one.npos;
  };
  const bool is_plain = !compares_values || has_one_spelling(text);
  const Json value = is_plain ? Json() : Json::parse(text, nullptr, false);
  for (int32_t i = frame.used; i >= 0; i = used_[static_cast<size_t>(i)].before) {
    const std::string_view other = used_text(used_[static_cast<size_t>(i)]);
    if (other == text) return true;
    if (!compares_values || (is_plain && has_one_spelling(other))) continue;
    const Json mine = is_plain ? Json::parse(text, nullptr, false) : value;
    if (are_equal(mine, Json::parse(other, nullptr, false))) return true;
  }
  return false;
}

void AnswerMachine::close_text(const Way& way, Ways& to) {
  has_looked_ = false;
  if (program_->texts[static_cast<size_t>(way.index)].is_json) text_.push_back('"');
  closes_blindly_ = true;
  if (way.extra_value != NodeId::none) {
    close_key(way, text_.size(), to);
  } else {
    complete(way.frame, text_.size(), to);
  }
  closes_blindly_ = false;
}

bool AnswerMachine::keeps_texts_apart(const Way& way) const {
  if (way.extra_value != NodeId::none) return true;
  if (way.frame < 0) return false;
  const AnswerNode& owner = program_->at(at(way.frame).node);
  return owner.kind == AnswerNode::Kind::array &&
         program_->arrays[static_cast<size_t>(owner.index)].is_unique;
}

std::vector<std::string_view> AnswerMachine::used_rests(const Way& way) const {
  std::vector<std::string_view> rests;
  if (way.frame < 0) return rests;
  const Frame& frame = at(way.frame);
  const std::string_view begun =
      std::string_view(text_).substr(std::min<size_t>(frame.start, text_.size()));
  for (int32_t i = frame.used; i >= 0; i = used_[static_cast<size_t>(i)].before) {
    const std::string_view other = used_text(used_[static_cast<size_t>(i)]);
    if (other.starts_with(begun)) rests.push_back(other.substr(begun.size()));
  }
  return rests;
}

}  // namespace reprise::structured_output
