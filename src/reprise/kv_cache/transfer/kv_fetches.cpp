#include "reprise/kv_cache/transfer/kv_fetches.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/kv_cache/transfer/kv_messages.h"

namespace reprise::kv_cache {
namespace {

/// A reachable producer answers at once.
constexpr std::chrono::seconds kPatience{5};
/// The bytes that one connection may receive before others have their turn.
constexpr size_t kBytesAtOnce = size_t{1} << 20;

}  // namespace

/// One fetch that has a connection. It lives in the loop; finish() ends it.
class KvFetches::Fetching final : public KvExchange {
 public:
  Fetching(KvFetches& owner, Task task)
      : owner_(&owner),
        config_(owner.config_),
        task_(std::move(task)),
        get_{.id = task_.wanted.source.id, .nonce = random_digits()},
        end_(task_.begin + config_->timeout),
        deadline_(std::min(end_, Clock::now() + kPatience)) {}

  [[nodiscard]] AwaitedEvent awaited_event() const override {
    // A local listener with too many connections gives no event when it has room, so try again
    // later.
    if (!peer_ || (state_ == State::connecting && is_local())) return {-1, 0, deadline_};
    const bool writes = state_ == State::connecting || state_ == State::asking;
    return {peer_->descriptor(), static_cast<short>(writes ? POLLOUT : POLLIN), deadline_};
  }

  [[nodiscard]] bool advance() override {
    switch (state_) {
      case State::connecting:
        if (!connect()) return true;
        line_ = write_get(get_, config_->secret) + "\n";
        state_ = State::asking;
        [[fallthrough]];
      case State::asking:
        if (!send_line()) return true;
        state_ = State::answer;
        [[fallthrough]];
      case State::answer:
        if (!peer_->read_line(line_, kMaxMessageBytes)) return true;
        begin_image();
        state_ = State::image;
        [[fallthrough]];
      case State::image:
        if (!read_image()) return true;
        state_ = State::code;
        [[fallthrough]];
      case State::code:
        break;
    }
    if (mac_ && !check_code()) return true;
    tell_done();
    end({.image = std::move(image_), .error = {}});
    return false;
  }

  void fail(std::string_view problem) noexcept override {
    end({.image = nullptr, .error = std::string(problem)});
  }

 private:
  enum class State : uint8_t { connecting, asking, answer, image, code };

  [[nodiscard]] bool is_local() const { return config_->connector == KvConnector::shared_memory; }

  /// Tries one address after the other.
  [[nodiscard]] bool connect() {
    for (;;) {
      const KvAddress& address = task_.addresses[next_address_];
      try {
        if (!peer_) peer_.emplace(address);
        return peer_->connect(address);
      } catch (const Error&) {
        if (++next_address_ == task_.addresses.size()) throw;
        peer_.reset();
      }
    }
  }

  [[nodiscard]] bool send_line() {
    while (!line_.empty()) {
      const size_t sent = peer_->write(std::as_bytes(std::span(line_)));
      if (sent == 0) return false;
      line_.erase(0, sent);
    }
    return true;
  }

  /// Checks everything in the answer, and allocates memory only for an image that is wanted.
  void begin_image() {
    const KvAnswer answer = read_answer(line_, get_, config_->secret);
    line_.clear();
    if (answer.model != owner_->model_) {
      throw Error(fmt::format(
          "it has another model or cache: expected {}, got {}", owner_->model_, answer.model));
    }
    const std::span<const int32_t> tokens = task_.wanted.token_ids;
    std::string digest;
    if (answer.num_tokens > 0 && std::cmp_less_equal(answer.num_tokens, tokens.size())) {
      digest = prompt_digest(tokens.first(static_cast<size_t>(answer.num_tokens)),
                             task_.wanted.adapter,
                             task_.wanted.cache_salt);
    }
    if (digest.empty() ||
        !is_same_code(answer.prompt, code_of_prompt(digest, get_, config_->secret))) {
      throw Error("it computed another prompt, or this one with another adapter or cache_salt");
    }
    const size_t num_bytes = kv_image_bytes(owner_->layout_, answer.num_tokens);
    if (answer.num_bytes != num_bytes) {
      throw Error(fmt::format("expected {} bytes, got {}", num_bytes, answer.num_bytes));
    }
    make_image(answer, std::move(digest), num_bytes);
    if (config_->signs_bytes()) mac_ = begin_code_of_bytes(answer, config_->secret);
    deadline_ = end_;
  }

  void make_image(const KvAnswer& answer, std::string digest, size_t num_bytes) {
    struct Held {
      std::shared_ptr<const void> room;
      KvImage image;
    };
    auto held = std::make_shared<Held>();
    held->room = owner_->take_room(num_bytes);
    held->image = {.model = answer.model,
                   .prompt = std::move(digest),
                   .num_tokens = answer.num_tokens,
                   .is_trusted = config_->trusts_peers(),
                   .bytes = is_local() ? SharedBytes() : SharedBytes(num_bytes)};
    num_bytes_ = num_bytes;
    unread_ = held->image.bytes.writable();
    image_ = std::shared_ptr<KvImage>(held, &held->image);
  }

  [[nodiscard]] bool read_image() {
    if (is_local()) {
      const std::optional<int> descriptor = peer_->receive_descriptor();
      if (descriptor) image_->bytes = SharedBytes::adopt(*descriptor, num_bytes_);
      return descriptor.has_value();
    }
    for (size_t budget = kBytesAtOnce; budget > 0 && !unread_.empty();) {
      const std::span<std::byte> next = unread_.first(std::min(unread_.size(), budget));
      const size_t received = peer_->read(next);
      if (received == 0) break;
      if (mac_) mac_->add_piece(next.first(received));
      unread_ = unread_.subspan(received);
      budget -= received;
    }
    return unread_.empty();
  }

  /// Whether the code has arrived. \throws Error when it is wrong
  [[nodiscard]] bool check_code() {
    if (!peer_->read_line(line_, kMaxMessageBytes)) return false;
    if (!is_same_code(read_code(line_), mac_->finish())) {
      throw Error("the bytes do not have the authentication code of their producer");
    }
    return true;
  }

  /// Tells the producer that it may forget the image. If this message is lost, the producer forgets
  /// the image later.
  void tell_done() noexcept {
    try {
      const std::string line = write_done(get_) + "\n";
      (void)peer_->write(std::as_bytes(std::span(line)));
    } catch (const std::exception&) {
      // The producer is gone.
    }
  }

  void end(KvFetch::Result result) { owner_->finish(task_, std::move(result), true); }

  KvFetches* owner_;
  const KvTransferConfig* config_;  // of the owner
  Task task_;
  KvGet get_;
  Clock::time_point end_;
  Clock::time_point deadline_;
  State state_ = State::connecting;
  size_t next_address_ = 0;
  std::optional<KvSocket> peer_;
  std::string line_;  // what is read or sent
  std::shared_ptr<KvImage> image_;
  size_t num_bytes_ = 0;
  std::span<std::byte> unread_;
  std::optional<KvMac> mac_;  // of the bytes
};

KvFetches::KvFetches(const KvTransferConfig& config,
                     const KvCacheLayout& layout,
                     std::string model,
                     KvLoop& loop)
    : config_(&config),
      layout_(layout),
      model_(std::move(model)),
      loop_(&loop),
      look_ups_([this](const std::stop_token& stop) { run_look_ups(stop); }) {}

void KvFetches::fetch(KvFetch wanted) {
  const KvProducer producer = wanted.source.producer;
  const bool is_local = config_->connector == KvConnector::shared_memory;
  Task task{.wanted = std::move(wanted), .addresses = {}, .begin = KvExchange::Clock::now()};
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    Producer& to = producers_[producer];
    if (stops_) {
      problem = "the server is shutting down";
    } else if (to.num_tasks >= kMaxOfOne || num_tasks_ >= kMaxOfAll) {
      problem = fmt::format(
          "{} prompts of this producer and {} of all wait to be fetched", to.num_tasks, num_tasks_);
    }
    ++to.num_tasks;
    ++num_tasks_;
    if (problem.empty() && !is_local && !KvSocket::is_numeric(producer.host)) {
      names_.push_back(std::move(task));
      has_names_.notify_one();
      return;
    }
  }
  if (!problem.empty()) return finish(task, {.image = nullptr, .error = problem}, false);
  task.addresses = is_local ? std::vector<KvAddress>{KvSocket::address_here(producer.port)}
                            : KvSocket::look_up(producer.host, producer.port);
  begin(std::move(task));
}

void KvFetches::run_look_ups(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (has_names_.wait(lock, stop, [this] { return !names_.empty(); })) {
    Task task = std::move(names_.front());
    names_.pop_front();
    lock.unlock();
    try {
      const KvProducer& producer = task.wanted.source.producer;
      task.addresses = KvSocket::look_up(producer.host, producer.port);
      begin(std::move(task));
    } catch (const Error& error) {
      finish(task, {.image = nullptr, .error = error.what()}, false);
    }
    lock.lock();
  }
}

void KvFetches::begin(Task task) {
  {
    const std::lock_guard lock(mutex_);
    Producer& producer = producers_[task.wanted.source.producer];
    if (producer.num_connections == kMaxConnectionsToOne && !stops_) {
      producer.ready.push_back(std::move(task));
      return;
    }
    ++producer.num_connections;
  }
  loop_->add(std::make_unique<Fetching>(*this, std::move(task)));
}

void KvFetches::finish(const Task& task, KvFetch::Result result, bool had_connection) {
  const std::chrono::duration<double> took = KvExchange::Clock::now() - task.begin;
  const KvProducer& from = task.wanted.source.producer;
  std::optional<Task> next;
  {
    const std::lock_guard lock(mutex_);
    counts_.seconds += took.count();
    if (result.image == nullptr) {
      ++counts_.num_failed;
      result.error =
          fmt::format("the keys and values of the prompt could not be fetched from {}:{}: {}",
                      from.host,
                      from.port,
                      result.error);
    } else {
      ++counts_.num_fetched;
      counts_.bytes_fetched += result.image->bytes.bytes().size();
      counts_.tokens_fetched += static_cast<uint64_t>(result.image->num_tokens);
    }
    Producer& producer = producers_[from];
    --num_tasks_;
    if (had_connection) --producer.num_connections;
    if (had_connection && !producer.ready.empty()) {
      next = std::move(producer.ready.front());
      producer.ready.pop_front();
    }
    if (--producer.num_tasks == 0) producers_.erase(from);
  }
  // From here on only the receiver holds the image.
  task.wanted.on_fetched(std::move(result));
  if (next) begin(std::move(*next));
}

void KvFetches::stop() {
  std::deque<Task> left;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    left.swap(names_);
    for (auto& [from, producer] : producers_) {
      std::ranges::move(producer.ready, std::back_inserter(left));
      producer.ready.clear();
    }
  }
  look_ups_.request_stop();
  for (const Task& task : left) {
    finish(task, {.image = nullptr, .error = "the server is shutting down"}, false);
  }
}

std::shared_ptr<const void> KvFetches::take_room(size_t num_bytes) {
  const auto give_back = [held = bytes_held_, num_bytes](const void*) { *held -= num_bytes; };
  *bytes_held_ += num_bytes;
  std::shared_ptr<const void> room(bytes_held_.get(), give_back);
  if (std::cmp_greater(bytes_held_->load(), config_->kv_buffer_size)) {
    throw Error(
        fmt::format("other prompts fill the kv_buffer_size of {} bytes", config_->kv_buffer_size));
  }
  return room;
}

KvTransferCounts KvFetches::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace reprise::kv_cache
