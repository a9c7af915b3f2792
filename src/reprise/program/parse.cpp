#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "reprise/program/text.h"
#include "reprise/program/text_cursor.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::program {
namespace {

// The largest size or coefficient. No tensor is this large, and the product of two such numbers
// fits into 64 bits.
constexpr int64_t kMaxNumber = std::numeric_limits<int32_t>::max();

// The layout that a type's text names, such as "panels" in "bf16_panels"; nothing: no matrix of
// this shape has such a layout.
std::optional<WeightLayout> layout_from(std::string_view text, const SymShape& shape) {
  const int rank = shape.rank();
  const SymInt depth = rank > 1 ? shape[rank - 1] : SymInt(0);
  const bool has_depth = depth.is_constant() && depth.constant() > 0;
  return has_depth ? parse_weight_layout(text, depth.constant()) : std::nullopt;
}

class Parser {
 public:
  Parser(TextCursor in, std::span<const CustomOp* const> custom_ops)
      : in_(in), custom_ops_(custom_ops) {}

  Program parse() {
    in_.skip_blank_lines();
    if (in_.take_word("'program'") != "program") in_.fail("a program begins with 'program {'");
    in_.take('{');
    in_.end_line();
    while (parse_group()) {
    }
    parse_body();
    if (!in_.at_end()) in_.fail("text after the program");
    return std::move(program_);
  }

 private:
  void parse_body() {
    while (parse_declaration()) {
    }
    while (parse_node()) {
    }
    parse_end();
  }
  // Parses "group g0 {" and the group's body. A group contains no groups, so the recursion ends
  // here.
  bool parse_group() {
    in_.skip_blank_lines();
    const TextCursor begin = in_;
    if (!is_word(in_.peek()) || in_.take_word("a declaration") != "group") {
      in_ = begin;
      return false;
    }
    expect_slot('g', program_.groups.size());
    in_.take('{');
    in_.end_line();
    Parser group(in_, custom_ops_);
    group.parse_body();
    in_ = group.in_;
    in_.end_line();
    program_.groups.push_back(std::move(group.program_));
    return true;
  }
  // Parses "input %name: type" or another declaration. False: the line is not a declaration.
  bool parse_declaration() {
    in_.skip_blank_lines();
    if (in_.peek() == '%' || !is_word(in_.peek())) return false;
    const TextCursor begin = in_;
    const std::string_view kind = in_.take_word("a declaration");
    if (kind == "input" || kind == "buffer") {
      parse_input(kind == "buffer");
    } else if (kind == "parameter") {
      expect_slot('p', program_.parameters.size());
      const ValueType type = parse_declared_type();
      const std::string name = fmt::format("p{}", program_.parameters.size());
      define(name, program_.add_parameter(type));
    } else if (kind == "state") {
      expect_slot('s', program_.states.size());
      const ValueType type = parse_declared_type();
      const std::string name = fmt::format("s{}", program_.states.size());
      define(name, program_.add_state(type));
    } else {
      in_ = begin;
      return false;
    }
    in_.end_line();
    return true;
  }

  void parse_input(bool is_buffer) {
    in_.take('%');
    const size_t position = in_.position();
    const std::string name(in_.take_word("a name"));
    if (is_digit(name.front())) in_.fail_at(position, "the name of an input begins with a letter");
    const ValueType type = parse_declared_type();
    define_at(position, "%" + name, program_.add_input(name, type, is_buffer));
  }

  void expect_slot(char prefix, size_t slot) {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string expected = fmt::format("{}{}", prefix, slot);
    if (in_.take_word("a slot") != expected) {
      in_.fail_at(position, fmt::format("slots are numbered in order: expected {}", expected));
    }
  }

  ValueType parse_declared_type() {
    in_.take(':');
    in_.skip_spaces();
    const size_t position = in_.position();
    return parse_type(in_.take_word("a type"), position);
  }

  // Parses the shape after "bf16" or "bf16_panels".
  ValueType parse_type(std::string_view text, size_t position) {
    const size_t end = std::min(text.find('_'), text.size());
    const std::string_view dtype_text = text.substr(0, end);
    const std::optional<DType> dtype = parse_short_name(dtype_text);
    if (!dtype) in_.fail_at(position, fmt::format("no element type is called '{}'", dtype_text));
    ValueType type{.dtype = *dtype};
    in_.take('[');
    if (!in_.take_if(']')) {
      do {
        if (type.shape.rank() == Shape::kMaxRank) {
          in_.fail(fmt::format("more than {} dimensions", Shape::kMaxRank));
        }
        type.shape.push_back(parse_size());
      } while (in_.take_if(','));
      in_.take(']');
    }
    if (end == text.size()) return type;
    const std::string_view layout_text = text.substr(end + 1);
    const std::optional<WeightLayout> layout = layout_from(layout_text, type.shape);
    if (!layout) {
      in_.fail_at(position, fmt::format("no layout of such a matrix is called '{}'", layout_text));
    }
    type.layout = *layout;
    return type;
  }

  int64_t parse_number() {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view digits = in_.take_word("a number");
    int64_t number = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
      in_.fail_at(position, fmt::format("'{}' is not a number", digits));
    }
    if (number > kMaxNumber)
      in_.fail_at(position, fmt::format("{} is above {}", number, kMaxNumber));
    return number;
  }

  Symbol take_symbol() {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view word = in_.take_word("a symbol");
    const std::optional<Symbol> symbol = parse_symbol(word);
    if (!symbol)
      in_.fail_at(position, fmt::format("no size is called '{}'; there are T, R, L, B", word));
    return *symbol;
  }

  // Parses 64 | -3 | T | 2*T | -2*T+3 | R-1.
  SymInt parse_size() {
    const bool is_negative = in_.take_if('-');
    int64_t coefficient = 1;
    if (is_digit(in_.peek())) {
      coefficient = parse_number();
      if (!in_.take_if('*')) return is_negative ? -coefficient : coefficient;
    }
    const Symbol symbol = take_symbol();
    if (is_negative) coefficient = -coefficient;
    int64_t constant = 0;
    if (in_.take_if('+')) {
      constant = parse_number();
    } else if (in_.take_if('-')) {
      constant = -parse_number();
    }
    return SymInt(symbol, coefficient, constant);
  }

  void define(const std::string& name, ValueId id) { define_at(in_.position(), name, id); }
  void define_at(size_t position, const std::string& name, ValueId id) {
    if (!values_.emplace(name, id).second) {
      in_.fail_at(position, fmt::format("{} is defined twice", name));
    }
  }

  // Parses %name, p3, s0 or none.
  ValueId parse_value() {
    in_.skip_spaces();
    const size_t position = in_.position();
    std::string name = in_.take_if('%') ? "%" : "";
    name += in_.take_word("a value");
    if (name == "none") return kNoValue;
    const auto found = values_.find(name);
    if (found == values_.end()) in_.fail_at(position, fmt::format("{} is not defined here", name));
    return found->second;
  }

  struct Result {
    ValueType type;
    std::optional<uint32_t> state;
  };
  // Parses "%3: bf16[T, 64]" or "%3: s0".
  Result parse_result(size_t number) {
    in_.skip_spaces();
    size_t position = in_.position();
    in_.take('%');
    const std::string expected = fmt::format("{}", number);
    if (in_.take_word("a number") != expected) {
      in_.fail_at(position, fmt::format("results are numbered in order: expected %{}", expected));
    }
    in_.take(':');
    in_.skip_spaces();
    position = in_.position();
    const std::string_view word = in_.take_word("a type");
    const auto state = values_.find(std::string(word));
    if (state == values_.end() || !program_.value(state->second).state) {
      return {parse_type(word, position), std::nullopt};
    }
    return {program_.type(state->second), program_.value(state->second).state};
  }

  bool parse_node() {
    in_.skip_blank_lines();
    const TextCursor begin = in_;
    Node node;
    std::vector<Result> results;
    if (in_.peek() == '%') {
      do {
        results.push_back(parse_result(num_results_ + results.size()));
      } while (in_.take_if(','));
      in_.take('=');
    }
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view name = in_.take_word("an op or 'return'");
    if (results.empty() && name == "return") {
      in_ = begin;
      return false;
    }
    parse_op(node, name, position);
    parse_arguments(node);
    if (in_.take_if('{')) parse_attributes(node);
    node.location = std::string(in_.take_comment());
    // Results get their names only after the operands are read, so an op cannot use its own result
    // as an operand.
    for (const Result& result : results) {
      const ValueId id = program_.add_value(result.type, result.state);
      node.outputs.push_back(id);
      define(fmt::format("%{}", num_results_++), id);
    }
    in_.end_line();
    program_.nodes.push_back(std::move(node));
    return true;
  }

  // Parses "rms_norm", or the name of a custom op such as "mine::scale".
  void parse_op(Node& node, std::string_view name, size_t position) {
    if (!in_.take_if(':')) {
      const std::optional<OpCode> op = parse_op_name(name);
      if (!op || *op == OpCode::custom) {
        in_.fail_at(position, fmt::format("no op is called '{}'", name));
      }
      node.op = *op;
      return;
    }
    in_.take(':');
    const std::string full = fmt::format("{}::{}", name, in_.take_word("the name of an op"));
    for (const CustomOp* op : custom_ops_) {
      if (op->name != full) continue;
      node.op = OpCode::custom;
      node.attributes.custom = op;
      return;
    }
    in_.fail_at(position, fmt::format("no custom op is registered as '{}'", full));
  }

  void parse_arguments(Node& node) {
    in_.take('(');
    if (!in_.take_if(')')) {
      do {
        node.inputs.push_back(parse_value());
      } while (in_.take_if(','));
      in_.take(')');
    }
    leave_out_last_operands(node);
  }

  float parse_float() {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view text = in_.take_until(",}");
    float number = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size() ||
        !std::isfinite(number)) {
      in_.fail_at(position, fmt::format("'{}' is not a finite number", text));
    }
    return number;
  }

  void parse_attributes(Node& node) {
    std::vector<std::string_view> seen;
    do {
      in_.skip_spaces();
      const size_t position = in_.position();
      const std::string_view key = in_.take_word("an attribute");
      for (std::string_view other : seen) {
        if (other == key) in_.fail_at(position, fmt::format("{} is given twice", key));
      }
      seen.push_back(key);
      in_.take('=');
      if (!parse_attribute(node, key)) {
        in_.fail_at(position, fmt::format("{} has no attribute '{}'", op_name(node.op), key));
      }
    } while (in_.take_if(','));
    in_.take('}');
  }

  // False: the op has no such attribute.
  bool parse_attribute(Node& node, std::string_view key) {
    for (Attribute attribute : attributes_of(node.op)) {
      if (attribute_name(attribute) != key) continue;
      visit_member_of(attribute, [&](auto member) { parse_into(node.attributes.*member); });
      return true;
    }
    return false;
  }
  void parse_into(SymInt& size) { size = parse_size(); }
  void parse_into(float& number) { number = parse_float(); }
  void parse_into(int& number) { number = static_cast<int>(parse_number()); }
  void parse_into(int64_t& number) { number = parse_number(); }
  void parse_into(uint32_t& group) { group = parse_group_number(); }
  void parse_into(DType& dtype) {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view name = in_.take_word("an element type");
    const std::optional<DType> found = parse_short_name(name);
    if (!found) in_.fail_at(position, fmt::format("no element type is called '{}'", name));
    dtype = *found;
  }
  void parse_into(OpFunction& function) {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view name = in_.take_word("a function");
    function = function_of_name(name);
    if (function == OpFunction::none) {
      in_.fail_at(position, fmt::format("no function is called '{}'", name));
    }
  }
  uint32_t parse_group_number() {
    in_.skip_spaces();
    const size_t position = in_.position();
    const std::string_view name = in_.take_word("a group");
    for (size_t i = 0; i < program_.groups.size(); ++i) {
      if (name == fmt::format("g{}", i)) return static_cast<uint32_t>(i);
    }
    in_.fail_at(position, fmt::format("there is no group '{}'", name));
  }

  std::vector<ValueId> parse_values() {
    std::vector<ValueId> ids;
    if (in_.peek() != '\n') {
      do {
        ids.push_back(parse_value());
      } while (in_.take_if(','));
    }
    in_.end_line();
    return ids;
  }

  void parse_end() {
    in_.skip_blank_lines();
    if (in_.take_word("'return'") != "return") in_.fail("expected 'return'");
    program_.outputs = parse_values();
    if (!program_.states.empty()) {
      in_.skip_blank_lines();
      if (in_.take_word("'keep'") != "keep") in_.fail("a program with state ends with 'keep'");
      program_.final_states = parse_values();
    }
    in_.skip_blank_lines();
    in_.take('}');
  }

  TextCursor in_;
  std::span<const CustomOp* const> custom_ops_;
  Program program_;
  std::map<std::string, ValueId, std::less<>> values_;
  size_t num_results_ = 0;
};

}  // namespace

ProgramSyntaxError::ProgramSyntaxError(size_t line, size_t column, const std::string& message)
    : InvalidArgument(fmt::format("program text, line {}, column {}: {}", line, column, message)),
      line_(line),
      column_(column) {}

Program parse(std::string_view text, std::span<const CustomOp* const> custom_ops) {
  return Parser(TextCursor(text), custom_ops).parse();
}

}  // namespace reprise::program
