#include "reprise/structured_output/answer_program.h"

#include <algorithm>
#include <set>

namespace reprise::structured_output {
namespace {

void add_byte(FirstBytes& first, uint8_t byte) { first[byte / 64] |= uint64_t{1} << (byte % 64U); }

bool add_bytes(FirstBytes& first, const FirstBytes& more) {
  bool is_new = false;
  for (size_t i = 0; i < first.size(); ++i) {
    is_new = is_new || (more[i] & ~first[i]) != 0;
    first[i] |= more[i];
  }
  return is_new;
}

FirstBytes own_first_bytes(const AnswerProgram& program, const AnswerNode& node) {
  FirstBytes first{};
  const auto index = static_cast<size_t>(node.index);
  switch (node.kind) {
    case AnswerNode::Kind::text:
      if (program.texts[index].is_json) {
        add_byte(first, '"');
      } else {
        first.fill(~uint64_t{0});
      }
      break;
    case AnswerNode::Kind::number:
      for (const char c : {'-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}) {
        add_byte(first, static_cast<uint8_t>(c));
      }
      break;
    case AnswerNode::Kind::literals:
      for (const std::string& text : program.literals[index].texts) {
        add_byte(first, static_cast<uint8_t>(text[0]));
      }
      break;
    case AnswerNode::Kind::object:
      add_byte(first, '{');
      break;
    case AnswerNode::Kind::array:
      add_byte(first, '[');
      break;
    case AnswerNode::Kind::choice:
    case AnswerNode::Kind::checked:
    case AnswerNode::Kind::sequence:
      break;
  }
  return first;
}

void number_properties(ObjectNode& object) {
  int32_t num_required = 0;
  auto next_required = static_cast<int32_t>(object.properties.size());
  for (size_t i = object.properties.size(); i-- > 0;) {
    ObjectNode::Property& property = object.properties[i];
    property.num_required_after = num_required;
    if (property.is_required) {
      ++num_required;
      next_required = static_cast<int32_t>(i);
    }
    property.next_required = next_required;
  }
}

}  // namespace

void link(AnswerProgram& program) {
  for (AnswerNode& node : program.nodes) node.first = own_first_bytes(program, node);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (AnswerNode& node : program.nodes) {
      const auto index = static_cast<size_t>(node.index);
      const auto take = [&](NodeId id) {
        if (add_bytes(node.first, program.at(id).first)) has_changed = true;
      };
      if (node.kind == AnswerNode::Kind::choice) {
        for (const NodeId id : program.choices[index]) take(id);
      }
      if (node.kind == AnswerNode::Kind::checked) take(program.checks[index].value);
      if (node.kind == AnswerNode::Kind::sequence) take(program.sequences[index][0]);
    }
  }
  for (ObjectNode& object : program.objects) number_properties(object);
}

size_t AnswerProgram::memory_bytes() const {
  size_t bytes = nodes.size() * sizeof(AnswerNode) + numbers.size() * sizeof(NumberLeaf);
  std::set<const Automaton*> counted;
  for (const TextLeaf& text : texts) {
    bytes += sizeof(TextLeaf);
    if (counted.insert(text.automaton.get()).second) bytes += text.automaton->memory_bytes();
  }
  const auto bytes_of = [](const LiteralsNode& node) {
    size_t sum = sizeof(LiteralsNode);
    for (const std::string& text : node.texts) sum += sizeof(std::string) + text.size();
    return sum;
  };
  for (const LiteralsNode& node : literals) bytes += bytes_of(node);
  for (const ObjectNode& node : objects) {
    bytes += sizeof(ObjectNode) + bytes_of(node.keys) +
             node.properties.size() * (sizeof(ObjectNode::Property) + sizeof(int32_t));
  }
  for (const ArrayNode& node : arrays) {
    bytes += sizeof(ArrayNode) + node.first_items.size() * sizeof(NodeId);
  }
  for (const auto& node : choices) bytes += node.size() * sizeof(NodeId);
  for (const auto& node : sequences) bytes += node.size() * sizeof(NodeId);
  return bytes + json_bytes;
}

}  // namespace reprise::structured_output
