#include "reprise/attention/attention_backend.h"
#include "reprise/attention/segment_buffers.h"

namespace reprise::attention {
namespace {

class UnifiedBackend final : public AttentionBackend {
 public:
  explicit UnifiedBackend(const BackendResources& resources) : segments_(resources) {}

  AttentionPath prepare_step(const AttentionMetadata&,
                             const cudagraph::BatchDescriptor&,
                             device::Stream& stream) override {
    AttentionPath path = {.kind = AttentionPath::Kind::any_batch};
    segments_.add_to(path, stream);
    return path;
  }

 private:
  SegmentBuffers segments_;
};

}  // namespace

std::unique_ptr<AttentionBackend> create_unified_backend(const BackendResources& resources) {
  return std::make_unique<UnifiedBackend>(resources);
}

}  // namespace reprise::attention
