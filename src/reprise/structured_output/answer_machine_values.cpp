// The part of AnswerMachine that writes objects and arrays.
#include <algorithm>
#include <limits>

#include "reprise/structured_output/answer_machine.h"

namespace reprise::structured_output {

void AnswerMachine::step_key(Way way, uint8_t byte, Ways& to) {
  const Frame frame = at(way.frame);
  const ObjectNode& object = program_->objects[static_cast<size_t>(program_->at(frame.node).index)];
  if (!way.narrow(object.keys, byte)) return;
  bool is_possible = false;
  for (uint32_t i = way.low; i < way.high && !is_possible; ++i) {
    is_possible = may_write(object, frame, object.property_of_key[i]);
  }
  if (!is_possible) return;
  if (object.keys.texts[way.low].size() != way.depth) {
    to.push_back(way);
    return;
  }
  // A name ends with its quote, so no name is the beginning of another.
  const int32_t property = object.property_of_key[way.low];
  Frame after = frame;
  after.index = property + 1;
  ++after.count;
  to.push_back(
      {.place = Way::Place::colon,
       .frame = add(after),
       .index = static_cast<int32_t>(object.properties[static_cast<size_t>(property)].value)});
}

/// Whether this property may come next.
bool AnswerMachine::may_write(const ObjectNode& object,
                              const Frame& frame,
                              int32_t property) const {
  const auto num_properties = static_cast<int32_t>(object.properties.size());
  if (property < frame.index || frame.index >= num_properties) return false;
  if (property > object.properties[static_cast<size_t>(frame.index)].next_required) return false;
  const ObjectNode::Property& one = object.properties[static_cast<size_t>(property)];
  const int64_t count = frame.count + 1;
  if (object.most && count + one.num_required_after > *object.most) return false;
  return !object.extras.empty() || count + (num_properties - property - 1) >= object.least;
}

/// Whether another member can follow.
bool AnswerMachine::may_go_on(const ObjectNode& object, const Frame& frame) const {
  const auto num_properties = static_cast<int32_t>(object.properties.size());
  for (int32_t i = frame.index; i < num_properties; ++i) {
    if (may_write(object, frame, i)) return true;
    if (object.properties[static_cast<size_t>(i)].is_required) return false;
  }
  return !object.extras.empty() && (!object.most || frame.count < *object.most);
}

bool AnswerMachine::may_close(const ObjectNode& object, const Frame& frame) const {
  const auto num_properties = static_cast<int32_t>(object.properties.size());
  const bool has_required =
      frame.index >= num_properties ||
      object.properties[static_cast<size_t>(frame.index)].next_required == num_properties;
  return has_required && frame.count >= object.least;
}

void AnswerMachine::step_object(const Way& way, uint8_t byte, Ways& to) {
  const Frame frame = at(way.frame);
  const ObjectNode& object = program_->objects[static_cast<size_t>(program_->at(frame.node).index)];
  if (byte == '}' && way.place != Way::Place::object_key) {
    if (may_close(object, frame)) complete(frame.parent, text_.size(), to);
  } else if (byte == ',' && way.place == Way::Place::object_next && may_go_on(object, frame)) {
    to.push_back({.place = Way::Place::object_key, .frame = way.frame});
  } else if (byte == '"' && way.place != Way::Place::object_next) {
    begin_key(way, byte, to);
  }
}

void AnswerMachine::begin_key(const Way& way, uint8_t byte, Ways& to) {
  const Frame frame = at(way.frame);
  const ObjectNode& object = program_->objects[static_cast<size_t>(program_->at(frame.node).index)];
  if (!object.keys.texts.empty()) {
    Way key{.place = Way::Place::key, .frame = way.frame};
    key.high = static_cast<uint32_t>(object.keys.texts.size());
    step_key(key, byte, to);
  }
  const auto num_properties = static_cast<int32_t>(object.properties.size());
  const bool has_required =
      frame.index >= num_properties ||
      object.properties[static_cast<size_t>(frame.index)].next_required == num_properties;
  if (!has_required || (object.most && frame.count >= *object.most)) return;
  for (const ObjectNode::Extra& extra : object.extras) {
    Frame with_name = frame;
    with_name.index = num_properties;
    ++with_name.count;
    with_name.start = static_cast<uint32_t>(text_.size() - 1);
    Way name{.place = Way::Place::text, .frame = add(with_name), .index = extra.key};
    name.extra_value = extra.value;
    name.text.state = program_->texts[static_cast<size_t>(extra.key)].automaton->start();
    to.push_back(name);
  }
}

void AnswerMachine::close_key(const Way& way, size_t end, Ways& to) {
  Frame frame = at(way.frame);
  const std::string_view name = std::string_view(text_).substr(frame.start, end - frame.start);
  if (!closes_blindly_ && is_used(frame, name, false)) return;
  used_.push_back({frame.start, static_cast<uint32_t>(end), frame.used});
  frame.used = static_cast<int32_t>(used_.size()) - 1;
  to.push_back({.place = Way::Place::colon,
                .frame = add(frame),
                .index = static_cast<int32_t>(way.extra_value)});
}

void AnswerMachine::step_array(const Way& way, uint8_t byte, Ways& to) {
  const Frame frame = at(way.frame);
  const ArrayNode& array = program_->arrays[static_cast<size_t>(program_->at(frame.node).index)];
  if (byte == ']' && way.place != Way::Place::array_item) {
    if (frame.index >= array.least && frame.count >= array.least_contained) {
      complete(frame.parent, text_.size(), to);
    }
    return;
  }
  if (way.place != Way::Place::array_next) return begin_item(way, byte, to);
  const bool has_item =
      static_cast<size_t>(frame.index) < array.first_items.size() || array.item != NodeId::none;
  if (byte == ',' && has_item && (!array.most || frame.index < *array.most)) {
    to.push_back({.place = Way::Place::array_item, .frame = way.frame});
  }
}

void AnswerMachine::begin_item(const Way& way, uint8_t byte, Ways& to) {
  Frame frame = at(way.frame);
  const ArrayNode& array = program_->arrays[static_cast<size_t>(program_->at(frame.node).index)];
  if (array.most && frame.index >= *array.most) return;
  const auto index = static_cast<size_t>(frame.index);
  const bool is_first = index < array.first_items.size();
  const NodeId item = is_first ? array.first_items[index] : array.item;
  if (item == NodeId::none) return;
  frame.start = static_cast<uint32_t>(text_.size() - 1);
  ++frame.index;
  const int64_t num_left =
      array.most ? *array.most - frame.index : std::numeric_limits<int32_t>::max();
  if (frame.count + num_left >= array.least_contained) begin(add(frame), item, byte, to);
  if (!is_first && array.contained != NodeId::none && frame.count < array.least_contained) {
    ++frame.count;
    begin(add(frame), array.contained, byte, to);
  }
}

void AnswerMachine::complete_item(Frame frame, size_t end, Ways& to) {
  const ArrayNode& array = program_->arrays[static_cast<size_t>(program_->at(frame.node).index)];
  if (array.is_unique) {
    const std::string_view item = std::string_view(text_).substr(frame.start, end - frame.start);
    if (!closes_blindly_ && is_used(frame, item, true)) return;
    used_.push_back({frame.start, static_cast<uint32_t>(end), frame.used});
    frame.used = static_cast<int32_t>(used_.size()) - 1;
  }
  to.push_back({.place = Way::Place::array_next, .frame = add(frame)});
}

}  // namespace reprise::structured_output
