#include "reprise/compile/codegen/nvrtc/cuda_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "reprise/compile/codegen/nvrtc/cuda_words.h"
#include "reprise/compile/codegen/row_values.h"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::compile {
namespace {

constexpr size_t kPartBytes = 64;
constexpr size_t kWarps = kernels::kRowGroupThreads / 32;
// The largest size of a block's shared memory, in bytes, that needs no special attribute.
constexpr size_t kMostSharedBytes = size_t{48} << 10;
constexpr int64_t kMostReads = 256;
// Rows with a wider norm are summed by the whole block, which then also computes the rest of the
// row.
constexpr int64_t kWidestWarpRow = 1024;

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "BFloat16";
    case DType::f16:
      return "Float16";
    default:
      return "float";
  }
}

size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

/// The layout of a team's shared memory. A team is the threads that compute one row: a warp or the
/// whole block.
struct Layout {
  std::vector<size_t>
      scales;  // by value: where the scales of an rms_norm are, in bytes of the team's memory
  std::vector<size_t> stages;  // by output: where its row is collected before it is stored
  size_t team_bytes = 0;
  bool by_warps = false;

  [[nodiscard]] size_t shared_bytes() const {
    return kPartBytes + team_bytes * (by_warps ? kWarps : 1);
  }
};

Layout lay_out(const RowValues& body) {
  Layout layout;
  bool has_wide_norm = false;
  for (const RowValue& value : body.values) {
    layout.scales.push_back(layout.team_bytes);
    if (value.kind != RowValueKind::rms_norm) continue;
    layout.team_bytes += round_up(static_cast<size_t>(value.heads) * sizeof(float));
    has_wide_norm |= value.width > kWidestWarpRow;
  }
  int64_t widest = 0;
  for (const size_t output : body.outputs) {
    const RowValue& value = body.values[output];
    layout.stages.push_back(layout.team_bytes);
    layout.team_bytes +=
        round_up(static_cast<size_t>(value.heads * value.width) * dtype_bytes(value.dtype));
    widest = std::max(widest, value.heads * value.width);
  }
  layout.by_warps = !has_wide_norm && widest <= kWidestWarpRow &&
                    kPartBytes + layout.team_bytes * kWarps <= kMostSharedBytes;
  return layout;
}

/// Writes the source of one body: a struct with one function per value, and the kernel.
class BodyWriter {
 public:
  BodyWriter(const RowValues& body, const std::string& symbol)
      : body_(body), layout_(lay_out(body)), symbol_(symbol) {}

  std::string write() {
    add("struct {}_row {{\n  const RowGroupArguments& a;\n  int64_t row;\n  const RowTeam& "
        "team;\n\n",
        symbol_);
    for (size_t i = 0; i < body_.values.size(); ++i) write_value(i);
    add("  REPRISE_DEVICE void compute() const {{\n");
    for (size_t i = 0; i < body_.values.size(); ++i) write_scales(i);
    write_outputs();
    add("  }}\n}};\n");
    add("REPRISE_DEVICE void {0}_rows(const RowGroupArguments& a, char* memory) {{\n"
        "  for_each_group_row(a, memory, {1}, {2}, [&](int64_t row, const RowTeam& team) {{\n"
        "    {0}_row{{a, row, team}}.compute();\n  }});\n}}\n"
        "REPRISE_ROW_KERNEL({0}, {3}, {0}_rows)\n\n",
        symbol_,
        layout_.by_warps ? "true" : "false",
        layout_.team_bytes,
        layout_.shared_bytes());
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  /// The expression for element `i` of head `h` of an operand. A computed value is a call of its
  /// function; a value in memory is read with its strides.
  std::string read(const RowRef& ref, std::string_view h, std::string_view i) const {
    const std::string stride = ref.head_stride ? fmt::format("{}", *ref.head_stride)
                                               : fmt::format("a.operands[{}].inner_stride",
                                                             body_.values[ref.value].operand);
    return fmt::format(
        "v{}(({} + {}) * {} + {} + ({}))", ref.value, h, ref.head_begin, stride, ref.begin, i);
  }

  void write_value(size_t index) {
    const RowValue& value = body_.values[index];
    add("  REPRISE_DEVICE float v{}(int64_t e) const {{\n", index);
    const char* type = type_name(value.dtype);
    switch (value.kind) {
      case RowValueKind::rows:
        add("    return element<{0}>(a.operands[{1}], row * a.operands[{1}].row_stride + e);\n",
            type,
            value.operand);
        break;
      case RowValueKind::weight:
        add("    return element<{}>(a.operands[{}], e);\n", type, value.operand);
        break;
      case RowValueKind::looked_up:
        add("    const int64_t index = index_of(a.operands[{}], row);\n"
            "    if (index < 0 || index >= a.operands[{}].rows) return 0;\n"
            "    return element<{}>(a.operands[{}], index * a.operands[{}].row_stride + e);\n",
            value.indices,
            value.operand,
            type,
            value.operand,
            value.operand);
        break;
      case RowValueKind::clamped:
        add("    const int64_t index = max_of(0, min_of(index_of(a.operands[{}], row), "
            "a.operands[{}].rows - 1));\n"
            "    return element<{}>(a.operands[{}], index * a.operands[{}].row_stride + e);\n",
            value.indices,
            value.operand,
            type,
            value.operand,
            value.operand);
        break;
      default:
        write_computed(index, value, type);
    }
    add("  }}\n");
  }

  void write_computed(size_t index, const RowValue& value, const char* type) {
    add("    const int64_t h = e / {0};\n    const int64_t i = e % {0};\n    (void)h;\n    "
        "(void)i;\n",
        value.width);
    const auto source = [&](size_t at, std::string_view i) {
      return read(value.sources[at], "h", i);
    };
    switch (value.kind) {
      case RowValueKind::copy:
        add("    return {};\n", source(0, "i"));
        break;
      case RowValueKind::add:
        add("    return rounded<{}>({} + {});\n", type, source(0, "i"), source(1, "i"));
        break;
      case RowValueKind::rms_norm:
        add("    const float scale = reinterpret_cast<const float*>(team.memory + {})[h];\n",
            layout_.scales[index]);
        add("    return rounded<{}>({} * scale * {});\n",
            type,
            source(0, "i"),
            read(value.sources[1], "0", "i"));
        break;
      case RowValueKind::silu_and_mul:
        add("    return rounded<{}>(silu({}) * {});\n",
            type,
            source(0, "i"),
            source(0, fmt::format("i + {}", value.width)));
        break;
      case RowValueKind::rope: {
        const int64_t half = value.width / 2;
        const std::string low = fmt::format("(i % {})", half);
        const std::string high = fmt::format("(i % {0} + {0})", half);
        add("    const float x1 = {};\n    const float x2 = {};\n",
            source(0, low),
            source(0, high));
        add("    const float c = {};\n    const float s = {};\n",
            read(value.sources[1], "0", low),
            read(value.sources[1], "0", high));
        add("    return rounded<{}>(i < {} ? x1 * c - x2 * s : x2 * c + x1 * s);\n", type, half);
        break;
      }
      default:
        break;  // memory
    }
  }

  void write_scales(size_t index) {
    const RowValue& value = body_.values[index];
    if (value.kind != RowValueKind::rms_norm) return;
    add("    norm_scales(team, {}, {}, {:.9e}F, reinterpret_cast<float*>(team.memory + {}),\n"
        "                [&](int64_t h, int64_t i) {{ return {}; }});\n",
        value.heads,
        value.width,
        value.epsilon,
        layout_.scales[index],
        read(value.sources[0], "h", "i"));
  }

  /// Reads all of a row before writing any of it, because results may be stored over inputs.
  void write_outputs() {
    const auto each = [&](const auto& say) {
      for (size_t i = 0; i < body_.outputs.size(); ++i) {
        const RowValue& value = body_.values[body_.outputs[i]];
        add("    for (int64_t e = team.rank; e < {}; e += team.size) {{\n      ",
            value.heads * value.width);
        say(i, value);
        add("    }}\n");
      }
    };
    each([&](size_t i, const RowValue& value) {
      add("put(reinterpret_cast<{}*>(team.memory + {}) + e, v{}(e));\n",
          type_name(value.dtype),
          layout_.stages[i],
          body_.outputs[i]);
    });
    add("    team.sync();\n");
    each([&](size_t i, const RowValue& value) {
      const size_t operand = body_.num_inputs + i;
      add("static_cast<{0}*>(a.operands[{1}].data)[row * a.operands[{1}].row_stride + e] = "
          "reinterpret_cast<const {0}*>(team.memory + {2})[e];\n",
          type_name(value.dtype),
          operand,
          layout_.stages[i]);
    });
  }

  const RowValues& body_;
  Layout layout_;
  const std::string& symbol_;
  std::string text_;
};

/// How many elements of memory are read for one element of a value, at most. A value is computed
/// again at each use, so each sum of a value with itself doubles the number.
int64_t most_reads(const RowValues& body) {
  constexpr int64_t kEnough = int64_t{1} << 40;
  std::vector<int64_t> reads;
  int64_t most = 0;
  for (const RowValue& value : body.values) {
    int64_t sum = is_memory(value.kind) ? 1 : 0;
    const bool reads_twice =
        value.kind == RowValueKind::silu_and_mul || value.kind == RowValueKind::rope;
    for (const RowRef& source : value.sources) sum += (reads_twice ? 2 : 1) * reads[source.value];
    reads.push_back(std::min(sum, kEnough));
    most = std::max(most, reads.back());
  }
  return most;
}

RowValues read_or_throw(const program::Program& body) {
  auto read = read_row_values(body);
  if (const auto* reason = std::get_if<std::string>(&read)) throw CodegenError(*reason);
  return std::get<RowValues>(std::move(read));
}

}  // namespace

std::optional<std::string> why_no_cuda_source(const program::Program& body) {
  const auto read = read_row_values(body);
  if (const auto* reason = std::get_if<std::string>(&read)) return *reason;
  if (const int64_t reads = most_reads(std::get<RowValues>(read)); reads > kMostReads) {
    return fmt::format("an element is made of {} others, more than {}", reads, kMostReads);
  }
  const size_t bytes = lay_out(std::get<RowValues>(read)).shared_bytes();
  if (bytes <= kMostSharedBytes) return std::nullopt;
  return fmt::format(
      "its rows take {} bytes of shared memory, a block has {}", bytes, kMostSharedBytes);
}

std::string cuda_source(std::span<const RowGroupSource> sources) {
  std::string text = cuda_words();
  for (const RowGroupSource& source : sources) {
    text += BodyWriter(read_or_throw(*source.body), source.symbol).write();
  }
  return text;
}

size_t cuda_shared_bytes(const program::Program& body) {
  return lay_out(read_or_throw(body)).shared_bytes();
}

}  // namespace reprise::compile
