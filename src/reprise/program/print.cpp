#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "reprise/program/text.h"
#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/op_table.h"

namespace reprise::program {
namespace {

// Prints one line per declaration and node. It prints any Program, even one that verify() refuses.
class Printer {
 public:
  enum class Names : uint8_t { as_given, canonical };

  Printer(const Program& program, Names names) : program_(program), names_(names) {
    name_of_.resize(program.values.size(), "?");
    size_t count = 0;
    for (const ProgramInput& input : program.inputs) {
      set_name(
          input.value,
          fmt::format("%{}", names == Names::as_given ? input.name : fmt::format("in{}", count)));
      ++count;
    }
    name_slots(program.parameters, 'p');
    name_slots(program.states, 's');
    size_t results = 0;
    for (const Node& node : program.nodes) {
      for (ValueId output : node.outputs) set_name(output, fmt::format("%{}", results++));
    }
  }

  std::string print() {
    text_ = "program {\n";
    for (size_t i = 0; i < program_.groups.size(); ++i) print_group(i);
    for (const ProgramInput& input : program_.inputs) {
      declare(input.is_buffer ? "buffer" : "input", input.value);
    }
    for (ValueId parameter : program_.parameters) declare("parameter", parameter);
    for (ValueId state : program_.states) declare("state", state);
    for (const Node& node : program_.nodes) print_node(node);
    line("return {}", list(program_.outputs));
    if (!program_.states.empty()) line("keep {}", list(program_.final_states));
    return text_ + "}\n";
  }

 private:
  // Prints the lines of the group's program, indented by two more spaces.
  void print_group(size_t index) {
    const std::string body = Printer(program_.groups[index], names_).print();
    std::string_view rest = std::string_view(body).substr(body.find('\n') + 1);
    line("group g{} {{", index);
    for (; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
      line("{}", rest.substr(0, rest.find('\n')));
    }
  }
  void name_slots(const std::vector<ValueId>& slots, char prefix) {
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      set_name(slots[slot], fmt::format("{}{}", prefix, slot));
    }
  }
  void set_name(ValueId id, std::string name) {
    if (index_of(id) < name_of_.size()) name_of_[index_of(id)] = std::move(name);
  }
  [[nodiscard]] std::string name(ValueId id) const {
    if (id == kNoValue) return "none";
    return index_of(id) < name_of_.size() ? name_of_[index_of(id)] : "?";
  }
  [[nodiscard]] std::string type(ValueId id) const {
    if (index_of(id) >= program_.values.size()) return "?";
    return program_.type(id).to_string();
  }

  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += "  ";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    while (text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  void declare(std::string_view kind, ValueId id) { line("{} {}: {}", kind, name(id), type(id)); }
  [[nodiscard]] std::string list(std::span<const ValueId> ids) const {
    std::vector<std::string> names;
    for (ValueId id : ids) names.push_back(name(id));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  // Optional operands that are left out at the end are not printed.
  [[nodiscard]] std::string operands(const Node& node) const {
    std::span<const ValueId> ids = node.inputs;
    const auto& optional = definition_of(node.op).rule.optional_operands;
    while (!ids.empty() && ids.back() == kNoValue &&
           std::ranges::find(optional, ids.size() - 1) != optional.end()) {
      ids = ids.first(ids.size() - 1);
    }
    return list(ids);
  }

  // A version of a state is printed as "%7: s0": it has the type of the state in slot 0.
  [[nodiscard]] std::string result(ValueId id) const {
    const bool is_state = index_of(id) < program_.values.size() && program_.value(id).state;
    return fmt::format(
        "{}: {}", name(id), is_state ? fmt::format("s{}", *program_.value(id).state) : type(id));
  }
  [[nodiscard]] static std::string text_of(const SymInt& size) { return size.to_string(); }
  [[nodiscard]] static std::string text_of(DType dtype) { return std::string(short_name(dtype)); }
  [[nodiscard]] static std::string text_of(OpFunction function) {
    return std::string(kFunctionNames[static_cast<size_t>(function)]);
  }
  [[nodiscard]] static std::string text_of(uint32_t group) { return fmt::format("g{}", group); }
  [[nodiscard]] static std::string text_of(auto number) { return fmt::to_string(number); }
  [[nodiscard]] static std::string attributes(const Node& node) {
    std::vector<std::string> texts;
    for (Attribute key : attributes_of(node.op)) {
      if (key == Attribute::function && node.attributes.function == OpFunction::none) continue;
      if (key == Attribute::sliding_window && node.attributes.sliding_window == 0) continue;
      if (key == Attribute::chunk_size && node.attributes.chunk_size == 0) continue;
      if (key == Attribute::soft_cap && node.attributes.soft_cap == 0) continue;
      if (key == Attribute::k_scale && node.attributes.k_scale == 1) continue;
      if (key == Attribute::v_scale && node.attributes.v_scale == 1) continue;
      if (key == Attribute::epsilon && node.attributes.epsilon == 0) continue;
      if (key == Attribute::top_k && node.attributes.length == SymInt(0)) continue;
      texts.push_back(visit_member_of(key, [&](auto member) {
        return fmt::format("{}={}", attribute_name(key), text_of(node.attributes.*member));
      }));
    }
    return texts.empty() ? std::string() : fmt::format(" {{{}}}", fmt::join(texts, ", "));
  }
  // The op's name. Only custom ops have a namespace in their name.
  [[nodiscard]] static std::string_view op_text(const Node& node) {
    const bool is_named = node.op == OpCode::custom && node.attributes.custom != nullptr;
    return is_named ? std::string_view(node.attributes.custom->name) : op_name(node.op);
  }
  // The comment ends with the line, so control characters (line breaks) are replaced by spaces.
  [[nodiscard]] static std::string comment(std::string_view location) {
    std::string text(location);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return {};
    return "  // " + text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  }
  void print_node(const Node& node) {
    std::vector<std::string> results;
    for (ValueId output : node.outputs) results.push_back(result(output));
    line("{}{}{}({}){}{}",
         fmt::join(results, ", "),
         results.empty() ? "" : " = ",
         op_text(node),
         operands(node),
         attributes(node),
         names_ == Names::as_given ? comment(node.location) : std::string());
  }

  const Program& program_;
  Names names_;
  std::vector<std::string> name_of_;
  std::string text_;
};

}  // namespace

std::string print(const Program& program) {
  return Printer(program, Printer::Names::as_given).print();
}

std::string canonical_text(const Program& program) {
  return Printer(program, Printer::Names::canonical).print();
}

}  // namespace reprise::program
