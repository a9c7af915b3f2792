#pragma once

#include <functional>
#include <optional>

#include "reprise/base/json.h"
#include "reprise/kv_cache/transfer/kv_source.h"

namespace reprise::kv_cache {
class KvTransfer;
}

namespace reprise::server {

class RequestFields;
struct GenerationRequest;

/// What `kv_transfer_params` of a request asks for. The members are those of vLLM's connectors, so
/// that the same proxies and routers work.
struct KvTransferFields {
  bool do_remote_decode = false;           // another engine will continue the prompt
  std::optional<kv_cache::KvSource> from;  // do_remote_prefill: another engine has computed it
  /// `kv_transfer_params` of the answer, when it is complete: what the other engine's request
  /// needs; null when the prompt was not kept, so that the other engine computes it. Empty: the
  /// answer has no such member. Set by prepare_kv_transfer().
  std::function<Json()> describe_export;
};

/// \throws ApiError 400
[[nodiscard]] KvTransferFields read_kv_transfer_params(const RequestFields& fields);

/// Checks what a request asks against what this engine does, and adds its export to the options.
/// `transfer` may be null: the server was started without --kv-transfer-config.
/// \throws ApiError 400
void prepare_kv_transfer(GenerationRequest& request, kv_cache::KvTransfer* transfer);

}  // namespace reprise::server
