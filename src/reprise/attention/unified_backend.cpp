#include "reprise/attention/attention_backend.h"

namespace reprise::attention {
namespace {

class UnifiedBackend final : public AttentionBackend {
 public:
  AttentionPath prepare_step(const AttentionMetadata&,
                             const cudagraph::BatchDescriptor&,
                             device::Stream&) override {
    return {.kind = AttentionPath::Kind::any_batch};
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> create_unified_backend(const BackendResources&) {
  return std::make_unique<UnifiedBackend>();
}

}  // namespace reprise::attention
