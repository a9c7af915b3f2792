#include "reprise/server/openai/kv_transfer_fields.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "reprise/base/text/visible_text.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

constexpr const char* kParams = "kv_transfer_params";
constexpr size_t kMaxTextBytes = 256;

[[noreturn]] void refuse_transfer(const std::string& message) {
  throw ApiError(400, fmt::format("{}: {}", kParams, message), kParams);
}

std::string required_text(const RequestFields& params, std::string_view name) {
  const std::optional<std::string> value = params.text(name);
  if (!value || value->empty() || value->size() > kMaxTextBytes) {
    refuse_transfer(
        fmt::format("do_remote_prefill needs {}, a text of 1..{} bytes; send what the answer of "
                    "the server that computed the prompt contained",
                    name,
                    kMaxTextBytes));
  }
  return *value;
}

Json export_json(const kv_cache::KvExport& prompt, const kv_cache::KvTransfer& transfer) {
  if (!prompt.is_kept()) return nullptr;
  const kv_cache::KvTransferConfig& config = transfer.config();
  return {{"do_remote_prefill", true},
          {"do_remote_decode", false},
          // Consumers of this engine need no block ids: they fetch the whole prompt by its id.
          {"remote_block_ids", Json::array()},
          {"remote_engine_id", config.engine_id},
          {"remote_request_id", prompt.id()},
          {"remote_host", config.kv_ip},
          {"remote_port", transfer.port()},
          {"remote_num_tokens", prompt.num_tokens()},
          {"tp_size", 1}};
}

}  // namespace

KvTransferFields read_kv_transfer_params(const RequestFields& fields) {
  const Json* const value = fields.find(kParams);
  if (value == nullptr) return {};
  if (!value->is_object()) refuse_type(kParams, "an object", *value);
  const RequestFields params(*value);
  KvTransferFields result;
  result.do_remote_decode = params.boolean("do_remote_decode").value_or(false);
  if (!params.boolean("do_remote_prefill").value_or(false)) return result;
  const std::optional<int> port = params.int32("remote_port");
  if (!port || *port < 1 || *port > 65535) {
    refuse_transfer("do_remote_prefill needs remote_port, a number from 1 to 65535");
  }
  result.from =
      kv_cache::KvSource{.producer = {.host = required_text(params, "remote_host"), .port = *port},
                         .id = required_text(params, "remote_request_id")};
  return result;
}

void prepare_kv_transfer(GenerationRequest& request, kv_cache::KvTransfer* transfer) {
  const KvTransferFields& asked = request.kv_transfer;
  if (!asked.do_remote_decode && !asked.from) return;
  if (transfer == nullptr) {
    refuse_transfer("this server works alone; start it with --kv-transfer-config");
  }
  if (!request.is_chat && request.prompts.size() != 1) {
    refuse_transfer("expected one prompt in the request");
  }
  if (asked.do_remote_decode) {
    if (!transfer->config().produces()) {
      refuse_transfer("this server is a kv_consumer and keeps no prompts for others");
    }
    if (request.n != 1 || request.stream) {
      refuse_transfer("do_remote_decode goes with n = 1 and without stream");
    }
    const auto prompt =
        transfer->begin_export(request.options.lora_name, request.options.cache_salt);
    request.options.kv_export = prompt;
    request.kv_transfer.describe_export = [prompt, transfer] {
      return export_json(*prompt, *transfer);
    };
  }
  if (!asked.from) return;
  if (!transfer->config().consumes()) {
    refuse_transfer("this server is a kv_producer and continues no prompts of others");
  }
  const kv_cache::KvProducer& producer = asked.from->producer;
  if (!transfer->is_peer(producer)) {
    refuse_transfer(
        fmt::format("remote_host {} with remote_port {} is not one of the peers in the server's "
                    "kv_connector_extra_config",
                    visible_text(producer.host),
                    producer.port));
  }
}

}  // namespace reprise::server
