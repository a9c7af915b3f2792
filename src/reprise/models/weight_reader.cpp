#include "reprise/models/weight_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::models {
namespace {

int64_t depth_of(const weights::WeightSource& source, std::string_view name) {
  return source.find(name)->shape.back();
}

// Writes the transpose of `stored` to `dst`, whose type is `type`.
void transpose(std::span<const std::byte> stored,
               const TensorType& type,
               std::span<std::byte> dst) {
  const size_t bytes = dtype_bytes(type.dtype);
  const auto rows = static_cast<size_t>(type.shape[0]);
  const auto columns = static_cast<size_t>(type.shape[1]);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(dst.data() + (row * columns + column) * bytes,
                  stored.data() + (column * rows + row) * bytes,
                  bytes);
    }
  }
}

// Writes the elements of a stack to `dst` in their arranged order.
void arrange(const TensorType& stacked,
             const Arrangement& arrangement,
             std::vector<std::byte> elements,
             std::span<std::byte> dst) {
  if (!arrangement.rows.empty()) {
    const size_t row_bytes = stacked.bytes() / static_cast<size_t>(stacked.shape[0]);
    std::vector<std::byte> rows(arrangement.rows.size() * row_bytes);
    for (size_t i = 0; i < arrangement.rows.size(); ++i) {
      const auto from = static_cast<size_t>(arrangement.rows[i]) * row_bytes;
      std::memcpy(rows.data() + i * row_bytes, elements.data() + from, row_bytes);
    }
    elements = std::move(rows);
  }
  if (!arrangement.transposes_each) {
    std::memcpy(dst.data(), elements.data(), dst.size());
    return;
  }
  const TensorType result = arranged_type(stacked, arrangement);
  const TensorType matrix{result.dtype, {result.shape[1], result.shape[2]}};
  for (size_t offset = 0; offset < dst.size(); offset += matrix.bytes()) {
    transpose(std::span(elements).subspan(offset), matrix, dst.subspan(offset, matrix.bytes()));
  }
}

// Reads tensors whose elements change their order.
void read_arranged(const weights::WeightSource& source,
                   const WeightPlan& plan,
                   std::span<std::byte> dst) {
  const bool is_transposed = plan.arrangement.is_transposed;
  const DType dtype = plan.stacked.dtype;
  std::vector<std::byte> stacked(plan.stacked.bytes());
  std::vector<std::byte> stored;
  size_t offset = 0;
  for (const std::string& name : plan.names) {
    const TensorType part{dtype, loaded_shape(*source.find(name), is_transposed)};
    const std::span<std::byte> to = std::span(stacked).subspan(offset, part.bytes());
    if (is_transposed && part.shape.rank() == 2) {
      stored.resize(to.size());
      source.read(name, dtype, stored);
      transpose(stored, part, to);
    } else {
      source.read(name, dtype, to);
    }
    offset += to.size();
  }
  arrange(plan.stacked, plan.arrangement, std::move(stacked), dst);
  if (plan.family() == WeightFamily::column_panels) {
    pack_column_panels(dst, plan.type.shape[0], plan.type.shape[1]);
  }
}

}  // namespace

Shape loaded_shape(const weights::TensorSpec& spec, bool is_transposed) {
  Shape shape{std::span<const int64_t>(spec.shape)};
  if (is_transposed && shape.rank() == 2) std::swap(shape[0], shape[1]);
  return shape;
}

TensorType arranged_type(TensorType type, const Arrangement& arrangement) {
  if (!arrangement.rows.empty()) {
    const auto last = std::max_element(arrangement.rows.begin(), arrangement.rows.end());
    REPRISE_ASSERT(*last < type.shape[0], "row {} of {}", *last, type.to_string());
    type.shape[0] = static_cast<int64_t>(arrangement.rows.size());
  }
  if (arrangement.num_experts > 0) {
    const int64_t experts = arrangement.num_experts;
    type.shape = {experts, type.shape[0] / experts, type.shape[1]};
    if (arrangement.transposes_each) std::swap(type.shape[1], type.shape[2]);
  }
  return type;
}

std::vector<PanelPart> panel_parts(const weights::WeightSource& source,
                                   std::span<const std::string_view> names) {
  std::vector<PanelPart> parts;
  for (std::string_view name : names) {
    const std::optional<PanelFormat> format = source.panel_format(name);
    if (!format) {
      throw FileError("E_DTYPE", source.description(), name, "the tensor was packed before");
    }
    const int64_t rows = weights::num_matrix_rows(*source.find(name));
    if (!parts.empty() && parts.back().format == *format &&
        parts.back().columns % kPanelColumns == 0) {
      parts.back().columns += rows;
    } else {
      parts.push_back({.format = *format, .columns = rows});
    }
  }
  return parts;
}

void WeightReader::read(const weights::WeightSource& source,
                        const WeightPlan& plan,
                        std::span<std::byte> dst) {
  const std::vector<std::string_view> names(plan.names.begin(), plan.names.end());
  if (plan.family() == WeightFamily::block_panels) {
    read_blocks(source, names, dst);
  } else if (is_packed(plan.family())) {
    read_panels(source, names, dst);
  } else if (plan.arrangement.is_in_order()) {
    read_stacked(source, names, plan.type, dst);
  } else {
    read_arranged(source, plan, dst);
  }
}

void WeightReader::read_stacked(const weights::WeightSource& source,
                                Names names,
                                const TensorType& weight,
                                std::span<std::byte> dst) {
  const bool packs = weight.layout.family == WeightFamily::column_panels;
  const DType read_as = weight.dtype;
  size_t offset = 0;
  for (std::string_view name : names) {
    const TensorType type{read_as, loaded_shape(*source.find(name), false)};
    const std::span<std::byte> to = dst.subspan(offset, type.bytes());
    offset += to.size();
    for_parts(source, name, [&](std::optional<weights::RowRange> rows) {
      std::span<std::byte> part = to;
      if (rows) {
        const size_t row_bytes = to.size() / static_cast<size_t>(type.shape[0]);
        part = to.subspan(static_cast<size_t>(rows->first) * row_bytes,
                          static_cast<size_t>(rows->count) * row_bytes);
      }
      std::vector<std::byte> row_major(packs ? part.size() : 0);
      const std::span<std::byte> read_to = packs ? std::span(row_major) : part;
      rows ? source.read_rows(name, *rows, read_as, read_to) : source.read(name, read_as, read_to);
      if (packs) {
        pack_column_panels(row_major, part, rows ? rows->count : type.shape[0], type.shape[1]);
      }
    });
  }
}

void WeightReader::read_blocks(const weights::WeightSource& source,
                               Names names,
                               std::span<std::byte> dst) {
  const PanelHeader header =
      make_panel_header(panel_parts(source, names), depth_of(source, names[0]));
  std::fill(dst.begin(), dst.begin() + kPanelHeaderBytes, std::byte{0});
  std::memcpy(dst.data(), &header, sizeof header);
  read_panels(source, names, dst.subspan(kPanelHeaderBytes));
}

void WeightReader::read_panels(const weights::WeightSource& source,
                               Names names,
                               std::span<std::byte> dst) {
  const int64_t depth = depth_of(source, names[0]);
  const auto bytes_of = [&](std::string_view name, int64_t rows) {
    return static_cast<size_t>(panel_bytes(*source.panel_format(name), rows, depth));
  };
  std::vector<size_t> begins = {0};
  for (std::string_view name : names) {
    begins.push_back(begins.back() + bytes_of(name, num_matrix_rows(*source.find(name))));
  }
  for_tensors(source, names, [&](size_t i, bool may_share) {
    const std::string_view name = names[i];
    const std::span<std::byte> to = dst.subspan(begins[i], begins[i + 1] - begins[i]);
    if (!may_share) return source.read_panels(name, to);
    const weights::TensorSpec& spec = *source.find(name);
    const int64_t rows_of_entry = num_matrix_rows(spec) / spec.shape[0];
    for_parts(source, name, [&](std::optional<weights::RowRange> rows) {
      if (!rows) return source.read_panels(name, to);
      const size_t begin = bytes_of(name, rows->first * rows_of_entry);
      const size_t count = bytes_of(name, rows->count * rows_of_entry);
      source.read_panel_rows(name, *rows, to.subspan(begin, count));
    });
  });
  std::fill(dst.begin() + static_cast<std::ptrdiff_t>(begins.back()), dst.end(), std::byte{0});
}

void WeightReader::for_tensors(
    const weights::WeightSource& source,
    Names names,
    const std::function<void(size_t index, bool may_share)>& read_tensor) {
  // With fewer tensors than this, each tensor is cut into parts instead. A source may need memory
  // for a whole tensor as float32 in every thread.
  constexpr size_t kManyTensors = 16;
  constexpr uint64_t kSmallBytes = uint64_t{4} << 20;
  const bool are_small = std::ranges::all_of(
      names, [&](std::string_view name) { return source.stored_bytes(name) <= kSmallBytes; });
  if (names.size() < kManyTensors || !are_small) {
    for (size_t i = 0; i < names.size(); ++i) read_tensor(i, true);
    return;
  }
  parts_.run(static_cast<int64_t>(names.size()),
             [&](int64_t i) { read_tensor(static_cast<size_t>(i), false); });
}

void WeightReader::for_parts(const weights::WeightSource& source,
                             std::string_view name,
                             const RunPart& run_part) {
  // Small enough that there are many parts for the workers, and that a part stays in the second
  // cache level between reading and packing; large enough that there are few system calls.
  constexpr int64_t kPartBytes = int64_t{512} << 10;
  const auto bytes = static_cast<int64_t>(source.stored_bytes(name));
  if (!source.reads_rows(name) || bytes <= kPartBytes) return run_part(std::nullopt);
  const std::vector<int64_t>& shape = source.find(name)->shape;
  const int64_t step = shape.size() == 2 ? kPanelColumns : 1;
  const int64_t steps = std::max(kPartBytes / (bytes / shape[0] * step + 1), int64_t{1});
  const int64_t part_rows = steps * step;
  parts_.run((shape[0] + part_rows - 1) / part_rows, [&](int64_t part) {
    const int64_t first = part * part_rows;
    run_part(weights::RowRange{.first = first, .count = std::min(part_rows, shape[0] - first)});
  });
}

}  // namespace reprise::models
