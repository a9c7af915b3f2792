#include "reprise/parallel/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace reprise::parallel {
namespace {

using std::chrono::milliseconds;

// A tag holds the purpose of an operation and its number, so that ranks that do different things
// never take each other's messages.
constexpr uint32_t kSequenceBits = 24;
constexpr uint32_t kSequenceMask = (1U << kSequenceBits) - 1;
// After all operations.
constexpr uint32_t kBeatTag = 15U << kSequenceBits;

// How often the watching thread looks for signs of life.
constexpr milliseconds kWatchInterval{100};
// A thread that waited longer than this was stopped itself, so the others' signs of life are still
// waiting to be received.
constexpr milliseconds kOwnPause{3'000};

// Messages between running ranks take microseconds. The waiting thread gives its core away between
// two looks, and later sleeps, because ranks may share cores.
void pause(std::chrono::steady_clock::duration waited) {
  if (waited < milliseconds(2)) {
    std::this_thread::yield();
  } else if (waited < milliseconds(200)) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string_view operation_name(Operation operation) noexcept {
  switch (operation) {
    case Operation::start_up:
      return "start-up";
    case Operation::command:
      return "command";
    case Operation::agreement:
      return "agreement";
    case Operation::data:
      return "data";
    case Operation::end:
      return "end";
  }
  return "unknown";
}

Communicator::Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options)
    : transport_(std::move(transport)),
      options_(options),
      rank_(transport_->rank()),
      size_(transport_->size()),
      peers_(static_cast<size_t>(size_)) {
  if (size_ > kMaxRanks) {
    throw InvalidArgument(fmt::format("{} ranks: at most {} can work together", size_, kMaxRanks));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Peer& entry = peers_[static_cast<size_t>(peer)];
    entry.heard = Clock::now();
    entry.beat_in = transport_->receive(peer, kBeatTag, &entry.received, sizeof entry.received);
  }
  if (size_ > 1) watcher_ = std::thread([this] { watch(); });
}

Communicator::~Communicator() { stop_watching(); }

void Communicator::stop_watching() {
  {
    const std::lock_guard lock(stop_mutex_);
    stops_ = true;
  }
  stop_condition_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Communicator::finish() {
  barrier(Operation::end);
  stop_watching();
  transport_->finish();
}

uint32_t Communicator::next_tag(Operation operation) noexcept {
  current_ = operation;
  sequence_ = (sequence_ + 1) & kSequenceMask;
  return (static_cast<uint32_t>(operation) << kSequenceBits) | sequence_;
}

void Communicator::all_gather(
    Operation operation, const void* mine, void* all, size_t bytes, Patience patience) {
  check();
  auto* const bytes_of_all = static_cast<std::byte*>(all);
  std::array<Message, 2 * static_cast<size_t>(kMaxRanks)> messages;
  size_t count = 0;
  if (bytes > 0) {
    std::memcpy(bytes_of_all + static_cast<size_t>(rank_) * bytes, mine, bytes);
  }
  {
    const std::lock_guard lock(transport_mutex_);
    const uint32_t tag = next_tag(operation);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      std::byte* const from_peer = bytes_of_all + static_cast<size_t>(peer) * bytes;
      messages[count++] = {.peer = peer,
                           .handle = transport_->receive(peer, tag, from_peer, bytes)};
      messages[count++] = {
          .peer = peer, .is_send = true, .handle = transport_->send(peer, tag, mine, bytes)};
    }
  }
  wait(std::span(messages).first(count), patience);
}

void Communicator::broadcast(
    Operation operation, int root, void* data, size_t bytes, Patience patience) {
  check();
  std::array<Message, kMaxRanks> messages;
  size_t count = 0;
  {
    const std::lock_guard lock(transport_mutex_);
    const uint32_t tag = next_tag(operation);
    if (rank_ != root) {
      messages[count++] = {.peer = root, .handle = transport_->receive(root, tag, data, bytes)};
    } else {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        messages[count++] = {
            .peer = peer, .is_send = true, .handle = transport_->send(peer, tag, data, bytes)};
      }
    }
  }
  wait(std::span(messages).first(count), patience);
}

void Communicator::barrier(Operation operation, Patience patience) {
  const std::byte nothing{};
  std::array<std::byte, kMaxRanks> all;
  all_gather(operation, &nothing, all.data(), 1, patience);
}

bool Communicator::try_all_gather(const void* mine, void* all, size_t bytes) noexcept {
  if (has_failed_) return false;
  try {
    all_gather(Operation::data, mine, all, bytes);
    return true;
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
}

bool Communicator::test_all(std::span<Message> messages) {
  const std::lock_guard lock(transport_mutex_);
  bool are_done = true;
  for (Message& message : messages) {
    if (!message.is_done) message.is_done = transport_->test(message.handle);
    are_done = are_done && message.is_done;
  }
  return are_done;
}

void Communicator::wait(std::span<Message> messages, Patience patience) {
  const Clock::time_point start = Clock::now();
  while (!test_all(messages)) {
    // Another thread noticed the loss of a rank.
    check();
    const Clock::duration waited = Clock::now() - start;
    if (patience == Patience::step && waited > options_.timeout) {
      fail_and_throw(late_text(messages));
    }
    pause(waited);
  }
}

std::string Communicator::late_text(std::span<const Message> messages) {
  std::string text;
  const std::lock_guard lock(transport_mutex_);
  for (const Message& message : messages) {
    if (message.is_done) continue;
    const std::string name = fmt::format("rank {}", message.peer);
    if (text.find(name + " ") != std::string::npos) continue;
    const auto tag = transport_->waiting_tag(message.peer, kBeatTag);
    text +=
        fmt::format("{}{} {}",
                    text.empty() ? "" : "; ",
                    name,
                    tag ? fmt::format("is at operation {} ({}) instead",
                                      *tag & kSequenceMask,
                                      operation_name(static_cast<Operation>(*tag >> kSequenceBits)))
                        : std::string("did not take part"));
  }
  return fmt::format(
      "rank {} waited {:.1f} s in operation {} ({}): {}; a rank is slow, stopped or "
      "does other work than the others",
      rank_,
      seconds_of(options_.timeout),
      sequence_,
      operation_name(current_),
      text);
}

void Communicator::check() const {
  if (!has_failed_) return;
  const std::lock_guard lock(failure_mutex_);
  throw RankError(failure_);
}

void Communicator::fail(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (has_failed_) return;
    failure_ = reason;
    has_failed_ = true;
  }
  if (options_.on_failure) options_.on_failure(reason);
}

void Communicator::fail_and_throw(const std::string& reason) {
  fail(reason);
  throw RankError(reason);
}

void Communicator::watch() {
  Clock::time_point last_look = Clock::now();
  Clock::time_point last_beat = last_look - options_.beat_interval;
  std::unique_lock lock(stop_mutex_);
  while (!stop_condition_.wait_for(lock, kWatchInterval, [this] { return stops_; })) {
    if (has_failed_) return;
    const Clock::time_point now = Clock::now();
    const bool was_stopped = now - last_look > kOwnPause;
    last_look = now;
    const bool is_time_to_send = now - last_beat >= options_.beat_interval;
    if (is_time_to_send) last_beat = now;
    try {
      exchange_beats(is_time_to_send);
    } catch (const std::exception& error) {
      fail(error.what());
      return;
    }
    if (was_stopped) {
      for (Peer& peer : peers_) peer.heard = now;
    }
    if (const std::string text = find_silent_peer(now); !text.empty()) {
      fail(text);
      return;
    }
  }
}

void Communicator::exchange_beats(bool is_time_to_send) {
  const std::lock_guard lock(transport_mutex_);
  if (is_time_to_send) ++beat_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Peer& entry = peers_[static_cast<size_t>(peer)];
    if (entry.is_sending) entry.is_sending = !transport_->test(entry.beat_out);
    if (is_time_to_send && !entry.is_sending) {
      entry.beat_out = transport_->send(peer, kBeatTag, &beat_, sizeof beat_);
      entry.is_sending = true;
    }
    while (transport_->test(entry.beat_in)) {
      entry.heard = Clock::now();
      entry.beat_in = transport_->receive(peer, kBeatTag, &entry.received, sizeof entry.received);
    }
  }
}

std::string Communicator::find_silent_peer(Clock::time_point now) const {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Clock::duration silence = now - peers_[static_cast<size_t>(peer)].heard;
    if (silence <= options_.silence) continue;
    return fmt::format(
        "rank {} has given no sign of life for {:.1f} s, noticed by rank {}: it was "
        "killed or stopped, or its machine is lost",
        peer,
        seconds_of(silence),
        rank_);
  }
  return {};
}

}  // namespace reprise::parallel
