#include "reprise/kv_cache/transfer/kv_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/kv_cache/transfer/kv_messages.h"
#include "reprise/kv_cache/transfer/kv_socket.h"

namespace reprise::kv_cache {
namespace {

/// A consumer sends its message as soon as it has connected.
constexpr std::chrono::seconds kMessagePatience{5};
/// The bytes that one connection may send before others have their turn.
constexpr size_t kBytesSentAtOnce = size_t{1} << 20;

/// At most this many connections are accepted at once, so that abandoned connections are closed
/// before more are opened.
constexpr int kMaxAcceptedAtOnce = 16;

class Serving;

/// The open connections. Shared by them; only for the loop's thread.
struct Guests {
  std::list<Serving*> silent;  // those whose first message has not arrived, the oldest first
  size_t num_open = 0;
};

/// One consumer.
class Serving final : public KvExchange {
 public:
  Serving(KvSocket peer,
          const KvTransferConfig& config,
          KvExports& exports,
          std::shared_ptr<Guests> guests)
      : peer_(std::move(peer)),
        host_(peer_.peer_host()),
        config_(&config),
        exports_(&exports),
        guests_(std::move(guests)),
        deadline_(Clock::now() + kMessagePatience) {
    ++guests_->num_open;
    guests_->silent.push_back(this);
  }
  ~Serving() override {
    --guests_->num_open;
    guests_->silent.remove(this);
  }

  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  /// Makes the exchange end in the loop's next round.
  void give_up() noexcept {
    deadline_ = Clock::time_point::min();
    guests_->silent.remove(this);
  }

  [[nodiscard]] AwaitedEvent awaited_event() const override {
    const bool reads = state_ == State::asked || state_ == State::done;
    return {peer_.descriptor(), static_cast<short>(reads ? POLLIN : POLLOUT), deadline_};
  }

  [[nodiscard]] bool advance() override {
    switch (state_) {
      case State::asked:
        if (!peer_.read_line(line_, kMaxMessageBytes)) return true;
        begin_answer();
        state_ = State::answer;
        [[fallthrough]];
      case State::answer:
        if (!send_line()) return true;
        state_ = State::image;
        [[fallthrough]];
      case State::image:
        if (!send_image()) return true;
        line_ = mac_ ? write_code(mac_->finish()) + "\n" : "";
        state_ = State::code;
        [[fallthrough]];
      case State::code:
        if (!send_line()) return true;
        line_.clear();
        state_ = State::done;
        [[fallthrough]];
      case State::done:
        break;
    }
    if (!peer_.read_line(line_, kMaxMessageBytes)) return true;
    if (is_done(line_)) exports_->remove(get_.id);
    return false;
  }

  void fail(std::string_view problem) noexcept override {
    // A peer that waits for the bytes of an image would read an error message as some of these
    // bytes.
    if (state_ != State::asked) return;
    try {
      const std::string line = write_error(problem) + "\n";
      (void)peer_.write(std::as_bytes(std::span(line)));
    } catch (const std::exception&) {
      // The peer is gone.
    }
  }

 private:
  enum class State : uint8_t { asked, answer, image, code, done };

  void begin_answer() {
    get_ = read_get(line_, config_->secret);
    image_ = exports_->find(get_.id);
    if (!image_) throw InvalidArgument("this prompt is not kept here (any more)");
    guests_->silent.remove(this);
    deadline_ = Clock::now() + config_->timeout;
    const KvAnswer answer = make_answer(*image_, get_, config_->secret);
    line_ = write_answer(answer) + "\n";
    unsent_ = image_->bytes.bytes();
    if (config_->signs_bytes()) mac_ = begin_code_of_bytes(answer, config_->secret);
  }

  /// Whether all of line_ is sent.
  [[nodiscard]] bool send_line() {
    while (num_sent_ < line_.size()) {
      const size_t sent = peer_.write(std::as_bytes(std::span(line_)).subspan(num_sent_));
      if (sent == 0) return false;
      num_sent_ += sent;
    }
    num_sent_ = 0;
    return true;
  }

  [[nodiscard]] bool send_image() {
    if (config_->connector == KvConnector::shared_memory) {
      return peer_.send_descriptor(image_->bytes.descriptor());
    }
    for (size_t budget = kBytesSentAtOnce; budget > 0 && !unsent_.empty();) {
      const size_t sent = peer_.write(unsent_.first(std::min(unsent_.size(), budget)));
      if (sent == 0) break;
      if (mac_) mac_->add_piece(unsent_.first(sent));
      unsent_ = unsent_.subspan(sent);
      budget -= sent;
    }
    return unsent_.empty();
  }

  KvSocket peer_;
  std::string host_;
  const KvTransferConfig* config_;  // of the KvTransfer
  KvExports* exports_;              // of the KvTransfer
  std::shared_ptr<Guests> guests_;
  State state_ = State::asked;
  Clock::time_point deadline_;
  std::string line_;  // what is read or sent
  size_t num_sent_ = 0;
  KvGet get_;
  std::shared_ptr<const KvImage> image_;
  std::span<const std::byte> unsent_;
  std::optional<KvMac> mac_;  // of the bytes
};

/// The socket at which consumers arrive.
class Listening final : public KvExchange {
 public:
  Listening(KvSocket listener, const KvTransferConfig& config, KvExports& exports, KvLoop& loop)
      : listener_(std::move(listener)), config_(&config), exports_(&exports), loop_(&loop) {}

  [[nodiscard]] AwaitedEvent awaited_event() const override {
    return {listener_.descriptor(), static_cast<short>(is_out_of_descriptors_ ? 0 : POLLIN)};
  }

  [[nodiscard]] bool advance() override {
    try {
      is_out_of_descriptors_ = false;
      for (int i = 0; i < kMaxAcceptedAtOnce; ++i) {
        std::optional<KvSocket> peer = listener_.accept();
        if (!peer) break;
        admit(std::move(*peer));
      }
    } catch (const Error&) {
      is_out_of_descriptors_ = true;  // tries again after a moment
    }
    return true;
  }

  void fail(std::string_view) noexcept override {}

 private:
  void admit(KvSocket peer) {
    std::list<Serving*>& silent = guests_->silent;
    const std::string host = peer.peer_host();
    const auto is_of_host = [&host](const Serving* other) { return other->host() == host; };
    const auto num_of_host = std::ranges::count_if(silent, is_of_host);
    if (std::cmp_greater_equal(num_of_host, KvServer::kMaxSilentOfOneHost)) {
      (*std::ranges::find_if(silent, is_of_host))->give_up();
    } else if (guests_->num_open >= KvServer::kMaxConnections) {
      if (silent.empty()) return;  // all of them work
      silent.front()->give_up();
    }
    loop_->add(std::make_unique<Serving>(std::move(peer), *config_, *exports_, guests_));
  }

  KvSocket listener_;
  const KvTransferConfig* config_;
  KvExports* exports_;
  KvLoop* loop_;
  std::shared_ptr<Guests> guests_ = std::make_shared<Guests>();
  bool is_out_of_descriptors_ = false;
};

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

KvServer::KvServer(const KvTransferConfig& config, KvExports& exports, KvLoop& loop) {
  KvSocket listener = open_listener(config);
  port_ = listener.port();
  loop.add(std::make_unique<Listening>(std::move(listener), config, exports, loop));
}

}  // namespace reprise::kv_cache
