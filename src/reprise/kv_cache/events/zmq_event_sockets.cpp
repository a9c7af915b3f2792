#include "reprise/kv_cache/events/zmq_event_sockets.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

// The library's interface of version 4, which has been stable since 2013. Its header is not needed.
constexpr const char* kZmqLibrary = "libzmq.so.5";
constexpr int kPub = 1;
constexpr int kRouter = 6;
constexpr int kReceiveMore = 13;
constexpr int kLinger = 17;
constexpr int kMaxMessageSize = 22;
constexpr int kSendHwm = 23;
constexpr int kReceiveHwm = 24;
constexpr int kIpv6 = 42;
constexpr int kXpubNoDrop = 69;
constexpr int kPair = 0;
constexpr int kEventConnected = 0x0001;
constexpr int kEventAccepted = 0x0020;
constexpr int kEventDisconnected = 0x0200;
constexpr int kDontWait = 1;
constexpr int kSendMore = 2;

struct ZmqApi {
  void* (*ctx_new)() = nullptr;
  int (*ctx_term)(void*) = nullptr;
  void* (*socket)(void*, int) = nullptr;
  int (*close)(void*) = nullptr;
  int (*bind)(void*, const char*) = nullptr;
  int (*connect)(void*, const char*) = nullptr;
  int (*setsockopt)(void*, int, const void*, size_t) = nullptr;
  int (*getsockopt)(void*, int, void*, size_t*) = nullptr;
  int (*send)(void*, const void*, size_t, int) = nullptr;
  int (*recv)(void*, void*, size_t, int) = nullptr;
  int (*last_errno)() = nullptr;
  const char* (*strerror)(int) = nullptr;
  int (*socket_monitor)(void*, const char*, int) = nullptr;
};

/// Memory for all messages that wait for subscribers. libzmq only limits the number of messages for
/// each subscriber, and keeps them as long as the subscriber is connected.
constexpr size_t kMaxWaitingBytes = size_t{32} << 20;
/// For each subscriber libzmq keeps three frames of a message. All subscribers share the payload.
constexpr size_t kFrameBytes = 3 * 64;
/// The number of payloads that may always wait: enough for a short pause of a subscriber that
/// reads.
constexpr size_t kLeastWaiting = 16;
/// Memory for answers to replay requests that peers may not have read. Above it all peers are
/// disconnected; peers that still read connect again.
constexpr size_t kMaxReplayedBytes = size_t{256} << 20;
/// Until the next update, new subscribers get this limit, with which the socket begins.
constexpr int kFirstHwm = 1000;
constexpr int kSendsBetweenUpdates = 64;

/// How many payloads may wait for each subscriber, if there are `num_subscribers`.
int waiting_limit(size_t num_subscribers, size_t payload_bytes, int hwm) {
  const size_t of_one = kMaxWaitingBytes / (num_subscribers * kFrameBytes + payload_bytes + 1);
  const size_t most = hwm == 0 ? std::numeric_limits<int>::max() : static_cast<size_t>(hwm);
  return static_cast<int>(std::min(std::max(of_one, kLeastWaiting), most));
}

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// \throws InvalidArgument
ZmqApi load_zmq() {
  void* library = dlopen(kZmqLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw InvalidArgument(
        fmt::format("--kv-events-config: events need {}, which cannot be loaded ({}); install "
                    "libzmq5 (Debian's "
                    "name), or leave enable_kv_cache_events out",
                    kZmqLibrary,
                    dlerror()));
  }
  ZmqApi api;
  const bool is_complete =
      resolve(library, "zmq_ctx_new", api.ctx_new) &&
      resolve(library, "zmq_ctx_term", api.ctx_term) &&
      resolve(library, "zmq_socket", api.socket) && resolve(library, "zmq_close", api.close) &&
      resolve(library, "zmq_bind", api.bind) && resolve(library, "zmq_connect", api.connect) &&
      resolve(library, "zmq_setsockopt", api.setsockopt) &&
      resolve(library, "zmq_getsockopt", api.getsockopt) &&
      resolve(library, "zmq_send", api.send) && resolve(library, "zmq_recv", api.recv) &&
      resolve(library, "zmq_errno", api.last_errno) &&
      resolve(library, "zmq_strerror", api.strerror) &&
      resolve(library, "zmq_socket_monitor", api.socket_monitor);
  if (!is_complete) {
    throw InvalidArgument(
        fmt::format("--kv-events-config: {} is not the library of ZeroMQ 4", kZmqLibrary));
  }
  return api;
}

std::array<char, 8> big_endian(uint64_t number) {
  std::array<char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

/// Whether to bind the socket: to endpoints with a wildcard and to local ones. It connects to all
/// others, as in vLLM.
bool is_listening(std::string_view endpoint) {
  return endpoint.find('*') != std::string_view::npos ||
         endpoint.find("::") != std::string_view::npos || endpoint.starts_with("ipc://") ||
         endpoint.starts_with("inproc://");
}

class ZmqEventSockets final : public EventSockets {
 public:
  explicit ZmqEventSockets(const KvEventsConfig& config)
      : zmq_(load_zmq()), config_(config), context_(zmq_.ctx_new()) {
    try {
      const int first_hwm = config.hwm == 0 ? kFirstHwm : std::min(config.hwm, kFirstHwm);
      events_ = open(kPub, first_hwm, "endpoint", config.endpoint, is_listening(config.endpoint));
      watch_connections();
      if (!config.replay_endpoint.empty()) replays_ = open_replays();
    } catch (...) {
      close();
      throw;
    }
  }
  ~ZmqEventSockets() override { close(); }

  EventDelivery send(const NumberedPayload& payload) override {
    update_limit(config_.topic.size() + payload.payload.size());
    // Tries to send to all subscribers or to none; a failure shows that some subscriber is behind.
    if (send_to(events_, payload)) return EventDelivery::sent;
    set(events_, kXpubNoDrop, 0);
    const bool is_sent = send_to(events_, payload);
    set(events_, kXpubNoDrop, 1);
    return is_sent ? EventDelivery::missed_by_some : EventDelivery::dropped;
  }

  void answer_replays(const ForEachFrom& payloads_from) override {
    if (config_.replay_endpoint.empty()) return;
    if (replayed_bytes_ > kMaxReplayedBytes && replays_ != nullptr) {
      zmq_.close(std::exchange(replays_, nullptr));
      replayed_bytes_ = 0;
    }
    try {
      if (replays_ == nullptr) replays_ = open_replays();
    } catch (const InvalidArgument&) {
      return;  // the address is not free again yet
    }
    // Bounded, so that many requests do not keep new events waiting.
    for (int i = 0; i < kMaxReplaysAtOnce && answer_one_replay(payloads_from); ++i) {
    }
  }

 private:
  static constexpr int kMaxReplaysAtOnce = 4;
  static constexpr int64_t kMaxTopicBytes = 4096;
  static constexpr int64_t kMaxRequestBytes = 64;  // a number has 8
  struct Frame {
    std::array<char, kMaxRequestBytes> bytes{};
    size_t size = 0;
    [[nodiscard]] std::string_view text() const { return {bytes.data(), size}; }
  };

  void* open_replays() {
    // A replay has at most all payloads that are kept, and an end message.
    const int kept = std::min(config_.buffer_steps, std::numeric_limits<int>::max() - 1) + 1;
    const int hwm = config_.hwm == 0 ? kept : std::min(config_.hwm, kept);
    return open(kRouter, hwm, "replay_endpoint", config_.replay_endpoint, true);
  }

  void set(void* socket, int option, int value) const {
    zmq_.setsockopt(socket, option, &value, sizeof(value));
  }

  /// From now on libzmq reports each subscriber that connects or disconnects.
  void watch_connections() {
    set(events_, kXpubNoDrop, 1);
    constexpr const char* kPlace = "inproc://reprise-kv-events-connections";
    if (zmq_.socket_monitor(
            events_, kPlace, kEventConnected | kEventAccepted | kEventDisconnected) != 0) {
      return;
    }
    connections_ = zmq_.socket(context_, kPair);
    if (connections_ != nullptr) zmq_.connect(connections_, kPlace);
  }

  void count_connections() {
    std::array<char, 6> event{};  // the kind of the event in two bytes, and a value
    while (connections_ != nullptr &&
           zmq_.recv(connections_, event.data(), event.size(), kDontWait) >= 0) {
      uint16_t kind = 0;
      std::memcpy(&kind, event.data(), sizeof(kind));
      std::array<char, 256> address{};
      (void)zmq_.recv(connections_, address.data(), address.size(), kDontWait);
      num_subscribers_ += kind == kEventDisconnected ? -1 : 1;
    }
  }

  /// Sets how many payloads may wait for each subscriber. libzmq applies the limit only to existing
  /// connections, so it is set again when subscribers connect.
  void update_limit(size_t payload_bytes) {
    // The mean size of about the last 16 payloads.
    mean_bytes_ += (static_cast<double>(payload_bytes) - mean_bytes_) / 16;
    if (--sends_until_update_ > 0) return;
    sends_until_update_ = kSendsBetweenUpdates;
    count_connections();
    set(events_,
        kSendHwm,
        waiting_limit(static_cast<size_t>(std::max(num_subscribers_, 1)),
                      static_cast<size_t>(mean_bytes_),
                      config_.hwm));
  }

  void* open(int type, int hwm, std::string_view key, const std::string& endpoint, bool listens) {
    void* const socket = zmq_.socket(context_, type);
    if (socket == nullptr) throw InvalidArgument(problem(key, endpoint));
    set(socket, kLinger, 0);
    set(socket, kSendHwm, hwm);
    set(socket, kReceiveHwm, hwm);
    // The largest message that peers may send: a topic to a PUB socket, a request to a ROUTER
    // socket.
    const int64_t max_bytes = type == kPub ? kMaxTopicBytes : kMaxRequestBytes;
    zmq_.setsockopt(socket, kMaxMessageSize, &max_bytes, sizeof(max_bytes));
    set(socket, kIpv6, static_cast<int>(endpoint.find("::") != std::string::npos));
    const int failed =
        listens ? zmq_.bind(socket, endpoint.c_str()) : zmq_.connect(socket, endpoint.c_str());
    if (failed == 0) return socket;
    std::string message = problem(key, endpoint);
    zmq_.close(socket);
    throw InvalidArgument(message);
  }

  [[nodiscard]] std::string problem(std::string_view key, const std::string& endpoint) const {
    return fmt::format(
        "--kv-events-config: {} {}: {}; expected a free address such as tcp://*:5557, "
        "tcp://[::]:5557 or ipc:///run/reprise/events, or tcp://HOST:PORT of a subscriber that "
        "listens",
        key,
        endpoint,
        zmq_.strerror(zmq_.last_errno()));
  }

  void close() {
    if (connections_ != nullptr) zmq_.close(connections_);
    if (events_ != nullptr) zmq_.close(events_);
    if (replays_ != nullptr) zmq_.close(replays_);
    if (context_ != nullptr) zmq_.ctx_term(context_);
  }

  bool send_frame(void* socket, std::string_view frame, int flags) {
    return zmq_.send(socket, frame.data(), frame.size(), flags | kDontWait) >= 0;
  }

  bool send_to(void* socket, const NumberedPayload& payload) {
    const std::array<char, 8> number = big_endian(payload.number);
    return send_frame(socket, config_.topic, kSendMore) &&
           send_frame(socket, {number.data(), number.size()}, kSendMore) &&
           send_frame(socket, payload.payload, 0);
  }

  /// One message: at most three frames, of which the first is the name of the peer. Returns the
  /// number of frames; 0: no message waits; more than three: a message that is not a request.
  size_t receive(std::array<Frame, 3>& frames) {
    size_t count = 0;
    for (int more = 1; more != 0; ++count) {
      Frame ignored;
      Frame& frame = count < frames.size() ? frames[count] : ignored;
      const int size = zmq_.recv(replays_, frame.bytes.data(), frame.bytes.size(), kDontWait);
      if (size < 0) return count == 0 ? 0 : frames.size() + 1;
      frame.size = std::min(static_cast<size_t>(size), frame.bytes.size());
      size_t more_size = sizeof(more);
      if (zmq_.getsockopt(replays_, kReceiveMore, &more, &more_size) != 0) more = 0;
    }
    return count;
  }

  /// Returns whether a request was waiting. A peer that does not read its answers, or has gone,
  /// gets no more answers.
  bool answer_one_replay(const ForEachFrom& payloads_from) {
    std::array<Frame, 3> request;
    const size_t num_frames = receive(request);
    if (num_frames == 0) return false;
    const auto& [peer, delimiter, number] = request;
    if (num_frames != request.size() || delimiter.size != 0 || number.size != 8) return true;
    bool is_reading = true;
    const auto begin = [&] {
      return send_frame(replays_, peer.text(), kSendMore) && send_frame(replays_, {}, kSendMore);
    };
    payloads_from(from_big_endian(number.text()), [&](const NumberedPayload& payload) {
      is_reading = begin() && send_to(replays_, payload);
      replayed_bytes_ += payload.payload.size() + 2 * kFrameBytes;
      return is_reading;
    });
    constexpr std::array<char, 8> kEnd = {-1, -1, -1, -1, -1, -1, -1, -1};
    if (is_reading && begin() && send_frame(replays_, {}, kSendMore) &&
        send_frame(replays_, {kEnd.data(), kEnd.size()}, kSendMore)) {
      (void)send_frame(replays_, {}, 0);
    }
    return true;
  }

  ZmqApi zmq_;
  KvEventsConfig config_;
  void* context_ = nullptr;
  void* events_ = nullptr;
  void* connections_ = nullptr;  // what libzmq tells about those of events_
  int num_subscribers_ = 0;
  double mean_bytes_ = 0;  // of payloads
  int sends_until_update_ = 0;
  size_t replayed_bytes_ = 0;  // to the peers of replays_
  void* replays_ = nullptr;
};

}  // namespace

std::unique_ptr<EventSockets> open_zmq_event_sockets(const KvEventsConfig& config) {
  return std::make_unique<ZmqEventSockets>(config);
}

}  // namespace reprise::kv_cache
