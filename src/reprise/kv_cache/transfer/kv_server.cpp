#include "reprise/kv_cache/transfer/kv_server.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::kv_cache {
namespace {

/// Connections that are served side by side; others wait.
constexpr int kNumThreads = 4;
/// A peer that has connected sends its line at once.
constexpr std::chrono::seconds kPatience{5};
constexpr size_t kMaxLineBytes = 4096;
constexpr JsonLimits kLineLimits{.max_bytes = kMaxLineBytes, .max_depth = 2, .max_parts = 16};

Json read_message(KvSocket& peer, KvSocket::Clock::time_point deadline) {
  Json message = parse_json(peer.read_line(kMaxLineBytes, deadline), "a KV transfer", kLineLimits);
  if (!message.is_object()) throw InvalidArgument("a KV transfer: expected a JSON object");
  return message;
}

std::string text_of(const Json& message, const char* name) {
  const auto found = message.find(name);
  if (found == message.end() || !found->is_string()) {
    throw InvalidArgument(fmt::format("a KV transfer: expected a text {}", name));
  }
  return found->get<std::string>();
}

KvSocket open_listener(const KvTransferConfig& config) {
  try {
    return config.connector == KvConnector::tcp ? KvSocket::listen(config.kv_ip, config.kv_port)
                                                : KvSocket::listen_here(config.kv_port);
  } catch (const Error& error) {
    throw InvalidArgument(
        fmt::format("--kv-transfer-config: cannot listen at {}; choose another kv_port (0: any "
                    "free one), or a kv_ip of this machine",
                    error.what()));
  }
}

}  // namespace

KvServer::KvServer(const KvTransferConfig& config, KvExports& exports)
    : timeout_(config.timeout),
      shares_memory_(config.connector == KvConnector::shared_memory),
      exports_(&exports),
      listener_(open_listener(config)) {
  for (int i = 0; i < kNumThreads; ++i) threads_.emplace_back([this] { run(); });
}

KvServer::~KvServer() {
  ends_ = true;
  listener_.shut_down();
}

void KvServer::run() {
  for (;;) {
    try {
      KvSocket peer = listener_.accept(&ends_);
      if (!peer.is_valid()) return;
      try {
        serve(peer);
      } catch (const std::exception& error) {
        peer.write_line(Json{{"status", "error"}, {"message", error.what()}}.dump(
                            -1, ' ', false, Json::error_handler_t::replace),
                        KvSocket::Clock::now() + kPatience);
      }
    } catch (const std::exception&) {
      // The peer is gone, or the process has no descriptor left; the next connection may be better.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

void KvServer::serve(KvSocket& peer) const {
  const auto asked = KvSocket::Clock::now();
  const Json request = read_message(peer, asked + kPatience);
  const std::string op = text_of(request, "op");
  const std::string id = text_of(request, "id");
  if (op != "get") throw InvalidArgument(fmt::format("expected op get, got {}", op));
  const std::shared_ptr<const KvImage> image = exports_->find(id);
  if (!image) throw InvalidArgument("this prompt is not kept here (any more)");
  const auto deadline = asked + timeout_;
  peer.write_line(Json{{"status", "ok"},
                       {"model", image->model},
                       {"prompt", image->prompt},
                       {"num_tokens", image->num_tokens},
                       {"num_bytes", image->bytes.bytes().size()}}
                      .dump(),
                  deadline);
  if (shares_memory_) {
    peer.send_descriptor(image->bytes.descriptor(), deadline);
  } else {
    peer.write(image->bytes.bytes(), deadline);
  }
  if (text_of(read_message(peer, deadline), "op") == "done") exports_->remove(id);
}

std::shared_ptr<const KvImage> fetch_image(const KvTransferConfig& config,
                                           const KvCacheLayout& layout,
                                           const KvSource& source,
                                           std::string_view model,
                                           std::span<const int32_t> token_ids,
                                           std::string_view adapter,
                                           const std::atomic<bool>* end) {
  const auto deadline = KvSocket::Clock::now() + config.timeout;
  KvSocket peer = config.connector == KvConnector::tcp
                      ? KvSocket::connect(source.host, source.port, deadline, end)
                      : KvSocket::connect_here(source.port, deadline, end);
  peer.write_line(Json{{"op", "get"}, {"id", source.id}}.dump(), deadline);
  const Json answer = read_message(peer, deadline);
  if (text_of(answer, "status") != "ok") throw Error(text_of(answer, "message"));
  auto image = std::make_shared<KvImage>();
  image->model = text_of(answer, "model");
  image->prompt = text_of(answer, "prompt");
  if (image->model != model) {
    throw Error(
        fmt::format("it has another model or cache: expected {}, got {}", model, image->model));
  }
  image->num_tokens = answer.value("num_tokens", 0);
  const bool is_a_beginning =
      image->num_tokens > 0 && std::cmp_less_equal(image->num_tokens, token_ids.size()) &&
      image->prompt ==
          prompt_digest(token_ids.first(static_cast<size_t>(image->num_tokens)), adapter);
  if (!is_a_beginning) throw Error("it computed another prompt, or this one with another adapter");
  const size_t num_bytes = kv_image_bytes(layout, image->num_tokens);
  if (answer.value("num_bytes", size_t{0}) != num_bytes) {
    throw Error(fmt::format("expected {} bytes, got {}", num_bytes, answer.at("num_bytes").dump()));
  }
  if (config.connector == KvConnector::shared_memory) {
    image->bytes = SharedBytes::adopt(peer.receive_descriptor(deadline), num_bytes);
  } else {
    image->bytes = SharedBytes(num_bytes);
    peer.read(image->bytes.writable(), deadline);
  }
  peer.write_line(Json{{"op", "done"}, {"id", source.id}}.dump(), deadline);
  return image;
}

}  // namespace reprise::kv_cache
