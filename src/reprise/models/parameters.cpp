#include "reprise/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/device/placed_memory.h"
#include "reprise/models/plan_digest.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::models {
namespace {

// Tensors can be stacked when all dimensions but the first agree. Biases may have any length.
bool is_stackable(const Shape& above, const Shape& below) {
  if (above.rank() != below.rank()) return false;
  for (int dim = 1; dim < above.rank(); ++dim) {
    if (above[dim] != below[dim]) return false;
  }
  return true;
}

// The name of a stack: "layers.0.q_proj.weight" and similar names become
// "layers.0.q_proj+k_proj+v_proj.weight".
std::string stacked_name(std::span<const std::string_view> names) {
  std::string modules;
  size_t leaf = std::string_view::npos;
  for (std::string_view name : names) {
    leaf = name.rfind('.');
    const std::string_view module = name.substr(0, leaf);
    modules += modules.empty() ? std::string(module)
                               : fmt::format("+{}", module.substr(module.rfind('.') + 1));
  }
  return leaf == std::string_view::npos ? modules
                                        : modules + std::string(names.back().substr(leaf));
}

const weights::TensorSpec& find_stored(const weights::WeightSource& source, std::string_view name) {
  const weights::TensorSpec* spec = source.find(name);
  if (spec == nullptr) {
    throw FileError("E_MISSING", source.description(), name, "the model needs this tensor");
  }
  return *spec;
}

std::optional<float> find_number_in(const weights::WeightSource& source, std::string_view name) {
  const weights::TensorSpec* spec = source.find(name);
  if (spec == nullptr) return std::nullopt;
  const int64_t count =
      std::accumulate(spec->shape.begin(), spec->shape.end(), int64_t{1}, std::multiplies());
  if (count != 1) {
    throw FileError("E_SHAPE",
                    source.description(),
                    name,
                    fmt::format("is {}, expected one number", weights::shape_text(spec->shape)));
  }
  float number = 0;
  source.read(name, DType::f32, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

float largest_scale(const weights::WeightSource& source, std::span<const std::string> names) {
  float largest = 0;
  for (const std::string& name : names) {
    const std::optional<float> scale = find_number_in(source, name);
    if (!scale || !std::isfinite(*scale) || *scale <= 0) {
      throw FileError("E_VALUE",
                      source.description(),
                      name,
                      "must be a positive number: activations are quantised by it");
    }
    largest = std::max(largest, *scale);
  }
  return largest;
}

}  // namespace

Tensor Parameters::load_stacked(std::span<const std::string_view> names,
                                const Arrangement& arrangement) {
  return load(names, WeightFamily::rows, arrangement);
}

Tensor Parameters::load_projection(std::span<const std::string_view> names,
                                   const Arrangement& arrangement) {
  return load(names, family_for(names, arrangement), arrangement);
}

Tensor Parameters::load_experts(std::span<const std::string_view> names,
                                const Arrangement& arrangement) {
  const bool is_packed = std::ranges::any_of(
      names, [&](std::string_view name) { return source_->panel_format(name).has_value(); });
  // A device without packed kernels for experts gets them as elements.
  if (!is_packed || !families_.has_experts(WeightFamily::block_panels)) {
    return load_stacked(names, arrangement);
  }
  const std::string reason = reason_to_unpack(names);
  if (reason.empty()) {
    return load(names,
                family_of(*source_->panel_format(names[0])),
                {.num_experts = arrangement.num_experts, .name = arrangement.name});
  }
  if (unpacked_experts_.empty()) {
    unpacked_experts_ =
        fmt::format("{}: {}", arrangement.name.empty() ? names[0] : arrangement.name, reason);
  }
  return load_stacked(names, arrangement);
}

std::string Parameters::reason_to_unpack(std::span<const std::string_view> names) const {
  const std::optional<PanelFormat> first = source_->panel_format(names[0]);
  for (std::string_view name : names) {
    const std::optional<PanelFormat> format = source_->panel_format(name);
    if (!format) return fmt::format("{} is not stored packed", name);
    if (!families_.has_experts(family_of(*format))) {
      return fmt::format("experts in {} have no kernels on this device", codec_name(*format));
    }
    const std::vector<int64_t>& shape = source_->find(name)->shape;
    const int64_t rows = shape[shape.size() - 2];
    if (rows % kPanelColumns != 0) {
      return fmt::format("{} rows of an expert are not a multiple of {}", rows, kPanelColumns);
    }
    // Only the header of blocks says which part has which codec.
    if (family_of(*format) != WeightFamily::block_panels && format != first) {
      return fmt::format("{} has another form than {}", name, names[0]);
    }
  }
  if (family_of(*first) != WeightFamily::block_panels) return {};
  const size_t parts = panel_parts(*source_, names).size();
  return parts <= PanelHeader::kMaxParts
             ? std::string()
             : fmt::format("the formats of neighbouring matrices differ {} times", parts - 1);
}

WeightFamily Parameters::family_for(std::span<const std::string_view> names,
                                    const Arrangement& arrangement) const {
  // Rows of blocks share panels, so they cannot be reordered.
  if (arrangement.is_trivial()) {
    if (const std::optional<WeightFamily> packed = packed_family(names)) return *packed;
  }
  if (!families_.has(WeightFamily::column_panels) ||
      arrangement.dtype.value_or(dtype_) != DType::bf16 || arrangement.num_experts > 0) {
    return WeightFamily::rows;
  }
  // Epilogues pair the halves of a stack, or treat each of its tensors separately.
  const auto fits = [&](std::string_view name) {
    const weights::TensorSpec* spec = source_->find(name);
    if (spec == nullptr || spec->shape.size() != 2) return false;
    const Shape shape = loaded_shape(*spec, arrangement.is_transposed);
    return fits_column_panels(shape[0], shape[1]);
  };
  const Shape all = plan_of(*source_, names, WeightFamily::rows, arrangement).type.shape;
  const bool has_whole_halves = all.rank() == 2 && all[0] % (2 * kPanelColumns) == 0;
  return has_whole_halves && std::all_of(names.begin(), names.end(), fits)
             ? WeightFamily::column_panels
             : WeightFamily::rows;
}

std::optional<WeightFamily> Parameters::packed_family(
    std::span<const std::string_view> names) const {
  const std::optional<PanelFormat> first = source_->panel_format(names[0]);
  if (!first) return std::nullopt;
  const WeightFamily family = family_of(*first);
  if (!families_.has(family)) return std::nullopt;
  // Only the header of blocks says which part has which codec.
  const bool can_be_stacked = std::ranges::all_of(names, [&](std::string_view name) {
    const std::optional<PanelFormat> codec = source_->panel_format(name);
    return family == WeightFamily::block_panels ? codec && family_of(*codec) == family
                                                : codec == first;
  });
  if (!can_be_stacked) return std::nullopt;
  const bool has_room = family != WeightFamily::block_panels ||
                        panel_parts(*source_, names).size() <= PanelHeader::kMaxParts;
  return has_room ? std::optional(family) : std::nullopt;
}

Tensor Parameters::load(std::span<const std::string_view> names,
                        WeightFamily family,
                        const Arrangement& arrangement) {
  WeightPlan plan = plan_of(*source_, names, family, arrangement);
  const uint64_t digest = plan_digest(*source_, plan);
  origins_.push_back({.buffer = buffers_.size(), .plan = std::move(plan), .digest = digest});
  const char* suffix = models::is_packed(family) ? " (packed)" : "";
  const std::string name =
      (arrangement.name.empty() ? stacked_name(names) : arrangement.name) + suffix;
  if (std::optional<Tensor> mapped = find_mapped(name, origins_.back())) return *mapped;
  Tensor tensor = allocate(name, origins_.back().plan.type);
  if (device::PlacedMemory* placed = device::placed_memory(*device_); placed != nullptr) {
    placed->spread_over_workers(buffers_.back());
  }
  write(*source_, origins_.back());
  return tensor;
}

std::optional<Tensor> Parameters::find_mapped(const std::string& name, const Origin& origin) {
  if (mapped_ == nullptr) return std::nullopt;
  const TensorType& type = origin.plan.type;
  const std::span<std::byte> memory = mapped_->find(name, origin.digest, type.bytes());
  if (memory.empty()) return std::nullopt;
  ++num_mapped_;
  names_.push_back(name);
  buffers_.push_back({memory.data(), memory.size()});
  total_bytes_ += memory.size();
  return Tensor::borrow(type, memory.data(), *executor_);
}

std::vector<weights::PackedWeight> Parameters::packed_copy() const {
  std::vector<weights::PackedWeight> copy;
  for (const Origin& origin : origins_) {
    const device::BufferView from = buffers_[origin.buffer];
    copy.push_back({.name = names_[origin.buffer],
                    .plan = origin.digest,
                    .bytes = {static_cast<const std::byte*>(from.data), from.bytes}});
  }
  return copy;
}

Tensor Parameters::load_table(std::string_view name) {
  const std::span<const std::string_view> names(&name, 1);
  const auto packed = packed_family(names);
  // No op looks up rows in panels of smaller floats.
  const bool has_rows = packed && *packed != WeightFamily::float_panels;
  return load(names, has_rows ? *packed : WeightFamily::rows, {});
}

WeightPlan Parameters::plan_of(const weights::WeightSource& source,
                               std::span<const std::string_view> names,
                               WeightFamily family,
                               const Arrangement& arrangement) const {
  WeightPlan plan{.names = {names.begin(), names.end()},
                  .arrangement = arrangement,
                  .stacked = stacked_type(source, names, arrangement),
                  .type = {}};
  if (family == WeightFamily::block_panels) {
    const Shape& stacked = plan.stacked.shape;
    plan.type = packed_weight_type(panel_parts(source, names), stacked[-1], plan.stacked.dtype);
    // The source has either all experts in one tensor, or one tensor for each expert.
    const int64_t experts = stacked.rank() == 3 ? stacked[0] : arrangement.num_experts;
    if (experts > 0) {
      plan.type.shape = {experts, plan.type.shape[0] / experts, plan.type.shape[1]};
    }
    return plan;
  }
  if (models::is_packed(family)) {
    // For experts this makes a shape of three dimensions.
    plan.type = arranged_type(plan.stacked, {.num_experts = arrangement.num_experts});
    plan.type.layout = layout_of(*source.panel_format(names[0]), plan.type.shape[-1]);
    return plan;
  }
  plan.type = arranged_type(plan.stacked, arrangement);
  if (family == WeightFamily::column_panels) plan.type.layout = column_panels_layout();
  return plan;
}

TensorType Parameters::stacked_type(const weights::WeightSource& source,
                                    std::span<const std::string_view> names,
                                    const Arrangement& arrangement) const {
  TensorType type{.dtype = arrangement.dtype.value_or(dtype_)};
  for (std::string_view name : names) {
    const Shape shape = loaded_shape(find_stored(source, name), arrangement.is_transposed);
    if (type.shape.rank() == 0) {
      type.shape = shape;
    } else {
      REPRISE_ASSERT(is_stackable(type.shape, shape),
                     "{} cannot be stacked: {} under {}",
                     name,
                     shape.to_string(),
                     type.shape.to_string());
      type.shape[0] += shape[0];
    }
  }
  return type;
}

void Parameters::write(const weights::WeightSource& source, const Origin& origin) {
  const device::BufferView to = buffers_[origin.buffer];
  if (device_->is_host_accessible()) {
    return reader_.read(source, origin.plan, {static_cast<std::byte*>(to.data), to.bytes});
  }
  // Its bytes are all written, by several threads; one thread would need long to clear them first.
  if (staging_.bytes < to.bytes) {
    staging_ = {.data = std::make_unique_for_overwrite<std::byte[]>(to.bytes), .bytes = to.bytes};
  }
  reader_.read(source, origin.plan, {staging_.data.get(), to.bytes});
  stream_->copy_from_host(to.data, staging_.data.get(), to.bytes);
}

std::optional<float> Parameters::find_number(std::string_view name) const {
  return find_number_in(*source_, name);
}

Tensor Parameters::load_scale(std::span<const std::string_view> names) {
  std::vector<std::string> owned(names.begin(), names.end());
  const float scale = largest_scale(*source_, owned);
  Tensor table = add_table(names[0], std::span(&scale, 1), {1});
  scales_.push_back({.buffer = buffers_.back(), .names = std::move(owned)});
  return table;
}

bool Parameters::holds_only_zeros(std::string_view name) const {
  const weights::TensorSpec* spec = source_->find(name);
  if (spec == nullptr) return true;
  const int64_t count =
      std::accumulate(spec->shape.begin(), spec->shape.end(), int64_t{1}, std::multiplies());
  std::vector<float> numbers(static_cast<size_t>(count));
  source_->read(name, DType::f32, std::as_writable_bytes(std::span(numbers)));
  return std::ranges::all_of(numbers, [](float number) { return number == 0; });
}

bool Parameters::has_block_panels() const {
  return std::ranges::any_of(origins_, [](const Origin& origin) {
    return origin.plan.family() == WeightFamily::block_panels;
  });
}

bool Parameters::has_codec(PanelFormat codec) const {
  return std::ranges::any_of(origins_, [&](const Origin& origin) {
    const WeightFamily family = origin.plan.family();
    return (family == WeightFamily::int8_panels || family == WeightFamily::float_panels) &&
           origin.plan.type.layout.codec == codec;
  });
}

void Parameters::copy_to_host() {
  std::vector<std::unique_ptr<std::byte[]>> copy;
  try {
    for (const Origin& origin : origins_) {
      const device::BufferView from = buffers_[origin.buffer];
      copy.push_back(std::make_unique_for_overwrite<std::byte[]>(from.bytes));
      stream_->copy_to_host(copy.back().get(), from.data, from.bytes);
    }
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("the host has no room for a copy of {} bytes of weights; without one (level 2) "
                    "they are read "
                    "again on waking",
                    total_bytes_));
  }
  host_copy_ = std::move(copy);
}

void Parameters::copy_from_host() {
  REPRISE_ASSERT(has_host_copy(), "the weights have no copy on the host");
  for (size_t i = 0; i < origins_.size(); ++i) {
    const device::BufferView to = buffers_[origins_[i].buffer];
    stream_->copy_from_host(to.data, host_copy_[i].get(), to.bytes);
  }
  stream_->synchronize();
}

void Parameters::discard(device::DiscardableMemory& memory) noexcept {
  for (const Origin& origin : origins_) {
    const device::BufferView weight = buffers_[origin.buffer];
    // Memory of a mapped weight can be taken back by the system at any time, so it is not
    // discarded.
    if (mapped_ == nullptr || !mapped_->has(weight.data)) memory.discard(weight);
  }
}

void Parameters::restore(device::DiscardableMemory& memory) {
  for (const Origin& origin : origins_) memory.restore(buffers_[origin.buffer]);
}

void Parameters::reload(const weights::WeightSource& source) {
  for (const Origin& origin : origins_) {
    const WeightPlan& plan = origin.plan;
    const std::vector<std::string_view> names(plan.names.begin(), plan.names.end());
    if (plan_of(source, names, plan.family(), plan.arrangement).type != plan.type) {
      throw FileError("E_SHAPE",
                      source.description(),
                      names[0],
                      "the shape is not that of the model that was loaded");
    }
    // The files may not be those from which the mapped copy was made.
    const device::BufferView to = buffers_[origin.buffer];
    if (mapped_ != nullptr && mapped_->has(to.data)) {
      mapped_->replace_by_zeros({static_cast<std::byte*>(to.data), to.bytes});
    }
    write(source, origin);
  }
  for (const Scale& scale : scales_) {
    const float number = largest_scale(source, scale.names);
    stream_->copy_from_host(scale.buffer.data, &number, sizeof number);
    stream_->synchronize();
  }
  staging_ = {};
}

void Parameters::finish_loading() noexcept {
  source_ = nullptr;
  staging_ = {};
}

Tensor Parameters::add_table(std::string_view name,
                             std::span<const float> values,
                             const Shape& shape) {
  return upload(std::string(name), {DType::f32, shape}, std::as_bytes(values));
}

Tensor Parameters::add_table(std::string_view name, std::span<const int32_t> values) {
  const TensorType type{DType::i32, {static_cast<int64_t>(values.size())}};
  return upload(std::string(name), type, std::as_bytes(values));
}

Tensor Parameters::add_buffer(std::string_view name, const TensorType& type) {
  Tensor tensor = allocate(std::string(name), type);
  stream_->fill(buffers_.back().data, std::byte{0}, type.bytes());
  return tensor;
}

Tensor Parameters::share(std::string_view name, const Tensor& tensor) {
  shared_.emplace_back(name, tensor.extent());
  return Tensor::borrow(tensor.type(), tensor.data(), *executor_);
}

Shape Parameters::stored_shape(std::string_view name, bool is_transposed) const {
  return loaded_shape(find_stored(*source_, name), is_transposed);
}

Tensor Parameters::allocate(std::string name, const TensorType& type) {
  names_.push_back(std::move(name));
  owned_.push_back(device_->allocate(type.bytes()));
  buffers_.push_back(owned_.back().view());
  total_bytes_ += type.bytes();
  return Tensor::borrow(type, buffers_.back().data, *executor_);
}

Tensor Parameters::upload(std::string name,
                          const TensorType& type,
                          std::span<const std::byte> bytes) {
  Tensor tensor = allocate(std::move(name), type);
  stream_->copy_from_host(buffers_.back().data, bytes.data(), bytes.size());
  return tensor;
}

std::vector<device::BufferView> Parameters::memory() const {
  std::vector<device::BufferView> views = buffers_;
  for (const auto& [name, view] : shared_) views.push_back(view);
  return views;
}

std::vector<std::pair<std::string_view, device::BufferView>> Parameters::named_memory() const {
  std::vector<std::pair<std::string_view, device::BufferView>> named;
  for (size_t i = 0; i < buffers_.size(); ++i) named.emplace_back(names_[i], buffers_[i]);
  for (const auto& [name, view] : shared_) named.emplace_back(name, view);
  return named;
}

std::string_view Parameters::name_of(const Tensor& tensor) const noexcept {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].data == tensor.data()) return names_[i];
  }
  for (const auto& [name, view] : shared_) {
    if (view.data == tensor.data()) return name;
  }
  return {};
}

device::BufferView Parameters::find(std::string_view name) const noexcept {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (names_[i] == name) return buffers_[i];
  }
  for (const auto& [shared_name, view] : shared_) {
    if (shared_name == name) return view;
  }
  return {};
}

}  // namespace reprise::models
