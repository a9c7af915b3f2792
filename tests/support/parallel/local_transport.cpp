#include "tests/support/parallel/local_transport.h"

#include <cstring>
#include <exception>
#include <thread>

#include "reprise/base/error.h"

namespace reprise::parallel {

void LocalHub::post(int from, int to, uint32_t tag, std::vector<std::byte> data) {
  const std::lock_guard lock(mutex_);
  if (silent_.contains(from)) return;
  boxes_[{from, to}].emplace_back(tag, std::move(data));
}

bool LocalHub::take(int from, int to, uint32_t tag, std::vector<std::byte>& data) {
  const std::lock_guard lock(mutex_);
  auto& box = boxes_[{from, to}];
  for (auto message = box.begin(); message != box.end(); ++message) {
    if (message->first != tag) continue;
    data = std::move(message->second);
    box.erase(message);
    return true;
  }
  return false;
}

std::optional<uint32_t> LocalHub::waiting_tag(int from, int to, uint32_t ignored) {
  const std::lock_guard lock(mutex_);
  for (const auto& [tag, data] : boxes_[{from, to}]) {
    if (tag != ignored) return tag;
  }
  return std::nullopt;
}

void LocalHub::silence(int rank) {
  const std::lock_guard lock(mutex_);
  silent_.insert(rank);
}

Transport::Handle LocalTransport::send(int to, uint32_t tag, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  hub_->post(rank_, to, tag, std::vector<std::byte>(begin, begin + bytes));
  return 0;
}

Transport::Handle LocalTransport::receive(int from, uint32_t tag, void* data, size_t bytes) {
  receives_[next_] = {.from = from, .tag = tag, .data = data, .bytes = bytes};
  return next_++;
}

bool LocalTransport::test(Handle handle) {
  if (handle == 0) return true;  // sends copy at once
  const Receive& receive = receives_.at(handle);
  std::vector<std::byte> data;
  if (!hub_->take(receive.from, rank_, receive.tag, data)) return false;
  if (data.size() != receive.bytes) throw Error("a message of another length");
  if (!data.empty()) std::memcpy(receive.data, data.data(), data.size());
  receives_.erase(handle);
  return true;
}

void run_ranks(int size,
               const std::function<void(int rank, const std::shared_ptr<LocalHub>&)>& run) {
  const auto hub = std::make_shared<LocalHub>(size);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(rank, hub);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace reprise::parallel
