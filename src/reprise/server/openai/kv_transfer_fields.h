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

/// The request's `kv_transfer_params`. The members are those of vLLM's connectors, so that the same
/// proxies and routers work.
struct KvTransferFields {
  bool do_remote_decode = false;           // another engine will continue the prompt
  std::optional<kv_cache::KvSource> from;  // do_remote_prefill: another engine has computed it
  /// Makes the `kv_transfer_params` of a complete answer: the parameters for the request to the
  /// other engine. Null if the prompt was not kept, so that the other engine computes it. Empty
  /// function: the answer has no such member. Set by prepare_kv_transfer().
  std::function<Json()> describe_export;
};

/// \throws ApiError 400
[[nodiscard]] KvTransferFields read_kv_transfer_params(const RequestFields& fields);

/// Checks that this engine can do what the request asks for, and adds its export to the options.
/// `transfer` may be null: the server was started without --kv-transfer-config. \throws ApiError
/// 400
void prepare_kv_transfer(GenerationRequest& request, kv_cache::KvTransfer* transfer);

}  // namespace reprise::server
