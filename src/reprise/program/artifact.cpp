#include "reprise/program/artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "reprise/base/json.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"

namespace reprise::program {
namespace {

// ---- writing ----

Json to_json(const Piece& piece) {
  return {{"program", piece.program},
          {"is_splitting", piece.is_splitting},
          {"inputs", piece.inputs},
          {"outputs", piece.outputs},
          {"parameters", piece.parameters},
          {"states", piece.states},
          {"dead", piece.dead}};
}

// A list of [value, symbol, bytes per unit], with one entry for each value that has a place.
Json to_json(const std::vector<std::optional<Placement>>& placements) {
  Json list = Json::array();
  for (size_t value = 0; value < placements.size(); ++value) {
    if (!placements[value]) continue;
    list.push_back(
        {value, symbol_name(placements[value]->symbol), placements[value]->bytes_per_unit});
  }
  return list;
}

// ---- reading ----

// The largest accepted number of items of one kind. No model has this many, and this many fit into
// memory.
constexpr int64_t kMostItems = 1 << 20;

class Reader {
 public:
  Reader(const Json& document, std::span<const CustomOp* const> custom_ops)
      : document_(document), custom_ops_(custom_ops) {}

  CompiledProgram read(GroupSymbols& symbols) {
    if (number(member(document_, "version")) != kArtifactVersion) fail("of another version");
    CompiledProgram compiled;
    SplitProgram& split = compiled.split;
    compiled.wrap_pieces = flag(member(document_, "wrap_pieces"));
    compiled.num_states = count(member(document_, "num_states"));
    split.num_boundary_values = count(member(document_, "num_boundary_values"));
    for (const Json& text : list(member(document_, "programs"))) {
      split.programs.push_back(parse_program(string(text)));
    }
    for (const Json& parameter : list(member(document_, "parameters"))) {
      compiled.parameters.push_back(
          {.name = string(member(parameter, "name")),
           .type = parse_constant_type(string(member(parameter, "type")))});
    }
    for (const Json& piece : list(member(document_, "pieces"))) {
      split.pieces.push_back(read_piece(piece, compiled));
    }
    split.outputs = indices(member(document_, "outputs"), split.num_boundary_values);
    read_plan(compiled);
    read_symbols(compiled, symbols);
    check_flow(compiled);
    return compiled;
  }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    throw ArtifactError("compiled program: " + message);
  }
  static const Json& member(const Json& object, const char* name) {
    if (!object.is_object() || !object.contains(name)) fail(fmt::format("has no '{}'", name));
    return object.at(name);
  }
  static int64_t number(const Json& value) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
      fail("a number was expected");
    }
    return value.get<int64_t>();
  }
  static size_t count(const Json& value) {
    const int64_t items = number(value);
    if (items < 0 || items > kMostItems) fail(fmt::format("{} is not a count", items));
    return static_cast<size_t>(items);
  }
  static bool flag(const Json& value) {
    if (!value.is_boolean()) fail("true or false was expected");
    return value.get<bool>();
  }
  static std::string string(const Json& value) {
    if (!value.is_string()) fail("text was expected");
    return value.get<std::string>();
  }
  static const Json& list(const Json& value) {
    if (!value.is_array() || value.size() > static_cast<size_t>(kMostItems))
      fail("a list was expected");
    return value;  // NOLINT(bugprone-return-const-ref-from-parameter): parts of a document
  }
  static std::vector<size_t> indices(const Json& value, size_t end) {
    std::vector<size_t> found;
    for (const Json& item : list(value)) {
      found.push_back(count(item));
      if (found.back() >= end) fail(fmt::format("{} is not below {}", found.back(), end));
    }
    return found;
  }

  [[nodiscard]] Program parse_program(const std::string& text) const {
    try {
      Program program = parse(text, custom_ops_);
      check(program);
      return program;
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  // Builds the text of a program whose only line is an input of this type, and parses that program.
  static ValueType parse_constant_type(const std::string& text) {
    try {
      const Program program =
          parse(fmt::format("program {{\n  parameter p0: {}\n  return\n}}\n", text));
      const ValueType type = program.type(program.parameters.at(0));
      for (const SymInt& size : type.shape.sizes()) {
        if (!size.is_constant() || size.constant() < 0)
          fail("a parameter whose size depends on the batch");
      }
      return type;
    } catch (const ProgramSyntaxError& error) {
      fail(error.what());
    }
  }

  static Piece read_piece(const Json& json, const CompiledProgram& compiled) {
    const SplitProgram& split = compiled.split;
    Piece piece;
    piece.program = count(member(json, "program"));
    if (piece.program >= split.programs.size()) fail("a piece runs a program that is not there");
    piece.is_splitting = flag(member(json, "is_splitting"));
    piece.inputs = indices(member(json, "inputs"), split.num_boundary_values);
    piece.outputs = indices(member(json, "outputs"), split.num_boundary_values);
    piece.parameters = indices(member(json, "parameters"), compiled.parameters.size());
    piece.states = indices(member(json, "states"), compiled.num_states);
    piece.dead = indices(member(json, "dead"), split.num_boundary_values);
    const Program& program = split.programs[piece.program];
    if (piece.inputs.size() != program.inputs.size() ||
        piece.outputs.size() != program.outputs.size() ||
        piece.parameters.size() != program.parameters.size() ||
        piece.states.size() != program.states.size()) {
      fail("a piece does not have the slots of its program");
    }
    for (size_t i = 0; i < piece.parameters.size(); ++i) {
      if (compiled.parameters[piece.parameters[i]].type != program.type(program.parameters[i])) {
        fail("a piece is given a parameter of another type");
      }
    }
    return piece;
  }

  void read_plan(CompiledProgram& compiled) const {
    const Json& plan = member(document_, "plan");
    if (plan.is_null()) return;
    const Json& parts = list(member(plan, "bytes_per_unit"));
    if (parts.size() != compiled.plan.bytes_per_unit.size())
      fail("a memory plan with other symbols than the program");
    for (size_t i = 0; i < parts.size(); ++i) compiled.plan.bytes_per_unit[i] = bytes(parts[i]);
    const Json& pieces = list(member(plan, "pieces"));
    if (pieces.size() != compiled.split.pieces.size()) fail("a memory plan for other pieces");
    for (size_t i = 0; i < pieces.size(); ++i) {
      read_placements(
          pieces[i], compiled, compiled.split.programs[compiled.split.pieces[i].program]);
    }
  }
  // The limit is one gigabyte per token.
  static int64_t bytes(const Json& value) {
    const int64_t size = number(value);
    if (size < 0 || size > (int64_t{1} << 30) || size % kPlanAlignment != 0) {
      fail(fmt::format("{} is not a size in a plan", size));
    }
    return size;
  }
  static void read_placements(const Json& json, CompiledProgram& compiled, const Program& program) {
    auto& placements = compiled.plan.pieces.emplace_back(program.values.size());
    for (const Json& item : list(json)) {
      if (!item.is_array() || item.size() != 3) fail("a placement is [value, symbol, bytes]");
      const size_t value = count(item[0]);
      if (value >= placements.size()) fail("a place for a value that does not exist");
      const std::string name = string(item[1]);
      const std::optional<Symbol> symbol =
          name.empty() ? std::optional(Symbol::none) : parse_symbol(name);
      if (!symbol) fail(fmt::format("a place per '{}'", name));
      placements[value] = Placement{*symbol, bytes(item[2])};
      check_fits(
          program.type(ValueId{static_cast<uint32_t>(value)}), *placements[value], compiled.plan);
    }
  }
  // Checks that the value ends within its part of the arena for every batch. Both ends are affine
  // in the symbol, so checking two values of the symbol suffices.
  static void check_fits(const ValueType& type,
                         const Placement& placement,
                         const MemoryPlan& plan) {
    const int64_t part = plan.bytes_per_unit[static_cast<size_t>(placement.symbol)];
    for (int64_t units : {1, 1000}) {
      SymbolValues values{1, 1, 1, 1};
      if (placement.symbol != Symbol::none) values[placement.symbol] = units;
      const int64_t scale = placement.symbol == Symbol::none ? 1 : units;
      const auto size = static_cast<int64_t>(type.evaluate(values).bytes());
      if (size > (part - placement.bytes_per_unit) * scale) fail("a value does not fit its place");
    }
  }

  void read_symbols(const CompiledProgram& compiled, GroupSymbols& symbols) const {
    for (const Json& program : list(member(document_, "code"))) {
      std::vector<std::string>& groups = symbols.emplace_back();
      for (const Json& symbol : list(program)) groups.push_back(string(symbol));
    }
    if (symbols.size() != compiled.split.programs.size()) fail("a list of code for other programs");
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i].size() != compiled.split.programs[i].groups.size())
        fail("a list of code for other row groups");
    }
  }

  // Checks that every boundary value is defined before its first use and has the expected type.
  static void check_flow(const CompiledProgram& compiled) {
    const SplitProgram& split = compiled.split;
    std::vector<std::optional<ValueType>> types(split.num_boundary_values);
    std::vector<bool> is_dead(split.num_boundary_values);
    std::vector<bool> is_defined(split.num_boundary_values);
    for (const Piece& piece : split.pieces) {
      for (size_t output : piece.outputs) is_defined[output] = true;
    }
    for (const Piece& piece : split.pieces) {
      const Program& program = split.programs[piece.program];
      for (size_t i = 0; i < piece.inputs.size(); ++i) {
        std::optional<ValueType>& type = types[piece.inputs[i]];
        const bool is_input_of_whole = !is_defined[piece.inputs[i]];
        if ((!type && !is_input_of_whole) || is_dead[piece.inputs[i]]) {
          fail("a piece reads a value that does not exist");
        }
        const ValueType& wanted = program.type(program.inputs[i].value);
        if (type && *type != wanted) fail("a piece is given a value of another type");
        type = wanted;
      }
      for (size_t i = 0; i < piece.outputs.size(); ++i) {
        if (types[piece.outputs[i]]) fail("two pieces compute the same value");
        types[piece.outputs[i]] = program.type(program.outputs[i]);
      }
      for (size_t value : piece.dead) is_dead[value] = true;
    }
    for (size_t output : split.outputs) {
      if (!types[output] || is_dead[output]) fail("returns a value that does not exist");
    }
  }

  const Json& document_;
  std::span<const CustomOp* const> custom_ops_;
};

std::unique_ptr<const RowGroup> make_row_group(const Program& group,
                                               const std::string& name,
                                               const device::LoadedCode& code) {
  auto made = std::make_unique<RowGroup>();
  made->name = name;
  made->kernel = code.kernel(name, made->name.c_str());
  const SymInt rows = group.type(group.outputs.front()).shape[0];
  for (ValueId output : group.outputs) {
    const TensorType type = group.type(output).evaluate({1, 1, 1, 1});
    made->results.push_back({type.dtype, type.shape});
  }
  for (size_t i = group.inputs.size(); i-- > 0;) {
    const SymShape& shape = group.type(group.inputs[i].value).shape;
    if (shape.rank() > 0 && shape[0] == rows) made->rows_of = i;
  }
  return made;
}

}  // namespace

void attach_code(CompiledProgram& program,
                 std::span<const std::byte> object,
                 const GroupSymbols& symbols,
                 const device::CodeLoader& loader) {
  program.code.clear();
  std::set<std::string> functions;
  for (const auto& groups : symbols) functions.insert(groups.begin(), groups.end());
  functions.erase("");
  if (!functions.empty()) {
    if (object.empty()) throw ArtifactError("compiled program: groups with code, and no object");
    program.loaded_code = loader.load(object, std::vector(functions.begin(), functions.end()));
  }
  for (size_t i = 0; i < program.split.programs.size(); ++i) {
    auto& groups = program.code.emplace_back();
    for (size_t group = 0; group < program.split.programs[i].groups.size(); ++group) {
      const std::string& symbol = symbols.at(i).at(group);
      groups.push_back(symbol.empty() ? nullptr
                                      : make_row_group(program.split.programs[i].groups[group],
                                                       symbol,
                                                       *program.loaded_code));
    }
  }
}

Artifact to_artifact(const CompiledProgram& program, std::span<const std::byte> object) {
  Json programs = Json::array();
  for (const Program& unique : program.split.programs) programs.push_back(print(unique));
  Json parameters = Json::array();
  for (const ParameterSlot& slot : program.parameters) {
    parameters.push_back({{"name", slot.name}, {"type", slot.type.to_string()}});
  }
  Json pieces = Json::array();
  for (const Piece& piece : program.split.pieces) pieces.push_back(to_json(piece));
  Json plan;
  if (!program.plan.empty()) {
    Json places = Json::array();
    for (const auto& piece : program.plan.pieces) places.push_back(to_json(piece));
    plan = {{"bytes_per_unit", program.plan.bytes_per_unit}, {"pieces", std::move(places)}};
  }
  Json code = Json::array();
  for (const auto& groups : program.code) {
    Json symbols = Json::array();
    for (const auto& group : groups) symbols.push_back(group == nullptr ? "" : group->name);
    code.push_back(std::move(symbols));
  }
  const Json document = {{"version", kArtifactVersion},
                         {"wrap_pieces", program.wrap_pieces},
                         {"num_states", program.num_states},
                         {"num_boundary_values", program.split.num_boundary_values},
                         {"programs", std::move(programs)},
                         {"parameters", std::move(parameters)},
                         {"pieces", std::move(pieces)},
                         {"outputs", program.split.outputs},
                         {"plan", std::move(plan)},
                         {"code", std::move(code)}};
  return {.program = document.dump(1),
          .object = std::string(reinterpret_cast<const char*>(object.data()), object.size())};
}

CompiledProgram from_artifact(const Artifact& artifact,
                              const device::CodeLoader& loader,
                              std::span<const CustomOp* const> custom_ops) {
  Json document;
  try {
    document = parse_json(artifact.program, "compiled program");
  } catch (const Error& error) {
    throw ArtifactError(fmt::format("compiled program: {}", error.what()));
  }
  GroupSymbols symbols;
  CompiledProgram program = Reader(document, custom_ops).read(symbols);
  attach_code(program, std::as_bytes(std::span(artifact.object)), symbols, loader);
  return program;
}

}  // namespace reprise::program
