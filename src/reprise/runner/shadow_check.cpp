#include "reprise/runner/shadow_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "reprise/base/element.h"

namespace reprise::runner {
namespace {

/// The finaliser of splitmix64.
uint64_t hash_of(uint64_t number) noexcept {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

template <typename Element>
Element load(const std::byte* from) noexcept {
  Element element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

std::string element_text(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
      return fmt::format("{:.9g} (0x{:08x})", load<float>(at), load<uint32_t>(at));
    case DType::bf16:
      return fmt::format("{:.6g} (0x{:04x})", to_float(load<BFloat16>(at)), load<uint16_t>(at));
    case DType::f16:
      return fmt::format("{:.6g} (0x{:04x})", to_float(load<Float16>(at)), load<uint16_t>(at));
    case DType::i32:
      return fmt::format("{}", load<int32_t>(at));
    default:
      return fmt::format("0x{:02x}", load<uint8_t>(at));
  }
}

/// Nothing if the region has the same bytes in both copies.
std::optional<StepDifference> difference_in(const StepRegion& region,
                                            const std::byte* replayed,
                                            const std::byte* eager) {
  if (std::memcmp(replayed, eager, region.bytes) == 0) return std::nullopt;
  const std::byte* const first = std::mismatch(replayed, replayed + region.bytes, eager).first;
  const size_t element_bytes = dtype_bytes(region.dtype);
  const auto element = static_cast<size_t>(first - replayed) / element_bytes;
  return StepDifference{.output = region.output,
                        .tensor = region.tensor,
                        .row = region.row,
                        .element = static_cast<int64_t>(element),
                        .replayed = element_text(region.dtype, replayed + element * element_bytes),
                        .eager = element_text(region.dtype, eager + element * element_bytes)};
}

}  // namespace

std::string to_string(const StepDifference& difference) {
  const bool has_tensors =
      difference.output == StepOutput::kv_cache || difference.output == StepOutput::states;
  return fmt::format("{}{}, row {}, element {}: replayed {}, eager {}",
                     name(difference.output),
                     has_tensors ? fmt::format(", tensor {}", difference.tensor) : "",
                     difference.row,
                     difference.element,
                     difference.replayed,
                     difference.eager);
}

ShadowCheck::ShadowCheck(ShadowCheckOptions options,
                         device::Device& device,
                         device::Stream& stream,
                         StepMemory memory)
    : options_(std::move(options)),
      device_(&device),
      stream_(&stream),
      memory_(std::move(memory)),
      is_host_accessible_(device.is_host_accessible()) {}

void ShadowCheck::reserve(int32_t num_tokens, int32_t num_reqs, std::span<const Tensor> outputs) {
  const size_t of_step = memory_.largest(num_tokens, num_reqs);
  size_t of_results = 0;
  for (const Tensor& output : outputs) {
    if (output.defined()) of_results += output.extent().bytes;
  }
  if (before_.bytes() < of_step) before_ = device_->allocate(of_step);
  const size_t bytes = before_.bytes() + of_results;
  if (replayed_.bytes() >= bytes) return;
  replayed_ = device_->allocate(bytes);
  eager_ = device_->allocate(bytes);
  if (is_host_accessible_) return;
  host_replayed_.resize(bytes);
  host_eager_.resize(bytes);
}

void ShadowCheck::change(double rate, Json about) {
  options_.rate = rate;
  options_.about = std::move(about);
  if (is_on()) return;
  before_ = {};
  replayed_ = {};
  eager_ = {};
  host_replayed_ = {};
  host_eager_ = {};
  captured_.clear();
}

bool ShadowCheck::chooses_step() noexcept {
  if (!is_on()) return false;
  const uint64_t number = num_replays_++;
  if (options_.rate >= 1) return true;
  return hash_of(number) < static_cast<uint64_t>(std::ldexp(options_.rate, 64));
}

void ShadowCheck::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (is_host_accessible_) {
    std::memcpy(to, from, bytes);
  } else {
    stream_->copy(to, from, bytes);
  }
}

size_t ShadowCheck::pack_changed(std::byte* packed) {
  std::byte* to = packed;
  memory_.for_each_changed([&](const StepRegion& region) {
    copy(to, region.data, region.bytes);
    to += region.bytes;
  });
  return static_cast<size_t>(to - packed);
}

void ShadowCheck::unpack_changed(const std::byte* packed) {
  memory_.for_each_changed([&](const StepRegion& region) {
    copy(region.data, packed, region.bytes);
    packed += region.bytes;
  });
}

size_t ShadowCheck::pack_results(std::byte* packed,
                                 std::span<const Tensor> outputs,
                                 int32_t num_logits) {
  std::byte* to = packed;
  memory_.for_each_result(outputs, num_logits, [&](const StepRegion& region) {
    copy(to, region.data, region.bytes);
    to += region.bytes;
  });
  return static_cast<size_t>(to - packed);
}

void ShadowCheck::save_step() {
  stream_->synchronize();
  pack_changed(static_cast<std::byte*>(before_.data()));
}

void ShadowCheck::keep_replay(std::span<const Tensor> outputs, int32_t num_logits) {
  stream_->synchronize();
  auto* const to = static_cast<std::byte*>(replayed_.data());
  pack_results(to + pack_changed(to), outputs, num_logits);
  restore();
}

void ShadowCheck::restore() {
  stream_->synchronize();
  unpack_changed(static_cast<const std::byte*>(before_.data()));
}

const std::byte* ShadowCheck::on_host(const device::Buffer& buffer,
                                      std::vector<std::byte>& copy,
                                      size_t bytes) {
  if (is_host_accessible_) return static_cast<const std::byte*>(buffer.data());
  stream_->copy_to_host(copy.data(), buffer.data(), bytes);
  return copy.data();
}

std::optional<StepDifference> ShadowCheck::compare(std::span<const Tensor> outputs,
                                                   int32_t num_logits) {
  stream_->synchronize();
  auto* const to = static_cast<std::byte*>(eager_.data());
  size_t bytes = pack_changed(to);
  bytes += pack_results(to + bytes, outputs, num_logits);
  const std::byte* replayed = on_host(replayed_, host_replayed_, bytes);
  const std::byte* eager = on_host(eager_, host_eager_, bytes);
  num_checks_.fetch_add(1, std::memory_order_relaxed);
  if (std::memcmp(replayed, eager, bytes) == 0) return std::nullopt;
  num_differences_.fetch_add(1, std::memory_order_relaxed);
  std::optional<StepDifference> first;
  const auto visit = [&](const StepRegion& region) {
    if (!first) first = difference_in(region, replayed, eager);
    replayed += region.bytes;
    eager += region.bytes;
  };
  memory_.for_each_changed(visit);
  memory_.for_each_result(outputs, num_logits, visit);
  return first;
}

void ShadowCheck::add(QuarantinedKey key) {
  if (options_.log && !key.difference.empty()) {
    options_.log(
        fmt::format("{} [{}] is quarantined: a replay gave other bits than the eager run of the "
                    "same step ({}{}); steps of this key run eagerly from now on{}",
                    to_string(key.mode),
                    to_string(key.descriptor),
                    key.difference,
                    key.wrong_node.empty() ? "" : "; first wrong node: " + key.wrong_node,
                    key.report.empty() ? "" : "; report: " + key.report.string()));
  }
  const std::lock_guard lock(mutex_);
  keys_.push_back(std::move(key));
  keys_revision_.fetch_add(1, std::memory_order_relaxed);
}

void ShadowCheck::remove(const cudagraph::PlannedKey& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(keys_, [&](const QuarantinedKey& quarantined) {
    return quarantined.mode == key.mode && quarantined.descriptor == key.descriptor;
  });
  keys_revision_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<QuarantinedKey> ShadowCheck::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

size_t ShadowCheck::bytes() const noexcept {
  return before_.bytes() + replayed_.bytes() + eager_.bytes();
}

}  // namespace reprise::runner
