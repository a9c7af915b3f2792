#include "reprise/weights/expert_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/decoder_tensors.h"

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

// The place of a stored row.
int64_t place_of(int64_t row, int64_t num_rows, bool alternates) {
  return alternates ? row % 2 * (num_rows / 2) + row / 2 : row;
}

// One block of 32 elements: the low half of a byte comes first. A scale is a power of two.
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
  return entries_.contains(name) ? std::nullopt : source_->panel_format(name);
}

void ExpertMatrices::read_panels(std::string_view name, std::span<std::byte> dst) const {
  source_->read_panels(name, dst);
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
  if (found->second.stored == Stored::mxfp4) return read_mxfp4(name, found->second, dtype, dst);
  read_floats(name, found->second, dtype, dst);
}

// A matrix is stored [in, out], and a bias is a matrix with one input.
void ExpertMatrices::read_floats(std::string_view name,
                                 const Entry& entry,
                                 DType dtype,
                                 std::span<std::byte> dst) const {
  std::vector<std::byte> stored(dst.size());
  source_->read(name, dtype, stored);
  const std::vector<int64_t>& shape = entry.spec.shape;
  const int64_t rows = shape[1];
  const int64_t columns = entry.stored == Stored::bias ? 1 : shape[2];
  const size_t bytes = dtype_bytes(dtype);
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
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

void ExpertMatrices::read_mxfp4(std::string_view name,
                                const Entry& entry,
                                DType dtype,
                                std::span<std::byte> dst) const {
  const std::vector<int64_t>& shape = entry.spec.shape;
  const int64_t num_blocks = shape[2] / kBlockElements;  // of a row
  const auto num_scales = static_cast<size_t>(shape[0] * shape[1] * num_blocks);
  std::vector<uint8_t> blocks(num_scales * static_cast<size_t>(kBlockBytes));
  std::vector<uint8_t> scales(num_scales);
  source_->read(named(name, kBlocks), DType::u8, std::as_writable_bytes(std::span(blocks)));
  source_->read(named(name, kScales), DType::u8, std::as_writable_bytes(std::span(scales)));
  std::vector<float> row_values(static_cast<size_t>(shape[2]));
  const size_t row_bytes = row_values.size() * dtype_bytes(dtype);
  for (int64_t stored = 0; stored < shape[0] * shape[1]; ++stored) {
    for (int64_t i = 0; i < num_blocks; ++i) {
      const auto block = static_cast<size_t>(stored * num_blocks + i);
      decode_block(blocks.data() + block * static_cast<size_t>(kBlockBytes),
                   scales[block],
                   row_values.data() + i * kBlockElements);
    }
    const int64_t row = stored % shape[1];
    const int64_t place = stored - row + place_of(row, shape[1], entry.alternates);
    convert(DType::f32,
            std::as_bytes(std::span(row_values)),
            dtype,
            dst.subspan(static_cast<size_t>(place) * row_bytes, row_bytes));
  }
}

}  // namespace reprise::weights
