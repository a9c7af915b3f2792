#include "reprise/weights/sources/dummy_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/base/error.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

// FNV-1a, then mixed with the seed by splitmix64.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

// Source: Sebastiano Vigna, splitmix64.c (public domain); here its n-th output is computed
// directly, so it serves as a counter-based generator.
constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The sum of four 16-bit uniforms (Irwin-Hall) is within 0.02 of a normal density everywhere, ends
// at 3.46 standard deviations, and is computed with integers: the same bits on every machine.
float bell_shaped(uint64_t bits) {
  constexpr float kStandardDeviation = 0.02f;
  // A uniform number of 0..65535 has variance (2^32 - 1) / 12; the sum of four has (2^32 - 1) / 3.
  constexpr float kScale = kStandardDeviation / 37837.2268f;
  const int32_t sum =
      static_cast<int32_t>(bits & 0xffffu) + static_cast<int32_t>((bits >> 16) & 0xffffu) +
      static_cast<int32_t>((bits >> 32) & 0xffffu) + static_cast<int32_t>(bits >> 48);
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

}  // namespace

DummyWeights::DummyWeights(const ModelConfig& config, uint64_t seed)
    : DummyWeights(expected_tensors(config), config.dtype.value_or(DType::f32), seed) {}

DummyWeights::DummyWeights(const std::vector<ExpectedTensor>& tensors, DType dtype, uint64_t seed)
    : seed_(seed) {
  for (const ExpectedTensor& tensor : tensors) {
    if (tensor.presence == Presence::optional) continue;
    tensors_.emplace(tensor.name, Entry{.spec = {dtype, tensor.shape}, .role = tensor.role});
  }
}

const TensorSpec* DummyWeights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.spec;
}

std::vector<std::string_view> DummyWeights::names() const {
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

std::string DummyWeights::description() const {
  return fmt::format("dummy weights (seed {})", seed_);
}

const DummyWeights::Entry& DummyWeights::entry_of(std::string_view name, DType dtype) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw FileError("E_MISSING", description(), visible(name), "no such tensor in this model");
  }
  if (!is_convertible(DType::f32, dtype)) {
    throw FileError("E_DTYPE",
                    description(),
                    visible(name),
                    fmt::format("cannot be made as {}", dtype_name(dtype)));
  }
  return found->second;
}

void DummyWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const TensorSpec& spec = entry_of(name, dtype).spec;
  const uint64_t num_elements = size_bytes(spec) / dtype_bytes(spec.dtype);
  require_size(name, num_elements, dtype, dst);
  make_elements(name, 0, dtype, dst);
}

bool DummyWeights::reads_rows(std::string_view name) const {
  const TensorSpec* spec = find(name);
  return spec != nullptr && !spec->shape.empty() && spec->shape[0] > 0;
}

void DummyWeights::read_rows(std::string_view name,
                             RowRange rows,
                             DType dtype,
                             std::span<std::byte> dst) const {
  const TensorSpec& spec = entry_of(name, dtype).spec;
  const uint64_t row_elements =
      size_bytes(spec) / dtype_bytes(spec.dtype) / static_cast<uint64_t>(spec.shape[0]);
  require_size(name, static_cast<uint64_t>(rows.count) * row_elements, dtype, dst);
  make_elements(name, static_cast<uint64_t>(rows.first) * row_elements, dtype, dst);
}

void DummyWeights::make_elements(std::string_view name,
                                 uint64_t first,
                                 DType dtype,
                                 std::span<std::byte> dst) const {
  const WeightRole role = entry_of(name, dtype).role;
  const uint64_t num_elements = dst.size() / dtype_bytes(dtype);
  const uint64_t key = mix(mix(seed_ + kGoldenGamma) ^ hash_name(name));
  constexpr uint64_t kChunkElements = 4096;  // 16 KiB: stays in the first cache level
  std::array<float, kChunkElements> chunk;
  chunk.fill(1.0f);
  for (uint64_t done = 0; done < num_elements; done += kChunkElements) {
    const uint64_t count = std::min(kChunkElements, num_elements - done);
    if (role != WeightRole::norm) {
      for (uint64_t i = 0; i < count; ++i) {
        chunk[i] = bell_shaped(mix(key + (first + done + i + 1) * kGoldenGamma));
      }
    }
    convert(DType::f32,
            std::as_bytes(std::span(chunk).first(count)),
            dtype,
            dst.subspan(done * dtype_bytes(dtype), count * dtype_bytes(dtype)));
  }
}

}  // namespace reprise::weights
