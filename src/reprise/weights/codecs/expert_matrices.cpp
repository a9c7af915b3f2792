#include "reprise/weights/codecs/expert_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";
constexpr std::string_view kBias = "_bias";
constexpr int64_t kBlockElements = 32;
constexpr int64_t kBlockBytes = kBlockElements / 2;

// Source: OCP Microscaling Formats 1.0, section 5.3.3 (FP4 E2M1).
constexpr std::array<float, 16> kFp4 = {0.0F,
                                        0.5F,
                                        1.0F,
                                        1.5F,
                                        2.0F,
                                        3.0F,
                                        4.0F,
                                        6.0F,
                                        -0.0F,
                                        -0.5F,
                                        -1.0F,
                                        -1.5F,
                                        -2.0F,
                                        -3.0F,
                                        -4.0F,
                                        -6.0F};

std::string named(std::string_view name, std::string_view ending) {
  return std::string(name) + std::string(ending);
}

// The place of a stored row in the loaded matrix; stored rows of gate and up may alternate.
int64_t place_of(int64_t row, int64_t num_rows, bool alternates) {
  return alternates ? row % 2 * (num_rows / 2) + row / 2 : row;
}

// Decodes one block of 32 elements: in each byte the low half comes first. A scale is a power of
// two.
void decode_block(const uint8_t* bytes, uint8_t scale, float* out) {
  const float factor = std::ldexp(1.0F, static_cast<int>(scale) - 127);
  for (int64_t i = 0; i < kBlockBytes; ++i) {
    out[2 * i] = kFp4[bytes[i] & 15U] * factor;
    out[2 * i + 1] = kFp4[bytes[i] >> 4U] * factor;
  }
}

}  // namespace

ExpertMatrices::ExpertMatrices(std::unique_ptr<WeightSource> source, const ModelConfig& config)
    : source_(std::move(source)) {
  const DecoderTensors names = decoder_tensors(config);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = names.in_layer(layer, names.experts);
    add_matrices(named(prefix, names.expert_gate_up), true);
    add_matrices(named(prefix, names.expert_down), false);
  }
}

void ExpertMatrices::add_matrices(const std::string& name, bool alternates) {
  if (const TensorSpec* bias = source_->find(named(name, kBias))) {
    entries_.emplace(named(name, kBias),
                     Entry{.spec = *bias, .stored = Stored::bias, .alternates = alternates});
  }
  const TensorSpec* floats = source_->find(name);
  if (floats != nullptr && floats->shape.size() == 3) {
    const std::vector<int64_t>& shape = floats->shape;
    entries_.emplace(
        name,
        Entry{.spec = {floats->dtype, {shape[0], shape[2], shape[1]}}, .alternates = alternates});
    return;
  }
  const TensorSpec* blocks = source_->find(named(name, kBlocks));
  if (blocks == nullptr) return;  // verify_weights names what is missing
  const TensorSpec* scales = source_->find(named(name, kScales));
  const std::vector<int64_t>& shape = blocks->shape;
  const bool fits = scales != nullptr && blocks->dtype == DType::u8 && scales->dtype == DType::u8 &&
                    shape.size() == 4 && shape[3] == kBlockBytes &&
                    scales->shape == std::vector<int64_t>{shape[0], shape[1], shape[2]};
  if (!fits) {
    throw FileError("E_SHAPE",
                    source_->description(),
                    named(name, kBlocks),
                    fmt::format("is {}; MXFP4 needs uint8[experts, rows, blocks, {}] and scales "
                                "uint8[experts, rows, blocks]",
                                shape_text(shape),
                                kBlockBytes));
  }
  entries_.emplace(name,
                   Entry{.spec = {DType::bf16, {shape[0], shape[1], shape[2] * kBlockElements}},
                         .stored = Stored::mxfp4,
                         .alternates = alternates});
}

const TensorSpec* ExpertMatrices::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? source_->find(name) : &found->second.spec;
}

std::vector<std::string_view> ExpertMatrices::names() const {
  std::vector<std::string_view> names;
  for (const std::string_view name : source_->names()) {
    const bool is_part = name.ends_with(kBlocks) || name.ends_with(kScales);
    const bool is_packed = is_part && entries_.contains(name.substr(0, name.size() - 7));
    if (!is_packed && !entries_.contains(name)) names.push_back(name);
  }
  for (const auto& [name, entry] : entries_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<PanelFormat> ExpertMatrices::panel_format(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->panel_format(name);
  return found->second.stored == Stored::mxfp4 ? std::optional(PanelFormat::mxfp4) : std::nullopt;
}

void ExpertMatrices::read_panels(std::string_view name, std::span<std::byte> dst) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->read_panels(name, dst);
  read_panel_rows(name, {.first = 0, .count = found->second.spec.shape[0]}, dst);
}

bool ExpertMatrices::reads_rows(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->reads_rows(name);
  if (found->second.stored != Stored::mxfp4) return source_->reads_rows(name);
  return source_->reads_rows(named(name, kBlocks)) && source_->reads_rows(named(name, kScales));
}

void ExpertMatrices::read_rows(std::string_view name,
                               RowRange rows,
                               DType dtype,
                               std::span<std::byte> dst) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->read_rows(name, rows, dtype, dst);
  const Entry& entry = found->second;
  if (entry.stored == Stored::mxfp4) return read_mxfp4(name, entry, rows, dtype, dst);
  read_floats(name, entry, rows, dtype, dst);
}

void ExpertMatrices::read_panel_rows(std::string_view name,
                                     RowRange rows,
                                     std::span<std::byte> dst) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->read_panel_rows(name, rows, dst);
  const TensorSpec& spec = found->second.spec;
  const int64_t depth = spec.shape[2];
  clear_unused_columns(PanelFormat::mxfp4, dst, depth, rows.count * spec.shape[1]);
  for_each_row(name,
               found->second,
               rows,
               [&](int64_t place, const uint8_t* blocks, std::span<const uint8_t> scales) {
                 PanelColumn column(PanelFormat::mxfp4, dst, depth, place);
                 for (size_t i = 0; i < scales.size(); ++i) {
                   std::array<uint8_t, kBlockElements> codes;
                   for (size_t b = 0; b < kBlockBytes; ++b) {
                     const uint8_t pair = blocks[i * kBlockBytes + b];
                     codes[2 * b] = pair & 15U;
                     codes[2 * b + 1] = static_cast<uint8_t>(pair >> 4U);
                   }
                   column.write_codes(static_cast<int64_t>(i), codes.data());
                   column.write_scale(static_cast<int64_t>(i), 0, scales[i]);
                 }
               });
}

uint64_t ExpertMatrices::stored_bytes(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.stored != Stored::mxfp4) {
    return source_->stored_bytes(name);
  }
  return source_->stored_bytes(named(name, kBlocks)) + source_->stored_bytes(named(name, kScales));
}

void ExpertMatrices::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return source_->read(name, dtype, dst);
  read_rows(name, {.first = 0, .count = found->second.spec.shape[0]}, dtype, dst);
}

// A matrix is stored [in, out], and a bias is a matrix with one input.
void ExpertMatrices::read_floats(std::string_view name,
                                 const Entry& entry,
                                 RowRange experts,
                                 DType dtype,
                                 std::span<std::byte> dst) const {
  std::vector<std::byte> stored(dst.size());
  if (experts.count == entry.spec.shape[0]) {
    source_->read(name, dtype, stored);
  } else {
    source_->read_rows(name, experts, dtype, stored);
  }
  const std::vector<int64_t>& shape = entry.spec.shape;
  const int64_t rows = shape[1];
  const int64_t columns = entry.stored == Stored::bias ? 1 : shape[2];
  const size_t bytes = dtype_bytes(dtype);
  for (int64_t expert = 0; expert < experts.count; ++expert) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = place_of(row, rows, entry.alternates);
      for (int64_t column = 0; column < columns; ++column) {
        const auto from = static_cast<size_t>((expert * columns + column) * rows + row);
        const auto to = static_cast<size_t>((expert * rows + place) * columns + column);
        std::memcpy(dst.data() + to * bytes, stored.data() + from * bytes, bytes);
      }
    }
  }
}

void ExpertMatrices::for_each_row(std::string_view name,
                                  const Entry& entry,
                                  RowRange experts,
                                  const OnRow& on_row) const {
  const std::vector<int64_t>& shape = entry.spec.shape;
  const auto num_blocks = static_cast<size_t>(shape[2] / kBlockElements);  // of a row
  const int64_t num_rows = experts.count * shape[1];
  std::vector<uint8_t> scales(static_cast<size_t>(num_rows) * num_blocks);
  std::vector<uint8_t> blocks(scales.size() * static_cast<size_t>(kBlockBytes));
  const auto read = [&](std::string_view ending, std::vector<uint8_t>& to) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(to));
    experts.count == shape[0] ? source_->read(named(name, ending), DType::u8, bytes)
                              : source_->read_rows(named(name, ending), experts, DType::u8, bytes);
  };
  read(kBlocks, blocks);
  read(kScales, scales);
  for (int64_t stored = 0; stored < num_rows; ++stored) {
    const size_t first = static_cast<size_t>(stored) * num_blocks;
    const int64_t row = stored % shape[1];
    on_row(stored - row + place_of(row, shape[1], entry.alternates),
           blocks.data() + first * static_cast<size_t>(kBlockBytes),
           std::span(scales).subspan(first, num_blocks));
  }
}

void ExpertMatrices::read_mxfp4(std::string_view name,
                                const Entry& entry,
                                RowRange experts,
                                DType dtype,
                                std::span<std::byte> dst) const {
  std::vector<float> values(static_cast<size_t>(entry.spec.shape[2]));
  const size_t row_bytes = values.size() * dtype_bytes(dtype);
  for_each_row(name,
               entry,
               experts,
               [&](int64_t place, const uint8_t* blocks, std::span<const uint8_t> scales) {
                 for (size_t i = 0; i < scales.size(); ++i) {
                   decode_block(blocks + i * static_cast<size_t>(kBlockBytes),
                                scales[i],
                                values.data() + i * static_cast<size_t>(kBlockElements));
                 }
                 convert(DType::f32,
                         std::as_bytes(std::span(values)),
                         dtype,
                         dst.subspan(static_cast<size_t>(place) * row_bytes, row_bytes));
               });
}

}  // namespace reprise::weights
