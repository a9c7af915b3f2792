#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/structured_output/number_leaf.h"
#include "reprise/structured_output/schema_validator.h"
#include "reprise/structured_output/text_leaf.h"

namespace reprise::structured_output {

/// The number of a node in AnswerProgram::nodes.
enum class NodeId : int32_t { none = -1 };

/// The bytes that a value can begin with.
using FirstBytes = std::array<uint64_t, 4>;

struct AnswerNode {
  enum class Kind : uint8_t {
    text,  // in AnswerProgram::texts, and so on
    number,
    literals,  // one of some texts
    object,
    array,
    choice,    // any of other nodes
    checked,   // another node, whose finished value is validated
    sequence,  // nodes one after the other, without whitespace
  };
  Kind kind = Kind::choice;
  int32_t index = 0;
  FirstBytes first{};
};

/// Literal texts, sorted, so that texts with the same beginning are neighbours.
struct LiteralsNode {
  std::vector<std::string> texts;
};

struct ObjectNode {
  struct Property {
    NodeId value = NodeId::none;
    bool is_required = false;
    int32_t num_required_after = 0;  // of the properties that follow
    // The first required property from here on, or the number of properties.
    int32_t next_required = 0;
  };
  /// Members whose names the schema does not list. They come after the listed ones.
  struct Extra {
    int32_t key = 0;  // in AnswerProgram::texts
    NodeId value = NodeId::none;
  };
  std::vector<Property> properties;  // in the order in which they are written
  LiteralsNode keys;                 // `"name"`
  std::vector<int32_t> property_of_key;
  std::vector<Extra> extras;
  /// Names that no extra member may have.
  std::vector<std::string> taken;
  int64_t least = 0;
  std::optional<int64_t> most;
};

struct ArrayNode {
  std::vector<NodeId> first_items;
  // For the items after the listed ones; none: no more items may follow.
  NodeId item = NodeId::none;
  NodeId contained = NodeId::none;  // an item that also satisfies `contains`
  int64_t least_contained = 0;
  int64_t least = 0;
  std::optional<int64_t> most;
  bool is_unique = false;
};

struct CheckedNode {
  NodeId value = NodeId::none;
  Json schema;
  std::shared_ptr<const SchemaValidator> validator;  // knows what the schema refers to
};

/// The form of an answer: a graph of nodes. AnswerMachine follows it byte by byte. Immutable once
/// it is made; any number of answers share it.
struct AnswerProgram {
  std::vector<AnswerNode> nodes;
  std::vector<TextLeaf> texts;
  std::vector<NumberLeaf> numbers;
  std::vector<LiteralsNode> literals;
  std::vector<ObjectNode> objects;
  std::vector<ArrayNode> arrays;
  std::vector<std::vector<NodeId>> choices;
  std::vector<CheckedNode> checks;
  std::vector<std::vector<NodeId>> sequences;
  size_t json_bytes = 0;  // of the checks and the validator
  NodeId root = NodeId::none;
  bool any_whitespace = true;

  [[nodiscard]] const AnswerNode& at(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  NodeId add(AnswerNode::Kind kind, size_t index) {
    nodes.push_back({.kind = kind, .index = static_cast<int32_t>(index)});
    return static_cast<NodeId>(nodes.size() - 1);
  }
  [[nodiscard]] size_t memory_bytes() const;
};

/// Fills in AnswerNode::first, and the numbers in ObjectNode, when all nodes exist.
void link(AnswerProgram& program);

}  // namespace reprise::structured_output
