#include <fmt/format.h>

#include <map>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"

namespace reprise::attention {
namespace {

/// An attention plan on the host, and the device buffer from which kernels read it.
class PlanBuffer {
 public:
  PlanBuffer(int32_t max_num_reqs, const BackendResources& resources)
      : host_(static_cast<size_t>(plan_size(max_num_reqs))),
        buffer_(resources.device->allocate(host_.size() * sizeof(int32_t))),
        tensor_(Tensor::borrow(
            {DType::i32, {plan_size(max_num_reqs)}}, buffer_.data(), *resources.executor)) {}

  void write(const AttentionMetadata& metadata,
             const BackendResources& resources,
             device::Stream& stream) {
    write_attention_plan(metadata.host_query_start_loc,
                         metadata.host_seq_lens,
                         resources.num_kv_heads,
                         resources.plan,
                         host_);
    const auto used =
        static_cast<size_t>(plan_size(static_cast<int64_t>(metadata.host_seq_lens.size())));
    stream.copy_from_host(buffer_.data(), host_.data(), used * sizeof(int32_t));
  }
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }

 private:
  std::vector<int32_t> host_;
  device::Buffer buffer_;
  Tensor tensor_;
};

class PlannedBackend final : public AttentionBackend {
 public:
  explicit PlannedBackend(const BackendResources& resources)
      : resources_(resources),
        partials_(resources.device->allocate(static_cast<size_t>(num_partial_values(resources)) *
                                             sizeof(float))),
        partials_tensor_(Tensor::borrow(
            {DType::f32, {num_partial_values(resources)}}, partials_.data(), *resources.executor)),
        uncaptured_(resources.max_num_reqs, resources) {}

  AttentionPath prepare_step(const AttentionMetadata& metadata,
                             const cudagraph::BatchDescriptor& descriptor,
                             device::Stream& stream) override {
    PlanBuffer& buffer = descriptor.num_reqs ? captured_buffer(descriptor) : uncaptured_;
    buffer.write(metadata, resources_, stream);
    // The path of a FULL graph may depend only on its key, so every FULL graph counts as decode.
    const bool is_decode =
        descriptor.num_reqs ||
        static_cast<size_t>(metadata.host_query_start_loc.back()) == metadata.host_seq_lens.size();
    return {.kind = AttentionPath::Kind::planned,
            .query_len = is_decode ? 1 : 0,
            .plan = buffer.tensor(),
            .partials = partials_tensor_};
  }

 private:
  static int64_t num_partial_values(const BackendResources& resources) {
    return most_parts(resources.plan, resources.num_kv_heads) * resources.max_partial_size;
  }

  /// Returns the buffer of a captured batch size. The first capture of that size creates it.
  PlanBuffer& captured_buffer(const cudagraph::BatchDescriptor& descriptor) {
    const int32_t num_reqs = *descriptor.num_reqs;
    if (!descriptor.uniform || descriptor.num_tokens != num_reqs) {
      throw Error(
          fmt::format("a planned attention backend was given the FULL graph [{}]: it captures "
                      "batches with one token per request only (UNIFORM_SINGLE_TOKEN_DECODE), so "
                      "the resolver must not plan this graph",
                      to_string(descriptor)));
    }
    const auto [place, is_new] = captured_.try_emplace(num_reqs, num_reqs, resources_);
    return place->second;
  }

  BackendResources resources_;
  device::Buffer partials_;
  Tensor partials_tensor_;
  PlanBuffer uncaptured_;
  std::map<int32_t, PlanBuffer> captured_;  // by number of requests; map nodes keep their addresses
};

}  // namespace

std::unique_ptr<AttentionBackend> create_planned_backend(const BackendResources& resources) {
  return std::make_unique<PlannedBackend>(resources);
}

}  // namespace reprise::attention
