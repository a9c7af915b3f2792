#include <fmt/format.h>

#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"

namespace reprise::attention {
namespace {

/// Refuses a FULL graph that the backend's declared support excludes. A step needs no other
/// preparation.
class CheckedBackend final : public AttentionBackend {
 public:
  explicit CheckedBackend(cudagraph::AttentionCGSupport support) : support_(support) {}

  AttentionPath prepare_step(const AttentionMetadata&,
                             const cudagraph::BatchDescriptor& descriptor,
                             device::Stream&) override {
    using enum cudagraph::AttentionCGSupport;
    if (!descriptor.num_reqs) return {};
    if (support_ == UNIFORM_BATCH && descriptor.uniform) return {};
    throw Error(
        fmt::format("an attention backend was given the FULL graph [{}]: it declares {}, so the "
                    "resolver must not plan this graph",
                    to_string(descriptor),
                    to_string(support_)));
  }

 private:
  cudagraph::AttentionCGSupport support_;
};

}  // namespace

std::unique_ptr<AttentionBackend> create_recurrent_backend(const BackendResources&) {
  return std::make_unique<CheckedBackend>(cudagraph::AttentionCGSupport::UNIFORM_BATCH);
}

std::unique_ptr<AttentionBackend> create_reference_backend(const BackendResources&) {
  return std::make_unique<CheckedBackend>(cudagraph::AttentionCGSupport::NEVER);
}

}  // namespace reprise::attention
